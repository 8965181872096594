/* SPDX-License-Identifier: ISC */
#include "shard/row_store.h"

#define ROW_STORE(name) extern const struct row_store_ops row_store_##name;
#include "layout/row_store.def"
#undef ROW_STORE

static const struct row_store_ops *const stores[] = {
#define ROW_STORE(name) [ROW_STORE_##name] = &row_store_##name,
#include "layout/row_store.def"
#undef ROW_STORE
};

extern const struct row_store_ops row_store_packed, row_store_tiered;

const struct row_store_ops *row_store_of(const struct table *t, const struct spill *spill)
{
	if (t->policy.ram && spill)
		return &row_store_tiered;
	return t->policy.values == ELEMENT_f32 ? stores[t->row_store] : &row_store_packed;
}

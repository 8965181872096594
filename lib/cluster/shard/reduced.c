/* SPDX-License-Identifier: ISC */
#include "shard/reduced.h"

bool reduced_has_push(const struct part *p)
{
	mutex_assert_held(&p->lock);
	for (uint32_t i = 0; i < p->pushes.nlast; i++)
		if (p->pushes.last[i] > p->step)
			return true;
	return false;
}

bool reduced_may_get_push(const struct sync *sync, uint64_t step)
{
	for (uint32_t i = 0; i < sync->nranks; i++)
		if (sync->rank[i].active && sync->rank[i].complete_from <= step)
			return true;
	return false;
}

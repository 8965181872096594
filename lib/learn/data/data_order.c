/* SPDX-License-Identifier: ISC */
#include "data/data_order.h"

#include "core/mem.h"
#include "core/rng.h"

void data_order(uint64_t seed, uint64_t epoch, uint32_t n, uint32_t *out)
{
	struct rng r;

	/* Mixed twice, so that (seed, epoch + 1) is not (seed + 1, epoch). */
	rng_init(&r, rng_mix(rng_mix(seed) ^ epoch));
	rng_permutation(&r, out, n);
}

const uint32_t *data_epoch_order(struct data_epoch_order *o, uint64_t epoch)
{
	if (o->order && o->epoch == epoch)
		return o->order;
	if (!o->order)
		o->order = mem_array((size_t)o->n + 1, sizeof *o->order);
	data_order(o->seed, epoch, o->n, o->order);
	o->epoch = epoch;
	return o->order;
}

void data_epoch_order_release(struct data_epoch_order *o)
{
	free(o->order);
	o->order = NULL;
}

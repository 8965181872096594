/* SPDX-License-Identifier: ISC */
#ifndef DATA_ORDER_H
#define DATA_ORDER_H

#include <stdint.h>

/* The order in which epoch `epoch` visits n examples: a permutation of 0..n-1 that depends on
 * (seed, epoch, n) alone, so that all machines agree on it. Pure. */
void data_order(uint64_t seed, uint64_t epoch, uint32_t n, uint32_t *out);

/* The order of the epoch that was asked for last, so that it is made once for all its steps. Set seed and
 * n, and zero the rest. One thread. */
struct data_epoch_order {
	uint64_t seed, epoch;
	uint32_t n;
	uint32_t *order; /* NULL: none was asked for yet */
};
/* data_order's n numbers for this epoch; valid until the next call. */
const uint32_t *data_epoch_order(struct data_epoch_order *o, uint64_t epoch);
void data_epoch_order_release(struct data_epoch_order *o);

#endif

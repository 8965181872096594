/* SPDX-License-Identifier: ISC */
#ifndef DATA_ORDER_H
#define DATA_ORDER_H

#include <stdint.h>

/* The order in which epoch `epoch` visits n examples: a permutation of 0..n-1 that depends on
 * (seed, epoch, n) alone, so that all machines agree on it. Fills out[0], .., out[end - begin - 1] with
 * the examples at the positions [begin, end) of the order; end <= n. The cost is that of end - begin
 * examples: the workers of a job compute each epoch's order once, all together. Pure. */
void data_order(uint64_t seed, uint64_t epoch, uint32_t n, uint32_t begin, uint32_t end,
    uint32_t *out);

#endif

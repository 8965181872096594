/* SPDX-License-Identifier: ISC */
#ifndef DATA_SPLIT_H
#define DATA_SPLIT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"

/* A share of the training data that is held out: never trained on, and used to evaluate the model
 * (job.validate). The data are `n` units, examples or blocks. A unit is held out when a hash of its
 * number and the seed says so, so that all workers hold out the same ones. Pure. */
struct data_split {
	uint32_t *train, *held_out; /* the units of each part, ascending */
	uint32_t ntrain, nheld_out;
};

/* Parses "20%"; "none" is 0. ERR_CONFIG: a sentence without the key. */
enum err_code data_split_parse(const char *text, double *share, struct err *e);
/* Is the unit of this identity, such as its number, in the share that is held out? */
bool data_split_holds_out(uint64_t seed, double share, uint64_t identity);
/* Splits n units; 0 < share < 1. Both parts have a unit at least. ERR_CONFIG: n is less than 2. */
enum err_code data_split_make(uint64_t seed, double share, uint32_t n, struct data_split *out,
    struct err *e);
void data_split_release(struct data_split *s);

#endif

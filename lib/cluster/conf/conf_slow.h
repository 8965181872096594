/* SPDX-License-Identifier: ISC */
#ifndef CONF_CONF_SLOW_H
#define CONF_CONF_SLOW_H

#include <stdint.h>

#include "core/err.h"

/* job.slow: how much slower than they are the workers compute, to study what slow workers cost.
 * Pure. */
struct conf_slow {
	double seconds; /* a step's computation takes so long at least; 0: as long as it takes */
	double chance, times; /* with this probability it takes `times` as long */
	double always; /* this worker takes this many times as long in each step; 1: no slower */
};

/* Parses "none" or "[TIME,][N%xTIMES,]worker-RANKxTIMES,...", each part of which may be missing,
 * for the worker of a rank. ERR_CONFIG: a sentence without the key. */
enum err_code conf_slow_parse(const char *text, uint32_t rank, struct conf_slow *out,
    struct err *e);
/* Returns the highest rank that a text names which conf_slow_parse() accepts; -1: none. */
int64_t conf_slow_last_rank(const char *text);

#endif

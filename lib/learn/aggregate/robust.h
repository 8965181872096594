/* SPDX-License-Identifier: ISC */
#ifndef AGGREGATE_ROBUST_H
#define AGGREGATE_ROBUST_H

#include "core/err.h"

/* Greatest K of trimmed:K: less than half of the 4096 workers that there may be. */
#define ROBUST_TRIMMED_MAX 2047

/* Robust aggregation: how the gradients of a bsp step become one, so that a few bad ones cannot
 * spoil it. This folder only names the aggregators and parses them; cluster/shard/robust.h computes
 * them. There is no state, thread or lock.
 *
 * ROBUST_NONE: the mean, weighted by examples. ROBUST_MEDIAN: the median of each coordinate.
 * ROBUST_TRIMMED: for each coordinate, the mean without the K lowest and the K highest values.
 * ROBUST_CLIP: the mean, after each gradient longer than X times the median length was shortened to
 * that. */
enum robust_kind { ROBUST_NONE, ROBUST_MEDIAN, ROBUST_TRIMMED, ROBUST_CLIP };

/* An aggregator with its parameter. */
struct robust {
	enum robust_kind kind;
	unsigned trim; /* K of trimmed:K */
	double clip;   /* X of clip:X */
};

/* Parses "none", "median", "trimmed:K" or "clip:X" into *out. ERR_CONFIG with a sentence
 * otherwise. */
enum err_code robust_parse(const char *text, struct robust *out, struct err *e);

#endif

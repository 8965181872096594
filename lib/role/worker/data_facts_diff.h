/* SPDX-License-Identifier: ISC */
#ifndef WORKER_DATA_FACTS_DIFF_H
#define WORKER_DATA_FACTS_DIFF_H

#include "core/err.h"
#include "core/json.h"

/* Takes a difference between the descriptions a and b of training data (data_facts.h): what is
 * features, classes, columns, categories, frequencies, scaling, words or other, and text says how, on
 * one line, with the names "A" and "B". Both live as long as the call. */
typedef void data_facts_difference_fn(void *ctx, const char *what, const char *text);

/* Calls fn once for each kind of difference; never for descriptions that are equal but for the
 * names of files. NULL is a checkpoint without a description. ERR_FORMAT: one is damaged. Pure
 * but for fn. */
enum err_code data_facts_diff(const json_t *a, const json_t *b, data_facts_difference_fn *fn,
    void *ctx, struct err *e);

#endif

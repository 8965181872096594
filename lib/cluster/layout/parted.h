/* SPDX-License-Identifier: ISC */
#ifndef LAYOUT_PARTED_H
#define LAYOUT_PARTED_H

#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "layout/layout.h"

/* Rows of a table, sorted by partition: those of partition i are first[i] .. first[i + 1] - 1, in
 * the order in which they were given. */
struct parted {
	uint64_t *ids;
	float *rows;
	size_t *first; /* nparts + 1 entries */
};
/* Sorts n rows (rows NULL: ids alone) into *out, which parted_release frees, also after an error.
 * ERR_NOMEM. */
enum err_code parted_make(const struct table *t, const uint64_t *ids, const float *rows, size_t n,
    struct parted *out, struct err *e);
void parted_release(struct parted *p);

#endif

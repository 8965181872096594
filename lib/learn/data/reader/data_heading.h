/* SPDX-License-Identifier: ISC */
#ifndef DATA_HEADING_H
#define DATA_HEADING_H

#include "core/err.h"
#include "format/stream.h"

/* Refuses headings in which the name of a column is ambiguous: columns are matched by their names, so
 * that one of two equal names would be taken without a word. Pure. Columns without a name are matched in
 * their order. */

enum data_heading_use { DATA_HEADING_UNUSED, DATA_HEADING_FEATURE, DATA_HEADING_LABEL };

/* Checks the heading of training data: columns that are used have different names. use: what each of the
 * n columns is. ERR_FORMAT names both columns. */
enum err_code data_heading_check(const struct stream *s, const char *const *name,
    const enum data_heading_use *use, size_t n, struct err *e);
/* Checks the heading of a further file, or of evaluation data: it has no name of the nknown columns of the
 * training data more often than these. Names in `known` that are NULL may occur any number of times.
 * ERR_FORMAT names both columns. */
enum err_code data_heading_check_known(const struct stream *s, const char *const *name, size_t n,
    const char *const *known, size_t nknown, struct err *e);

#endif

/* SPDX-License-Identifier: ISC */
#ifndef LAYOUT_VALUES_H
#define LAYOUT_VALUES_H

#include <stddef.h>
#include <stdint.h>

#include "core/err.h"

/* Checks that parameters are finite numbers, for whoever reads them first. A layer may hide one that is not:
 * relu makes 0 of NaN. ERR_NONFINITE: the message names the table, the row and the value. */

/* n elements of a dense table of this width, from element `first` on. */
enum err_code values_check_dense(const char *table, uint32_t cols, uint64_t first, const float *w,
    size_t n, struct err *e);
/* n rows of a sparse table of this width. */
enum err_code values_check_rows(const char *table, uint32_t cols, const uint64_t *ids,
    const float *w, size_t n, struct err *e);

#endif

/* SPDX-License-Identifier: ISC */
#include "layout/values.h"

#include <math.h>

#include "math/vec.h"

static size_t find_nonfinite(const float *w, size_t n)
{
	size_t i = 0;

	while (i < n && isfinite(w[i]))
		i++;
	return i;
}

static enum err_code report_value(const char *table, uint64_t row, uint64_t col, float value,
    struct err *e)
{
	return err_set(e, ERR_NONFINITE, "table \"%s\" has the value %s in row %llu, column %llu",
	    table,
	    isnan(value)    ? "NaN"
	        : value < 0 ? "-infinity"
	                    : "infinity",
	    (unsigned long long)row, (unsigned long long)col);
}

enum err_code values_check_dense(const char *table, uint32_t cols, uint64_t first, const float *w,
    size_t n, struct err *e)
{
	size_t i;

	if (vec_all_finite(n, w))
		return ERR_OK;
	i = find_nonfinite(w, n);
	return report_value(table, (first + i) / cols, (first + i) % cols, w[i], e);
}

enum err_code values_check_rows(const char *table, uint32_t cols, const uint64_t *ids,
    const float *w, size_t n, struct err *e)
{
	size_t i;

	if (vec_all_finite(n * cols, w))
		return ERR_OK;
	i = find_nonfinite(w, n * cols);
	return report_value(table, ids[i / cols], i % cols, w[i], e);
}

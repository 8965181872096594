/* SPDX-License-Identifier: ISC */
#ifndef MATH_STORED_ROWS_H
#define MATH_STORED_ROWS_H

#include "math/element.h"

/* Rows of values as they lie in a file, one after the other at any alignment. Either all values have one
 * type; or they are signed bytes, and the values of a row are its bytes times a scale of its own, as in
 * the 8-bit embedding tables of PyTorch's FBGEMM, but without an offset. No errors, any thread. */
struct stored_rows {
	const uint8_t *at;      /* NULL: there are none */
	enum element_type type; /* of the values, unless they are bytes */
	/* The scales of the rows, float32 in little-endian order; NULL: the values are not bytes. */
	const uint8_t *scale;
};

/* Reads n rows of `cols` values from row `first` on, as float32. */
void stored_rows_get(const struct stored_rows *r, size_t cols, uint64_t first, size_t n, float *to);

/* The scale of a row as bytes: its largest magnitude / 127, which is not finite if a value is not. */
float stored_row_scale(size_t cols, const float *row);
/* Makes the bytes of a row, -127 to 127: its values divided by the scale, to nearest, ties to even. The
 * scale is that of stored_row_scale, and finite. */
void stored_row_narrow(size_t cols, const float *row, float scale, int8_t *to);
/* Multiplies the bytes of a row by its scale. */
void stored_row_widen(size_t cols, const int8_t *from, float scale, float *to);

#endif

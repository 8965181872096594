/* SPDX-License-Identifier: ISC */
#include "model/layer.h"

#include <math.h>
#include <string.h>

#include "math/blas.h"
#include "math/gemv.h"
#include "math/vec.h"

void layer_fill_bias(size_t rows, size_t k, const float *bias, float *out)
{
	for (size_t r = 0; r < rows; r++)
		memcpy(out + r * k, bias, k * sizeof *out);
}

void layer_bias_grad(size_t rows, size_t k, const float *delta, float *gbias)
{
	memset(gbias, 0, k * sizeof *gbias);
	for (size_t r = 0; r < rows; r++)
		vec_add(k, delta + r * k, gbias);
}

/* Starts from the bias and adds x w. Sparse: row col[i] of w is the weight of entry i, and a row of
 * the batch costs as many additions as it has entries. */
void layer_input(const struct batch *b, size_t k, const float *w, const float *bias, float *out)
{
	layer_fill_bias(b->rows, k, bias, out);
	if (!b->sparse) {
		if (k == 1)
			gemv_add(b->rows, b->cols, b->x, w, out);
		else
			blas_gemm(false, false, b->rows, k, b->cols, 1, b->x, w, 1, out);
		return;
	}
	for (size_t r = 0; r < b->rows; r++)
		for (uint32_t i = b->start[r]; i < b->start[r + 1]; i++) {
			const float *row = w + b->col[i] * k;

			if (k == 1)
				out[r] += b->val[i] * *row;
			else
				vec_axpy(k, b->val[i], row, out + r * k);
		}
}

/* Sparse: gw has a row for each distinct feature of the batch (b->nids), not of the data. Rows are
 * cleared first, because entries add to them. */
void layer_input_grad(const struct batch *b, size_t k, const float *delta, float *gw, float *gbias)
{
	layer_bias_grad(b->rows, k, delta, gbias);
	if (!b->sparse) {
		if (k == 1)
			gemv_transposed(b->rows, b->cols, b->x, delta, gw);
		else
			blas_gemm(true, false, b->cols, k, b->rows, 1, b->x, delta, 0, gw);
		return;
	}
	if (b->nids > 0)
		memset(gw, 0, b->nids * k * sizeof *gw);
	for (size_t r = 0; r < b->rows; r++)
		for (uint32_t i = b->start[r]; i < b->start[r + 1]; i++) {
			float *row = gw + b->col[i] * k;

			if (k == 1)
				*row += b->val[i] * delta[r];
			else
				vec_axpy(k, b->val[i], delta + r * k, row);
		}
}

void layer_activate(bool hyperbolic, size_t n, float *z)
{
	if (hyperbolic)
		for (size_t i = 0; i < n; i++)
			z[i] = tanhf(z[i]);
	else
		for (size_t i = 0; i < n; i++)
			z[i] = z[i] > 0 ? z[i] : 0;
}

void layer_activate_back(bool hyperbolic, size_t n, const float *restrict d, float *restrict h)
{
	if (hyperbolic)
		for (size_t i = 0; i < n; i++)
			h[i] = d[i] * (1 - h[i] * h[i]);
	else
		for (size_t i = 0; i < n; i++) {
			/* read unconditionally, so that there is no branch */
			float back = d[i];

			h[i] = h[i] > 0 ? back : 0;
		}
}

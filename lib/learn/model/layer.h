/* SPDX-License-Identifier: ISC */
#ifndef MODEL_LAYER_H
#define MODEL_LAYER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "data/batch/batch.h"

/* Layers that models share. The batch's input x is (rows, features); in the sparse case features
 * are the batch's compact ids. k is the layer's width. Pure. */

/* out (rows, k) = x w + bias, for w (features, k) and bias (k). */
void layer_input(const struct batch *b, size_t k, const float *w, const float *bias, float *out);

/* gw (features, k) = x^T delta and gbias (k) = column sums of delta (rows, k);
 * both are written whole. */
void layer_input_grad(const struct batch *b, size_t k, const float *delta, float *gw, float *gbias);

/* Bias and column sums for any layer: fills out (rows, k) with the bias; sums delta's columns. */
void layer_fill_bias(size_t rows, size_t k, const float *bias, float *out);
void layer_bias_grad(size_t rows, size_t k, const float *delta, float *gbias);

/* Applies tanh, or else relu, to n values in place. */
void layer_activate(bool hyperbolic, size_t n, float *z);
/* Replaces h by d * act'(z), where act' is computed from h = act(z). */
void layer_activate_back(bool hyperbolic, size_t n, const float *restrict d, float *restrict h);

#endif

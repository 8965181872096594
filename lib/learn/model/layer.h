/* SPDX-License-Identifier: ISC */
#ifndef MODEL_LAYER_H
#define MODEL_LAYER_H

#include <stddef.h>
#include <stdint.h>

#include "data/batch.h"

/* Layers that models share. The batch's input x is (rows, features); in the sparse case features
 * are the batch's compact ids. k is the layer's width. Pure. */

/* out (rows, k) = x w + bias, for w (features, k) and bias (k). */
void layer_input(const struct batch *b, size_t k, const float *w, const float *bias, float *out);

/* gw (features, k) = x^T delta and gbias (k) = column sums of delta (rows, k);
 * both are written whole. */
void layer_input_grad(const struct batch *b, size_t k, const float *delta, float *gw, float *gbias);

/* s(f) = 1 / (1 + exp(-f)), and -y log s(f) - (1 - y) log(1 - s(f)), for any f. */
double layer_sigmoid(double f);
double layer_logistic_loss(double f, double y);

/* Bias and column sums for any layer: fills out (rows, k) with the bias; sums delta's columns. */
void layer_fill_bias(size_t rows, size_t k, const float *bias, float *out);
void layer_bias_grad(size_t rows, size_t k, const float *delta, float *gbias);

/* Replaces z (b->rows, k) by the softmax of each row. Returns the summed cross entropy, weight (log sum
 * exp z - z[label]), computed before any probability can round to 0; for b->label NULL it returns 0. */
double layer_softmax(const struct batch *b, size_t k, float *z);

/* Replaces p (b->rows, k), which layer_softmax has filled, by the gradient of the mean cross entropy
 * by the logits: weight (p - [j = label]) / rows. */
void layer_softmax_delta(const struct batch *b, size_t k, float *p);

#endif

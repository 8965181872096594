/* SPDX-License-Identifier: ISC */
#include <math.h>

#include "loss/loss.h"
#include "math/vec.h"

/* The cross entropy of classes, whose probabilities are the softmax of the outputs: log sum exp f -
 * f[label]. */

/* The scores are the probabilities. The largest output is subtracted first, so that exp cannot
 * overflow and the sum is at least 1; the loss is computed before any probability can round to
 * 0. */
static double softmax_scores(const struct batch *b, size_t k, float *f)
{
	const int32_t *label = b->label;
	double loss = 0;

	for (size_t r = 0; r < b->rows; r++, f += k) {
		float top = f[0];
		double sum = 0, wanted = label != NULL ? (double)f[label[r]] : 0;

		for (size_t j = 1; j < k; j++)
			top = f[j] > top ? f[j] : top;
		for (size_t j = 0; j < k; j++) {
			f[j] = expf(f[j] - top);
			sum += (double)f[j];
		}
		for (size_t j = 0; j < k; j++)
			f[j] = (float)((double)f[j] / sum);
		if (label != NULL)
			loss += (log(sum) + ((double)top - wanted)) * (double)batch_weight(b, r);
	}
	return loss;
}

/* The derivative by output j is its probability, less 1 where j is the label. */
static double softmax_grad(const struct batch *b, size_t k, float *f)
{
	double loss = softmax_scores(b, k, f);

	for (size_t r = 0; r < b->rows; r++)
		f[r * k + (size_t)b->label[r]] -= 1;
	vec_scale(b->rows * k, 1 / (float)b->rows, f);
	for (size_t r = 0; b->weight != NULL && r < b->rows; r++)
		vec_scale(k, b->weight[r], f + r * k);
	return loss;
}

static const char *softmax_graph(struct onnx *g, const char *f)
{
	return onnx_op(g, "Softmax", f, NULL);
}

const struct loss_ops loss_softmax = {
	.name = "softmax",
	.target = LOSS_CLASSES,
	.probabilities = true,
	.grad_rows = softmax_grad,
	.score_rows = softmax_scores,
	.graph = softmax_graph,
};

/* SPDX-License-Identifier: ISC */
#include "model/glm.h"

/* Softmax, or multinomial logistic, regression: P(class) = softmax(f). */
const struct model_kind model_kind_softmax = {
	.fits = glm_fits,
	.plan = glm_plan,
	.scratch = glm_scratch,
	.grad = glm_grad,
	.forward = glm_forward,
	.parts = glm_parts,
	.graph = glm_graph,
};

/* SPDX-License-Identifier: ISC */
#include "model/glm.h"

/* Logistic regression: P(y = 1) = s(f) for s(f) = 1 / (1 + exp(-f)). */
const struct model_kind model_kind_logistic = {
	.fits = glm_fits,
	.plan = glm_plan,
	.scratch = glm_scratch,
	.grad = glm_grad,
	.forward = glm_forward,
	.parts = glm_parts,
	.graph = glm_graph,
};

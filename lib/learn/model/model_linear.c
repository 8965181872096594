/* SPDX-License-Identifier: ISC */
#include "model/glm.h"

/* Linear regression: least squares unless job.loss says otherwise. */
const struct model_kind model_kind_linear = {
	.fits = glm_fits,
	.plan = glm_plan,
	.scratch = glm_scratch,
	.grad = glm_grad,
	.forward = glm_forward,
	.parts = glm_parts,
	.graph = glm_graph,
};

/* SPDX-License-Identifier: ISC */
#include "optim/stale.h"

/* Zhang et al., Staleness-aware async-SGD for distributed deep learning, IJCAI 2016. */
static uint64_t divide_by_staleness(uint64_t staleness)
{
	return staleness > 1 ? staleness : 1;
}

const struct stale_ops stale_scaled = {
	.name = "scaled",
	.help = "the learning rate is divided by the staleness (Zhang et al. 2016)",
	.rate_divisor = divide_by_staleness,
};

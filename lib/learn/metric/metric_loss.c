/* SPDX-License-Identifier: ISC */
#include "metric/metric.h"

/* The mean of the model's own loss. */

struct loss {
	double sum;
};

static bool suits_all(const struct metric_scores *of)
{
	(void)of;
	return true;
}

static enum err_code add_loss(void *summary, const struct metric_batch *x, struct err *e)
{
	(void)e;
	((struct loss *)summary)->sum += x->loss;
	return ERR_OK;
}

static enum err_code merge_losses(void *summary, const void *other, struct err *e)
{
	(void)e;
	((struct loss *)summary)->sum += ((const struct loss *)other)->sum;
	return ERR_OK;
}

static bool mean_loss(void *summary, const struct metric_scores *of, double n, double *out)
{
	(void)of;
	*out = ((struct loss *)summary)->sum / n;
	return true;
}

static const struct metric_summary_ops summary_loss = { sizeof(struct loss), add_loss, merge_losses,
	NULL, NULL };

const struct metric_ops metric_loss = { &summary_loss, suits_all, mean_loss };

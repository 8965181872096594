/* SPDX-License-Identifier: ISC */
#include "metric/detail.h"

#include <stdlib.h>

#include "core/mem.h"

static enum err_code count_classes(struct metric_detail *d, const struct metric_batch *x,
    struct err *e)
{
	d->classes = x->of.task == MODEL_TWO ? 2 : x->of.outputs;
	if (d->classes > METRIC_DETAIL_CLASSES)
		return ERR_OK;
	if (!d->confusion)
		d->confusion = mem_try_array(d->classes * d->classes, sizeof *d->confusion);
	if (!d->confusion)
		return err_set(e, ERR_NOMEM, "no memory for the confusion matrix");
	for (size_t r = 0; r < x->batch->rows; r++)
		d->confusion[metric_true_class(x, r) * d->classes +
		    metric_predicted_class(x, x->scores + r * x->of.outputs)] += (double)
		    batch_weight(x->batch, r);
	return ERR_OK;
}

enum err_code metric_detail_add(struct metric_detail *d, const struct metric_scores *of,
    const struct batch *b, const float *scores, struct err *e)
{
	const struct metric_batch x = { .of = *of, .batch = b, .scores = scores };
	enum err_code rc = metric_suits_classes(of) ? count_classes(d, &x, e) : ERR_OK;

	d->of = *of;
	d->has_calibration = metric_suits_probabilities(of);
	if (!rc && d->has_calibration)
		rc = summary_probabilities.add(&d->calibration, &x, e);
	return rc;
}

void metric_detail_release(struct metric_detail *d)
{
	free(d->confusion);
	*d = (struct metric_detail){ 0 };
}

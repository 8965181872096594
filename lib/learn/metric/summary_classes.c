/* SPDX-License-Identifier: ISC */
#include "metric/summary.h"

#include <stdlib.h>

#include "core/mem.h"

/* The number of classes decides the size. */
static enum err_code reserve_classes(struct class_counts *s, size_t classes, struct err *e)
{
	if (s->class)
		return ERR_OK;
	s->classes = classes;
	s->class = mem_try_array(classes, sizeof *s->class);
	return s->class ? ERR_OK : err_set(e, ERR_NOMEM, "no memory for the counts of the classes");
}

static enum err_code add_classes(void *summary, const struct metric_batch *x, struct err *e)
{
	struct class_counts *s = summary;
	enum err_code rc = reserve_classes(s, x->of.task == MODEL_TWO ? 2 : x->of.outputs, e);

	for (size_t r = 0; !rc && r < x->batch->rows; r++) {
		size_t predicted = metric_predicted_class(x, x->scores + r * x->of.outputs),
		       real = metric_true_class(x, r);
		double weight = (double)batch_weight(x->batch, r);

		s->class[predicted].predicted += weight;
		s->class[real].real += weight;
		s->class[real].both += predicted == real ? weight : 0;
	}
	return rc;
}

static enum err_code merge_classes(void *summary, const void *other, struct err *e)
{
	struct class_counts *s = summary;
	const struct class_counts *o = other;
	enum err_code rc = o->class ? reserve_classes(s, o->classes, e) : ERR_OK;

	for (size_t i = 0; !rc && i < o->classes; i++) {
		s->class[i].both += o->class[i].both;
		s->class[i].predicted += o->class[i].predicted;
		s->class[i].real += o->class[i].real;
	}
	return rc;
}

static void release_classes(void *summary)
{
	free(((struct class_counts *)summary)->class);
}

double summary_classes_f1(const struct class_count *c)
{
	return 2 * c->both / (c->predicted + c->real);
}

const struct metric_summary_ops summary_classes = { sizeof(struct class_counts), add_classes,
	merge_classes, release_classes, NULL };

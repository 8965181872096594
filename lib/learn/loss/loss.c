/* SPDX-License-Identifier: ISC */
#include "loss/loss.h"

#include <math.h>
#include <string.h>

#include "core/num.h"
#include "core/suggest.h"

static const struct loss_ops *const all[] = {
#define LOSS(name, form) &loss_##name,
#include "loss/loss.def"
#undef LOSS
};

enum { COUNT = sizeof all / sizeof *all };

static enum err_code fail_unknown_loss(const char *text, struct err *e)
{
	const char *names[COUNT], *near;

	for (size_t i = 0; i < COUNT; i++)
		names[i] = all[i]->name;
	near = suggest(text, names, COUNT);
	return err_set(e, ERR_CONFIG, "there is no loss \"%.80s\"%s%s%s", text,
	    near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

static enum err_code parse_argument(const char *text, struct loss_spec *l, struct err *e)
{
	const struct loss_ops *ops = l->ops;

	if (ops->arg_most == 0)
		return err_set(e, ERR_CONFIG, "%s has no argument, got \"%.80s\"", ops->name, text);
	if (num_double(text, &l->arg) && l->arg > 0 && l->arg < ops->arg_most)
		return ERR_OK;
	return isinf(ops->arg_most)
	    ? err_set(e, ERR_CONFIG, "%s:X needs a number above 0, got \"%.80s\"", ops->name, text)
	    : err_set(e, ERR_CONFIG, "%s:X needs a number between 0 and %g, got \"%.80s\"",
	          ops->name, ops->arg_most, text);
}

enum err_code loss_parse(const char *text, struct loss_spec *out, struct err *e)
{
	size_t len = strcspn(text, ":");

	for (size_t i = 0; i < COUNT; i++) {
		if (strlen(all[i]->name) != len || memcmp(text, all[i]->name, len) != 0)
			continue;
		*out = (struct loss_spec){ .ops = all[i], .arg = all[i]->arg };
		return text[len] ? parse_argument(text + len + 1, out, e) : ERR_OK;
	}
	return fail_unknown_loss(text, e);
}

size_t loss_outputs(const struct loss_spec *l, size_t classes, size_t targets)
{
	return l->ops->target == LOSS_CLASSES ? classes : targets;
}

bool loss_gives_probabilities(const struct loss_spec *l)
{
	return l->ops && l->ops->probabilities;
}

struct loss_spec loss_scaled(const struct loss_spec *l, double c)
{
	return (struct loss_spec){ l->ops,
		l->ops->scale_arg ? l->ops->scale_arg(l->arg, c) : l->arg,
		l->times != 0 ? l->times * c : c };
}

double loss_unscaled(const struct loss_spec *l, double value)
{
	for (unsigned i = 0; l->times != 0 && i < l->ops->degree; i++)
		value /= l->times;
	return value;
}

double loss_quantile_of(const struct loss_spec *l)
{
	return l->ops && l->ops->quantile ? l->ops->quantile(l->arg) : 0;
}

/* Replaces column k of the outputs by the gradient of target k. Returns its summed loss. */
static double grad_column(const struct loss_spec *l, const struct batch *b, size_t outputs,
    size_t k, float *f)
{
	double sum = 0, n = (double)b->rows, slope;

	if (l->ops->grad_column)
		return l->ops->grad_column(b, outputs, k, f);
	for (size_t r = 0, i = k; r < b->rows; r++, i += outputs) {
		double weight = (double)batch_weight(b, r);

		sum += loss_at(l, (double)f[i], (double)b->y[i], &slope) * weight;
		f[i] = (float)(slope / n * weight);
	}
	return sum;
}

double loss_grad(const struct loss_spec *l, const struct batch *b, size_t outputs, float *f)
{
	double sum = 0, n = (double)b->rows;

	if (l->ops->grad_rows)
		return l->ops->grad_rows(b, outputs, f) / n;
	for (size_t k = 0; k < outputs; k++)
		sum += loss_unscaled(&l[k], grad_column(&l[k], b, outputs, k, f) / n);
	return sum;
}

/* Replaces column k of the outputs by the scores. Returns the summed loss of target k. */
static double score_column(const struct loss_spec *l, const struct batch *b, size_t outputs,
    size_t k, float *f)
{
	double sum = 0, slope;

	for (size_t r = 0, i = k; r < b->rows; r++, i += outputs) {
		if (b->y)
			sum += loss_at(l, (double)f[i], (double)b->y[i], &slope) *
			    (double)batch_weight(b, r);
		f[i] = (float)loss_score(l, (double)f[i]);
	}
	return sum;
}

double loss_scores(const struct loss_spec *l, const struct batch *b, size_t outputs, float *f)
{
	double sum = 0;

	if (l->ops->score_rows)
		return l->ops->score_rows(b, outputs, f);
	for (size_t k = 0; k < outputs; k++)
		sum += loss_unscaled(&l[k], score_column(&l[k], b, outputs, k, f));
	return sum;
}

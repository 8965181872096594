/* SPDX-License-Identifier: ISC */
#include "codec/filter.h"

#include <math.h>
#include <string.h>

#include "core/num.h"

static const struct kind {
	const char *name;
	double most; /* upper limit of the argument, whose lower limit is 0 */
	bool below;  /* the argument must be below the limit, not equal to it */
} kinds[] = {
	[FILTER_NONE] = { "none", 0, false },
	[FILTER_KKT] = { "kkt", 1, false },
	[FILTER_THRESHOLD] = { "threshold", 1e30, false },
	[FILTER_SKIP] = { "skip", 1, true },
};

/* The position of a name in `kinds` is its enum filter_kind. An argument in the wrong range falls
 * through to the one message that describes all forms. */
enum err_code filter_parse(const char *text, struct filter *out, struct err *e)
{
	const char *arg = strchr(text, ':');
	size_t len = arg ? (size_t)(arg - text) : strlen(text);

	*out = (struct filter){ 0 };
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		const struct kind *k = &kinds[i];

		if (strlen(k->name) != len || strncmp(k->name, text, len) != 0)
			continue;
		out->kind = (enum filter_kind)i;
		if (i == FILTER_NONE && !arg)
			return ERR_OK;
		if (i != FILTER_NONE && arg && num_double(arg + 1, &out->arg) && out->arg > 0 &&
		    out->arg <= k->most && !(k->below && out->arg >= k->most))
			return ERR_OK;
	}
	return err_set(e, ERR_CONFIG,
	    "must be none, kkt:D with D above 0 and at most 1, threshold:T with T above 0, or skip:P with P "
	    "above 0 and below 1, got \"%.40s\"",
	    text);
}

static float largest_magnitude(const float *x, size_t n)
{
	float max = 0;

	for (size_t i = 0; i < n; i++)
		max = fabsf(x[i]) > max ? fabsf(x[i]) : max;
	return max;
}

bool filter_holds(const struct filter *f, struct rng *rng, double l1, const float *g,
    const float *w, size_t cols)
{
	switch (f->kind) {
	case FILTER_KKT:
		return w && largest_magnitude(w, cols) == 0 &&
		    (double)largest_magnitude(g, cols) <= f->arg * l1;
	case FILTER_THRESHOLD:
		return (double)largest_magnitude(g, cols) <= f->arg;
	case FILTER_SKIP:
		return rng_unit(rng) < f->arg;
	default:
		return false;
	}
}

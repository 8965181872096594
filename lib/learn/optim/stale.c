/* SPDX-License-Identifier: ISC */
#include "optim/stale.h"

#include <stdio.h>
#include <string.h>

#include "core/num.h"

static const struct stale_ops *const compensations[] = {
#define STALE(name) &stale_##name,
#include "optim/stale.def"
#undef STALE
};

bool stale_parse(const char *text, struct stale *out)
{
	size_t len = strcspn(text, ":");
	double lambda;

	for (size_t i = 0; i < sizeof compensations / sizeof *compensations; i++) {
		const struct stale_ops *ops = compensations[i];

		if (strlen(ops->name) != len || memcmp(text, ops->name, len) != 0)
			continue;
		*out = (struct stale){ ops, ops->lambda };
		if (!text[len])
			return true;
		if (ops->lambda == 0 || !num_double(text + len + 1, &lambda) ||
		    !(lambda > 1e-30 && lambda <= STALE_LAMBDA_MAX))
			return false;
		out->lambda = (float)lambda;
		return true;
	}
	return false;
}

void stale_format(const struct stale *s, char out[static STALE_TEXT])
{
	if (!s->ops)
		out[0] = '\0';
	else if (s->lambda == s->ops->lambda)
		snprintf(out, STALE_TEXT, ":%s", s->ops->name);
	else
		snprintf(out, STALE_TEXT, ":%s:%g", s->ops->name, (double)s->lambda);
}

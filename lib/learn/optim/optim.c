/* SPDX-License-Identifier: ISC */
#include "optim/optim.h"

#include <string.h>

static const struct optim_rule *const rules[] = {
#define RULE(name, number) &optim_rule_##name,
#include "optim/optim.def"
#undef RULE
};

enum { NRULES = sizeof rules / sizeof rules[0] };

const struct optim_rule *optim_at(size_t i)
{
	return i < NRULES ? rules[i] : NULL;
}

const struct optim_rule *optim_find(const char *name)
{
	for (size_t i = 0; i < NRULES; i++)
		if (strcmp(rules[i]->name, name) == 0)
			return rules[i];
	return NULL;
}

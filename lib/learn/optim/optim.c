/* SPDX-License-Identifier: ISC */
#include "optim/optim.h"

#include <fnmatch.h>
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

bool table_rules_match(const char *pattern, const char *table)
{
	return fnmatch(pattern, table, FNM_NOESCAPE) == 0;
}

struct table_rules_choice table_rules_choose(const struct table_rules *list, const char *table,
    const struct optim_rule *rule, const struct optim_hyper *hyper)
{
	for (unsigned i = 0; i < list->n; i++)
		if (table_rules_match(list->of[i].pattern, table))
			return (struct table_rules_choice){ list->of[i].rule, &list->of[i].hyper,
				list->of[i].on_arrival };
	return (struct table_rules_choice){ rule, hyper, false };
}

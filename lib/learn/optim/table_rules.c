/* SPDX-License-Identifier: ISC */
#include "optim/table_rules.h"

#include <fnmatch.h>

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

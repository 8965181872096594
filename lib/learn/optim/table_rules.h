/* SPDX-License-Identifier: ISC */
#ifndef OPTIM_TABLE_RULES_H
#define OPTIM_TABLE_RULES_H

#include "optim/optim.h"

/* Update rules of single tables, beside the one of the job: a list of patterns of table names, each
 * with a rule and its constants. Plain values without pointers to memory, so that a struct
 * assignment copies a list. Pure: no state, no threads. */
enum { TABLE_RULES_MAX = 16, TABLE_RULES_PATTERN = 64 };

struct table_rule {
	char pattern[TABLE_RULES_PATTERN]; /* '*' stands for any text, '?' for one character */
	const struct optim_rule *rule;
	struct optim_hyper hyper; /* lr before the schedule */
	/* Each push is an update of its own, also where the pushes of a step are summed for other
	 * tables. */
	bool on_arrival;
};

struct table_rules {
	unsigned n;
	struct table_rule of[TABLE_RULES_MAX];
};

/* The rule of one table and its constants, borrowed from a list or from the job's. */
struct table_rules_choice {
	const struct optim_rule *rule;
	const struct optim_hyper *hyper; /* lr before the schedule */
	bool on_arrival;
};

/* Does the pattern match the name of a table? */
bool table_rules_match(const char *pattern, const char *table);
/* The rule of the first pattern that matches the table, else the job's rule and constants. */
struct table_rules_choice table_rules_choose(const struct table_rules *list, const char *table,
    const struct optim_rule *rule, const struct optim_hyper *hyper);

#endif

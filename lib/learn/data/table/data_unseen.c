/* SPDX-License-Identifier: ISC */
#include "data/table/data_unseen.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "data/data_build.h"

struct data_unseen {
	_Atomic uint64_t categories;
	_Atomic bool number;
	bool categories_logged, number_logged;
	/* the first of each kind; written by the thread that noted it */
	char column[DATA_SHOWN], text[DATA_SHOWN], number_column[DATA_SHOWN];
	double v, mean;
};

struct data_unseen *data_unseen_new(void)
{
	return mem_alloc(sizeof(struct data_unseen));
}

void data_unseen_free(struct data_unseen *u)
{
	free(u);
}

void data_unseen_category(struct data_unseen *u, const char *column, const char *text)
{
	if (!u || atomic_fetch_add(&u->categories, 1))
		return;
	data_shown(u->column, column, strlen(column));
	data_shown(u->text, text, strlen(text));
}

void data_unseen_number(struct data_unseen *u, const char *column, double v, double mean)
{
	if (!u || atomic_exchange(&u->number, true))
		return;
	data_shown(u->number_column, column, strlen(column));
	u->v = v;
	u->mean = mean;
}

void data_unseen_log(struct data_unseen *u, const char *which, struct log *log)
{
	uint64_t n = u ? atomic_load(&u->categories) : 0;

	if (n && !u->categories_logged)
		log_warn(log,
		    "%s have values of categories that the training data lack, and that are left out: %" PRIu64
		    " so far, such as \"%s\" in column \"%s\"",
		    which, n, u->text, u->column);
	if (u && atomic_load(&u->number) && !u->number_logged)
		log_warn(log,
		    "%s have numbers that are far from those of the training data, such as %.9g in column \"%s\", "
		    "whose mean is %.4g; predictions for such examples are a guess",
		    which, u->v, u->number_column, u->mean);
	if (!u)
		return;
	u->categories_logged = n > 0;
	u->number_logged = atomic_load(&u->number);
}

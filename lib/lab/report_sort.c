/* SPDX-License-Identifier: ISC */
#include "lab/report_sort.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/json.h"
#include "core/mem.h"
#include "lab/curve.h"
#include "lab/report_table.h"

/* Costs are sorted too: the run that took least comes first. */
static const char *const costs[] = { "seconds", "steps", "examples", "pushed_bytes",
	"pulled_bytes" };

struct ranked {
	struct report_run run;
	size_t at;    /* in the order before */
	double score; /* the lower the better; INFINITY: the run lacks the figure */
};

static bool is_cost(const char *name)
{
	for (size_t i = 0; i < sizeof costs / sizeof *costs; i++)
		if (strcmp(costs[i], name) == 0)
			return true;
	return false;
}

/* Returns how good the run is, the lower the better; m: NULL for a cost. */
static double score_run(const struct report_run *r, const char *name, const struct curve_metric *m)
{
	char *figure = mem_printf("%s%s", m && m->evaluated ? "eval." : "", m ? m->name : name);
	const json_t *v = report_figure(r->result, figure);
	double score = INFINITY;

	free(figure);
	if (json_is_number(v))
		score = m ? -metrics_goodness(m->measure, json_number_value(v))
		          : json_number_value(v);
	return isnan(score) ? INFINITY : score;
}

/* For qsort(). */
static int compare_ranked(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;

	if (x->score < y->score || y->score < x->score)
		return x->score < y->score ? -1 : 1;
	return (x->at > y->at) - (x->at < y->at);
}

enum err_code report_run_sort(struct report_run *list, size_t n, const char *name, struct err *e)
{
	bool cost = is_cost(name);
	struct ranked *ranked;
	struct curve_metric m;

	if (!cost && curve_metric_find(name, &m, e) != ERR_OK)
		return e ? e->code : ERR_USAGE;
	ranked = mem_array(n + 1, sizeof *ranked);
	for (size_t i = 0; i < n; i++)
		ranked[i] = (struct ranked){ list[i], i,
			score_run(&list[i], name, cost ? NULL : &m) };
	qsort(ranked, n, sizeof *ranked, compare_ranked);
	for (size_t i = 0; i < n; i++)
		list[i] = ranked[i].run;
	free(ranked);
	return ERR_OK;
}

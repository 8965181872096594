/* SPDX-License-Identifier: ISC */
#include <stdio.h>
#include <stdlib.h>

#include "core/json.h"
#include "core/mem.h"
#include "lab/sweep.h"

/* Lists the run directories of a point, rung by rung. The list ends with NULL. */
static char **list_rungs(const struct sweep *s, const struct point *p)
{
	char **dirs = mem_array(p->rung + 2, sizeof *dirs);

	for (size_t k = 0; k <= p->rung; k++)
		dirs[k] = sweep_point_rung_path(s, p, k, ".run");
	return dirs;
}

/* The runs of a plot, made from points. */
struct picked {
	struct report_run run[CURVE_SET_MAX];
	char **dirs[CURVE_SET_MAX];
	size_t n;
};

static void pick_point(struct picked *to, const struct sweep *s, struct point *p)
{
	struct report_run *r = &to->run[to->n];

	to->dirs[to->n++] = list_rungs(s, p);
	*r = (struct report_run){ .dir = sweep_point_path(s, p, ".run"),
		.name = p->id,
		.state = sweep_point_state_name(p),
		.settings = p->settings,
		.result = p->result };
}

static void release_picked(struct picked *x)
{
	for (size_t i = 0; i < x->n; i++) {
		for (char **dir = x->dirs[i]; *dir; dir++)
			free(*dir);
		free(x->dirs[i]);
		free(x->run[i].dir);
	}
}

enum err_code sweep_plot(const struct sweep *s, struct point *const *order,
    const struct curve_options *o, struct err *e)
{
	struct picked x = { .n = 0 };
	size_t begun = 0;
	enum err_code rc;

	for (size_t i = 0; i < s->npoints; i++) {
		if (!sweep_point_has_run(s, order[i], 0))
			continue;
		begun++;
		if (x.n < CURVE_SET_MAX)
			pick_point(&x, s, order[i]);
	}
	if (begun > x.n)
		fprintf(stderr, "the plot shows the best %zu of %zu points\n", x.n, begun);
	rc = x.n ? curve_set_show(o, x.run, x.dirs, x.n, e)
	         : err_set(e, ERR_NOTFOUND, "there is no plot, because no point has run");
	release_picked(&x);
	return rc;
}

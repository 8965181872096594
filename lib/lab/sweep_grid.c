/* SPDX-License-Identifier: ISC */
#include <stdlib.h>
#include <string.h>

#include "core/json.h"
#include "core/mem.h"
#include "lab/sweep.h"
#include "lab/sweep_axis.h"

/* A larger grid is taken for a mistake: it would run for weeks. */
#define POINTS_MAX 10000
/* After this number of draws in a row without a new point, the search ends: there are hardly others. */
#define REPEATED_MAX 1000

/* Makes all combinations, in the order of an odometer: the last axis changes fastest. */
static enum err_code make_combinations(struct sweep *s, const struct sweep_axis *axis,
    struct err *e)
{
	size_t n = 1;

	for (size_t i = 0; i < s->nkeys; i++) {
		n *= axis[i].n;
		if (n > POINTS_MAX)
			return err_set(e, ERR_USAGE, "--grid: there are more than %d combinations",
			    POINTS_MAX);
	}
	s->npoints = n;
	s->point = mem_array(n, sizeof *s->point);
	for (size_t i = 0; i < n; i++) {
		size_t left = i;

		s->point[i].assignment = mem_array(s->nkeys, sizeof *s->point[i].assignment);
		for (size_t k = s->nkeys; k-- > 0; left /= axis[k].n)
			s->point[i].assignment[k] = mem_printf("%s=%s", axis[k].key,
			    axis[k].value[left % axis[k].n]);
	}
	return ERR_OK;
}

/* Draws the assignments of a point. Returns whether no point in `seen` has them, and adds them. */
static bool draw_point(struct point *p, const struct sweep_axis *axis, size_t n, uint64_t seed,
    uint64_t draw, json_t *seen)
{
	json_t *values = json_array();
	char *text;
	bool fresh;

	p->assignment = mem_array(n, sizeof *p->assignment);
	for (size_t k = 0; k < n; k++) {
		p->assignment[k] = sweep_axis_draw(&axis[k], seed, draw);
		json_array_append_new(values, json_string(p->assignment[k]));
	}
	text = json_text(values);
	fresh = !json_object_get(seen, text);
	json_object_set_new(seen, text, json_true());
	free(text);
	json_decref(values);
	return fresh;
}

static void release_assignment(const struct sweep *s, struct point *p)
{
	for (size_t k = 0; k < s->nkeys; k++)
		free(p->assignment[k]);
	free(p->assignment);
	p->assignment = NULL;
}

/* Draws different points. The first ones do not depend on how many there are, so that a search can be
 * extended. */
static enum err_code draw_points(struct sweep *s, const struct sweep_axis *axis,
    const struct sweep_options *o, struct err *e)
{
	json_t *seen = json_object();
	size_t repeated = 0;

	s->point = mem_array((size_t)o->random, sizeof *s->point);
	for (uint64_t draw = 0; s->npoints < (size_t)o->random && repeated < REPEATED_MAX; draw++) {
		struct point *p = &s->point[s->npoints];

		if (draw_point(p, axis, s->nkeys, (uint64_t)o->seed, draw, seen)) {
			s->npoints++;
			repeated = 0;
		} else {
			release_assignment(s, p);
			repeated++;
		}
	}
	json_decref(seen);
	return s->npoints == (size_t)o->random
	    ? ERR_OK
	    : err_set(e, ERR_USAGE, "--random %lld: there are only about %zu different points",
	          (long long)o->random, s->npoints);
}

/* A key that is given twice is refused rather than combined with itself. */
static enum err_code parse_axes(struct sweep_axis *axis, const struct sweep_options *o,
    struct err *e)
{
	enum err_code rc = ERR_OK;
	size_t n = o->grid.n + o->range.n;

	for (size_t i = 0; rc == ERR_OK && i < n; i++) {
		rc = i < o->grid.n
		    ? sweep_axis_parse_list(o->grid.item[i], &axis[i], e)
		    : sweep_axis_parse_range(o->range.item[i - o->grid.n], &axis[i], e);
		for (size_t k = 0; rc == ERR_OK && k < i; k++)
			if (strcmp(axis[k].key, axis[i].key) == 0)
				rc = err_set(e, ERR_USAGE,
				    "%s is given twice; give all its values in one --grid or --range",
				    axis[i].key);
	}
	return rc;
}

/* After an error s may have points; it must be released. */
enum err_code sweep_make_points(struct sweep *s, const struct sweep_options *o, struct err *e)
{
	struct sweep_axis *axis;
	enum err_code rc;

	if (o->range.n && !o->random)
		return err_set(e, ERR_USAGE,
		    "--range %s has infinitely many values: --random N is required, the number "
		    "of points to draw",
		    o->range.item[0]);
	s->nkeys = o->grid.n + o->range.n;
	axis = mem_array(s->nkeys + 1, sizeof *axis);
	rc = parse_axes(axis, o, e);
	if (rc == ERR_OK)
		rc = o->random ? draw_points(s, axis, o, e) : make_combinations(s, axis, e);
	for (size_t i = 0; i < s->nkeys; i++)
		sweep_axis_release(&axis[i]);
	free(axis);
	return rc;
}

void sweep_release(struct sweep *s)
{
	for (size_t i = 0; i < s->npoints; i++) {
		struct point *p = &s->point[i];

		release_assignment(s, p);
		free(p->id);
		json_decref(p->settings);
		json_decref(p->result);
	}
	free(s->point);
	free(s->folder);
	free(s->name);
	json_decref(s->unused);
	sweep_ladder_release(&s->ladder);
}

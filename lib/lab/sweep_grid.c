/* SPDX-License-Identifier: ISC */
#include <stdlib.h>
#include <string.h>

#include "core/buf.h"
#include "core/mem.h"
#include "lab/sweep.h"

/* A larger grid is taken for a mistake: it would run for weeks. */
#define POINTS_MAX 10000

struct axis {
	char *key;
	char **value;
	size_t n;
};

/* Returns the value that begins at *s, to be freed.  Moves *s to the comma that ends it, or to the
 * end. */
static char *next_grid_value(const char **s)
{
	struct buf v = BUF_INIT;
	int depth = 0;

	for (; **s && (**s != ',' || depth > 0); ++*s) {
		if (**s == '\\' && ((*s)[1] == ',' || (*s)[1] == '\\'))
			++*s;
		else if (**s == '[')
			depth++;
		else if (**s == ']')
			depth--;
		buf_append(&v, *s, 1);
	}
	return v.data ? (char *)v.data : mem_strdup("");
}

static enum err_code add_axis_value(struct axis *a, char *value, struct err *e)
{
	enum err_code rc = ERR_OK;

	if (!*value)
		rc = err_set(e, ERR_USAGE,
		    "--grid %s: there is an empty value; write the commas of a value as \\,",
		    a->key);
	for (size_t i = 0; rc == ERR_OK && i < a->n; i++)
		if (strcmp(a->value[i], value) == 0)
			rc = err_set(e, ERR_USAGE, "--grid %s: %s is there twice", a->key, value);
	a->value = mem_regrow(a->value, a->n + 1, sizeof *a->value);
	a->value[a->n++] = value;
	return rc;
}

static enum err_code parse_grid(const char *text, struct axis *a, struct err *e)
{
	const char *is = strchr(text, '='), *at;
	enum err_code rc = ERR_OK;

	if (!is || is == text)
		return err_set(e, ERR_USAGE, "--grid %s: must be KEY=VALUE,VALUE ...", text);
	a->key = mem_printf("%.*s", (int)(is - text), text);
	for (at = is + 1; rc == ERR_OK; at++) {
		rc = add_axis_value(a, next_grid_value(&at), e);
		if (!*at)
			break;
	}
	return rc;
}

static void axis_release(struct axis *a)
{
	for (size_t i = 0; i < a->n; i++)
		free(a->value[i]);
	free(a->value);
	free(a->key);
}

/* Makes all combinations, in the order of an odometer: the last axis changes fastest. */
static void make_points(struct sweep *s, const struct axis *axis)
{
	s->point = mem_array(s->npoints, sizeof *s->point);
	for (size_t i = 0; i < s->npoints; i++) {
		size_t left = i;

		s->point[i].assignment = mem_array(s->nkeys, sizeof *s->point[i].assignment);
		for (size_t k = s->nkeys; k-- > 0; left /= axis[k].n)
			s->point[i].assignment[k] = mem_printf("%s=%s", axis[k].key,
			    axis[k].value[left % axis[k].n]);
	}
}

/* On an error s gets no points. A key that is given twice is refused rather than combined with
 * itself. */
enum err_code sweep_grid(struct sweep *s, const struct opt_list *grid, struct err *e)
{
	struct axis *axis = mem_array(grid->n + 1, sizeof *axis);
	enum err_code rc = ERR_OK;
	size_t points = 1;

	s->nkeys = grid->n;
	for (size_t i = 0; rc == ERR_OK && i < grid->n; i++) {
		rc = parse_grid(grid->item[i], &axis[i], e);
		for (size_t k = 0; rc == ERR_OK && k < i; k++)
			if (strcmp(axis[k].key, axis[i].key) == 0)
				rc = err_set(e, ERR_USAGE,
				    "--grid %s: is given twice; name all its values in one",
				    axis[i].key);
		points *= rc == ERR_OK ? axis[i].n : 1;
		if (rc == ERR_OK && points > POINTS_MAX)
			rc = err_set(e, ERR_USAGE, "--grid: more than %d combinations", POINTS_MAX);
	}
	if (rc == ERR_OK) {
		s->npoints = points;
		make_points(s, axis);
	}
	for (size_t i = 0; i < grid->n; i++)
		axis_release(&axis[i]);
	free(axis);
	return rc;
}

void sweep_release(struct sweep *s)
{
	for (size_t i = 0; i < s->npoints; i++) {
		struct point *p = &s->point[i];

		for (size_t k = 0; k < s->nkeys; k++)
			free(p->assignment[k]);
		free(p->assignment);
		free(p->id);
		json_decref(p->settings);
		json_decref(p->result);
	}
	free(s->point);
	free(s->folder);
}

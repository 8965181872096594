/* SPDX-License-Identifier: ISC */
#include "lab/sweep_axis.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conf/conf_key.h"
#include "core/buf.h"
#include "core/mem.h"
#include "core/num.h"
#include "core/rng.h"

/* ---- lists ---- */

/* Returns the value that begins at *s, to be freed. Moves *s to the comma that ends it, or to the
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

static enum err_code add_axis_value(struct sweep_axis *a, char *value, struct err *e)
{
	enum err_code rc = ERR_OK;

	if (!*value)
		rc = err_set(e, ERR_USAGE,
		    "--grid %s: a value is empty; write a comma within a value as \\,", a->key);
	for (size_t i = 0; rc == ERR_OK && i < a->n; i++)
		if (strcmp(a->value[i], value) == 0)
			rc = err_set(e, ERR_USAGE, "--grid %s: %s is given twice", a->key, value);
	a->value = mem_regrow(a->value, a->n + 1, sizeof *a->value);
	a->value[a->n++] = value;
	return rc;
}

enum err_code sweep_axis_parse_list(const char *text, struct sweep_axis *a, struct err *e)
{
	const char *is = strchr(text, '='), *at;
	enum err_code rc = ERR_OK;

	*a = (struct sweep_axis){ 0 };
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

void sweep_axis_release(struct sweep_axis *a)
{
	for (size_t i = 0; i < a->n; i++)
		free(a->value[i]);
	free(a->value);
	free(a->key);
	*a = (struct sweep_axis){ 0 };
}

/* ---- ranges ---- */

static bool takes_whole_numbers(const char *key)
{
	const struct conf_key *k = conf_key_find(key, NULL);

	return k &&
	    (k->type == CONF_INT || k->type == CONF_COUNT || k->type == CONF_RANGE ||
	        k->type == CONF_EVERY);
}

/* Parses "LOW..HIGH[:log|:linear]", which it changes. */
static enum err_code parse_bounds(char *text, struct sweep_axis *a, struct err *e)
{
	char *scale = strchr(text, ':'), *dots = strstr(text, "..");

	if (scale)
		*scale++ = '\0';
	if (!dots)
		return err_set(e, ERR_USAGE, "--range %s: must be KEY=LOW..HIGH", a->key);
	*dots = '\0';
	if (!num_double(text, &a->low) || !num_double(dots + 2, &a->high) || !(a->low < a->high))
		return err_set(e, ERR_USAGE,
		    "--range %s: \"%s\" and \"%s\" must be numbers, the lower one first", a->key,
		    text, dots + 2);
	a->whole = takes_whole_numbers(a->key);
	a->log = scale ? strcmp(scale, "log") == 0 : a->low > 0 && !a->whole;
	if (scale && !a->log && strcmp(scale, "linear") != 0)
		return err_set(e, ERR_USAGE, "--range %s: \"%s\" must be log or linear", a->key,
		    scale);
	if (a->log && a->low <= 0)
		return err_set(e, ERR_USAGE, "--range %s: a logarithmic range must begin above 0",
		    a->key);
	if (a->whole && (floor(a->low) < a->low || floor(a->high) < a->high))
		return err_set(e, ERR_USAGE, "--range %s: must have whole numbers", a->key);
	return ERR_OK;
}

enum err_code sweep_axis_parse_range(const char *text, struct sweep_axis *a, struct err *e)
{
	const char *is = strchr(text, '=');
	enum err_code rc;
	char *bounds;

	*a = (struct sweep_axis){ 0 };
	if (!is || is == text)
		return err_set(e, ERR_USAGE, "--range %s: must be KEY=LOW..HIGH", text);
	a->key = mem_printf("%.*s", (int)(is - text), text);
	bounds = mem_strdup(is + 1);
	rc = parse_bounds(bounds, a, e);
	free(bounds);
	return rc;
}

/* ---- draws ---- */

/* Hashes a name (FNV-1a, Fowler, Noll and Vo), so that each key has draws of its own. */
static uint64_t hash_name(const char *name)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325);

	for (; *name; name++)
		h = (h ^ (uint8_t)*name) * UINT64_C(0x100000001b3);
	return h;
}

/* Maps u, uniform in [0, 1), to the range. A range of whole numbers includes its end by one more. */
static double map_to_range(const struct sweep_axis *a, double u)
{
	double end = a->high + (a->whole ? 1 : 0), v;

	v = a->log ? exp(log(a->low) + u * (log(end) - log(a->low))) : a->low + u * (end - a->low);
	return a->whole ? floor(v) : v;
}

char *sweep_axis_draw(const struct sweep_axis *a, uint64_t seed, uint64_t draw)
{
	struct rng r;
	char text[32];
	double v;

	rng_init(&r, rng_mix(seed ^ rng_mix(draw ^ hash_name(a->key))));
	if (a->n)
		return mem_printf("%s=%s", a->key, a->value[rng_below(&r, a->n)]);
	v = map_to_range(a, rng_unit(&r));
	if (!a->whole) {
		snprintf(text, sizeof text, "%.3g", v);
		v = num_strtod(text, NULL); /* rounding must not leave the range */
	}
	num_format(fmin(fmax(v, a->low), a->high), text);
	return mem_printf("%s=%s", a->key, text);
}

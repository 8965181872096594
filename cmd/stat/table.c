#include "table.h"

#include <math.h>

#include "base/json.h"
#include "base/num.h"

#define WIDTH 9

static double grown(const json_t *row, const json_t *before, const char *key)
{
	return json_num(row, key, 0) - json_num(before, key, 0);
}

/* A phase's part of all phases' time in between. */
static bool share(const struct column *c, const json_t *row, const json_t *before, double *v)
{
	static const char *const phases[] = { "data_seconds", "pull_seconds", "compute_seconds", "push_seconds", "wait_seconds" };
	double all = 0;

	for (size_t i = 0; i < sizeof phases / sizeof *phases; i++)
		all += grown(row, before, phases[i]);
	*v = all > 0 ? 100 * grown(row, before, c->key) / all : 0;
	return all > 0;
}

bool column_value(const struct column *c, const json_t *row, const json_t *before, double seconds, double *v,
    const char **text)
{
	const json_t *j = json_object_get(row, c->key);

	*text = NULL;
	if (c->kind == COL_SHARE)
		return share(c, row, before, v);
	if (!j || json_is_null(j))
		return false;
	if (c->kind == COL_TEXT) {
		*text = json_string_value(j);
		return *text && **text;
	}
	*v = json_number_value(j);
	if (c->kind == COL_RATE || c->kind == COL_BYTE_RATE) {
		*v = seconds > 0 ? grown(row, before, c->key) / seconds : 0;
		return seconds > 0;
	}
	return json_is_number(j);
}

static void format(const struct table_style *s, const struct column *c, double v, char out[static 32])
{
	char human[16];

	if (s->exact && c->kind != COL_SHARE) {
		num_format(c->kind == COL_COUNT || c->kind == COL_BYTES ? round(v) : v, out);
		if (c->kind == COL_COUNT || c->kind == COL_BYTES)
			snprintf(out, 32, "%.0f", v);
		return;
	}
	switch (c->kind) {
	case COL_BYTES:
	case COL_BYTE_RATE:
		num_human(v, human);
		snprintf(out, 32, "%s", human);
		break;
	case COL_COUNT:
		snprintf(out, 32, "%.0f", v);
		break;
	case COL_RATE:
		snprintf(out, 32, v < 10 ? "%.1f" : "%.0f", v);
		break;
	case COL_SHARE:
		snprintf(out, 32, "%.1f", v);
		break;
	default:
		snprintf(out, 32, "%.4g", v);
	}
}

void table_header(const struct table_style *s)
{
	for (size_t i = 0; i < s->ncolumns; i++)
		printf("%s%*s", i ? (s->tsv ? "\t" : " ") : "", s->tsv ? 0 : WIDTH, s->column[i]->name);
	putchar('\n');
	fflush(stdout);
}

static void json_row(const struct table_style *s, const json_t *row, const json_t *before, double seconds)
{
	json_t *o = json_copy((json_t *)(uintptr_t)row);
	char name[80], *text;

	for (size_t i = 0; i < s->ncolumns; i++) {
		const struct column *c = s->column[i];
		const char *ignored;
		double v;

		if (c->kind != COL_RATE && c->kind != COL_BYTE_RATE)
			continue;
		snprintf(name, sizeof name, "%s_per_second", c->key);
		if (column_value(c, row, before, seconds, &v, &ignored))
			json_object_set_new(o, name, json_of_num(v));
	}
	text = json_text(o);
	puts(text);
	free(text);
	json_decref(o);
	fflush(stdout);
}

void table_row(const struct table_style *s, const json_t *row, const json_t *before, double seconds)
{
	if (s->json) {
		json_row(s, row, before, seconds);
		return;
	}
	for (size_t i = 0; i < s->ncolumns; i++) {
		const char *text = "-";
		char number[32];
		double v;

		if (column_value(s->column[i], row, before, seconds, &v, &text) && !text) {
			format(s, s->column[i], v, number);
			text = number;
		} else if (!text || !*text) {
			text = "-";
		}
		printf("%s%*s", i ? (s->tsv ? "\t" : " ") : "", s->tsv ? 0 : WIDTH, text);
	}
	putchar('\n');
	fflush(stdout);
}

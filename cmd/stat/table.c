/* SPDX-License-Identifier: ISC */
#include "table.h"

#include <math.h>
#include <string.h>
#include <time.h>

#include "core/json.h"
#include "core/num.h"
#include "core/plain.h"

const char *const view_phase_key[PHASES] = { "data_seconds", "compute_seconds", "encode_seconds",
	"push_seconds", "wait_seconds", "pull_seconds" };

/* ---- values ---- */

/* The growth of a counter since the sample before. A smaller value is of a process that was
 * restarted. */
static double counter_growth(const json_t *row, const json_t *before, const char *key)
{
	double v = json_num(row, key, 0), was = json_num(before, key, 0);

	return v < was ? v : v - was;
}

/* The percentage of a phase in the time of all phases since the sample before. False: there was
 * none. */
static bool phase_share(const struct column *c, const json_t *row, const json_t *before, double *v)
{
	double all = 0;

	for (size_t i = 0; i < PHASES; i++)
		all += counter_growth(row, before, view_phase_key[i]);
	*v = all > 0 ? 100 * counter_growth(row, before, c->key) / all : 0;
	return all > 0;
}

bool table_column_value(const struct column *c, const json_t *row, const json_t *before,
    double seconds, double *v, const char **text)
{
	const json_t *j = json_object_get(row, c->key);

	*text = NULL;
	if (c->kind == COL_SHARE)
		return phase_share(c, row, before, v);
	if (!j || json_is_null(j))
		return false;
	if (c->kind == COL_TEXT || c->kind == COL_TIME || json_is_string(j)) {
		*text = json_string_value(j);
		return *text && **text;
	}
	*v = json_number_value(j);
	if (c->kind == COL_RATE || c->kind == COL_BYTE_RATE) {
		*v = seconds > 0 ? counter_growth(row, before, c->key) / seconds : 0;
		return seconds > 0;
	}
	return json_is_number(j);
}

/* ---- text ---- */

/* Format a time such as "2026-01-31T23:59:59.123Z" as the style says. */
static void format_time_cell(const struct table_style *s, const char *text, char *out, size_t n)
{
	struct tm tm = { 0 };
	const char *rest = s->time ? strptime(text, "%Y-%m-%dT%H:%M:%S", &tm) : NULL;
	time_t t = rest ? timegm(&tm) : 0;

	if (!rest)
		snprintf(out, n, "%s", text);
	else if (s->time == 'u')
		snprintf(out, n, "%lld%.*s", (long long)t, s->exact && *rest == '.' ? 4 : 0, rest);
	else if (localtime_r(&t, &tm))
		strftime(out, n, "%Y-%m-%d %H:%M:%S", &tm);
}

/* Counts are scaled by 1000, bytes (num_human) by 1024. */
void table_count(double v, char *out, size_t n)
{
	static const char suffix[] = "kMGTP";
	int i = -1;

	if (fabs(v) < 99999.5) {
		snprintf(out, n, fabs(v) < 9.95 ? "%.1f" : "%.0f", v);
		return;
	}
	while (fabs(v) >= 999.5 && suffix[i + 1]) {
		v /= 1000;
		i++;
	}
	snprintf(out, n, fabs(v) < 9.95 ? "%.1f%c" : "%.0f%c", v, suffix[i]);
}

void table_time(double seconds, const char *between, char out[static 24])
{
	double v = fabs(seconds);
	char number[32];

	num_digits(v < 1e-3 ? seconds * 1e6 : v < 1 ? seconds * 1e3 : seconds, 3, number);
	snprintf(out, 24, "%.16s%s%s", number, between, v < 1e-3 ? "us" : v < 1 ? "ms" : "s");
}

/* Format a number that is too long for its column: "1.235e9", with at most 4 digits that count, and with as
 * many of them as fit into the width. */
static void format_exponent(double v, unsigned width, char out[static 32])
{
	for (int digits = 4; digits > 0; digits--) {
		char text[32];
		const char *e, *power;

		snprintf(text, sizeof text, "%.*e", digits - 1, v);
		e = strchr(text, 'e');
		power = e + 2 + strspn(e + 2, "0");
		snprintf(out, 32, "%.*se%s%s", (int)(e - text), text, e[1] == '-' ? "-" : "",
		    *power ? power : "0");
		if (strlen(out) <= width)
			return;
	}
}

/* The width of a column in a table, in characters. */
static unsigned column_width(const struct table_style *s, const struct column *c)
{
	static const unsigned char by_kind[] = {
		[COL_TEXT] = 9,
		[COL_TIME] = 24,
		[COL_COUNT] = 7,
		[COL_NUMBER] = 7,
		[COL_RATIO] = 5,
		[COL_BYTES] = 6,
		[COL_SECONDS] = 7,
		[COL_RATE] = 6,
		[COL_BYTE_RATE] = 6,
		[COL_SHARE] = 5,
		[COL_GIVEN] = 9,
	};
	size_t head = strlen(table_heading(s, c)), width = c->width ? c->width : by_kind[c->kind];

	if (c->kind == COL_TIME && s->time)
		width = s->time == 'd' ? 19 : s->exact ? 14 : 10;
	return (unsigned)(head > width ? head : width);
}

/* Format a number as its kind of column asks for. */
static void format_number_cell(const struct table_style *s, const struct column *c, double v,
    char *out, size_t n)
{
	char text[32];

	if (s->exact && c->kind != COL_SHARE) {
		if (c->kind == COL_COUNT || c->kind == COL_BYTES)
			snprintf(text, sizeof text, "%.0f", v);
		else
			num_format(v, text);
		snprintf(out, n, "%s", text);
		return;
	}
	switch (c->kind) {
	case COL_BYTES:
	case COL_BYTE_RATE:
		num_human(v, text);
		snprintf(out, n, "%sB", text);
		break;
	case COL_COUNT:
		snprintf(out, n, "%.0f", v);
		break;
	case COL_RATE:
		table_count(v, out, n);
		break;
	case COL_SHARE:
		snprintf(out, n, "%.1f", v);
		break;
	case COL_RATIO:
		snprintf(out, n, v < 99.5 ? "%.2f" : "%.0f", v);
		break;
	case COL_SECONDS:
		table_time(v, "", text);
		snprintf(out, n, "%s", text);
		break;
	default:
		num_digits(v, 4, text);
		if (s->format == FORMAT_TABLE && isfinite(v) && strlen(text) > column_width(s, c))
			format_exponent(v, column_width(s, c), text);
		snprintf(out, n, "%s", text);
	}
}

void table_cell(const struct table_style *s, const struct column *c, const json_t *row,
    const json_t *before, double seconds, char out[static CELL_BYTES])
{
	const char *text;
	double v;

	if (!table_column_value(c, row, before, seconds, &v, &text))
		snprintf(out, CELL_BYTES, "%s", s->format == FORMAT_CSV ? "" : "-");
	else if (!text)
		format_number_cell(s, c, v, out, CELL_BYTES);
	else if (c->kind == COL_TIME)
		format_time_cell(s, text, out, CELL_BYTES);
	else
		snprintf(out, CELL_BYTES, "%s", text);
	plain_text(out);
}

/* ---- tables ---- */

/* Files keep the names, which scripts know. */
const char *table_heading(const struct table_style *s, const struct column *c)
{
	return s->format == FORMAT_TABLE && strcmp(c->key, "train_loss") == 0 ? "tr-loss" : c->name;
}

static void print_field(const struct table_style *s, const struct column *c, bool first,
    const char *text, FILE *f)
{
	if (s->format == FORMAT_TSV) {
		fprintf(f, "%s%s", first ? "" : "\t", text);
	} else if (s->format == FORMAT_TABLE) {
		fprintf(f, "%s%*s", first ? "" : " ", (int)column_width(s, c), text);
	} else if (!text[strcspn(text, ",\" ")]) {
		fprintf(f, "%s%s", first ? "" : ",", text);
	} else {
		/* Quoted as RFC 4180 says. */
		fprintf(f, "%s\"", first ? "" : ",");
		for (; *text; text++)
			fprintf(f, *text == '"' ? "\"\"" : "%c", *text);
		fputc('"', f);
	}
}

void table_header(const struct table_style *s, FILE *f)
{
	for (size_t i = 0; i < s->ncolumns; i++)
		print_field(s, s->column[i], i == 0, table_heading(s, s->column[i]), f);
	fputc('\n', f);
	fflush(f);
}

/* Print a row as a line of JSON, with NAME_per_second for each rate among the columns. */
static void print_json_row(const struct table_style *s, const json_t *row, const json_t *before,
    double seconds, FILE *f)
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
		if (table_column_value(c, row, before, seconds, &v, &ignored))
			json_object_set_new(o, name, json_of_num(v));
	}
	text = json_text(o);
	fprintf(f, "%s\n", text);
	free(text);
	json_decref(o);
	fflush(f);
}

void table_row(const struct table_style *s, const json_t *row, const json_t *before, double seconds,
    FILE *f)
{
	char text[CELL_BYTES];

	if (s->format == FORMAT_JSON) {
		print_json_row(s, row, before, seconds, f);
		return;
	}
	for (size_t i = 0; i < s->ncolumns; i++) {
		table_cell(s, s->column[i], row, before, seconds, text);
		print_field(s, s->column[i], i == 0, text, f);
	}
	fputc('\n', f);
	fflush(f);
}

/* SPDX-License-Identifier: ISC */
#include "coordinator/http/exposition.h"

#include <math.h>
#include <string.h>

#include "core/json.h"
#include "core/utf8.h"

#define BUCKETS_MAX 64u

double exposition_put_number(const json_t *o, const char *key)
{
	const json_t *v = json_object_get(o, key);

	if (json_is_true(v))
		return 1;
	if (json_is_number(v))
		return json_number_value(v);
	return json_is_null(v) ? (double)NAN : 0;
}

/* At most 15 digits: the others are rounding errors of sums, and printing them would take most
 * of the time of a scrape. */
/* A space, the number and the end of the line. */
static void put_value(struct buf *out, double v)
{
	char text[40];

	if (isnan(v))
		buf_puts(out, " NaN\n");
	else if (isinf(v))
		buf_puts(out, v > 0 ? " +Inf\n" : " -Inf\n");
	else {
		if (v == nearbyint(v) && fabs(v) < 1e15)
			snprintf(text, sizeof text, " %lld\n", (long long)v);
		else
			snprintf(text, sizeof text, " %.15g\n", v);
		buf_puts(out, text);
	}
}

void exposition_put_label(struct buf *out, const char *name, const char *value)
{
	struct buf clean = BUF_INIT;

	/* Prometheus refuses the whole scrape when one label is not UTF-8. */
	utf8_repair(&clean, value, strlen(value));
	buf_puts(out, name);
	buf_puts(out, "=\"");
	for (size_t i = 0; i < clean.len; i++) {
		char c = (char)clean.data[i];

		if (c == '\\' || c == '"' || c == '\n')
			buf_puts(out, c == '\n' ? "\\n" : c == '"' ? "\\\"" : "\\\\");
		else
			buf_append(out, &c, 1);
	}
	buf_puts(out, "\"");
	buf_release(&clean);
}

void exposition_put_head(struct buf *out, const struct family *f)
{
	buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", f->name, f->help, f->name, f->type);
}

void exposition_put_sample(struct buf *out, const char *name, const char *label, const char *value,
    double number)
{
	buf_puts(out, name);
	if (value) {
		buf_puts(out, "{");
		exposition_put_label(out, label, value);
		buf_puts(out, "}");
	}
	put_value(out, number);
}

void exposition_put_members(struct buf *out, const struct family *f, size_t n, const json_t *o)
{
	for (size_t i = 0; i < n; i++) {
		exposition_put_head(out, &f[i]);
		exposition_put_sample(out, f[i].name, NULL, NULL,
		    exposition_put_number(o, f[i].key));
	}
}

void exposition_put_rows(struct buf *out, const struct family *f, size_t n, const json_t *rows,
    const char *label)
{
	const json_t *row;
	size_t k;

	for (size_t i = 0; i < n; i++) {
		exposition_put_head(out, &f[i]);
		json_array_foreach(rows, k, row)
			exposition_put_sample(out, f[i].name, label, json_str(row, "id", ""),
			    exposition_put_number(row, f[i].key));
	}
}

void exposition_put_split(struct buf *out, const struct family *f, const json_t *rows,
    const char *label, const struct split *s)
{
	const json_t *row;
	size_t k;

	exposition_put_head(out, f);
	json_array_foreach(rows, k, row)
		for (size_t i = 0; i < s->n; i++) {
			buf_puts(out, f->name);
			buf_puts(out, "{");
			exposition_put_label(out, label, json_str(row, "id", ""));
			buf_puts(out, ",");
			exposition_put_label(out, s->label, s->values[i]);
			buf_puts(out, "}");
			put_value(out, exposition_put_number(row, s->keys[i]));
		}
}

static void put_bucket(struct buf *out, const char *name, const char *label, const char *id,
    const char *le, double n)
{
	buf_puts(out, name);
	buf_puts(out, "_bucket{");
	exposition_put_label(out, label, id);
	buf_puts(out, ",");
	exposition_put_label(out, "le", le);
	buf_puts(out, "}");
	put_value(out, n);
}

/* Workers report these counts themselves, so check them: bounds must ascend and match the
 * counts. */
static bool is_histogram(const json_t *le, const json_t *counts)
{
	size_t n = json_array_size(counts);
	bool is = n >= 1 && n <= BUCKETS_MAX && json_array_size(le) + 1 == n;

	for (size_t i = 0; is && i + 2 < n; i++)
		is = json_number_value(json_array_get(le, i)) <
		    json_number_value(json_array_get(le, i + 1));
	return is;
}

static void put_histogram(struct buf *out, const char *name, const json_t *h, const char *label,
    const char *id)
{
	const json_t *le = json_object_get(h, "le"), *counts = json_object_get(h, "counts");
	size_t n = is_histogram(le, counts) ? json_array_size(counts) : 0;
	char sum[80], count[80], bound[32];

	for (size_t i = 0; i + 1 < n; i++) {
		/* Prometheus compares bounds as strings, so print them briefly and always alike. */
		snprintf(bound, sizeof bound, "%.9g", json_number_value(json_array_get(le, i)));
		put_bucket(out, name, label, id, bound,
		    json_number_value(json_array_get(counts, i)));
	}
	put_bucket(out, name, label, id, "+Inf",
	    n ? json_number_value(json_array_get(counts, n - 1)) : 0);
	snprintf(sum, sizeof sum, "%s_sum", name);
	snprintf(count, sizeof count, "%s_count", name);
	exposition_put_sample(out, sum, label, id, exposition_put_number(h, "sum"));
	exposition_put_sample(out, count, label, id,
	    n ? json_number_value(json_array_get(counts, n - 1)) : 0);
}

void exposition_put_histograms(struct buf *out, const struct family *f, const json_t *rows,
    const char *label)
{
	const json_t *row;
	size_t k;

	exposition_put_head(out, f);
	json_array_foreach(rows, k, row)
		put_histogram(out, f->name, json_object_get(row, f->key), label,
		    json_str(row, "id", ""));
}

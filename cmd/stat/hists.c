/* SPDX-License-Identifier: ISC */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cmd/stat/stat.h"
#include "core/json.h"
#include "term/bars.h"
#include "term/screen.h"

/* ps-stat -w: histograms of values, in the manner of zpool iostat -w. */

#define BOUNDS 32
#define BAR    40

struct kind {
	const char *key, *unit, *title;
	bool of_workers;
};
static const struct kind kinds[] = {
	{ "staleness", "updates", "staleness: updates between a gradient's pull and its push",
	    false },
	{ "push_latency", "seconds", "push latency: from a push to its receipt, as workers see it",
	    true },
	{ "apply", "seconds", "apply: from a whole push to its sum or update, on servers", false },
};
#define KINDS (sizeof kinds / sizeof *kinds)

/* The number of values in each bucket; the last bucket has no upper bound. */
struct spread {
	size_t n; /* bounds */
	double bound[BOUNDS], count[BOUNDS + 1], sum, all;
};

/* Add a histogram with cumulative counts to s or, with sign -1, subtract an earlier one. An
 * earlier one with more values than s is of a process that has been restarted since, and is
 * ignored. */
static void add_counts_of(struct spread *s, const json_t *h, int sign)
{
	const json_t *le = json_object_get(h, "le"), *counts = json_object_get(h, "counts");
	size_t n = json_array_size(le);
	double below = 0;

	if (!n || n > BOUNDS || json_array_size(counts) != n + 1)
		return;
	if (sign < 0 && json_number_value(json_array_get(counts, n)) > s->all)
		return;
	s->n = n;
	for (size_t i = 0; i <= n; i++) {
		double upto = json_number_value(json_array_get(counts, i));

		if (i < n)
			s->bound[i] = json_number_value(json_array_get(le, i));
		s->count[i] += sign * (upto - below);
		s->all += sign * (upto - below);
		below = upto;
	}
	s->sum += sign * json_num(h, "sum", 0);
}

static json_t *spread_json(const struct spread *s)
{
	json_t *le = json_array(), *counts = json_array();
	double below = 0;

	for (size_t i = 0; i <= s->n; i++) {
		below += s->count[i];
		json_array_append_new(counts, json_integer((json_int_t)below));
		if (i < s->n)
			json_array_append_new(le, json_real(s->bound[i]));
	}
	return json_pack("{s:o, s:o, s:f}", "le", le, "counts", counts, "sum", s->sum);
}

/* The bound of the bucket with quantile q; NAN without values, or when it is the bucket without
 * bound. */
static double spread_quantile(const struct spread *s, double q)
{
	double seen = 0;

	for (size_t i = 0; i < s->n; i++) {
		seen += s->count[i];
		if (s->all > 0 && seen >= q * s->all)
			return s->bound[i];
	}
	return NAN;
}

/* ---- fetching ---- */

static json_t *make_histogram_row(const char *id, const struct kind *k, const json_t *h)
{
	json_t *row = json_event("histogram");

	json_object_set_new(row, "id", json_string(id));
	json_object_set_new(row, "name", json_string(k->key));
	json_object_set_new(row, "unit", json_string(k->unit));
	json_object_set(row, "histogram", (json_t *)(uintptr_t)h);
	return row;
}

/* Append the histograms of one kind to out: of each row, or one of all rows together. */
static void collect_histograms(json_t *out, const json_t *rows, const struct kind *k, bool together)
{
	struct spread sum = { 0 };
	const json_t *row;
	json_t *h;
	size_t i;

	json_array_foreach(rows, i, row) {
		h = json_object_get(row, k->key);
		if (h && !together)
			json_array_append_new(out,
			    make_histogram_row(json_str(row, "id", ""), k, h));
		add_counts_of(&sum, h, 1);
	}
	if (!together)
		return;
	h = spread_json(&sum);
	json_array_append_new(out, make_histogram_row("cluster", k, h));
	json_decref(h);
}

json_t *hists_fetch(const struct plan *p, struct http_client *c, struct err *e)
{
	bool together = p->view == &stat_view_cluster;
	const char *parts = together ? "servers,workers" : p->view->name;
	json_t *all = connect_snapshot(c, parts, e), *out = all ? json_array() : NULL;

	for (size_t i = 0; all && i < KINDS; i++) {
		const json_t *rows = json_object_get(all,
		    kinds[i].of_workers ? "workers" : "servers");

		if (rows)
			collect_histograms(out, rows, &kinds[i], together);
	}
	json_decref(all);
	return out;
}

/* ---- showing ---- */

static void format_bound(const struct kind *k, const struct spread *s, size_t i,
    char out[static 32])
{
	double v = s->bound[i < s->n ? i : s->n - 1];
	char text[24];

	if (strcmp(k->unit, "seconds") == 0)
		table_time(v, " ", text);
	else
		snprintf(text, sizeof text, "%.0f", v);
	snprintf(out, 32, "%s %s", i < s->n ? "<=" : " >", text);
}

/* Print a histogram for people, with bars. */
static void print_histogram_bars(const struct kind *k, const char *id, const struct spread *s)
{
	bool unicode = term_unicode();
	double seen = 0, most = 0;
	char bar[BAR * 3 + 1], bound[32];

	printf("%s%s%s\n", strcmp(id, "cluster") ? id : "", strcmp(id, "cluster") ? ", " : "",
	    k->title);
	if (!(s->all > 0)) {
		printf("%12s\n\n", "none yet");
		return;
	}
	for (size_t i = 0; i <= s->n; i++)
		most = fmax(most, s->count[i]);
	printf("%12s %10s %7s\n", strcmp(k->unit, "seconds") == 0 ? "time" : k->unit, "pushes",
	    "so far");
	for (size_t i = 0; i <= s->n; i++) {
		seen += s->count[i];
		/* Leave out the empty buckets after the last value. */
		if (seen - s->count[i] >= s->all)
			break;
		format_bound(k, s, i, bound);
		bars_draw(s->count[i] / most, BAR, unicode, bar);
		printf("%12s %10.0f %6.2f%% %s\n", bound, s->count[i], 100 * seen / s->all, bar);
	}
	putchar('\n');
}

static void print_histogram_tabs(const struct kind *k, const char *id, const struct spread *s)
{
	for (size_t i = 0; i <= s->n; i++) {
		printf("%s\t%s\t", id, k->key);
		if (i < s->n)
			printf("%.9g", s->bound[i]);
		else
			printf("inf");
		printf("\t%.0f\n", s->count[i]);
	}
}

static void print_histogram_json(json_t *row, const struct spread *s)
{
	json_t *o = json_copy(row), *h = spread_json(s);
	char *text;

	json_object_del(o, "histogram");
	json_object_update(o, h);
	json_decref(h);
	json_object_set_new(o, "count", json_integer((json_int_t)s->all));
	json_object_set_new(o, "p50", json_of_num(spread_quantile(s, 0.5)));
	json_object_set_new(o, "p99", json_of_num(spread_quantile(s, 0.99)));
	text = json_text(o);
	puts(text);
	free(text);
	json_decref(o);
}

static bool is_same_histogram(const json_t *a, const json_t *b)
{
	return strcmp(json_str(a, "id", ""), json_str(b, "id", "")) == 0 &&
	    strcmp(json_str(a, "name", ""), json_str(b, "name", "")) == 0;
}

/* Print the histogram of a row or, with an earlier report, the part that has been added since. */
static void print_histogram(const struct plan *p, json_t *row, const json_t *before)
{
	const struct kind *k = kinds;
	struct spread s = { 0 };
	const json_t *o;
	size_t i;

	while (strcmp(k->key, json_str(row, "name", "")) != 0)
		k++;
	add_counts_of(&s, json_object_get(row, "histogram"), 1);
	json_array_foreach(before, i, o)
		if (is_same_histogram(o, row))
			add_counts_of(&s, json_object_get(o, "histogram"), -1);
	if (p->style.format == FORMAT_JSON)
		print_histogram_json(row, &s);
	else if (p->style.format == FORMAT_TSV)
		print_histogram_tabs(k, json_str(row, "id", ""), &s);
	else
		print_histogram_bars(k, json_str(row, "id", ""), &s);
}

void hists_print(const struct plan *p, const json_t *hists, const json_t *before)
{
	json_t *row;
	size_t i;

	if (p->style.format == FORMAT_TSV && p->style.header)
		printf("id\tname\tle\tcount\n");
	json_array_foreach((json_t *)(uintptr_t)hists, i, row)
		print_histogram(p, row, before);
	fflush(stdout);
}

/* SPDX-License-Identifier: ISC */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cmd/stat/extra.h"
#include "cmd/stat/rows.h"
#include "cmd/stat/stat.h"
#include "core/clock.h"
#include "core/json.h"
#include "core/mem.h"
#include "session/control.h"
#include "term/screen.h"

/* How long the coordinator of a cluster that is watched may be away: longer than a change-over, and than the
 * longest pause before a restart (supervisor/policy.h). */
#define AWAY_MOST    (15 * NSEC_PER_SEC)
#define TRY_AGAIN_MS 100

/* The state that is kept from one report to the next. */
struct stream {
	const struct plan *plan;
	struct table_style style;     /* the plan's, with the columns of -c */
	const struct column **column; /* NULL: the plan's own */
	struct extra *extra;          /* NULL: without -c */
	FILE *csv;                    /* NULL: without --csv */
	json_t *before;
	int64_t taken;
	uint64_t reports;
	int since_header; /* rows since the last header; -1: no header yet */
};

void stream_pause(int64_t until)
{
	struct timespec ts = { until / NSEC_PER_SEC, until % NSEC_PER_SEC };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
		;
}

/* ---- printing ---- */

static int rows_per_screen(void)
{
	unsigned width, height;

	return isatty(STDOUT_FILENO) && term_size(STDOUT_FILENO, &width, &height) && height > 3
	    ? (int)height - 2
	    : 0;
}

/* Print the rows, and a header before the first row and at the top of each screen. */
static void print_table_rows(struct stream *s, json_t *rows, double seconds)
{
	int screen = s->plan->options->header_once ? 0 : rows_per_screen();
	struct table_style csv = s->style;
	json_t *row;
	size_t i;

	csv.format = FORMAT_CSV;
	csv.exact = true;
	if (s->since_header < 0 && s->csv)
		table_header(&csv, s->csv);
	if (s->since_header < 0 ||
	    (screen && s->since_header + (int)json_array_size(rows) > screen)) {
		if (s->style.header)
			table_header(&s->style, stdout);
		s->since_header = 0;
	}
	json_array_foreach(rows, i, row) {
		double span = s->before ? seconds : json_num(row, "seconds", 0);
		const json_t *before = rows_find_same(s->before, row);

		table_row(&s->style, row, before, span, stdout);
		if (s->csv)
			table_row(&csv, row, before, span, s->csv);
		s->since_header++;
	}
}

static void print_row_sentences(const struct stat_view *v, const json_t *rows)
{
	if (json_array_size(rows))
		v->sentences(rows);
	else
		puts(v->none);
	if (v->remark)
		v->remark();
	fflush(stdout);
}

/* ---- one report ---- */

/* Add "seconds", the age of the cluster, from its status to rows that lack it: rates since the
 * start need it. */
static void add_cluster_age(struct http_client *c, json_t *rows)
{
	struct err ignored;
	json_t *status = connect_fetch_json(c, "/v1/status", NULL, &ignored), *row;
	size_t i;

	json_array_foreach(rows, i, row)
		if (!json_object_get(row, "seconds"))
			json_object_set(row, "seconds", json_object_get(status, "seconds"));
	json_decref(status);
}

static enum err_code print_prometheus(struct http_client *c, struct err *e)
{
	struct buf text = BUF_INIT;
	enum err_code rc = http_get_text(c, "/metrics", 10 * NSEC_PER_SEC, &text, e);

	if (!rc) {
		fwrite(text.data, 1, text.len, stdout);
		fflush(stdout);
	}
	buf_release(&text);
	return rc;
}

/* Append the columns that the command of -c has named. */
static void add_command_columns(struct stream *s)
{
	size_t n;
	const struct column *more = extra_columns(s->extra, &n),
	                    *const *own = s->plan->style.column;

	if (s->column || !n)
		return;
	s->column = mem_array(s->plan->style.ncolumns + n, sizeof *s->column);
	memcpy((void *)s->column, (const void *)own, s->plan->style.ncolumns * sizeof *own);
	for (size_t i = 0; i < n; i++)
		s->column[s->style.ncolumns++] = &more[i];
	s->style.column = s->column;
}

/* Print one report in the form that the plan asks for. */
static void print_report(struct stream *s, json_t *rows, double seconds)
{
	const struct plan *p = s->plan;

	if (p->options->histograms) {
		hists_print(p, rows, s->before);
		return;
	}
	if (p->sort)
		rows_sort(rows, p->sort, s->before, seconds);
	if (s->extra) {
		extra_run(s->extra, rows, p->interval ? p->interval : 10 * NSEC_PER_SEC);
		add_command_columns(s);
	}
	if (p->options->totals)
		rows_total(rows, p->view);
	if (p->sentences)
		print_row_sentences(p->view, rows);
	else
		print_table_rows(s, rows, seconds);
}

/* Fetch one sample and report it, unless it is the first one with -y. */
static enum err_code make_report(struct stream *s, struct http_client *c, struct err *e)
{
	const struct plan *p = s->plan;
	int64_t now;
	json_t *rows;

	if (p->style.format == FORMAT_PROM)
		return print_prometheus(c, e);
	rows = p->options->histograms ? hists_fetch(p, c, e) : p->view->fetch(c, e);
	if (!rows)
		return e->code;
	now = clock_now();
	if (s->reports == 0 && !p->options->histograms)
		add_cluster_age(c, rows);
	if (p->view->derive && !p->options->histograms)
		p->view->derive(rows, s->before);
	if (s->reports > 0 || !p->options->skip_first)
		print_report(s, rows, (double)(now - s->taken) / (double)NSEC_PER_SEC);
	json_decref(s->before);
	s->before = rows;
	s->taken = now;
	return ERR_OK;
}

/* ---- all reports ---- */

/* May the coordinator, or the next one, answer again? With a join file, this is known only if there are
 * several coordinators. */
static bool may_answer_again(const struct stat_link *link)
{
	return link->dir ? control_may_return(link->dir)
	                 : link->id.http && strchr(link->id.http, ',');
}

/* As make_report, but after the first report a coordinator that is away for a while is waited for. */
static enum err_code make_next_report(struct stream *s, const struct stat_link *link, struct err *e)
{
	int64_t end = clock_now() + AWAY_MOST;
	enum err_code rc = make_report(s, link->http, e);

	while ((rc == ERR_UNREACH || rc == ERR_CLOSED) && s->reports && clock_now() < end &&
	    may_answer_again(link)) {
		clock_sleep(TRY_AGAIN_MS);
		*e = (struct err){ 0 };
		rc = make_report(s, link->http, e);
	}
	return rc;
}

/* Make the reports. The end of the cluster after the first report is not a failure. Returns the
 * exit code. */
static int stream_reports(struct stream *s, const struct stat_link *link)
{
	const struct plan *p = s->plan;
	uint64_t count = p->count ? p->count : p->interval ? UINT64_MAX : 1;
	int64_t next = clock_now();
	struct err e = { 0 };

	/* -y adds a sample that is not reported; the number of reports stays. */
	if (p->options->skip_first && count != UINT64_MAX)
		count++;
	for (; s->reports < count; s->reports++) {
		if (make_next_report(s, link, &e)) {
			bool ended = s->reports &&
			    (e.code == ERR_UNREACH || e.code == ERR_CLOSED ||
			        e.code == ERR_NOTREADY || e.code == ERR_STOPPED ||
			        e.code == ERR_NOTFOUND);

			fprintf(stderr,
			    ended ? "ps-stat: the cluster has ended: %s\n" : "ps-stat: %s\n",
			    e.msg);
			return ended ? 0 : err_exit_code(e.code);
		}
		if (ferror(stdout))
			break; /* the reader has closed the output */
		if (s->reports + 1 < count) {
			next += p->interval ? p->interval : NSEC_PER_SEC;
			stream_pause(next);
		}
	}
	return 0;
}

static int open_csv_file(struct stream *s)
{
	const char *path = s->plan->options->csv;

	if (!path)
		return 0;
	s->csv = fopen(path, "we");
	if (s->csv)
		return 0;
	fprintf(stderr, "ps-stat: cannot write %s: %s\n", path, strerrordesc_np(errno));
	return 1;
}

static int close_csv_file(struct stream *s, int code)
{
	bool failed = s->csv && ferror(s->csv);
	int fault = s->csv && fclose(s->csv) ? errno : 0;

	if (!failed && !fault)
		return code;
	fprintf(stderr, "ps-stat: cannot write %s%s%s\n", s->plan->options->csv, fault ? ": " : "",
	    fault ? strerrordesc_np(fault) : "");
	return code ? code : 1;
}

int stream_run(const struct plan *p)
{
	struct stream s = { .plan = p, .style = p->style, .since_header = -1 };
	struct stat_link link;
	struct err e = { 0 };
	int code;

	if (stat_connect(p->options, NULL, &link, &e)) {
		fprintf(stderr, "ps-stat: %s\n", e.msg);
		stat_disconnect(&link);
		return err_exit_code(e.code);
	}
	code = open_csv_file(&s);
	if (!code) {
		s.extra = p->options->command ? extra_new(p->options->command) : NULL;
		code = stream_reports(&s, &link);
	}
	code = close_csv_file(&s, code);
	extra_free(s.extra);
	json_decref(s.before);
	free((void *)s.column);
	stat_disconnect(&link);
	return code;
}

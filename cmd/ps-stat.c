#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "auth/keys.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/opt.h"
#include "base/output.h"
#include "base/suggest.h"
#include "client/identity.h"
#include "cmd/stat/table.h"
#include "launch/rundir.h"

struct options {
	const char *run_dir, *join, *columns, *sort;
	bool no_header, exact, skip_first, json, tsv, prom, header_once;
};

static const struct opt opts[] = {
	{ "run-dir", 'C', OPT_STR, offsetof(struct options, run_dir), "DIR", "the cluster's run directory", NULL, 0, 0 },
	{ "join", 0, OPT_STR, offsetof(struct options, join), "FILE", "a cluster elsewhere: join file of an admin or worker", NULL, 0, 0 },
	{ "no-header", 'H', OPT_FLAG, offsetof(struct options, no_header), NULL, "for scripts: no header, single tabs", NULL, 0, 0 },
	{ "exact", 'p', OPT_FLAG, offsetof(struct options, exact), NULL, "exact numbers", NULL, 0, 0 },
	{ "skip-first", 'y', OPT_FLAG, offsetof(struct options, skip_first), NULL, "leave out the first report, since the start", NULL, 0, 0 },
	{ "columns", 'o', OPT_STR, offsetof(struct options, columns), "COLS", "columns, separated by commas", NULL, 0, 0 },
	{ "sort", 'S', OPT_STR, offsetof(struct options, sort), "COL", "rows by this column, largest first", NULL, 0, 0 },
	{ "header-once", 'n', OPT_FLAG, offsetof(struct options, header_once), NULL, "do not repeat the header", NULL, 0, 0 },
	{ "json", 0, OPT_FLAG, offsetof(struct options, json), NULL, "JSON Lines, an object a row", NULL, 0, 0 },
	{ "tsv", 0, OPT_FLAG, offsetof(struct options, tsv), NULL, "tabs, with a header", NULL, 0, 0 },
	{ "prom", 0, OPT_FLAG, offsetof(struct options, prom), NULL, "Prometheus text of the whole cluster", NULL, 0, 0 },
};

static const struct opt_spec spec = {
	.prog = "ps-stat",
	.args = "[VIEW] [INTERVAL [COUNT]]",
	.about = "Report what a cluster does, once or every INTERVAL seconds, as vmstat does.",
	.more = "Views: cluster (default), workers, servers, tables, why. The first report is since the start, those\n"
	    "after it of the interval. An empty value is \"-\".",
	.examples = "  ps-stat 1                                 # a line a second\n"
	    "  ps-stat workers -S wait% 2                # who waits most\n"
	    "  ps-stat -Hp -o step,loss 1 | awk '{ print $2 }'\n"
	    "  ps-stat why                               # who waits, for whom, and what to do\n"
	    "  ps-stat --json 1 | jq -c '[.step, .train_loss]'\n",
	.opts = opts,
	.nopts = sizeof opts / sizeof *opts,
	.max_args = 3,
};

static const struct stat_view *const views[] = {
#define VIEW(name) &stat_view_##name,
#include "cmd/stat/stat.def"
#undef VIEW
};
#define NVIEWS (sizeof views / sizeof *views)

/* What the command line asks for. */
struct plan {
	const struct stat_view *view;
	int64_t interval;               /* ns, 0: once */
	uint64_t count;                 /* 0: no end */
	const struct column *column[64];
	const struct column *sort;
	struct table_style style;
	bool prom, skip_first, header_once;
	bool sentences;                 /* no table */
};

__attribute__((format(printf, 1, 2))) static int usage(const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "ps-stat: ");
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fprintf(stderr, " (see ps-stat -h)\n");
	return 2;
}

/* ---- the plan --------------------------------------------------------------------------- */

static const struct column *find_column(const struct stat_view *v, const char *name, size_t n)
{
	for (size_t i = 0; i < v->ncolumns; i++)
		if (strlen(v->columns[i].name) == n && strncmp(v->columns[i].name, name, n) == 0)
			return &v->columns[i];
	return NULL;
}

static int no_column(const struct stat_view *v, const char *name, size_t n)
{
	const char *names[64], *near;
	char word[64];

	snprintf(word, sizeof word, "%.*s", (int)n, name);
	for (size_t i = 0; i < v->ncolumns; i++)
		names[i] = v->columns[i].name;
	near = suggest(word, names, v->ncolumns);
	fprintf(stderr, "ps-stat: %s has no column \"%s\"", v->name, word);
	if (near)
		fprintf(stderr, "; did you mean \"%s\"?", near);
	else
		fprintf(stderr, ";");
	fprintf(stderr, " there are:");
	for (size_t i = 0; i < v->ncolumns; i++)
		fprintf(stderr, " %s", names[i]);
	fprintf(stderr, "\n");
	return 2;
}

static int choose_columns(const struct options *o, struct plan *p)
{
	const struct stat_view *v = p->view;
	const char *at = o->columns;

	p->style.column = p->column;
	for (size_t i = 0; !at && i < v->ncolumns; i++)
		if (v->columns[i].shown)
			p->column[p->style.ncolumns++] = &v->columns[i];
	while (at) {
		size_t n = strcspn(at, ",");
		const struct column *c = find_column(v, at, n);

		if (!c || p->style.ncolumns == sizeof p->column / sizeof *p->column)
			return no_column(v, at, n);
		p->column[p->style.ncolumns++] = c;
		at = at[n] ? at + n + 1 : NULL;
	}
	if (!o->sort)
		return 0;
	p->sort = find_column(v, o->sort, strlen(o->sort));
	return p->sort ? 0 : no_column(v, o->sort, strlen(o->sort));
}

static int choose_view(const char *name, struct plan *p)
{
	const char *names[NVIEWS], *near;

	for (size_t i = 0; i < NVIEWS; i++) {
		names[i] = views[i]->name;
		if (strcmp(name, views[i]->name) == 0) {
			p->view = views[i];
			return 0;
		}
	}
	near = suggest(name, names, NVIEWS);
	if (near)
		return usage("unknown view \"%s\"; did you mean \"%s\"?", name, near);
	return usage("unknown view \"%s\": there are cluster, workers, servers, tables and why", name);
}

static int make_plan(const struct options *o, int nargs, char **argv, struct plan *p)
{
	double seconds;
	int at = 1, rc = 0;

	*p = (struct plan){ .view = views[0], .prom = o->prom, .skip_first = o->skip_first, .header_once = o->header_once };
	if (o->json + o->tsv + o->prom > 1)
		return usage("--json, --tsv and --prom exclude one another");
	if (at <= nargs && !num_double(argv[at], &seconds))
		rc = choose_view(argv[at++], p);
	if (!rc && at <= nargs) {
		if (!num_double(argv[at], &seconds) || seconds <= 0)
			return usage("the interval must be a number of seconds above 0, got \"%s\"", argv[at]);
		p->interval = (int64_t)(seconds * (double)NSEC_PER_SEC);
		at++;
	}
	if (!rc && at <= nargs) {
		if (!num_uint(argv[at], UINT64_MAX, &p->count) || !p->count)
			return usage("the count must be a whole number above 0, got \"%s\"", argv[at]);
		at++;
	}
	if (!rc && at <= nargs)
		return usage("unexpected operand \"%s\"", argv[at]);
	p->style.json = o->json;
	p->style.tsv = o->tsv || o->no_header;
	p->style.header = !o->no_header && !o->json;
	p->style.exact = o->exact || o->tsv;
	p->sentences = p->view->sentences && p->style.header && !p->style.tsv && !o->columns;
	return rc ? rc : choose_columns(o, p);
}

/* ---- reports ------------------------------------------------------------------------------ */

json_t *view_get(struct http_client *c, const char *path, const char *key, struct err *e)
{
	json_t *doc, *member;

	if (http_call(c, "GET", path, NULL, 10 * NSEC_PER_SEC, NULL, &doc, e))
		return NULL;
	if (!key)
		return doc;
	member = json_incref(json_object_get(doc, key));
	json_decref(doc);
	if (!member)
		err_set(e, ERR_PROTO, "the answer to %s has no \"%s\"", path, key);
	return member;
}

static const json_t *same_row(const json_t *rows, const json_t *row)
{
	const char *id = json_str(row, "id", "");
	const json_t *o;
	size_t i;

	json_array_foreach(rows, i, o)
		if (strcmp(json_str(o, "id", ""), id) == 0)
			return o;
	return NULL;
}

static double sort_value(const struct plan *p, const json_t *row, const json_t *before, double seconds)
{
	const char *text;
	double v;

	return column_value(p->sort, row, same_row(before, row), seconds, &v, &text) && !text ? v : -1e300;
}

/* Few rows: insertion is enough, and keeps equal ones in order. */
static void sort_rows(const struct plan *p, json_t *rows, const json_t *before, double seconds)
{
	for (size_t i = 1; i < json_array_size(rows); i++) {
		json_t *row = json_incref(json_array_get(rows, i));
		double v = sort_value(p, row, before, seconds);
		size_t k = i;

		while (k > 0 && sort_value(p, json_array_get(rows, k - 1), before, seconds) < v)
			k--;
		json_array_remove(rows, i);
		json_array_insert_new(rows, k, row);
	}
}

static int screen_rows(void)
{
	struct winsize ws;

	return isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &ws) == 0 && ws.ws_row > 3 ? ws.ws_row - 2 : 0;
}

static void print_rows(const struct plan *p, json_t *rows, const json_t *before, double seconds, int *since_header)
{
	int screen = p->header_once ? 0 : screen_rows();
	json_t *row;
	size_t i;

	if (p->sort)
		sort_rows(p, rows, before, seconds);
	if (p->style.header && (*since_header < 0 || (screen && *since_header + (int)json_array_size(rows) > screen))) {
		table_header(&p->style);
		*since_header = 0;
	}
	json_array_foreach(rows, i, row) {
		double age = json_num(row, "seconds", 0);

		table_row(&p->style, row, same_row(before, row), before ? seconds : age);
		++*since_header;
	}
}

static void print_sentences(const struct stat_view *v, const json_t *rows)
{
	if (json_array_size(rows))
		v->sentences(rows);
	else
		puts(v->none);
	fflush(stdout);
}

static void pause_until(int64_t at)
{
	struct timespec ts = { at / NSEC_PER_SEC, at % NSEC_PER_SEC };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
		;
}

/* Rates since the start need the time since then, which only the cluster's
 * status knows. */
static void add_age(struct http_client *c, json_t *rows)
{
	struct err ignored;
	json_t *status = view_get(c, "/v1/status", NULL, &ignored), *row;
	size_t i;

	json_array_foreach(rows, i, row)
		if (!json_object_get(row, "seconds"))
			json_object_set(row, "seconds", json_object_get(status, "seconds"));
	json_decref(status);
}

static enum err_code one_prom(struct http_client *c, struct err *e)
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

static enum err_code report(const struct plan *p, struct http_client *c, uint64_t n, json_t **before, int64_t *taken,
    int *since_header, struct err *e)
{
	int64_t now;
	json_t *rows;

	if (p->prom)
		return one_prom(c, e);
	rows = p->view->fetch(c, e);
	if (!rows)
		return e->code;
	now = clock_now();
	if (n == 0)
		add_age(c, rows);
	if (p->sentences)
		print_sentences(p->view, rows);
	else if (n > 0 || !p->skip_first)
		print_rows(p, rows, *before, (double)(now - *taken) / (double)NSEC_PER_SEC, since_header);
	json_decref(*before);
	*before = rows;
	*taken = now;
	return ERR_OK;
}

static int stream(const struct plan *p, struct http_client *c)
{
	uint64_t count = p->count ? p->count : p->interval ? UINT64_MAX : 1, n = 0;
	int64_t next = clock_now(), taken = 0;
	json_t *before = NULL;
	int since_header = -1, code = 0;
	struct err e = { 0 };

	/* What -y leaves out is one more sample, not one report less. */
	if (p->skip_first && count != UINT64_MAX)
		count++;
	for (; n < count; n++) {
		if (report(p, c, n, &before, &taken, &since_header, &e)) {
			fprintf(stderr, n ? "ps-stat: the cluster has ended: %s\n" : "ps-stat: %s\n", e.msg);
			code = n ? 0 : err_exit_code(e.code);
			break;
		}
		if (ferror(stdout))
			break;          /* nobody reads any more */
		if (n + 1 < count) {
			next += p->interval ? p->interval : NSEC_PER_SEC;
			pause_until(next);
		}
	}
	json_decref(before);
	return code;
}

/* The control plane of the run directory, or, signed, that of a join file. */
static enum err_code connect_to(const struct options *o, struct identity *id, struct http_client **c, struct err *e)
{
	struct http_target target = { 0 };
	char *dir = NULL, *sock = NULL;
	enum err_code rc;

	if (o->join) {
		rc = identity_from_join(o->join, id, e);
		if (!rc && !*id->http)
			rc = err_set(e, ERR_CONFIG, "\"%s\" names no control plane: set `http` in the cluster file", o->join);
		target = (struct http_target){ .addr = id->http, .server_pk = id->server_key, .keys = &id->conn.hs.key,
			.psk = id->conn.hs.psk };
	} else {
		rc = rundir_find(o->run_dir, &dir, e);
		if (!rc)
			sock = rundir_path(dir, "ctl.sock");
		target.unix_path = sock;
	}
	if (!rc)
		rc = http_client_new(&target, c, e);
	free(sock);
	free(dir);
	return rc;
}

static int start(int argc, char **argv)
{
	struct options o = { 0 };
	struct identity id = { .dirfd = -1 };
	struct http_client *c = NULL;
	struct err e = { 0 };
	struct plan plan;
	int nargs, code;

	switch (opt_parse(&spec, &o, argc, argv, &nargs)) {
	case OPT_EXIT_OK:
		return 0;
	case OPT_EXIT_USAGE:
		return 2;
	case OPT_GO:
		break;
	}
	code = make_plan(&o, nargs, argv, &plan);
	if (code)
		return code;
	if (key_init(&e) || http_client_global_init(&e) || connect_to(&o, &id, &c, &e)) {
		fprintf(stderr, "ps-stat: %s\n", e.msg);
		return err_exit_code(e.code);
	}
	code = stream(&plan, c);
	http_client_free(c);
	identity_release(&id);
	return code;
}

int main(int argc, char **argv)
{
	output_begin();
	return output_end("ps-stat", start(argc, argv));
}

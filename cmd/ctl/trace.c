/* SPDX-License-Identifier: ISC */
#include "trace_rows.h"

#include <string.h>

#include "core/json.h"
#include "core/num.h"
#include "ctl.h"

/* Upper bound of the bytes that one row becomes in the file. */
#define ROW_BYTES 512u

struct options {
	const char *dir;
	int64_t duration;
	uint64_t limit;
};

static const struct opt opts[] = {
	CTL_OPT_CLUSTER(struct options, dir),
	{ "duration", 'd', OPT_DURATION, offsetof(struct options, duration), "TIME",
	    "duration of the recording (5s)", NULL, 1e6, 6e11 },
	{ "limit", 0, OPT_SIZE, offsetof(struct options, limit), "BYTES",
	    "maximum size of the trace (64M)", NULL, 4096, 4294967296.0 },
};

static enum err_code begin_trace(const struct options *o, json_int_t *id, struct err *e)
{
	json_t *body = json_pack("{s:f}", "seconds", (double)o->duration / NSEC_PER_SEC),
	       *answer = NULL;
	enum err_code rc = ctl_request_soon(o->dir,
	    &(struct ctl_call){ .path = "/v1/trace", .body = body, .repeatable = true }, CTL_CALL,
	    &answer, e);

	*id = rc ? 0 : json_int(answer, "id", 0);
	json_decref(answer);
	json_decref(body);
	return rc;
}

/* Gets the trace page by page, until the coordinator says that it is complete. */
static enum err_code collect_pages(struct http_client *client, json_int_t id, struct trace *t,
    struct err *e)
{
	json_int_t next = 0;
	bool done = false;
	enum err_code rc = ERR_OK;

	while (!rc && !done) {
		json_t *answer = NULL;
		char path[80];

		snprintf(path, sizeof path, "/v1/trace?id=%lld&page=%lld&wait=2", (long long)id,
		    (long long)next);
		rc = http_call(client, "GET", path, NULL, 2 * CTL_CALL, NULL, &answer, e);
		if (rc)
			break;
		t->began = json_int(answer, "began", 0);
		t->wall = json_int(answer, "wall", 0);
		t->dropped = (uint64_t)json_int(answer, "dropped", 0);
		if (json_is_object(json_object_get(answer, "page")))
			trace_add_page(t, json_object_get(answer, "page"));
		next = json_int(answer, "next", 0);
		done = json_flag(answer, "done");
		json_decref(answer);
	}
	return rc;
}

static char *get_cluster_name(struct http_client *client)
{
	json_t *s = NULL;
	int64_t rev = -1;
	char *name = NULL;

	if (ctl_next_status(client, &rev, &s, NULL) == ERR_OK)
		name = strdup(json_str(s, "name", ""));
	json_decref(s);
	return name;
}

static void print_trace_summary(const struct trace *t, size_t spans, bool whole)
{
	fprintf(stderr, "%zu process%s, %zu span%s%s", t->nprocesses,
	    t->nprocesses == 1 ? "" : "es", spans, NUM_S(spans),
	    whole ? "" : "; the size limit was reached, and later spans are omitted");
	if (t->dropped)
		fprintf(stderr, "; %llu row%s arrived too fast and %s missing",
		    (unsigned long long)t->dropped, NUM_S(t->dropped),
		    t->dropped == 1 ? "is" : "are");
	fprintf(stderr, ": see chrome://tracing or https://ui.perfetto.dev\n");
}

/* The file goes to stdout, the summary for people to stderr. --limit bounds both the rows held in
 * memory, at ROW_BYTES each, and the bytes written. */
static int run_trace(const struct ctl_cmd *self, int argc, char **argv)
{
	struct options o = { .duration = 5 * NSEC_PER_SEC, .limit = 64u << 20 };
	struct http_client *client = NULL;
	struct trace t = { 0 };
	struct err e = { 0 };
	enum err_code rc;
	json_int_t id = 0;
	int nargs, code;
	char *name = NULL;
	size_t spans;
	bool whole;

	if (!ctl_parse(self, &o, argc, argv, &nargs, &code))
		return code;
	t.most = (size_t)(o.limit / ROW_BYTES);
	rc = ctl_reach(o.dir, &client, &e);
	if (!rc)
		rc = begin_trace(&o, &id, &e);
	if (!rc) {
		fprintf(stderr, "the cluster records its steps for %g s\n",
		    (double)o.duration / NSEC_PER_SEC);
		name = get_cluster_name(client);
		rc = collect_pages(client, id, &t, &e);
	}
	/* Also write the pages that arrived before the coordinator went away. */
	if (!rc || t.nprocesses) {
		trace_align_clocks(&t);
		whole = trace_write(&t, name ? name : "", stdout, o.limit, &spans);
		print_trace_summary(&t, spans, whole);
	}
	http_client_free(client);
	trace_release(&t);
	free(name);
	return rc ? ctl_fail(&e) : 0;
}

const struct ctl_cmd ctl_cmd_trace = {
	"trace",
	{
	    .prog = "ps-ctl trace",
	    .args = NULL,
	    .about =
	        "let all processes record their steps for some time, and print them as Chrome trace events",
	    .more =
	        "The trace has the data, wait, pull, compute and push of every worker, and the work of the servers,\n"
	        "on one scale of time. chrome://tracing and https://ui.perfetto.dev show it. See ps-metrics(7).",
	    .opts = opts,
	    .nopts = CTL_COUNT(opts),
	    .examples = "  ps-ctl trace -d 5s > trace.json\n",
	},
	run_trace,
};

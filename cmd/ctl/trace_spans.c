/* SPDX-License-Identifier: ISC */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/mem.h"
#include "core/num.h"
#include "trace_rows.h"

/* In the output each process of the cluster is a process. Its steps are on threads from STEPS on,
 * several where steps overlap (at most LANES). On a server, the pushes of worker N are on thread
 * PUSHES + N. */
#define STEPS  1
#define LANES  64
#define PUSHES 100

struct event {
	int64_t at, took;
	const char *name;
	char ph;
	int pid, tid;
	const char *key[3]; /* arguments; NULL ends the list */
	int64_t arg[3];
	uint64_t flow;
};

struct writer {
	const struct trace *t;
	struct event *event;
	size_t n, cap;
	uint64_t flows;
	/* Items by step: the steps of workers, and the applied pushes on servers. */
	const struct trace_item **step, **apply;
	size_t nsteps, napplies;
};

/* ---- identifiers ---- */

static unsigned process_number(const struct trace_process *p)
{
	const char *dash = strrchr(p->id, '-');
	uint64_t n = 0;

	return dash && num_uint(dash + 1, 99999, &n) ? (unsigned)n : 0;
}

static int trace_pid(const struct writer *w, const struct trace_item *x)
{
	const struct trace_process *p = &w->t->process[x->process];
	int base = strncmp(p->id, "worker", 6) == 0 ? 200000
	    : strncmp(p->id, "relay", 5) == 0       ? 100000
	                                            : 0;

	return base + 1 + (int)process_number(p);
}

static int64_t worker_rank(const struct writer *w, const struct trace_item *x)
{
	return x->kind == TRACE_STEP ? (int64_t)process_number(&w->t->process[x->process])
	                             : x->v[1];
}

/* ---- events ---- */

static struct event *add_trace_event(struct writer *w, char ph, const char *name, int pid, int tid,
    int64_t at, int64_t took)
{
	struct event *e;

	w->event = mem_grow(w->event, &w->cap, w->n + 1, sizeof *w->event);
	e = &w->event[w->n++];
	*e = (struct event){ .at = at,
		.took = took > 0 ? took : 0,
		.ph = ph,
		.name = name,
		.pid = pid,
		.tid = tid };
	return e;
}

static void add_argument(struct event *e, const char *key, int64_t value)
{
	for (size_t i = 0; i < sizeof e->key / sizeof *e->key; i++)
		if (!e->key[i]) {
			e->key[i] = key;
			e->arg[i] = value;
			return;
		}
}

/* Adds the span of a step, and within it the spans of its phases. Each phase begins where the one
 * before ended. */
static void add_step_spans(struct writer *w, const struct trace_item *x)
{
	static const char *const part[] = { "wait", "data", "wait", "pull", "compute", "push" };
	const int64_t end[] = { x->v[1] + x->v[2], x->v[3], x->v[4], x->v[5], x->v[6], x->v[7] };
	int64_t at = x->v[1];
	int pid = trace_pid(w, x);
	struct event *e = add_trace_event(w, 'X', "step", pid, STEPS, at, x->v[7] - at);

	add_argument(e, "step", x->v[0]);
	add_argument(e, "examples", x->v[8]);
	for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
		int64_t until = end[i] > x->v[7] ? x->v[7] : end[i];

		if (until <= at)
			continue;
		e = add_trace_event(w, 'X', part[i], pid, STEPS, at, until - at);
		add_argument(e, "step", x->v[0]);
		at = until;
	}
}

static void add_apply_span(struct writer *w, const struct trace_item *x)
{
	struct event *e = add_trace_event(w, 'X', "apply", trace_pid(w, x),
	    PUSHES + (int)worker_rank(w, x), x->v[2], x->v[3] - x->v[2]);

	add_argument(e, "step", x->v[0]);
	add_argument(e, "pushes", x->v[5]);
	add_argument(e, "busy_ns", x->v[4]);
}

/* ---- flows ---- */

static int compare_item_steps(const void *a, const void *b)
{
	const struct trace_item *x = *(const struct trace_item *const *)a,
	                        *y = *(const struct trace_item *const *)b;

	return (x->v[0] > y->v[0]) - (x->v[0] < y->v[0]);
}

/* Returns the index of the first item of a step in a sorted list, or the index where it would
 * be. */
static size_t find_first_of_step(const struct trace_item **list, size_t n, int64_t step)
{
	size_t low = 0, high = n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (list[mid]->v[0] < step)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static const struct trace_item *find_apply(const struct writer *w, uint32_t server, int64_t step,
    int64_t rank)
{
	for (size_t i = find_first_of_step(w->apply, w->napplies, step);
	     i < w->napplies && w->apply[i]->v[0] == step; i++)
		if (w->apply[i]->process == server && w->apply[i]->v[1] == rank)
			return w->apply[i];
	return NULL;
}

static void add_flow_event(struct writer *w, char ph, const struct trace_item *x, int tid,
    int64_t at)
{
	add_trace_event(w, ph, "step", trace_pid(w, x), tid, at, 0)->flow = w->flows;
}

/* Adds flow arrows from each worker's push, through the server's apply, to the end of the step on
 * this server. */
static void link_step(struct writer *w, const struct trace_item *close, int tid)
{
	int64_t step = close->v[0];

	for (size_t i = find_first_of_step(w->step, w->nsteps, step);
	     i < w->nsteps && w->step[i]->v[0] == step; i++) {
		const struct trace_item *from = w->step[i],
		                        *via = find_apply(w, close->process, step,
		                            worker_rank(w, from));

		w->flows++;
		add_flow_event(w, 's', from, STEPS,
		    from->v[6] < from->v[7] ? from->v[6] : from->v[7]);
		if (via)
			add_flow_event(w, 't', via, PUSHES + (int)via->v[1], via->v[2]);
		add_flow_event(w, 'f', close, tid,
		    close->v[3] > close->v[2] ? close->v[3] - 1 : close->v[3]);
	}
}

/* Chooses a thread for a span, so that spans open at the same time are on different threads. end[]
 * has the time at which each thread becomes free. */
static int choose_thread(int64_t end[LANES], int64_t from, int64_t to)
{
	int lane = 0;

	while (lane < LANES - 1 && end[lane] > from)
		lane++;
	end[lane] = to;
	return lane;
}

static int compare_open_times(const void *a, const void *b)
{
	const struct trace_item *x = *(const struct trace_item *const *)a,
	                        *y = *(const struct trace_item *const *)b;

	return x->process != y->process ? (x->process > y->process) - (x->process < y->process)
	                                : (x->v[2] > y->v[2]) - (x->v[2] < y->v[2]);
}

/* Adds a span for each step on each server, from its first CLOCK to its end. Sorts the list. */
static void add_barrier_spans(struct writer *w, const struct trace_item **close, size_t n)
{
	int64_t end[LANES];

	qsort(close, n, sizeof *close, compare_open_times);
	for (size_t i = 0; i < n; i++) {
		const struct trace_item *x = close[i];
		struct event *e;
		int tid;

		if (!i || close[i - 1]->process != x->process)
			memset(end, 0, sizeof end);
		tid = STEPS + choose_thread(end, x->v[2], x->v[3]);
		e = add_trace_event(w, 'X', "barrier", trace_pid(w, x), tid, x->v[2],
		    x->v[3] - x->v[2]);
		add_argument(e, "step", x->v[0]);
		add_argument(e, "last_worker", x->v[1]);
		link_step(w, x, tid);
	}
}

/* ---- names ---- */

static int compare_event_places(const void *a, const void *b)
{
	const struct event *x = a, *y = b;

	return x->pid != y->pid ? (x->pid > y->pid) - (x->pid < y->pid)
	                        : (x->tid > y->tid) - (x->tid < y->tid);
}

static void format_thread_name(char *out, size_t n, int tid)
{
	if (tid == STEPS)
		snprintf(out, n, "steps");
	else if (tid < PUSHES - 1)
		snprintf(out, n, "steps (%d)", tid);
	else if (tid == PUSHES - 1)
		snprintf(out, n, "sums of relays");
	else
		snprintf(out, n, "pushes of worker-%d", tid - PUSHES);
}

static void put_process_names(const struct writer *w, FILE *out)
{
	for (size_t i = 0; i < w->t->nprocesses; i++) {
		const struct trace_item x = { .process = (uint32_t)i };
		const struct trace_process *p = &w->t->process[i];

		fprintf(out,
		    "%s{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%d,\"tid\":0,\"args\":{\"name\":\"%s\"}},\n",
		    i ? ",\n" : "", trace_pid(w, &x), p->id);
		fprintf(out,
		    "{\"ph\":\"M\",\"name\":\"process_labels\",\"pid\":%d,\"tid\":0,\"args\":{\"labels\":\"pid %" PRId64
		    "\"}}",
		    trace_pid(w, &x), p->pid);
	}
}

/* Writes the name of each thread that has events. The events must be sorted by
 * compare_event_places(). */
static void put_thread_names(const struct writer *w, FILE *out)
{
	char name[48];

	for (size_t i = 0; i < w->n; i++) {
		const struct event *e = &w->event[i];

		if (i && compare_event_places(e, e - 1) == 0)
			continue;
		format_thread_name(name, sizeof name, e->tid);
		fprintf(out,
		    ",\n{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%d,\"tid\":%d,\"args\":{\"name\":\"%s\"}}",
		    e->pid, e->tid, name);
	}
}

/* ---- writing ---- */

/* For qsort(): by time; of events that begin together, the longer one first, so that a span
 * precedes those within it. */
static int compare_event_times(const void *a, const void *b)
{
	const struct event *x = a, *y = b;

	if (x->at != y->at)
		return (x->at > y->at) - (x->at < y->at);
	return x->took != y->took ? (x->took < y->took) - (x->took > y->took)
	                          : (x->flow > y->flow) - (x->flow < y->flow);
}

/* Writes one event; times are microseconds with three decimals. Returns the number of bytes. */
static int put_trace_event(FILE *out, const struct event *e)
{
	int n = fprintf(out,
	    ",\n{\"ph\":\"%c\",\"cat\":\"ps\",\"name\":\"%s\",\"pid\":%d,\"tid\":%d,\"ts\":%" PRId64
	    ".%03d",
	    e->ph, e->name, e->pid, e->tid, e->at / 1000, (int)(e->at % 1000));

	if (e->ph == 'X')
		n += fprintf(out, ",\"dur\":%" PRId64 ".%03d", e->took / 1000,
		    (int)(e->took % 1000));
	else
		n += fprintf(out, ",\"id\":%" PRIu64 "%s", e->flow,
		    e->ph == 'f' ? ",\"bp\":\"e\"" : "");
	for (size_t i = 0; i < sizeof e->key / sizeof *e->key && e->key[i]; i++)
		n += fprintf(out, "%s\"%s\":%" PRId64, i ? "," : ",\"args\":{", e->key[i],
		    e->arg[i]);
	return n + fprintf(out, "%s}", e->key[0] ? "}" : "");
}

static void put_trace_header(const struct trace *t, const char *cluster, FILE *out)
{
	json_t *about = json_pack("{s:s, s:I, s:{}}", "cluster", cluster, "rows_dropped",
	    (json_int_t)t->dropped, "clocks");
	json_t *clocks = json_object_get(about, "clocks");
	char *text;

	for (size_t i = 0; i < t->nprocesses; i++) {
		const struct trace_process *p = &t->process[i];

		json_object_set_new(clocks, p->id,
		    json_pack("{s:f, s:f, s:s}", "offset_seconds", (double)p->offset / NSEC_PER_SEC,
		        "bounds_seconds", (double)(p->most - p->least) / NSEC_PER_SEC, "by",
		        p->by_wall ? "wall clocks" : "messages"));
	}
	text = json_dumps(about, JSON_COMPACT);
	fprintf(out, "{\"displayTimeUnit\":\"ms\",\"otherData\":%s,\n\"traceEvents\":[\n", text);
	free(text);
	json_decref(about);
}

/* Makes the events of all items: spans of steps and applied pushes first, then barriers, whose flow
 * arrows need both sorted by step. */
static void make_trace_events(struct writer *w)
{
	const struct trace *t = w->t;
	const struct trace_item **close = mem_array(t->nitems + 1, sizeof *close);
	size_t n = 0;

	for (size_t i = 0; i < t->nitems; i++) {
		const struct trace_item *x = &t->item[i];

		if (x->kind == TRACE_STEP)
			w->step[w->nsteps++] = x;
		else if (x->kind == TRACE_APPLY)
			w->apply[w->napplies++] = x;
		else
			close[n++] = x;
	}
	qsort(w->step, w->nsteps, sizeof *w->step, compare_item_steps);
	qsort(w->apply, w->napplies, sizeof *w->apply, compare_item_steps);
	for (size_t i = 0; i < w->nsteps; i++)
		add_step_spans(w, w->step[i]);
	for (size_t i = 0; i < w->napplies; i++)
		add_apply_span(w, w->apply[i]);
	add_barrier_spans(w, close, n);
	free((void *)close);
}

bool trace_write(struct trace *t, const char *cluster, FILE *out, uint64_t limit, size_t *spans)
{
	struct writer w = { .t = t };
	uint64_t bytes = 0;
	size_t i;

	w.step = mem_array(t->nitems + 1, sizeof *w.step);
	w.apply = mem_array(t->nitems + 1, sizeof *w.apply);
	make_trace_events(&w);
	qsort(w.event, w.n, sizeof *w.event, compare_event_places);
	put_trace_header(t, cluster, out);
	put_process_names(&w, out);
	put_thread_names(&w, out);
	qsort(w.event, w.n, sizeof *w.event, compare_event_times);
	*spans = 0;
	for (i = 0; i < w.n && bytes < limit; i++) {
		bytes += (uint64_t)put_trace_event(out, &w.event[i]);
		*spans += w.event[i].ph == 'X';
	}
	fprintf(out, "\n]}\n");
	free(w.event);
	free((void *)w.step);
	free((void *)w.apply);
	return i == w.n && !t->full;
}

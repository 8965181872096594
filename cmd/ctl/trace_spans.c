#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"
#include "trace.h"

/* Each process is one of Chrome's; its steps are on threads from STEPS on, of which there are
 * several where steps overlap; what workers pushed to a server is on threads of their own. */
#define STEPS 1
#define LANES 64
#define PUSHES 100

struct event {
	int64_t at, took;
	const char *name;
	char ph;
	int pid, tid;
	const char *key[3];             /* arguments; NULL: no more */
	int64_t arg[3];
	uint64_t flow;
};

struct writer {
	const struct trace *t;
	struct event *event;
	size_t n, cap;
	uint64_t flows;
	/* Of items: steps of workers, and pushes to servers, by step. */
	const struct trace_item **step, **apply;
	size_t nsteps, napplies;
};

/* ---- who and where --------------------------------------------------------------------- */

static unsigned number_of(const struct trace_process *p)
{
	const char *dash = strrchr(p->id, '-');
	uint64_t n = 0;

	return dash && num_uint(dash + 1, 99999, &n) ? (unsigned)n : 0;
}

static int pid_of(const struct writer *w, const struct trace_item *x)
{
	const struct trace_process *p = &w->t->process[x->process];
	int base = strncmp(p->id, "worker", 6) == 0 ? 200000 : strncmp(p->id, "relay", 5) == 0 ? 100000 : 0;

	return base + 1 + (int)number_of(p);
}

static int64_t slot_of(const struct writer *w, const struct trace_item *x)
{
	return x->kind == TRACE_STEP ? (int64_t)number_of(&w->t->process[x->process]) : x->v[1];
}

/* ---- events ------------------------------------------------------------------------------ */

static struct event *add(struct writer *w, char ph, const char *name, int pid, int tid, int64_t at, int64_t took)
{
	struct event *e;

	if (w->n == w->cap) {
		w->cap = w->cap ? w->cap * 2 : 4096;
		w->event = mem_regrow(w->event, w->cap, sizeof *w->event);
	}
	e = &w->event[w->n++];
	*e = (struct event){ .at = at, .took = took > 0 ? took : 0, .ph = ph, .name = name, .pid = pid, .tid = tid };
	return e;
}

static void argue(struct event *e, const char *key, int64_t value)
{
	for (size_t i = 0; i < sizeof e->key / sizeof *e->key; i++)
		if (!e->key[i]) {
			e->key[i] = key;
			e->arg[i] = value;
			return;
		}
}

/* A step, and within it its parts: each from the end of the one before. */
static void add_step(struct writer *w, const struct trace_item *x)
{
	static const char *const part[] = { "wait", "data", "wait", "pull", "compute", "push" };
	const int64_t end[] = { x->v[1] + x->v[2], x->v[3], x->v[4], x->v[5], x->v[6], x->v[7] };
	int64_t at = x->v[1];
	int pid = pid_of(w, x);
	struct event *e = add(w, 'X', "step", pid, STEPS, at, x->v[7] - at);

	argue(e, "step", x->v[0]);
	argue(e, "examples", x->v[8]);
	for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
		int64_t until = end[i] > x->v[7] ? x->v[7] : end[i];

		if (until <= at)
			continue;
		e = add(w, 'X', part[i], pid, STEPS, at, until - at);
		argue(e, "step", x->v[0]);
		at = until;
	}
}

static void add_apply(struct writer *w, const struct trace_item *x)
{
	struct event *e = add(w, 'X', "apply", pid_of(w, x), PUSHES + (int)slot_of(w, x), x->v[2], x->v[3] - x->v[2]);

	argue(e, "step", x->v[0]);
	argue(e, "pushes", x->v[5]);
	argue(e, "busy_ns", x->v[4]);
}

/* ---- what belongs together ------------------------------------------------------------------ */

static int by_step(const void *a, const void *b)
{
	const struct trace_item *x = *(const struct trace_item *const *)a, *y = *(const struct trace_item *const *)b;

	return (x->v[0] > y->v[0]) - (x->v[0] < y->v[0]);
}

/* The first of that step, or where it would be. */
static size_t first_of(const struct trace_item **list, size_t n, int64_t step)
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

static const struct trace_item *apply_of(const struct writer *w, uint32_t server, int64_t step, int64_t slot)
{
	for (size_t i = first_of(w->apply, w->napplies, step); i < w->napplies && w->apply[i]->v[0] == step; i++)
		if (w->apply[i]->process == server && w->apply[i]->v[1] == slot)
			return w->apply[i];
	return NULL;
}

static void add_flow(struct writer *w, char ph, const struct trace_item *x, int tid, int64_t at)
{
	add(w, ph, "step", pid_of(w, x), tid, at, 0)->flow = w->flows;
}

/* From each worker's push to the end of the step at this server. */
static void tie(struct writer *w, const struct trace_item *close, int tid)
{
	int64_t step = close->v[0];

	for (size_t i = first_of(w->step, w->nsteps, step); i < w->nsteps && w->step[i]->v[0] == step; i++) {
		const struct trace_item *from = w->step[i], *via = apply_of(w, close->process, step, slot_of(w, from));

		w->flows++;
		add_flow(w, 's', from, STEPS, from->v[6] < from->v[7] ? from->v[6] : from->v[7]);
		if (via)
			add_flow(w, 't', via, PUSHES + (int)via->v[1], via->v[2]);
		add_flow(w, 'f', close, tid, close->v[3] > close->v[2] ? close->v[3] - 1 : close->v[3]);
	}
}

/* Steps that are open at the same time lie on different threads. */
static int lane_of(int64_t end[LANES], int64_t from, int64_t to)
{
	int lane = 0;

	while (lane < LANES - 1 && end[lane] > from)
		lane++;
	end[lane] = to;
	return lane;
}

static int by_open(const void *a, const void *b)
{
	const struct trace_item *x = *(const struct trace_item *const *)a, *y = *(const struct trace_item *const *)b;

	return x->process != y->process ? (x->process > y->process) - (x->process < y->process) : (x->v[2] > y->v[2]) - (x->v[2] < y->v[2]);
}

static void add_closes(struct writer *w, const struct trace_item **close, size_t n)
{
	int64_t end[LANES];

	qsort(close, n, sizeof *close, by_open);
	for (size_t i = 0; i < n; i++) {
		const struct trace_item *x = close[i];
		struct event *e;
		int tid;

		if (!i || close[i - 1]->process != x->process)
			memset(end, 0, sizeof end);
		tid = STEPS + lane_of(end, x->v[2], x->v[3]);
		e = add(w, 'X', "barrier", pid_of(w, x), tid, x->v[2], x->v[3] - x->v[2]);
		argue(e, "step", x->v[0]);
		argue(e, "last_worker", x->v[1]);
		tie(w, x, tid);
	}
}

/* ---- names ------------------------------------------------------------------------------------- */

static int by_place(const void *a, const void *b)
{
	const struct event *x = a, *y = b;

	return x->pid != y->pid ? (x->pid > y->pid) - (x->pid < y->pid) : (x->tid > y->tid) - (x->tid < y->tid);
}

static void thread_name(char *out, size_t n, int tid)
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

static void name_processes(const struct writer *w, FILE *out)
{
	for (size_t i = 0; i < w->t->nprocesses; i++) {
		const struct trace_item x = { .process = (uint32_t)i };
		const struct trace_process *p = &w->t->process[i];

		fprintf(out, "%s{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%d,\"tid\":0,\"args\":{\"name\":\"%s\"}},\n", i ? ",\n" : "",
		    pid_of(w, &x), p->id);
		fprintf(out, "{\"ph\":\"M\",\"name\":\"process_labels\",\"pid\":%d,\"tid\":0,\"args\":{\"labels\":\"pid %" PRId64 "\"}}",
		    pid_of(w, &x), p->pid);
	}
}

/* The events are in the order of places. */
static void name_threads(const struct writer *w, FILE *out)
{
	char name[48];

	for (size_t i = 0; i < w->n; i++) {
		const struct event *e = &w->event[i];

		if (i && by_place(e, e - 1) == 0)
			continue;
		thread_name(name, sizeof name, e->tid);
		fprintf(out, ",\n{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%d,\"tid\":%d,\"args\":{\"name\":\"%s\"}}", e->pid, e->tid, name);
	}
}

/* ---- writing -------------------------------------------------------------------------------------- */

/* What holds others comes before them. */
static int by_time(const void *a, const void *b)
{
	const struct event *x = a, *y = b;

	if (x->at != y->at)
		return (x->at > y->at) - (x->at < y->at);
	return x->took != y->took ? (x->took < y->took) - (x->took > y->took) : (x->flow > y->flow) - (x->flow < y->flow);
}

/* Microseconds, to the nanosecond. */
static int put_event(FILE *out, const struct event *e)
{
	int n = fprintf(out, ",\n{\"ph\":\"%c\",\"cat\":\"ps\",\"name\":\"%s\",\"pid\":%d,\"tid\":%d,\"ts\":%" PRId64 ".%03d",
	    e->ph, e->name, e->pid, e->tid, e->at / 1000, (int)(e->at % 1000));

	if (e->ph == 'X')
		n += fprintf(out, ",\"dur\":%" PRId64 ".%03d", e->took / 1000, (int)(e->took % 1000));
	else
		n += fprintf(out, ",\"id\":%" PRIu64 "%s", e->flow, e->ph == 'f' ? ",\"bp\":\"e\"" : "");
	for (size_t i = 0; i < sizeof e->key / sizeof *e->key && e->key[i]; i++)
		n += fprintf(out, "%s\"%s\":%" PRId64, i ? "," : ",\"args\":{", e->key[i], e->arg[i]);
	return n + fprintf(out, "%s}", e->key[0] ? "}" : "");
}

static void put_about(const struct trace *t, const char *cluster, FILE *out)
{
	json_t *about = json_pack("{s:s, s:I, s:{}}", "cluster", cluster, "rows_dropped", (json_int_t)t->dropped, "clocks");
	json_t *clocks = json_object_get(about, "clocks");
	char *text;

	for (size_t i = 0; i < t->nprocesses; i++) {
		const struct trace_process *p = &t->process[i];

		json_object_set_new(clocks, p->id, json_pack("{s:f, s:f, s:s}", "offset_seconds", (double)p->offset / NSEC_PER_SEC,
		    "bounds_seconds", (double)(p->most - p->least) / NSEC_PER_SEC, "by", p->by_wall ? "wall clocks" : "messages"));
	}
	text = json_dumps(about, JSON_COMPACT);
	fprintf(out, "{\"displayTimeUnit\":\"ms\",\"otherData\":%s,\n\"traceEvents\":[\n", text);
	free(text);
	json_decref(about);
}

static void collect(struct writer *w)
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
	qsort(w->step, w->nsteps, sizeof *w->step, by_step);
	qsort(w->apply, w->napplies, sizeof *w->apply, by_step);
	for (size_t i = 0; i < w->nsteps; i++)
		add_step(w, w->step[i]);
	for (size_t i = 0; i < w->napplies; i++)
		add_apply(w, w->apply[i]);
	add_closes(w, close, n);
	free((void *)close);
}

bool trace_write(struct trace *t, const char *cluster, FILE *out, uint64_t limit, size_t *spans)
{
	struct writer w = { .t = t };
	uint64_t bytes = 0;
	size_t i;

	w.step = mem_array(t->nitems + 1, sizeof *w.step);
	w.apply = mem_array(t->nitems + 1, sizeof *w.apply);
	collect(&w);
	qsort(w.event, w.n, sizeof *w.event, by_place);
	put_about(t, cluster, out);
	name_processes(&w, out);
	name_threads(&w, out);
	qsort(w.event, w.n, sizeof *w.event, by_time);
	*spans = 0;
	for (i = 0; i < w.n && bytes < limit; i++) {
		bytes += (uint64_t)put_event(out, &w.event[i]);
		*spans += w.event[i].ph == 'X';
	}
	fprintf(out, "\n]}\n");
	free(w.event);
	free((void *)w.step);
	free((void *)w.apply);
	return i == w.n && !t->full;
}

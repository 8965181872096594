/* SPDX-License-Identifier: ISC */
#include "session/tracer.h"

#include <pthread.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/json.h"
#include "core/lock.h"
#include "core/mem.h"
#include "session/agent.h"

/* Rows in one message, which must stay below 64 KiB: a number has at most 12 digits within 10
 * minutes. */
#define PAGE_ROWS 400u

struct row {
	uint8_t kind, n;
	int64_t v[TRACER_NUMBERS];
};

struct tracer {
	/* the first member, because tracer_is_on reads it there; 0: no trace is taken */
	_Atomic uint64_t id;
	struct mutex lock; /* protects the members below, except `heard` */
	struct row *row;   /* TRACER_ROWS of them; NULL: off */
	unsigned nrows;
	uint64_t dropped;
	/* when the view that began the trace came: times are sent relative to it; agent's
	 * thread only */
	int64_t heard;
};

struct tracer *tracer_new(void)
{
	struct tracer *t = mem_alloc(sizeof *t);

	mutex_init(&t->lock, LOCK_TRACER);
	return t;
}

void tracer_free(struct tracer *t)
{
	if (!t)
		return;
	mutex_destroy(&t->lock);
	free(t->row);
	free(t);
}

uint64_t tracer_id(const struct tracer *t)
{
	return atomic_load_explicit(&t->id, memory_order_relaxed);
}

void tracer_add(struct tracer *t, enum trace_row kind, const int64_t *v, unsigned n)
{
	struct row *r;

	mutex_lock(&t->lock);
	if (t->row && t->nrows < TRACER_ROWS) {
		r = &t->row[t->nrows++];
		r->kind = (uint8_t)kind;
		r->n = (uint8_t)n;
		memcpy(r->v, v, n * sizeof *v);
	} else {
		t->dropped += t->row != NULL;
	}
	mutex_unlock(&t->lock);
}

/* ---- on the agent's thread ---- */

/* Is a row's number i a time? By kind, a bit for each number. */
static bool is_row_time(const struct row *r, unsigned i)
{
	static const uint16_t
	    times[] = { [TRACE_STEP] = 0xfa, [TRACE_APPLY] = 0xc, [TRACE_CLOSE] = 0xc };

	return times[r->kind] >> i & 1;
}

/* Returns a new array of the kind and the numbers. Times become ns since `since`; other numbers
 * stay as they are. */
static json_t *trace_row_json(const struct row *r, int64_t since)
{
	json_t *out = json_array();

	json_array_append_new(out, json_integer(r->kind));
	for (unsigned i = 0; i < r->n; i++)
		json_array_append_new(out, json_integer(r->v[i] - (is_row_time(r, i) ? since : 0)));
	return out;
}

/* Send one page. The coordinator aligns our clock with its own by now, wall and heard. */
static void send_trace_page(struct tracer *t, struct agent *a, const struct row *row, unsigned n,
    uint64_t dropped, bool last)
{
	json_t *rows = json_array();

	for (unsigned i = 0; i < n; i++)
		json_array_append_new(rows, trace_row_json(&row[i], t->heard));
	agent_tell(a,
	    MESSAGE(trace, .id = (int64_t)tracer_id(t), .pid = getpid(), .heard = t->heard,
	        .now = clock_now(), .wall = clock_wall(), .dropped = (int64_t)dropped, .last = last,
	        .rows = rows));
	json_decref(rows);
}

/* Takes all rows out of the buffer and sends them in pages. One page is sent even when there are
 * no rows, because it carries the number of dropped rows and the mark of the end. With `last` there
 * is no new buffer afterwards, so tracer_add records nothing from then on. */
static void send_trace_rows(struct tracer *t, struct agent *a, bool last)
{
	struct row *fresh = last ? NULL : mem_array(TRACER_ROWS, sizeof *fresh), *row;
	uint64_t dropped;
	unsigned n, at = 0;

	/* Other threads go on with an empty buffer. */
	mutex_lock(&t->lock);
	row = t->row;
	n = t->nrows;
	dropped = t->dropped;
	t->row = fresh;
	t->nrows = 0;
	t->dropped = 0;
	mutex_unlock(&t->lock);
	do {
		unsigned k = n - at < PAGE_ROWS ? n - at : PAGE_ROWS;

		send_trace_page(t, a, row + at, k, at ? 0 : dropped, last && at + k == n);
		at += k;
	} while (at < n);
	free(row);
}

static void end_process_trace(struct tracer *t, struct agent *a)
{
	send_trace_rows(t, a, true);
	atomic_store(&t->id, 0);
}

/* Publishes the number last: a thread that sees it finds the buffer ready. */
static void start_process_trace(struct tracer *t, uint64_t id)
{
	t->heard = clock_now();
	mutex_lock(&t->lock);
	t->row = mem_array(TRACER_ROWS, sizeof *t->row);
	t->nrows = 0;
	t->dropped = 0;
	mutex_unlock(&t->lock);
	atomic_store(&t->id, id);
}

void tracer_view(struct tracer *t, struct agent *a, const struct view *view)
{
	uint64_t id = (uint64_t)view->trace, now = tracer_id(t);

	if (id == now)
		return;
	if (now)
		end_process_trace(t, a);
	if (id)
		start_process_trace(t, id);
}

void tracer_send(struct tracer *t, struct agent *a)
{
	if (tracer_is_on(t))
		send_trace_rows(t, a, false);
}

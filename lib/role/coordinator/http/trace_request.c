/* SPDX-License-Identifier: ISC */
#include "coordinator/http/trace_request.h"

#include "core/clock.h"
#include "core/json.h"
#include "core/mem.h"

/* Rows held for the client; further ones are counted and dropped. */
#define ROWS_MAX 65536u
/* Each heartbeat brings a page, even without rows, because a page also reports the process's
 * clock. */
#define PAGES_MAX 65536u
#define ROW_MOST  16u
#define TEXT_MOST 64u
/* After the end: how long to wait for last rows, which dead processes never send; and how long
 * to keep the trace for a client. */
#define GRACE (3 * NSEC_PER_SEC)
#define KEPT  (30 * NSEC_PER_SEC)

struct page {
	struct page *next;
	json_t *json;
	size_t rows;
};

struct trace_request {
	uint64_t id;   /* of the newest trace; 0: there was none */
	bool on, done; /* on: processes record; done: nothing more will come */
	int64_t began, began_wall, until, asked; /* asked: when a client asked last */
	struct page *first, **last;
	uint64_t next;      /* number of the first page that is held */
	size_t rows, pages; /* rows and pages that are held */
	uint64_t dropped;
	json_t *process; /* id -> true when the process has sent its last rows */
};

struct trace_request *trace_request_new(void)
{
	struct trace_request *t = mem_alloc(sizeof *t);

	t->last = &t->first;
	t->done = true;
	return t;
}

static void drop_page(struct trace_request *t)
{
	struct page *p = t->first;

	t->first = p->next;
	if (!t->first)
		t->last = &t->first;
	t->rows -= p->rows;
	t->pages--;
	t->next++;
	json_decref(p->json);
	free(p);
}

static void drop_trace(struct trace_request *t)
{
	while (t->first)
		drop_page(t);
	json_decref(t->process);
	t->process = NULL;
}

void trace_request_free(struct trace_request *t)
{
	if (!t)
		return;
	drop_trace(t);
	free(t);
}

/* ---- begin and end ---- */

static void expect_processes(struct trace_request *t, json_t *list, const char *state)
{
	const json_t *row;
	size_t i;

	json_array_foreach(list, i, row)
		if (strcmp(json_str(row, "state", ""), state) == 0)
			json_object_set_new(t->process, json_str(row, "id", ""), json_false());
	json_decref(list);
}

enum err_code trace_request_begin(struct coordinator *coordinator, double seconds, int64_t now,
    uint64_t *id, struct err *e)
{
	struct trace_request *t = coordinator->tracing;
	int64_t mono = clock_now(), wall = clock_wall();

	mutex_assert_held(&coordinator->lock);
	if (!t->done)
		return err_set(e, ERR_EXISTS, "a trace is already being recorded, for %.1f s more",
		    t->on ? (double)(t->until - now) / NSEC_PER_SEC : (double)GRACE / NSEC_PER_SEC);
	if (coord_ended(coordinator->coord))
		return err_set(e, ERR_NOTREADY, "the cluster is stopping");
	drop_trace(t);
	t->process = json_object();
	expect_processes(t, coord_servers(coordinator->coord, now), "live");
	expect_processes(t, coord_workers(coordinator->coord, now), "active");
	expect_processes(t, coord_relays(coordinator->coord, now), "live");
	/* Never reuse an id that processes may have heard from an earlier coordinator. */
	t->id = t->id ? t->id + 1 : (uint64_t)clock_wall() / NSEC_PER_MSEC;
	t->on = true;
	t->done = false;
	t->next = 0;
	t->dropped = 0;
	t->asked = now;
	t->began = mono;
	t->began_wall = wall;
	t->until = now + (int64_t)(seconds * NSEC_PER_SEC);
	*id = t->id;
	coordinator_event(coordinator, EVENT_trace, "%.3g s of all steps are recorded", seconds);
	coord_publish_view(coordinator->coord);
	return ERR_OK;
}

uint64_t trace_request_id(const struct trace_request *t)
{
	return t->on ? t->id : 0;
}

static bool all_have_ended(const struct trace_request *t)
{
	const char *id;
	json_t *ended;

	json_object_foreach(t->process, id, ended)
		if (!json_is_true(ended))
			return false;
	return true;
}

void trace_request_tick(struct coordinator *coordinator, int64_t now)
{
	struct trace_request *t = coordinator->tracing;

	mutex_assert_held(&coordinator->lock);
	if (t->on && (now >= t->until || coord_ended(coordinator->coord))) {
		t->on = false;
		t->until = now + GRACE;
		coord_publish_view(coordinator->coord);
	} else if (!t->on && !t->done && (now >= t->until || all_have_ended(t))) {
		t->done = true;
		coordinator_wake_parked(coordinator);
	}
	if (t->process && now - t->asked > KEPT) {
		/* No client wants it any more. */
		t->on = false;
		t->done = true;
		drop_trace(t);
		coord_publish_view(coordinator->coord);
	}
}

/* ---- pages ---- */

static bool traced_process_name(const struct coord_self *self, char out[static 24])
{
	static const char *const kind
	    [] = { [COORD_SERVER] = "server", [COORD_WORKER] = "worker", [COORD_RELAY] = "relay" };

	if (self->kind != COORD_SERVER && self->kind != COORD_WORKER && self->kind != COORD_RELAY)
		return false;
	snprintf(out, 24, "%s-%u", kind[self->kind], self->index);
	return true;
}

/* Processes send these rows themselves, so limit their length. */
static bool rows_are_short(const json_t *rows)
{
	const json_t *row, *x;
	size_t i, k;

	if (!json_is_array(rows))
		return false;
	json_array_foreach((json_t *)(uintptr_t)rows, i, row) {
		if (!json_is_array(row) || json_array_size(row) > ROW_MOST)
			return false;
		json_array_foreach((json_t *)(uintptr_t)row, k, x)
			if (json_is_array(x) || json_is_object(x) ||
			    (json_is_string(x) && json_string_length(x) > TEXT_MOST))
				return false;
	}
	return true;
}

void trace_request_take_page(struct coordinator *coordinator, const struct coord_self *from,
    const struct message_trace *m, int64_t now)
{
	struct trace_request *t = coordinator->tracing;
	size_t rows = json_array_size(m->rows);
	struct page *p;
	char id[24];

	mutex_assert_held(&coordinator->lock);
	if (t->done || (uint64_t)m->id != t->id || !traced_process_name(from, id) ||
	    !rows_are_short(m->rows))
		return;
	if (m->last)
		json_object_set_new(t->process, id, json_true());
	t->dropped += (uint64_t)m->dropped;
	/* A page without rows still reports the process's clock. */
	if (t->rows + rows > ROWS_MAX || t->pages >= PAGES_MAX) {
		t->dropped += rows;
		return;
	}
	p = mem_alloc(sizeof *p);
	p->rows = rows;
	p->json = json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:O}", "id", id, "pid",
	    (json_int_t)m->pid, "heard", (json_int_t)m->heard, "now", (json_int_t)m->now, "wall",
	    (json_int_t)m->wall, "received", (json_int_t)now, "rows", m->rows);
	*t->last = p;
	t->last = &p->next;
	t->rows += rows;
	t->pages++;
	/* Wake the parked request when the first page arrives. */
	if (t->first == p)
		coordinator_wake_parked(coordinator);
}

json_t *trace_request_page(struct coordinator *coordinator, uint64_t id, uint64_t page, int64_t now,
    bool *wait, struct err *e)
{
	struct trace_request *t = coordinator->tracing;
	bool over;

	mutex_assert_held(&coordinator->lock);
	*wait = false;
	if (!t->process || id != t->id) {
		err_set(e, ERR_NOTFOUND, "there is no trace %llu", (unsigned long long)id);
		return NULL;
	}
	t->asked = now;
	/* The client has received the pages before this one, and can have seen no later ones. */
	while (t->first && t->next < page && page <= t->next + 1)
		drop_page(t);
	over = t->done && (!t->first || !t->first->next);
	*wait = !t->first && !t->done;
	return json_pack("{s:s, s:I, s:I, s:I, s:I, s:b, s:I, s:I, s:O?}", "kind", "trace", "v",
	    (json_int_t)1, "id", (json_int_t)t->id, "began", (json_int_t)t->began, "wall",
	    (json_int_t)t->began_wall, "done", over, "next",
	    (json_int_t)(t->next + (t->first != NULL)), "dropped", (json_int_t)t->dropped, "page",
	    t->first ? t->first->json : NULL);
}

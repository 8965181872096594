#include "server/tracing.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"

/* Rows that wait to be asked for; what comes beyond them is counted, and dropped. */
#define ROWS_MAX 65536u
/* With each heartbeat a process sends a page, if only of its clock. */
#define PAGES_MAX 65536u
#define ROW_MOST 16u
#define TEXT_MOST 64u
/* After the end: for the last rows, of processes that may be dead; then for who asks. */
#define GRACE (3 * NSEC_PER_SEC)
#define KEPT (30 * NSEC_PER_SEC)

struct page {
	struct page *next;
	json_t *json;
	size_t rows;
};

struct tracing {
	uint64_t id;                    /* of the last one; 0: there was none */
	bool on, done;                  /* on: processes record; done: and all that will come is here */
	int64_t began, began_wall, until, asked;        /* asked: when somebody did last */
	struct page *first, **last;
	uint64_t next;                  /* the number of the first page that waits */
	size_t rows, pages;             /* that wait */
	uint64_t dropped;
	json_t *process;                /* id -> true: it has sent its last rows */
};

struct tracing *tracing_new(void)
{
	struct tracing *t = mem_alloc(sizeof *t);

	t->last = &t->first;
	t->done = true;
	return t;
}

static void drop_page(struct tracing *t)
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

static void drop_all(struct tracing *t)
{
	while (t->first)
		drop_page(t);
	json_decref(t->process);
	t->process = NULL;
}

void tracing_free(struct tracing *t)
{
	if (!t)
		return;
	drop_all(t);
	free(t);
}

/* ---- begin and end ------------------------------------------------------------------------ */

static void expect(struct tracing *t, json_t *list, const char *state)
{
	const json_t *row;
	size_t i;

	json_array_foreach(list, i, row)
		if (strcmp(json_str(row, "state", ""), state) == 0)
			json_object_set_new(t->process, json_str(row, "id", ""), json_false());
	json_decref(list);
}

enum err_code tracing_begin(struct host *h, double seconds, int64_t now, uint64_t *id, struct err *e)
{
	struct tracing *t = h->tracing;
	int64_t mono = clock_now(), wall = clock_wall();

	if (!t->done)
		return err_set(e, ERR_EXISTS, "a trace is being taken, for %.1f s more", t->on ? (double)(t->until - now) / NSEC_PER_SEC :
		    (double)GRACE / NSEC_PER_SEC);
	if (coord_ended(h->coord))
		return err_set(e, ERR_NOTREADY, "the cluster is about to end");
	drop_all(t);
	t->process = json_object();
	expect(t, coord_servers(h->coord, now), "live");
	expect(t, coord_workers(h->coord, now), "active");
	expect(t, coord_relays(h->coord, now), "live");
	/* Never a number that a process has heard of from a coordinator before. */
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
	host_event(h, "trace", "%.3g s of all steps are recorded", seconds);
	coord_touch(h->coord);
	return ERR_OK;
}

uint64_t tracing_id(const struct tracing *t)
{
	return t->on ? t->id : 0;
}

static bool all_have_ended(const struct tracing *t)
{
	const char *id;
	json_t *ended;

	json_object_foreach(t->process, id, ended)
		if (!json_is_true(ended))
			return false;
	return true;
}

void tracing_tick(struct host *h, int64_t now)
{
	struct tracing *t = h->tracing;

	if (t->on && (now >= t->until || coord_ended(h->coord))) {
		t->on = false;
		t->until = now + GRACE;
		coord_touch(h->coord);
	} else if (!t->on && !t->done && (now >= t->until || all_have_ended(t))) {
		t->done = true;
		host_kick(h);
	}
	if (t->process && now - t->asked > KEPT) {
		/* Nobody wants it any more. */
		t->on = false;
		t->done = true;
		drop_all(t);
		coord_touch(h->coord);
	}
}

/* ---- pages ----------------------------------------------------------------------------------- */

static bool name_of(const struct coord_self *self, char out[static 24])
{
	static const char *const kind[] = { [COORD_SERVER] = "server", [COORD_WORKER] = "worker", [COORD_RELAY] = "relay" };

	if (self->kind != COORD_SERVER && self->kind != COORD_WORKER && self->kind != COORD_RELAY)
		return false;
	snprintf(out, 24, "%s-%u", kind[self->kind], self->index);
	return true;
}

/* What a process sends of itself it may not be long about. */
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
			if (json_is_array(x) || json_is_object(x) || (json_is_string(x) && json_string_length(x) > TEXT_MOST))
				return false;
	}
	return true;
}

static bool is_number(const json_t *msg, const char *key)
{
	return json_is_number(json_object_get(msg, key));
}

void tracing_take(struct host *h, const struct coord_self *from, const json_t *msg, int64_t now)
{
	struct tracing *t = h->tracing;
	size_t rows = json_array_size(json_object_get(msg, "rows"));
	struct page *p;
	char id[24];

	if (t->done || (uint64_t)json_int(msg, "id", 0) != t->id || !name_of(from, id) ||
	    !rows_are_short(json_object_get(msg, "rows")) || !is_number(msg, "now") || !is_number(msg, "wall") ||
	    !is_number(msg, "pid") || !is_number(msg, "heard"))
		return;
	if (json_flag(msg, "last"))
		json_object_set_new(t->process, id, json_true());
	t->dropped += json_int(msg, "dropped", 0) > 0 ? (uint64_t)json_int(msg, "dropped", 0) : 0;
	/* A page without rows tells of the process's clock. */
	if (t->rows + rows > ROWS_MAX || t->pages >= PAGES_MAX) {
		t->dropped += rows;
		return;
	}
	p = mem_alloc(sizeof *p);
	p->rows = rows;
	p->json = json_pack("{s:s, s:O, s:O, s:O, s:O, s:I, s:O}", "id", id, "pid", json_object_get(msg, "pid"), "heard",
	    json_object_get(msg, "heard"), "now", json_object_get(msg, "now"), "wall", json_object_get(msg, "wall"), "received",
	    (json_int_t)now, "rows", json_object_get(msg, "rows"));
	/* Of another version: it lacks something. */
	if (!p->json) {
		free(p);
		return;
	}
	*t->last = p;
	t->last = &p->next;
	t->rows += rows;
	t->pages++;
	/* Who waits is told of the first. */
	if (t->first == p)
		host_kick(h);
}

json_t *tracing_page(struct host *h, uint64_t id, uint64_t page, int64_t now, bool *wait, struct err *e)
{
	struct tracing *t = h->tracing;
	bool over;

	*wait = false;
	if (!t->process || id != t->id) {
		err_set(e, ERR_NOTFOUND, "there is no trace %llu", (unsigned long long)id);
		return NULL;
	}
	t->asked = now;
	/* What was answered is not asked for again; more than that nobody has seen. */
	while (t->first && t->next < page && page <= t->next + 1)
		drop_page(t);
	over = t->done && (!t->first || !t->first->next);
	*wait = !t->first && !t->done;
	return json_pack("{s:s, s:I, s:I, s:I, s:I, s:b, s:I, s:I, s:O?}", "kind", "trace", "v", (json_int_t)1, "id", (json_int_t)t->id,
	    "began", (json_int_t)t->began, "wall", (json_int_t)t->began_wall, "done", over, "next", (json_int_t)(t->next + (t->first != NULL)),
	    "dropped", (json_int_t)t->dropped, "page", t->first ? t->first->json : NULL);
}

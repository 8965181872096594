/* SPDX-License-Identifier: ISC */
#include "fleet/fleet.h"

#include <stdio.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/json.h"
#include "core/mem.h"

#define EXAMPLES  1000000
#define BEAT      (200 * NSEC_PER_MSEC)
#define UNDER_WAY 64 /* a listener's queue is not endless */

void fleet_die(const char *what, const struct err *e)
{
	fprintf(stderr, "scale_fleet: %s: %s\n", what, e->msg);
	_Exit(1);
}

static void dial_on(struct thread *t);

static void settle(struct line *l)
{
	struct err e;
	uint32_t events;

	if (conn_is_live(l->conn))
		batcher_flush(&l->batcher, l->conn);
	if (conn_write(l->conn, &e))
		fleet_die("a session", &e);
	events = (uint32_t)conn_events(l->conn);
	loop_mod(l->worker->thread->loop, &l->h, events);
}

/* ---- a step ---- */

static struct record head(const struct worker *w, enum record_type type)
{
	return (struct record){ .type = (uint8_t)type,
		.step = w->step,
		.epoch = w->fleet->epoch,
		.generation = w->fleet->generation,
		.table = w->fleet->table->id };
}

static void ask(struct line *l)
{
	const struct server *s = &l->worker->fleet->server[l->server];
	struct record r = head(l->worker, REC_PULL);

	r.len = (uint32_t)s->runs.len;
	r.seq = l->worker->step + 1;
	batcher_add(&l->batcher, l->conn, &r, s->runs.data);
	l->worker->left += s->nparts;
}

static void push(struct line *l)
{
	const struct fleet *f = l->worker->fleet;
	const struct server *s = &f->server[l->server];
	struct record r = head(l->worker, REC_PUSH), clock = head(l->worker, REC_CLOCK);

	r.examples = clock.examples = 1;
	for (uint32_t i = 0; i < s->nparts; i++) {
		const float *g = f->gradient + table_part_begin(f->table, s->part[i]);

		r.part = s->part[i];
		r.len = table_part_elements(f->table, r.part) * 4;
		if (r.len > BATCHER_SMALL) {
			batcher_flush(&l->batcher, l->conn);
			conn_lend(l->conn, &r, g);
		} else {
			batcher_add(&l->batcher, l->conn, &r, g);
		}
	}
	clock.table = 0;
	clock.len = (uint32_t)s->runs.len;
	batcher_add(&l->batcher, l->conn, &clock, s->runs.data);
	l->worker->left += s->nparts;
}

/* All that it wanted has come: what was pulled is pushed against, and the next is asked for.
 * The first step only pulls. */
static void next_step(struct worker *w)
{
	if (w->step == 0 && !atomic_load(&w->steps))
		atomic_fetch_add(&w->fleet->begun, 1);
	for (unsigned i = 0; i < w->fleet->nservers; i++)
		push(&w->data[i]);
	w->step++;
	for (unsigned i = 0; i < w->fleet->nservers; i++) {
		ask(&w->data[i]);
		settle(&w->data[i]);
	}
	atomic_fetch_add_explicit(&w->steps, 1, memory_order_relaxed);
}

static void have(struct worker *w, uint32_t n, uint64_t bytes)
{
	atomic_fetch_add_explicit(&w->bytes, bytes, memory_order_relaxed);
	w->left -= n;
	if (!w->left)
		next_step(w);
}

static enum conn_verdict one_record(struct line *l, const struct record *r, const uint8_t *payload)
{
	struct worker *w = l->worker;
	struct payload_receipt m;
	uint64_t bytes = 0;
	uint32_t n = 0;
	struct err e;

	switch (r->type) {
	case REC_PULLED:
		have(w, 1, r->len);
		return CONN_TAKEN;
	case REC_RECEIPT:
		for (; payload_get_receipt(payload, r->len, n, &m); n++) {
			if (m.status > 2)
				fleet_die("a push", &(struct err){ .msg = "was not taken" });
			bytes += table_part_elements(w->fleet->table, m.part) * 4;
		}
		have(w, n, bytes);
		return CONN_TAKEN;
	case REC_NACK:
		payload_get_nack(payload, r->len, &e);
		fleet_die("refused", &e);
		return CONN_DROP;
	default:
		return CONN_TAKEN;
	}
}

static enum conn_verdict on_record(void *ctx, const struct record *r, uint8_t *payload)
{
	const uint8_t *body;
	struct record sub;
	struct err e = { 0 };
	size_t at = 0;

	if (r->type != REC_BATCH)
		return one_record(ctx, r, payload);
	while (payload_batch_next(payload, r->len, &at, &sub, &body, &e))
		one_record(ctx, &sub, body);
	if (e.code)
		fleet_die("a batch", &e);
	return CONN_TAKEN;
}

static void on_live(void *ctx, const struct hs_server_info *server)
{
	struct line *l = ctx;
	struct err e;

	if (strcmp(l->worker->fleet->transport, "shm") == 0 && server->shares &&
	    conn_share(l->conn, &e))
		fleet_die("shared memory", &e);
	l->worker->thread->under_way--;
	dial_on(l->worker->thread);
	if (++l->worker->live < l->worker->fleet->nservers)
		return;
	for (unsigned i = 0; i < l->worker->live; i++)
		ask(&l->worker->data[i]);
	for (unsigned i = 0; i < l->worker->live; i++)
		settle(&l->worker->data[i]);
}

static const struct conn_handler data_handler = { .live = on_live, .record = on_record };

/* ---- the coordinator ---- */

static json_t *shape(const struct fleet *f)
{
	struct table t = { .rows = f->bytes / 4, .cols = 1 };

	snprintf(t.name, sizeof t.name, FLEET_TABLE);
	return table_to_json(&t);
}

static void join(void *ctx, const struct hs_server_info *server)
{
	struct line *l = ctx;
	struct record r = { .seq = 1 };
	json_t *msg = json_pack("{s:s, s:s, s:b, s:i, s:i, s:s, s:I, s:[o]}", "op", "worker_join",
	    "zone", "", "evaluates", 0, "rank", (int)l->worker->rank, "pid", (int)getpid(), "host",
	    "here", "examples", (json_int_t)EXAMPLES, "tables", shape(l->worker->fleet));
	char *text = json_text(msg);

	(void)server;
	l->worker->thread->under_way--;
	dial_on(l->worker->thread);
	payload_send_text(l->conn, &r, text);
	free(text);
	json_decref(msg);
}

/* Views are for who must know of changes: here there are none. */
static enum conn_verdict on_control(void *ctx, const struct record *r, uint8_t *payload)
{
	struct line *l = ctx;

	if (r->type == REC_CTL && r->flags & RECORD_REPLY && r->seq == 1) {
		if (memmem(payload, r->len, "\"error\"", 7))
			fleet_die("join", &(struct err){ .msg = "the coordinator says no" });
		l->worker->next_beat = clock_now() + (int64_t)(l->worker->rank % 100) * BEAT / 100;
		atomic_fetch_add(&l->worker->fleet->joined, 1);
	}
	return CONN_TAKEN;
}

static const struct conn_handler control_handler = { .live = join, .record = on_control };

void fleet_beat(void *ctx)
{
	struct thread *t = ctx;
	int64_t now = clock_now();
	struct record r = { 0 };
	char text[80];

	for (struct worker *w = t->worker; w < t->worker + t->n; w++) {
		if (!w->next_beat || now < w->next_beat)
			continue;
		w->next_beat = now + BEAT;
		snprintf(text, sizeof text, "{\"op\":\"beat\",\"stats\":{\"step\":%llu}}",
		    (unsigned long long)w->step);
		payload_send_text(w->control.conn, &r, text);
		settle(&w->control);
	}
}

/* ---- lines ---- */

static void on_event(void *ctx, uint32_t events)
{
	struct line *l = ctx;
	struct err e = { 0 };
	enum err_code rc = ERR_OK;

	if (events & EPOLLOUT)
		rc = conn_write(l->conn, &e);
	if (!rc && (events & (EPOLLIN | EPOLLHUP | EPOLLERR) || conn_ready(l->conn)))
		rc = conn_read(l->conn, &e);
	if (rc)
		fleet_die("a session", &e);
	settle(l);
}

static void dial(struct line *l, struct worker *w, int server)
{
	struct fleet *f = w->fleet;
	struct hs_client_info info = { .incarnation = w->incarnation,
		.rank = server < 0 ? UINT32_MAX : w->rank,
		.role = ROLE_WORKER };
	const char *to = server < 0 ? f->id.local : f->server[server].address;
	struct err e;
	int fd;

	*l = (struct line){ .worker = w, .server = server };
	memcpy(info.cluster, f->id.conn.cluster, sizeof info.cluster);
	if (net_connect(to, &fd, &e))
		fleet_die(to, &e);
	l->conn = conn_dial(fd, &f->id.conn, server < 0 ? f->id.server_key : f->server[server].key,
	    &info, server < 0 ? &control_handler : &data_handler, l);
	l->h = (struct loop_fd){ .fd = fd, .fn = on_event, .ctx = l };
	if (loop_add(w->thread->loop, &l->h, EPOLLIN | EPOLLOUT, &e))
		fleet_die("a session", &e);
}

static void dial_worker(struct worker *w)
{
	if (!w->thread->data) {
		dial(&w->control, w, -1);
		return;
	}
	w->data = mem_array(w->fleet->nservers, sizeof *w->data);
	for (unsigned i = 0; i < w->fleet->nservers; i++)
		dial(&w->data[i], w, (int)i);
}

static void dial_on(struct thread *t)
{
	for (; t->dialled < t->n && t->under_way < UNDER_WAY; t->dialled++) {
		t->under_way += t->data ? t->fleet->nservers : 1;
		dial_worker(&t->worker[t->dialled]);
	}
}

void fleet_enlist(void *ctx)
{
	dial_on(ctx);
}

void fleet_begin(void *ctx)
{
	struct thread *t = ctx;

	t->data = true;
	t->dialled = 0;
	dial_on(t);
}

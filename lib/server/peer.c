#include <stdarg.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "server/files.h"
#include "server/quota.h"

/* What a view costs who reads it, who may be on this host; counted with what
 * it costs to send. */
#define VIEW_READ_COST (NSEC_PER_MSEC / 10)

/* ---- records --------------------------------------------------------------------- */

static void object(struct peer *p, const struct record *r, enum err_code code, const char *fmt, va_list ap)
{
	struct record out = { .type = REC_NACK, .seq = r->seq, .table = r->table, .part = r->part, .step = r->step };
	struct buf body = BUF_INIT;
	char text[400];

	vsnprintf(text, sizeof text, fmt, ap);
	msg_put_nack(&body, code, text);
	out.len = (uint32_t)body.len;
	batcher_add(&p->batcher, p->conn, &out, body.data);
	buf_release(&body);
}

void peer_object(struct peer *p, const struct record *r, enum err_code code, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	object(p, r, code, fmt, ap);
	va_end(ap);
}

void peer_nack(struct peer *p, const struct record *r, enum err_code code, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	object(p, r, code, fmt, ap);
	va_end(ap);
	p->doomed = true;
	p->doomed_at = clock_now();
}

static void answer_ctl(struct peer *p, const struct record *r, json_t *answer, const struct err *e)
{
	struct record out = { .flags = RECORD_REPLY, .seq = r->seq };
	char *text;

	if (!answer && !e->code)
		return;
	if (!answer)
		answer = json_pack("{s:{s:s, s:s}}", "error", "code", err_name(e->code), "message", e->msg);
	text = json_text(answer);
	msg_send_text(p->conn, &out, text);
	free(text);
	json_decref(answer);
}

/* From now on it gets views: who watches any, who has joined those that know it. */
static void attach(struct peer *p, bool joined)
{
	struct host *host = p->lane->server->host;

	p->view_floor = joined ? host_rev(host) : host_rev_sent(host);
	p->attached = true;
}

/* Send the view when it has news for this peer.  Who does not read what it has
 * been sent misses those that are overtaken meanwhile; a server none. */
static void show_view(struct peer *p)
{
	const struct views *v = p->lane->views;
	struct record r = { 0 };
	char *text;

	if (!p->attached || !v || views_rev(v) < p->view_floor || views_rev(v) <= p->view_had ||
	    (p->role != ROLE_SERVER && p->role != ROLE_RELAY && conn_queued(p->conn) >= PEER_QUEUE))
		return;
	text = p->role == ROLE_WORKER || p->role == ROLE_READER ?
	    views_text_worker(v, p->self.kind == COORD_WORKER ? p->self.index : SLOT_NONE, p->view_had) :
	    views_text(v, p->view_had);
	p->view_had = views_rev(v);
	if (!text)
		return;
	msg_send_text(p->conn, &r, text);
	free(text);
	atomic_fetch_add(&p->lane->server->views_cost, VIEW_READ_COST);
}

static enum conn_verdict on_ctl(struct peer *p, const struct record *r, const uint8_t *payload)
{
	struct host *host = p->lane->server->host;
	struct err e = { 0 };
	json_t *msg = json_parse((const char *)payload, r->len, RECORD_MAX, &e), *answer;
	const char *op;

	if (!host)
		err_set(&e, ERR_NOTFOUND, "this server is not the coordinator");
	if (!msg || !host) {
		json_decref(msg);
		peer_nack(p, r, e.code, "%s", e.msg);
		return CONN_TAKEN;
	}
	op = json_str(msg, "op", "");
	/* What a role may be, its key says, not its word. */
	if ((strcmp(op, "server_join") == 0 && p->role != ROLE_SERVER) ||
	    ((strcmp(op, "worker_join") == 0 || strcmp(op, "coming") == 0 || strcmp(op, "unfit") == 0) && p->role != ROLE_WORKER) ||
	    (strcmp(op, "relay_join") == 0 && p->role != ROLE_RELAY)) {
		err_set(&e, ERR_FORBIDDEN, "a key with the role %s may not do this", role_name(p->role));
		answer = NULL;
	} else if (strcmp(op, "watch") == 0) {
		answer = json_object();
	} else {
		snprintf(p->self.host, sizeof p->self.host, "%s", json_str(msg, "host", ""));
		answer = host_handle(host, &p->self, msg, &e);
	}
	if (e.code == ERR_CLOSED) {
		json_decref(msg);
		return CONN_DROP;
	}
	if (answer && !p->attached && (p->self.kind == COORD_SERVER || p->self.kind == COORD_WORKER || p->self.kind == COORD_RELAY ||
	    strcmp(op, "watch") == 0))
		attach(p, strcmp(op, "watch") != 0);
	answer_ctl(p, r, answer, &e);
	json_decref(msg);
	return CONN_TAKEN;
}

static enum conn_verdict one_record(struct peer *p, const struct record *r, const uint8_t *payload);

static enum conn_verdict on_batch(struct peer *p, const struct record *r, const uint8_t *payload)
{
	const uint8_t *body;
	struct record sub;
	struct err e = { 0 };

	for (;;) {
		size_t at = p->batch_at;
		enum conn_verdict v;

		if (!msg_batch_next(payload, r->len, &p->batch_at, &sub, &body, &e))
			break;
		v = one_record(p, &sub, body);
		if (v == CONN_HOLD)
			p->batch_at = at;       /* this one again, next time */
		if (v != CONN_TAKEN)
			return v;
	}
	p->batch_at = 0;
	if (e.code) {
		peer_nack(p, r, e.code, "%s", e.msg);
		return CONN_DROP;
	}
	return CONN_TAKEN;
}

/* The session goes to a thread of its own, which begins with this record: its first. */
static enum conn_verdict on_file(struct peer *p, const struct record *r)
{
	if (!p->lane->server->host || p->nrecords != 1) {
		peer_nack(p, r, ERR_PROTO, "%s: this is not the coordinator, or not a session for files", record_type_name(r->type));
		return CONN_DROP;
	}
	p->moves_files = true;
	return CONN_HOLD;
}

/* The sender knows a newer layout than this server, whose view is on its way. */
static bool ahead(const struct server *s, const struct record *r)
{
	return r->epoch > atomic_load(&s->epoch) || r->generation > atomic_load(&s->generation);
}

static enum conn_verdict on_push(struct peer *p, const struct record *r, const uint8_t *payload)
{
	enum conn_verdict v;

	if (!quota_takes(p, r))
		return CONN_HOLD;
	v = r->type == REC_PUSH ? peer_push(p, r, payload) : peer_push_rows(p, r, payload);
	if (v == CONN_HOLD)
		quota_returns(p, r);
	return v;
}

static enum conn_verdict one_record(struct peer *p, const struct record *r, const uint8_t *payload)
{
	struct server *s = p->lane->server;

	if (!record_role_may(r->type, p->role)) {
		peer_nack(p, r, ERR_FORBIDDEN, "a key with the role %s may not send %s", role_name(p->role),
		    record_type_name(r->type));
		return CONN_DROP;
	}
	if (r->type == REC_CTL)
		return on_ctl(p, r, payload);
	if (r->type == REC_BATCH)
		return on_batch(p, r, payload);
	if (r->type == REC_FILE_PUT || r->type == REC_FILE_GET)
		return on_file(p, r);
	if (r->type == REC_PROBE)
		return peer_probe(p, r);
	if (p->load < PEER_LOAD) {
		atomic_fetch_add(&p->lane->load, PEER_LOAD - p->load);
		p->load = PEER_LOAD;
	}
	if (!atomic_load(&s->shard)) {
		peer_nack(p, r, ERR_NOTREADY, "no partitions are here");
		return CONN_TAKEN;
	}
	if (ahead(s, r))
		return CONN_HOLD;
	if (atomic_load(&s->read_only) && r->type != REC_PULL && r->type != REC_PULL_ROWS && r->type != REC_SCAN) {
		peer_nack(p, r, ERR_UNSUPPORTED, "this cluster is read-only: it answers pulls");
		return CONN_TAKEN;
	}
	switch (r->type) {
	case REC_PUSH:
	case REC_PUSH_ROWS:
		return on_push(p, r, payload);
	case REC_CLOCK:
		return peer_clock(p, r, payload);
	case REC_DONE:
		return peer_done(p, r);
	case REC_PUSH_SUM:
		return peer_push_sum(p, r, payload);
	case REC_CLOCKS:
		return peer_clocks(p, r, payload);
	case REC_COPY_SUM:
	case REC_COPY_PUSH:
	case REC_COPY_STEP:
	case REC_COPY_STATE:
		return peer_copy(p, r, payload);
	default:
		return peer_pull(p, r, payload);
	}
}

static enum conn_verdict record(void *ctx, const struct record *r, uint8_t *payload)
{
	struct peer *p = ctx;

	/* A client's first is an empty batch, which proves that it has the keys. */
	p->nrecords += r->type != REC_BATCH || r->len;
	return one_record(p, r, payload);
}

static const struct conn_handler handler = { .admit = peer_admit, .live = peer_live, .record = record };

/* ---- life --------------------------------------------------------------------------- */

static void set_waiting(struct peer *p, bool waiting)
{
	struct server *s = p->lane->server;

	if (p->waiting == waiting)
		return;
	p->waiting = waiting;
	if (waiting)
		atomic_fetch_add(&s->waiting, 1);
	else
		atomic_fetch_sub(&s->waiting, 1);
}

static void on_event(void *ctx, uint32_t events)
{
	struct peer *p = ctx;
	struct server *s = p->lane->server;
	bool was_live = conn_is_live(p->conn);
	struct err e = { 0 };
	enum err_code rc = ERR_OK;

	/* It hears nothing more of us. */
	if (p->doomed && events & (EPOLLHUP | EPOLLERR)) {
		peer_close(p);
		return;
	}
	if (events & EPOLLOUT)
		rc = conn_write(p->conn, &e);
	if (!rc && (events & (EPOLLIN | EPOLLHUP | EPOLLERR) || conn_ready(p->conn)) && !p->doomed)
		rc = conn_read(p->conn, &e);
	if (!rc && p->moves_files) {
		files_serve(s->host, p);
		return;
	}
	if (!rc || p->doomed) {
		peer_settle(p);
		return;
	}
	if (rc == ERR_AUTH || rc == ERR_PROTO || (!was_live && rc == ERR_FENCED)) {
		uint32_t n = log_allowed(&s->strangers, 5);

		atomic_fetch_add(&s->auth_failures, 1);
		if (n)
			log_warn(s->cfg.log, "connection refused: %s%s", e.msg, n > 1 ? " (and others before)" : "");
	}
	/* A refusal may be on its way in the queue. */
	conn_write(p->conn, NULL);
	peer_close(p);
}

void peer_open(struct lane *l, int fd)
{
	struct server *s = l->server;
	struct peer *p = mem_alloc(sizeof *p);
	struct err e;

	p->lane = l;
	p->load = 1;
	p->opened = clock_now();
	p->id = atomic_fetch_add(&s->next_peer, 1);
	p->pulls_last = &p->pulls;
	p->slot = SLOT_NONE;
	p->conn = conn_accept(fd, &s->cfg.id->conn, (enum suite)atomic_load(net_peer_is_local(fd) ? &s->local_suite : &s->remote_suite),
	    atomic_load(&s->epoch), &handler, p);
	if (l->spins)
		conn_watch(p->conn);
	p->h = (struct loop_fd){ .fd = fd, .fn = on_event, .ctx = p };
	p->next = l->peers;
	if (p->next)
		p->next->prev = p;
	l->peers = p;
	l->half_open++;
	atomic_fetch_add(&s->half_open, 1);
	if (loop_add(l->loop, &p->h, EPOLLIN, &e)) {
		peer_close(p);
		return;
	}
	peer_settle(p);
}

static void count_bytes(struct peer *p)
{
	struct server *s = p->lane->server;
	uint64_t in = conn_bytes_in(p->conn), out = conn_bytes_out(p->conn);

	atomic_fetch_add_explicit(&s->bytes_in, in - p->counted_in, memory_order_relaxed);
	atomic_fetch_add_explicit(&s->bytes_out, out - p->counted_out, memory_order_relaxed);
	p->counted_in = in;
	p->counted_out = out;
}

struct conn *peer_take_out(struct peer *p)
{
	struct lane *l = p->lane;
	struct server *s = l->server;
	struct conn *conn = p->conn;
	struct pull *q;

	set_waiting(p, false);
	if (conn_is_live(p->conn)) {
		atomic_fetch_sub(&s->sessions, 1);
		count_bytes(p);
	} else {
		l->half_open--;
		atomic_fetch_sub(&s->half_open, 1);
	}
	/* Of a line that is silent nothing can be said. */
	if (s->host && p->attached && !conn_is_silent(p->conn))
		host_gone(s->host, &p->self);
	if (p->prev)
		p->prev->next = p->next;
	else
		l->peers = p->next;
	if (p->next)
		p->next->prev = p->prev;
	loop_del(l->loop, &p->h);
	atomic_fetch_sub(&l->load, p->load);
	while ((q = p->pulls)) {
		p->pulls = q->next;
		pull_free(q);
	}
	batcher_release(&p->batcher);
	buf_release(&p->receipts);
	buf_release(&p->copied);
	buf_release(&p->summed);
	free(p->pending);
	free(p->rows);
	free(p->ids);
	keycache_free(p->kept);
	free(p);
	return conn;
}

void peer_close(struct peer *p)
{
	conn_free(peer_take_out(p));
}

bool peer_is_idle(const struct peer *p)
{
	return !conn_is_held(p->conn) && !p->pulls && !p->npending && !p->rows && !conn_queued(p->conn);
}

void peer_retire(struct peer *p)
{
	struct record bye = { .type = REC_BYE };

	conn_send(p->conn, &bye, NULL);
	conn_write(p->conn, NULL);
	p->attached = false;
	peer_close(p);
}

static bool must_wait(const struct peer *p)
{
	return conn_is_held(p->conn) || p->pulls || p->npending;
}

/* Answer what can be answered, write what can be written, and choose what to
 * wait for.  A peer that begins to wait looks once more after it is counted:
 * what changed before that has woken nobody. */
void peer_settle(struct peer *p)
{
	struct err e;
	uint32_t events = 0;
	bool more = false;

	for (int round = 0; round < 2; round++) {
		if (conn_is_live(p->conn) && !p->doomed) {
			if (round && conn_is_held(p->conn) && conn_retry(p->conn, &e) && !p->doomed) {
				peer_close(p);
				return;
			}
			show_view(p);
			peer_receipts(p);
			more = peer_answer_pulls(p);
		}
		if (conn_is_live(p->conn))
			batcher_flush(&p->batcher, p->conn);
		if (p->waiting || !must_wait(p))
			break;
		set_waiting(p, true);
	}
	if (!must_wait(p))
		set_waiting(p, false);
	if (conn_write(p->conn, &e) || (p->doomed && !conn_queued(p->conn))) {
		peer_close(p);
		return;
	}
	count_bytes(p);
	/* The numbers of POLLIN and POLLOUT are those of EPOLLIN and EPOLLOUT.  Nothing more is
	 * read of one that is doomed; what shared memory has no room for waits for the tick. */
	events = p->doomed ? conn_can_write(p->conn) ? EPOLLOUT : 0 : (uint32_t)conn_events(p->conn);
	if (more && !conn_queued(p->conn))
		events |= EPOLLOUT;
	loop_mod(p->lane->loop, &p->h, events);
}

void peer_wake(struct peer *p)
{
	struct err e = { 0 };

	if (conn_is_held(p->conn) && conn_retry(p->conn, &e) && !p->doomed) {
		peer_close(p);
		return;
	}
	peer_settle(p);
}

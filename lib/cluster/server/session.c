/* SPDX-License-Identifier: ISC */
#include <stdarg.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "server/server_coordinator.h"
#include "server/session_parse.h"
#include "core/clock.h"
#include "core/json.h"
#include "core/mem.h"
#include "core/utf8.h"
#include "msg/answer.h"

/* Bytes of an answer to a PROBE. */
#define PROBED_MAX (256u << 10)

/* Time that a client on the same host may need to read a view. It counts with the time of
 * sending. */
#define VIEW_READ_COST (NSEC_PER_MSEC / 10)

/* ---- records ---- */

/* Queues a NACK that names the record's seq, table, partition and step, by which the sender finds
 * its request. It goes through the batcher, after the answers that are gathered there. */
__attribute__((format(printf, 4, 0))) static void append_nack(struct server_session *p,
    const struct record *r, enum err_code code, const char *fmt, va_list ap)
{
	struct record out = { .type = REC_NACK,
		.seq = r->seq,
		.table = r->table,
		.part = r->part,
		.step = r->step };
	struct buf body = BUF_INIT;
	char text[400];

	utf8_vprintf(text, sizeof text, fmt, ap);
	payload_put_nack(&body, code, text);
	out.len = (uint32_t)body.len;
	batcher_add(&p->data.batcher, p->conn, &out, body.data);
	buf_release(&body);
}

void session_send_nack(struct server_session *p, const struct record *r, enum err_code code,
    const char *fmt, ...)
{
	loop_assert_thread(p->io_thread->loop);
	va_list ap;

	va_start(ap, fmt);
	append_nack(p, r, code, fmt, ap);
	va_end(ap);
}

void session_refuse(struct server_session *p, const struct record *r, enum err_code code,
    const char *fmt, ...)
{
	loop_assert_thread(p->io_thread->loop);
	va_list ap;

	va_start(ap, fmt);
	append_nack(p, r, code, fmt, ap);
	va_end(ap);
	p->state = SESSION_CLOSING;
	p->closing_since = clock_now();
}

/* Sends an answer, or the error as an answer, and drops the reference to it. Sends nothing when
 * there is neither: some messages are not answered. */
static void send_ctl_reply(struct server_session *p, const struct record *r, json_t *answer,
    const struct err *e)
{
	struct record out = { .flags = RECORD_REPLY, .seq = r->seq };
	char *text;

	if (!answer && !e->code)
		return;
	if (!answer)
		answer = answer_of_error(e);
	text = json_text(answer);
	payload_send_text(p->conn, &out, text);
	free(text);
	json_decref(answer);
}

static void attach_to_views(struct server_session *p, const struct pending_answer *d);
static void send_view(struct server_session *p);

/* Answers of one session that may wait for the coordinator's state to be written. At this limit,
 * further CTL records are held. Our own programs never have more than a few. */
#define ANSWERS_MAX 16

/* An answer to CTL that waits until the coordinator's state is durable up to `mark`; or, with
 * `text`, a message of the coordinator that follows an answer. */
struct pending_answer {
	struct pending_answer *next;
	struct durable_point mark;
	uint64_t seq;
	json_t *answer;
	bool attaches, joined;
	struct err e;
	char *text;
};

/* Queues an answer after earlier ones that still wait. A later answer that is durable at once is
 * not queued and does not wait for these. */
static void queue_ctl_answer(struct server_session *p, const struct pending_answer *d)
{
	struct pending_answer *copy = mem_alloc(sizeof *copy);

	*copy = *d;
	copy->next = NULL;
	*p->control.answers_last = copy;
	p->control.answers_last = &copy->next;
	p->control.nanswers++;
}

/* Attaches the session to the views before the answer is sent, so no view after the answer is
 * missed. */
static void send_ctl_answer(struct server_session *p, const struct pending_answer *d)
{
	struct record r = { .seq = d->seq };

	if (d->attaches && !p->control.attached)
		attach_to_views(p, d);
	send_ctl_reply(p, &r, d->answer, &d->e);
	if (p->control.self.kind == COORD_WORKER && !p->control.view_had)
		send_view(p);
}

/* Sends a message of the coordinator after the view that it refers to. Takes the text. */
static void send_ctl_text(struct server_session *p, char *text)
{
	struct record r = { .type = REC_CTL };

	send_view(p);
	payload_send_text(p->conn, &r, text);
	free(text);
}

void session_send_ctl(struct server_session *p, const char *text)
{
	loop_assert_thread(p->io_thread->loop);
	if (p->control.attached) {
		send_ctl_text(p, mem_strdup(text));
		session_advance(p);
	} else if (p->control.answers) {
		queue_ctl_answer(p, &(struct pending_answer){ .text = mem_strdup(text) });
	}
}

/* Send the queued answers whose state is durable by now. */
static void send_durable_answers(struct server_session *p)
{
	const struct server *s = p->io_thread->server;
	struct pending_answer *d;

	while ((d = p->control.answers) &&
	    s->cfg.coordinator->may_announce(s->coordinator, &d->mark)) {
		p->control.answers = d->next;
		if (!p->control.answers)
			p->control.answers_last = &p->control.answers;
		p->control.nanswers--;
		if (d->text)
			send_ctl_text(p, d->text);
		else
			send_ctl_answer(p, d);
		free(d);
	}
}

/* The session ends: its client asks again in a new one. */
static void drop_queued_answers(struct server_session *p)
{
	struct pending_answer *d;

	while ((d = p->control.answers)) {
		p->control.answers = d->next;
		json_decref(d->answer);
		free(d->text);
		free(d);
	}
}

/* Send it views from now on, first the view of the answer. A member that has joined gets none from
 * before it joined. But it must get that view: messages that the join has caused refer to it. */
static void attach_to_views(struct server_session *p, const struct pending_answer *d)
{
	const struct server *s = p->io_thread->server;

	p->control.view_floor = d->joined ? d->mark.rev
	                                  : s->cfg.coordinator->rev_sent(s->coordinator);
	p->control.attached = true;
}

/* Send the latest view if this session does not have it. A client that does not read what it was
 * sent misses views that are superseded meanwhile; servers and relays are sent every view. */
static void send_view(struct server_session *p)
{
	const struct view_text *v = p->io_thread->views;
	struct record r = { .flags = RECORD_VIEW };
	char *text;

	if (!p->control.attached || !v || view_text_rev(v) < p->control.view_floor ||
	    view_text_rev(v) <= p->control.view_had ||
	    (p->who.role != ROLE_SERVER && p->who.role != ROLE_RELAY &&
	        conn_queued(p->conn) >= SESSION_QUEUE))
		return;
	if (p->who.role == ROLE_WORKER)
		text = view_text_for_worker(v,
		    p->control.self.kind == COORD_WORKER ? p->control.self.index : RANK_NONE,
		    p->control.view_had);
	else if (p->who.role == ROLE_READER || p->who.role == ROLE_MONITOR)
		text = view_text_for_guest(v, p->control.view_had);
	else
		text = view_text_full(v, p->control.view_had);
	p->control.view_had = view_text_rev(v);
	if (!text)
		return;
	payload_send_text(p->conn, &r, text);
	free(text);
	atomic_fetch_add(&p->io_thread->server->count.views_cost, VIEW_READ_COST);
}

/* Messages whose effect is that views follow; their answer is {}. */
static const bool asks_for_views[MESSAGE_KINDS] = {
#define TO_VIEWS(name) [MESSAGE_##name] = true,
#include "msg/message.def"
};

/* Adds a record to the message of which it is a piece. True: the message is complete, and *text has
 * it until the next call. False: more is to come, or e->code is set. */
static bool take_message_piece(struct server_session *p, const struct record *r,
    const uint8_t *payload, const uint8_t **text, size_t *len, struct err *e)
{
	bool whole = false;

	if (!r->total) {
		*text = payload;
		*len = r->len;
		return true;
	}
	if (r->total > MESSAGE_MAX) {
		err_set(e, ERR_PROTO, "a message has %llu bytes, the limit is %u",
		    (unsigned long long)r->total, MESSAGE_MAX);
		return false;
	}
	if (payload_get_text(&p->control.text, r, payload, &whole, e) || !whole)
		return false;
	*text = p->control.text.data;
	*len = p->control.text.len;
	return true;
}

/* Handles a control message, which only a coordinator does. A malformed message ends the session.
 * The answer is sent at once if the state that it depends on is durable; otherwise it is queued.
 * When ANSWERS_MAX answers are queued, further messages are held. A long message is held until it
 * has been parsed. No lock is held here; `handle` takes the coordinator's. */
static enum conn_verdict handle_ctl(struct server_session *p, const struct record *r,
    const uint8_t *payload)
{
	const struct server_coordinator *c = p->io_thread->server->cfg.coordinator;
	struct coordinator *coordinator = p->io_thread->server->coordinator;
	struct err e = { 0 };
	struct pending_answer due = { .seq = r->seq };
	struct message m;
	const uint8_t *text;
	bool watches = false;
	json_t *msg = NULL;
	size_t len;

	if (p->control.nanswers >= ANSWERS_MAX || session_parse_is_busy(p))
		return CONN_HOLD;
	if (session_parse_take(p, &msg, &e)) {
		/* It is the record that was held meanwhile. */
	} else if (take_message_piece(p, r, payload, &text, &len, &e)) {
		if (coordinator && len > SESSION_PARSE_LONG && session_parse_begin(p, text, len)) {
			buf_release(&p->control.text);
			return CONN_HOLD;
		}
		msg = json_parse_to_depth((const char *)text, len, MESSAGE_MAX, JSON_PEER_DEPTH,
		    &e);
	} else if (!e.code) {
		return CONN_TAKEN;
	}
	buf_release(&p->control.text);
	if (!coordinator)
		err_set(&e, ERR_NOTFOUND, "this server is not the coordinator");
	if (!msg || !coordinator) {
		json_decref(msg);
		session_refuse(p, r, e.code, "%s", e.msg);
		return CONN_TAKEN;
	}
	if (!message_decode(msg, p->who.role, &m, &e)) {
		int was = (int)p->control.self.kind;

		watches = asks_for_views[m.kind];
		due.answer = watches ? json_object()
		                     : c->handle(coordinator, &p->control.self, &m, &due.mark, &e);
		/* Views that this session was sent before had no row of a worker. The row may be
		 * older than they are: the coordinator that admitted the worker died before it had
		 * answered. */
		if (p->control.self.kind == COORD_WORKER && was != (int)COORD_WORKER)
			p->control.view_had = 0;
	}
	if (e.code == ERR_CLOSED) {
		json_decref(msg);
		return CONN_DROP;
	}
	due.joined = !watches;
	due.attaches = due.answer &&
	    (p->control.self.kind == COORD_SERVER || p->control.self.kind == COORD_WORKER ||
	        p->control.self.kind == COORD_RELAY || !due.joined);
	due.e = e;
	if (c->may_announce(coordinator, &due.mark))
		send_ctl_answer(p, &due);
	else if (due.answer || e.code)
		queue_ctl_answer(p, &due);
	json_decref(msg);
	return CONN_TAKEN;
}

static enum conn_verdict handle_record(struct server_session *p, const struct record *r,
    const uint8_t *payload);

/* Handles the records of a BATCH in order. A held record stops it: batch_at remembers the place,
 * and conn_retry comes back with the whole BATCH. Records before that place are not handled
 * twice. */
static enum conn_verdict handle_batch(struct server_session *p, const struct record *r,
    const uint8_t *payload)
{
	const uint8_t *body;
	struct record sub;
	struct err e = { 0 };

	for (;;) {
		size_t at = p->data.batch_at;
		enum conn_verdict v;

		if (!payload_batch_next(payload, r->len, &p->data.batch_at, &sub, &body, &e))
			break;
		v = handle_record(p, &sub, body);
		if (v == CONN_HOLD)
			p->data.batch_at = at; /* the retry begins with this record */
		if (v != CONN_TAKEN)
			return v;
	}
	p->data.batch_at = 0;
	if (e.code) {
		session_refuse(p, r, e.code, "%s", e.msg);
		return CONN_DROP;
	}
	return CONN_TAKEN;
}

/* The first record of a session for files. The record is held, and a thread of the coordinator's
 * file service takes the connection over and handles it. */
static enum conn_verdict begin_file_session(struct server_session *p, const struct record *r)
{
	if (!p->io_thread->server->coordinator || p->nrecords != 1) {
		session_refuse(p, r, ERR_PROTO,
		    "%s: this server is not the coordinator, or the session is not for files",
		    record_type_name(r->type));
		return CONN_DROP;
	}
	p->state = SESSION_MOVES_FILES;
	return CONN_HOLD;
}

/* A client that does not read its answers gets no new ones, so that they cannot fill our memory.
 * Two processes cannot wait for each other in this way: only servers stop reading, and a client
 * reads on while its own records cannot be written. */
static bool reads_answers(const struct server_session *p)
{
	size_t queued = conn_queued(p->conn) + p->data.batcher.body.len;
	struct server *s = p->io_thread->server;

	return queued < SESSION_QUEUE_MIN ||
	    queued < session_backlog_limit(s, atomic_load(&s->count.sessions));
}

/* PROBE measures a link (session/probe.h). The payload is discarded, and the answer has as many
 * bytes as the record asks for. One answer with bytes at a time: it counts as queued for the session. A
 * member that asks only whether the coordinator is there (is_answering in session/agent.c) is always
 * answered, also while a view is being written. */
static enum conn_verdict answer_probe(struct server_session *p, const struct record *r)
{
	struct record out = { .type = REC_PROBED, .seq = r->seq, .len = (uint32_t)r->total };

	if (r->total > PROBED_MAX || (r->total && conn_queued(p->conn))) {
		session_refuse(p, r, ERR_LIMIT,
		    "a probe must request at most %u bytes and no answer before the last record",
		    PROBED_MAX);
		return CONN_TAKEN;
	}
	memset(conn_reserve(p->conn, out.len), 0, out.len);
	conn_commit(p->conn, &out);
	return CONN_TAKEN;
}

/* Handles a record for the partitions of this server. The order of the tests matters: is there a
 * shard, is the record's layout known here, may the record change anything. A record of a newer
 * layout is held until the view has arrived; the functions of the types deal with older ones. */
static enum conn_verdict handle_shard_record(struct server_session *p, const struct record *r,
    const uint8_t *payload)
{
	struct server *s = p->io_thread->server;

	if (p->load < SESSION_LOAD) {
		atomic_fetch_add(&p->io_thread->load, SESSION_LOAD - p->load);
		p->load = SESSION_LOAD;
	}
	if (!atomic_load(&s->shard)) {
		session_refuse(p, r, ERR_NOTREADY, "this server has no partitions");
		return CONN_TAKEN;
	}
	/* The sender knows a newer layout than this server. The view with it is on its way to
	 * us. */
	if (r->epoch > atomic_load(&s->epochs.installed) ||
	    r->generation > atomic_load(&s->epochs.generation))
		return CONN_HOLD;
	if (atomic_load(&s->read_only) && r->type != REC_PULL && r->type != REC_PULL_ROWS &&
	    r->type != REC_SCAN) {
		session_refuse(p, r, ERR_UNSUPPORTED,
		    "this cluster is read-only: it only answers pulls");
		return CONN_TAKEN;
	}
	switch (r->type) {
	case REC_PUSH:
	case REC_PUSH_ROWS:
		return session_push(p, r, payload);
	case REC_CLOCK:
		return session_clock(p, r, payload);
	case REC_DONE:
		return session_done(p, r);
	case REC_PUSH_SUM:
		return session_push_sum(p, r, payload);
	case REC_CLOCKS:
		return session_sum_clocks(p, r, payload);
	case REC_REPL_SUM:
	case REC_REPL_PUSH:
	case REC_REPL_STEP:
	case REC_REPL_STATE:
		return session_repl(p, r, payload);
	case REC_PULL:
	case REC_PULL_ROWS:
	case REC_SCAN:
		return session_pull(p, r, payload);
	default:
		session_refuse(p, r, ERR_PROTO, "a server does not handle %s",
		    record_type_name(r->type));
		return CONN_DROP;
	}
}

/* Handles one record, whole or out of a BATCH. The order of the tests matters: can the client take
 * an answer, may its role send this type, is the step possible. CONN_DROP: nothing more is read
 * from the session. */
static enum conn_verdict handle_record(struct server_session *p, const struct record *r,
    const uint8_t *payload)
{
	if (p->state == SESSION_CLOSING)
		return CONN_HOLD;
	if (!reads_answers(p)) {
		p->state = SESSION_WRITE_BLOCKED;
		return CONN_HOLD;
	}
	if (p->state == SESSION_WRITE_BLOCKED)
		p->state = SESSION_READING;
	if (!record_role_may(r->type, p->who.role)) {
		session_refuse(p, r, ERR_FORBIDDEN, "a key with the role %s may not send %s",
		    role_name(p->who.role), record_type_name(r->type));
		return CONN_DROP;
	}
	if (record_step_is_absurd(r)) {
		session_refuse(p, r, ERR_PROTO, "%s of step %llu, which does not exist",
		    record_type_name(r->type), (unsigned long long)r->step);
		return CONN_DROP;
	}
	switch (r->type) {
	case REC_CTL:
		return handle_ctl(p, r, payload);
	case REC_BATCH:
		return handle_batch(p, r, payload);
	case REC_FILE_PUT:
	case REC_FILE_GET:
		return begin_file_session(p, r);
	case REC_PROBE:
		return answer_probe(p, r);
	default:
		return handle_shard_record(p, r, payload);
	}
}

/* The conn's handler. It runs on the session's I/O thread and never blocks. */
static enum conn_verdict receive_record(void *ctx, const struct record *r, uint8_t *payload)
{
	struct server_session *p = ctx;

	/* The empty BATCH that ends the handshake does not count. */
	p->nrecords += r->type != REC_BATCH || r->len;
	return handle_record(p, r, payload);
}

static const struct conn_handler handler = { .admit = session_admit,
	.live = session_live,
	.record = receive_record };

/* ---- life ---- */

/* Changes p->counted_waiting. Keeps server.nwaiting, by which io_threads_wake knows whether there
 * is anything to wake, equal to the number of sessions that have it set. */
static void count_waiting(struct server_session *p, bool waiting)
{
	struct server *s = p->io_thread->server;

	p->counted_waiting = waiting;
	if (waiting)
		atomic_fetch_add(&s->nwaiting, 1);
	else
		atomic_fetch_sub(&s->nwaiting, 1);
}

/* Handles readiness of the session's socket, or of its shared memory with events 0. Writes first,
 * so that a write-blocked session can go on in the same turn. May free p. Errors that a stranger
 * can cause at will are counted, and their log lines are limited. */
static void on_event(void *ctx, uint32_t events)
{
	struct server_session *p = ctx;
	struct server *s = p->io_thread->server;
	bool was_live = conn_is_live(p->conn);
	struct err e = { 0 };
	enum err_code rc = ERR_OK;

	/* The refusal that is still queued cannot be delivered any more. */
	if (p->state == SESSION_CLOSING && events & (EPOLLHUP | EPOLLERR)) {
		session_close(p);
		return;
	}
	if (events & EPOLLOUT)
		rc = conn_write(p->conn, &e);
	if (!rc && p->state == SESSION_WRITE_BLOCKED && reads_answers(p))
		rc = conn_retry(p->conn, &e);
	else if (!rc && (events & (EPOLLIN | EPOLLHUP | EPOLLERR) || conn_ready(p->conn)) &&
	    p->state != SESSION_CLOSING)
		rc = conn_read(p->conn, &e);
	if (!rc && p->state == SESSION_MOVES_FILES) {
		s->cfg.coordinator->take_files(s->coordinator, p);
		return;
	}
	if (!rc || p->state == SESSION_CLOSING) {
		session_advance(p);
		return;
	}
	if (rc == ERR_AUTH || rc == ERR_PROTO ||
	    (!was_live && (rc == ERR_FENCED || rc == ERR_FORBIDDEN))) {
		uint32_t n = log_allowed(&s->strangers, 5);

		atomic_fetch_add(&s->count.auth_failures, 1);
		if (n)
			log_warn(s->cfg.log, "connection refused: %s%s", e.msg,
			    n > 1 ? " (and others before)" : "");
	}
	/* A NACK that says why may be in the queue. */
	conn_write(p->conn, NULL);
	session_close(p);
}

void session_open(struct io_thread *l, int fd)
{
	struct server *s = l->server;
	struct server_session *p = mem_alloc(sizeof *p);
	struct err e;

	loop_assert_thread(l->loop);
	p->io_thread = l;
	p->load = 1;
	p->opened = clock_now();
	net_peer_address(fd, p->address);
	p->id = atomic_fetch_add(&s->next_session, 1);
	p->data.pulls_last = &p->data.pulls;
	p->control.answers_last = &p->control.answers;
	p->who.rank = RANK_NONE;
	p->conn = conn_accept(fd, &s->cfg.id->conn,
	    (enum suite)atomic_load(
	        net_peer_is_local(fd) ? &s->limits.local_suite : &s->limits.remote_suite),
	    atomic_load(&s->epochs.installed), &handler, p);
	conn_use_buffers(p->conn, &l->buffers);
	if (l->spins)
		conn_watch(p->conn);
	p->h = (struct loop_fd){ .fd = fd, .fn = on_event, .ctx = p };
	p->next = l->sessions;
	if (p->next)
		p->next->prev = p;
	l->sessions = p;
	l->half_open++;
	atomic_fetch_add(&s->count.half_open, 1);
	if (loop_add(l->loop, &p->h, EPOLLIN, &e)) {
		session_close(p);
		return;
	}
	session_advance(p);
}

/* Adds what was sent and received since the last call to the counters of the server. */
static void count_session_bytes(struct server_session *p)
{
	struct server *s = p->io_thread->server;
	uint64_t in = conn_bytes_in(p->conn), out = conn_bytes_out(p->conn);

	atomic_fetch_add_explicit(&s->count.bytes_in, in - p->counted_in, memory_order_relaxed);
	atomic_fetch_add_explicit(&s->count.bytes_out, out - p->counted_out, memory_order_relaxed);
	p->counted_in = in;
	p->counted_out = out;
}

struct conn *session_release_conn(struct server_session *p)
{
	struct io_thread *l = p->io_thread;
	struct server *s = l->server;
	struct conn *conn = p->conn;
	struct early_clocks *x;
	struct pull *q;

	loop_assert_thread(p->io_thread->loop);
	if (p->counted_waiting)
		count_waiting(p, false);
	if (conn_is_live(p->conn)) {
		atomic_fetch_sub(&s->count.sessions, 1);
		count_session_bytes(p);
	} else {
		l->half_open--;
		atomic_fetch_sub(&s->count.half_open, 1);
	}
	/* If the network is silent the member may well be alive: its lease decides. */
	if (s->coordinator && p->control.attached && !conn_is_silent(p->conn))
		s->cfg.coordinator->gone(s->coordinator, &p->control.self);
	if (p->prev)
		p->prev->next = p->next;
	else
		l->sessions = p->next;
	if (p->next)
		p->next->prev = p->prev;
	loop_del(l->loop, &p->h);
	atomic_fetch_sub(&l->load, p->load);
	while ((q = p->data.pulls)) {
		p->data.pulls = q->next;
		session_pull_free(q);
	}
	while ((x = p->data.early_clocks)) {
		p->data.early_clocks = x->next;
		free(x);
	}
	session_drop_scans(p);
	drop_queued_answers(p);
	batcher_release(&p->data.batcher);
	buf_release(&p->control.text);
	session_parse_drop(p);
	buf_release(&p->data.receipts);
	buf_release(&p->data.replicated);
	buf_release(&p->data.summed);
	free(p->data.pending);
	free(p->data.rows);
	free(p->data.ids);
	row_ids_cache_free(p->data.row_ids_cache);
	free(p);
	return conn;
}

void session_close(struct server_session *p)
{
	loop_assert_thread(p->io_thread->loop);
	conn_free(session_release_conn(p));
}

bool session_is_idle(const struct server_session *p)
{
	return !conn_is_held(p->conn) && !p->data.pulls && !p->data.npending && !p->data.rows &&
	    !p->data.early_clocks && !p->control.answers && !conn_queued(p->conn);
}

void session_retire(struct server_session *p)
{
	struct record bye = { .type = REC_BYE };

	loop_assert_thread(p->io_thread->loop);
	conn_send(p->conn, &bye, NULL);
	conn_write(p->conn, NULL);
	p->control.attached = false;
	session_close(p);
}

/* Does it wait for something that another session or thread does? The held record of a session that
 * is SESSION_WRITE_BLOCKED or SESSION_CLOSING does not: it waits for its own socket. */
static bool must_wait(const struct server_session *p)
{
	return (conn_is_held(p->conn) && p->state != SESSION_WRITE_BLOCKED &&
	           p->state != SESSION_CLOSING) ||
	    p->data.early_clocks || p->data.pulls || p->data.npending || p->control.answers;
}

/* A session that begins to wait tries once more after it has been counted as waiting, because
 * io_threads_wake ignored it for changes before that. */
void session_advance(struct server_session *p)
{
	struct err e;
	uint32_t events = 0;
	bool more = false;

	loop_assert_thread(p->io_thread->loop);
	for (int round = 0; round < 2; round++) {
		if (conn_is_live(p->conn) && p->state != SESSION_CLOSING) {
			if (round && conn_is_held(p->conn) && conn_retry(p->conn, &e) &&
			    p->state != SESSION_CLOSING) {
				session_close(p);
				return;
			}
			send_durable_answers(p);
			send_view(p);
			session_retry_clocks(p);
			session_send_acknowledgements(p);
			more = session_answer_pulls(p);
		}
		if (conn_is_live(p->conn))
			batcher_flush(&p->data.batcher, p->conn);
		if (p->counted_waiting || !must_wait(p))
			break;
		count_waiting(p, true);
	}
	if (p->counted_waiting && !must_wait(p))
		count_waiting(p, false);
	if (conn_write(p->conn, &e) || (p->state == SESSION_CLOSING && !conn_queued(p->conn))) {
		session_close(p);
		return;
	}
	count_session_bytes(p);
	/* POLLIN and POLLOUT have the same values as EPOLLIN and EPOLLOUT. A session that is
	 * SESSION_CLOSING is not read any more; if shared memory has no room for its NACK,
	 * tick_io_thread tries again. */
	if (p->state == SESSION_CLOSING)
		events = conn_can_write(p->conn) ? EPOLLOUT : 0;
	else
		events = (uint32_t)conn_events(p->conn);
	if ((more && !conn_queued(p->conn)) ||
	    (p->state == SESSION_WRITE_BLOCKED && reads_answers(p)))
		events |= EPOLLOUT;
	if (events != p->h.events)
		loop_mod(p->io_thread->loop, &p->h, events);
}

void session_retry(struct server_session *p)
{
	struct err e = { 0 };

	loop_assert_thread(p->io_thread->loop);
	if (conn_is_held(p->conn) && conn_retry(p->conn, &e) && p->state != SESSION_CLOSING) {
		session_close(p);
		return;
	}
	session_advance(p);
}

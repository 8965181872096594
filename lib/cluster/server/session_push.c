/* SPDX-License-Identifier: ISC */
#include <stdlib.h>

#include "codec/codec.h"
#include "core/clock.h"
#include "core/endian.h"
#include "core/fail.h"
#include "core/mem.h"
#include "core/num.h"
#include "server/quota.h"
#include "server/server_role.h"
#include "session/tracer.h"
#include "server/session_row_ids.h"
#include "server/session_trace.h"
#include "wire/payload.h"

bool session_refuse_stale(struct server_session *p, const struct record *r)
{
	struct server *s = p->io_thread->server;

	if (r->epoch == atomic_load(&s->epochs.installed) &&
	    r->generation == atomic_load(&s->epochs.generation))
		return false;
	session_send_nack(p, r, ERR_STALE,
	    "layout epoch %u, generation %u is not the current one (%u, %u)", r->epoch,
	    r->generation, atomic_load(&s->epochs.installed), atomic_load(&s->epochs.generation));
	return true;
}

/* ---- acknowledgements ---- */

/* The bound of pending acknowledgements.
 *
 * A worker has at most one push for each partition in an open step, and the receipts of earlier
 * steps become safe without any further record of this session. So pushes may wait when the bound
 * is reached, until a quarter of it is free: the CLOCK that closes the open step is never queued
 * after them. Duplicate pushes do not count, because merge_pending_acks keeps one of each, in
 * whatever layout epoch it was sent. */
size_t session_pending_limit(uint64_t parts)
{
	return 2 * parts + 64;
}

/* Records of replication never wait, because servers that replicate each other's partitions
 * could then wait for each other in a ring. A sender has at most SHARD_SENT_MAX records in flight
 * for each partition, and may send all of them again under a new layout. */
size_t session_records_limit(uint64_t parts)
{
	return 2 * SHARD_SENT_MAX * parts + 64;
}

static int compare_numbers(uint64_t x, uint64_t y)
{
	return (x > y) - (x < y);
}

/* Orders by the acknowledged push and by the condition it waits for. The layout epoch is left out:
 * a push that was sent again in a later layout epoch is the same push. */
static int compare_pending_acks(const struct pending_ack *x, const struct pending_ack *y)
{
	int c = compare_numbers(x->part, y->part);

	c = c ? c : compare_numbers(x->table, y->table);
	c = c ? c : compare_numbers(x->kind, y->kind);
	c = c ? c : compare_numbers(x->step, y->step);
	c = c ? c : compare_numbers(x->seq, y->seq);
	c = c ? c : compare_numbers(x->token, y->token);
	c = c ? c : compare_numbers(x->due.tenure, y->due.tenure);
	c = c ? c : compare_numbers(x->due.steps, y->due.steps);
	return c ? c : compare_numbers(x->due.version, y->due.version);
}

static int order_pending_acks(const void *a, const void *b)
{
	const struct pending_ack *const *x = a, *const *y = b;
	int c = compare_pending_acks(*x, *y);

	/* Keep the order of arrival among equal ones. */
	return c ? c : compare_numbers((uintptr_t)*x, (uintptr_t)*y);
}

/* Drop repetitions: one receipt acknowledges a push, however often it was sent. The last one stays,
 * because its layout epoch is the sender's present one, and the sender ignores answers of older
 * epochs. Pushes from outside of the job have no step, but the version of each is different. */
static void merge_pending_acks(struct server_session *p)
{
	struct pending_ack **order = mem_array(p->data.npending + 1, sizeof *order);
	bool *drop = mem_array(p->data.npending + 1, sizeof *drop);
	size_t kept = 0;

	for (size_t i = 0; i < p->data.npending; i++)
		order[i] = &p->data.pending[i];
	qsort(order, p->data.npending, sizeof *order, order_pending_acks);
	for (size_t i = 1; i < p->data.npending; i++)
		drop[order[i - 1] - p->data.pending] = compare_pending_acks(order[i - 1],
		                                           order[i]) == 0;
	for (size_t i = 0; i < p->data.npending; i++)
		if (!drop[i])
			p->data.pending[kept++] = p->data.pending[i];
	p->data.npending = kept;
	free(drop);
	free(order);
}

/* Merging costs a sort. To keep it from being due again at the next push, the session stays
 * full until a quarter of the bound is free. */
bool session_is_full(struct server_session *p)
{
	size_t most = session_pending_limit(
	    atomic_load_explicit(&p->io_thread->server->limits.parts, memory_order_relaxed));

	if (p->data.npending < most && p->state != SESSION_RECEIPTS_FULL)
		return false;
	session_send_acknowledgements(p);
	if (p->data.npending >= most)
		merge_pending_acks(p);
	if (p->data.npending > most - most / 4)
		p->state = SESSION_RECEIPTS_FULL;
	else if (p->state == SESSION_RECEIPTS_FULL)
		p->state = SESSION_READING;
	return p->state == SESSION_RECEIPTS_FULL;
}

bool session_has_too_many_records(struct server_session *p)
{
	size_t most = session_records_limit(
	    atomic_load_explicit(&p->io_thread->server->limits.parts, memory_order_relaxed));

	if (p->data.npending < most)
		return false;
	session_send_acknowledgements(p);
	merge_pending_acks(p);
	return p->data.npending > most - most / 4;
}

void session_add_pending(struct server_session *p, const struct record *r,
    const struct pending_ack *x)
{
	loop_assert_thread(p->io_thread->loop);
	p->data.pending = mem_grow(p->data.pending, &p->data.pending_cap, p->data.npending + 1,
	    sizeof *p->data.pending);
	p->data.pending[p->data.npending] = *x;
	p->data.pending[p->data.npending].epoch = r->epoch;
	p->data.pending[p->data.npending++].generation = r->generation;
}

/* Queues the entries of a list in records of at most BATCHER_SMALL bytes, each with whole
 * entries, and empties the list. entry: bytes of one. */
static void send_entries(struct server_session *p, enum record_type type, struct buf *list,
    size_t entry)
{
	struct record out = { .type = (uint8_t)type,
		.epoch = p->data.ready_epoch,
		.generation = p->data.ready_generation };

	for (size_t at = 0; at < list->len; at += out.len) {
		size_t most = BATCHER_SMALL / entry * entry, left = list->len - at;

		out.len = (uint32_t)(left < most ? left : most);
		batcher_add(&p->data.batcher, p->conn, &out, list->data + at);
	}
	buf_clear(list);
}

/* Sends everything that prepare_answer has gathered for one layout epoch and generation. */
static void send_ready_answers(struct server_session *p)
{
	if (p->data.receipts.len) {
		FAIL_POINT("receipt_before");
		send_entries(p, REC_RECEIPT, &p->data.receipts, PAYLOAD_RECEIPT_BYTES);
	}
	if (p->data.replicated.len)
		send_entries(p, REC_REPLICATED, &p->data.replicated, PAYLOAD_REPLICATED_BYTES);
	if (p->data.summed.len)
		send_entries(p, REC_SUMMED, &p->data.summed, PAYLOAD_SUMMED_BYTES);
}

/* Encodes an acknowledgement that is safe to send. The status, the number of replicas and the
 * version are the present ones, not as they were when the record was taken. A change of layout
 * epoch between two entries flushes the lists, because a record's head states one layout epoch. */
static void prepare_answer(struct server_session *p, const struct pending_ack *x)
{
	struct shard_outcome now;
	struct payload_receipt m = { .table = x->table,
		.status = x->status,
		.part = x->part,
		.staleness = x->staleness,
		.step = x->step };

	if (x->epoch != p->data.ready_epoch || x->generation != p->data.ready_generation)
		send_ready_answers(p);
	p->data.ready_epoch = x->epoch;
	p->data.ready_generation = x->generation;
	if (x->kind == PENDING_REPLICATED) {
		payload_put_replicated(&p->data.replicated,
		    &(struct payload_replicated){ x->table, x->part, x->seq });
		return;
	}
	if (x->kind == PENDING_CLOCKED) {
		session_send_clocked(p, x);
		return;
	}
	now = shard_outcome(session_shard(p), x->table, x->part, x->step,
	    (enum push_status)x->status, &x->due);
	m.status = (uint8_t)now.status;
	m.replicas = (uint8_t)now.replicas;
	m.version = now.version;
	if (x->kind == PENDING_SUMMED) {
		sum_body_put_summed(&p->data.summed,
		    &(struct payload_summed){ x->table, m.status, m.replicas, x->part, x->seq,
		        m.version });
		return;
	}
	payload_put_receipt(&p->data.receipts, &m);
}

void session_send_acknowledgements(struct server_session *p)
{
	struct server *s = p->io_thread->server;
	struct shard *sh = session_shard(p);
	size_t kept = 0;

	loop_assert_thread(p->io_thread->loop);
	for (size_t i = 0; i < p->data.npending; i++) {
		struct pending_ack *x = &p->data.pending[i];
		bool safe;

		if (x->kind == PENDING_CLOCKED) {
			safe = server_upstream(s)->acked(s) >= x->token;
		} else {
			/* Take no lock, and read `safe` before `installing`. A shorter chain can
			 * make the change safe, and `installing` is set before that chain is
			 * installed: the test below then sees it, and the answer is never sent. */
			safe = shard_is_safe(sh, x->table, x->part, &x->due);
			if (x->epoch != atomic_load(&s->epochs.installing) ||
			    (!safe && shard_has_left(sh, x->table, x->part, &x->due)))
				continue;
		}
		if (safe)
			prepare_answer(p, x);
		else
			p->data.pending[kept++] = *x;
	}
	p->data.npending = kept;
	send_ready_answers(p);
}

/* ---- pushes ---- */

/* Gives a decoded push to the shard under the session's identity and notes its receipt. The
 * record's seq is the version that the gradient was computed from. A push of a session without a
 * rank, or with RECORD_NOW, counts as from outside the job. */
static enum conn_verdict take_worker_push(struct server_session *p, const struct record *r,
    struct push *push)
{
	struct receipt receipt;
	const struct tracer *tracer = p->io_thread->server->tracer;
	int64_t begin = tracer_is_on(tracer) ? clock_now() : 0;

	if (session_is_full(p))
		return CONN_HOLD;
	push->rank = p->who.rank == RANK_NONE || (r->flags & RECORD_NOW) ? SHARD_OUTSIDE
	                                                                 : p->who.rank;
	push->incarnation = p->who.incarnation;
	push->step = r->step;
	push->pulled = r->seq;
	push->table = r->table;
	push->part = r->part;
	push->codec = r->codec;
	push->examples = r->examples;
	switch (shard_push(session_shard(p), push, &receipt)) {
	case SHARD_OK:
		FAIL_POINT("push_taken");
		if (begin && push->rank != SHARD_OUTSIDE)
			session_trace_push(p, r->step, begin);
		session_add_pending(p, r,
		    &(struct pending_ack){ .table = r->table,
		        .part = r->part,
		        .due = receipt.due,
		        .status = receipt.status,
		        .staleness = receipt.staleness,
		        .step = r->step });
		return CONN_TAKEN;
	case SHARD_WAIT:
		return CONN_HOLD;
	case SHARD_FENCED:
		session_refuse(p, r, ERR_FENCED, "rank %u now belongs to another worker",
		    p->who.rank);
		return CONN_DROP;
	case SHARD_ELSEWHERE:
		session_send_nack(p, r, ERR_STALE,
		    "table %u partition %u is pushed to another server", r->table, r->part);
		return CONN_TAKEN;
	case SHARD_BAD:
		break;
	}
	session_refuse(p, r, ERR_PROTO,
	    "the push to table %u partition %u is malformed, or there is no memory for it",
	    r->table, r->part);
	return CONN_DROP;
}

/* Find the row ids, which are plain or a block (RECORD_ROW_IDS), and the values after them. */
static enum row_ids_found decode_push_rows(struct server_session *p, const struct record *r,
    const uint8_t *body, size_t len, struct push *push)
{
	const uint64_t *ids = NULL;
	enum row_ids_found found;
	struct row_ids_block b = { 0 };

	if (!(r->flags & RECORD_ROW_IDS))
		return payload_get_ids(body, len, &push->nrows, &push->ids, &push->payload)
		    ? ROW_IDS_FOUND
		    : ROW_IDS_WRONG;
	found = session_row_ids(p, r, body, len, ROW_IDS_MAX, &b, &ids);
	push->nrows = b.n;
	push->ids = (const uint8_t *)ids;
	push->payload = body + b.whole;
	return found;
}

/* Do the decoded rows fit into the session's credit? This also refuses a few bytes that would be
 * decoded to a great many rows, and codecs that are not for rows. */
static bool push_rows_fit(const struct record *r, const struct push *push, size_t len,
    uint32_t cols)
{
	const struct codec *codec = codec_by_id(r->codec);
	uint64_t floats = (uint64_t)push->nrows * cols * sizeof(float);

	if (!codec || codec->takes == CODEC_FRACTION)
		return false;
	return floats <= SESSION_CREDIT && (codec->raw_values || len + floats <= SESSION_CREDIT);
}

/* Takes a PUSH_ROWS whose bytes are all here. A block of row ids that is not cached is asked for
 * again (ROW_IDS_MISSED), and the push counts as handled: the client repeats it with all ids. */
static enum conn_verdict take_pushed_rows(struct server_session *p, const struct record *r,
    const uint8_t *body, size_t len)
{
	const struct table *t = shard_table(session_shard(p), r->table);
	struct push push = { 0 };
	enum row_ids_found found = t && t->sparse ? decode_push_rows(p, r, body, len, &push)
	                                          : ROW_IDS_WRONG;
	uint32_t row;

	if (found == ROW_IDS_MISSED)
		return CONN_TAKEN;
	if (found == ROW_IDS_WRONG) {
		session_refuse(p, r, ERR_PROTO, "the rows do not fit table %u", r->table);
		return CONN_DROP;
	}
	push.len = len - (size_t)(push.payload - body);
	if (r->flags & RECORD_TOUCHING && push.len < (size_t)push.nrows * PAYLOAD_COUNT_BYTES) {
		session_refuse(p, r, ERR_PROTO, "the push lacks the example counts of its rows");
		return CONN_DROP;
	}
	if (r->flags & RECORD_TOUCHING && push.nrows) {
		push.len -= (size_t)push.nrows * PAYLOAD_COUNT_BYTES;
		push.touching = push.payload + push.len;
	}
	if (push.touching && !payload_counts_fit(push.touching, push.nrows, r->examples, &row)) {
		session_refuse(p, r, ERR_PROTO,
		    "a push of %u example%s to table %u partition %u claims that %u of them "
		    "touch row %llu",
		    r->examples, NUM_S(r->examples), r->table, r->part,
		    get_le32(push.touching + (size_t)row * PAYLOAD_COUNT_BYTES),
		    (unsigned long long)get_le64(push.ids + (size_t)row * 8));
		return CONN_DROP;
	}
	if (!push_rows_fit(r, &push, len, t->cols)) {
		session_refuse(p, r, ERR_LIMIT,
		    "a push of %u rows of table %u exceeds %u MiB, or its codec cannot encode "
		    "rows",
		    push.nrows, r->table, SESSION_CREDIT >> 20);
		return CONN_DROP;
	}
	return take_worker_push(p, r, &push);
}

/* Does r continue the pieces that are staged? One at a time is staged for each
 * session. */
static bool is_next_piece(const struct server_session *p, const struct record *r)
{
	const struct record *of = &p->data.rows_rec;

	return p->data.rows && r->type == of->type && r->table == of->table &&
	    r->part == of->part && r->step == of->step && r->total == of->total &&
	    r->offset == p->data.rows_len && r->len <= r->total - r->offset;
}

/* Make room for one more piece. A push gets all its room at once. A state transfer may be as
 * large as the partition; it gets room as its bytes arrive, so that a false `total` costs nothing.
 * False: there is no memory. */
static bool reserve_pieces(struct server_session *p, const struct record *r)
{
	uint64_t need = p->data.rows_len + r->len, cap = 2 * p->data.rows_cap;
	uint8_t *rows;

	if (need <= p->data.rows_cap)
		return true;
	if (cap < need)
		cap = need;
	if (cap < SESSION_CREDIT)
		cap = SESSION_CREDIT;
	if (cap > r->total)
		cap = r->total;
	rows = cap <= SIZE_MAX ? realloc(p->data.rows, cap) : NULL;
	if (!rows)
		return false;
	p->data.rows = rows;
	p->data.rows_cap = cap;
	return true;
}

/* Ends the session with ERR_NOMEM; the message names the bytes that were wanted. */
static enum conn_verdict refuse_for_memory(struct server_session *p, const struct record *r)
{
	session_refuse(p, r, ERR_NOMEM,
	    "no memory for the %llu bytes of %s of table %u partition %u",
	    (unsigned long long)r->total, record_type_name(r->type), r->table, r->part);
	return CONN_DROP;
}

/* A push is applied as a whole or not at all, so its pieces are staged until all are there. */
enum conn_verdict session_collect_pieces(struct server_session *p, const struct record *r,
    const uint8_t *payload, const uint8_t **body)
{
	bool may_begin = p->who.role == ROLE_SERVER || r->total <= SESSION_CREDIT;

	*body = NULL;
	if (r->offset == 0 && r->total == r->len) {
		*body = payload;
		return CONN_TAKEN;
	}
	if (r->offset == 0 && !p->data.rows && may_begin && r->len < r->total) {
		if (!reserve_pieces(p, r))
			return refuse_for_memory(p, r);
		p->data.rows_rec = *r;
	}
	if (is_next_piece(p, r)) {
		if (!reserve_pieces(p, r))
			return refuse_for_memory(p, r);
		memcpy(p->data.rows + p->data.rows_len, payload, r->len);
		p->data.rows_len += r->len;
	} else if (!p->data.rows || r->offset + r->len != r->total ||
	    p->data.rows_len != r->total) {
		/* This is not an error: the last piece, which was held and comes again, is
		 * staged already. */
		session_refuse(p, r, ERR_PROTO, "a piece does not fit the previous pieces");
		return CONN_DROP;
	}
	if (p->data.rows_len == r->total)
		*body = p->data.rows;
	return CONN_TAKEN;
}

void session_drop_pieces(struct server_session *p)
{
	free(p->data.rows);
	p->data.rows = NULL;
	p->data.rows_len = p->data.rows_cap = 0;
}

enum conn_verdict session_take_staged(struct server_session *p, const struct record *r,
    const uint8_t *payload,
    enum conn_verdict (
        *take)(struct server_session *p, const struct record *r, const uint8_t *body, size_t len))
{
	const uint8_t *body;
	enum conn_verdict v;

	if (session_refuse_stale(p, r)) {
		session_drop_pieces(p);
		return CONN_TAKEN;
	}
	v = session_collect_pieces(p, r, payload, &body);
	if (v != CONN_TAKEN || !body)
		return v;
	v = take(p, r, body, r->total);
	if (v != CONN_HOLD)
		session_drop_pieces(p);
	return v;
}

enum conn_verdict session_push(struct server_session *p, const struct record *r,
    const uint8_t *payload)
{
	loop_assert_thread(p->io_thread->loop);
	const struct server_limits *limits = &p->io_thread->server->limits;
	const struct table *t = shard_table(session_shard(p), r->table);
	/* Charge the quota before the push is tried, and give the cost back when the push is held
	 * for another reason. */
	bool charged = p->data.delayed_since ||
	    atomic_load_explicit(&limits->quota_bytes, memory_order_relaxed) ||
	    atomic_load_explicit(&limits->quota_pushes, memory_order_relaxed);
	enum conn_verdict v;

	if (charged && !quota_admit(p, r))
		return CONN_HOLD;
	if (r->type == REC_PUSH_ROWS) {
		/* Refuse before any piece is staged. */
		if (!t || !t->sparse) {
			session_refuse(p, r, ERR_PROTO, "the rows do not fit table %u", r->table);
			return CONN_DROP;
		}
		v = session_take_staged(p, r, payload, take_pushed_rows);
	} else {
		if (session_refuse_stale(p, r))
			return CONN_TAKEN;
		if (!t || t->sparse) {
			session_refuse(p, r, ERR_PROTO, "there is no dense table %u", r->table);
			return CONN_DROP;
		}
		v = take_worker_push(p, r, &(struct push){ .payload = payload, .len = r->len });
	}
	if (v == CONN_HOLD && charged)
		quota_refund(p, r);
	return v;
}

/* ---- clocks ---- */

void session_send_clocked(struct server_session *p, const struct pending_ack *of)
{
	struct record out = { .type = REC_CLOCKED,
		.step = of->step,
		.seq = of->seq,
		.epoch = of->epoch,
		.generation = of->generation,
		.examples = atomic_load(&p->io_thread->server->epochs.members) };

	loop_assert_thread(p->io_thread->loop);
	batcher_add(&p->data.batcher, p->conn, &out, NULL);
}

bool session_expect_announced(struct server_session *p, const struct rank_clock *c)
{
	bool relay = server_upstream(p->io_thread->server), was = false;
	struct payload_run run;

	/* A push of a run that is marked `bypasses_relay` goes to the servers directly, not through
	 * a relay. */
	for (size_t i = 0; c->clocks && payload_get_run(c->runs, c->len, i, &run); i++) {
		if (run.bypasses_relay && relay)
			was |= shard_withdraw(session_shard(p), c->rank, c->incarnation, c->step,
			    run.table, run.first, run.count);
		else
			shard_expect(session_shard(p), c->rank, c->incarnation, c->step, run.table,
			    run.first, run.count);
	}
	return was;
}

/* A store acknowledges the CLOCK at once; a relay when all servers have acknowledged it. */
static enum conn_verdict acknowledge_clock(struct server_session *p, const struct record *r,
    enum shard_answer a, const struct rank_clock *c)
{
	struct server *s = p->io_thread->server;

	if (a == SHARD_WAIT)
		return CONN_HOLD;
	if (a != SHARD_OK) {
		session_refuse(p, r, ERR_FENCED, "rank %u now belongs to another worker",
		    p->who.rank);
		return CONN_DROP;
	}
	if (server_upstream(s))
		session_add_pending(p, r,
		    &(struct pending_ack){ .kind = PENDING_CLOCKED,
		        .step = r->step,
		        .seq = r->seq,
		        .token = server_upstream(s)->clock(s, c) });
	else
		session_send_clocked(p,
		    &(struct pending_ack){ .step = r->step,
		        .seq = r->seq,
		        .epoch = r->epoch,
		        .generation = r->generation });
	return CONN_TAKEN;
}

/* How often a CLOCK may announce each partition, on average. A program that pushes some tables more
 * than once in a step stays below. Without a bound one CLOCK could name all partitions tens of
 * thousands of times, and would occupy the I/O thread, which takes the lock of each, for
 * seconds. */
#define ANNOUNCED_MOST 16u

enum conn_verdict session_clock(struct server_session *p, const struct record *r,
    const uint8_t *payload)
{
	struct rank_clock c = { p->who.rank, r->examples, p->who.incarnation, r->step, true, false,
		payload, r->len };
	enum shard_answer a;
	bool advance;

	loop_assert_thread(p->io_thread->loop);
	if (session_refuse_stale(p, r))
		return CONN_TAKEN;
	if (p->who.rank == RANK_NONE || !payload_runs_valid(payload, r->len)) {
		session_refuse(p, r, ERR_PROTO, "a CLOCK has no rank or a malformed run");
		return CONN_DROP;
	}
	if (payload_runs_parts(payload, r->len) >
	    ANNOUNCED_MOST * shard_count_parts(session_shard(p))) {
		session_refuse(p, r, ERR_LIMIT,
		    "a CLOCK announces each partition more than %u times", ANNOUNCED_MOST);
		return CONN_DROP;
	}
	if (server_upstream(p->io_thread->server) && session_is_full(p))
		return CONN_HOLD;
	advance = session_expect_announced(p, &c) && p->state != SESSION_CLOCK_HELD;
	a = shard_clock(session_shard(p), p->who.rank, p->who.incarnation, r->step, r->examples);
	p->state = a == SHARD_WAIT ? SESSION_CLOCK_HELD : SESSION_READING;
	if (advance)
		shard_advance(session_shard(p));
	if (a == SHARD_OK && tracer_is_on(p->io_thread->server->tracer))
		session_trace_clock(p, p->who.rank, r->step);
	return acknowledge_clock(p, r, a, &c);
}

enum conn_verdict session_done(struct server_session *p, const struct record *r)
{
	loop_assert_thread(p->io_thread->loop);
	if (p->who.rank == RANK_NONE) {
		session_refuse(p, r, ERR_PROTO, "a DONE has no rank");
		return CONN_DROP;
	}
	if (server_upstream(p->io_thread->server) && session_is_full(p))
		return CONN_HOLD;
	return acknowledge_clock(p, r,
	    shard_done(session_shard(p), p->who.rank, p->who.incarnation),
	    &(struct rank_clock){ .rank = p->who.rank,
	        .incarnation = p->who.incarnation,
	        .done = true });
}

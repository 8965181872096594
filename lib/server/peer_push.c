#include "base/endian.h"
#include "base/fail.h"
#include "base/mem.h"
#include "base/clock.h"
#include "client/tracer.h"
#include "codec/codec.h"
#include "server/keys.h"
#include "server/peer_trace.h"
#include "server/uplink.h"

static struct shard *shard_of(const struct peer *p)
{
	return atomic_load(&p->lane->server->shard);
}

bool peer_stale(struct peer *p, const struct record *r)
{
	struct server *s = p->lane->server;

	if (r->epoch == atomic_load(&s->epoch) && r->generation == atomic_load(&s->generation))
		return false;
	peer_object(p, r, ERR_STALE, "epoch %u generation %u is not the present one (%u, %u)", r->epoch, r->generation,
	    atomic_load(&s->epoch), atomic_load(&s->generation));
	return true;
}

/* ---- receipts ----------------------------------------------------------------------- */

void peer_promise(struct peer *p, const struct promise *x)
{
	if (p->npending == p->pending_cap) {
		p->pending_cap = p->pending_cap ? p->pending_cap * 2 : 64;
		p->pending = mem_regrow(p->pending, p->pending_cap, sizeof *p->pending);
	}
	p->pending[p->npending++] = *x;
}

static void keep_promise(struct peer *p, const struct promise *x)
{
	struct shard *sh = shard_of(p);
	struct msg_receipt m = { .table = x->table, .status = x->status, .part = x->part, .staleness = x->staleness,
		.step = x->step };

	if (x->kind == PROMISE_COPIED) {
		msg_put_copied(&p->copied, &(struct msg_copied){ x->table, x->part, x->seq });
		return;
	}
	if (x->kind == PROMISE_CLOCKED) {
		peer_clocked(p, x->step, x->seq);
		return;
	}
	m.status = (uint8_t)shard_outcome(sh, x->table, x->part, x->step, (enum push_status)x->status);
	m.copies = (uint8_t)shard_copies(sh, x->table, x->part);
	/* Of a step's sum the version is known now. */
	m.version = x->version ? x->version : shard_version(sh, x->table, x->part);
	if (x->kind == PROMISE_SUMMED) {
		msg_put_summed(&p->summed, &(struct msg_summed){ x->table, m.status, m.copies, x->part, x->seq, m.version });
		return;
	}
	msg_put_receipt(&p->receipts, &m);
}

static void send_list(struct peer *p, enum msg_type type, struct buf *list, size_t entry)
{
	struct server *s = p->lane->server;
	struct record out = { .type = (uint8_t)type, .epoch = atomic_load(&s->epoch), .generation = atomic_load(&s->generation) };

	for (size_t at = 0; at < list->len; at += out.len) {
		size_t most = BATCHER_SMALL / entry * entry, left = list->len - at;

		out.len = (uint32_t)(left < most ? left : most);
		batcher_add(&p->batcher, p->conn, &out, list->data + at);
	}
	buf_clear(list);
}

void peer_receipts(struct peer *p)
{
	size_t kept = 0;

	for (size_t i = 0; i < p->npending; i++) {
		struct promise *x = &p->pending[i];

		if (x->kind == PROMISE_CLOCKED ? uplink_acked(p->lane->server->uplink) >= x->version :
		    shard_is_safe(shard_of(p), x->table, x->part, x->steps, x->version))
			keep_promise(p, x);
		else if (x->kind == PROMISE_CLOCKED || !shard_has_left(shard_of(p), x->table, x->part))
			p->pending[kept++] = *x;
	}
	p->npending = kept;
	if (p->receipts.len)
		FAIL_POINT("receipt_before");
	send_list(p, REC_RECEIPT, &p->receipts, MSG_RECEIPT_BYTES);
	send_list(p, REC_COPIED, &p->copied, MSG_COPIED_BYTES);
	send_list(p, REC_SUMMED, &p->summed, MSG_SUMMED_BYTES);
}

/* ---- pushes ------------------------------------------------------------------------- */

static enum conn_verdict take_push(struct peer *p, const struct record *r, struct push *push)
{
	struct receipt receipt;
	const struct tracer *tracer = p->lane->server->tracer;
	int64_t begin = tracer_is_on(tracer) ? clock_now() : 0;

	push->slot = p->slot == SLOT_NONE || (r->flags & RECORD_NOW) ? SHARD_OUTSIDE : p->slot;
	push->incarnation = p->incarnation;
	push->step = r->step;
	push->pulled = r->seq;
	push->table = r->table;
	push->part = r->part;
	push->codec = r->codec;
	push->examples = r->examples;
	switch (shard_push(shard_of(p), push, &receipt)) {
	case SHARD_OK:
		FAIL_POINT("push_taken");
		if (begin && push->slot != SHARD_OUTSIDE)
			trace_push(p, r->step, begin);
		peer_promise(p, &(struct promise){ .table = r->table, .part = r->part, .steps = receipt.safe_steps,
			.version = receipt.safe_version, .status = receipt.status, .staleness = receipt.staleness,
			.step = r->step });
		return CONN_TAKEN;
	case SHARD_HOLD:
		return CONN_HOLD;
	case SHARD_FENCED:
		peer_nack(p, r, ERR_FENCED, "slot %u is no longer this worker's", p->slot);
		return CONN_DROP;
	case SHARD_ELSEWHERE:
		peer_object(p, r, ERR_STALE, "table %u partition %u is pushed to another server", r->table, r->part);
		return CONN_TAKEN;
	case SHARD_BAD:
		break;
	}
	peer_nack(p, r, ERR_PROTO, "a push to table %u partition %u that does not fit", r->table, r->part);
	return CONN_DROP;
}

enum conn_verdict peer_push(struct peer *p, const struct record *r, const uint8_t *payload)
{
	const struct table *t = shard_table(shard_of(p), r->table);
	struct push push = { .payload = payload, .len = r->len };

	if (peer_stale(p, r))
		return CONN_TAKEN;
	if (!t || t->sparse) {
		peer_nack(p, r, ERR_PROTO, "there is no dense table %u here", r->table);
		return CONN_DROP;
	}
	return take_push(p, r, &push);
}

/* Ids and values, in either form. */
static enum keys_found row_ids(struct peer *p, const struct record *r, const uint8_t *body, size_t len, struct push *push)
{
	const uint64_t *ids = NULL;
	enum keys_found found;
	struct keys_block b = { 0 };

	if (!(r->flags & RECORD_KEYS))
		return msg_get_ids(body, len, &push->nrows, &push->ids, &push->payload) ? KEYS_FOUND : KEYS_WRONG;
	found = peer_keys(p, r, body, len, KEYS_MAX, &b, &ids);
	push->nrows = b.n;
	push->ids = (const uint8_t *)ids;
	push->payload = body + b.whole;
	return found;
}

/* With what it is decoded to a push takes no more than the session has, and no few bytes
 * stand for many rows. */
static bool rows_fit(const struct record *r, const struct push *push, size_t len, uint32_t cols)
{
	const struct codec *codec = codec_by_id(r->codec);
	uint64_t floats = (uint64_t)push->nrows * cols * sizeof(float);

	if (!codec || codec->takes == CODEC_FRACTION)
		return false;
	return floats <= PEER_CREDIT && (codec->view || len + floats <= PEER_CREDIT);
}

static enum conn_verdict whole_rows(struct peer *p, const struct record *r, const uint8_t *body, size_t len)
{
	const struct table *t = shard_table(shard_of(p), r->table);
	struct push push = { 0 };
	enum keys_found found = t && t->sparse ? row_ids(p, r, body, len, &push) : KEYS_WRONG;

	if (found == KEYS_MISSED)
		return CONN_TAKEN;
	if (found == KEYS_WRONG) {
		peer_nack(p, r, ERR_PROTO, "rows that do not fit table %u", r->table);
		return CONN_DROP;
	}
	push.len = len - (size_t)(push.payload - body);
	if (!rows_fit(r, &push, len, t->cols)) {
		peer_nack(p, r, ERR_LIMIT, "%u rows of table %u in a push: more than %u MiB, or by a codec that is not for rows", push.nrows,
		    r->table, PEER_CREDIT >> 20);
		return CONN_DROP;
	}
	return take_push(p, r, &push);
}

static bool next_piece(const struct peer *p, const struct record *r)
{
	const struct record *of = &p->rows_rec;

	return p->rows && r->type == of->type && r->table == of->table && r->part == of->part && r->step == of->step &&
	    r->total == of->total && r->offset == p->rows_len && r->len <= r->total - r->offset;
}

/* Rows are summed all or none, so the pieces are staged until all are there. */
enum conn_verdict peer_gather(struct peer *p, const struct record *r, const uint8_t *payload, const uint8_t **body)
{
	uint64_t most = p->role == ROLE_SERVER ? PEER_COPY_MAX : PEER_CREDIT;

	*body = NULL;
	if (r->offset == 0 && r->total == r->len) {
		*body = payload;
		return CONN_TAKEN;
	}
	if (r->offset == 0 && !p->rows && r->total <= most) {
		p->rows = mem_try_array(1, r->total);
		p->rows_rec = *r;
	}
	if (next_piece(p, r)) {
		memcpy(p->rows + p->rows_len, payload, r->len);
		p->rows_len += r->len;
	} else if (!p->rows || r->offset + r->len != r->total || p->rows_len != r->total) {
		/* A held record, however, comes again when it has been copied already. */
		peer_nack(p, r, ERR_PROTO, "a piece that does not fit the pieces before it");
		return CONN_DROP;
	}
	if (p->rows_len == r->total)
		*body = p->rows;
	return CONN_TAKEN;
}

void peer_gathered(struct peer *p)
{
	free(p->rows);
	p->rows = NULL;
	p->rows_len = 0;
}

enum conn_verdict peer_staged(struct peer *p, const struct record *r, const uint8_t *payload,
    enum conn_verdict (*take)(struct peer *p, const struct record *r, const uint8_t *body, size_t len))
{
	const uint8_t *body;
	enum conn_verdict v;

	if (peer_stale(p, r)) {
		peer_gathered(p);
		return CONN_TAKEN;
	}
	v = peer_gather(p, r, payload, &body);
	if (v != CONN_TAKEN || !body)
		return v;
	v = take(p, r, body, r->total);
	if (v != CONN_HOLD)
		peer_gathered(p);
	return v;
}

enum conn_verdict peer_push_rows(struct peer *p, const struct record *r, const uint8_t *payload)
{
	const struct table *t = shard_table(shard_of(p), r->table);

	/* Nothing is staged for it. */
	if (!t || !t->sparse) {
		peer_nack(p, r, ERR_PROTO, "rows that do not fit table %u", r->table);
		return CONN_DROP;
	}
	return peer_staged(p, r, payload, whole_rows);
}

/* ---- clocks ------------------------------------------------------------------------- */

void peer_clocked(struct peer *p, uint64_t step, uint64_t seq)
{
	struct server *s = p->lane->server;
	struct record out = { .type = REC_CLOCKED, .step = step, .seq = seq };

	out.epoch = atomic_load(&s->epoch);
	out.generation = atomic_load(&s->generation);
	out.examples = atomic_load(&s->members);
	batcher_add(&p->batcher, p->conn, &out, NULL);
}

bool peer_claims(struct peer *p, const struct slot_clock *c)
{
	bool relay = p->lane->server->uplink != NULL, was = false;
	struct msg_run run;

	/* What goes to the servers by itself does not come through a relay. */
	for (size_t i = 0; c->clocks && msg_get_run(c->runs, c->len, i, &run); i++) {
		if (run.alone && relay)
			was |= shard_disown(shard_of(p), c->slot, c->incarnation, c->step, run.table, run.first, run.count);
		else
			shard_owe(shard_of(p), c->slot, c->incarnation, c->step, run.table, run.first, run.count);
	}
	return was;
}

/* A relay's answer is that of all servers. */
static enum conn_verdict answer_clock(struct peer *p, const struct record *r, enum shard_answer a, const struct slot_clock *c)
{
	struct server *s = p->lane->server;

	if (a == SHARD_HOLD)
		return CONN_HOLD;
	if (a != SHARD_OK) {
		peer_nack(p, r, ERR_FENCED, "slot %u is no longer this worker's", p->slot);
		return CONN_DROP;
	}
	if (s->uplink)
		peer_promise(p, &(struct promise){ .kind = PROMISE_CLOCKED, .step = r->step, .seq = r->seq,
			.version = uplink_clock(s->uplink, c) });
	else
		peer_clocked(p, r->step, r->seq);
	return CONN_TAKEN;
}

enum conn_verdict peer_clock(struct peer *p, const struct record *r, const uint8_t *payload)
{
	struct slot_clock c = { p->slot, r->examples, p->incarnation, r->step, true, false, payload, r->len };
	enum shard_answer a;
	bool settle;

	if (peer_stale(p, r))
		return CONN_TAKEN;
	if (p->slot == SLOT_NONE || !msg_runs_valid(payload, r->len)) {
		peer_nack(p, r, ERR_PROTO, "a clock without a slot, or with what is no run");
		return CONN_DROP;
	}
	settle = peer_claims(p, &c) && !p->retold;
	a = shard_clock(shard_of(p), p->slot, p->incarnation, r->step, r->examples);
	p->retold = a == SHARD_HOLD;
	if (settle)
		shard_settle(shard_of(p));
	if (a == SHARD_OK && tracer_is_on(p->lane->server->tracer))
		trace_clock(p, p->slot, r->step);
	return answer_clock(p, r, a, &c);
}

enum conn_verdict peer_done(struct peer *p, const struct record *r)
{
	if (p->slot == SLOT_NONE) {
		peer_nack(p, r, ERR_PROTO, "a DONE without a slot");
		return CONN_DROP;
	}
	return answer_clock(p, r, shard_done(shard_of(p), p->slot, p->incarnation),
	    &(struct slot_clock){ .slot = p->slot, .incarnation = p->incarnation, .done = true });
}

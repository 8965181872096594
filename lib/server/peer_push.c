#include "base/endian.h"
#include "base/mem.h"
#include "server/state.h"

static struct shard *shard_of(const struct peer *p)
{
	return atomic_load(&p->lane->server->shard);
}

/* Refuse what was made under another layout or before a roll-back. */
static bool stale(struct peer *p, const struct record *r)
{
	struct server *s = p->lane->server;

	if (r->epoch == atomic_load(&s->epoch) && r->generation == atomic_load(&s->generation))
		return false;
	peer_nack(p, r, ERR_STALE, "epoch %u generation %u is not the present one (%u, %u)", r->epoch, r->generation,
	    atomic_load(&s->epoch), atomic_load(&s->generation));
	return true;
}

/* ---- receipts ----------------------------------------------------------------------- */

static void put_ready(struct peer *p, const struct receipt *r)
{
	struct msg_receipt m = { .table = r->table, .status = r->status, .part = r->part, .staleness = r->staleness,
		.step = r->step, .version = r->version };

	msg_put_receipt(&p->receipts, &m);
}

static void put_pending(struct peer *p, const struct receipt *r)
{
	if (p->npending == p->pending_cap) {
		p->pending_cap = p->pending_cap ? p->pending_cap * 2 : 64;
		p->pending = mem_regrow(p->pending, p->pending_cap, sizeof *p->pending);
	}
	p->pending[p->npending++] = (struct msg_receipt){ .table = r->table, .status = r->status, .part = r->part,
		.step = r->step };
}

/* In bsp a contribution is promised when its step has closed. */
static void note_receipt(struct peer *p, const struct receipt *r)
{
	if (p->slot != SLOT_NONE && (r->status == PUSH_MERGED || r->status == PUSH_DUPLICATE) &&
	    r->step >= shard_closed(shard_of(p)))
		put_pending(p, r);
	else
		put_ready(p, r);
}

void peer_receipts(struct peer *p)
{
	struct record out = { .type = REC_RECEIPT };
	uint64_t closed = p->npending ? shard_closed(shard_of(p)) : 0;
	size_t kept = 0;

	for (size_t i = 0; i < p->npending; i++) {
		struct msg_receipt *m = &p->pending[i];

		if (m->step >= closed) {
			p->pending[kept++] = *m;
			continue;
		}
		m->version = shard_version(shard_of(p), m->table, m->part);
		msg_put_receipt(&p->receipts, m);
	}
	p->npending = kept;
	for (size_t at = 0; at < p->receipts.len; at += out.len) {
		size_t most = BATCHER_SMALL / MSG_RECEIPT_BYTES * MSG_RECEIPT_BYTES, left = p->receipts.len - at;

		out.len = (uint32_t)(left < most ? left : most);
		batcher_add(&p->batcher, p->conn, &out, p->receipts.data + at);
	}
	buf_clear(&p->receipts);
}

/* ---- pushes ------------------------------------------------------------------------- */

static enum conn_verdict take_push(struct peer *p, const struct record *r, struct push *push)
{
	struct receipt receipt;

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
		note_receipt(p, &receipt);
		return CONN_TAKEN;
	case SHARD_HOLD:
		return CONN_HOLD;
	case SHARD_FENCED:
		peer_nack(p, r, ERR_FENCED, "slot %u is no longer this worker's", p->slot);
		return CONN_DROP;
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

	if (stale(p, r))
		return CONN_DROP;
	if (!t || t->sparse) {
		peer_nack(p, r, ERR_PROTO, "there is no dense table %u here", r->table);
		return CONN_DROP;
	}
	return take_push(p, r, &push);
}

static enum conn_verdict whole_rows(struct peer *p, const struct record *r, const uint8_t *body, size_t len)
{
	const struct table *t = shard_table(shard_of(p), r->table);
	struct push push = { 0 };
	const uint8_t *values;

	if (!t || !t->sparse || !msg_get_rows(body, len, t->cols, &push.nrows, &push.ids, &values)) {
		peer_nack(p, r, ERR_PROTO, "rows that do not fit table %u", r->table);
		return CONN_DROP;
	}
	push.payload = values;
	push.len = len - (size_t)(values - body);
	return take_push(p, r, &push);
}

/* A push of several records is staged until it is whole: rows are summed all
 * or none. */
enum conn_verdict peer_push_rows(struct peer *p, const struct record *r, const uint8_t *payload)
{
	enum conn_verdict v;

	if (stale(p, r))
		return CONN_DROP;
	if (r->offset == 0 && r->total == r->len)
		return whole_rows(p, r, payload, r->len);
	if (r->offset == 0 && !p->rows && r->total <= PEER_CREDIT) {
		p->rows = mem_try_array(1, r->total);
		p->rows_rec = *r;
	}
	/* A held record comes again when it has been copied already. */
	if (!p->rows || r->table != p->rows_rec.table || r->part != p->rows_rec.part || r->step != p->rows_rec.step ||
	    r->total != p->rows_rec.total || r->offset != p->rows_len || r->len > r->total - r->offset) {
		if (!p->rows || r->offset + r->len != r->total || p->rows_len != r->total) {
			peer_nack(p, r, ERR_PROTO, "a piece of a push that does not fit the pieces before it");
			return CONN_DROP;
		}
	} else {
		memcpy(p->rows + p->rows_len, payload, r->len);
		p->rows_len += r->len;
	}
	if (p->rows_len < r->total)
		return CONN_TAKEN;
	v = whole_rows(p, r, p->rows, p->rows_len);
	if (v != CONN_HOLD) {
		free(p->rows);
		p->rows = NULL;
		p->rows_len = 0;
	}
	return v;
}

/* ---- clocks ------------------------------------------------------------------------- */

static enum conn_verdict answer_clock(struct peer *p, const struct record *r, enum shard_answer a)
{
	struct server *s = p->lane->server;
	struct record out = { .type = REC_CLOCKED, .step = r->step, .seq = r->seq };

	if (a == SHARD_HOLD)
		return CONN_HOLD;
	if (a != SHARD_OK) {
		peer_nack(p, r, ERR_FENCED, "slot %u is no longer this worker's", p->slot);
		return CONN_DROP;
	}
	out.epoch = atomic_load(&s->epoch);
	out.generation = atomic_load(&s->generation);
	out.examples = atomic_load(&s->members);
	batcher_add(&p->batcher, p->conn, &out, NULL);
	return CONN_TAKEN;
}

enum conn_verdict peer_clock(struct peer *p, const struct record *r, const uint8_t *payload)
{
	(void)payload;
	if (stale(p, r))
		return CONN_DROP;
	if (p->slot == SLOT_NONE || !msg_runs_valid(r->len)) {
		peer_nack(p, r, ERR_PROTO, "a clock without a slot, or with half a run");
		return CONN_DROP;
	}
	return answer_clock(p, r, shard_clock(shard_of(p), p->slot, p->incarnation, r->step, r->examples));
}

enum conn_verdict peer_done(struct peer *p, const struct record *r)
{
	if (p->slot == SLOT_NONE) {
		peer_nack(p, r, ERR_PROTO, "a DONE without a slot");
		return CONN_DROP;
	}
	return answer_clock(p, r, shard_done(shard_of(p), p->slot, p->incarnation));
}

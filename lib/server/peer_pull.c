#include "base/endian.h"
#include "base/mem.h"
#include "codec/codec.h"
#include "codec/since.h"
#include "server/dense.h"
#include "server/keys.h"
#include "server/sparse.h"
#include "server/uplink.h"

static struct shard *shard_of(const struct peer *p)
{
	return atomic_load(&p->lane->server->shard);
}

enum answered { ANSWER_MORE, ANSWER_DONE, ANSWER_LATER };
static enum answered answer(struct peer *p, struct pull *q);

/* ---- asking -------------------------------------------------------------------------- */

static bool fits(const struct peer *p, const struct msg_run *run)
{
	const struct table *t = shard_table(shard_of(p), run->table);

	return t && !t->sparse && !run->alone && run->count && run->first < t->nparts && run->count <= t->nparts - run->first;
}

/* Rows whose answer fits a record. */
static size_t rows_most(const struct table *t)
{
	return RECORD_MAX / 4 / t->cols;
}

/* Bytes of the row ids; with RECORD_DELTA there follows which of the rows are had. */
static size_t ids_len(const struct record *r)
{
	return r->flags & RECORD_DELTA ? r->total : r->len;
}

/* Is the request well-formed?  What it names is looked up when it is answered. */
static bool valid(const struct peer *p, const struct record *r, const uint8_t *payload)
{
	const struct table *t;
	struct msg_run run;

	if (r->type == REC_PULL && r->flags & RECORD_DELTA)
		return msg_get_run(payload, r->len < MSG_RUN_BYTES ? r->len : MSG_RUN_BYTES, 0, &run) && fits(p, &run) &&
		    r->len == MSG_RUN_BYTES + (size_t)run.count * 8;
	if (r->type == REC_PULL) {
		for (size_t i = 0; msg_get_run(payload, r->len, i, &run); i++) {
			if (!fits(p, &run))
				return false;
		}
		return msg_runs_valid(payload, r->len);
	}
	t = shard_table(shard_of(p), r->table);
	if (!t || !t->sparse || r->part >= t->nparts)
		return false;
	if (r->type == REC_SCAN)
		return true;
	return ids_len(r) <= r->len && (r->flags & RECORD_KEYS || (ids_len(r) % 8 == 0 && ids_len(r) / 8 <= rows_most(t)));
}

/* What is asked for: row ids plainly, for now where they have come or are kept, and as of
 * which versions they are had. */
static enum keys_found unpack_rows(struct peer *p, const struct record *r, const uint8_t *payload, struct pull *q)
{
	size_t len = ids_len(r), n = len / 8;
	const uint64_t *ids = (const uint64_t *)(const void *)payload;
	struct keys_block b = { 0 };
	enum keys_found found = KEYS_FOUND;

	if (r->flags & RECORD_KEYS) {
		found = peer_keys(p, r, payload, len, rows_most(shard_table(shard_of(p), r->table)), &b, &ids);
		n = b.n;
		if (found == KEYS_FOUND && b.whole != len)
			found = KEYS_WRONG;
	}
	if (found != KEYS_FOUND)
		return found;
	q->rec.len = (uint32_t)n * 8;
	q->body = (uint8_t *)(uintptr_t)ids;
	if (!(r->flags & RECORD_DELTA))
		return KEYS_FOUND;
	q->since = mem_array(n + 1, sizeof *q->since);
	return since_get(lane_zip(p->lane), payload + len, r->len - len, n, q->since) ? KEYS_FOUND : KEYS_WRONG;
}

/* Until it is answered. */
static void keep_ids(struct peer *p, struct pull *q)
{
	const uint8_t *ids = q->body;

	/* In memory of their size, which is what is counted. */
	if (ids == (const uint8_t *)p->ids && p->ids_cap == q->rec.len / 8 + 1) {
		p->ids = NULL;
		p->ids_cap = 0;
		return;
	}
	q->body = mem_regrow(NULL, q->rec.len, 1);
	if (q->rec.len)
		memcpy(q->body, ids, q->rec.len);
}

static enum keys_found unpack(struct peer *p, const struct record *r, const uint8_t *payload, struct pull *q)
{
	if (r->type == REC_PULL_ROWS)
		return unpack_rows(p, r, payload, q);
	q->body = mem_alloc(r->len + 1);
	if (r->len)
		memcpy(q->body, payload, r->len);
	return KEYS_FOUND;
}

static size_t bytes_of(const struct pull *q)
{
	return q->rec.len * (q->since ? 2 : 1) + sizeof *q;
}

void pull_free(struct pull *q)
{
	free(q->since);
	free(q->body);
	free(q);
}

size_t peer_queue(uint64_t sessions)
{
	uint64_t part = PEER_QUEUES / (sessions + 1);

	return part > PEER_QUEUE ? PEER_QUEUE : part < PEER_QUEUE_MIN ? PEER_QUEUE_MIN : (size_t)part;
}

/* Rows that nothing stands before, and that may be shown now: their ids are not copied. */
static bool answer_at_once(struct peer *p, struct pull *q)
{
	size_t most = peer_queue(atomic_load(&p->lane->server->sessions));

	return q->rec.type == REC_PULL_ROWS && !p->pulls && !p->doomed && conn_queued(p->conn) < most && answer(p, q) == ANSWER_DONE;
}

static enum conn_verdict queue_pull(struct peer *p, struct pull *q)
{
	uint64_t most = atomic_load(&p->lane->server->asked);

	if (q->rec.type == REC_PULL_ROWS)
		keep_ids(p, q);
	if (p->pull_bytes + bytes_of(q) > most) {
		peer_nack(p, &q->rec, ERR_LIMIT, "more than %llu KiB of questions in flight", (unsigned long long)most >> 10);
		pull_free(q);
		return CONN_DROP;
	}
	p->pull_bytes += bytes_of(q);
	*p->pulls_last = q;
	p->pulls_last = &q->next;
	return CONN_TAKEN;
}

enum conn_verdict peer_pull(struct peer *p, const struct record *r, const uint8_t *payload)
{
	enum keys_found found = KEYS_WRONG;
	struct pull *q = mem_alloc(sizeof *q);

	q->rec = *r;
	if (valid(p, r, payload))
		found = unpack(p, r, payload, q);
	if (found == KEYS_FOUND && !answer_at_once(p, q))
		return queue_pull(p, q);
	if (r->type == REC_PULL_ROWS)
		q->body = NULL;         /* not our own */
	pull_free(q);
	if (found == KEYS_WRONG)
		peer_nack(p, r, ERR_PROTO, "a %s that names what is not here", record_type_name(r->type));
	return p->doomed ? CONN_DROP : CONN_TAKEN;
}

/* ---- answering ------------------------------------------------------------------------ */

static struct record answer_head(const struct peer *p, const struct pull *q, enum msg_type type)
{
	struct server *s = p->lane->server;
	struct record out = { .type = (uint8_t)type, .table = q->rec.table, .part = q->rec.part, .step = q->rec.step,
		.seq = q->rec.seq };

	out.epoch = atomic_load(&s->epoch);
	out.generation = atomic_load(&s->generation);
	out.examples = atomic_load(&s->members);
	if (!(q->rec.flags & RECORD_NOW) && shard_snapping(shard_of(p), q->rec.step))
		out.flags |= RECORD_SAVING;
	return out;
}

static uint64_t step_of(const struct pull *q)
{
	return q->rec.flags & RECORD_NOW ? SYNC_NEVER : q->rec.step;
}

/* Nothing to show now, or not here. */
static enum answered not_shown(struct peer *p, const struct pull *q, enum shard_answer a)
{
	if (a == SHARD_HOLD)
		return ANSWER_LATER;
	if (a == SHARD_ELSEWHERE)
		peer_object(p, &q->rec, ERR_STALE, "table %u partition %u is pulled from another server", q->rec.table, q->rec.part);
	else
		peer_nack(p, &q->rec, ERR_NOTFOUND, "table %u partition %u is not on this server", q->rec.table, q->rec.part);
	return ANSWER_DONE;
}

/* With RECORD_DELTA a version for each partition of the one run comes after it. */
static size_t runs_len(const struct pull *q)
{
	return q->rec.flags & RECORD_DELTA ? MSG_RUN_BYTES : q->rec.len;
}

static uint64_t since(const struct pull *q)
{
	return q->rec.flags & RECORD_DELTA ? get_le64(q->body + MSG_RUN_BYTES + (size_t)q->part * 8) : UINT64_MAX;
}

/* As it is asked for, where that codec is for pulls. */
static const struct codec *codec_of(const struct pull *q)
{
	const struct codec *codec = codec_by_id(q->rec.codec);

	return codec && codec->pulls ? codec : codec_by_id(0);
}

/* One dense partition. */
static enum answered answer_dense(struct peer *p, struct pull *q)
{
	struct record out = answer_head(p, q, REC_PULLED);
	struct msg_run run;
	enum shard_answer a;

	if (!msg_get_run(q->body, runs_len(q), q->run, &run))
		return ANSWER_DONE;
	out.table = q->rec.table = run.table;
	out.part = q->rec.part = run.first + q->part;
	if (q->rec.flags & RECORD_TELL)
		a = dense_tell(p, step_of(q), q->rec.flags & RECORD_EARLY, &out);
	else if (q->rec.offset)
		a = dense_state(p, step_of(q), q->rec.offset, &out);
	else
		a = dense_answer(p, step_of(q), codec_of(q), since(q), &out);
	if (a != SHARD_OK)
		return not_shown(p, q, a);
	if (++q->part == run.count) {
		q->part = 0;
		q->run++;
	}
	return q->run * MSG_RUN_BYTES == runs_len(q) ? ANSWER_DONE : ANSWER_MORE;
}

static enum answered answer_rows(struct peer *p, struct pull *q)
{
	struct record out = answer_head(p, q, REC_ROWS);
	enum shard_answer a = sparse_answer(p, step_of(q), codec_of(q), q->body, q->rec.len / 8, q->since, &out);

	return a == SHARD_OK ? ANSWER_DONE : not_shown(p, q, a);
}

/* One record of the partition's rows, in ascending order of their ids. */
static enum answered answer_scan(struct peer *p, struct pull *q)
{
	struct record out = answer_head(p, q, REC_SCANNED);
	const struct table *t = shard_table(shard_of(p), q->rec.table);
	size_t row = 8 + (q->rec.flags & RECORD_TELL ? 0 : t->cols * sizeof(float));
	uint32_t most = (uint32_t)((RECORD_MAX - MSG_ROWS_HEAD) / row);
	uint8_t *body = mem_array(1, RECORD_MAX);
	float *values = row > 8 ? mem_array((size_t)most * t->cols + 1, sizeof *values) : NULL;
	/* `total` 0 begins; else `offset` is the last id seen. */
	struct scan x = { .begin = q->rec.total == 0, .after = q->rec.offset, .changed = q->rec.flags & RECORD_DELTA,
		.since = q->rec.step, .ids = body + MSG_ROWS_HEAD, .out = values, .n = most };
	enum shard_answer a = shard_scan(shard_of(p), q->rec.table, q->rec.part, &x);

	if (a == SHARD_OK) {
		msg_put_rows_head(body, x.n);
		if (values)
			memcpy(x.ids + (size_t)x.n * 8, values, (size_t)x.n * t->cols * sizeof *values);
		out.len = MSG_ROWS_HEAD + x.n * (uint32_t)row;
		out.flags = x.more ? 0 : RECORD_LAST;
		out.total = x.version;
		out.step = x.step;
		out.offset = x.removed;
		batcher_add(&p->batcher, p->conn, &out, body);
	}
	free(values);
	free(body);
	return a == SHARD_OK ? ANSWER_DONE : not_shown(p, q, a);
}

static bool may_begin(struct peer *p, const struct pull *q)
{
	if (q->rec.type == REC_PULL && q->rec.flags & RECORD_EARLY)
		return shard_may_prefetch(shard_of(p), q->rec.step);
	if (q->rec.type == REC_PULL && q->rec.flags & RECORD_TELL)
		return shard_may_tell(shard_of(p), q->rec.step);
	return shard_may_pull(shard_of(p), q->rec.step);
}

/* May its step begin?  How long it had to wait for that is counted. */
static bool begins(struct peer *p, struct pull *q)
{
	bool may = q->run || q->part || may_begin(p, q);

	if (may && !q->begun)
		hist_add(&p->lane->server->barrier, q->held_at ? (uint64_t)(clock_now() - q->held_at) : 0);
	else if (!may && !q->held_at)
		q->held_at = clock_now();
	q->begun |= may;
	return may;
}

/* A relay fetches once what is not here yet.  False: it has no room for that. */
static bool want(struct uplink *u, struct pull *q)
{
	struct msg_run run;

	q->wanted = true;
	if (q->rec.type == REC_PULL_ROWS)
		return uplink_want_rows(u, q->rec.table, q->rec.part, q->rec.step, q->rec.epoch, q->body, q->rec.len / 8);
	for (size_t i = 0; q->rec.type == REC_PULL && msg_get_run(q->body, runs_len(q), i, &run); i++)
		uplink_want(u, run.table, q->rec.step, q->rec.epoch);
	return true;
}

static enum answered answer(struct peer *p, struct pull *q)
{
	struct server *s = p->lane->server;
	bool now = q->rec.flags & RECORD_NOW || q->rec.type == REC_SCAN;

	/* Asked under another layout: it will be asked again. */
	if (q->rec.epoch != atomic_load(&s->epoch) || q->rec.generation != atomic_load(&s->generation)) {
		peer_object(p, &q->rec, ERR_STALE, "asked in epoch %u", q->rec.epoch);
		return ANSWER_DONE;
	}
	if (!now && !begins(p, q))
		return ANSWER_LATER;
	/* The worker goes on without this relay. */
	if (s->uplink && !now && !q->wanted && !want(s->uplink, q)) {
		peer_nack(p, &q->rec, ERR_LIMIT, "mem_limit: the rows of step %llu are more than a relay may keep",
		    (unsigned long long)q->rec.step);
		return ANSWER_DONE;
	}
	if (q->rec.type == REC_PULL)
		return answer_dense(p, q);
	return q->rec.type == REC_SCAN ? answer_scan(p, q) : answer_rows(p, q);
}

bool peer_answer_pulls(struct peer *p)
{
	size_t most = peer_queue(atomic_load(&p->lane->server->sessions));

	while (p->pulls && conn_queued(p->conn) < most) {
		struct pull *q = p->pulls;
		enum answered a = answer(p, q);

		if (a == ANSWER_LATER || p->doomed)
			return false;
		if (a == ANSWER_MORE)
			continue;
		p->pulls = q->next;
		if (!p->pulls)
			p->pulls_last = &p->pulls;
		p->pull_bytes -= bytes_of(q);
		pull_free(q);
	}
	return p->pulls != NULL;
}

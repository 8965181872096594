/* SPDX-License-Identifier: ISC */
#include "core/endian.h"
#include "codec/codec.h"
#include "codec/row_versions.h"
#include "core/mem.h"
#include "server/server_role.h"
#include "server/answer_dense.h"
#include "server/answer_rows.h"
#include "server/session_row_ids.h"

/* The outcome of one attempt: MORE, a partition was answered and others are left; DONE, nothing
 * is left, also after a NACK; LATER, try again when woken. */
enum answered { ANSWER_MORE, ANSWER_DONE, ANSWER_LATER };
static enum answered answer_pull(struct server_session *p, struct pull *q);

/* ---- requests ---- */

/* Is the run one of a known dense table, without the flag that only CLOCKs have? */
static bool is_run_here(const struct server_session *p, const struct payload_run *run)
{
	const struct table *t = shard_table(session_shard(p), run->table);

	return t && !t->sparse && !run->bypasses_relay && run->count && run->first < t->nparts &&
	    run->count <= t->nparts - run->first;
}

/* The number of rows whose values fit into one record. */
static size_t max_rows_per_answer(const struct table *t)
{
	return RECORD_MAX / 4 / t->cols;
}

/* Bytes of the row ids. With RECORD_DELTA the versions of the rows that the client has follow. */
static size_t bytes_of_ids(const struct record *r)
{
	return r->flags & RECORD_DELTA ? r->total : r->len;
}

/* Is the request well-formed, and are its tables and partitions known? Rows are looked up when it
 * is answered. */
static bool is_pull_valid(const struct server_session *p, const struct record *r,
    const uint8_t *payload)
{
	const struct table *t;
	struct payload_run run;

	if (r->type == REC_PULL && r->flags & RECORD_DELTA)
		return payload_get_run(payload,
		           r->len < PAYLOAD_RUN_BYTES ? r->len : PAYLOAD_RUN_BYTES, 0, &run) &&
		    is_run_here(p, &run) && r->len == PAYLOAD_RUN_BYTES + (size_t)run.count * 8;
	if (r->type == REC_PULL) {
		for (size_t i = 0; payload_get_run(payload, r->len, i, &run); i++) {
			if (!is_run_here(p, &run))
				return false;
		}
		return payload_runs_valid(payload, r->len);
	}
	t = shard_table(session_shard(p), r->table);
	if (!t || !t->sparse || r->part >= t->nparts)
		return false;
	if (r->type == REC_SCAN)
		return true;
	return bytes_of_ids(r) <= r->len &&
	    (r->flags & RECORD_ROW_IDS ||
	        (bytes_of_ids(r) % 8 == 0 && bytes_of_ids(r) / 8 <= max_rows_per_answer(t)));
}

/* Decode a PULL_ROWS: the row ids, and the versions that the client has. For now q->body borrows
 * the ids from the payload, from p->ids or from the cache. */
static enum row_ids_found unpack_pulled_rows(struct server_session *p, const struct record *r,
    const uint8_t *payload, struct pull *q)
{
	size_t len = bytes_of_ids(r), n = len / 8;
	const uint64_t *ids = (const uint64_t *)(const void *)payload;
	struct row_ids_block b = { 0 };
	enum row_ids_found found = ROW_IDS_FOUND;

	if (r->flags & RECORD_ROW_IDS) {
		found = session_row_ids(p, r, payload, len,
		    max_rows_per_answer(shard_table(session_shard(p), r->table)), &b, &ids);
		n = b.n;
		if (found == ROW_IDS_FOUND && b.whole != len)
			found = ROW_IDS_WRONG;
	}
	if (found != ROW_IDS_FOUND)
		return found;
	q->rec.len = (uint32_t)n * 8;
	q->body = (uint8_t *)(uintptr_t)ids;
	if (!(r->flags & RECORD_DELTA))
		return ROW_IDS_FOUND;
	q->since = mem_array(n + 1, sizeof *q->since);
	return row_versions_get(session_row_ids_zip(p->io_thread), payload + len, r->len - len, n,
	           q->since)
	    ? ROW_IDS_FOUND
	    : ROW_IDS_WRONG;
}

/* Give q its own copy of the ids, until it is answered. */
static void own_ids(struct server_session *p, struct pull *q)
{
	const uint8_t *ids = q->body;

	/* Take p->ids over if it is of exactly this size, which is what memory_of_pull counts. */
	if (ids == (const uint8_t *)p->data.ids && p->data.ids_cap == q->rec.len / 8 + 1) {
		p->data.ids = NULL;
		p->data.ids_cap = 0;
		return;
	}
	q->body = mem_regrow(NULL, q->rec.len, 1);
	if (q->rec.len)
		memcpy(q->body, ids, q->rec.len);
}

/* Fills q->body with what the request names. The body of a PULL_ROWS is borrowed until own_ids;
 * q owns the body of other pulls. */
static enum row_ids_found unpack_pull(struct server_session *p, const struct record *r,
    const uint8_t *payload, struct pull *q)
{
	if (r->type == REC_PULL_ROWS)
		return unpack_pulled_rows(p, r, payload, q);
	q->body = mem_alloc(r->len + 1);
	if (r->len)
		memcpy(q->body, payload, r->len);
	return ROW_IDS_FOUND;
}

/* The bytes that a queued pull is counted with, by enqueue_pull and when it is answered; both
 * must be equal. A row costs 16 bytes where the client states its versions. */
static size_t memory_of_pull(const struct pull *q)
{
	return q->rec.len * (q->since ? 2 : 1) + sizeof *q;
}

void session_pull_free(struct pull *q)
{
	free(q->since);
	free(q->body);
	free(q);
}

/* No pull of a session is answered while this many bytes wait to be written to it. sessions: how
 * many there are. */
static size_t queue_limit(uint64_t sessions)
{
	uint64_t part = SESSION_QUEUES / (sessions + 1);

	return part > SESSION_QUEUE    ? SESSION_QUEUE
	    : part < SESSION_QUEUE_MIN ? SESSION_QUEUE_MIN
	                               : (size_t)part;
}

size_t session_backlog_limit(struct server *s, uint64_t sessions)
{
	return queue_limit(sessions) + atomic_load(&s->limits.answer) + SESSION_QUEUE_MIN;
}

/* Answer a PULL_ROWS at once if no other pull is queued before it and its values may be shown now.
 * Its ids then need not be copied. */
static bool answer_at_once(struct server_session *p, struct pull *q)
{
	size_t most = queue_limit(atomic_load(&p->io_thread->server->count.sessions));

	return q->rec.type == REC_PULL_ROWS && !p->data.pulls && p->state != SESSION_CLOSING &&
	    conn_wants_record(p->conn, most) && answer_pull(p, q) == ANSWER_DONE;
}

/* Queues the pull after earlier ones. A session that asks for more than limits.asked
 * bytes is closed, because honest clients never have so much in flight. */
static enum conn_verdict enqueue_pull(struct server_session *p, struct pull *q)
{
	uint64_t most = atomic_load(&p->io_thread->server->limits.asked);

	if (q->rec.type == REC_PULL_ROWS)
		own_ids(p, q);
	if (p->data.pull_bytes + memory_of_pull(q) > most) {
		session_refuse(p, &q->rec, ERR_LIMIT, "more than %llu KiB of pulls in flight",
		    (unsigned long long)most >> 10);
		session_pull_free(q);
		return CONN_DROP;
	}
	/* Pulls are answered one after the other; the disk reads for all at the same time. */
	if (q->rec.type == REC_PULL_ROWS)
		shard_load_rows(session_shard(p), q->rec.table, q->rec.part, q->body,
		    q->rec.len / 8);
	p->data.pull_bytes += memory_of_pull(q);
	*p->data.pulls_last = q;
	p->data.pulls_last = &q->next;
	return CONN_TAKEN;
}

enum conn_verdict session_pull(struct server_session *p, const struct record *r,
    const uint8_t *payload)
{
	enum row_ids_found found = ROW_IDS_WRONG;
	struct pull *q = mem_alloc(sizeof *q);

	loop_assert_thread(p->io_thread->loop);
	q->rec = *r;
	if (is_pull_valid(p, r, payload))
		found = unpack_pull(p, r, payload, q);
	if (found == ROW_IDS_FOUND && !answer_at_once(p, q))
		return enqueue_pull(p, q);
	if (r->type == REC_PULL_ROWS)
		q->body = NULL; /* borrowed */
	session_pull_free(q);
	if (found == ROW_IDS_WRONG)
		session_refuse(p, r, ERR_PROTO,
		    "a %s names a table or partition that this server does not have",
		    record_type_name(r->type));
	return p->state == SESSION_CLOSING ? CONN_DROP : CONN_TAKEN;
}

/* ---- answers ---- */

/* The head of an answer states the present layout and number of membership entries, whether a
 * checkpoint of its step is being taken, and whether workers train. */
static struct record make_answer_head(const struct server_session *p, const struct pull *q,
    enum record_type type)
{
	struct server *s = p->io_thread->server;
	struct record out = { .type = (uint8_t)type,
		.table = q->rec.table,
		.part = q->rec.part,
		.step = q->rec.step,
		.seq = q->rec.seq };

	out.epoch = atomic_load(&s->epochs.installed);
	out.generation = atomic_load(&s->epochs.generation);
	out.examples = atomic_load(&s->epochs.members);
	if (!(q->rec.flags & RECORD_NOW) && shard_snap_covers(session_shard(p), q->rec.step))
		out.flags |= RECORD_CHECKPOINT;
	if (shard_has_trained(session_shard(p), q->needed))
		out.flags |= RECORD_TRAINED;
	return out;
}

/* The step by which the shard judges the pull; SYNC_NEVER for values as they are now. */
static uint64_t step_of_pull(const struct pull *q)
{
	return q->rec.flags & RECORD_NOW ? SYNC_NEVER : q->rec.step;
}

/* The shard gave no values: try again later, or tell the client that they are not here. */
static enum answered refuse_pull(struct server_session *p, const struct pull *q,
    enum shard_answer a)
{
	if (a == SHARD_WAIT)
		return ANSWER_LATER;
	if (a == SHARD_FENCED)
		session_refuse(p, &q->rec, ERR_FENCED, "rank %u now belongs to another worker",
		    p->who.rank);
	else if (a == SHARD_ELSEWHERE)
		session_send_nack(p, &q->rec, ERR_STALE,
		    "table %u partition %u is pulled from another server", q->rec.table,
		    q->rec.part);
	else
		session_refuse(p, &q->rec, ERR_NOTFOUND,
		    "table %u partition %u is not on this server", q->rec.table, q->rec.part);
	return ANSWER_DONE;
}

/* Bytes of the runs. With RECORD_DELTA there is one run, and a version for each of its partitions
 * follows. */
static size_t bytes_of_runs(const struct pull *q)
{
	return q->rec.flags & RECORD_DELTA ? PAYLOAD_RUN_BYTES : q->rec.len;
}

/* The version that the client has of the next partition; UINT64_MAX: none, send all values. */
static uint64_t known_version(const struct pull *q)
{
	return q->rec.flags & RECORD_DELTA
	    ? get_le64(q->body + PAYLOAD_RUN_BYTES + (size_t)q->part * 8)
	    : UINT64_MAX;
}

/* The requested codec if it is for pulls, else plain floats. */
static const struct codec *codec_of_answer(const struct pull *q)
{
	const struct codec *codec = codec_by_id(q->rec.codec);

	return codec && codec->pulls ? codec : codec_by_id(0);
}

/* A worker's pull of a step waits until this server has the worker's own pushes of the steps
 * before. */
static enum shard_answer check_own_pushes(const struct server_session *p, const struct pull *q)
{
	if (q->rec.flags & RECORD_NOW || p->who.rank == RANK_NONE)
		return SHARD_OK;
	return shard_own_pushes(session_shard(p), q->rec.table, q->rec.part, p->who.rank,
	    p->who.incarnation, q->rec.step);
}

/* Answer the next partition of the pull. */
static enum answered answer_dense_pull(struct server_session *p, struct pull *q)
{
	struct record out = make_answer_head(p, q, REC_PULLED);
	struct payload_run run;
	enum shard_answer a;

	if (!payload_get_run(q->body, bytes_of_runs(q), q->run, &run))
		return ANSWER_DONE;
	out.table = q->rec.table = run.table;
	out.part = q->rec.part = run.first + q->part;
	a = check_own_pushes(p, q);
	if (a != SHARD_OK)
		return refuse_pull(p, q, a);
	if (q->rec.flags & RECORD_NO_VALUES)
		a = answer_dense_version(p, step_of_pull(q), q->rec.flags & RECORD_EARLY, &out);
	else if (q->rec.offset)
		a = answer_dense_state(p, step_of_pull(q), q->rec.offset, &out);
	else
		a = answer_dense_values(p, step_of_pull(q), codec_of_answer(q), known_version(q),
		    q->rec.flags & RECORD_BY_REFERENCE, &out);
	if (a != SHARD_OK)
		return refuse_pull(p, q, a);
	if (++q->part == run.count) {
		q->part = 0;
		q->run++;
	}
	return q->run * PAYLOAD_RUN_BYTES == bytes_of_runs(q) ? ANSWER_DONE : ANSWER_MORE;
}

/* Answers all rows of the request in one record. They are of one partition and of one version. */
static enum answered answer_rows_pull(struct server_session *p, struct pull *q)
{
	struct record out = make_answer_head(p, q, REC_ROWS);
	enum shard_answer a = check_own_pushes(p, q);

	if (a == SHARD_OK)
		a = answer_rows_values(p, step_of_pull(q), codec_of_answer(q), q->body,
		    q->rec.len / 8, q->since, &out);
	return a == SHARD_OK ? ANSWER_DONE : refuse_pull(p, q, a);
}

/* Finds the link to the cursor of a scan of this partition in the session's list; if there is none, the link
 * at the end of the list. */
static struct scan_cursor **find_cursor(struct server_session *p, const struct record *r)
{
	struct scan_cursor **at = &p->data.scans;

	while (*at && ((*at)->table != r->table || (*at)->part != r->part))
		at = &(*at)->next;
	return at;
}

static struct scan_window *window_of_scan(struct server_session *p, const struct record *r)
{
	struct scan_cursor **at = find_cursor(p, r);

	if (!*at) {
		*at = mem_alloc(sizeof **at);
		(*at)->table = r->table;
		(*at)->part = r->part;
	}
	return &(*at)->window;
}

static void drop_cursor(struct scan_cursor **at)
{
	struct scan_cursor *x = *at;

	*at = x->next;
	scan_window_release(&x->window);
	free(x);
}

void session_drop_scans(struct server_session *p)
{
	while (p->data.scans)
		drop_cursor(&p->data.scans);
}

/* Answer with one record of the partition's rows, in ascending order of their ids. */
static enum answered answer_scan_pull(struct server_session *p, struct pull *q)
{
	struct record out = make_answer_head(p, q, REC_SCANNED);
	const struct table *t = shard_table(session_shard(p), q->rec.table);
	size_t row = 8 + (q->rec.flags & RECORD_NO_VALUES ? 0 : t->cols * sizeof(float));
	uint32_t fit = (uint32_t)((RECORD_MAX - PAYLOAD_ROWS_HEAD) / row),
	         most = q->rec.examples && q->rec.examples < fit ? q->rec.examples : fit;
	/* The buffer is not cleared, because most answers to a replica have few rows. */
	uint8_t *body = mem_regrow(NULL, PAYLOAD_ROWS_HEAD + most * row, 1);
	float *values = row > 8 ? mem_regrow(NULL, (size_t)most * t->cols + 1, sizeof *values)
	                        : NULL;
	/* The request has `total` 0 to begin, else in `offset` the last id that the client has. */
	struct scan x = { .window = window_of_scan(p, &q->rec),
		.request = q->rec.seq,
		.begin = q->rec.total == 0,
		.after = q->rec.offset,
		.changed = q->rec.flags & RECORD_DELTA && values,
		.gone = q->rec.flags & RECORD_DELTA && !values,
		.since = q->rec.step,
		.ids = body + PAYLOAD_ROWS_HEAD,
		.out = values,
		.n = most };
	enum shard_answer a = shard_scan(session_shard(p), q->rec.table, q->rec.part, &x);

	if (a == SHARD_OK) {
		payload_put_rows_head(body, x.n);
		if (values)
			memcpy(x.ids + (size_t)x.n * 8, values,
			    (size_t)x.n * t->cols * sizeof *values);
		out.len = PAYLOAD_ROWS_HEAD + x.n * (uint32_t)row;
		out.flags = (x.more ? 0 : RECORD_LAST) |
		    (x.gone && !x.forgotten ? RECORD_NO_VALUES : 0);
		out.total = x.version;
		out.step = x.step;
		out.offset = x.removed;
		batcher_add(&p->data.batcher, p->conn, &out, body);
	}
	free(values);
	free(body);
	if (a != SHARD_WAIT && (a != SHARD_OK || !x.more))
		drop_cursor(find_cursor(p, &q->rec));
	return a == SHARD_OK ? ANSWER_DONE : refuse_pull(p, q, a);
}

/* Asks the gate, by the kind of the pull, whether it may be answered. When the answer is yes, the
 * members of the step cannot change any more. */
static bool may_answer_step(struct server_session *p, const struct pull *q)
{
	if (q->rec.type != REC_SCAN && q->rec.flags & RECORD_EARLY)
		return shard_may_prefetch(session_shard(p), q->rec.step);
	if (q->rec.type == REC_PULL && q->rec.flags & RECORD_NO_VALUES)
		return shard_may_fix_members(session_shard(p), q->rec.step);
	return shard_may_pull(session_shard(p), q->rec.step);
}

/* May the step of this pull begin, or has it begun? Then notes, once, what it had to wait for, and
 * counts the time. */
static bool step_has_begun(struct server_session *p, struct pull *q)
{
	bool may = q->run || q->part || may_answer_step(p, q);

	if (may && !q->begun) {
		q->needed = shard_needed_step(session_shard(p), q->rec.step);
		hist_add(&p->io_thread->server->count.barrier,
		    q->waits_since ? (uint64_t)(clock_now() - q->waits_since) : 0);
	} else if (!may && !q->waits_since)
		q->waits_since = clock_now();
	q->begun |= may;
	return may;
}

/* Ask, once for each pull, for values that are not here yet. False:
 * mem_limit has no room for them. */
static bool request_from_upstream(struct server *s, const struct server_upstream *up,
    struct pull *q)
{
	struct payload_run run;

	q->wanted = true;
	if (q->rec.type == REC_PULL_ROWS)
		return up->want_rows(s, q->rec.table, q->rec.part, q->rec.step, q->rec.epoch,
		    q->body, q->rec.len / 8);
	for (size_t i = 0;
	     q->rec.type == REC_PULL && payload_get_run(q->body, bytes_of_runs(q), i, &run); i++)
		up->want_table(s, run.table, q->rec.step, q->rec.epoch);
	return true;
}

/* Tries to answer a pull, one partition at a time for dense ones. A pull of another layout gets a
 * NACK. A relay first asks upstream for the values, once, and then finds them in its shard when
 * woken. May refuse it, and the session is SESSION_CLOSING then. */
static enum answered answer_pull(struct server_session *p, struct pull *q)
{
	struct server *s = p->io_thread->server;
	const struct server_upstream *up = server_upstream(s);
	bool now = q->rec.flags & RECORD_NOW || q->rec.type == REC_SCAN;

	/* It was sent under another layout: the client will send it again. */
	if (q->rec.epoch != atomic_load(&s->epochs.installed) ||
	    q->rec.generation != atomic_load(&s->epochs.generation)) {
		session_send_nack(p, &q->rec, ERR_STALE, "the request has layout epoch %u",
		    q->rec.epoch);
		return ANSWER_DONE;
	}
	if (!now && !step_has_begun(p, q))
		return ANSWER_LATER;
	/* After this NACK the worker goes to the servers directly. */
	if (up && !now && !q->wanted && !request_from_upstream(s, up, q)) {
		session_refuse(p, &q->rec, ERR_LIMIT,
		    "mem_limit: the rows of step %llu exceed the memory of a relay",
		    (unsigned long long)q->rec.step);
		return ANSWER_DONE;
	}
	if (q->rec.type == REC_PULL)
		return answer_dense_pull(p, q);
	return q->rec.type == REC_SCAN ? answer_scan_pull(p, q) : answer_rows_pull(p, q);
}

/* Answers to one session in a turn of its I/O thread. Without this limit small answers would go on
 * until the queue is full, while the other sessions of the thread wait. */
#define ANSWERS_A_TURN 64

bool session_answer_pulls(struct server_session *p)
{
	size_t most = queue_limit(atomic_load(&p->io_thread->server->count.sessions));

	loop_assert_thread(p->io_thread->loop);
	for (int n = 0; p->data.pulls && conn_wants_record(p->conn, most) && n < ANSWERS_A_TURN;
	     n++) {
		struct pull *q = p->data.pulls;
		enum answered a = answer_pull(p, q);

		if (a == ANSWER_LATER || p->state == SESSION_CLOSING)
			return false;
		if (a == ANSWER_MORE)
			continue;
		p->data.pulls = q->next;
		if (!p->data.pulls)
			p->data.pulls_last = &p->data.pulls;
		p->data.pull_bytes -= memory_of_pull(q);
		session_pull_free(q);
	}
	return p->data.pulls != NULL;
}

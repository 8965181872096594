/* SPDX-License-Identifier: ISC */
#include "server/answer_rows.h"

#include "codec/delta.h"
#include "core/mem.h"

/* Move the k changed rows of `values`, which are at place[], to its beginning. */
static void compact_changed_rows(float *values, const uint32_t *place, uint32_t k, uint32_t cols)
{
	for (uint32_t i = 0; i < k; i++)
		memmove(values + (size_t)i * cols, values + (size_t)place[i] * cols,
		    cols * sizeof *values);
}

/* Plain floats: the shard copies them into the answer. */
static enum shard_answer answer_rows_raw(struct server_session *p, uint64_t step,
    const uint8_t *ids, uint32_t n, size_t floats, struct record *out)
{
	_Alignas(8) uint8_t small[BATCHER_SMALL];
	uint8_t *body = batcher_reserve(&p->data.batcher, p->conn, floats * 4, small);
	enum shard_answer a = shard_pull_rows(session_shard(p), out->table, out->part, step, ids, n,
	    (float *)(void *)body, &out->total);

	out->len = (uint32_t)floats * 4;
	if (a == SHARD_OK)
		batcher_commit(&p->data.batcher, p->conn, out, body, small);
	return a;
}

static void send_all_rows(struct server_session *p, const struct codec *codec, const float *values,
    size_t floats, struct record *out)
{
	uint8_t small[BATCHER_SMALL],
	    *body = batcher_reserve(&p->data.batcher, p->conn, codec->bound(0, floats), small);

	out->codec = codec->id;
	out->len = (uint32_t)codec->encode(0, NULL, values, floats, body);
	batcher_commit(&p->data.batcher, p->conn, out, body, small);
}

/* Send the rows that have changed. */
static void send_changed_rows(struct server_session *p, const struct codec *codec,
    const struct row_read *x, uint32_t cols, struct record *out)
{
	uint8_t small[BATCHER_SMALL],
	    *body = batcher_reserve(&p->data.batcher, p->conn,
	        delta_bound(codec, x->changed, x->n, cols), small);

	compact_changed_rows(x->out, x->place, x->changed, cols);
	out->codec = codec->id;
	out->flags |= RECORD_DELTA;
	out->len = (uint32_t)delta_encode(codec, x->place, x->out, x->changed, cols, body);
	batcher_commit(&p->data.batcher, p->conn, out, body, small);
}

enum shard_answer answer_rows_values(struct server_session *p, uint64_t step,
    const struct codec *codec, const uint8_t *ids, uint32_t n, const uint64_t *since,
    struct record *out)
{
	uint32_t cols = shard_table(session_shard(p), out->table)->cols;
	struct row_read x = { .step = step, .ids = ids, .n = n, .since = since };
	size_t floats = (size_t)n * cols;
	enum shard_answer a;

	if (!since && !codec->id)
		return answer_rows_raw(p, step, ids, n, floats, out);
	x.place = since ? mem_regrow(NULL, n, sizeof *x.place) : NULL;
	x.out = mem_regrow(NULL, floats, sizeof *x.out);
	a = shard_read_rows(session_shard(p), out->table, out->part, &x);
	out->total = x.version;
	if (a == SHARD_OK && since && x.changed < n &&
	    delta_bound(codec, x.changed, n, cols) < codec->bound(0, floats))
		send_changed_rows(p, codec, &x, cols, out);
	else if (a == SHARD_OK)
		send_all_rows(p, codec, x.out, floats, out);
	free(x.out);
	free(x.place);
	return a;
}

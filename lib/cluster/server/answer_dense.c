/* SPDX-License-Identifier: ISC */
#include "server/answer_dense.h"

#include "codec/delta.h"
#include "core/mem.h"

/* Plain floats: the shard copies them into the answer. */
static enum shard_answer answer_dense_raw(struct server_session *p, uint64_t step, size_t n,
    struct record *out)
{
	_Alignas(8) uint8_t small[BATCHER_SMALL];
	uint8_t *body = batcher_reserve(&p->data.batcher, p->conn, n * 4, small);
	enum shard_answer a = shard_pull(session_shard(p), out->table, out->part, step,
	    (float *)(void *)body, &out->total);

	out->len = (uint32_t)n * 4;
	if (a == SHARD_OK)
		batcher_commit(&p->data.batcher, p->conn, out, body, small);
	return a;
}

/* Names the place of plain floats in published memory, where the client copies them. *final: the
 * result is the answer. False: the values are not there, and the caller sends them. */
static enum shard_answer answer_dense_place(struct server_session *p, uint64_t step, size_t n,
    struct record *out, bool *final)
{
	uint8_t body[PAYLOAD_PLACE_BYTES];
	struct shard_place x;
	enum shard_answer a = shard_pull_place(session_shard(p), out->table, out->part, step, &x,
	    &out->total);

	*final = a != SHARD_OK || x.known;
	if (a != SHARD_OK || !x.known)
		return a;
	payload_put_place(body, &(struct payload_place){ x.place, (uint32_t)n * 4, x.state });
	out->flags |= RECORD_BY_REFERENCE;
	out->len = sizeof body;
	batcher_add(&p->data.batcher, p->conn, out, body);
	conn_count_published(p->conn, n * 4, 0);
	return a;
}

static enum shard_answer answer_dense_encoded(struct server_session *p, uint64_t step,
    const struct codec *codec, size_t n, struct record *out)
{
	float part[PART_ELEMENTS];
	float *large = n > PART_ELEMENTS ? mem_array(n, sizeof *large) : NULL;
	float *w = large ? large : part;
	enum shard_answer a = shard_pull(session_shard(p), out->table, out->part, step, w,
	    &out->total);
	uint8_t small[BATCHER_SMALL], *body;

	if (a == SHARD_OK) {
		body = batcher_reserve(&p->data.batcher, p->conn, codec->bound(0, n), small);
		out->codec = codec->id;
		out->len = (uint32_t)codec->encode(0, NULL, w, n, body);
		batcher_commit(&p->data.batcher, p->conn, out, body, small);
	}
	free(large);
	return a;
}

/* Sends the values that have changed after version `since`. *final: the result is the answer.
 * False: it is not known which have changed, or they are too many, and the caller sends all. */
static enum shard_answer answer_dense_changed(struct server_session *p, uint64_t step,
    const struct codec *codec, uint64_t since, size_t n, struct record *out, bool *final)
{
	uint32_t place[PART_ELEMENTS / 2];
	float w[PART_ELEMENTS / 2];
	uint8_t small[BATCHER_SMALL], *body;
	/* Half of the values with their places need no more bytes than all values. */
	struct changed_values x = { .since = since, .most = n / 2, .place = place, .out = w };
	enum shard_answer a = shard_pull_changed(session_shard(p), out->table, out->part, step, &x);

	out->total = x.version;
	*final = a != SHARD_OK || x.n != SIZE_MAX;
	if (a != SHARD_OK || !*final)
		return a;
	body = batcher_reserve(&p->data.batcher, p->conn, delta_bound(codec, x.n, n, 1), small);
	out->codec = codec->id;
	out->flags |= RECORD_DELTA;
	out->len = (uint32_t)delta_encode(codec, place, w, x.n, 1, body);
	batcher_commit(&p->data.batcher, p->conn, out, body, small);
	return a;
}

enum shard_answer answer_dense_version(struct server_session *p, uint64_t step, bool shown,
    struct record *out)
{
	enum shard_answer a = shown
	    ? shard_may_show(session_shard(p), out->table, out->part, step, &out->total)
	    : SHARD_OK;

	out->flags |= RECORD_NO_VALUES;
	if (a == SHARD_OK)
		batcher_add(&p->data.batcher, p->conn, out, NULL);
	return a;
}

enum shard_answer answer_dense_state(struct server_session *p, uint64_t step, uint64_t k,
    struct record *out)
{
	size_t n = table_part_elements(shard_table(session_shard(p), out->table), out->part);
	_Alignas(8) uint8_t small[BATCHER_SMALL];
	uint8_t *body = batcher_reserve(&p->data.batcher, p->conn, n * 4, small);
	enum shard_answer a = shard_pull_state(session_shard(p), out->table, out->part, step, k,
	    (float *)(void *)body, &out->total);

	out->len = (uint32_t)n * 4;
	if (a == SHARD_OK)
		batcher_commit(&p->data.batcher, p->conn, out, body, small);
	return a;
}

enum shard_answer answer_dense_values(struct server_session *p, uint64_t step,
    const struct codec *codec, uint64_t since, bool by_place, struct record *out)
{
	size_t n = table_part_elements(shard_table(session_shard(p), out->table), out->part);
	enum shard_answer a;
	bool final = false;

	/* Changes of a longer partition are not logged (part_logs_changes). */
	if (since != UINT64_MAX && n <= PART_ELEMENTS) {
		a = answer_dense_changed(p, step, codec, since, n, out, &final);
		if (final)
			return a;
	}
	if (by_place && !codec->id) {
		a = answer_dense_place(p, step, n, out, &final);
		if (final)
			return a;
	}
	return codec->id ? answer_dense_encoded(p, step, codec, n, out)
	                 : answer_dense_raw(p, step, n, out);
}

#include "server/sparse.h"

#include "base/mem.h"
#include "codec/delta.h"

/* The k of n rows in `values` that are to be told, one after the other. */
static void gather(float *values, const uint32_t *place, uint32_t k, uint32_t cols)
{
	for (uint32_t i = 0; i < k; i++)
		memmove(values + (size_t)i * cols, values + (size_t)place[i] * cols, cols * sizeof *values);
}

static void send_rows(struct peer *p, const struct codec *codec, const float *values, size_t floats, struct record *out)
{
	uint8_t *body;

	out->codec = codec->id;
	if (!codec->id) {
		out->len = (uint32_t)floats * 4;
		batcher_add(&p->batcher, p->conn, out, values);
		return;
	}
	body = mem_alloc(codec->bound(0, floats) + 1);
	out->len = (uint32_t)codec->encode(0, NULL, values, floats, body);
	batcher_add(&p->batcher, p->conn, out, body);
	free(body);
}

enum shard_answer sparse_answer(struct peer *p, uint64_t step, const struct codec *codec, const uint8_t *ids, uint32_t n,
    const uint64_t *since, struct record *out)
{
	struct shard *s = atomic_load(&p->lane->server->shard);
	uint32_t cols = shard_table(s, out->table)->cols, *place = since ? mem_array(n + 1, sizeof *place) : NULL, k;
	size_t floats = (size_t)n * cols;
	float *values = mem_array(floats + 1, sizeof *values);
	enum shard_answer a = shard_pull_changed_rows(s, out->table, out->part, step, ids, n, since, values, place, &k, &out->total);
	uint8_t *body;

	if (a == SHARD_OK && since && k < n && delta_bound(codec, k, n, cols) < codec->bound(0, floats)) {
		body = mem_alloc(delta_bound(codec, k, n, cols));
		gather(values, place, k, cols);
		out->codec = codec->id;
		out->flags |= RECORD_DELTA;
		out->len = (uint32_t)delta_encode(codec, place, values, k, cols, body);
		batcher_add(&p->batcher, p->conn, out, body);
		free(body);
	} else if (a == SHARD_OK) {
		send_rows(p, codec, values, floats, out);
	}
	free(values);
	free(place);
	return a;
}

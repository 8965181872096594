#include "base/mem.h"
#include "client/client_state.h"
#include "client/relayed.h"
#include "codec/delta.h"

/* Pulls of sparse tables' rows. */

/* Rows asked for in one record: bounded by its 1 MiB both ways. */
static uint32_t rows_a_record(const struct table *t, bool changed)
{
	uint32_t by_ids = RECORD_MAX / (changed ? 16 : 8), by_rows = RECORD_MAX / (t->cols * 4);

	return by_ids < by_rows ? by_ids : by_rows;
}

/* The rows of one partition, cut to records. */
static enum err_code want_part(struct client *c, const struct table *t, uint64_t step, uint32_t part,
    const uint64_t *ids, const uint32_t *pos, uint32_t n, bool changed, float *dst, struct err *e)
{
	uint32_t most = rows_a_record(t, changed);
	struct link *l = link_of_pull(c, t, part, step, e);

	if (!l)
		return ERR_NOTREADY;
	for (uint32_t at = 0; at < n; at += most) {
		uint32_t k = n - at < most ? n - at : most;
		struct ask *a = ask_add(c, l, REC_PULL_ROWS, t, step);

		a->part = part;
		a->dst = dst;
		a->n = k;
		a->ids = mem_array(k, sizeof *a->ids);
		a->pos = mem_array(k, sizeof *a->pos);
		for (uint32_t i = 0; i < k; i++) {
			a->pos[i] = pos[at + i];
			a->ids[i] = ids[pos[at + i]];
		}
		/* A relay keeps rows for a step only. */
		if (changed && l != relay_link(c))
			known_ask(c, a);
		if (l->state == LINK_UP)
			link_send_ask(l, a);
	}
	return ERR_OK;
}

void rows_by_part(const struct table *t, const uint64_t *ids, size_t n, uint32_t *start, uint32_t *order)
{
	uint32_t *part = mem_array(n, sizeof *part);

	for (size_t i = 0; i < n; i++) {
		part[i] = table_part_of(t, ids[i]);
		start[part[i] + 1]++;
	}
	for (uint32_t p = 0; p < t->nparts; p++)
		start[p + 1] += start[p];
	for (size_t i = n; i-- > 0;)
		order[--start[part[i] + 1]] = (uint32_t)i;
	/* start[p + 1] has come down to the beginning of p: shift it back. */
	for (uint32_t p = 0; p < t->nparts; p++)
		start[p] = start[p + 1];
	start[t->nparts] = (uint32_t)n;
	free(part);
}

static enum err_code want_rows(struct client *c, const struct table *t, uint64_t step, const uint64_t *ids, size_t n,
    bool changed, float *dst, struct err *e)
{
	uint32_t *start = mem_array(t->nparts + 1, sizeof *start), *order = mem_array(n, sizeof *order);
	enum err_code rc = ERR_OK;

	rows_by_part(t, ids, n, start, order);
	for (uint32_t p = 0; !rc && p < t->nparts; p++)
		if (start[p + 1] > start[p])
			rc = want_part(c, t, step, p, ids, order + start[p], start[p + 1] - start[p], changed, dst,
			    e);
	free(start);
	free(order);
	return rc;
}

enum err_code client_want_rows(struct client *c, const struct table *t, uint64_t step, const uint64_t *ids, size_t n,
    float *dst, struct err *e)
{
	return want_rows(c, t, step, ids, n, false, dst, e);
}

enum err_code client_want_changed_rows(struct client *c, const struct table *t, uint64_t step, const uint64_t *ids, size_t n,
    float *dst, struct err *e)
{
	return want_rows(c, t, step, ids, n, true, dst, e);
}

/* ---- answers -------------------------------------------------------------------------------- */

static enum err_code unasked(struct err *e)
{
	return err_set(e, ERR_PROTO, "rows that were not asked for");
}

/* All of them. */
static enum err_code take_whole(const struct client_hooks *h, const struct ask *a, const struct record *r,
    const uint8_t *payload, struct err *e)
{
	size_t cols = a->table->cols, floats = a->n * cols;
	const struct codec *codec = codec_by_id(r->codec);
	float *room;
	const float *x;

	if (!codec || codec->check(payload, r->len, floats) == CODEC_MALFORMED)
		return unasked(e);
	room = codec->lossy ? mem_array(floats + 1, sizeof *room) : NULL;
	x = codec_values(codec, payload, r->len, floats, room);
	if (h)
		h->rows(h->ctx, a->table, a->part, a->step, a->ids, a->n, x, r->total);
	for (uint32_t i = 0; !h && i < a->n; i++)
		memcpy(a->dst + a->pos[i] * cols, x + i * cols, cols * sizeof *x);
	free(room);
	return ERR_OK;
}

/* Of those that are known, what has changed; the others are in their places already. */
static enum err_code take_changed(const struct ask *a, const struct record *r, const uint8_t *payload, struct err *e)
{
	const struct codec *codec = codec_by_id(r->codec);

	if (!a->since || !codec || delta_check(codec, payload, r->len, a->n, a->table->cols) == CODEC_MALFORMED)
		return unasked(e);
	delta_apply(codec, payload, r->len, a->n, a->table->cols, a->pos, a->dst);
	return ERR_OK;
}

enum err_code rows_take(struct link *l, const struct ask *a, const struct record *r, const uint8_t *payload, struct err *e)
{
	enum err_code rc;

	if (a->type != REC_PULL_ROWS)
		return unasked(e);
	rc = r->flags & RECORD_DELTA ? take_changed(a, r, payload, e) : take_whole(l->client->cfg.hooks, a, r, payload, e);
	if (!rc && a->since)
		known_take(l->client, a, r->total);
	return rc;
}

#include "base/endian.h"
#include "base/fail.h"
#include "base/mem.h"
#include "client/client_state.h"
#include "codec/since.h"
#include "kern/vec.h"

/* Rows of sparse tables: how their ids travel, which of them do, and what the others
 * leave for later. */

/* Of a shorter list the name is no shorter. */
#define NAMED_LEAST 8u
/* Bytes of a push that comes in several records. */
#define ROWS_MOST (16u << 20)

enum client_ids client_ids_by_name(const char *name)
{
	static const char *const names[] = { "raw", "packed", "cached" };
	unsigned i = 2;

	while (i && strcmp(name, names[i]) != 0)
		i--;
	return (enum client_ids)i;
}

/* ---- ids --------------------------------------------------------------------------- */

static bool in_block(const struct client *c, const uint64_t *ids, size_t n)
{
	return c->cfg.coding.ids != CLIENT_IDS_RAW && n <= KEYS_MAX && keys_ascend(ids, n);
}

static struct zip *zip_of(struct client *c)
{
	if (!c->zip)
		c->zip = zip_new();
	return c->zip;
}

/* Its name only, where the server keeps the list; else whole, and kept from now on. */
static size_t put_ids(struct link *l, const uint64_t *ids, size_t n, uint8_t *out)
{
	bool keep = l->client->cfg.coding.ids == CLIENT_IDS_CACHED && n >= NAMED_LEAST && n <= KEYS_KEEP_MAX;
	uint8_t name[KEYS_NAME];
	const uint64_t *none;

	if (keep) {
		keys_name(ids, n, name);
		if (!l->kept)
			l->kept = keycache_new();
		if (keycache_find(l->kept, name, n, &none))
			return keys_put_name(name, n, out);
		keycache_put(l->kept, name, n, NULL);
	}
	return keys_put(zip_of(l->client), ids, n, keep, out);
}

void rows_ask(struct link *l, const struct ask *a, struct record *r, struct buf *body)
{
	struct client *c = l->client;

	if (c->cfg.coding.pull_codec && a->step != CLIENT_NOW)
		r->codec = c->cfg.coding.pull_codec->id;
	if (in_block(c, a->ids, a->n)) {
		r->flags |= RECORD_KEYS;
		buf_commit(body, put_ids(l, a->ids, a->n, buf_reserve(body, keys_bound(a->n))));
	} else {
		buf_append(body, a->ids, (size_t)a->n * 8);
	}
	if (!a->since)
		return;
	r->flags |= RECORD_DELTA;
	r->total = body->len;
	buf_commit(body, since_put(zip_of(c), a->since, a->n, buf_reserve(body, since_bound(a->n))));
}

static void forget(struct link *l, const uint64_t *ids, size_t n)
{
	uint8_t name[KEYS_NAME];

	keys_name(ids, n, name);
	if (l->kept)
		keycache_forget(l->kept, name);
}

static const uint64_t *ids_of(const struct doubt *d)
{
	return (const uint64_t *)(const void *)(d->body + MSG_ROWS_HEAD);
}

void rows_unknown(struct link *l, const struct record *r)
{
	struct ask *a = r->offset == REC_PULL_ROWS ? ask_find(l, r->seq) : NULL;
	struct doubt *d = r->offset == REC_PUSH_ROWS ? doubt_find(l, r->table, r->part, r->step) : NULL;

	if (a && a->type == REC_PULL_ROWS) {
		forget(l, a->ids, a->n);
		link_send_ask(l, a);
	}
	if (d && d->table->sparse) {
		forget(l, ids_of(d), d->n);
		link_send_doubt(l, d);
	}
}

/* ---- sending ------------------------------------------------------------------------ */

/* The body with the ids in a block; owned by the caller. */
static uint8_t *packed(struct link *l, const struct doubt *d, size_t *len)
{
	size_t plain = MSG_ROWS_HEAD + (size_t)d->n * 8, values = d->len - plain, n;
	uint8_t *body = mem_array(1, keys_bound(d->n) + values);

	n = put_ids(l, ids_of(d), d->n, body);
	memcpy(body + n, d->body + plain, values);
	*len = n + values;
	return body;
}

void rows_send(struct link *l, const struct doubt *d, struct record *r)
{
	uint8_t *own = NULL, *body = d->body;
	size_t len = d->len;

	if (in_block(l->client, ids_of(d), d->n)) {
		body = own = packed(l, d, &len);
		r->flags |= RECORD_KEYS;
	}
	r->type = REC_PUSH_ROWS;
	r->total = len;
	for (size_t at = 0; at < len; at += r->len) {
		r->offset = at;
		r->len = len - at < RECORD_MAX ? (uint32_t)(len - at) : RECORD_MAX;
		link_send(l, r, body + at);
	}
	free(own);
}

/* ---- what is held back ----------------------------------------------------------------- */

static const struct codec *rows_codec(const struct client *c)
{
	const struct codec *codec = c->cfg.coding.codec.codec;

	/* Those that choose among the values are for dense ones: a batch has chosen already. */
	return codec && codec->takes != CODEC_FRACTION ? codec : codec_by_id(0);
}

static bool keeps(const struct client *c)
{
	return c->cfg.coding.feedback && (rows_codec(c)->lossy || c->cfg.coding.filter.kind != FILTER_NONE);
}

/* By row, what is still to be pushed: what filters hold back and codecs leave out. */
static struct rows *kept_rows(struct client *c, const struct table *t)
{
	if (t->id >= c->nkept) {
		c->kept = mem_regrow((void *)c->kept, (size_t)t->id + 1, sizeof *c->kept);
		while (c->nkept <= t->id)
			c->kept[c->nkept++] = NULL;
	}
	if (!c->kept[t->id])
		c->kept[t->id] = rows_new(t->cols);
	return c->kept[t->id];
}

/* By an earlier coding. */
static bool has_kept(const struct client *c, const struct table *t)
{
	return t->id < c->nkept && c->kept[t->id];
}

float *rows_kept(struct client *c, const struct table *t, uint64_t id)
{
	bool made;
	float *row = rows_put(kept_rows(c, t), id, &made);

	if (!row)
		abort();
	return row;
}

/* Those that go now, of the n in `order`, their gradients with what was kept of them in
 * g; the others are kept.  Returns how many go. */
static uint32_t sift(struct client *c, const struct table *t, const uint64_t *ids, const float *w, uint32_t *order, uint32_t n,
    float *g)
{
	uint32_t cols = t->cols, go = 0;

	for (uint32_t i = 0; i < n; i++) {
		size_t at = (size_t)order[i] * cols;
		float *kept = keeps(c) ? rows_kept(c, t, ids[order[i]]) : has_kept(c, t) ? rows_get(c->kept[t->id], ids[order[i]]) : NULL;

		if (kept)
			vec_add(cols, kept, g + at);
		if (!filter_holds(&c->cfg.coding.filter, &c->rng, c->cfg.coding.l1, g + at, w ? w + at : NULL, cols)) {
			if (kept)
				memset(kept, 0, cols * sizeof *kept);
			order[go++] = order[i];
		} else if (kept) {
			memcpy(kept, g + at, cols * sizeof *kept);
		}
	}
	c->stats.rows_held += n - go;
	return go;
}

/* Weight times the values of a push, to what is kept of its rows. */
static void keep_again(struct client *c, const struct doubt *d, float weight)
{
	size_t cols = d->table->cols, floats = d->n * cols, plain = MSG_ROWS_HEAD + (size_t)d->n * 8;
	const uint64_t *ids = ids_of(d);
	float *x = mem_array(floats + 1, sizeof *x);

	codec_by_id(d->codec)->add(d->body + plain, d->len - plain, floats, weight, x);
	for (uint32_t i = 0; i < d->n; i++)
		vec_add(cols, x + i * cols, rows_kept(c, d->table, ids[i]));
	free(x);
}

void rows_again(struct client *c, const struct doubt *d)
{
	if (keeps(c))
		keep_again(c, d, 1);
}

/* ---- pushing ------------------------------------------------------------------------------ */

static void fill_body(struct client *c, struct doubt *d, const uint64_t *ids, const float *g, const uint32_t *order)
{
	const struct codec *codec = rows_codec(c);
	size_t cols = d->table->cols, floats = d->n * cols, plain = MSG_ROWS_HEAD + (size_t)d->n * 8;
	float *x;

	/* With what they are decoded to servers take so much in a push. */
	if (codec->lossy && plain + codec->bound(c->cfg.coding.codec.arg, floats) + floats * 4 > ROWS_MOST)
		codec = codec_by_id(0);
	/* What is not finite is the server's to refuse, as it is. */
	for (uint32_t i = 0; codec->lossy && i < d->n; i++)
		if (!vec_all_finite(cols, g + order[i] * cols))
			codec = codec_by_id(0);
	d->codec = codec->id;
	d->body = mem_array(1, plain + codec->bound(c->cfg.coding.codec.arg, floats));
	msg_put_rows_head(d->body, d->n);
	x = codec->lossy ? mem_array(floats + 1, sizeof *x) : (float *)(void *)(d->body + plain);
	for (uint32_t i = 0; i < d->n; i++) {
		put_le64(d->body + MSG_ROWS_HEAD + (size_t)i * 8, ids[order[i]]);
		memcpy(x + i * cols, g + order[i] * cols, cols * sizeof *x);
	}
	d->len = plain + floats * 4;
	if (!codec->lossy)
		return;
	d->len = plain + codec->encode(c->cfg.coding.codec.arg, &c->rng, x, floats, d->body + plain);
	for (uint32_t i = 0; keeps(c) && i < d->n; i++)
		vec_add(cols, x + i * cols, rows_kept(c, d->table, ids[order[i]]));
	if (keeps(c))
		keep_again(c, d, -1);
	free(x);
}

static enum err_code push_part(struct client *c, struct doubt *d, const uint64_t *ids, const float *g, const uint32_t *order,
    struct err *e)
{
	enum err_code rc;

	if (!d->n)
		return ERR_OK;
	fill_body(c, d, ids, g, order);
	rc = doubt_new(c, d, e);
	if (rc)
		free(d->body);
	return rc;
}

enum err_code client_push_rows(struct client *c, const struct table *t, uint64_t step, uint32_t examples,
    const uint64_t *ids, size_t n, const float *g, const float *w, struct err *e)
{
	uint32_t *start = mem_array(t->nparts + 1, sizeof *start), *order = mem_array(n, sizeof *order);
	/* Refused, and not kept, is what is not finite. */
	bool sifts = (keeps(c) || has_kept(c, t) || c->cfg.coding.filter.kind != FILTER_NONE) && vec_all_finite(n * t->cols, g);
	float *whole = sifts ? mem_array(n * t->cols, sizeof *whole) : NULL;
	enum err_code rc = ERR_OK;

	if (sifts)
		memcpy(whole, g, n * t->cols * sizeof *whole);
	c->stats.rows_offered += n;
	rows_by_part(t, ids, n, start, order);
	for (uint32_t p = 0; !rc && p < t->nparts; p++) {
		struct doubt d = { .table = t, .part = p, .examples = examples, .step = step, .n = start[p + 1] - start[p] };

		if (sifts)
			d.n = sift(c, t, ids, w, order + start[p], d.n, whole);
		rc = push_part(c, &d, ids, sifts ? whole : g, order + start[p], e);
	}
	free(start);
	free(order);
	free(whole);
	FAIL_POINT("push_sent");
	return rc;
}

void rows_forget(struct client *c)
{
	for (size_t i = 0; i < c->nkept; i++)
		rows_free(c->kept[i]);
	free((void *)c->kept);
	c->kept = NULL;
	c->nkept = 0;
}

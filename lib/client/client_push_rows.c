#include "base/endian.h"
#include "base/fail.h"
#include "base/mem.h"
#include "client/client_state.h"
#include "kern/copy.h"
#include "kern/vec.h"

/* Pushes of sparse tables' rows: which of them go, and what the others leave for later. */

/* Bytes of a push that comes in several records. */
#define ROWS_MOST (16u << 20)
/* Rows of so many values are copied a partition at a time, and sent meanwhile; of narrower
 * ones that would read each cache line many times. */
#define WIDE 16u
/* Rows that are fetched before they are copied. */
#define AHEAD 24u

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
	const uint64_t *ids = (const uint64_t *)(const void *)(d->body + MSG_ROWS_HEAD);
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

static void copy_rows(const struct doubt *d, const uint64_t *ids, const float *g, const uint32_t *order, float *x)
{
	size_t cols = d->table->cols;

	for (uint32_t i = 0; i < d->n; i++) {
		if (i + AHEAD < d->n) {
			__builtin_prefetch(ids + order[i + AHEAD]);
			__builtin_prefetch(g + order[i + AHEAD] * cols);
		}
		put_le64(d->body + MSG_ROWS_HEAD + (size_t)i * 8, ids[order[i]]);
		copy_floats(x + i * cols, g + order[i] * cols, cols);
	}
}

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
	d->body = mem_regrow(NULL, plain + codec->bound(c->cfg.coding.codec.arg, floats), 1);
	msg_put_rows_head(d->body, d->n);
	x = codec->lossy ? mem_array(floats + 1, sizeof *x) : (float *)(void *)(d->body + plain);
	copy_rows(d, ids, g, order, x);
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

static enum err_code push_filled(struct client *c, struct doubt *d, struct err *e)
{
	enum err_code rc = doubt_new(c, d, e);

	if (rc)
		doubt_release(c, d);
	else
		rows_on_their_way(c);
	return rc;
}

/* Partition after partition, with what is kept of them and by a codec. */
static enum err_code push_sifted(struct client *c, const struct doubt *all, const uint64_t *ids, size_t n, const float *g,
    const float *w, struct err *e)
{
	const struct table *t = all->table;
	uint32_t *start = mem_array(t->nparts + 1, sizeof *start), *order = mem_regrow(NULL, n, sizeof *order);
	/* Refused, and not kept, is what is not finite. */
	bool sifts = (keeps(c) || has_kept(c, t) || c->cfg.coding.filter.kind != FILTER_NONE) && vec_all_finite(n * t->cols, g);
	float *whole = sifts ? mem_regrow(NULL, n * t->cols, sizeof *whole) : NULL;
	int64_t begin = clock_now();
	enum err_code rc = ERR_OK;

	if (sifts)
		memcpy(whole, g, n * t->cols * sizeof *whole);
	rows_by_part(t, ids, n, start, order, NULL);
	for (uint32_t p = 0; !rc && p < t->nparts; p++) {
		struct doubt d = *all;

		d.part = p;
		d.n = start[p + 1] - start[p];
		if (sifts)
			d.n = sift(c, t, ids, w, order + start[p], d.n, whole);
		if (!d.n)
			continue;
		fill_body(c, &d, ids, sifts ? whole : g, order + start[p]);
		encoded_since(c, begin);
		rc = push_filled(c, &d, e);
		begin = clock_now();
	}
	free(start);
	free(order);
	free(whole);
	return rc;
}

/* ---- without either ------------------------------------------------------------------------ */

void bodies_free(struct bodies *b)
{
	if (b)
		free(b->bytes);
	free(b);
}

static struct bodies *bodies_new(struct client *c, size_t bytes)
{
	struct bodies *b = c->spare_bodies ? c->spare_bodies : mem_alloc(sizeof *b);

	c->spare_bodies = NULL;
	b->users = 1;
	if (bytes > b->cap) {
		free(b->bytes);
		b->bytes = mem_regrow(NULL, bytes, 1);
		b->cap = bytes;
	}
	return b;
}

void bodies_drop(struct client *c, struct bodies *b)
{
	if (--b->users)
		return;
	bodies_free(c->spare_bodies);
	c->spare_bodies = b;
}

static size_t body_bytes(const struct table *t, size_t rows)
{
	return MSG_ROWS_HEAD + rows * (8 + (size_t)t->cols * 4);
}

/* Pushes of those partitions that have rows, and where their bodies go. */
static struct bodies *cut(struct client *c, const struct doubt *all, const uint32_t *start, struct doubt *d)
{
	const struct table *t = all->table;
	struct bodies *b;
	size_t at = 0;

	for (uint32_t p = 0; p < t->nparts; p++) {
		d[p] = *all;
		d[p].part = p;
		d[p].n = start[p + 1] - start[p];
		d[p].len = body_bytes(t, d[p].n);
		at += d[p].n ? (d[p].len + 7) / 8 * 8 : 0;
	}
	b = bodies_new(c, at);
	at = 0;
	for (uint32_t p = 0; p < t->nparts; p++) {
		if (!d[p].n)
			continue;
		d[p].bodies = b;
		d[p].body = b->bytes + at;
		msg_put_rows_head(d[p].body, d[p].n);
		at += (d[p].len + 7) / 8 * 8;
		b->users++;
	}
	return b;
}

/* Where the next row of a partition goes. */
struct cursor {
	uint8_t *id;
	float *value;
};

static struct cursor *cursors(const struct doubt *d)
{
	uint32_t nparts = d->table->nparts;
	struct cursor *at = mem_array(nparts, sizeof *at);

	for (uint32_t p = 0; p < nparts; p++)
		if (d[p].n) {
			at[p].id = d[p].body + MSG_ROWS_HEAD;
			at[p].value = (float *)(void *)(at[p].id + (size_t)d[p].n * 8);
		}
	return at;
}

static inline void put_row(struct cursor *to, uint64_t id, const float *g, size_t cols)
{
	put_le64(to->id, id);
	to->id += 8;
	copy_floats(to->value, g, cols);
	to->value += cols;
}

/* Those of partitions first .. first + count - 1, in one go over what is pushed. */
static void fill_bodies(const struct table *t, struct cursor *at, const uint16_t *part, const uint64_t *ids, size_t n, const float *g,
    uint32_t first, uint32_t count)
{
	size_t cols = t->cols;
	uint16_t some[ROWS_PICKED];

	for (size_t i = 0, m; i < n; i += m) {
		m = n - i < ROWS_PICKED ? n - i : ROWS_PICKED;
		if (count == t->nparts) {
			for (size_t k = i; k < i + m; k++)
				put_row(&at[part[k]], ids[k], g + k * cols, cols);
			continue;
		}
		for (uint32_t k = 0, picked = rows_pick(part + i, (uint32_t)m, first, count, some); k < picked; k++) {
			size_t row = i + some[k];

			put_row(&at[part[row]], ids[row], g + row * cols, cols);
		}
	}
}

/* Narrow rows: some partitions' bodies are filled while those before are on their way. */
static enum err_code push_narrow(struct client *c, const struct doubt *all, const uint64_t *ids, size_t n, const float *g,
    struct doubt *d, uint32_t *start, struct err *e)
{
	const struct table *t = all->table;
	int64_t begin = clock_now();
	uint16_t *part = rows_parts(t, ids, n, start);
	struct bodies *b = cut(c, all, start, d);
	struct cursor *at = cursors(d);
	uint32_t some = rows_group(t, n);
	enum err_code rc = ERR_OK;

	for (uint32_t p = 0; p < t->nparts; p++) {
		if (p % some == 0 && !rc) {
			begin = p ? clock_now() : begin;
			fill_bodies(t, at, part, ids, n, g, p, some < t->nparts - p ? some : t->nparts - p);
			encoded_since(c, begin);
		}
		if (d[p].n && rc)
			doubt_release(c, &d[p]);
		else if (d[p].n)
			rc = push_filled(c, &d[p], e);
	}
	bodies_drop(c, b);
	free(at);
	free(part);
	return rc;
}

static enum err_code push_wide(struct client *c, const struct doubt *all, const uint64_t *ids, size_t n, const float *g,
    struct doubt *d, uint32_t *start, struct err *e)
{
	const struct table *t = all->table;
	uint32_t *order = mem_regrow(NULL, n, sizeof *order);
	int64_t begin = clock_now();
	enum err_code rc = ERR_OK;
	struct bodies *b;

	rows_by_part(t, ids, n, start, order, NULL);
	b = cut(c, all, start, d);
	for (uint32_t p = 0; p < t->nparts; p++) {
		if (!d[p].n)
			continue;
		if (!rc)
			copy_rows(&d[p], ids, g, order + start[p], (float *)(void *)(d[p].body + body_bytes(t, d[p].n) - (size_t)d[p].n * t->cols * 4));
		encoded_since(c, begin);
		if (rc)
			doubt_release(c, &d[p]);
		else
			rc = push_filled(c, &d[p], e);
		begin = clock_now();
	}
	bodies_drop(c, b);
	free(order);
	return rc;
}

static enum err_code push_plain(struct client *c, const struct doubt *all, const uint64_t *ids, size_t n, const float *g, struct err *e)
{
	const struct table *t = all->table;
	uint32_t *start = mem_array(t->nparts + 1, sizeof *start);
	struct doubt *d = mem_array(t->nparts, sizeof *d);
	enum err_code rc = (t->cols < WIDE ? push_narrow : push_wide)(c, all, ids, n, g, d, start, e);

	free(start);
	free(d);
	return rc;
}

enum err_code client_push_rows(struct client *c, const struct table *t, uint64_t step, uint32_t examples,
    const uint64_t *ids, size_t n, const float *g, const float *w, struct err *e)
{
	struct doubt all = { .table = t, .examples = examples, .step = step };
	enum err_code rc = push_begin(c, step, e);

	if (rc)
		return rc;
	rows_begin(c, n);
	c->stats.rows_offered += n;
	if (rows_codec(c)->lossy || has_kept(c, t) || c->cfg.coding.filter.kind != FILTER_NONE)
		rc = push_sifted(c, &all, ids, n, g, w, e);
	else
		rc = push_plain(c, &all, ids, n, g, e);
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

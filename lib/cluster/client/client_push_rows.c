/* SPDX-License-Identifier: ISC */
#include "core/endian.h"
#include "client/client_state.h"
#include "core/fail.h"
#include "core/mem.h"
#include "math/copy.h"
#include "math/vec.h"
#include "sync/push_status.h"
#include "wire/payload.h"

/* Pushes of rows of sparse tables: which rows are sent, and which are held back for a later
 * push. */

/* Rows of at least this many values are copied one partition at a time, and each partition is
 * sent while the next is copied. With narrower rows that would read each cache line many
 * times. */
#define WIDE 16u
/* How many rows ahead the source is prefetched. */
#define AHEAD 24u

/* Bytes that follow the rows of a push's body: a u32 each, where touching examples are counted. */
static size_t count_bytes(const struct request *d)
{
	return d->push.has_touching ? (size_t)d->n * PAYLOAD_COUNT_BYTES : 0;
}

/* ---- residuals and filters ---- */

static const struct codec *rows_codec(const struct client *c)
{
	const struct codec *codec = c->cfg.coding.codec.codec;

	/* Codecs that choose a fraction of the values are for dense tables only: in a sparse
	 * one the batch has chosen the rows already. */
	return codec && codec->takes != CODEC_FRACTION ? codec : codec_by_id(0);
}

/* Does the present coding leave anything for later pushes? */
static bool keeps_residuals(const struct client *c)
{
	return c->cfg.coding.feedback &&
	    (rows_codec(c)->lossy || c->cfg.coding.filter.kind != FILTER_NONE);
}

/* The table's residuals by row: gradients that filters hold back, and differences that codecs
 * leave. */
static struct rows *table_residuals(struct client *c, const struct table *t)
{
	if (t->id >= c->feedback.nrows) {
		c->feedback.rows = mem_regrow((void *)c->feedback.rows, (size_t)t->id + 1,
		    sizeof *c->feedback.rows);
		while (c->feedback.nrows <= t->id)
			c->feedback.rows[c->feedback.nrows++] = NULL;
	}
	if (!c->feedback.rows[t->id])
		c->feedback.rows[t->id] = rows_new(t->cols * (uint32_t)sizeof(float));
	return c->feedback.rows[t->id];
}

/* Are there residuals, maybe of an earlier coding? */
static bool has_residuals(const struct client *c, const struct table *t)
{
	return t->id < c->feedback.nrows && c->feedback.rows[t->id];
}

float *client_rows_residual(struct client *c, const struct table *t, uint64_t id)
{
	bool made;
	float *row = rows_put(table_residuals(c, t), id, &made);

	client_assert_owner(c);
	if (!row)
		abort();
	return row;
}

/* Apply the filter to the n rows in `order`. Rows to be sent move to its front, and their
 * residuals are added to their gradients in g; the others become residuals. Returns how many
 * are to be sent. */
static uint32_t filter_rows(struct client *c, const struct row_push *all, uint32_t *order,
    uint32_t n, float *g)
{
	const uint64_t *ids = all->ids;
	const float *w = all->w;
	const struct table *t = all->table;
	uint32_t cols = t->cols, go = 0;
	/* l1 is for sums of examples' gradients (optim/optim.h), and g is a mean. */
	double l1 = c->cfg.coding.l1 / (all->examples ? all->examples : 1);

	for (uint32_t i = 0; i < n; i++) {
		size_t at = (size_t)order[i] * cols;
		float *kept = keeps_residuals(c) ? client_rows_residual(c, t, ids[order[i]])
		    : has_residuals(c, t)        ? rows_get(c->feedback.rows[t->id], ids[order[i]])
		                                 : NULL;

		if (kept)
			vec_add(cols, kept, g + at);
		if (!filter_holds(&c->cfg.coding.filter, &c->rng, l1, g + at, w ? w + at : NULL,
		        cols)) {
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

/* Add weight times the decoded values of a push to the residuals of its rows. */
static void add_to_residuals(struct client *c, const struct request *d, float weight)
{
	size_t cols = d->table->cols, floats = d->n * cols,
	       plain = PAYLOAD_ROWS_HEAD + (size_t)d->n * 8;
	const uint64_t *ids = client_row_ids_pushed(d);
	float *x = mem_array(floats + 1, sizeof *x);

	codec_by_id(d->push.codec)
	    ->add(d->push.body + plain, d->push.len - plain - count_bytes(d), floats, weight, x);
	for (uint32_t i = 0; i < d->n; i++)
		vec_add(cols, x + i * cols, client_rows_residual(c, d->table, ids[i]));
	free(x);
}

/* ---- the request ---- */

/* Send a body in one or more records. lend: the body stays unchanged until the receipt, so the
 * connection may borrow it. */
static void send_row_body(struct link *l, struct record *r, const uint8_t *body, size_t len,
    bool lend)
{
	r->total = len;
	for (size_t at = 0; at < len; at += r->len) {
		r->offset = at;
		r->len = len - at < RECORD_MAX ? (uint32_t)(len - at) : RECORD_MAX;
		if (!lend || r->len <= BATCHER_SMALL) {
			batcher_add(&l->batcher, l->conn, r, body + at);
			continue;
		}
		batcher_flush(&l->batcher, l->conn);
		conn_lend(l->conn, r, body + at);
	}
}

/* Send a push with its ids in a block (codec/row_ids.h). */
static void send_packed_push(struct request *d, struct record *r)
{
	struct link *l = d->link;
	size_t plain = PAYLOAD_ROWS_HEAD + (size_t)d->n * 8, values = d->push.len - plain,
	       most = row_ids_bound(d->n) + values, n;
	uint8_t small[BATCHER_SMALL], *own = most > RECORD_MAX ? mem_regrow(NULL, most, 1) : NULL;
	uint8_t *body = own ? own : batcher_reserve(&l->batcher, l->conn, most, small);
	int64_t begin = clock_now();

	r->flags |= RECORD_ROW_IDS;
	n = client_row_ids_put(l, client_row_ids_pushed(d), d->n, body);
	memcpy(body + n, d->push.body + plain, values);
	client_encode_count_time(l->client, begin);
	if (own) {
		send_row_body(l, r, own, n + values, false);
	} else {
		r->len = (uint32_t)(n + values);
		r->total = r->len;
		batcher_commit(&l->batcher, l->conn, r, body, small);
	}
	free(own);
}

/* Queues the push on its link, which is UP. Called again for each new session, with the same
 * body; but its ids may be replaced by the name of a list that this server keeps. */
static void send_row_push(struct request *r)
{
	struct record head = client_record_head(r->client, REC_PUSH_ROWS, r->step);

	head.table = r->table->id;
	head.part = r->part;
	head.examples = r->push.examples;
	head.seq = r->push.pulled;
	head.codec = r->push.codec;
	head.flags |= r->push.has_touching ? RECORD_TOUCHING : 0;
	if (client_row_ids_in_block(r->client, client_row_ids_pushed(r), r->n))
		send_packed_push(r, &head);
	else
		send_row_body(r->link, &head, r->push.body, r->push.len, true);
}

/* The receipt of a push: when it was too late, its values join the rows' next push. */
static enum err_code row_push_answered(struct request *r, const struct answer *a, struct err *e)
{
	(void)e;
	if (a->receipt->status == PUSH_LATE && keeps_residuals(r->client))
		add_to_residuals(r->client, r, 1);
	return ERR_OK;
}

/* Give up one use of a buffer of bodies. Its memory stays with the client for the next push. */
static void drop_bodies(struct client *c, struct bodies *b)
{
	if (--b->users)
		return;
	client_bodies_free(c->spare.bodies);
	c->spare.bodies = b;
}

/* The body is either one use of a shared buffer or the push's own memory. */
static void release_row_push(struct request *r)
{
	if (r->push.bodies)
		drop_bodies(r->client, r->push.bodies);
	else
		free(r->push.body);
}

const struct request_ops client_row_push_ops = { .class = REQUEST_PUSH,
	.server = table_head,
	.send = send_row_push,
	.answered = row_push_answered,
	.release = release_row_push };

/* The push of n rows of one partition. */
static struct request *new_row_push(struct client *c, const struct row_push *all, uint32_t part,
    uint32_t n)
{
	struct request *r = request_new(c, &client_row_push_ops, all->table, part, all->step);

	r->n = n;
	r->push.examples = all->examples;
	r->push.has_touching = all->touching;
	return r;
}

/* ---- pushing ---- */

/* Writes the ids to the push's body and the gradients to x, which may be in the body, too. Rows
 * lie anywhere in g, so the source is prefetched. */
static void copy_pushed_rows(const struct request *d, const uint64_t *ids, const float *g,
    const uint32_t *order, float *x)
{
	size_t cols = d->table->cols;

	for (uint32_t i = 0; i < d->n; i++) {
		if (i + AHEAD < d->n) {
			__builtin_prefetch(ids + order[i + AHEAD]);
			__builtin_prefetch(g + order[i + AHEAD] * cols);
		}
		put_le64(d->push.body + PAYLOAD_ROWS_HEAD + (size_t)i * 8, ids[order[i]]);
		copy_floats(x + i * cols, g + order[i] * cols, cols);
	}
}

/* Writes how many examples touch each row after the d->push.len bytes of the body, which has room
 * for it. */
static void append_counts(struct request *d, const uint32_t *touching, const uint32_t *order)
{
	for (uint32_t i = 0; d->push.has_touching && i < d->n; i++)
		put_le32(d->push.body + d->push.len + (size_t)i * PAYLOAD_COUNT_BYTES,
		    touching[order[i]]);
	d->push.len += count_bytes(d);
}

/* Fills d->push with ids and encoded gradients of its rows, in the order of `order`, and owns the
 * new body. g: the gradients of all rows of the call. A lossy codec gives way to raw floats when
 * the encoded and the decoded rows together would exceed the server's limit, or when a value is not
 * finite. With feedback, the rows' residuals become what encoding has lost. */
static void encode_row_body(struct client *c, struct request *d, const struct row_push *all,
    const float *g, const uint32_t *order)
{
	const uint64_t *ids = all->ids;
	const struct codec *codec = rows_codec(c);
	size_t cols = d->table->cols, floats = d->n * cols,
	       plain = PAYLOAD_ROWS_HEAD + (size_t)d->n * 8;
	float *x;

	/* A server bounds a push together with its decoded values: send larger ones raw. */
	if (codec->lossy &&
	    !payload_push_rows_fit(d->n, d->table->cols,
	        codec->bound(c->cfg.coding.codec.arg, floats), d->push.has_touching))
		codec = codec_by_id(0);
	/* Send values that are not finite raw: the server refuses them. */
	for (uint32_t i = 0; codec->lossy && i < d->n; i++)
		if (!vec_all_finite(cols, g + order[i] * cols))
			codec = codec_by_id(0);
	d->push.codec = codec->id;
	d->push.body = mem_regrow(NULL,
	    plain + codec->bound(c->cfg.coding.codec.arg, floats) + count_bytes(d), 1);
	payload_put_rows_head(d->push.body, d->n);
	x = codec->lossy ? mem_array(floats + 1, sizeof *x)
	                 : (float *)(void *)(d->push.body + plain);
	copy_pushed_rows(d, ids, g, order, x);
	d->push.len = plain +
	    (codec->lossy ? codec->encode(c->cfg.coding.codec.arg, &c->rng, x, floats,
	                        d->push.body + plain)
	                  : floats * 4);
	append_counts(d, all->touching, order);
	if (!codec->lossy)
		return;
	for (uint32_t i = 0; keeps_residuals(c) && i < d->n; i++)
		vec_add(cols, x + i * cols, client_rows_residual(c, d->table, ids[order[i]]));
	if (keeps_residuals(c))
		add_to_residuals(c, d, -1);
	free(x);
}

/* Submits the push and, if much is queued, writes some of it, so that sending overlaps with
 * preparing the next partition. */
static enum err_code push_body(struct client *c, struct request *d, struct err *e)
{
	enum err_code rc = client_submit_push(d, e);

	if (!rc)
		client_rows_flush_if_many(c);
	return rc;
}

/* Push with residuals, a filter or a codec, one partition after the other. */
static enum err_code push_encoded_rows(struct client *c, const struct row_push *all, struct err *e)
{
	const struct table *t = all->table;
	const float *g = all->g;
	size_t n = all->n;
	uint32_t *start = mem_array(t->nparts + 1, sizeof *start),
	         *order = mem_regrow(NULL, n, sizeof *order);
	/* Gradients that are not finite must not become residuals: send them unfiltered, and
	 * the server refuses them. */
	bool sifts = (keeps_residuals(c) || has_residuals(c, t) ||
	                 c->cfg.coding.filter.kind != FILTER_NONE) &&
	    vec_all_finite(n * t->cols, g);
	float *whole = sifts ? mem_regrow(NULL, n * t->cols, sizeof *whole) : NULL;
	int64_t begin = clock_now();
	enum err_code rc = ERR_OK;

	if (sifts)
		memcpy(whole, g, n * t->cols * sizeof *whole);
	client_rows_sort_by_part(t, all->ids, n, start, order, NULL);
	for (uint32_t p = 0; !rc && p < t->nparts; p++) {
		uint32_t some = start[p + 1] - start[p];
		struct request *d;

		if (sifts)
			some = filter_rows(c, all, order + start[p], some, whole);
		if (!some)
			continue;
		d = new_row_push(c, all, p, some);
		encode_row_body(c, d, all, sifts ? whole : g, order + start[p]);
		client_encode_count_time(c, begin);
		rc = push_body(c, d, e);
		begin = clock_now();
	}
	free(start);
	free(order);
	free(whole);
	return rc;
}

/* ---- without residuals, filter and codec ---- */

void client_bodies_free(struct bodies *b)
{
	if (b)
		free(b->bytes);
	free(b);
}

/* A buffer of at least this many bytes, with one reference. Takes the client's spare one if there
 * is one; it is not zeroed. */
static struct bodies *new_bodies(struct client *c, size_t bytes)
{
	struct bodies *b = c->spare.bodies ? c->spare.bodies : mem_alloc(sizeof *b);

	c->spare.bodies = NULL;
	b->users = 1;
	if (bytes > b->cap) {
		free(b->bytes);
		b->bytes = mem_regrow(NULL, bytes, 1);
		b->cap = bytes;
	}
	return b;
}

/* Bytes of a raw body: head, ids and floats. */
static size_t row_body_bytes(const struct table *t, size_t rows)
{
	return PAYLOAD_ROWS_HEAD + rows * (8 + (size_t)t->cols * 4);
}

/* Make a push d[p] for each partition that has rows, with its body in one shared buffer; else NULL.
 * start: as of client_rows_sort_by_part. Returns the buffer, with one use for the caller. */
static struct bodies *cut_bodies(struct client *c, const struct row_push *all,
    const uint32_t *start, struct request **d)
{
	const struct table *t = all->table;
	struct bodies *b;
	size_t at = 0;

	for (uint32_t p = 0; p < t->nparts; p++) {
		uint32_t n = start[p + 1] - start[p];

		if (!n)
			continue;
		d[p] = new_row_push(c, all, p, n);
		d[p]->push.len = row_body_bytes(t, n) + count_bytes(d[p]);
		at += (d[p]->push.len + 7) / 8 * 8;
	}
	b = new_bodies(c, at);
	at = 0;
	for (uint32_t p = 0; p < t->nparts; p++) {
		if (!d[p])
			continue;
		d[p]->push.bodies = b;
		d[p]->push.body = b->bytes + at;
		payload_put_rows_head(d[p]->push.body, d[p]->n);
		at += (d[p]->push.len + 7) / 8 * 8;
		b->users++;
	}
	return b;
}

/* The places in a body for the next row's id and values. */
struct cursor {
	uint8_t *id;
	float *value;
};

/* The first places of each partition's body, an array to be freed; partitions without rows have
 * none. */
static struct cursor *body_cursors(const struct table *t, struct request *const *d)
{
	struct cursor *at = mem_array(t->nparts, sizeof *at);

	for (uint32_t p = 0; p < t->nparts; p++)
		if (d[p]) {
			at[p].id = d[p]->push.body + PAYLOAD_ROWS_HEAD;
			at[p].value = (float *)(void *)(at[p].id + (size_t)d[p]->n * 8);
		}
	return at;
}

/* Writes the numbers of examples that touch each row; they follow the rows of the bodies. part: of
 * each row. */
static void fill_counts(const struct row_push *all, struct request *const *d, const uint16_t *part)
{
	uint32_t *next = mem_array(all->table->nparts, sizeof *next);

	for (size_t i = 0; i < all->n; i++) {
		const struct request *to = d[part[i]];

		put_le32(to->push.body + row_body_bytes(all->table, to->n) +
		        (size_t)next[part[i]]++ * PAYLOAD_COUNT_BYTES,
		    all->touching[i]);
	}
	free(next);
}

/* Writes one row and moves both places on. */
static inline void put_body_row(struct cursor *to, uint64_t id, const float *g, size_t cols)
{
	put_le64(to->id, id);
	to->id += 8;
	copy_floats(to->value, g, cols);
	to->value += cols;
}

/* Copy the rows of partitions first .. first + count - 1 to their bodies, in one pass over all
 * rows. */
static void fill_bodies(const struct row_push *all, struct cursor *at, const uint16_t *part,
    uint32_t first, uint32_t count)
{
	const uint64_t *ids = all->ids;
	const float *g = all->g;
	size_t cols = all->table->cols, n = all->n;
	uint16_t some[ROWS_PICKED];

	for (size_t i = 0, m; i < n; i += m) {
		m = n - i < ROWS_PICKED ? n - i : ROWS_PICKED;
		if (count == all->table->nparts) {
			for (size_t k = i; k < i + m; k++)
				put_body_row(&at[part[k]], ids[k], g + k * cols, cols);
			continue;
		}
		for (uint32_t k = 0,
		              picked = client_rows_pick(part + i, (uint32_t)m, first, count, some);
		     k < picked; k++) {
			size_t row = i + some[k];

			put_body_row(&at[part[row]], ids[row], g + row * cols, cols);
		}
	}
}

/* Push narrow rows: fill the bodies of a group of partitions while the bodies of the previous
 * group are being sent. */
static enum err_code push_narrow_rows(struct client *c, const struct row_push *all,
    struct request **d, uint32_t *start, struct err *e)
{
	const struct table *t = all->table;
	int64_t begin = clock_now();
	uint16_t *part = client_rows_parts(t, all->ids, all->n, start);
	struct bodies *b = cut_bodies(c, all, start, d);
	struct cursor *at = body_cursors(t, d);
	uint32_t some = client_rows_group_size(t, all->n);
	enum err_code rc = ERR_OK;

	if (all->touching)
		fill_counts(all, d, part);
	for (uint32_t p = 0; p < t->nparts; p++) {
		if (p % some == 0 && !rc) {
			begin = p ? clock_now() : begin;
			fill_bodies(all, at, part, p, some < t->nparts - p ? some : t->nparts - p);
			client_encode_count_time(c, begin);
		}
		if (d[p] && rc)
			request_free(d[p]);
		else if (d[p])
			rc = push_body(c, d[p], e);
	}
	drop_bodies(c, b);
	free(at);
	free(part);
	return rc;
}

/* Push wide rows: copy one partition's rows after the other, and send each while the next is
 * copied. */
static enum err_code push_wide_rows(struct client *c, const struct row_push *all,
    struct request **d, uint32_t *start, struct err *e)
{
	const struct table *t = all->table;
	uint32_t *order = mem_regrow(NULL, all->n, sizeof *order);
	int64_t begin = clock_now();
	enum err_code rc = ERR_OK;
	struct bodies *b;

	client_rows_sort_by_part(t, all->ids, all->n, start, order, NULL);
	b = cut_bodies(c, all, start, d);
	for (uint32_t p = 0; p < t->nparts; p++) {
		if (!d[p])
			continue;
		if (!rc) {
			copy_pushed_rows(d[p], all->ids, all->g, order + start[p],
			    (float *)(void *)(d[p]->push.body + row_body_bytes(t, d[p]->n) -
			        (size_t)d[p]->n * t->cols * 4));
			d[p]->push.len -= count_bytes(d[p]);
			append_counts(d[p], all->touching, order + start[p]);
		}
		client_encode_count_time(c, begin);
		if (rc)
			request_free(d[p]);
		else
			rc = push_body(c, d[p], e);
		begin = clock_now();
	}
	drop_bodies(c, b);
	free(order);
	return rc;
}

static enum err_code push_plain_rows(struct client *c, const struct row_push *all, struct err *e)
{
	const struct table *t = all->table;
	uint32_t *start = mem_array(t->nparts + 1, sizeof *start);
	struct request **d = mem_array(t->nparts, sizeof *d);
	enum err_code rc = (t->cols < WIDE ? push_narrow_rows : push_wide_rows)(c, all, d, start,
	    e);

	free(start);
	free((void *)d);
	return rc;
}

enum err_code client_push_rows(struct client *c, const struct row_push *push, struct err *e)
{
	enum err_code rc = client_begin_pushes(c, push->step, e);

	client_assert_owner(c);
	if (rc)
		return rc;
	client_rows_begin(c, push->n);
	c->stats.rows_offered += push->n;
	if (rows_codec(c)->lossy || has_residuals(c, push->table) ||
	    c->cfg.coding.filter.kind != FILTER_NONE)
		rc = push_encoded_rows(c, push, e);
	else
		rc = push_plain_rows(c, push, e);
	FAIL_POINT("push_sent");
	return rc;
}

void client_rows_free_residuals(struct client *c)
{
	for (size_t i = 0; i < c->feedback.nrows; i++)
		rows_free(c->feedback.rows[i]);
	free((void *)c->feedback.rows);
	c->feedback.rows = NULL;
	c->feedback.nrows = 0;
}

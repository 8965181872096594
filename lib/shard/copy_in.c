#include "base/endian.h"
#include "base/mem.h"
#include "codec/codec.h"
#include "shard/copy.h"
#include "shard/life.h"
#include "shard/regime.h"
#include "shard/width.h"

/* The receiving side: what the copy before this one sends (copy.c writes it). */

struct incoming {
	const struct copy *c;
	uint64_t version, examples;
	uint32_t n, nrows;
	uint32_t clock;                 /* the lower half of that of the table's policy */
	const struct regime *by;        /* NULL: it is not known here yet */
	const uint8_t *list;            /* slots, or for a state (last, due, claims) by slot */
	const uint8_t *body;
	size_t nbody;
};

static bool parse(const struct shard *s, const struct copy *c, const uint8_t *p, size_t len, struct incoming *in)
{
	size_t nlist;

	if (len < COPY_HEAD)
		return false;
	*in = (struct incoming){ .c = c, .version = get_le64(p), .examples = get_le64(p + 8), .n = get_le32(p + 16),
		.nrows = get_le32(p + 20), .by = regime_numbered(s, get_le32(p + 24)), .clock = get_le32(p + 28), .list = p + COPY_HEAD };
	if (c->kind == COPY_PUSH)
		nlist = 0;
	else
		nlist = c->kind == COPY_STATE ? COPY_STATE_HEAD + (size_t)in->n * 24 : ((size_t)in->n * 4 + 7) / 8 * 8;
	if (len - COPY_HEAD < nlist)
		return false;
	in->body = in->list + nlist;
	in->nbody = len - COPY_HEAD - nlist;
	return true;
}

/* ---- a step's sum, or that there is none --------------------------------------- */

static enum shard_answer take_sum(struct shard *s, struct part *p, const struct incoming *in)
{
	uint64_t step = in->c->step;
	uint32_t cols = p->table->cols;
	size_t want = p->table->sparse ? (size_t)in->nrows * (8 + cols * 4) : p->n * 4;
	const uint8_t *values = in->body + (p->table->sparse ? (size_t)in->nrows * 8 : 0);

	if (in->nbody && (in->nbody != want || (uintptr_t)values % 4))
		return SHARD_BAD;
	/* Had before: the sender has not heard that we have. */
	if (step < p->step || in->version < p->version + (in->nbody != 0))
		return SHARD_OK;
	if (in->version != p->version + (in->nbody != 0))
		return SHARD_BAD;
	snap_before_update(s, p, step);
	part_turn(s, p, in->by);
	if (!part_update(p, step, in->nbody ? (const float *)(const void *)values : NULL, in->nrows, in->body, in->examples))
		return SHARD_BAD;
	for (uint32_t i = 0; i < in->n; i++)
		part_set_last(p, get_le32(in->list + (size_t)i * 4), step + 1);
	gate_seen(s, step + 1);
	return SHARD_OK;
}

/* ---- a push ------------------------------------------------------------------------ */

static enum shard_answer take_push(struct shard *s, struct part *p, const struct incoming *in)
{
	size_t nids = (size_t)in->nrows * 8;
	struct push push = { .slot = in->n, .step = in->c->step, .table = in->c->table, .part = in->c->part,
		.codec = in->c->codec, .examples = (uint32_t)in->examples, .nrows = in->nrows, .ids = in->body };
	const struct codec *codec = codec_by_id(push.codec);

	if (in->version <= p->version && in->nbody)
		return SHARD_OK;
	/* A refused push has no body. */
	if (in->nbody) {
		if (in->nbody < nids || in->version != p->version + 1 || !codec)
			return SHARD_BAD;
		push.payload = in->body + nids;
		push.len = in->nbody - nids;
		if (codec->check(push.payload, push.len, p->table->sparse ? (size_t)in->nrows * p->table->cols : p->n) != CODEC_GOOD)
			return SHARD_BAD;
		snap_before_update(s, p, p->step);
		part_turn(s, p, in->by);
		if (push.slot == SHARD_OUTSIDE && p->life)
			life_at(p, p->life->clock + (uint32_t)(in->clock - (uint32_t)p->life->clock));
		if (!part_apply(p, &push))
			return SHARD_BAD;
	}
	if (push.slot != SHARD_OUTSIDE && part_last(p, push.slot) <= push.step)
		part_set_last(p, push.slot, push.step + 1);
	return SHARD_OK;
}

/* ---- a whole copy -------------------------------------------------------------------- */

static const uint8_t *get_rows(struct rows *rows, const uint8_t *at, size_t *left, uint32_t n, size_t stride)
{
	size_t bytes = (size_t)n * (8 + stride * 4);

	if (*left < bytes)
		return NULL;
	for (uint32_t i = 0; i < n; i++) {
		bool made;
		float *row = rows_put(rows, get_le64(at + (size_t)i * 8), &made);

		if (!row)
			return NULL;
		memcpy(row, at + (size_t)n * 8 + i * stride * 4, stride * 4);
	}
	*left -= bytes;
	return at + bytes;
}

static const uint8_t *get_floats(float *x, const uint8_t *at, size_t *left, size_t n)
{
	if (!at || *left < n * 4)
		return NULL;
	memcpy(x, at, n * 4);
	*left -= n * 4;
	return at + n * 4;
}

static const uint8_t *get_life(struct life *l, const uint8_t *at, size_t *left)
{
	size_t n = *left / 8;
	uint64_t *words = mem_array(n, sizeof *words);
	bool good;

	for (size_t i = 0; i < n; i++)
		words[i] = get_le64(at + i * 8);
	good = life_get(l, words, n);
	free(words);
	*left -= n * 8;
	return good ? at + n * 8 : NULL;
}

static bool get_state(struct part *p, const struct incoming *in)
{
	size_t nslots = p->by->rule->nslots, cols = p->table->cols, left = in->nbody;
	const uint8_t *at = in->body;

	if (p->table->sparse) {
		at = get_rows(p->rows, at, &left, in->nrows, part_rows_copied(p));
		if (at && p->rest)
			at = get_rows(p->rest, at, &left, (uint32_t)width_count(p), width_stride(p));
		if (at && !width_is_sound(p))
			return false;
		if (at && p->prev_rows)
			at = get_rows(p->prev_rows, at, &left, get_le32(in->list), cols);
		if (at && p->life)
			at = get_life(p->life, at, &left);
	} else {
		at = get_floats(p->w, at, &left, p->n);
		at = get_floats(p->state, at, &left, p->n * nslots);
		if (at && p->prev)
			at = get_floats(p->prev, at, &left, p->n);
	}
	return at && left == 0;
}

static enum shard_answer take_state(struct shard *s, struct part *p, const struct incoming *in)
{
	p->by = in->by;
	if (part_alloc(p, s, NULL))
		return SHARD_BAD;
	if (!get_state(p, in)) {
		part_retire(p, &s->budget);
		return SHARD_BAD;
	}
	p->version = in->version;
	p->born = get_le64(in->list + 8);
	part_forget_changes(p);
	p->step = in->c->step;
	p->prev_same = get_le32(in->list + 4);
	p->prev_version = p->version - !p->prev_same;
	for (uint32_t i = 0; i < in->n; i++) {
		const uint8_t *at = in->list + COPY_STATE_HEAD + (size_t)i * 24;

		part_set_last(p, i, get_le64(at));
		/* Beside what was told here meanwhile. */
		part_merge_due(p, i, get_le64(at + 8), get_le64(at + 16));
	}
	p->here = true;
	atomic_store(&p->gone, false);
	gate_enter(s, p);
	gate_seen(s, p->step);
	return SHARD_OK;
}

/* A copy that has others after it hands on what it took. */
static void hand_on(struct shard *s, struct part *p, const struct incoming *in)
{
	const struct copy *c = in->c;

	if (p->to != NO_SERVER)
		copy_pass_on(s, p, c, in->list - COPY_HEAD, (size_t)(in->body - in->list) + COPY_HEAD, in->body, in->nbody);
	copy_settle(p);
}

static enum shard_answer take(struct shard *s, struct part *p, const struct incoming *in)
{
	uint64_t version = p->version, step = p->step;
	enum shard_answer a;

	if (p->head || (!p->here && in->c->kind != COPY_STATE))
		return SHARD_ELSEWHERE;
	/* Not before it is known here, too, how the update is made. */
	if (!copy_may_send(p) || !in->by) {
		p->waited = true;
		return SHARD_HOLD;
	}
	if (in->c->kind == COPY_STATE)
		a = p->here && (p->live || in->version <= p->version) ? SHARD_OK : take_state(s, p, in);
	else if (in->c->kind == COPY_PUSH)
		a = take_push(s, p, in);
	else
		a = take_sum(s, p, in);
	if (a == SHARD_OK && in->c->kind != COPY_STATE && (p->version != version || p->step != step || !in->nbody))
		hand_on(s, p, in);
	if (a == SHARD_OK) {
		gate_pass(s, p);
		copy_settle(p);
	}
	return a;
}

enum shard_answer shard_copy(struct shard *s, const struct copy *c, const uint8_t *payload, size_t len, uint64_t *steps,
    uint64_t *version)
{
	struct part *p = shard_part(s, c->table, c->part);
	struct incoming in;
	enum shard_answer a;
	bool wake;

	if (!p || !parse(s, c, payload, len, &in))
		return p ? SHARD_BAD : SHARD_ELSEWHERE;
	*version = in.version;
	*steps = c->kind == COPY_PUSH || c->kind == COPY_STATE ? 0 : c->step + 1;
	pthread_mutex_lock(&p->lock);
	a = take(s, p, &in);
	part_book_rows(p, &s->budget);
	wake = a == SHARD_OK && p->waited;
	if (wake)
		p->waited = false;
	pthread_mutex_unlock(&p->lock);
	if (wake)
		s->cfg.wake(s->cfg.ctx);
	return a;
}

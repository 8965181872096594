#include "shard/copy.h"

#include "base/endian.h"
#include "base/mem.h"
#include "shard/life.h"
#include "shard/regime.h"
#include "shard/width.h"

/* Changes of a partition that the next copy may have to be sent again. */
#define SENT_MAX 16u

/* With room for so much behind what every copy's head has. */
static size_t head_bytes(size_t more)
{
	return COPY_HEAD + (more + 7) / 8 * 8;
}

static struct copy *copy_new(struct part *p, enum copy_kind kind, uint64_t step, size_t nhead, size_t nbody)
{
	struct copy *c = mem_alloc(sizeof *c);

	c->kind = kind;
	c->table = p->table->id;
	c->part = p->index;
	c->step = step;
	c->version = p->version;
	c->nhead = nhead;
	c->head = mem_alloc(c->nhead);
	c->nbody = nbody;
	return c;
}

static void fill_head(struct copy *c, const struct part *p, uint64_t examples, uint32_t n, uint32_t nrows)
{
	put_le64(c->head, c->version);
	put_le64(c->head + 8, examples);
	put_le32(c->head + 16, n);
	put_le32(c->head + 20, nrows);
	put_le32(c->head + 24, p->by->number);
	/* Of what comes from outside the copies cannot know the step otherwise. */
	put_le32(c->head + 28, p->life ? (uint32_t)p->life->clock : 0);
}

static void free_copy(struct copy *c)
{
	free(c->head);
	free(c->body);
	free(c);
}

static void enqueue(struct shard *s, struct part *p, struct copy *c)
{
	c->seq = ++p->next_seq;
	*p->sent_last = c;
	p->sent_last = &c->next;
	p->nsent++;
	copy_settle(p);
	s->cfg.forward(s->cfg.ctx, p->to, c->table, c->part);
}

bool copy_may_send(const struct part *p)
{
	return p->to == NO_SERVER || (p->nsent < SENT_MAX && (!p->acc || p->spare));
}

void copy_settle(struct part *p)
{
	uint64_t step = p->step, version = p->version;

	for (const struct copy *c = p->must ? p->sent : NULL; c; c = c->next) {
		if (c->kind == COPY_STATE)
			continue;
		if (c->kind != COPY_PUSH && c->step < step)
			step = c->step;
		/* A refused push and an empty step have changed nothing. */
		if (c->nbody && c->version <= version)
			version = c->version - 1;
	}
	atomic_store(&p->safe_step, step);
	atomic_store(&p->safe_version, version);
}

/* ---- what happens --------------------------------------------------------------- */

static uint32_t who(const struct part *p, uint64_t step, uint8_t *out)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < p->nlast; i++)
		if (p->last[i] == step + 1) {
			if (out)
				put_le32(out + (size_t)n * 4, i);
			n++;
		}
	return n;
}

static void rows_body(struct copy *c, const struct part *p)
{
	size_t n = rows_count(p->acc_rows), cols = p->table->cols;

	c->nbody = n * (8 + cols * 4);
	c->body = mem_array(n, 8 + cols * 4);
	for (size_t i = 0; i < n; i++) {
		uint64_t id;
		const float *g = rows_at(p->acc_rows, i, &id);

		put_le64(c->body + i * 8, id);
		memcpy(c->body + n * 8 + i * cols * 4, g, cols * 4);
	}
}

/* What was accumulated, if anything was. */
static void take_body(struct copy *c, struct part *p)
{
	if (p->contributions && p->table->sparse) {
		rows_body(c, p);
	} else if (p->contributions) {
		c->body = (uint8_t *)p->acc;
		c->nbody = p->n * sizeof *p->acc;
		p->acc = p->spare;
		p->spare = NULL;
	}
}

void copy_sum(struct shard *s, struct part *p, uint64_t step, uint64_t examples, bool explicit_step)
{
	uint32_t n = who(p, step, NULL);
	struct copy *c;

	if (p->to == NO_SERVER || (!n && !explicit_step)) {
		copy_settle(p);
		return;
	}
	c = copy_new(p, p->contributions ? COPY_SUM : COPY_STEP, step, head_bytes((size_t)n * 4), 0);
	who(p, step, c->head + COPY_HEAD);
	take_body(c, p);
	fill_head(c, p, examples, n, p->table->sparse && p->contributions ? (uint32_t)rows_count(p->acc_rows) : 0);
	enqueue(s, p, c);
}

static void put_shares(const struct part *p, uint64_t step, uint8_t *at)
{
	for (uint32_t i = 0; i < p->nlast; i++)
		if (p->last[i] == step + 1) {
			sum_put_who(at, &(struct sum_who){ i, p->share[i].examples, p->share[i].incarnation });
			at += SUM_WHO;
		}
}

void copy_up(struct shard *s, struct part *p, uint64_t step)
{
	uint32_t n = who(p, step, NULL);
	struct copy *c = n ? copy_new(p, COPY_SUM, step, sum_head_bytes(n), 0) : NULL;

	if (!c) {
		copy_settle(p);
		return;
	}
	take_body(c, p);
	sum_put_head(c->head, n, p->table->sparse && p->contributions ? (uint32_t)rows_count(p->acc_rows) : 0);
	put_shares(p, step, c->head + SUM_HEAD);
	enqueue(s, p, c);
}

void copy_step(struct shard *s, struct part *p, uint64_t step)
{
	struct copy *c = copy_new(p, COPY_STEP, step, head_bytes(0), 0);

	fill_head(c, p, 0, 0, 0);
	enqueue(s, p, c);
}

void copy_push(struct shard *s, struct part *p, const struct push *push, bool refused)
{
	size_t nids = (size_t)push->nrows * 8;
	struct copy *c;

	if (p->to == NO_SERVER) {
		copy_settle(p);
		return;
	}
	c = copy_new(p, COPY_PUSH, push->step, head_bytes(0), refused ? 0 : nids + push->len);
	c->codec = push->codec;
	if (!refused) {
		c->body = mem_alloc(c->nbody);
		if (nids)
			memcpy(c->body, push->ids, nids);
		memcpy(c->body + nids, push->payload, push->len);
	}
	fill_head(c, p, push->examples, push->slot, push->nrows);
	enqueue(s, p, c);
}

void copy_pass_on(struct shard *s, struct part *p, const struct copy *in, const uint8_t *head, size_t nhead,
    const uint8_t *body, size_t nbody)
{
	struct copy *c = mem_alloc(sizeof *c);

	*c = (struct copy){ .kind = in->kind, .table = in->table, .codec = in->codec, .part = in->part, .step = in->step,
		.version = p->version, .nhead = nhead, .nbody = nbody };
	c->head = mem_alloc(nhead);
	memcpy(c->head, head, nhead);
	if (nbody) {
		c->body = mem_alloc(nbody);
		memcpy(c->body, body, nbody);
	}
	enqueue(s, p, c);
}

/* ---- a whole copy ------------------------------------------------------------------ */

static size_t put_floats(uint8_t *at, const float *x, size_t n)
{
	if (at)
		memcpy(at, x, n * 4);
	return n * 4;
}

static size_t put_rows(uint8_t *at, const struct rows *rows, size_t stride)
{
	size_t n = rows_count(rows);

	for (size_t i = 0; at && i < n; i++) {
		uint64_t id;
		const float *row = rows_at(rows, i, &id);

		put_le64(at + i * 8, id);
		memcpy(at + n * 8 + i * stride * 4, row, stride * 4);
	}
	return n * (8 + stride * 4);
}

/* What goes by the table's policy. */
static size_t put_life(uint8_t *at, const struct life *l)
{
	size_t n = life_words(l);
	uint64_t *words = at && n ? mem_array(n, sizeof *words) : NULL;

	if (words) {
		life_put(l, words);
		for (size_t i = 0; i < n; i++)
			put_le64(at + i * 8, words[i]);
	}
	free(words);
	return n * 8;
}

/* The values as they are, and their length; at NULL: only that. */
static size_t put_state(const struct part *p, uint8_t *at)
{
	size_t nslots = p->by->rule->nslots, cols = p->table->cols, len;

	if (p->table->sparse) {
		len = put_rows(at, p->rows, part_rows_copied(p));
		len += p->rest ? put_rows(at ? at + len : NULL, p->rest, width_stride(p)) : 0;
		len += p->prev_rows ? put_rows(at ? at + len : NULL, p->prev_rows, cols) : 0;
		return len + put_life(at ? at + len : NULL, p->life);
	}
	len = put_floats(at, p->w, p->n);
	len += put_floats(at ? at + len : NULL, p->state, p->n * nslots);
	return len + (p->prev ? put_floats(at ? at + len : NULL, p->prev, p->n) : 0);
}

/* What the slot has pushed, and what is to come of it.  What the open step has
 * had so far is in a sum that stays here, and comes with the step's: were this copy
 * all that is left, it would have to be pushed again. */
static void put_slot(const struct shard *s, const struct part *p, uint32_t slot, uint8_t *at)
{
	bool open = regime_is_bsp(s, p->step) && p->last[slot] > p->step;
	uint64_t due = part_due(p, slot), claims = due ? p->debt[slot].claims : 0;

	if (open && due <= p->step) {
		claims = p->step + 1 - due < 64 ? claims << (p->step + 1 - due) : 0;
		due = p->step + 1;
	}
	if (open && due - 1 - p->step < 64)
		claims |= UINT64_C(1) << (due - 1 - p->step);
	put_le64(at, open ? p->step : p->last[slot]);
	put_le64(at + 8, due);
	put_le64(at + 16, claims);
}

static void send_state(struct shard *s, struct part *p)
{
	struct copy *c = copy_new(p, COPY_STATE, p->step, head_bytes(COPY_STATE_HEAD + p->nlast * 24), put_state(p, NULL));
	uint8_t *at = c->head + COPY_HEAD;

	put_le32(at, p->prev_rows ? (uint32_t)rows_count(p->prev_rows) : 0);
	put_le32(at + 4, p->prev_same);
	put_le64(at + 8, p->born);
	for (uint32_t i = 0; i < p->nlast; i++)
		put_slot(s, p, i, at + COPY_STATE_HEAD + i * 24);
	c->body = mem_alloc(c->nbody + 1);
	put_state(p, c->body);
	fill_head(c, p, 0, (uint32_t)p->nlast, p->rows ? (uint32_t)rows_count(p->rows) : 0);
	enqueue(s, p, c);
}

/* ---- the next copy ------------------------------------------------------------------- */

void copy_drop_first(struct part *p)
{
	struct copy *c = p->sent;

	p->sent = c->next;
	if (!p->sent)
		p->sent_last = &p->sent;
	p->nsent--;
	if (c->kind == COPY_SUM && !p->table->sparse && !p->spare && p->to != NO_SERVER) {
		p->spare = (float *)(void *)c->body;
		c->body = NULL;
	}
	free_copy(c);
}

void copy_forget(struct part *p)
{
	while (p->sent)
		copy_drop_first(p);
}

void copy_redirect(struct shard *s, struct part *p, uint16_t to, uint64_t process)
{
	bool begun = p->to != NO_SERVER && p->sent && p->sent->kind == COPY_STATE;

	if (p->to != to || p->to_process != process) {
		/* Half a copy helps nobody; changes that count are sent again. */
		if (to == NO_SERVER || begun || !p->must)
			copy_forget(p);
		p->to = to;
		p->to_process = process;
		p->must = to != NO_SERVER;
		p->synced = false;
		for (struct copy *c = p->sent; c; c = c->next)
			c->session = 0;
		if (p->sent)
			s->cfg.forward(s->cfg.ctx, to, p->table->id, p->index);
	}
	copy_settle(p);
}

/* False when a copy was begun. */
static bool begin_feed(struct shard *s, struct part *p, void *ctx)
{
	uint16_t server = *(const uint16_t *)ctx;

	if (!p->here || !p->tail || p->feed != server || p->to != NO_SERVER)
		return true;
	p->to = server;
	p->to_process = p->feed_process;
	p->must = p->synced = false;
	/* Without room for a second sum the step's close would wait for ever. */
	if (p->head && part_alloc_head(p, s, NULL)) {
		p->to = NO_SERVER;
		return true;
	}
	send_state(s, p);
	return false;
}

bool shard_feed(struct shard *s, uint16_t server)
{
	return !shard_each(s, begin_feed, &server);
}

struct fed {
	uint16_t server;
	uint64_t all, begun, done;
};

static bool count_fed(struct shard *s, struct part *p, void *ctx)
{
	struct fed *f = ctx;

	(void)s;
	if (p->here && p->tail && p->feed == f->server) {
		f->all++;
		f->begun += p->to == f->server;
		f->done += p->to == f->server && p->synced;
	}
	return true;
}

void shard_fed(struct shard *s, uint16_t server, uint64_t *all, uint64_t *begun, uint64_t *done)
{
	struct fed f = { .server = server };

	shard_each(s, count_fed, &f);
	*all = f.all;
	*begun = f.begun;
	*done = f.done;
}

/* ---- the link's side -------------------------------------------------------------------- */

void shard_send(struct shard *s, uint16_t server, uint64_t session, uint16_t table, uint32_t part,
    bool (*put)(void *ctx, const struct copy *c), void *ctx)
{
	struct part *p = shard_part(s, table, part);

	if (!p)
		return;
	pthread_mutex_lock(&p->lock);
	for (struct copy *c = p->to == server ? p->sent : NULL; c; c = c->next) {
		if (c->session == session)
			continue;
		if (!put(ctx, c))
			break;
		c->session = session;
	}
	pthread_mutex_unlock(&p->lock);
}

static void sent(struct part *p, uint64_t seq)
{
	while (p->sent && p->sent->seq <= seq) {
		bool state = p->sent->kind == COPY_STATE;

		copy_drop_first(p);
		if (!state)
			continue;
		/* It has its copy: from here on nothing counts without it. */
		p->must = true;
		p->sync_at = p->version;
	}
	copy_settle(p);
	if (p->must && p->feed == p->to && atomic_load(&p->safe_version) >= p->sync_at)
		p->synced = true;
}

void shard_sent(struct shard *s, uint16_t server, uint16_t table, uint32_t part, uint64_t seq)
{
	struct part *p = shard_part(s, table, part);

	if (!p)
		return;
	pthread_mutex_lock(&p->lock);
	if (p->to == server)
		sent(p, seq);
	pthread_mutex_unlock(&p->lock);
}

static bool resend(struct shard *s, struct part *p, void *ctx)
{
	uint16_t server = *(const uint16_t *)ctx;

	if (p->to == server && p->sent)
		s->cfg.forward(s->cfg.ctx, server, p->table->id, p->index);
	return true;
}

void shard_resend(struct shard *s, uint16_t server)
{
	shard_each(s, resend, &server);
}

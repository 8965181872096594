#include "shard/hand.h"

#include "base/mem.h"
#include "shard/copy.h"

/* A sum that is larger goes in its parts: servers take no larger one. */
#define SUM_MAX (16u << 20)

static void note(struct part *p, uint64_t step, enum push_status status)
{
	p->said[step % SAID].end = step + 1;
	p->said[step % SAID].status = status;
}

static bool too_large(const struct part *p)
{
	return p->table->sparse && rows_count(p->acc_rows) > (SUM_MAX - sum_head_bytes(SUM_MOST)) / (8 + (size_t)p->table->cols * 4);
}

/* What CLOCKs may have said is to come through here does not. */
static void leave_alone(struct shard *s, const struct part *p)
{
	atomic_fetch_add(&s->alone, 1);
	s->cfg.forward(s->cfg.ctx, SHARD_UPSTREAM, p->table->id, p->index);
}

void hand_close(struct shard *s, struct part *p)
{
	uint64_t step = p->step++;
	bool whole = !too_large(p);

	p->prev_same = true;
	if (whole) {
		copy_up(s, p, step);
	} else {
		note(p, step, PUSH_SPLIT);
		copy_settle(p);
	}
	if (!whole || p->owed)
		leave_alone(s, p);
	part_reopen(p);
}

static bool is_empty(const struct part *p)
{
	for (uint32_t i = 0; i < p->nlast; i++)
		if (p->last[i] > p->step)
			return false;
	return true;
}

void hand_jump(struct shard *s, struct part *p, uint64_t step)
{
	if (step <= p->step || !copy_may_send(p))
		return;
	if (!is_empty(p))
		hand_close(s, p);
	else if (p->owed)
		leave_alone(s, p);
	p->step = step > p->step ? step : p->step;
	copy_settle(p);
}

void hand_skip(struct part *p, uint64_t step)
{
	if (p->owed || step <= p->step || !is_empty(p))
		return;
	p->step = step;
	copy_settle(p);
}

void hand_share(struct part *p, uint32_t slot, uint32_t examples, uint64_t incarnation)
{
	if (slot >= p->nshare) {
		p->share = mem_regrow(p->share, p->nlast, sizeof *p->share);
		memset(p->share + p->nshare, 0, (p->nlast - p->nshare) * sizeof *p->share);
		p->nshare = p->nlast;
	}
	p->share[slot] = (struct share){ incarnation, examples };
}

/* ---- what became of sums ----------------------------------------------------------- */

void shard_summed(struct shard *s, uint16_t table, uint32_t part, uint64_t seq, enum push_status status)
{
	struct part *p = shard_part(s, table, part);

	if (!p)
		return;
	pthread_mutex_lock(&p->lock);
	/* One that was sent twice is answered twice. */
	if (p->sent && p->sent->seq == seq) {
		note(p, p->sent->step, status);
		copy_drop_first(p);
		copy_settle(p);
	}
	pthread_mutex_unlock(&p->lock);
}

bool shard_goes_alone(struct shard *s, uint16_t table, uint32_t part, uint32_t slot, uint64_t step)
{
	struct part *p = shard_part(s, table, part);
	bool in, alone;

	if (!p)
		return false;
	pthread_mutex_lock(&p->lock);
	in = part_last(p, slot) > step;
	alone = p->step > step;
	for (const struct copy *c = p->sent; c && alone && in; c = c->next)
		alone = c->step != step;
	pthread_mutex_unlock(&p->lock);
	return alone;
}

uint64_t shard_alone(struct shard *s)
{
	return atomic_load(&s->alone);
}

enum push_status shard_outcome(struct shard *s, uint16_t table, uint32_t part, uint64_t step, enum push_status status)
{
	struct part *p = shard_part(s, table, part);
	enum push_status said = PUSH_SPLIT;

	if (!s->cfg.relay || !p || status == PUSH_LATE)
		return status;
	pthread_mutex_lock(&p->lock);
	/* What is not known any more the servers know. */
	if (p->said[step % SAID].end == step + 1)
		said = p->said[step % SAID].status;
	pthread_mutex_unlock(&p->lock);
	return said == PUSH_SPLIT ? PUSH_SPLIT : status;
}

/* ---- values -------------------------------------------------------------------------- */

enum shard_answer hand_shows(struct part *p, uint64_t step)
{
	if (step == SYNC_NEVER || !p->here)
		return SHARD_ELSEWHERE;
	if (p->have > step)
		return SHARD_OK;
	p->waited = true;
	return SHARD_HOLD;
}

/* Behind a row's values: the step that they are of and that they were asked for, plus 1, and
 * in which epoch. */
struct marks {
	uint64_t have, asked, epoch;
};

uint32_t hand_stride(uint32_t cols)
{
	return cols + sizeof(struct marks) / sizeof(float);
}

static struct marks marks_of(const struct part *p, const float *row)
{
	struct marks m;

	memcpy(&m, row + p->table->cols, sizeof m);
	return m;
}

static void mark(const struct part *p, float *row, struct marks m)
{
	memcpy(row + p->table->cols, &m, sizeof m);
}

enum shard_answer hand_rows(struct part *p, uint64_t step, const uint8_t *ids, uint32_t n, float *out)
{
	size_t cols = p->table->cols;

	if (step == SYNC_NEVER || !p->here)
		return SHARD_ELSEWHERE;
	for (uint32_t i = 0; i < n; i++) {
		const float *row;
		uint64_t id;

		memcpy(&id, ids + (size_t)i * 8, sizeof id);
		row = rows_get(p->rows, id);
		if (!row || marks_of(p, row).have <= step) {
			p->waited = true;
			return SHARD_HOLD;
		}
		memcpy(out + i * cols, row, cols * sizeof *out);
	}
	return SHARD_OK;
}

static void book(struct shard *s, struct part *p)
{
	uint64_t now = rows_bytes(p->rows);

	atomic_fetch_add(&s->budget.lent, now - p->lent);
	p->lent = now;
}

/* The rows of steps before `step` are of no use any more: whoever asks for it has been
 * told that all are through with them. */
static bool drop(struct shard *s, struct part *p, void *step)
{
	if (!p->rows || p->have > *(const uint64_t *)step || !p->lent)
		return true;
	rows_free(p->rows);
	p->rows = rows_new(hand_stride(p->table->cols));
	book(s, p);
	return true;
}

static void begin_step(struct shard *s, uint64_t step)
{
	uint64_t last = atomic_load(&s->budget.lent_for);

	while (last <= step)
		if (atomic_compare_exchange_weak(&s->budget.lent_for, &last, step + 1)) {
			shard_each(s, drop, &step);
			return;
		}
}

static bool has_room(const struct shard *s, const struct part *p, const uint8_t *ids, uint32_t n)
{
	uint64_t limit = s->cfg.mem_limit, used = atomic_load(&s->budget.lent), fresh = 0;
	uint64_t each = hand_stride(p->table->cols) * sizeof(float) + ROW_OVERHEAD;

	if (!limit || used + n * each <= limit)
		return true;
	for (uint32_t i = 0; i < n; i++) {
		uint64_t id;

		memcpy(&id, ids + (size_t)i * 8, sizeof id);
		fresh += !rows_get(p->rows, id);
	}
	return !fresh || used + fresh * each <= limit;
}

/* Is it to be asked for? */
static bool lacks(struct part *p, const struct shard_asker *by, uint64_t id)
{
	bool made;
	float *row = rows_put(p->rows, id, &made);
	struct marks m;

	if (!row)
		abort();
	m = marks_of(p, row);
	if (m.have > by->step || (m.asked > by->step && m.epoch == by->epoch))
		return false;
	m.asked = by->step + 1;
	m.epoch = by->epoch;
	mark(p, row, m);
	return true;
}

bool shard_lacks(struct shard *s, uint16_t table, uint32_t part, const struct shard_asker *by, const uint8_t *ids, uint32_t n,
    uint64_t *out, uint32_t *k)
{
	uint64_t step = by->step;
	struct part *p = shard_part(s, table, part);
	bool room;

	*k = 0;
	if (!p || !p->table->sparse)
		return true;
	begin_step(s, step);
	pthread_mutex_lock(&p->lock);
	if (!p->here) {
		pthread_mutex_unlock(&p->lock);
		return true;
	}
	/* Somebody else may have begun it, and not have come here yet. */
	drop(s, p, &step);
	if (step >= p->have)
		p->have = step + 1;
	room = has_room(s, p, ids, n);
	for (uint32_t i = 0; room && i < n; i++) {
		memcpy(&out[*k], ids + (size_t)i * 8, sizeof *out);
		*k += lacks(p, by, out[*k]);
	}
	book(s, p);
	pthread_mutex_unlock(&p->lock);
	return room;
}

/* Who waits is woken by the caller. */
static void arrived(struct part *p, uint64_t version)
{
	if (version > p->version)
		p->version = version;
	p->waited = false;
}

void shard_fetched(struct shard *s, uint16_t table, uint32_t part, uint64_t step, const float *w, uint64_t version)
{
	struct part *p = shard_part(s, table, part);

	if (!p || p->table->sparse)
		return;
	pthread_mutex_lock(&p->lock);
	if (p->here && p->have <= step) {
		memcpy(p->w, w, p->n * sizeof *w);
		p->have = step + 1;
	}
	arrived(p, version);
	pthread_mutex_unlock(&p->lock);
}

void shard_fetched_rows(struct shard *s, uint16_t table, uint32_t part, uint64_t step, const uint64_t *ids, uint32_t n,
    const float *w, uint64_t version)
{
	struct part *p = shard_part(s, table, part);
	bool made;

	if (!p || !p->table->sparse)
		return;
	pthread_mutex_lock(&p->lock);
	for (uint32_t i = 0; p->here && i < n; i++) {
		float *row = rows_put(p->rows, ids[i], &made);

		if (!row)
			abort();
		if (marks_of(p, row).have > step)
			continue;
		memcpy(row, w + (size_t)i * p->table->cols, p->table->cols * sizeof *w);
		mark(p, row, (struct marks){ .have = step + 1, .asked = step + 1 });
	}
	if (p->here)
		book(s, p);
	arrived(p, version);
	pthread_mutex_unlock(&p->lock);
}

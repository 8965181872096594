/* SPDX-License-Identifier: ISC */
#include "shard/relay_part.h"

#include "core/mem.h"
#include "shard/copy.h"

/* Servers take no larger sum. The pushes of a larger one are sent by the workers themselves. */
#define SUM_MAX (16u << 20)

/* Remembers the servers' answer to the sum of a step. */
static void note_sum_outcome(struct part *p, uint64_t step, enum push_status status)
{
	p->relay.said[step % SAID].end = step + 1;
	p->relay.said[step % SAID].status = status;
}

static bool sum_is_too_large(const struct part *p)
{
	return p->table->sparse &&
	    rows_count(p->sparse.acc) > (SUM_MAX - sum_body_head_bytes(SUM_CONTRIBUTORS_MAX)) /
	        (8 + (size_t)p->table->cols * 4);
}

/* Announced pushes that were to come through this relay may have to go alone: see shard_alone_count. */
static void signal_goes_alone(struct shard *s, const struct part *p)
{
	atomic_fetch_add(&s->alone, 1);
	s->cfg.forward(s->cfg.ctx, SHARD_UPSTREAM, p->table->id, p->index);
}

void relay_part_close(struct shard *s, struct part *p)
{
	uint64_t step = p->step++;
	bool whole = !sum_is_too_large(p);

	p->prev_same = true;
	if (whole) {
		copy_relay_sum(s, p, step);
	} else {
		note_sum_outcome(p, step, PUSH_SPLIT);
		copy_update_safe(p);
	}
	if (!whole || p->pushes.pending)
		signal_goes_alone(s, p);
	part_clear_sum(p);
}

/* Has no slot pushed at the open step? */
static bool open_sum_is_empty(const struct part *p)
{
	for (uint32_t i = 0; i < p->pushes.nlast; i++)
		if (p->pushes.last[i] > p->step)
			return false;
	return true;
}

void relay_part_jump(struct shard *s, struct part *p, uint64_t step)
{
	if (step <= p->step || !copy_may_send(p))
		return;
	if (!open_sum_is_empty(p))
		relay_part_close(s, p);
	else if (p->pushes.pending)
		signal_goes_alone(s, p);
	p->step = step > p->step ? step : p->step;
	copy_update_safe(p);
}

void relay_part_skip(struct part *p, uint64_t step)
{
	if (p->pushes.pending || step <= p->step || !open_sum_is_empty(p))
		return;
	p->step = step;
	copy_update_safe(p);
}

void relay_part_add_share(struct part *p, uint32_t slot, uint32_t examples, uint64_t incarnation)
{
	if (slot >= p->relay.nshare) {
		p->relay.share = mem_regrow(p->relay.share, p->pushes.nlast,
		    sizeof *p->relay.share);
		memset(p->relay.share + p->relay.nshare, 0,
		    (p->pushes.nlast - p->relay.nshare) * sizeof *p->relay.share);
		p->relay.nshare = p->pushes.nlast;
	}
	p->relay.share[slot] = (struct share){ incarnation, examples };
}

/* ---- outcomes of sums ---- */

void shard_sum_answered(struct shard *s, uint16_t table, uint32_t part, uint64_t seq,
    enum push_status status)
{
	struct part *p = shard_part(s, table, part);

	if (!p)
		return;
	pthread_mutex_lock(&p->lock);
	/* A sum that was sent twice is answered twice: ignore the second answer. */
	if (p->chain.sent && p->chain.sent->seq == seq) {
		note_sum_outcome(p, p->chain.sent->step, status);
		copy_drop_first(p);
		copy_update_safe(p);
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
	in = part_taken_end(p, slot) > step;
	alone = p->step > step;
	for (const struct copy *c = p->chain.sent; c && alone && in; c = c->next)
		alone = c->step != step;
	pthread_mutex_unlock(&p->lock);
	return alone;
}

uint64_t shard_alone_count(struct shard *s)
{
	return atomic_load(&s->alone);
}

enum push_status shard_relay_outcome(struct shard *s, uint16_t table, uint32_t part, uint64_t step,
    enum push_status status)
{
	struct part *p = shard_part(s, table, part);
	enum push_status said = PUSH_SPLIT;

	if (!s->cfg.relay || !p || status == PUSH_LATE)
		return status;
	pthread_mutex_lock(&p->lock);
	/* When the outcome is not known here any more, split makes the worker ask the servers. */
	if (p->relay.said[step % SAID].end == step + 1)
		said = p->relay.said[step % SAID].status;
	pthread_mutex_unlock(&p->lock);
	return said == PUSH_SPLIT ? PUSH_SPLIT : status;
}

/* ---- values ---- */

enum shard_answer relay_part_may_show(struct part *p, uint64_t step)
{
	if (step == SYNC_NEVER || !p->here)
		return SHARD_ELSEWHERE;
	if (p->relay.have > step)
		return SHARD_OK;
	p->waited = true;
	return SHARD_HOLD;
}

/* Stored behind a row's values: the step, plus 1, that they are of; the step, plus 1, and the
 * layout epoch that they were asked for at. */
struct marks {
	uint64_t have, asked, epoch;
};

uint32_t relay_part_stride(uint32_t cols)
{
	return cols + sizeof(struct marks) / sizeof(float);
}

static struct marks row_marks(const struct part *p, const float *row)
{
	struct marks m;

	memcpy(&m, row + p->table->cols, sizeof m);
	return m;
}

static void set_row_marks(const struct part *p, float *row, struct marks m)
{
	memcpy(row + p->table->cols, &m, sizeof m);
}

enum shard_answer relay_part_copy_rows(struct part *p, uint64_t step, const uint8_t *ids,
    uint32_t n, float *out)
{
	size_t cols = p->table->cols;

	if (step == SYNC_NEVER || !p->here)
		return SHARD_ELSEWHERE;
	for (uint32_t i = 0; i < n; i++) {
		const float *row;
		uint64_t id;

		memcpy(&id, ids + (size_t)i * 8, sizeof id);
		row = rows_get(p->sparse.rows, id);
		if (!row || row_marks(p, row).have <= step) {
			p->waited = true;
			return SHARD_HOLD;
		}
		memcpy(out + i * cols, row, cols * sizeof *out);
	}
	return SHARD_OK;
}

/* Books what the partition's rows take now. */
static void book_lent_rows(struct shard *s, struct part *p)
{
	uint64_t now = rows_bytes(p->sparse.rows);

	atomic_fetch_add(&s->budget.lent, now - p->lent);
	p->lent = now;
}

/* Drops the rows of steps before `step`. They are of no use: whoever asks for `step` was told that
 * all slots have completed the steps before. */
static bool drop_old_rows(struct shard *s, struct part *p, void *step)
{
	if (!p->sparse.rows || p->relay.have > *(const uint64_t *)step || !p->lent)
		return true;
	rows_free(p->sparse.rows);
	p->sparse.rows = rows_new(relay_part_stride(p->table->cols));
	book_lent_rows(s, p);
	return true;
}

/* Drops the rows of earlier steps in all partitions, when this is the first request of the step. No
 * locks are held. */
static void begin_fetch_step(struct shard *s, uint64_t step)
{
	uint64_t last = atomic_load(&s->budget.lent_for);

	while (last <= step)
		if (atomic_compare_exchange_weak(&s->budget.lent_for, &last, step + 1)) {
			shard_each(s, drop_old_rows, &step);
			return;
		}
}

/* Is there room within mem_limit for those of these rows that are not here? */
static bool fetched_rows_fit(const struct shard *s, const struct part *p, const uint8_t *ids,
    uint32_t n)
{
	uint64_t limit = s->cfg.mem_limit, used = atomic_load(&s->budget.lent), fresh = 0;
	uint64_t each = relay_part_stride(p->table->cols) * sizeof(float) + ROW_OVERHEAD;

	if (!limit || used + n * each <= limit)
		return true;
	for (uint32_t i = 0; i < n; i++) {
		uint64_t id;

		memcpy(&id, ids + (size_t)i * 8, sizeof id);
		fresh += !rows_get(p->sparse.rows, id);
	}
	return !fresh || used + fresh * each <= limit;
}

/* Marks the row as asked for; returns false when it is here or was asked for already. *room becomes
 * false when there is no memory for it: the ids come from a peer, so that must end its request and
 * not the process. */
static bool mark_row_asked(struct part *p, const struct shard_row_request *by, uint64_t id,
    bool *room)
{
	bool made;
	float *row = rows_put(p->sparse.rows, id, &made);
	struct marks m;

	*room = row != NULL;
	if (!row)
		return false;
	m = row_marks(p, row);
	if (m.have > by->step || (m.asked > by->step && m.epoch == by->epoch))
		return false;
	m.asked = by->step + 1;
	m.epoch = by->epoch;
	set_row_marks(p, row, m);
	return true;
}

bool shard_ask_rows(struct shard *s, uint16_t table, uint32_t part,
    const struct shard_row_request *by, const uint8_t *ids, uint32_t n, uint64_t *out, uint32_t *k)
{
	uint64_t step = by->step;
	struct part *p = shard_part(s, table, part);
	bool room;

	*k = 0;
	if (!p || !p->table->sparse)
		return true;
	begin_fetch_step(s, step);
	pthread_mutex_lock(&p->lock);
	if (!p->here) {
		pthread_mutex_unlock(&p->lock);
		return true;
	}
	/* Another thread may have begun the step, and not have dropped this partition's rows
	 * yet. */
	drop_old_rows(s, p, &step);
	if (step >= p->relay.have)
		p->relay.have = step + 1;
	room = fetched_rows_fit(s, p, ids, n);
	for (uint32_t i = 0; room && i < n; i++) {
		memcpy(&out[*k], ids + (size_t)i * 8, sizeof *out);
		*k += mark_row_asked(p, by, out[*k], &room);
	}
	book_lent_rows(s, p);
	pthread_mutex_unlock(&p->lock);
	return room;
}

/* Notes that values arrived. The caller wakes whoever waits for them. */
static void note_arrival(struct part *p, uint64_t version)
{
	if (version > p->version)
		p->version = version;
	p->waited = false;
}

void shard_set_fetched(struct shard *s, uint16_t table, uint32_t part, uint64_t step,
    const float *w, uint64_t version)
{
	struct part *p = shard_part(s, table, part);

	if (!p || p->table->sparse)
		return;
	pthread_mutex_lock(&p->lock);
	if (p->here && p->relay.have <= step) {
		memcpy(p->dense.w, w, p->n * sizeof *w);
		p->relay.have = step + 1;
	}
	note_arrival(p, version);
	pthread_mutex_unlock(&p->lock);
}

void shard_set_fetched_rows(struct shard *s, uint16_t table, uint32_t part, uint64_t step,
    const uint64_t *ids, uint32_t n, const float *w, uint64_t version)
{
	struct part *p = shard_part(s, table, part);
	bool made;

	if (!p || !p->table->sparse)
		return;
	pthread_mutex_lock(&p->lock);
	for (uint32_t i = 0; p->here && i < n; i++) {
		float *row = rows_put(p->sparse.rows, ids[i], &made);

		/* Without memory for the row it stays unknown, and is asked for again. */
		if (!row || row_marks(p, row).have > step)
			continue;
		memcpy(row, w + (size_t)i * p->table->cols, p->table->cols * sizeof *w);
		set_row_marks(p, row, (struct marks){ .have = step + 1, .asked = step + 1 });
	}
	if (p->here)
		book_lent_rows(s, p);
	note_arrival(p, version);
	pthread_mutex_unlock(&p->lock);
}

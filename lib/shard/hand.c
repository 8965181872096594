#include "shard/hand.h"

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

void hand_close(struct shard *s, struct part *p)
{
	uint64_t step = p->step++;

	p->prev_same = true;
	if (too_large(p)) {
		note(p, step, PUSH_SPLIT);
		copy_settle(p);
	} else {
		copy_up(s, p, step);
	}
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

bool shard_went(struct shard *s, uint16_t table, uint32_t part, uint32_t slot, uint64_t step)
{
	struct part *p = shard_part(s, table, part);
	bool went;

	if (!p)
		return false;
	pthread_mutex_lock(&p->lock);
	went = part_last(p, slot) > step && p->step > step;
	for (const struct copy *c = p->sent; c && went; c = c->next)
		went = c->step != step;
	pthread_mutex_unlock(&p->lock);
	return went;
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
	if (step == SYNC_NEVER)
		return SHARD_ELSEWHERE;
	if (p->have > step)
		return SHARD_OK;
	p->waited = true;
	return SHARD_HOLD;
}

/* Behind a row's values: the step that they are of and that they were asked for, plus 1. */
struct marks {
	uint64_t have, asked;
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

	if (step == SYNC_NEVER)
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

uint32_t shard_lacks(struct shard *s, uint16_t table, uint32_t part, uint64_t step, const uint8_t *ids, uint32_t n,
    uint64_t *out)
{
	struct part *p = shard_part(s, table, part);
	uint32_t k = 0;
	bool made;

	if (!p || !p->table->sparse)
		return 0;
	pthread_mutex_lock(&p->lock);
	/* The rows of a step before are of no use any more. */
	if (step >= p->have) {
		rows_clear(p->rows);
		p->have = step + 1;
	}
	for (uint32_t i = 0; i < n; i++) {
		float *row;
		uint64_t id;
		struct marks m;

		memcpy(&id, ids + (size_t)i * 8, sizeof id);
		row = rows_put(p->rows, id, &made);
		if (!row)
			abort();
		m = marks_of(p, row);
		if (m.have > step || m.asked > step)
			continue;
		m.asked = step + 1;
		mark(p, row, m);
		out[k++] = id;
	}
	pthread_mutex_unlock(&p->lock);
	return k;
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
	if (p->have <= step) {
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
	for (uint32_t i = 0; i < n; i++) {
		float *row = rows_put(p->rows, ids[i], &made);

		if (!row)
			abort();
		if (marks_of(p, row).have > step)
			continue;
		memcpy(row, w + (size_t)i * p->table->cols, p->table->cols * sizeof *w);
		mark(p, row, (struct marks){ step + 1, step + 1 });
	}
	arrived(p, version);
	pthread_mutex_unlock(&p->lock);
}

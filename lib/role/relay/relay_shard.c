/* SPDX-License-Identifier: ISC */
#include "relay/relay_shard.h"

#include "core/mem.h"
#include "core/steps.h"
#include "shard/part.h"
#include "shard/repl.h"
#include "shard/shard_ops.h"
#include "wire/payload.h"

/* The state of a partition:
 *
 *    open, empty --push--> open, with a sum --complete, or a push of a later step--> closed:
 *    the sum is queued as a record, or marked split; the next step is open */

/* Recent sums whose outcomes a partition remembers. */
#define OUTCOMES 4u

/* State of the relay beside struct shard. */
struct relay_shard {
	uint64_t mem_limit;           /* bytes of fetched rows; 0: no limit */
	_Atomic uint64_t fetched;     /* bytes of the rows that are kept for pulls */
	_Atomic uint64_t fetched_for; /* the last step, plus 1, for which rows were asked for */
	_Atomic uint64_t alone;       /* the number that relay_shard_alone_count returns */
};

/* part.ops_data */
struct relay_part {
	struct relay_shard *relay;
	/* Each rank's contribution to the open sum; valid where pushes.last > step. */
	struct share {
		uint64_t incarnation;
		uint32_t examples;
	} * share;
	size_t nshare;
	/* The outcomes of the last sums, at step % OUTCOMES. */
	struct {
		uint64_t end;
		enum push_status status;
	} outcome[OUTCOMES];
	/* The step, plus 1, that the values are of (dense) or that rows were asked for at
	 * (sparse). */
	uint64_t have;
	uint64_t booked; /* bytes that the partition has booked in relay.fetched */
};

static struct relay_part *relay_part(const struct part *p)
{
	return p->ops_data;
}

static struct relay_shard *relay_of(const struct shard *s)
{
	return s->cfg.ops_data;
}

/* Servers take no larger sum. The pushes of a larger one are sent by the workers themselves. */
#define SUM_MAX (16u << 20)

/* Remembers the servers' answer to the sum of a step. */
static void note_sum_outcome(struct part *p, uint64_t step, enum push_status status)
{
	relay_part(p)->outcome[step % OUTCOMES].end = step + 1;
	relay_part(p)->outcome[step % OUTCOMES].status = status;
}

static bool sum_is_too_large(const struct part *p)
{
	return p->table->sparse &&
	    rows_count(p->sparse.acc) > (SUM_MAX - sum_body_head_bytes(SUM_CONTRIBUTORS_MAX)) /
	        (8 + PAYLOAD_COUNT_BYTES + (size_t)p->table->cols * 4);
}

/* Did some pushes of the open sum count the examples that touch each row, and others not? One sum
 * cannot say that: what does not count counts for rows, too, that only other relays' sums have. */
static bool sum_is_half_counted(const struct part *p)
{
	return p->sum.has_touching && p->sum.uncounted;
}

/* Announced pushes that were to come through this relay may have to go alone: see
 * relay_shard_alone_count. */
static void signal_goes_alone(struct shard *s, const struct part *p)
{
	atomic_fetch_add(&relay_of(s)->alone, 1);
	s->cfg.forward(s->cfg.ctx, SHARD_UPSTREAM, p->table->id, p->index);
}

static void put_sum_shares(const struct part *p, uint64_t step, uint8_t *at)
{
	for (uint32_t i = 0; i < p->pushes.nlast; i++)
		if (p->pushes.last[i] == step + 1) {
			sum_put_contributor(at,
			    &(struct sum_contributor){ i, relay_part(p)->share[i].examples,
			        relay_part(p)->share[i].incarnation });
			at += SUM_CONTRIBUTOR_BYTES;
		}
}

/* Queues the open sum with the list of its ranks for SHARD_UPSTREAM. */
static void queue_sum(struct shard *s, struct part *p, uint64_t step)
{
	uint32_t n = repl_list_pushers(p, step, NULL);
	struct repl_record *c = n ? repl_new_record(p, REPL_SUM, step, sum_body_head_bytes(n), 0)
	                          : NULL;

	mutex_assert_held(&p->lock);
	if (!c) {
		part_update_safe(p);
		return;
	}
	repl_move_sum(c, p);
	sum_body_put_head(c->head, n,
	    p->table->sparse && p->sum.contributions ? (uint32_t)rows_count(p->sparse.acc) : 0);
	put_sum_shares(p, step, c->head + SUM_HEAD_BYTES);
	repl_enqueue(s, p, c);
}

/* Queues the open step's sum, or marks it split when it cannot be sent as one, and opens the next
 * step. */
static void close_step(struct shard *s, struct part *p, const struct step_end *end)
{
	uint64_t step = p->step++;
	bool whole = !sum_is_too_large(p) && !sum_is_half_counted(p);

	mutex_assert_held(&p->lock);
	(void)end;
	p->prev_same = true;
	if (whole) {
		queue_sum(s, p, step);
	} else {
		note_sum_outcome(p, step, PUSH_SPLIT);
		part_update_safe(p);
	}
	if (!whole || p->pushes.pending)
		signal_goes_alone(s, p);
	part_clear_sum(p);
}

/* Has no rank pushed at the open step? */
static bool open_sum_is_empty(const struct part *p)
{
	for (uint32_t i = 0; i < p->pushes.nlast; i++)
		if (p->pushes.last[i] > p->step)
			return false;
	return true;
}

/* A rank is at `step`: closes the open step if it is earlier, and opens `step`. Ranks that are late
 * send their pushes by themselves. Does nothing when there is no room for another sum. */
static void jump_to_step(struct shard *s, struct part *p, uint64_t step)
{
	if (step <= p->step || !repl_may_send(p))
		return;
	if (!open_sum_is_empty(p))
		close_step(s, p, NULL);
	else if (p->pushes.pending)
		signal_goes_alone(s, p);
	p->step = step > p->step ? step : p->step;
	part_update_safe(p);
}

/* Opens the step of a push or sum. The pushes of a split sum go to the servers directly, and
 * nothing here would close their step, so for a split sum the step after it is opened at once. */
static enum shard_answer reach_step(struct shard *s, struct part *p, uint64_t step, bool split)
{
	mutex_assert_held(&p->lock);
	/* One worker must not move the others' sums to an absurd step. */
	if (step > p->step && step - p->step > STEPS_LEAP)
		return SHARD_ELSEWHERE;
	jump_to_step(s, p, step + split);
	return p->step < step + split ? SHARD_WAIT : SHARD_OK;
}

/* Opens `step` if no push came and none is announced for the open step and those before `step`. */
static void skip_to_step(struct part *p, uint64_t step)
{
	mutex_assert_held(&p->lock);
	if (p->pushes.pending || step <= p->step || !open_sum_is_empty(p))
		return;
	p->step = step;
	part_update_safe(p);
}

static void add_share(struct part *p, uint32_t rank, uint32_t examples, uint64_t incarnation)
{
	if (rank >= relay_part(p)->nshare) {
		relay_part(p)->share = mem_regrow(relay_part(p)->share, p->pushes.nlast,
		    sizeof *relay_part(p)->share);
		memset(relay_part(p)->share + relay_part(p)->nshare, 0,
		    (p->pushes.nlast - relay_part(p)->nshare) * sizeof *relay_part(p)->share);
		relay_part(p)->nshare = p->pushes.nlast;
	}
	relay_part(p)->share[rank] = (struct share){ incarnation, examples };
}

/* ---- outcomes of sums ---- */

void relay_shard_answered(struct shard *s, uint16_t table, uint32_t part, uint64_t seq,
    enum push_status status)
{
	struct part *p = shard_part(s, table, part);
	struct repl_record *c;

	if (!p)
		return;
	mutex_lock(&p->lock);
	/* A server answers a sum that it does not take at once, and one that it takes when all replicas
	 * have it. So the sums of two steps may be answered in either order. */
	for (c = p->chain.sent; c && c->seq != seq; c = c->next)
		;
	/* A duplicate of a sum is answered, too: ignore the second answer. */
	if (c) {
		note_sum_outcome(p, c->step, status);
		repl_drop(p, c);
		part_update_safe(p);
		/* The pushes in it were announced to a relay above as parts of it. That relay would
		 * wait for them, and they go past it. */
		if (status == PUSH_SPLIT)
			signal_goes_alone(s, p);
	}
	mutex_unlock(&p->lock);
}

bool relay_shard_goes_alone(struct shard *s, uint16_t table, uint32_t part, uint32_t rank,
    uint64_t step)
{
	struct part *p = shard_part(s, table, part);
	bool in, alone;

	if (!p)
		return false;
	mutex_lock(&p->lock);
	in = part_taken_end(p, rank) > step;
	alone = p->step > step;
	for (const struct repl_record *c = p->chain.sent; c && alone && in; c = c->next)
		alone = c->step != step;
	mutex_unlock(&p->lock);
	return alone;
}

uint64_t relay_shard_alone_count(struct shard *s)
{
	return atomic_load(&relay_of(s)->alone);
}

static enum push_status final_status(struct part *p, uint64_t step, enum push_status status)
{
	mutex_assert_held(&p->lock);
	if (status == PUSH_LATE)
		return status;
	/* When the outcome is not known here any more, split makes the worker ask the servers. */
	return relay_part(p)->outcome[step % OUTCOMES].end == step + 1 &&
	        relay_part(p)->outcome[step % OUTCOMES].status != PUSH_SPLIT
	    ? status
	    : PUSH_SPLIT;
}

/* ---- values ---- */

static enum shard_answer may_read(struct shard *s, struct part *p, uint64_t step)
{
	mutex_assert_held(&p->lock);
	(void)s;
	if (step == SYNC_NEVER || !p->ready)
		return SHARD_ELSEWHERE;
	if (relay_part(p)->have > step)
		return SHARD_OK;
	p->has_waiters = true;
	return SHARD_WAIT;
}

/* Stored after a row's values: the step of the values, plus 1; then the step, plus 1, and the
 * layout epoch at which they were requested. */
struct marks {
	uint64_t have, asked, epoch;
};

/* Rows of a relay have no optimizer state, and marks in place of the words of a store's rows. */
static struct row_layout lay_out_row(uint32_t cols)
{
	struct row_layout l = row_layout_make(cols, 0, false, false);

	l.bytes += (uint32_t)sizeof(struct marks);
	return l;
}

/* Gets the row of an id, or NULL. */
static void *find_row(const struct part *p, uint64_t id)
{
	void *row;

	p->sparse.store->ops->get_many(p->sparse.store, (const uint8_t *)&id, 1, &row);
	return row;
}

/* Gets the row of an id, or makes it. NULL: no memory. */
static void *find_or_make_row(struct part *p, uint64_t id)
{
	uint64_t made;
	void *row;

	return p->sparse.store->ops->make_many(p->sparse.store, (const uint8_t *)&id, 1, &row,
	           &made)
	    ? row
	    : NULL;
}

/* The caller has written to the row, which find_or_make_row has got. */
static void put_row(struct part *p, uint64_t id, void *row)
{
	row_store_put(p->sparse.store, p->version, (const uint8_t *)&id, 1, &row);
}

/* The marks of a fetched row are after its values. They are copied, since floats and marks must
 * not alias. */
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

/* For shard_ops: all rows of the request, or none. A relay keeps no versions of rows for single
 * clients, so it ignores `since` and sends every row. SHARD_WAIT until the last missing row has
 * come from the servers. SHARD_ELSEWHERE for a pull from outside of steps: it goes to the
 * servers. The partition's lock is held. */
static enum shard_answer read_rows(struct shard *s, struct part *p, struct row_read *x)
{
	size_t cols = p->table->cols;

	mutex_assert_held(&p->lock);
	(void)s;
	x->version = p->version;
	if (x->step == SYNC_NEVER || !p->ready)
		return SHARD_ELSEWHERE;
	for (uint32_t i = 0; i < x->n; i++) {
		const float *row;
		uint64_t id;

		memcpy(&id, x->ids + (size_t)i * 8, sizeof id);
		row = find_row(p, id);
		if (!row || row_marks(p, row).have <= x->step) {
			p->has_waiters = true;
			return SHARD_WAIT;
		}
		memcpy(x->out + i * cols, row, cols * sizeof *x->out);
	}
	return SHARD_OK;
}

/* Books what the partition's rows take now. */
static void book_fetched_rows(struct shard *s, struct part *p)
{
	uint64_t now = p->sparse.store->ops->bytes(p->sparse.store);

	atomic_fetch_add(&relay_of(s)->fetched, now - relay_part(p)->booked);
	relay_part(p)->booked = now;
}

/* Drops the rows of steps before `step`. They are of no use: a pull of `step` is made only when all
 * ranks have completed the steps before it. */
static bool drop_old_rows(struct shard *s, struct part *p, void *step)
{
	if (!part_has_rows(p) || relay_part(p)->have > *(const uint64_t *)step ||
	    !relay_part(p)->booked)
		return true;
	p->sparse.store->ops->open(p->sparse.store, &p->sparse.layout);
	book_fetched_rows(s, p);
	return true;
}

/* Drops the rows of earlier steps in all partitions, when this is the first request of the step. No
 * locks are held. */
static void begin_fetch_step(struct shard *s, uint64_t step)
{
	uint64_t last = atomic_load(&relay_of(s)->fetched_for);

	while (last <= step)
		if (atomic_compare_exchange_weak(&relay_of(s)->fetched_for, &last, step + 1)) {
			shard_each(s, drop_old_rows, &step);
			return;
		}
}

/* Is there room within mem_limit for the rows in `ids` that are not here? */
static bool fetched_rows_fit(const struct shard *s, const struct part *p, const uint8_t *ids,
    uint32_t n)
{
	uint64_t limit = relay_of(s)->mem_limit, used = atomic_load(&relay_of(s)->fetched),
	         fresh = 0;
	uint64_t each = p->sparse.store->ops->row_bytes(p->sparse.store, &p->sparse.layout);

	if (!limit || used + n * each <= limit)
		return true;
	for (uint32_t i = 0; i < n; i++) {
		uint64_t id;

		memcpy(&id, ids + (size_t)i * 8, sizeof id);
		fresh += !find_row(p, id);
	}
	return !fresh || used + fresh * each <= limit;
}

/* Marks the row as asked for; returns false when it is here or was asked for already. *room becomes
 * false when there is no memory for it: the ids come from a peer, so that must end its request and
 * not the process. */
static bool mark_row_asked(struct part *p, const struct relay_row_request *by, uint64_t id,
    bool *room)
{
	float *row = find_or_make_row(p, id);
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
	put_row(p, id, row);
	return true;
}

bool relay_shard_ask_rows(struct shard *s, uint16_t table, uint32_t part,
    const struct relay_row_request *by, const uint8_t *ids, uint32_t n, uint64_t *out, uint32_t *k)
{
	uint64_t step = by->step;
	struct part *p = shard_part(s, table, part);
	bool room;

	*k = 0;
	if (!p || !p->table->sparse)
		return true;
	begin_fetch_step(s, step);
	mutex_lock(&p->lock);
	if (!p->ready) {
		mutex_unlock(&p->lock);
		return true;
	}
	/* Another thread may have begun the step, and not have dropped this partition's rows
	 * yet. */
	drop_old_rows(s, p, &step);
	if (step >= relay_part(p)->have)
		relay_part(p)->have = step + 1;
	room = fetched_rows_fit(s, p, ids, n);
	for (uint32_t i = 0; room && i < n; i++) {
		memcpy(&out[*k], ids + (size_t)i * 8, sizeof *out);
		*k += mark_row_asked(p, by, out[*k], &room);
	}
	book_fetched_rows(s, p);
	mutex_unlock(&p->lock);
	return room;
}

/* Notes that values arrived. The caller wakes the waiting sessions. */
static void note_arrival(struct part *p, uint64_t version)
{
	if (version > p->version)
		p->version = version;
	p->has_waiters = false;
}

void relay_shard_set(struct shard *s, uint16_t table, uint32_t part, uint64_t step, const float *w,
    uint64_t version)
{
	struct part *p = shard_part(s, table, part);

	if (!p || p->table->sparse)
		return;
	mutex_lock(&p->lock);
	if (p->ready && relay_part(p)->have <= step) {
		part_begin_change(p);
		memcpy(p->dense.w, w, p->n * sizeof *w);
		part_end_change(p);
		relay_part(p)->have = step + 1;
	}
	note_arrival(p, version);
	mutex_unlock(&p->lock);
}

void relay_shard_set_rows(struct shard *s, uint16_t table, uint32_t part, uint64_t step,
    const uint64_t *ids, uint32_t n, const float *w, uint64_t version)
{
	struct part *p = shard_part(s, table, part);

	if (!p || !p->table->sparse)
		return;
	mutex_lock(&p->lock);
	for (uint32_t i = 0; p->ready && i < n; i++) {
		float *row = find_or_make_row(p, ids[i]);

		/* Without memory for the row it stays unknown, and is asked for again. */
		if (!row || row_marks(p, row).have > step)
			continue;
		memcpy(row, w + (size_t)i * p->table->cols, p->table->cols * sizeof *w);
		set_row_marks(p, row, (struct marks){ .have = step + 1, .asked = step + 1 });
		put_row(p, ids[i], row);
	}
	if (p->ready)
		book_fetched_rows(s, p);
	note_arrival(p, version);
	mutex_unlock(&p->lock);
}

/* ---- the shard ---- */

static void alloc_rows(struct part *p, const struct shard_config *cfg)
{
	(void)cfg;
	p->sparse.layout = lay_out_row(p->table->cols);
	p->sparse.store->ops->open(p->sparse.store, &p->sparse.layout);
}

static enum err_code init_part(struct part *p, struct shard *s, struct err *e)
{
	relay_part(p)->relay = relay_of(s);
	return part_alloc(p, s, e);
}

static void release_values(struct part *p)
{
	struct relay_part *r = relay_part(p);

	if (r->relay)
		atomic_fetch_sub(&r->relay->fetched, r->booked);
	r->booked = 0;
}

static void free_part(struct part *p)
{
	free(relay_part(p)->share);
}

static void free_shard(struct shard *s)
{
	free(relay_of(s));
}

/* The servers find out from CLOCKs which steps are closed. */
static void tell_nobody(struct shard *s, struct part *p)
{
	(void)s;
	(void)p;
}

static const struct shard_ops relay_ops = {
	.part_bytes = sizeof(struct relay_part),
	.rank_bytes = sizeof(struct share),
	.next = SHARD_UPSTREAM,
	.takes_outside = false,
	.may_close_early = true,
	/* A push that comes after the sum of its step was sent goes up by itself. */
	.status_if_closed = PUSH_SPLIT,
	.may_pull = sync_may_fetch,
	.may_prefetch = sync_may_fetch,
	.alloc_rows = alloc_rows,
	.init = init_part,
	.release_values = release_values,
	.free_part = free_part,
	.free_shard = free_shard,
	.reach_step = reach_step,
	.note_push = add_share,
	.close_step = close_step,
	.skip_steps = skip_to_step,
	.tell_closed = tell_nobody,
	.final_status = final_status,
	.may_read = may_read,
	.read_rows = read_rows,
};

enum err_code relay_shard_new(const struct shard_config *cfg, struct shard **out, struct err *e)
{
	struct shard_config own = *cfg;
	struct relay_shard *relay = mem_alloc(sizeof *relay);
	enum err_code rc;

	relay->mem_limit = cfg->mem_limit;
	own.mem_limit = 0;
	own.deltas = own.row_versions = false;
	/* The shard needs an update rule, though it makes no updates: take one without state. */
	own.rule = optim_find("sgd");
	own.tables.n = 0;
	own.ops = &relay_ops;
	own.ops_data = relay;
	rc = shard_new(&own, out, e);
	if (rc)
		free(relay);
	return rc;
}

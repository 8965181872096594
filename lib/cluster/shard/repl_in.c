/* SPDX-License-Identifier: ISC */
#include "core/endian.h"
#include "codec/codec.h"
#include "coord/coord.h"
#include "core/mem.h"
#include "shard/gate.h"
#include "shard/repl.h"
#include "shard/settings_epoch.h"
#include "shard/row_policy_state.h"
#include "wire/payload.h"

/* Replication, the receiving side: takes the records of the previous replica, which repl.c
 * writes. */

/* A parsed record. */
struct incoming {
	const struct repl_record *c;
	uint64_t version;
	struct part_sum_size sum_size;
	uint32_t n, nrows;
	bool has_touching; /* REPL_PUSH: the counts of examples by row follow the values */
	uint32_t clock;    /* lower half of the row policy's clock */
	uint32_t settings_number;
	/* the epoch of the update; NULL: not known here yet. Set under the partition's lock. */
	const struct settings_epoch *settings;
	/* The list of ranks; for a state its head, and then (last, end, steps, refused) by
	 * rank. */
	const uint8_t *list;
	const uint8_t *body;
	size_t nbody;
};

/* Are all ranks within range? Arrays by rank grow to the highest one, so no number from the wire
 * may make them larger than there can be workers. */
static bool ranks_in_range(const struct incoming *in)
{
	if (in->c->kind == REPL_PUSH)
		return in->n < COORD_WORKERS_MAX || in->n == SHARD_OUTSIDE;
	for (uint32_t i = 0; in->c->kind != REPL_STATE && i < in->n; i++)
		if ((get_le32(in->list + (size_t)i * 4) & ~REPL_REFUSED) >= COORD_WORKERS_MAX)
			return false;
	return in->n <= COORD_WORKERS_MAX;
}

/* Splits a payload into head, list and body. False: it is shorter than its counts say, or names a
 * rank that cannot be. The body's length is checked later, by the function for the record's
 * kind. */
static bool parse_record(const struct repl_record *c, const uint8_t *p, size_t len,
    struct incoming *in)
{
	size_t nlist;

	if (len < REPL_HEAD)
		return false;
	*in = (struct incoming){ .c = c,
		.version = get_le64(p),
		.sum_size = { get_le64(p + 8), get_le64(p + 32) },
		.has_touching = get_le32(p + 40),
		.n = get_le32(p + 16),
		.nrows = get_le32(p + 20),
		.settings_number = get_le32(p + 24),
		.clock = get_le32(p + 28),
		.list = p + REPL_HEAD };
	if (c->kind == REPL_PUSH)
		nlist = 0;
	else
		nlist = c->kind == REPL_STATE ? REPL_STATE_HEAD + (size_t)in->n * REPL_STATE_RANK
		                              : ((size_t)in->n * 4 + 7) / 8 * 8;
	if (len - REPL_HEAD < nlist)
		return false;
	in->body = in->list + nlist;
	in->nbody = len - REPL_HEAD - nlist;
	return ranks_in_range(in);
}

/* ---- a step, with or without a sum ---- */

/* Applies the record of a bsp step. */
static enum shard_answer apply_sum_record(struct shard *s, struct part *p,
    const struct incoming *in)
{
	uint64_t step = in->c->step;
	uint32_t cols = p->table->cols;
	size_t want = p->table->sparse ? (size_t)in->nrows * (8 + cols * 4) : p->n * 4;
	const uint8_t *values = in->body + (p->table->sparse ? (size_t)in->nrows * 8 : 0);

	const uint8_t *touching = NULL;

	if (p->table->sparse && in->nrows &&
	    in->nbody == want + (size_t)in->nrows * PAYLOAD_COUNT_BYTES)
		touching = in->body + want;
	if (in->nbody && ((in->nbody != want && !touching) || (uintptr_t)values % 4))
		return SHARD_BAD;
	/* This record was applied before; the sender has not had the acknowledgement. */
	if (step < p->step || in->version < p->version + (in->nbody != 0))
		return SHARD_OK;
	if (in->version != p->version + (in->nbody != 0))
		return SHARD_BAD;
	snapshot_before_update(s, p, step);
	settings_epoch_set(s, p, in->settings);
	if (!part_update(p, step, in->nbody ? (const float *)(const void *)values : NULL, in->nrows,
	        in->body, touching, &in->sum_size))
		return SHARD_BAD;
	for (uint32_t i = 0; i < in->n; i++) {
		uint32_t rank = get_le32(in->list + (size_t)i * 4);

		part_set_last(p, rank & ~REPL_REFUSED, step + 1);
		if (rank & REPL_REFUSED)
			part_set_refused(p, rank & ~REPL_REFUSED, step);
	}
	gate_note_closed(s, step + 1);
	return SHARD_OK;
}

/* ---- a push ---- */

/* Applies the record of a push. */
static enum shard_answer apply_push_record(struct shard *s, struct part *p,
    const struct incoming *in)
{
	size_t nids = (size_t)in->nrows * 8,
	       counts = in->has_touching ? (size_t)in->nrows * PAYLOAD_COUNT_BYTES : 0;
	struct push push = { .rank = in->n,
		.step = in->c->step,
		.table = in->c->table,
		.part = in->c->part,
		.codec = in->c->codec,
		.examples = (uint32_t)in->sum_size.examples,
		.nrows = in->nrows,
		.ids = in->body };
	const struct codec *codec = codec_by_id(push.codec);

	if (in->version <= p->version && in->nbody)
		return SHARD_OK;
	/* The record of a refused push has no body. */
	if (in->nbody) {
		if (in->nbody < nids + counts || in->version != p->version + 1 || !codec)
			return SHARD_BAD;
		push.payload = in->body + nids;
		push.len = in->nbody - nids - counts;
		push.touching = counts ? in->body + nids + push.len : NULL;
		if (codec->check(push.payload, push.len,
		        p->table->sparse ? (size_t)in->nrows * p->table->cols : p->n) != CODEC_GOOD)
			return SHARD_BAD;
		snapshot_before_update(s, p, p->step);
		settings_epoch_set(s, p, in->settings);
		if (push.rank == SHARD_OUTSIDE && p->sparse.policy_state)
			row_policy_state_set_step(p,
			    p->sparse.policy_state->clock +
			        (uint32_t)(in->clock - (uint32_t)p->sparse.policy_state->clock));
		if (!part_apply_push(p, &push, in->sum_size.divisor ? in->sum_size.divisor : 1))
			return SHARD_BAD;
	}
	if (push.rank != SHARD_OUTSIDE && !part_has_taken(p, push.rank, push.step)) {
		part_set_last(p, push.rank, push.step + 1);
		if (!in->nbody)
			part_set_refused(p, push.rank, push.step);
		gate_note_pushed(s, push.rank, push.step + 1);
	}
	return SHARD_OK;
}

/* ---- a state transfer ---- */

/* Reads the first `copied` bytes of n rows into the table and moves after them: *left gets what
 * remains. Returns NULL when bytes or memory are missing. */
static const uint8_t *get_state_rows(struct rows *rows, const uint8_t *at, size_t *left, uint32_t n,
    size_t copied)
{
	size_t bytes = (size_t)n * (8 + copied);

	if (*left < bytes)
		return NULL;
	for (uint32_t i = 0; i < n; i++) {
		bool made;
		void *row = rows_put(rows, get_le64(at + (size_t)i * 8), &made);

		if (!row)
			return NULL;
		memcpy(row, at + (size_t)n * 8 + i * copied, copied);
	}
	*left -= bytes;
	return at + bytes;
}

/* Does what get_state_rows does, for the partition's own rows: reads what all replicas have in
 * common of each. */
static const uint8_t *get_store_rows(struct part *p, uint64_t version, const uint8_t *at,
    size_t *left, uint32_t n)
{
	struct row_store *store = p->sparse.store;
	size_t copied = row_layout_copied(&p->sparse.layout), bytes = (size_t)n * (8 + copied);

	if (*left < bytes)
		return NULL;
	for (uint32_t i = 0, some; i < n; i += some) {
		const uint8_t *ids = at + (size_t)i * 8, *from = at + (size_t)n * 8 + i * copied;
		void *row[ROWS_BLOCK];
		uint64_t made;

		some = n - i < ROWS_BLOCK ? n - i : ROWS_BLOCK;
		if (!store->ops->make_many(store, ids, some, row, &made))
			return NULL;
		for (uint32_t k = 0; k < some; k++)
			memcpy(row[k], from + k * copied, copied);
		row_store_put(store, version, ids, some, row);
		/* A state transfer is as long as the rows: it may wait for the disk. */
		row_store_drain(store);
	}
	*left -= bytes;
	return at + bytes;
}

/* Reads n floats and returns the place after them; NULL when bytes are missing. at NULL stays
 * NULL, so that calls can follow each other without a test. */
static const uint8_t *get_state_floats(float *x, const uint8_t *at, size_t *left, size_t n)
{
	if (!at || *left < n * 4)
		return NULL;
	memcpy(x, at, n * 4);
	*left -= n * 4;
	return at + n * 4;
}

/* Reads the state of the row policy, which is the last thing in a body and takes all that is left
 * of it. */
static const uint8_t *get_row_policy(struct row_policy_state *state, const uint8_t *at,
    size_t *left)
{
	size_t n = *left / 8;
	uint64_t *words = mem_array(n, sizeof *words);
	bool good;

	for (size_t i = 0; i < n; i++)
		words[i] = get_le64(at + i * 8);
	good = row_policy_state_get(state, words, n);
	free(words);
	*left -= n * 8;
	return good ? at + n * 8 : NULL;
}

/* Reads what encode_state (repl.c) wrote. False: malformed, or no memory. */
static bool decode_state(struct part *p, const struct incoming *in)
{
	size_t nvectors = p->optim.rule->nvectors, cols = p->table->cols, left = in->nbody;
	const uint8_t *at = in->body;

	if (p->table->sparse) {
		at = get_store_rows(p, in->version, at, &left, in->nrows);
		if (at && p->sparse.prev)
			at = get_state_rows(p->sparse.prev, at, &left, get_le32(in->list),
			    cols * sizeof(float));
		if (at && p->sparse.policy_state)
			at = get_row_policy(p->sparse.policy_state, at, &left);
	} else {
		at = get_state_floats(p->dense.w, at, &left, p->n);
		at = get_state_floats(p->dense.state, at, &left, p->n * nvectors);
		if (at && p->dense.prev)
			at = get_state_floats(p->dense.prev, at, &left, p->n);
	}
	return at && left == 0;
}

/* Replaces the partition by a state transfer, which begins a new tenure. */
static enum shard_answer install_state(struct shard *s, struct part *p, const struct incoming *in)
{
	atomic_fetch_add(&p->tenure, 1);
	/* part_alloc drops the values that were here, so until the transfer is complete there is no
	 * replica here. */
	p->ready = false;
	settings_epoch_begin(p, in->settings);
	if (part_alloc(p, s, NULL))
		return SHARD_BAD;
	if (!decode_state(p, in)) {
		part_release_values(s, p);
		return SHARD_BAD;
	}
	p->version = in->version;
	p->rule_began = get_le64(in->list + 8);
	part_forget_changes(p);
	p->step = in->c->step;
	p->prev_same = get_le32(in->list + 4);
	p->prev_version = p->version - !p->prev_same;
	for (uint32_t i = 0; i < in->n; i++) {
		const uint8_t *at = in->list + REPL_STATE_HEAD + (size_t)i * REPL_STATE_RANK;

		part_set_last(p, i, get_le64(at));
		/* In modes that close steps, gate_note_closed says how far the partition is. */
		if (get_le64(at) && !settings_epoch_closes_step(s, p->step))
			gate_note_pushed(s, i, get_le64(at));
		part_set_refused_bits(p, i, get_le64(at + 24));
		/* Added to the announcements that workers made here meanwhile. */
		part_merge_expected(p, i, get_le64(at + 8), get_le64(at + 16));
	}
	/* The sender has taken no push of other ranks, so this replica has none. Forget the pushes
	 * that this server took in an earlier tenure: if such a push came again, it would be
	 * answered "duplicate", although the state that was just installed does not have it. */
	for (uint32_t i = in->n; i < p->pushes.nlast; i++)
		part_set_last(p, i, 0);
	p->ready = true;
	atomic_store(&p->gone, false);
	settings_epoch_enter_mode(s, p);
	gate_note_closed(s, p->step);
	return SHARD_OK;
}

/* Passes a record on to the next replica, if there is one. */
static void pass_on_record(struct shard *s, struct part *p, const struct incoming *in)
{
	const struct repl_record *c = in->c;

	mutex_assert_held(&p->lock);
	if (p->chain.next != NO_SERVER)
		repl_pass_on(s, p, c, in->list - REPL_HEAD,
		    (size_t)(in->body - in->list) + REPL_HEAD, in->body, in->nbody);
	part_update_safe(p);
}

/* Applies a record of any kind and passes it on; the partition's lock is held. */
static enum shard_answer apply_record(struct shard *s, struct part *p, const struct incoming *in)
{
	uint64_t version = p->version, step = p->step;
	enum shard_answer a;

	mutex_assert_held(&p->lock);
	if (p->chain.head || (!p->ready && in->c->kind != REPL_STATE))
		return SHARD_ELSEWHERE;
	/* Wait for room in the queue, or until the update's settings epoch is known here. */
	if (!repl_may_send(p) || !in->settings) {
		p->has_waiters = true;
		return SHARD_WAIT;
	}
	/* A state that is repeated, or that comes to a member of the chain, is here already:
	 * acknowledge it again. */
	if (in->c->kind == REPL_STATE)
		a = p->ready && (p->in_chain || in->version <= p->version)
		    ? SHARD_OK
		    : install_state(s, p, in);
	else if (in->c->kind == REPL_PUSH)
		a = apply_push_record(s, p, in);
	else
		a = apply_sum_record(s, p, in);
	if (a == SHARD_OK && in->c->kind != REPL_STATE &&
	    (p->version != version || p->step != step || !in->nbody))
		pass_on_record(s, p, in);
	if (a == SHARD_OK) {
		gate_pass_empty_steps(s, p);
		part_update_safe(p);
	}
	return a;
}

/* The number of rows that the record changes, whose ids its body begins with. 0 for a state
 * transfer, which replaces all rows, and for a record that is too short for them. */
static uint32_t rows_in_body(const struct part *p, const struct incoming *in)
{
	return p->table->sparse && in->c->kind != REPL_STATE && in->nbody / 8 >= in->nrows
	    ? in->nrows
	    : 0;
}

enum shard_answer shard_replicate(struct shard *s, const struct repl_record *c,
    const uint8_t *payload, size_t len, struct receipt_condition *due)
{
	struct part *p = shard_part(s, c->table, c->part);
	struct incoming in;
	enum shard_answer a;
	bool wake;

	if (!p || !parse_record(c, payload, len, &in))
		return p ? SHARD_BAD : SHARD_ELSEWHERE;
	a = part_lock_rows(s, p, in.body, rows_in_body(p, &in));
	if (a != SHARD_OK)
		return a;
	in.settings = settings_epoch_by_number(s, in.settings_number);
	a = apply_record(s, p, &in);
	*due = (struct receipt_condition){ .tenure = atomic_load(&p->tenure),
		.version = in.version,
		.steps = c->kind == REPL_PUSH || c->kind == REPL_STATE ? 0 : c->step + 1,
		/* A refused push makes no version, so its record itself must reach the replicas
		 * after this one. */
		.seq = c->kind == REPL_PUSH && !in.nbody ? p->chain.next_seq : 0 };
	budget_book_rows(p, &s->budget);
	wake = a == SHARD_OK && p->has_waiters;
	if (wake)
		p->has_waiters = false;
	part_unlock_rows(p);
	if (wake)
		s->cfg.wake(s->cfg.ctx);
	return a;
}

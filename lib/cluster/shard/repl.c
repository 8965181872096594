/* SPDX-License-Identifier: ISC */
#include "shard/apply.h"
#include "shard/repl.h"

#include "core/endian.h"
#include "core/mem.h"
#include "shard/settings_epoch.h"
#include "shard/row_policy_state.h"
#include "wire/payload.h"

/* The size of a head with `more` bytes after the fixed part, padded to 8 bytes. */
static size_t repl_head_bytes(size_t more)
{
	return REPL_HEAD + (more + 7) / 8 * 8;
}

struct repl_record *repl_new_record(struct part *p, enum repl_kind kind, uint64_t step,
    size_t nhead, size_t nbody)
{
	struct repl_record *c = mem_alloc(sizeof *c);

	mutex_assert_held(&p->lock);
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

/* Writes the fixed part of a head, REPL_HEAD bytes, from the partition as it is now: call it
 * after the update that the record is about. n: the number of ranks in the list, or the rank of a
 * push. */
static void fill_record_head(struct repl_record *c, const struct part *p,
    const struct part_sum_size *size, uint32_t n, uint32_t nrows)
{
	put_le64(c->head, c->version);
	put_le64(c->head + 8, size->examples);
	put_le32(c->head + 16, n);
	put_le32(c->head + 20, nrows);
	put_le32(c->head + 24, p->settings->number);
	/* For pushes from outside, whose step replicas cannot know otherwise. */
	put_le32(c->head + 28,
	    p->sparse.policy_state ? (uint32_t)p->sparse.policy_state->clock : 0);
	put_le64(c->head + 32, size->divisor);
}

static const struct part_sum_size no_examples;

static void free_record(struct repl_record *c)
{
	free(c->head);
	free(c->body);
	free(c);
}

void repl_enqueue(struct shard *s, struct part *p, struct repl_record *c)
{
	mutex_assert_held(&p->lock);
	c->seq = ++p->chain.next_seq;
	*p->chain.sent_last = c;
	p->chain.sent_last = &c->next;
	p->chain.nsent++;
	part_update_safe(p);
	s->cfg.forward(s->cfg.ctx, p->chain.next, c->table, c->part);
}

bool repl_may_send(const struct part *p)
{
	mutex_assert_held(&p->lock);
	return p->chain.next == NO_SERVER ||
	    (p->chain.nsent < SHARD_SENT_MAX && (!p->dense.acc || p->dense.spare));
}

/* ---- changes ---- */

uint32_t repl_list_pushers(const struct part *p, uint64_t step, uint8_t *out)
{
	uint32_t n = 0;

	mutex_assert_held(&p->lock);
	for (uint32_t i = 0; i < p->pushes.nlast; i++)
		if (p->pushes.last[i] == step + 1) {
			if (out)
				put_le32(out + (size_t)n * 4,
				    i | (part_was_refused(p, i, step) ? REPL_REFUSED : 0));
			n++;
		}
	return n;
}

/* Copies the accumulated rows: all ids, then all values, and then, where it is known, how many
 * examples touch each. */
static void fill_rows_body(struct repl_record *c, const struct part *p)
{
	size_t n = rows_count(p->sparse.acc), cols = p->table->cols;

	size_t row = 8 + cols * 4 + (p->sum.has_touching ? PAYLOAD_COUNT_BYTES : 0);

	c->nbody = n * row;
	c->body = mem_array(n, row);
	for (size_t i = 0; i < n; i++) {
		uint64_t id;
		const float *g = rows_at(p->sparse.acc, i, &id);

		put_le64(c->body + i * 8, id);
		memcpy(c->body + n * 8 + i * cols * 4, g, cols * 4);
		if (p->sum.has_touching)
			put_le32(c->body + n * (8 + cols * 4) + i * PAYLOAD_COUNT_BYTES,
			    part_rows_touching(p, id));
	}
}

/* A dense accumulator is moved, not copied; the spare one takes its place. */
void repl_move_sum(struct repl_record *c, struct part *p)
{
	mutex_assert_held(&p->lock);
	if (p->sum.contributions && p->table->sparse) {
		fill_rows_body(c, p);
	} else if (p->sum.contributions) {
		c->body = (uint8_t *)p->dense.acc;
		c->nbody = p->n * sizeof *p->dense.acc;
		p->dense.acc = p->dense.spare;
		p->dense.spare = NULL;
	}
}

void repl_queue_sum(struct shard *s, struct part *p, uint64_t step,
    const struct part_sum_size *size, bool explicit_step)
{
	uint32_t n = repl_list_pushers(p, step, NULL);
	struct repl_record *c;

	mutex_assert_held(&p->lock);
	if (p->chain.next == NO_SERVER || (!n && !explicit_step)) {
		part_update_safe(p);
		return;
	}
	c = repl_new_record(p, p->sum.contributions ? REPL_SUM : REPL_STEP, step,
	    repl_head_bytes((size_t)n * 4), 0);
	repl_list_pushers(p, step, c->head + REPL_HEAD);
	repl_move_sum(c, p);
	fill_record_head(c, p, size, n,
	    p->table->sparse && p->sum.contributions ? (uint32_t)rows_count(p->sparse.acc) : 0);
	repl_enqueue(s, p, c);
}

void repl_queue_step(struct shard *s, struct part *p, uint64_t step)
{
	struct repl_record *c = repl_new_record(p, REPL_STEP, step, repl_head_bytes(0), 0);

	mutex_assert_held(&p->lock);
	fill_record_head(c, p, &no_examples, 0, 0);
	repl_enqueue(s, p, c);
}

void repl_queue_push(struct shard *s, struct part *p, const struct push *push,
    uint64_t rate_divisor, bool refused)
{
	size_t nids = (size_t)push->nrows * 8,
	       counts = push->touching ? (size_t)push->nrows * PAYLOAD_COUNT_BYTES : 0;
	struct repl_record *c;

	mutex_assert_held(&p->lock);
	if (p->chain.next == NO_SERVER) {
		part_update_safe(p);
		return;
	}
	c = repl_new_record(p, REPL_PUSH, push->step, repl_head_bytes(0),
	    refused ? 0 : nids + push->len + counts);
	c->codec = push->codec;
	if (!refused) {
		c->body = mem_alloc(c->nbody);
		if (nids)
			memcpy(c->body, push->ids, nids);
		memcpy(c->body + nids, push->payload, push->len);
		if (counts)
			memcpy(c->body + nids + push->len, push->touching, counts);
	}
	fill_record_head(c, p, &(struct part_sum_size){ push->examples, rate_divisor }, push->rank,
	    push->nrows);
	put_le32(c->head + 40, counts != 0);
	repl_enqueue(s, p, c);
}

void repl_pass_on(struct shard *s, struct part *p, const struct repl_record *in,
    const uint8_t *head, size_t nhead, const uint8_t *body, size_t nbody)
{
	struct repl_record *c = mem_alloc(sizeof *c);

	mutex_assert_held(&p->lock);
	*c = (struct repl_record){ .kind = in->kind,
		.table = in->table,
		.codec = in->codec,
		.part = in->part,
		.step = in->step,
		.version = p->version,
		.nhead = nhead,
		.nbody = nbody };
	c->head = mem_alloc(nhead);
	memcpy(c->head, head, nhead);
	if (nbody) {
		c->body = mem_alloc(nbody);
		memcpy(c->body, body, nbody);
	}
	repl_enqueue(s, p, c);
}

/* ---- a state transfer ---- */

/* Writes n floats at `at` and returns their bytes; at NULL: only counts them. */
static size_t put_state_floats(uint8_t *at, const float *x, size_t n)
{
	if (at)
		memcpy(at, x, n * 4);
	return n * 4;
}

/* Writes all rows, first the ids and then the first `copied` bytes of each row, and returns the
 * bytes; at NULL: only counts them. */
static size_t put_state_rows(uint8_t *at, const struct rows *rows, size_t copied)
{
	size_t n = rows_count(rows);

	for (size_t i = 0; at && i < n; i++) {
		uint64_t id;
		const void *row = rows_at(rows, i, &id);

		put_le64(at + i * 8, id);
		memcpy(at + n * 8 + i * copied, row, copied);
	}
	return n * (8 + copied);
}

/* Does what put_state_rows does, for the partition's own rows: writes what all replicas have in
 * common of each. */
static size_t put_store_rows(uint8_t *at, const struct part *p)
{
	struct row_store *store = p->sparse.store;
	size_t all = store->ops->count(store), copied = row_layout_copied(&p->sparse.layout);
	uint64_t ids[ROWS_BLOCK], next = 0;
	uint8_t *to = at ? at + all * 8 : NULL;
	void *row[ROWS_BLOCK];
	uint32_t n;

	while (at && (n = store->ops->next(store, &next, ROWS_BLOCK, ids, row)) > 0)
		for (uint32_t i = 0; i < n; i++, at += 8, to += copied) {
			put_le64(at, ids[i]);
			memcpy(to, row[i], copied);
		}
	return all * (8 + copied);
}

/* The state of the row policy. */
static size_t put_row_policy(uint8_t *at, const struct row_policy_state *state)
{
	size_t n = row_policy_state_words(state);
	uint64_t *words = at && n ? mem_array(n, sizeof *words) : NULL;

	if (words) {
		row_policy_state_put(state, words);
		for (size_t i = 0; i < n; i++)
			put_le64(at + i * 8, words[i]);
	}
	free(words);
	return n * 8;
}

/* Writes the partition's values and state. Returns the length; at NULL: only that. repl_in.c reads
 * it in decode_state. */
static size_t encode_state(const struct part *p, uint8_t *at)
{
	size_t nvectors = p->optim.rule->nvectors, cols = p->table->cols, len;

	if (p->table->sparse) {
		len = put_store_rows(at, p);
		len += p->sparse.prev
		    ? put_state_rows(at ? at + len : NULL, p->sparse.prev, cols * sizeof(float))
		    : 0;
		return len + put_row_policy(at ? at + len : NULL, p->sparse.policy_state);
	}
	len = put_state_floats(at, p->dense.w, p->n);
	len += put_state_floats(at ? at + len : NULL, p->dense.state, p->n * nvectors);
	return len +
	    (p->dense.prev ? put_state_floats(at ? at + len : NULL, p->dense.prev, p->n) : 0);
}

/* Writes what the rank has pushed and what it announced. Where pushes of the open step are in a
 * sum, this stays here and is sent with the step's record. They are written as announced, not as
 * taken: if the receiver were the only replica left, they would have to be pushed again. */
static void put_state_rank(const struct shard *s, const struct part *p, uint32_t rank, uint8_t *at)
{
	bool open = apply_step_ops(s, p, p->step)->holds_pushes && p->pushes.last[rank] > p->step;
	uint64_t end = part_expected_end(p, rank),
	         steps = end ? p->pushes.announced[rank].steps : 0,
	         refused = part_refused_bits(p, rank);

	if (open && end <= p->step) {
		steps = p->step + 1 - end < 64 ? steps << (p->step + 1 - end) : 0;
		end = p->step + 1;
	}
	if (open && end - 1 - p->step < 64)
		steps |= UINT64_C(1) << (end - 1 - p->step);
	/* The bits of `refused` count from last[rank]; move them so that they count from
	 * p->step. */
	if (open)
		refused = p->pushes.last[rank] - p->step < 64
		    ? refused >> (p->pushes.last[rank] - p->step)
		    : 0;
	put_le64(at, open ? p->step : p->pushes.last[rank]);
	put_le64(at + 8, end);
	put_le64(at + 16, steps);
	put_le64(at + 24, refused);
}

/* Queues the whole partition as a record. False: its row store has given up. */
static bool send_state(struct shard *s, struct part *p)
{
	struct repl_record *c = repl_new_record(p, REPL_STATE, p->step,
	    repl_head_bytes(REPL_STATE_HEAD + p->pushes.nlast * REPL_STATE_RANK),
	    encode_state(p, NULL));
	uint8_t *at = c->head + REPL_HEAD;

	put_le32(at, p->sparse.prev ? (uint32_t)rows_count(p->sparse.prev) : 0);
	put_le32(at + 4, p->prev_same);
	put_le64(at + 8, p->rule_began);
	for (uint32_t i = 0; i < p->pushes.nlast; i++)
		put_state_rank(s, p, i, at + REPL_STATE_HEAD + i * REPL_STATE_RANK);
	c->body = mem_alloc(c->nbody + 1);
	encode_state(p, c->body);
	if (p->table->sparse && row_store_has_failed(p->sparse.store)) {
		free_record(c);
		return false;
	}
	fill_record_head(c, p, &no_examples, (uint32_t)p->pushes.nlast,
	    p->table->sparse ? (uint32_t)p->sparse.store->ops->count(p->sparse.store) : 0);
	repl_enqueue(s, p, c);
	return true;
}

/* ---- the next replica ---- */

void repl_drop(struct part *p, struct repl_record *c)
{
	struct repl_record **at = &p->chain.sent;

	mutex_assert_held(&p->lock);
	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	if (!*at)
		p->chain.sent_last = at;
	p->chain.nsent--;
	if (c->kind == REPL_SUM && !p->table->sparse && !p->dense.spare &&
	    p->chain.next != NO_SERVER) {
		p->dense.spare = (float *)(void *)c->body;
		c->body = NULL;
	}
	free_record(c);
}

void repl_drop_all(struct part *p)
{
	mutex_assert_held(&p->lock);
	while (p->chain.sent)
		repl_drop(p, p->chain.sent);
}

void repl_set_next(struct shard *s, struct part *p, uint16_t next, uint64_t process)
{
	bool begun = p->chain.next != NO_SERVER && p->chain.sent &&
	    p->chain.sent->kind == REPL_STATE;

	mutex_assert_held(&p->lock);
	if (p->chain.next != next || p->chain.next_process != process) {
		/* A state transfer that was begun is useless now; changes that count are sent again
		 * to the new server. */
		if (next == NO_SERVER || begun || !p->chain.required)
			repl_drop_all(p);
		p->chain.next = next;
		p->chain.next_process = process;
		p->chain.required = next != NO_SERVER;
		p->chain.synced = false;
		for (struct repl_record *c = p->chain.sent; c; c = c->next)
			c->session = 0;
		if (p->chain.sent)
			s->cfg.forward(s->cfg.ctx, next, p->table->id, p->index);
	}
	part_update_safe(p);
}

/* Begins to send the partition to the joining server, if that is due. Returns false, which ends
 * shard_each, when it was begun. */
static bool begin_state_transfer(struct shard *s, struct part *p, void *ctx)
{
	uint16_t server = *(const uint16_t *)ctx;

	if (!p->ready || !p->chain.tail || p->chain.joining != server || p->chain.next != NO_SERVER)
		return true;
	p->chain.next = server;
	p->chain.next_process = p->chain.joining_process;
	p->chain.required = p->chain.synced = false;
	/* Without memory for a second sum, closing the step would wait forever. */
	if ((p->chain.head && part_alloc_head(p, s, NULL)) || !send_state(s, p)) {
		p->chain.next = NO_SERVER;
		return true;
	}
	return false;
}

bool shard_send_next_state(struct shard *s, uint16_t server)
{
	return !shard_each(s, begin_state_transfer, &server);
}

/* The counts of shard_count_states while the partitions are visited. */
struct transfers {
	uint16_t server;
	uint64_t all, begun, done;
};

/* Counts one partition. `done` means synced: the layout may count the joining server in. */
static bool count_state_transfer(struct shard *s, struct part *p, void *ctx)
{
	struct transfers *f = ctx;

	(void)s;
	if (p->ready && p->chain.tail && p->chain.joining == f->server) {
		f->all++;
		f->begun += p->chain.next == f->server;
		f->done += p->chain.next == f->server && p->chain.synced;
	}
	return true;
}

void shard_count_states(struct shard *s, uint16_t server, uint64_t *all, uint64_t *begun,
    uint64_t *done)
{
	struct transfers f = { .server = server };

	shard_each(s, count_state_transfer, &f);
	*all = f.all;
	*begun = f.begun;
	*done = f.done;
}

bool repl_has_unsafe_push(const struct part *p, uint32_t rank, uint64_t end)
{
	mutex_assert_held(&p->lock);
	for (const struct repl_record *c = p->chain.required ? p->chain.sent : NULL; c; c = c->next)
		if (c->kind == REPL_PUSH ? get_le32(c->head + 16) == rank
		                         : c->kind != REPL_STATE && c->step < end)
			return true;
	return false;
}

/* ---- sending and acknowledgements ---- */

void shard_send(struct shard *s, uint16_t server, uint64_t session, uint16_t table, uint32_t part,
    bool (*put)(void *ctx, const struct repl_record *c), void *ctx)
{
	struct part *p = shard_part(s, table, part);

	if (!p)
		return;
	mutex_lock(&p->lock);
	for (struct repl_record *c = p->chain.next == server ? p->chain.sent : NULL; c;
	     c = c->next) {
		if (c->session == session)
			continue;
		if (!put(ctx, c))
			break;
		c->session = session;
	}
	mutex_unlock(&p->lock);
}

/* Drops the records that the next replica has acknowledged. */
static void drop_acknowledged(struct part *p, uint64_t seq)
{
	while (p->chain.sent && p->chain.sent->seq <= seq) {
		bool state = p->chain.sent->kind == REPL_STATE;

		repl_drop(p, p->chain.sent);
		if (!state)
			continue;
		/* The next replica has its state transfer: from now on nothing is safe without
		 * it. */
		p->chain.required = true;
		p->chain.joined_version = p->version;
	}
	part_update_safe(p);
	if (p->chain.required && p->chain.joining == p->chain.next &&
	    atomic_load(&p->chain.safe_version) >= p->chain.joined_version)
		p->chain.synced = true;
}

void shard_acknowledged(struct shard *s, uint16_t server, uint16_t table, uint32_t part,
    uint64_t seq)
{
	struct part *p = shard_part(s, table, part);

	if (!p)
		return;
	mutex_lock(&p->lock);
	if (p->chain.next == server)
		drop_acknowledged(p, seq);
	mutex_unlock(&p->lock);
}

/* Has the partition's records sent to a server with a new session. shard_send then finds those
 * that were not sent on that session. */
static bool forward_unsent(struct shard *s, struct part *p, void *ctx)
{
	uint16_t server = *(const uint16_t *)ctx;

	if (p->chain.next == server && p->chain.sent)
		s->cfg.forward(s->cfg.ctx, server, p->table->id, p->index);
	return true;
}

void shard_resend(struct shard *s, uint16_t server)
{
	shard_each(s, forward_unsent, &server);
}

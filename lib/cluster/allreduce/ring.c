/* SPDX-License-Identifier: ISC */
#include "allreduce/ring.h"

#include <sodium.h>
#include <unistd.h>

#include "allreduce/ring_state.h"
#include "core/endian.h"
#include "core/mem.h"
#include "core/num.h"

/* Up to this many bytes, hops cost more than bytes, as measured: use halving and doubling. */
#define HALVING_BYTES ((size_t)1 << 20)
/* Sizes of buckets and slices, in floats. */
#define BUCKET      ((size_t)128 << 10)
#define SLICE_MOST  ((size_t)64 << 10)
#define SLICE_LEAST ((size_t)16 << 10)
#define BACKLOG     512

/* ---- forming ---- */

static enum err_code reserve_result(struct ring *r, unsigned which, size_t n, struct err *e)
{
	if (n > r->cap[which]) {
		free(r->result[which]);
		r->result[which] = mem_try_array(n, sizeof **r->result);
		r->cap[which] = r->result[which] ? n : 0;
		if (!r->result[which])
			return err_set(e, ERR_NOMEM, "no memory for %zu values of the ring", n);
	}
	r->n_of[which] = n;
	return ERR_OK;
}

/* The newest step, plus 1, whose result a member has, and the lowest position of those that have
 * it. */
static uint64_t newest_result(const struct ring *r, uint32_t *holder)
{
	uint64_t best = r->greeting.have;

	*holder = r->position;
	for (uint32_t position = 0; position < r->n; position++)
		if (position != r->position &&
		    (r->link[position].greeting.have > best ||
		        (r->link[position].greeting.have == best && position < *holder))) {
			best = r->link[position].greeting.have;
			*holder = position;
		}
	return best;
}

/* Append one operation for each slice of the result, to or from the peer. */
static void append_result_ops(struct ring_op *ops, size_t *n, uint32_t peer, size_t floats)
{
	for (size_t at = 0; at < floats; at += SLICE_MOST)
		ops[(*n)++] = (struct ring_op){ .begin = at,
			.count = (uint32_t)(floats - at < SLICE_MOST ? floats - at : SLICE_MOST),
			.peer = peer,
			.flags = RING_OP_COPY };
}

/* Pass on a result: when one member has the result of a step that others were still reducing
 * when the ring broke, they must get it, because it may have been used. */
static enum err_code pass_on_result(struct ring *r, struct err *e)
{
	uint32_t holder;
	uint64_t have = newest_result(r, &holder);
	bool ours = r->greeting.wants == have && have && r->greeting.have < have;
	size_t n = ours ? r->n_of[1 - r->at] : r->n_of[r->at], most = (n / SLICE_MOST + 1) * r->n;
	struct ring_plan plan = { .send = mem_array(most, sizeof *plan.send),
		.recv = mem_array(most, sizeof *plan.recv) };
	enum err_code rc = ERR_OK;

	for (uint32_t position = 0; have && holder == r->position && position < r->n; position++) {
		const struct greeting *g = &r->link[position].greeting;

		if (position != r->position && g->wants == have && g->have < have)
			append_result_ops(plan.send, &plan.nsend, position, n);
	}
	if (ours)
		append_result_ops(plan.recv, &plan.nrecv, holder, n);
	if (plan.nsend || plan.nrecv) {
		unsigned to = ours ? 1 - r->at : r->at;
		uint64_t *joined = mem_array(plan.nrecv + 1, sizeof *joined);

		r->now = (struct reduction){ .out = r->result[to],
			.n = n,
			.step = have - 1,
			.total = r->total_of[to],
			.joined = joined,
			.plan = &plan };
		rc = ring_run_reduction(r, e);
		if (!rc && ours) {
			r->at = to;
			r->total_of[to] = joined[plan.nrecv - 1];
			r->greeting = (struct greeting){ .have = have };
		}
		free(joined);
	}
	ring_plan_release(&plan);
	return rc;
}

/* Are the members a power of two, all on one host? Judged by their list alone, so that all
 * agree. */
static bool is_local_power_of_two(const struct ring_member *m, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const char *colon = strrchr(m[0].tcp, ':');

		if (!colon || strncmp(m[i].tcp, m[0].tcp, (size_t)(colon - m[0].tcp) + 1) != 0)
			return false;
	}
	return (n & (n - 1)) == 0;
}

/* Hash the member list (ranks, incarnations, keys, addresses), to detect members that mean
 * another ring. */
static uint64_t hash_members(const struct ring_member *m, size_t n)
{
	crypto_generichash_state st;
	uint8_t out[16], head[12];

	crypto_generichash_init(&st, NULL, 0, sizeof out);
	for (size_t i = 0; i < n; i++) {
		put_le32(head, m[i].rank);
		put_le64(head + 4, m[i].incarnation);
		crypto_generichash_update(&st, head, sizeof head);
		crypto_generichash_update(&st, m[i].key, sizeof m[i].key);
		crypto_generichash_update(&st, (const uint8_t *)m[i].tcp, strlen(m[i].tcp) + 1);
	}
	crypto_generichash_final(&st, out, sizeof out);
	return get_le64(out);
}

static enum err_code check_members(const struct ring *r, uint32_t epoch,
    const struct ring_member *m, size_t n, struct err *e)
{
	bool there = false;

	if (epoch < r->epoch)
		return err_set(e, ERR_STALE, "ring epoch %u has ended: the ring was at %u", epoch,
		    r->epoch);
	if (n < 1 || n > RING_MEMBERS_MAX)
		return err_set(e, ERR_LIMIT, "a ring has 1 to %u members, not %zu",
		    RING_MEMBERS_MAX, n);
	for (size_t i = 0; i < n; i++) {
		if (i && m[i].rank <= m[i - 1].rank)
			return err_set(e, ERR_CONFIG,
			    "the ranks of a ring must ascend: %u after %u", m[i].rank,
			    m[i - 1].rank);
		there |= m[i].rank == r->cfg.rank;
	}
	return there
	    ? ERR_OK
	    : err_set(e, ERR_FENCED, "rank %u is not in ring epoch %u", r->cfg.rank, epoch);
}

enum err_code ring_form(struct ring *r, uint32_t epoch, const struct ring_member *members, size_t n,
    struct err *e)
{
	struct err unsaid = { 0 };
	enum err_code rc;

	e = e ? e : &unsaid;
	rc = check_members(r, epoch, members, n, e);
	if (rc)
		return rc;
	ring_end_sessions(r);
	ring_meet_seat(r, members, n);
	ring_plan_release(&r->plan);
	r->plan_n = 0;
	r->epoch = epoch;
	r->digest = hash_members(members, n);
	r->near = is_local_power_of_two(members, n);
	free(r->poll);
	free(r->poll_link);
	r->most_poll = 4 * n + 32;
	r->poll = mem_array(r->most_poll, sizeof *r->poll);
	r->poll_link = mem_array(r->most_poll, sizeof *r->poll_link);
	rc = ring_wait_for_members(r, e);
	if (!rc) {
		r->formed = true;
		rc = pass_on_result(r, e);
	}
	if (rc)
		ring_end_sessions(r);
	return rc;
}

/* ---- reducing ---- */

/* Choose and make the plan. Small vectors are halved in one bucket. Large ones are halved
 * bucket by bucket when all members are on one host, because that makes fewer and longer
 * records. Across hosts a ring is better, because only one member of each host then sends to
 * another host. */
static void prepare_plan(struct ring *r, size_t n)
{
	const struct ring_config *cfg = &r->cfg;
	bool small = n * sizeof(float) <= HALVING_BYTES;
	bool halving = cfg->halving_bytes ? n * sizeof(float) <= cfg->halving_bytes
	                                  : small || r->near;
	size_t slice = cfg->slice;

	if (r->plan_n == n)
		return;
	if (!slice && halving)
		slice = small ? n / r->n + 16 : BUCKET / r->n;
	if (!slice) {
		/* Let several slices be under way at once. */
		slice = n / r->n / 4;
		slice = slice < SLICE_LEAST ? SLICE_LEAST : slice > SLICE_MOST ? SLICE_MOST : slice;
	}
	ring_plan_release(&r->plan);
	ring_plan_make(&r->plan, halving ? RING_METHOD_HALVING : RING_METHOD_RING, r->n,
	    r->position, n, slice / 16 * 16);
	free(r->joined);
	r->joined = mem_array(r->plan.nrecv + 1, sizeof *r->joined);
	r->plan_n = n;
}

enum err_code ring_announce_step(struct ring *r, uint64_t step, size_t n, struct err *e)
{
	enum err_code rc = r->greeting.have > step ? ERR_OK : reserve_result(r, 1 - r->at, n, e);

	if (!rc && r->greeting.have <= step)
		r->greeting.wants = step + 1;
	return rc;
}

enum err_code ring_reduce(struct ring *r, uint64_t step, const float *in, size_t n,
    uint32_t examples, const float **mean, uint64_t *total, struct err *e)
{
	unsigned to = 1 - r->at;
	struct err unsaid = { 0 };
	enum err_code rc = ERR_OK;

	e = e ? e : &unsaid;
	if (r->greeting.have == step + 1) {
		*mean = r->result[r->at];
		*total = r->total_of[r->at];
		return n == r->n_of[r->at]
		    ? ERR_OK
		    : err_set(e, ERR_PROTO, "step %llu was reduced with %zu value%s, not %zu",
		          (unsigned long long)step, r->n_of[r->at], NUM_S(r->n_of[r->at]), n);
	}
	if (!r->formed)
		return err_set(e, ERR_NOTREADY, "the ring is not formed");
	if (r->greeting.have > step + 1)
		return err_set(e, ERR_STALE, "step %llu is already reduced",
		    (unsigned long long)step);
	rc = ring_announce_step(r, step, n, e);
	if (rc)
		return rc;
	if (r->n == 1) {
		memset(r->result[to], 0, n * sizeof **r->result);
		if (examples)
			memcpy(r->result[to], in, n * sizeof **r->result);
		r->total_of[to] = examples;
	} else {
		prepare_plan(r, n);
		r->now = (struct reduction){ .in = in,
			.out = r->result[to],
			.n = n,
			.examples = examples,
			.step = step,
			.total = examples,
			.joined = r->joined,
			.plan = &r->plan };
		rc = ring_run_reduction(r, e);
		if (!rc)
			r->total_of[to] = r->joined[r->plan.nrecv - 1];
	}
	if (rc) {
		ring_end_sessions(r);
		return rc;
	}
	r->at = to;
	r->greeting = (struct greeting){ .have = step + 1 };
	*mean = r->result[to];
	*total = r->total_of[to];
	r->stats.reductions++;
	return ERR_OK;
}

enum err_code ring_check(struct ring *r, struct err *e)
{
	return r->formed ? ring_serve_meeting(r, e) : ERR_OK;
}

/* ---- life ---- */

static enum err_code listen_for_local_members(struct ring *r, struct err *e)
{
	char *addr = mem_printf("unix:%s", r->cfg.local), ignored[NET_TEXT];
	enum err_code rc = net_listen(addr, BACKLOG, &r->listener[1], ignored, e);

	free(addr);
	return rc;
}

enum err_code ring_new(const struct ring_config *cfg, struct ring **out, struct err *e)
{
	struct ring *r = mem_alloc(sizeof *r);
	enum err_code rc = ERR_OK;

	r->cfg = *cfg;
	r->listener[0] = r->listener[1] = -1;
	if (cfg->listen)
		rc = net_listen(cfg->listen, BACKLOG, &r->listener[0], r->bound, e);
	if (!rc && cfg->local)
		rc = listen_for_local_members(r, e);
	if (rc) {
		ring_free(r);
		return rc;
	}
	*out = r;
	return ERR_OK;
}

void ring_set_deadline(struct ring *r, int64_t deadline)
{
	r->cfg.deadline = deadline;
}

void ring_set_rank(struct ring *r, uint32_t rank)
{
	r->cfg.rank = rank;
}

const char *ring_address(const struct ring *r)
{
	return r->bound;
}

void ring_stats(const struct ring *r, struct ring_stats *out)
{
	*out = r->stats;
	for (uint32_t position = 0; position < r->n; position++) {
		out->sent_bytes += r->link[position].out ? conn_bytes_out(r->link[position].out)
		                                         : 0;
		out->received_bytes += r->link[position].in
		    ? conn_bytes_in(r->link[position].in->conn)
		    : 0;
	}
}

void ring_free(struct ring *r)
{
	if (!r)
		return;
	ring_end_sessions(r);
	for (int i = 0; i < 2; i++)
		if (r->listener[i] >= 0)
			close(r->listener[i]);
	if (r->listener[1] >= 0)
		unlink(r->cfg.local);
	ring_plan_release(&r->plan);
	free(r->joined);
	free(r->result[0]);
	free(r->result[1]);
	free(r->link);
	free(r->poll);
	free(r->poll_link);
	free(r);
}

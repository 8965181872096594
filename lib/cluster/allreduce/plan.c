/* SPDX-License-Identifier: ISC */
#include "allreduce/plan.h"

#include <stdlib.h>

#include "core/mem.h"

/* Slices begin on whole cache lines: this many floats. */
#define LINE 16u

static size_t slice_cut(size_t floats, size_t i, size_t n)
{
	return i == n ? floats : floats / n * i / LINE * LINE;
}

/* The operations of a member by bucket and hop, before they are put in order; count 0: none. */
struct table {
	uint32_t members, position, hops;
	size_t floats, bucket, nbuckets;
	struct ring_op *send, *recv;
};

static struct ring_op *bucket_op(const struct table *t, struct ring_op *ops, size_t bucket,
    uint32_t hop)
{
	return &ops[bucket * t->hops + hop];
}

/* Pieces `from` to `to` of a bucket that is cut into n equal ones. */
static struct ring_op slice_op(const struct table *t, size_t bucket, uint32_t n, uint32_t from,
    uint32_t to)
{
	size_t first = bucket * t->bucket,
	       len = t->floats - first < t->bucket ? t->floats - first : t->bucket;
	size_t begin = slice_cut(len, from, n), end = slice_cut(len, to, n);

	return (struct ring_op){ .begin = first + begin, .count = (uint32_t)(end - begin) };
}

/* ---- ring ---- */

static void fill_ring(struct table *t, size_t bucket)
{
	uint32_t n = t->members;

	for (uint32_t hop = 0; hop < t->hops; hop++) {
		uint32_t mine = (t->position + 2 * n - hop) % n,
		         theirs = (t->position + 2 * n - 1 - hop) % n;
		struct ring_op *s = bucket_op(t, t->send, bucket, hop),
		               *r = bucket_op(t, t->recv, bucket, hop);

		*s = slice_op(t, bucket, n, mine, mine + 1);
		s->peer = (t->position + 1) % n;
		s->flags = hop == 0 ? RING_OP_FRESH : hop >= n - 1 ? RING_OP_COPY : 0;
		*r = slice_op(t, bucket, n, theirs, theirs + 1);
		r->peer = (t->position + n - 1) % n;
		r->flags = hop >= n - 1 ? RING_OP_COPY
		    : hop == n - 2      ? RING_OP_FRESH | RING_OP_LAST
		                        : RING_OP_FRESH;
	}
}

/* ---- halving and doubling ---- */

/* The largest power of two of members, and its logarithm. */
static uint32_t power_of_two_within(uint32_t members, uint32_t *log)
{
	uint32_t m = 1;

	for (*log = 0; m * 2 <= members; ++*log)
		m *= 2;
	return m;
}

struct halves {
	struct table *t;
	size_t bucket;
	uint32_t within;
	bool got; /* has anything been added to our own values? */
};

static void send_pieces(struct halves *h, uint32_t hop, uint32_t from, uint32_t to, uint32_t peer,
    uint32_t flags)
{
	struct ring_op *op = bucket_op(h->t, h->t->send, h->bucket, hop);

	*op = slice_op(h->t, h->bucket, h->within, from, to);
	op->peer = peer;
	op->flags = flags | (h->got ? 0 : RING_OP_FRESH);
}

static void recv_pieces(struct halves *h, uint32_t hop, uint32_t from, uint32_t to, uint32_t peer,
    uint32_t flags)
{
	struct ring_op *op = bucket_op(h->t, h->t->recv, h->bucket, hop);

	*op = slice_op(h->t, h->bucket, h->within, from, to);
	op->peer = peer;
	op->flags = flags | (h->got || flags & RING_OP_COPY ? 0 : RING_OP_FRESH);
	h->got |= op->count > 0;
}

/* Hop 0 receives the vector of a member beyond the power of two, and the last hop gives it the
 * result. Between them come the halvings, and then the doublings. */
static void fill_halving(struct table *t, size_t bucket)
{
	uint32_t log, m = power_of_two_within(t->members, &log), position = t->position, from = 0,
	              to = m, hop = 1;
	struct halves h = { .t = t, .bucket = bucket, .within = m };

	if (position >= m) {
		send_pieces(&h, 0, 0, m, position - m, 0);
		recv_pieces(&h, t->hops - 1, 0, m, position - m, RING_OP_COPY);
		return;
	}
	if (position + m < t->members)
		recv_pieces(&h, 0, 0, m, position + m, 0);
	for (uint32_t d = m / 2; d; d /= 2, hop++) {
		uint32_t mid = from + d, peer = position ^ d, last = d == 1 ? RING_OP_LAST : 0;

		if (position & d) {
			send_pieces(&h, hop, from, mid, peer, 0);
			recv_pieces(&h, hop, mid, to, peer, last);
			from = mid;
		} else {
			send_pieces(&h, hop, mid, to, peer, 0);
			recv_pieces(&h, hop, from, mid, peer, last);
			to = mid;
		}
	}
	for (uint32_t d = 1; d < m; d *= 2, hop++) {
		uint32_t peer = position ^ d, other = position & d ? from - d : to;

		send_pieces(&h, hop, from, to, peer, RING_OP_COPY);
		recv_pieces(&h, hop, other, other + d, peer, RING_OP_COPY);
		from = other < from ? other : from;
		to = from + 2 * d;
	}
	if (position + m < t->members)
		send_pieces(&h, hop, 0, m, position + m, RING_OP_COPY);
}

/* ---- order in time ---- */

/* The last receive of the bucket before this hop, as its number in the list plus 1; 0: none. */
static uint32_t receive_before(const struct table *t, const uint32_t *done, size_t bucket,
    uint32_t hop)
{
	while (hop-- > 0)
		if (done[bucket * t->hops + hop])
			return done[bucket * t->hops + hop];
	return 0;
}

/* Append all operations to the list in order of time; at one time later hops come first, so
 * that sums are passed on before new buckets are begun. Both ends of a connection get the same
 * order. */
static void order_ops(const struct table *t, struct ring_op *ops, struct ring_op *list, size_t *n,
    uint32_t *done, bool receives)
{
	size_t last = t->nbuckets - 1 + (size_t)(t->hops - 1) * RING_AHEAD;

	for (size_t time = 0; time <= last; time++)
		for (uint32_t hop = t->hops; hop-- > 0;) {
			size_t bucket = time - (size_t)hop * RING_AHEAD;
			struct ring_op *op;

			if (time < (size_t)hop * RING_AHEAD || bucket >= t->nbuckets)
				continue;
			op = bucket_op(t, ops, bucket, hop);
			if (!op->count)
				continue;
			op->need = receive_before(t, done, bucket, hop);
			list[(*n)++] = *op;
			if (receives)
				done[bucket * t->hops + hop] = (uint32_t)*n;
		}
}

void ring_plan_make(struct ring_plan *p, enum ring_method way, uint32_t members, uint32_t position,
    size_t floats, size_t slice)
{
	struct table t = { .members = members,
		.position = position,
		.floats = floats,
		.bucket = slice * members };
	uint32_t log, *done;
	size_t most;

	power_of_two_within(members, &log);
	t.hops = way == RING_METHOD_RING ? 2 * members - 2 : 2 * log + 2;
	t.nbuckets = (floats + t.bucket - 1) / t.bucket;
	most = t.nbuckets * t.hops;
	t.send = mem_array(most, sizeof *t.send);
	t.recv = mem_array(most, sizeof *t.recv);
	done = mem_array(most, sizeof *done);
	*p = (struct ring_plan){ .send = mem_array(most, sizeof *p->send),
		.recv = mem_array(most, sizeof *p->recv) };
	for (size_t b = 0; b < t.nbuckets; b++)
		if (way == RING_METHOD_RING)
			fill_ring(&t, b);
		else
			fill_halving(&t, b);
	order_ops(&t, t.recv, p->recv, &p->nrecv, done, true);
	order_ops(&t, t.send, p->send, &p->nsend, done, false);
	free(t.send);
	free(t.recv);
	free(done);
}

void ring_plan_release(struct ring_plan *p)
{
	free(p->send);
	free(p->recv);
	*p = (struct ring_plan){ 0 };
}

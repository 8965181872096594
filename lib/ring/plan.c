#include "ring/plan.h"

#include <stdlib.h>

#include "base/mem.h"

/* Cuts lie on whole cache lines. */
#define LINE 16u

static size_t cut(size_t floats, size_t i, size_t n)
{
	return i == n ? floats : floats / n * i / LINE * LINE;
}

/* What a member sends and receives of each bucket at each hop; a count of 0: nothing. */
struct table {
	uint32_t members, rank, hops;
	size_t floats, bucket, nbuckets;
	struct ring_op *send, *recv;
};

static struct ring_op *at(const struct table *t, struct ring_op *ops, size_t bucket, uint32_t hop)
{
	return &ops[bucket * t->hops + hop];
}

/* Pieces `from` to `to` of `n` equal ones of a bucket. */
static struct ring_op piece(const struct table *t, size_t bucket, uint32_t n, uint32_t from, uint32_t to)
{
	size_t first = bucket * t->bucket, len = t->floats - first < t->bucket ? t->floats - first : t->bucket;
	size_t begin = cut(len, from, n), end = cut(len, to, n);

	return (struct ring_op){ .begin = first + begin, .count = (uint32_t)(end - begin) };
}

/* ---- round --------------------------------------------------------------------- */

static void fill_round(struct table *t, size_t bucket)
{
	uint32_t n = t->members;

	for (uint32_t hop = 0; hop < t->hops; hop++) {
		uint32_t mine = (t->rank + 2 * n - hop) % n, theirs = (t->rank + 2 * n - 1 - hop) % n;
		struct ring_op *s = at(t, t->send, bucket, hop), *r = at(t, t->recv, bucket, hop);

		*s = piece(t, bucket, n, mine, mine + 1);
		s->peer = (t->rank + 1) % n;
		s->flags = hop == 0 ? RING_OP_FRESH : hop >= n - 1 ? RING_OP_COPY : 0;
		*r = piece(t, bucket, n, theirs, theirs + 1);
		r->peer = (t->rank + n - 1) % n;
		r->flags = hop >= n - 1 ? RING_OP_COPY : hop == n - 2 ? RING_OP_FRESH | RING_OP_LAST : RING_OP_FRESH;
	}
}

/* ---- halving and doubling -------------------------------------------------------- */

/* The power of two, and how often it is halved. */
static uint32_t within(uint32_t members, uint32_t *log)
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
	bool got;               /* is anything but our own in it? */
};

static void send_pieces(struct halves *h, uint32_t hop, uint32_t from, uint32_t to, uint32_t peer, uint32_t flags)
{
	struct ring_op *op = at(h->t, h->t->send, h->bucket, hop);

	*op = piece(h->t, h->bucket, h->within, from, to);
	op->peer = peer;
	op->flags = flags | (h->got ? 0 : RING_OP_FRESH);
}

static void recv_pieces(struct halves *h, uint32_t hop, uint32_t from, uint32_t to, uint32_t peer, uint32_t flags)
{
	struct ring_op *op = at(h->t, h->t->recv, h->bucket, hop);

	*op = piece(h->t, h->bucket, h->within, from, to);
	op->peer = peer;
	op->flags = flags | (h->got || flags & RING_OP_COPY ? 0 : RING_OP_FRESH);
	h->got |= op->count > 0;
}

/* Hop 0 takes the part of a member beyond the power of two, the last gives it the
 * result; in between the halves, and the doubles. */
static void fill_halving(struct table *t, size_t bucket)
{
	uint32_t log, m = within(t->members, &log), rank = t->rank, from = 0, to = m, hop = 1;
	struct halves h = { .t = t, .bucket = bucket, .within = m };

	if (rank >= m) {
		send_pieces(&h, 0, 0, m, rank - m, 0);
		recv_pieces(&h, t->hops - 1, 0, m, rank - m, RING_OP_COPY);
		return;
	}
	if (rank + m < t->members)
		recv_pieces(&h, 0, 0, m, rank + m, 0);
	for (uint32_t d = m / 2; d; d /= 2, hop++) {
		uint32_t mid = from + d, peer = rank ^ d, last = d == 1 ? RING_OP_LAST : 0;

		if (rank & d) {
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
		uint32_t peer = rank ^ d, other = rank & d ? from - d : to;

		send_pieces(&h, hop, from, to, peer, RING_OP_COPY);
		recv_pieces(&h, hop, other, other + d, peer, RING_OP_COPY);
		from = other < from ? other : from;
		to = from + 2 * d;
	}
	if (rank + m < t->members)
		send_pieces(&h, hop, 0, m, rank + m, RING_OP_COPY);
}

/* ---- in time ----------------------------------------------------------------------- */

/* The last receive of the bucket before this hop, as its number in the list and one more. */
static uint32_t before(const struct table *t, const uint32_t *done, size_t bucket, uint32_t hop)
{
	while (hop-- > 0)
		if (done[bucket * t->hops + hop])
			return done[bucket * t->hops + hop];
	return 0;
}

/* Later hops first: what was summed goes on before something new is begun.  Both ends
 * of each line have the same order. */
static void lay_out(const struct table *t, struct ring_op *ops, struct ring_op *list, size_t *n, uint32_t *done, bool receives)
{
	size_t last = t->nbuckets - 1 + (size_t)(t->hops - 1) * RING_AHEAD;

	for (size_t time = 0; time <= last; time++)
		for (uint32_t hop = t->hops; hop-- > 0;) {
			size_t bucket = time - (size_t)hop * RING_AHEAD;
			struct ring_op *op;

			if (time < (size_t)hop * RING_AHEAD || bucket >= t->nbuckets)
				continue;
			op = at(t, ops, bucket, hop);
			if (!op->count)
				continue;
			op->need = before(t, done, bucket, hop);
			list[(*n)++] = *op;
			if (receives)
				done[bucket * t->hops + hop] = (uint32_t)*n;
		}
}

void ring_plan_make(struct ring_plan *p, enum ring_way way, uint32_t members, uint32_t rank, size_t floats, size_t slice)
{
	struct table t = { .members = members, .rank = rank, .floats = floats, .bucket = slice * members };
	uint32_t log, *done;
	size_t most;

	within(members, &log);
	t.hops = way == RING_ROUND ? 2 * members - 2 : 2 * log + 2;
	t.nbuckets = (floats + t.bucket - 1) / t.bucket;
	most = t.nbuckets * t.hops;
	t.send = mem_array(most, sizeof *t.send);
	t.recv = mem_array(most, sizeof *t.recv);
	done = mem_array(most, sizeof *done);
	*p = (struct ring_plan){ .send = mem_array(most, sizeof *p->send), .recv = mem_array(most, sizeof *p->recv) };
	for (size_t b = 0; b < t.nbuckets; b++)
		if (way == RING_ROUND)
			fill_round(&t, b);
		else
			fill_halving(&t, b);
	lay_out(&t, t.recv, p->recv, &p->nrecv, done, true);
	lay_out(&t, t.send, p->send, &p->nsend, done, false);
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

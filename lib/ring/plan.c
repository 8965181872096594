#include "ring/plan.h"

#include <stdlib.h>

#include "base/mem.h"

/* Cuts lie on whole cache lines. */
#define LINE 16u

static size_t cut(size_t floats, size_t i, size_t n)
{
	return i == n ? floats : floats / n * i / LINE * LINE;
}

static void add(struct ring_op *list, size_t *n, struct ring_op op)
{
	if (op.count)
		list[(*n)++] = op;
}

/* ---- round --------------------------------------------------------------------- */

struct round {
	uint32_t members, rank, hops;
	size_t floats, bucket, nbuckets;
};

/* The part of bucket b that is `chunk`'s. */
static struct ring_op piece(const struct round *r, size_t b, uint32_t chunk)
{
	size_t at = b * r->bucket, len = r->floats - at < r->bucket ? r->floats - at : r->bucket;
	size_t begin = cut(len, chunk, r->members), end = cut(len, chunk + 1, r->members);

	return (struct ring_op){ .begin = at + begin, .count = (uint32_t)(end - begin) };
}

static struct ring_op round_send(const struct round *r, size_t b, uint32_t hop)
{
	struct ring_op op = piece(r, b, (r->rank + 2 * r->members - hop) % r->members);

	op.peer = (r->rank + 1) % r->members;
	op.flags = hop == 0 ? RING_OP_FRESH : hop >= r->members - 1 ? RING_OP_COPY : 0;
	return op;
}

static struct ring_op round_recv(const struct round *r, size_t b, uint32_t hop)
{
	struct ring_op op = piece(r, b, (r->rank + 2 * r->members - 1 - hop) % r->members);

	op.peer = (r->rank + r->members - 1) % r->members;
	op.flags = hop >= r->members - 1 ? RING_OP_COPY : hop == r->members - 2 ? RING_OP_FRESH | RING_OP_LAST : RING_OP_FRESH;
	return op;
}

/* What is received at one hop is sent at the next, in the same bucket. */
static void make_round(struct ring_plan *p, struct round *r)
{
	size_t last = r->nbuckets - 1 + (size_t)(r->hops - 1) * RING_AHEAD;
	uint32_t *done = mem_array(r->nbuckets * r->hops, sizeof *done);

	for (size_t t = 0; t <= last; t++)
		for (uint32_t hop = r->hops; hop-- > 0;) {
			size_t b = t - (size_t)hop * RING_AHEAD;

			if (t < (size_t)hop * RING_AHEAD || b >= r->nbuckets)
				continue;
			add(p->recv, &p->nrecv, round_recv(r, b, hop));
			done[b * r->hops + hop] = (uint32_t)p->nrecv;
		}
	for (size_t t = 0; t <= last; t++)
		for (uint32_t hop = r->hops; hop-- > 0;) {
			size_t b = t - (size_t)hop * RING_AHEAD;
			struct ring_op op;

			if (t < (size_t)hop * RING_AHEAD || b >= r->nbuckets)
				continue;
			op = round_send(r, b, hop);
			op.need = hop ? done[b * r->hops + hop - 1] : 0;
			add(p->send, &p->nsend, op);
		}
	free(done);
}

/* ---- halving and doubling -------------------------------------------------------- */

struct halves {
	struct ring_plan *p;
	size_t floats;
	uint32_t within;        /* the power of two */
};

static struct ring_op blocks(const struct halves *h, uint32_t from, uint32_t to, uint32_t peer, uint32_t flags)
{
	size_t begin = cut(h->floats, from, h->within), end = cut(h->floats, to, h->within);

	return (struct ring_op){ .begin = begin, .count = (uint32_t)(end - begin), .peer = peer, .flags = flags,
		.need = (uint32_t)h->p->nrecv };
}

static void send_blocks(struct halves *h, uint32_t from, uint32_t to, uint32_t peer, uint32_t flags)
{
	if (!h->p->nrecv)
		flags |= RING_OP_FRESH;
	add(h->p->send, &h->p->nsend, blocks(h, from, to, peer, flags));
}

static void recv_blocks(struct halves *h, uint32_t from, uint32_t to, uint32_t peer, uint32_t flags)
{
	if (!h->p->nrecv && !(flags & RING_OP_COPY))
		flags |= RING_OP_FRESH;
	add(h->p->recv, &h->p->nrecv, blocks(h, from, to, peer, flags));
}

static void make_halving(struct ring_plan *p, uint32_t members, uint32_t rank, size_t floats)
{
	struct halves h = { .p = p, .floats = floats, .within = 1 };
	uint32_t from = 0, to;

	while (h.within * 2 <= members)
		h.within *= 2;
	to = h.within;
	if (rank >= h.within) {
		send_blocks(&h, 0, to, rank - h.within, 0);
		recv_blocks(&h, 0, to, rank - h.within, RING_OP_COPY);
		return;
	}
	if (rank + h.within < members)
		recv_blocks(&h, 0, to, rank + h.within, 0);
	for (uint32_t d = h.within / 2; d; d /= 2) {
		uint32_t mid = from + d, peer = rank ^ d, last = d == 1 ? RING_OP_LAST : 0;

		if (rank & d) {
			send_blocks(&h, from, mid, peer, 0);
			recv_blocks(&h, mid, to, peer, last);
			from = mid;
		} else {
			send_blocks(&h, mid, to, peer, 0);
			recv_blocks(&h, from, mid, peer, last);
			to = mid;
		}
	}
	for (uint32_t d = 1; d < h.within; d *= 2) {
		uint32_t peer = rank ^ d, other = rank & d ? from - d : to;

		send_blocks(&h, from, to, peer, RING_OP_COPY);
		recv_blocks(&h, other, other + d, peer, RING_OP_COPY);
		from = other < from ? other : from;
		to = from + 2 * d;
	}
	if (rank + h.within < members)
		send_blocks(&h, 0, h.within, rank + h.within, RING_OP_COPY);
}

void ring_plan_make(struct ring_plan *p, enum ring_way way, uint32_t members, uint32_t rank, size_t floats, size_t slice)
{
	struct round r = { .members = members, .rank = rank, .hops = 2 * members - 2, .floats = floats };
	size_t most;

	r.bucket = slice * members;
	r.nbuckets = (floats + r.bucket - 1) / r.bucket;
	/* Halving has at most 2 log2(members) + 1. */
	most = way == RING_ROUND ? r.nbuckets * r.hops : 66;
	*p = (struct ring_plan){ .send = mem_array(most, sizeof *p->send), .recv = mem_array(most, sizeof *p->recv) };
	if (way == RING_ROUND)
		make_round(p, &r);
	else
		make_halving(p, members, rank, floats);
}

void ring_plan_release(struct ring_plan *p)
{
	free(p->send);
	free(p->recv);
	*p = (struct ring_plan){ 0 };
}

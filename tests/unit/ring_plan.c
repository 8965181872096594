/* SPDX-License-Identifier: ISC */
#include "core/mem.h"
#include "core/rng.h"
#include "allreduce/plan.h"
#include "tap.h"

/* Plans of all members of a ring played against each other: what one sends the other
 * expects, nobody waits for ever, all end with the sum, and each element was summed at
 * one member alone. */

#define MOST 17

struct message {
	struct ring_op op;
	double *sum;
};

struct line {
	struct message *sent;
	size_t n, taken;
};

struct play {
	uint32_t n;
	size_t floats;
	struct ring_plan plan[MOST];
	size_t send[MOST], recv[MOST];
	double *value[MOST]; /* member i begins with 2^i everywhere: a sum tells who is in it */
	bool *done[MOST];    /* is it the whole sum? */
	struct line line[MOST][MOST];
	unsigned *completed; /* how many members completed the element's sum */
	int wrong;
};

static double own(uint32_t position)
{
	return (double)(UINT64_C(1) << position);
}

static bool send_one(struct play *p, uint32_t me)
{
	const struct ring_op *op;
	struct line *l;
	struct message m;

	if (p->send[me] == p->plan[me].nsend)
		return false;
	op = &p->plan[me].send[p->send[me]];
	if (op->need > p->recv[me])
		return false;
	l = &p->line[me][op->peer];
	m.op = *op;
	m.sum = mem_array(op->count, sizeof *m.sum);
	for (uint32_t i = 0; i < op->count; i++) {
		bool whole = p->done[me][op->begin + i];

		m.sum[i] = op->flags & RING_OP_FRESH ? own(me) : p->value[me][op->begin + i];
		p->wrong += !(op->flags & RING_OP_COPY) == whole;
	}
	l->sent = mem_regrow(l->sent, l->n + 1, sizeof *l->sent);
	l->sent[l->n++] = m;
	p->send[me]++;
	return true;
}

static bool recv_one(struct play *p, uint32_t me)
{
	const struct ring_op *op;
	struct line *l;
	struct message *m;

	if (p->recv[me] == p->plan[me].nrecv)
		return false;
	op = &p->plan[me].recv[p->recv[me]];
	l = &p->line[op->peer][me];
	if (l->taken == l->n)
		return false;
	m = &l->sent[l->taken++];
	p->wrong += m->op.begin != op->begin || m->op.count != op->count || m->op.peer != me ||
	    (m->op.flags & RING_OP_COPY) != (op->flags & RING_OP_COPY);
	for (uint32_t i = 0; i < op->count && !p->wrong; i++) {
		size_t at = op->begin + i;

		if (op->flags & RING_OP_COPY)
			p->value[me][at] = m->sum[i];
		else if (op->flags & RING_OP_FRESH)
			p->value[me][at] = m->sum[i] + own(me);
		else
			p->value[me][at] += m->sum[i];
		p->completed[at] += (op->flags & RING_OP_LAST) != 0;
		p->done[me][at] = op->flags & (RING_OP_COPY | RING_OP_LAST);
	}
	free(m->sum);
	p->recv[me]++;
	return true;
}

static bool played(enum ring_method way, uint32_t n, size_t floats, size_t slice, struct rng *rng)
{
	struct play p = { .n = n,
		.floats = floats,
		.completed = mem_array(floats, sizeof *p.completed) };
	double all = own(n) - 1;
	bool moved = true;

	for (uint32_t i = 0; i < n; i++) {
		ring_plan_make(&p.plan[i], way, n, i, floats, slice);
		p.value[i] = mem_array(floats, sizeof **p.value);
		p.done[i] = mem_array(floats, sizeof **p.done);
	}
	/* In any order: whoever is drawn goes as far as it gets. */
	while (moved && !p.wrong) {
		uint32_t first = (uint32_t)rng_below(rng, n);

		moved = false;
		for (uint32_t k = 0; k < n; k++) {
			uint32_t me = (first + k) % n;

			while (rng_below(rng, 4) && (recv_one(&p, me) || send_one(&p, me)))
				moved = true;
			moved |= recv_one(&p, me) || send_one(&p, me);
		}
	}
	for (uint32_t i = 0; i < n; i++) {
		p.wrong += p.send[i] != p.plan[i].nsend || p.recv[i] != p.plan[i].nrecv;
		for (size_t at = 0; at < floats; at++)
			p.wrong += p.value[i][at] != all || p.completed[at] != 1;
		for (uint32_t j = 0; j < n; j++) {
			p.wrong += p.line[i][j].taken != p.line[i][j].n;
			for (size_t m = p.line[i][j].taken; m < p.line[i][j].n; m++)
				free(p.line[i][j].sent[m].sum);
			free(p.line[i][j].sent);
		}
		ring_plan_release(&p.plan[i]);
		free(p.value[i]);
		free(p.done[i]);
	}
	free(p.completed);
	return p.wrong == 0;
}

int main(void)
{
	static const size_t sizes[] = { 1, 2, 15, 16, 17, 31, 33, 100, 257, 1000, 4097 };
	struct rng rng;

	rng_init(&rng, 1);
	for (uint32_t n = 2; n <= MOST; n++) {
		int round = 0, halving = 0, want = 0;

		for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
			for (size_t slice = 16; slice <= 256; slice *= 4, want++) {
				round += played(RING_METHOD_RING, n, sizes[i], slice, &rng);
				halving += played(RING_METHOD_HALVING, n, sizes[i], slice, &rng);
			}
		ok(round == want,
		    "round, %u members: each element summed once, and everywhere (%d of %d)", n,
		    round, want);
		ok(halving == want, "halving and doubling, %u members: the same (%d of %d)", n,
		    halving, want);
	}
	return tap_done();
}

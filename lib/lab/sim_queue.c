/* SPDX-License-Identifier: ISC */
#include <stdlib.h>

#include "core/mem.h"
#include "lab/sim_state.h"

/* The event heap, by time and, for equal times, by order of posting, and queues of jobs. */

static bool event_before(const struct event *a, const struct event *b)
{
	return a->at < b->at || (a->at == b->at && a->seq < b->seq);
}

void sim_post(struct sim *s, double at, int kind, unsigned which, struct job *job, uint64_t turn)
{
	struct event x = { .at = at,
		.seq = s->seq++,
		.turn = turn,
		.kind = kind,
		.which = which,
		.job = job };
	size_t i = s->nheap++;

	s->heap = mem_grow(s->heap, &s->cap_heap, s->nheap, sizeof *s->heap);
	for (; i > 0 && event_before(&x, &s->heap[(i - 1) / 2]); i = (i - 1) / 2)
		s->heap[i] = s->heap[(i - 1) / 2];
	s->heap[i] = x;
}

/* Removes the earliest event of the binary heap: the last one takes the root's place and sinks.
 * False: the heap is empty. */
bool sim_next(struct sim *s, struct event *out)
{
	struct event x;
	size_t i = 0;

	if (!s->nheap)
		return false;
	*out = s->heap[0];
	x = s->heap[--s->nheap];
	for (;;) {
		size_t child = 2 * i + 1;

		if (child + 1 < s->nheap && event_before(&s->heap[child + 1], &s->heap[child]))
			child++;
		if (child >= s->nheap || !event_before(&s->heap[child], &x))
			break;
		s->heap[i] = s->heap[child];
		i = child;
	}
	s->heap[i] = x;
	return true;
}

struct job *sim_job_new(struct sim *s, enum job_kind kind)
{
	struct job *j = s->spare;

	if (j)
		s->spare = j->next;
	else
		j = mem_alloc(sizeof *j);
	*j = (struct job){ .kind = kind };
	return j;
}

void sim_job_free(struct sim *s, struct job *j)
{
	j->next = s->spare;
	s->spare = j;
}

void sim_queue_put(struct queue *q, struct job *j)
{
	if (!q->first)
		q->last = &q->first;
	j->next = NULL;
	*q->last = j;
	q->last = &j->next;
}

struct job *sim_queue_take(struct queue *q)
{
	struct job *j = q->first;

	if (j)
		q->first = j->next;
	return j;
}

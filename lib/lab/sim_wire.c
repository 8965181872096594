/* SPDX-License-Identifier: ISC */
#include <math.h>

#include "lab/sim_state.h"

/* Takes the next job, serving the flows in turn. */
static struct job *take_next_job(struct wire *w)
{
	for (unsigned i = 0; i < w->nflows; i++) {
		struct queue *q = &w->flow[w->next];
		struct job *j = sim_queue_take(q);

		w->next = (w->next + 1) % w->nflows;
		if (j) {
			w->waiting -= !q->first;
			return j;
		}
	}
	return NULL;
}

/* Sends one piece. It passes both interfaces at the same time; the receiver's becomes free for it
 * when earlier pieces are through. */
static void transmit_piece(struct sim *s, struct wire *from, struct job *j)
{
	struct wire *to = &s->wire[j->to];
	double out = from->link.up > 0 ? j->bytes / from->link.up : 0,
	       in = to->link.down > 0 ? j->bytes / to->link.down : 0;
	double delay = from->link.delay + to->link.delay, begin = fmax(s->now + delay, to->in_free);

	to->in_free = begin + in;
	to->received += in;
	from->sent += out;
	sim_post(s, fmax(s->now + out + delay, begin + in), EVENT_ARRIVE, 0, j, 0);
	from->busy = out > 0;
	if (from->busy)
		sim_post(s, s->now + out, EVENT_WIRE, j->from, NULL, 0);
}

static void serve_wire(struct sim *s, struct wire *w)
{
	while (w->waiting && !w->busy)
		transmit_piece(s, w, take_next_job(w));
}

void sim_wire_send(struct sim *s, struct job *j)
{
	struct wire *w = &s->wire[j->from];
	unsigned workers = s->spec->workers;
	/* A worker has flows to servers only. */
	struct queue *q = &w->flow[j->from < workers ? j->to - workers : j->to];

	w->waiting += !q->first;
	sim_queue_put(q, j);
	serve_wire(s, w);
}

void sim_wire_event(struct sim *s, unsigned node)
{
	s->wire[node].busy = false;
	serve_wire(s, &s->wire[node]);
}

#include <math.h>

#include "sim/sim_state.h"

static struct job *next_piece(struct wire *w)
{
	for (unsigned i = 0; i < w->nflows; i++) {
		struct queue *q = &w->flow[w->next];
		struct job *j = queue_take(q);

		w->next = (w->next + 1) % w->nflows;
		if (j) {
			w->waiting -= !q->first;
			return j;
		}
	}
	return NULL;
}

/* The piece passes both lines at the same time, the second as soon as what came
 * before is through. */
static void pass(struct sim *s, struct wire *from, struct job *j)
{
	struct wire *to = &s->wire[j->to];
	double out = from->line.up > 0 ? j->bytes / from->line.up : 0, in = to->line.down > 0 ? j->bytes / to->line.down : 0;
	double delay = from->line.delay + to->line.delay, begin = fmax(s->now + delay, to->in_free);

	to->in_free = begin + in;
	to->received += in;
	from->sent += out;
	sim_post(s, fmax(s->now + out + delay, begin + in), EVENT_ARRIVE, 0, j, 0);
	from->busy = out > 0;
	if (from->busy)
		sim_post(s, s->now + out, EVENT_WIRE, j->from, NULL, 0);
}

static void serve(struct sim *s, struct wire *w)
{
	while (w->waiting && !w->busy)
		pass(s, w, next_piece(w));
}

void wire_send(struct sim *s, struct job *j)
{
	struct wire *w = &s->wire[j->from];
	unsigned workers = s->spec->workers;
	/* Workers have no flows to workers. */
	struct queue *q = &w->flow[j->from < workers ? j->to - workers : j->to];

	w->waiting += !q->first;
	queue_put(q, j);
	serve(s, w);
}

void wire_event(struct sim *s, unsigned node)
{
	s->wire[node].busy = false;
	serve(s, &s->wire[node]);
}

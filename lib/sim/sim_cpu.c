#include <math.h>

#include "sim/sim_state.h"

/* Processor sharing: the host's own clock advances by what each running thread
 * gets, so that what ends next on it ends next. */

static double speed(const struct sim *s, const struct host *h)
{
	double crowd = 1, used = h->running < h->cores ? h->running : h->cores;

	if (h->cores > 1 && used > 1)
		crowd += (s->spec->crowded - 1) * (used - 1) / (h->cores - 1);
	return used / h->running / crowd;
}

static void advance(struct sim *s, struct host *h)
{
	if (h->running) {
		h->clock += (s->now - h->at) * speed(s, h);
		h->busy += (s->now - h->at) * (h->running < h->cores ? h->running : h->cores);
	}
	h->at = s->now;
}

static void next_end(struct sim *s, unsigned host)
{
	struct host *h = &s->host[host];
	double first = INFINITY;

	for (unsigned i = 0; i < h->running; i++)
		first = fmin(first, s->thread[h->run[i]].ends);
	h->turn++;
	if (h->running)
		sim_post(s, s->now + fmax(0, first - h->clock) / speed(s, h), EVENT_HOST, host, NULL, h->turn);
}

static double cost(const struct job *j)
{
	return j->stage == AT_RECEIVER ? j->after : j->before;
}

void cpu_do(struct sim *s, struct job *j, unsigned thread)
{
	struct thread *t = &s->thread[thread];
	struct host *h = &s->host[t->host];
	bool idle = !t->queue.first;

	queue_put(&t->queue, j);
	if (!idle)
		return;
	advance(s, h);
	t->ends = h->clock + cost(j);
	h->run[h->running++] = thread;
	next_end(s, t->host);
}

void cpu_event(struct sim *s, unsigned host, uint64_t turn)
{
	struct host *h = &s->host[host];
	struct job *done;
	unsigned first = 0;

	if (turn != h->turn)
		return;
	advance(s, h);
	for (unsigned i = 1; i < h->running; i++)
		if (s->thread[h->run[i]].ends < s->thread[h->run[first]].ends)
			first = i;
	{
		struct thread *t = &s->thread[h->run[first]];

		done = queue_take(&t->queue);
		t->busy += cost(done);
		/* Rounding must not leave it a little before its end. */
		h->clock = fmax(h->clock, t->ends);
		if (t->queue.first)
			t->ends = h->clock + cost(t->queue.first);
		else
			h->run[first] = h->run[--h->running];
	}
	next_end(s, host);
	job_go(s, done);
}

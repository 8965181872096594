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

/* h->run is a heap: whose work ends first is at its top. */
static bool sooner(const struct sim *s, unsigned a, unsigned b)
{
	return s->thread[a].ends < s->thread[b].ends || (s->thread[a].ends == s->thread[b].ends && a < b);
}

static void run_put(const struct sim *s, struct host *h, unsigned thread)
{
	unsigned i = h->running++;

	for (; i > 0 && sooner(s, thread, h->run[(i - 1) / 2]); i = (i - 1) / 2)
		h->run[i] = h->run[(i - 1) / 2];
	h->run[i] = thread;
}

/* In place of the top. */
static void run_replace(const struct sim *s, struct host *h, unsigned thread)
{
	unsigned i = 0;

	for (;;) {
		unsigned child = 2 * i + 1;

		if (child + 1 < h->running && sooner(s, h->run[child + 1], h->run[child]))
			child++;
		if (child >= h->running || !sooner(s, h->run[child], thread))
			break;
		h->run[i] = h->run[child];
		i = child;
	}
	h->run[i] = thread;
}

static void next_end(struct sim *s, unsigned host)
{
	struct host *h = &s->host[host];

	h->turn++;
	if (h->running)
		sim_post(s, s->now + fmax(0, s->thread[h->run[0]].ends - h->clock) / speed(s, h), EVENT_HOST, host, NULL, h->turn);
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
	run_put(s, h, thread);
	next_end(s, t->host);
}

void cpu_event(struct sim *s, unsigned host, uint64_t turn)
{
	struct host *h = &s->host[host];
	struct thread *t;
	struct job *done;

	if (turn != h->turn)
		return;
	advance(s, h);
	t = &s->thread[h->run[0]];
	done = queue_take(&t->queue);
	t->busy += cost(done);
	/* Rounding must not leave it a little before its end. */
	h->clock = fmax(h->clock, t->ends);
	if (t->queue.first) {
		t->ends = h->clock + cost(t->queue.first);
		run_replace(s, h, h->run[0]);
	} else if (--h->running) {
		run_replace(s, h, h->run[h->running]);
	}
	next_end(s, host);
	job_go(s, done);
}

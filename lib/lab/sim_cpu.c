/* SPDX-License-Identifier: ISC */
#include <math.h>

#include "lab/sim_state.h"

/* Processor sharing. A host's own clock advances by the CPU time that each running thread gets, so
 * that the order of the threads' ends on it does not change when threads start or stop. */

/* CPU seconds that each running thread gets per second; less when many cores are busy (crowded). */
static double thread_speed(const struct sim *s, const struct host *h)
{
	double crowd = 1, used = h->running < h->cores ? h->running : h->cores;

	if (h->cores > 1 && used > 1)
		crowd += (s->spec->crowded - 1) * (used - 1) / (h->cores - 1);
	return used / h->running / crowd;
}

static void advance_clock(struct sim *s, struct host *h)
{
	if (h->running) {
		h->clock += (s->now - h->at) * thread_speed(s, h);
		h->busy += (s->now - h->at) * (h->running < h->cores ? h->running : h->cores);
	}
	h->at = s->now;
}

/* h->run is a heap: the thread whose work ends first is at the top. */
static bool ends_before(const struct sim *s, unsigned a, unsigned b)
{
	return s->thread[a].ends < s->thread[b].ends ||
	    (s->thread[a].ends == s->thread[b].ends && a < b);
}

static void run_put(const struct sim *s, struct host *h, unsigned thread)
{
	unsigned i = h->running++;

	for (; i > 0 && ends_before(s, thread, h->run[(i - 1) / 2]); i = (i - 1) / 2)
		h->run[i] = h->run[(i - 1) / 2];
	h->run[i] = thread;
}

/* Replaces the top of the heap by a thread. */
static void run_replace(const struct sim *s, struct host *h, unsigned thread)
{
	unsigned i = 0;

	for (;;) {
		unsigned child = 2 * i + 1;

		if (child + 1 < h->running && ends_before(s, h->run[child + 1], h->run[child]))
			child++;
		if (child >= h->running || !ends_before(s, h->run[child], thread))
			break;
		h->run[i] = h->run[child];
		i = child;
	}
	h->run[i] = thread;
}

/* Posts the event for the thread that ends first; earlier events of this host become invalid. */
static void post_next_end(struct sim *s, unsigned host)
{
	struct host *h = &s->host[host];

	h->turn++;
	if (h->running)
		sim_post(s,
		    s->now + fmax(0, s->thread[h->run[0]].ends - h->clock) / thread_speed(s, h),
		    EVENT_HOST, host, NULL, h->turn);
}

static double job_cost(const struct job *j)
{
	return j->stage == AT_RECEIVER ? j->after : j->before;
}

void sim_cpu_run(struct sim *s, struct job *j, unsigned thread)
{
	struct thread *t = &s->thread[thread];
	struct host *h = &s->host[t->host];
	bool idle = !t->queue.first;

	sim_queue_put(&t->queue, j);
	if (!idle)
		return;
	advance_clock(s, h);
	t->ends = h->clock + job_cost(j);
	run_put(s, h, thread);
	post_next_end(s, t->host);
}

/* Events of a host are not removed when its threads change: each change gets a new `turn`, and an
 * event with an older one is ignored. The job's own end was computed on the host's clock, which
 * advances by the CPU time of one thread. */
void sim_cpu_event(struct sim *s, unsigned host, uint64_t turn)
{
	struct host *h = &s->host[host];
	struct thread *t;
	struct job *done;

	if (turn != h->turn)
		return;
	advance_clock(s, h);
	t = &s->thread[h->run[0]];
	done = sim_queue_take(&t->queue);
	t->busy += job_cost(done);
	/* Rounding must not leave the clock a little before the job's end. */
	h->clock = fmax(h->clock, t->ends);
	if (t->queue.first) {
		t->ends = h->clock + job_cost(t->queue.first);
		run_replace(s, h, h->run[0]);
	} else if (--h->running) {
		run_replace(s, h, h->run[h->running]);
	}
	post_next_end(s, host);
	sim_job_advance(s, done);
}

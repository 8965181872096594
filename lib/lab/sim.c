/* SPDX-License-Identifier: ISC */
#include "lab/sim.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "core/num.h"
#include "lab/sim_state.h"

#define PAIRS_MAX  200000u
#define EVENTS_MAX UINT64_C(200000000)
/* Values beyond these are typing errors, and their sums might not be numbers. */
#define SECONDS_MAX 1e9
#define BYTES_MAX   1e18
#define RATE_MIN    1e-3
#define TIMES_MAX   1e6

/* ---- what is asked ---- */

/* At most a million workers and TIMES_MAX times; *out changes only on success. */
enum err_code sim_parse_slow(const char *text, struct sim_slow *out, struct err *e)
{
	char *copy = mem_strdup(text), *x = strchr(copy, 'x');
	double times = 0;
	int64_t n = 0;
	bool good = false;

	if (x) {
		*x = 0;
		good = num_int(copy, 1, 1000000, &n) && num_double(x + 1, &times) && times > 0 &&
		    times <= TIMES_MAX;
	}
	free(copy);
	if (!good)
		return err_set(e, ERR_CONFIG,
		    "must be a number of workers and the factor by which they are slower, as "
		    "1x2; got \"%.80s\"",
		    text);
	out->workers = (unsigned)n;
	out->times = times;
	return ERR_OK;
}

static enum err_code check_bounds(const char *what, double v, double least, double most,
    struct err *e)
{
	if (v >= least && v <= most)
		return ERR_OK;
	return err_set(e, ERR_CONFIG, "nothing to simulate: %s is %g, which must be from %g to %g",
	    what, v, least, most);
}

static enum err_code check_link(const char *what, const struct sim_link *l, struct err *e)
{
	double rate[] = { l->up, l->down };
	enum err_code rc = check_bounds(what, l->delay, 0, SECONDS_MAX, e);

	for (size_t i = 0; !rc && i < 2; i++)
		if (rate[i] != 0)
			rc = check_bounds(what, rate[i], RATE_MIN, BYTES_MAX, e);
	return rc;
}

/* NaN is refused with what is out of range. */
static enum err_code check_numbers(const struct sim_spec *p, struct err *e)
{
	const struct compute_time *c = &p->compute;
	const struct {
		const char *what;
		double v, least, most;
	} all[] = {
		{ "the size of a push", p->push_bytes, 0, BYTES_MAX },
		{ "the size of a pull", p->pull_bytes, 0, BYTES_MAX },
		{ "the size of a request", p->ask_bytes, 0, BYTES_MAX },
		{ "the size of an update of a replica", p->copy_bytes, 0, BYTES_MAX },
		{ "the number of bytes prepared ahead", p->ahead, 0, BYTES_MAX },
		{ "the time of a request", p->ask, 0, SECONDS_MAX },
		{ "the time to make a push", p->make_push, 0, SECONDS_MAX },
		{ "the time to send a push", p->send_push, 0, SECONDS_MAX },
		{ "the time to receive a push", p->take_push, 0, SECONDS_MAX },
		{ "the time to make a pull", p->make_pull, 0, SECONDS_MAX },
		{ "the time to send a pull", p->send_pull, 0, SECONDS_MAX },
		{ "the time to receive a pull", p->take_pull, 0, SECONDS_MAX },
		{ "the time of an update", p->update, 0, SECONDS_MAX },
		{ "the time to send a copy", p->send_copy, 0, SECONDS_MAX },
		{ "the time to receive a copy", p->take_copy, 0, SECONDS_MAX },
		{ "the proxy's time for a byte", p->carried, 0, 1 },
		{ "the time to compute", c->seconds, 0, SECONDS_MAX },
		{ "the probability of a long step", c->chance, 0, 1 },
		{ "the factor of long steps", c->chance > 0 ? c->times : 0, 0, TIMES_MAX },
		{ "the factor of slow workers", p->slow.workers ? p->slow.times : 0, 0, TIMES_MAX },
		{ "the slowdown on busy cores", p->crowded, 1, TIMES_MAX },
	};
	enum err_code rc = check_link("a worker's link", &p->worker, e);

	if (!rc)
		rc = check_link("a server's link", &p->server, e);
	for (size_t i = 0; !rc && i < sizeof all / sizeof *all; i++)
		rc = check_bounds(all[i].what, all[i].v, all[i].least, all[i].most, e);
	return rc;
}

static enum err_code check_spec(const struct sim_spec *p, struct err *e)
{
	if (!p->workers || !p->servers || !p->replicas || p->replicas > p->servers || !p->lanes ||
	    p->sync.backup >= p->workers)
		return err_set(e, ERR_CONFIG,
		    "nothing to simulate: %u workers, %u servers, %u replicas, backup %u",
		    p->workers, p->servers, p->replicas, p->sync.backup);
	if ((uint64_t)p->workers * p->servers > PAIRS_MAX)
		return err_set(e, ERR_CONFIG,
		    "%u workers times %u servers exceed the limit of the simulation (%u)",
		    p->workers, p->servers, PAIRS_MAX);
	return check_numbers(p, e);
}

/* ---- life ---- */

unsigned sim_lane(const struct sim *s, unsigned server, unsigned peer)
{
	return s->spec->workers + server * s->spec->lanes + peer % s->spec->lanes;
}

/* Threads in order: one a worker, `lanes` a server, the carrier. */
static void make_hosts(struct sim *s)
{
	const struct sim_spec *p = s->spec;

	s->carrier = p->workers + p->servers * p->lanes;
	s->nthreads = s->carrier + 1;
	s->thread = mem_array(s->nthreads, sizeof *s->thread);
	s->nhosts = p->cores ? 1 : p->workers + p->servers + 1;
	s->host = mem_array(s->nhosts, sizeof *s->host);
	for (unsigned i = 0; i < s->nthreads; i++) {
		unsigned own = i < p->workers ? i
		    : i == s->carrier         ? s->nhosts - 1
		                              : p->workers + (i - p->workers) / p->lanes;

		s->thread[i].host = p->cores ? 0 : own;
		s->host[s->thread[i].host].crew++;
	}
	for (unsigned i = 0; i < s->nhosts; i++) {
		s->host[i].cores = p->cores ? p->cores : s->host[i].crew;
		s->host[i].run = mem_array(s->host[i].crew, sizeof *s->host[i].run);
	}
}

/* Nodes 0 .. workers-1 are workers, the others servers. A worker sends to servers only; a server
 * also to other servers, along the chain. */
static void make_nodes(struct sim *s)
{
	const struct sim_spec *p = s->spec;

	s->nnodes = p->workers + p->servers;
	s->wire = mem_array(s->nnodes, sizeof *s->wire);
	for (unsigned i = 0; i < s->nnodes; i++) {
		s->wire[i].link = i < p->workers ? p->worker : p->server;
		s->wire[i].nflows = i < p->workers ? p->servers : s->nnodes;
		s->wire[i].flow = mem_array(s->wire[i].nflows, sizeof *s->wire[i].flow);
	}
	s->worker = mem_array(p->workers, sizeof *s->worker);
	s->group = mem_array(p->servers, sizeof *s->group);
	for (unsigned g = 0; g < p->servers; g++) {
		s->group[g].ready = mem_array(s->pieces, sizeof *s->group[g].ready);
		s->group[g].in = mem_array(s->pieces, sizeof *s->group[g].in);
		s->group[g].clock = mem_array(p->workers, sizeof *s->group[g].clock);
		s->group[g].waits = mem_array(p->workers, sizeof *s->group[g].waits);
	}
}

static void free_jobs(struct queue *q)
{
	struct job *j;

	while ((j = sim_queue_take(q)))
		free(j);
}

/* A job is in exactly one place: an event, a thread's queue, a flow's queue, or the list of spare
 * ones. */
static void release_sim(struct sim *s)
{
	for (size_t i = 0; i < s->nheap; i++)
		free(s->heap[i].job);
	for (unsigned i = 0; i < s->nthreads; i++)
		free_jobs(&s->thread[i].queue);
	for (unsigned i = 0; i < s->nhosts; i++)
		free(s->host[i].run);
	for (unsigned i = 0; i < s->nnodes; i++) {
		for (unsigned k = 0; k < s->wire[i].nflows; k++)
			free_jobs(&s->wire[i].flow[k]);
		free(s->wire[i].flow);
	}
	for (unsigned g = 0; g < s->spec->servers; g++) {
		free(s->group[g].in);
		free(s->group[g].ready);
		free(s->group[g].clock);
		free(s->group[g].waits);
	}
	while (s->spare) {
		struct job *j = s->spare;

		s->spare = j->next;
		free(j);
	}
	free(s->heap);
	free(s->thread);
	free(s->host);
	free(s->wire);
	free(s->worker);
	free(s->group);
}

/* ---- turning ---- */

void sim_job_start(struct sim *s, struct job *j)
{
	j->stage = AT_SENDER;
	sim_cpu_run(s, j, j->thread);
}

void sim_job_advance(struct sim *s, struct job *j)
{
	if (j->stage == AT_SENDER && j->travels && s->spec->carried > 0) {
		j->stage = AT_CARRIER;
		sim_cpu_run(s, j, s->carrier);
	} else if (j->stage < AT_LINE && j->travels) {
		j->stage = AT_LINE;
		sim_wire_send(s, j);
	} else if (j->stage == AT_LINE) {
		j->stage = AT_RECEIVER;
		sim_cpu_run(s, j, j->thread_to);
	} else {
		sim_steps_arrived(s, j);
	}
}

/* Busy seconds so far, by kind. */
static struct sim_busy sum_busy(const struct sim *s)
{
	struct sim_busy b = { 0 };
	unsigned workers = s->spec->workers;

	for (unsigned i = 0; i < s->nnodes; i++) {
		*(i < workers ? &b.worker_up : &b.server_up) += s->wire[i].sent;
		*(i < workers ? &b.worker_down : &b.server_down) += s->wire[i].received;
	}
	for (unsigned i = 0; i < s->carrier; i++)
		*(i < workers ? &b.worker_cpu : &b.server_cpu) += s->thread[i].busy;
	b.host = s->spec->cores ? s->host[0].busy : 0;
	return b;
}

void sim_count(struct sim *s, uint64_t taken)
{
	s->taken += taken;
	if (!s->warmed && s->taken >= s->warm_at) {
		s->warmed = true;
		s->warm = s->now;
		s->before = sum_busy(s);
		s->late = 0;
		s->warm_taken = s->taken;
	}
	if (s->taken >= s->end_at && !s->over) {
		s->over = true;
		s->end = s->now;
	}
}

static double busy_share(double after, double before, double n, double time)
{
	return n > 0 && time > 0 ? fmin(1, (after - before) / n / time) : 0;
}

/* All figures are differences between the end of the warm-up and the end of measuring. A gradient
 * is counted once for each group of parameters, hence the division by the number of servers. Backup
 * workers do not add to a step, so the step time is over the others. */
static void fill_result(const struct sim *s, struct sim_result *r)
{
	const struct sim_spec *p = s->spec;
	struct sim_busy now = sum_busy(s), was = s->before;
	double time = s->end - s->warm, taken = (double)(s->taken - s->warm_taken) / p->servers,
	       n = fmax(1, (double)s->counted);

	r->gradients_per_second = taken / time;
	r->step_seconds = time * (p->workers - p->sync.backup) / taken;
	r->compute_seconds = s->compute / n;
	r->push_seconds = s->push / n;
	r->wait_seconds = s->wait / n;
	r->pull_seconds = s->pull / n;
	r->late_share = (double)s->late / ((double)s->late + (double)(s->taken - s->warm_taken));
	r->worker_up = busy_share(now.worker_up, was.worker_up, p->workers, time);
	r->worker_down = busy_share(now.worker_down, was.worker_down, p->workers, time);
	r->server_up = busy_share(now.server_up, was.server_up, p->servers, time);
	r->server_down = busy_share(now.server_down, was.server_down, p->servers, time);
	r->worker_cpu = busy_share(now.worker_cpu, was.worker_cpu, p->workers, time);
	r->server_cpu = busy_share(now.server_cpu, was.server_cpu, p->servers * p->lanes, time);
	r->host_cpu = busy_share(now.host, was.host, p->cores, time);
}

/* Chooses the number of pieces and of measured steps: few enough that a large cluster takes a
 * second to simulate, and many enough that random effects average out. */
static void choose_lengths(struct sim *s)
{
	const struct sim_spec *p = s->spec;
	uint64_t pairs = (uint64_t)p->workers * p->servers, each, steps = p->steps;

	s->pieces = pairs <= 16 ? 64 : pairs <= 128 ? 16 : pairs <= 4000 ? 4 : 2;
	if (s->pieces > (p->pieces ? p->pieces : 16))
		s->pieces = p->pieces ? p->pieces : 16;
	each = pairs * s->pieces * 8;
	if (!steps) {
		steps = 800000 / each;
		steps = steps < 8 ? 8 : steps > 100 ? 100 : steps;
	}
	s->warm_at = (p->warm_up ? p->warm_up : 3) * (uint64_t)(p->workers - p->sync.backup) *
	    p->servers;
	s->end_at = s->warm_at + steps * (p->workers - p->sync.backup) * p->servers;
}

static void handle_sim_event(struct sim *s, const struct event *x)
{
	s->now = x->at;
	switch (x->kind) {
	case EVENT_HOST:
		sim_cpu_event(s, x->which, x->turn);
		break;
	case EVENT_WIRE:
		sim_wire_event(s, x->which);
		break;
	case EVENT_ARRIVE:
		sim_job_advance(s, x->job);
		break;
	}
}

/* A specification whose steps take no time would never move the clock; EVENTS_MAX bounds the
 * simulation in any case. On an error *out has no meaning. */
enum err_code sim_run(const struct sim_spec *spec, struct sim_result *out, struct err *e)
{
	struct sim s = { .spec = spec };
	enum err_code rc = check_spec(spec, e);
	struct event x;
	uint64_t n = 0;

	if (rc)
		return rc;
	*out = (struct sim_result){ 0 };
	choose_lengths(&s);
	make_hosts(&s);
	make_nodes(&s);
	sim_steps_begin(&s);
	while (!s.over && n++ < EVENTS_MAX && sim_next(&s, &x))
		handle_sim_event(&s, &x);
	out->events = n;
	if (s.over && s.end > s.warm)
		fill_result(&s, out);
	else if (n > EVENTS_MAX)
		rc = err_set(e, ERR_CONFIG,
		    "the simulation did not end within %llu events: use fewer steps, workers or servers",
		    (unsigned long long)EVENTS_MAX);
	else
		rc = err_set(e, ERR_CONFIG, "nothing to simulate: the steps take no time");
	release_sim(&s);
	return rc;
}

/* SPDX-License-Identifier: ISC */
#include <string.h>

#include "lab/sim_state.h"

/* The protocol of workers and servers: which message triggers which. Rules and order are those of
 * lib/role/worker/train.c, lib/cluster/client and lib/cluster/shard/gate.c.
 *
 * A worker: request_params -> take_answer (all pieces) -> start_compute -> on_computed ->
 * send_gradient -> begin_next_step. A server in bsp: take_push_piece -> summed_bsp (all gradients
 * of a piece) -> start_update -> on_updated -> copy_to_next along the chain -> show_step (last
 * server) -> maybe_answer. */

/* Nodes are numbered workers first, then servers. */
static unsigned node_of(const struct sim *s, unsigned server)
{
	return s->spec->workers + server;
}

/* The last server of the group's chain: pulls are answered there. */
static unsigned tail_server(const struct sim *s, unsigned group)
{
	return (group + s->spec->replicas - 1) % s->spec->servers;
}

/* A piece of a transfer between a worker and a server; `bytes` is the whole over all servers. */
static struct job *new_piece(struct sim *s, enum job_kind kind, unsigned group, unsigned worker,
    unsigned pieces, double bytes)
{
	struct job *j = sim_job_new(s, kind);

	j->travels = true;
	j->group = group;
	j->worker = worker;
	j->bytes = bytes / s->spec->servers / pieces;
	return j;
}

/* `before` and `after` are CPU seconds of the whole transfer, over all servers; the piece gets its
 * share. A worker has one thread, with the number of the worker. */
static void send_to_server(struct sim *s, struct job *j, unsigned server, double before,
    double after, unsigned pieces)
{
	j->from = j->thread = j->worker;
	j->to = node_of(s, server);
	j->thread_to = sim_lane(s, server, j->worker);
	j->before = before / s->spec->servers / pieces;
	j->after = after / s->spec->servers / pieces;
	sim_job_start(s, j);
}

static void send_to_worker(struct sim *s, struct job *j, unsigned server, double before,
    double after, unsigned pieces)
{
	j->from = node_of(s, server);
	j->to = j->thread_to = j->worker;
	j->thread = sim_lane(s, server, j->worker);
	j->before = before / s->spec->servers / pieces;
	j->after = after / s->spec->servers / pieces;
	sim_job_start(s, j);
}

/* ---- workers ---- */

/* A request is one piece, to the last server of each chain. */
static void request_params(struct sim *s, unsigned worker)
{
	struct coord_worker_state *w = &s->worker[worker];

	w->got = 0;
	w->first = -1;
	w->asked = s->now;
	for (unsigned g = 0; g < s->spec->servers; g++) {
		struct job *j = new_piece(s, JOB_ASK, g, worker, 1, s->spec->ask_bytes);

		j->step = w->step;
		send_to_server(s, j, tail_server(s, g), s->spec->ask, s->spec->ask, 1);
	}
}

/* The time is drawn from the worker's own generator, so it does not depend on the order of
 * events. */
static void start_compute(struct sim *s, unsigned worker)
{
	struct coord_worker_state *w = &s->worker[worker];
	struct job *j = sim_job_new(s, JOB_COMPUTE);

	j->thread = j->worker = worker;
	j->before = compute_time_draw(&s->spec->compute, &w->rng);
	if (worker < s->spec->slow.workers)
		j->before *= s->spec->slow.times;
	w->began = s->now;
	sim_job_start(s, j);
}

static void send_gradient(struct sim *s, unsigned worker);

/* Adds the step that has just ended to the statistics. */
static void note_step(struct sim *s, const struct coord_worker_state *w)
{
	double heard = w->first > w->pushed ? w->first : w->pushed;

	if (!s->warmed || w->pushed <= s->warm || w->pushed >= s->now)
		return;
	s->push += w->pushed - w->computed;
	s->wait += heard - w->pushed;
	s->pull += s->now - heard;
	s->compute += w->computed - w->began;
	s->counted++;
}

/* Starts computing once all parameters have arrived and the last push is acknowledged. */
static void maybe_compute(struct sim *s, unsigned worker)
{
	struct coord_worker_state *w = &s->worker[worker];

	if (w->got < s->spec->servers * s->pieces ||
	    (w->awaits_acks && w->acked < s->spec->servers))
		return;
	note_step(s, w);
	w->awaits_acks = false;
	w->got = 0;
	start_compute(s, worker);
}

static void on_computed(struct sim *s, unsigned worker)
{
	struct coord_worker_state *w = &s->worker[worker];

	w->computed = s->now;
	send_gradient(s, worker);
}

static void take_answer(struct sim *s, const struct job *j)
{
	struct coord_worker_state *w = &s->worker[j->worker];

	if (w->first < 0)
		w->first = s->now;
	w->got++;
	maybe_compute(s, j->worker);
}

/* Occupies a thread: it prepares data before it sends any of it. */
static void occupy_thread(struct sim *s, unsigned thread, double seconds)
{
	struct job *j = sim_job_new(s, JOB_MAKE);

	j->thread = thread;
	j->before = seconds;
	sim_job_start(s, j);
}

static void begin_next_step(struct sim *s, unsigned worker)
{
	struct coord_worker_state *w = &s->worker[worker];

	w->step++;
	/* Skip the steps that were closed without this worker, as far as it knows. */
	if (w->open > w->step)
		w->step = w->open;
	request_params(s, worker);
}

/* In bsp without backup workers a worker does not wait for acknowledgements before it computes
 * again; in other modes `awaits_acks` makes it wait. With prefetch the request for the next parameters
 * leaves before the gradient. */
static void send_gradient(struct sim *s, unsigned worker)
{
	const struct sim_spec *p = s->spec;
	struct coord_worker_state *w = &s->worker[worker];
	uint64_t step = w->step;

	w->acked = w->summed = 0;
	w->awaits_acks = !sync_sums_steps(&p->sync) || p->sync.backup > 0;
	if (p->prefetch)
		begin_next_step(s, worker);
	occupy_thread(s, worker, p->make_push);
	for (unsigned g = 0; g < p->servers; g++)
		for (unsigned k = 0; k < s->pieces; k++) {
			struct job *j = new_piece(s, JOB_PUSH, g, worker, s->pieces, p->push_bytes);

			j->step = step;
			j->piece = k;
			j->last = k + 1 == s->pieces;
			send_to_server(s, j, g, p->send_push, p->take_push, s->pieces);
		}
	if (!p->prefetch)
		begin_next_step(s, worker);
}

/* ---- servers ---- */

/* Does the synchronization mode let a worker at `step` have the parameters now? */
static bool may_pull(const struct sim *s, const struct group *g, uint64_t step)
{
	const struct sync_mode *mode = &s->spec->sync;

	/* The update of a summed step is shown when the last replica has it. */
	return (sync_sums_steps(mode) ? g->shown : g->floor) >= sync_needed_step(mode, step);
}

/* Answers a waiting request, if the mode lets its step be pulled. The first pieces are prepared
 * before any is sent (p->ahead bytes); each of the others is prepared when its turn to be sent
 * comes. */
static void maybe_answer(struct sim *s, unsigned group, unsigned worker)
{
	const struct sim_spec *p = s->spec;
	double each = p->make_pull / p->servers / s->pieces,
	       size = p->pull_bytes / p->servers / s->pieces;
	struct group *g = &s->group[group];
	unsigned server = tail_server(s, group),
	         ahead = p->ahead < size * s->pieces ? (unsigned)(p->ahead / size) : s->pieces;

	if (!g->waits[worker] || !may_pull(s, g, g->waits[worker] - 1))
		return;
	g->waits[worker] = 0;
	occupy_thread(s, sim_lane(s, server, worker), each * ahead);
	for (unsigned k = 0; k < s->pieces; k++)
		send_to_worker(s, new_piece(s, JOB_ANSWER, group, worker, s->pieces, p->pull_bytes),
		    server, p->send_pull + (k < ahead ? 0 : p->make_pull), p->take_pull, s->pieces);
}

static void answer_all(struct sim *s, unsigned group)
{
	for (unsigned w = 0; w < s->spec->workers; w++)
		maybe_answer(s, group, w);
}

static void answer_piece(struct sim *s, unsigned group, unsigned worker)
{
	send_to_worker(s, new_piece(s, JOB_ANSWER, group, worker, s->pieces, s->spec->pull_bytes),
	    tail_server(s, group), s->spec->send_pull + s->spec->make_pull, s->spec->take_pull,
	    s->pieces);
}

static void on_request(struct sim *s, const struct job *j)
{
	struct group *g = &s->group[j->group];

	g->waits[j->worker] = j->step + 1;
	for (unsigned k = 0; s->spec->prefetch && k < s->pieces; k++)
		if (g->ready[k] >= j->step)
			answer_piece(s, j->group, j->worker);
	if (!s->spec->prefetch)
		maybe_answer(s, j->group, j->worker);
}

/* The chain's last server has one more step of a piece. */
static void piece_ready(struct sim *s, unsigned group, unsigned piece)
{
	struct group *g = &s->group[group];

	g->ready[piece]++;
	for (unsigned w = 0; s->spec->prefetch && w < s->spec->workers; w++)
		if (g->waits[w] == g->ready[piece] + 1)
			answer_piece(s, group, w);
}

/* Acknowledges a push: it is safe, or it came too late. open: the step that is open. */
static void send_ack(struct sim *s, unsigned group, unsigned worker, unsigned server, uint64_t open)
{
	struct job *j = new_piece(s, JOB_ACK, group, worker, 1, 0);

	j->step = open;
	send_to_worker(s, j, server, 0, 0, 1);
}

/* Sends what this server has to the next one of the chain: in bsp the sum of a step. */
static void copy_to_next(struct sim *s, const struct job *done, unsigned server)
{
	struct job *j = new_piece(s, JOB_COPY, done->group, done->worker, s->pieces,
	    s->spec->copy_bytes);
	unsigned next = (server + 1) % s->spec->servers;

	j->last = done->last;
	j->step = done->step;
	j->piece = done->piece;
	j->from = node_of(s, server);
	j->to = node_of(s, next);
	j->thread = sim_lane(s, server, done->group);
	j->thread_to = sim_lane(s, next, done->group);
	j->before = s->spec->send_copy / s->spec->servers / s->pieces;
	j->after = s->spec->take_copy / s->spec->servers / s->pieces;
	sim_job_start(s, j);
}

/* bsp: the chain's last server has a complete step; pulls of the next step may be answered. */
static void show_step(struct sim *s, unsigned group)
{
	struct group *g = &s->group[group];

	g->copied = 0;
	g->shown++;
	for (unsigned w = 0; s->spec->sync.backup && w < s->spec->workers; w++)
		if (g->clock[w] == g->shown)
			send_ack(s, group, w, tail_server(s, group), g->shown);
	if (!s->spec->prefetch)
		answer_all(s, group);
}

/* bsp: a piece has been updated on the chain's first server. A step counts once all its pieces are.
 * The piece goes on along the chain; without replicas it is ready at once. */
static void on_updated(struct sim *s, const struct job *j)
{
	struct group *g = &s->group[j->group];

	if (++g->updated == s->pieces) {
		g->updated = 0;
		memset(g->in, 0, s->pieces * sizeof *g->in);
		g->closed++;
		sim_count(s, s->spec->workers - s->spec->sync.backup);
	}
	if (s->spec->replicas > 1) {
		copy_to_next(s, j, j->group);
		return;
	}
	piece_ready(s, j->group, j->piece);
	if (++g->copied == s->pieces)
		show_step(s, j->group);
}

/* Updates a piece when the last gradient that the step waits for is summed, while the piece is in
 * the cache. */
static void start_update(struct sim *s, const struct job *j)
{
	struct job *u = sim_job_new(s, JOB_UPDATE);

	u->thread = j->thread_to;
	u->group = j->group;
	u->piece = j->piece;
	u->before = s->spec->update / s->spec->servers / s->pieces;
	sim_job_start(s, u);
}

/* bsp: a gradient's piece has been added to the sum. A gradient beyond the wanted number is
 * late. */
static void summed_bsp(struct sim *s, const struct job *j)
{
	struct group *g = &s->group[j->group];
	unsigned wanted = s->spec->workers - s->spec->sync.backup;

	if (g->closed > j->step || g->in[j->piece] == wanted) {
		s->late += j->last;
		if (j->last)
			send_ack(s, j->group, j->worker, j->group,
			    j->step + 1 > g->closed ? j->step + 1 : g->closed);
		return;
	}
	if (j->last)
		g->clock[j->worker] = j->step + 1;
	if (++g->in[j->piece] == wanted)
		start_update(s, j);
}

/* ssp and asp: the worker's gradient is in. Requests are looked at again only when the slowest
 * worker has moved, since nothing else lets one through. */
static void advance_clocks(struct sim *s, const struct job *j)
{
	struct group *g = &s->group[j->group];
	uint64_t floor = UINT64_MAX;

	g->clock[j->worker] = j->step + 1;
	for (unsigned w = 0; w < s->spec->workers; w++)
		floor = g->clock[w] < floor ? g->clock[w] : floor;
	sim_count(s, 1);
	if (floor != g->floor) {
		g->floor = floor;
		answer_all(s, j->group);
	}
}

/* In bsp the sum of a step goes along the chain, so a piece is not replicated by itself. In other
 * modes each push is replicated, and its acknowledgement comes from the end of the chain. */
static void take_push_piece(struct sim *s, const struct job *j)
{
	bool sums = sync_sums_steps(&s->spec->sync);

	if (j->last && ++s->worker[j->worker].summed == s->spec->servers)
		s->worker[j->worker].pushed = s->now;
	if (sums)
		summed_bsp(s, j);
	else if (s->spec->replicas > 1)
		copy_to_next(s, j, j->group);
	if (sums || !j->last)
		return;
	advance_clocks(s, j);
	if (s->spec->replicas == 1)
		send_ack(s, j->group, j->worker, j->group, 0);
}

/* An update has reached the next server of its chain: it goes on from there, or the last server
 * acknowledges it (ssp, asp) or shows the step (bsp). */
static void on_copy(struct sim *s, const struct job *j)
{
	unsigned server = j->to - s->spec->workers;

	if (server != tail_server(s, j->group)) {
		copy_to_next(s, j, server);
	} else if (!sync_sums_steps(&s->spec->sync)) {
		if (j->last)
			send_ack(s, j->group, j->worker, j->group, 0);
	} else {
		piece_ready(s, j->group, j->piece);
		if (++s->group[j->group].copied == s->pieces)
			show_step(s, j->group);
	}
}

/* ---- both ---- */

/* Consumes the job. JOB_MAKE has no effect beside the time that it kept its thread busy. */
void sim_steps_arrived(struct sim *s, struct job *j)
{
	switch (j->kind) {
	case JOB_ASK:
		on_request(s, j);
		break;
	case JOB_ANSWER:
		take_answer(s, j);
		break;
	case JOB_COMPUTE:
		on_computed(s, j->worker);
		break;
	case JOB_PUSH:
		take_push_piece(s, j);
		break;
	case JOB_UPDATE:
		on_updated(s, j);
		break;
	case JOB_COPY:
		on_copy(s, j);
		break;
	case JOB_MAKE:
		break;
	case JOB_ACK:
		s->worker[j->worker].acked++;
		if (j->step > s->worker[j->worker].open)
			s->worker[j->worker].open = j->step;
		maybe_compute(s, j->worker);
		break;
	}
	sim_job_free(s, j);
}

void sim_steps_begin(struct sim *s)
{
	for (unsigned w = 0; w < s->spec->workers; w++) {
		rng_init(&s->worker[w].rng, rng_mix(s->spec->seed) ^ w);
		s->worker[w].pushed = -1;
		request_params(s, w);
	}
}

#include <string.h>

#include "sim/sim_state.h"

/* Workers and servers: who sends what when what has come.  Rules and order are
 * those of lib/work/train.c, lib/client and lib/shard/gate.c. */

static unsigned node_of(const struct sim *s, unsigned server)
{
	return s->spec->workers + server;
}

static unsigned tail_of(const struct sim *s, unsigned group)
{
	return (group + s->spec->replicas - 1) % s->spec->servers;
}

/* A piece between a worker and a server, of which all servers together make `whole`. */
static struct job *piece(struct sim *s, enum job_kind kind, unsigned group, unsigned worker, unsigned pieces, double bytes)
{
	struct job *j = job_new(s, kind);

	j->travels = true;
	j->group = group;
	j->worker = worker;
	j->bytes = bytes / s->spec->servers / pieces;
	return j;
}

static void to_server(struct sim *s, struct job *j, unsigned server, double before, double after, unsigned pieces)
{
	j->from = j->thread = j->worker;
	j->to = node_of(s, server);
	j->thread_to = sim_lane(s, server, j->worker);
	j->before = before / s->spec->servers / pieces;
	j->after = after / s->spec->servers / pieces;
	job_start(s, j);
}

static void to_worker(struct sim *s, struct job *j, unsigned server, double before, double after, unsigned pieces)
{
	j->from = node_of(s, server);
	j->to = j->thread_to = j->worker;
	j->thread = sim_lane(s, server, j->worker);
	j->before = before / s->spec->servers / pieces;
	j->after = after / s->spec->servers / pieces;
	job_start(s, j);
}

/* ---- workers -------------------------------------------------------------------- */

static void ask(struct sim *s, unsigned worker)
{
	struct worker_state *w = &s->worker[worker];

	w->got = 0;
	w->first = -1;
	w->asked = s->now;
	for (unsigned g = 0; g < s->spec->servers; g++) {
		struct job *j = piece(s, JOB_ASK, g, worker, 1, s->spec->ask_bytes);

		j->step = w->step;
		to_server(s, j, tail_of(s, g), s->spec->ask, s->spec->ask, 1);
	}
}

static void compute(struct sim *s, unsigned worker)
{
	const struct sim_compute *c = &s->spec->compute;
	struct worker_state *w = &s->worker[worker];
	struct job *j = job_new(s, JOB_COMPUTE);

	j->thread = j->worker = worker;
	j->before = c->seconds;
	if (c->chance > 0 && rng_unit(&w->rng) < c->chance)
		j->before *= c->times;
	if (worker < c->slow)
		j->before *= c->slowness;
	w->began = s->now;
	job_start(s, j);
}

static void push(struct sim *s, unsigned worker);

/* The step that is over, of which only the wait is seen when all else is hidden. */
static void note_step(struct sim *s, const struct worker_state *w)
{
	double heard = w->first > w->pushed ? w->first : w->pushed;

	if (!s->warmed || w->pushed <= s->warm || w->pushed >= s->now)
		return;
	if (s->spec->overlap) {
		s->wait += s->now - w->computed;
	} else {
		s->push += w->pushed - w->computed;
		s->wait += heard - w->pushed;
		s->pull += s->now - heard;
	}
	s->compute += w->computed - w->began;
	s->counted++;
}

/* All parameters are here, and it is known what became of the push before. */
static void maybe_compute(struct sim *s, unsigned worker)
{
	struct worker_state *w = &s->worker[worker];

	if (w->got < s->spec->servers * s->pieces || (w->owed && w->acked < s->spec->servers))
		return;
	if (s->spec->overlap && w->step > 0 && !w->held)
		return;
	note_step(s, w);
	w->owed = false;
	w->got = 0;
	if (w->held)
		push(s, worker);
	w->held = false;
	compute(s, worker);
}

static void computed(struct sim *s, unsigned worker)
{
	struct worker_state *w = &s->worker[worker];

	w->computed = s->now;
	/* The first has no push before it whose answer could be waited for. */
	w->held = s->spec->overlap && w->step > 0;
	if (w->held) {
		maybe_compute(s, worker);
		return;
	}
	push(s, worker);
	if (s->spec->overlap)
		compute(s, worker);
}

static void answered(struct sim *s, const struct job *j)
{
	struct worker_state *w = &s->worker[j->worker];

	if (w->first < 0)
		w->first = s->now;
	w->got++;
	maybe_compute(s, j->worker);
}

/* The thread makes what is to be sent before it sends any of it. */
static void make(struct sim *s, unsigned thread, double seconds)
{
	struct job *j = job_new(s, JOB_MAKE);

	j->thread = thread;
	j->before = seconds;
	job_start(s, j);
}

static void next_step(struct sim *s, unsigned worker)
{
	struct worker_state *w = &s->worker[worker];

	w->step++;
	/* Steps that were closed without it are gone, as far as it has heard. */
	if (w->open > w->step)
		w->step = w->open;
	ask(s, worker);
}

static void push(struct sim *s, unsigned worker)
{
	const struct sim_spec *p = s->spec;
	struct worker_state *w = &s->worker[worker];
	uint64_t step = w->step;

	w->acked = w->summed = 0;
	w->owed = p->sync.kind != SYNC_bsp || p->sync.backup > 0;
	if (p->prefetch)
		next_step(s, worker);
	make(s, worker, p->make_push);
	for (unsigned g = 0; g < p->servers; g++)
		for (unsigned k = 0; k < s->pieces; k++) {
			struct job *j = piece(s, JOB_PUSH, g, worker, s->pieces, p->push_bytes);

			j->step = step;
			j->piece = k;
			j->last = k + 1 == s->pieces;
			to_server(s, j, g, p->send_push, p->take_push, s->pieces);
		}
	if (!p->prefetch)
		next_step(s, worker);
}

/* ---- servers --------------------------------------------------------------------- */

static bool may_pull(const struct sim *s, const struct group *g, uint64_t step)
{
	if (s->spec->sync.kind == SYNC_bsp)
		return g->shown >= step;
	return s->spec->sync.kind == SYNC_asp || g->floor + s->spec->sync.staleness >= step;
}

static void maybe_answer(struct sim *s, unsigned group, unsigned worker)
{
	const struct sim_spec *p = s->spec;
	double each = p->make_pull / p->servers / s->pieces, size = p->pull_bytes / p->servers / s->pieces;
	struct group *g = &s->group[group];
	unsigned server = tail_of(s, group), ahead = p->ahead < size * s->pieces ? (unsigned)(p->ahead / size) : s->pieces;

	if (!g->waits[worker] || !may_pull(s, g, g->waits[worker] - 1))
		return;
	g->waits[worker] = 0;
	make(s, sim_lane(s, server, worker), each * ahead);
	for (unsigned k = 0; k < s->pieces; k++)
		to_worker(s, piece(s, JOB_ANSWER, group, worker, s->pieces, p->pull_bytes), server,
		    p->send_pull + (k < ahead ? 0 : p->make_pull), p->take_pull, s->pieces);
}

static void answer_all(struct sim *s, unsigned group)
{
	for (unsigned w = 0; w < s->spec->workers; w++)
		maybe_answer(s, group, w);
}

static void answer_piece(struct sim *s, unsigned group, unsigned worker)
{
	to_worker(s, piece(s, JOB_ANSWER, group, worker, s->pieces, s->spec->pull_bytes), tail_of(s, group),
	    s->spec->send_pull + s->spec->make_pull, s->spec->take_pull, s->pieces);
}

static void asked(struct sim *s, const struct job *j)
{
	struct group *g = &s->group[j->group];

	g->waits[j->worker] = j->step + 1;
	for (unsigned k = 0; s->spec->prefetch && k < s->pieces; k++)
		if (g->ready[k] >= j->step)
			answer_piece(s, j->group, j->worker);
	if (!s->spec->prefetch)
		maybe_answer(s, j->group, j->worker);
}

/* The last copy has one step more of a piece. */
static void ready(struct sim *s, unsigned group, unsigned piece)
{
	struct group *g = &s->group[group];

	g->ready[piece]++;
	for (unsigned w = 0; s->spec->prefetch && w < s->spec->workers; w++)
		if (g->waits[w] == g->ready[piece] + 1)
			answer_piece(s, group, w);
}

/* Nothing but that it is safe, or too late: open is the step that is open. */
static void acknowledge(struct sim *s, unsigned group, unsigned worker, unsigned server, uint64_t open)
{
	struct job *j = piece(s, JOB_ACK, group, worker, 1, 0);

	j->step = open;
	to_worker(s, j, server, 0, 0, 1);
}

/* The next of the chain gets what this one has: in bsp the sum of a step. */
static void copy_on(struct sim *s, const struct job *done, unsigned server)
{
	struct job *j = piece(s, JOB_COPY, done->group, done->worker, s->pieces, s->spec->copy_bytes);
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
	job_start(s, j);
}

static void show(struct sim *s, unsigned group)
{
	struct group *g = &s->group[group];

	g->copied = 0;
	g->shown++;
	for (unsigned w = 0; s->spec->sync.backup && w < s->spec->workers; w++)
		if (g->clock[w] == g->shown)
			acknowledge(s, group, w, tail_of(s, group), g->shown);
	if (!s->spec->prefetch)
		answer_all(s, group);
}

static void updated(struct sim *s, const struct job *j)
{
	struct group *g = &s->group[j->group];

	if (++g->updated == s->pieces) {
		g->updated = 0;
		memset(g->in, 0, s->pieces * sizeof *g->in);
		g->closed++;
		sim_count(s, s->spec->workers - s->spec->sync.backup);
	}
	if (s->spec->replicas > 1) {
		copy_on(s, j, j->group);
		return;
	}
	ready(s, j->group, j->piece);
	if (++g->copied == s->pieces)
		show(s, j->group);
}

/* The piece's update is made when the last gradient that the step waits for is
 * summed, while it lies in the cache. */
static void update(struct sim *s, const struct job *j)
{
	struct job *u = job_new(s, JOB_UPDATE);

	u->thread = j->thread_to;
	u->group = j->group;
	u->piece = j->piece;
	u->before = s->spec->update / s->spec->servers / s->pieces;
	job_start(s, u);
}

static void summed_bsp(struct sim *s, const struct job *j)
{
	struct group *g = &s->group[j->group];
	unsigned wanted = s->spec->workers - s->spec->sync.backup;

	if (g->closed > j->step || g->in[j->piece] == wanted) {
		s->late += j->last;
		if (j->last)
			acknowledge(s, j->group, j->worker, j->group, j->step + 1 > g->closed ? j->step + 1 : g->closed);
		return;
	}
	if (j->last)
		g->clock[j->worker] = j->step + 1;
	if (++g->in[j->piece] == wanted)
		update(s, j);
}

static void clock_told(struct sim *s, const struct job *j)
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

static void pushed(struct sim *s, const struct job *j)
{
	bool bsp = s->spec->sync.kind == SYNC_bsp;

	if (j->last && ++s->worker[j->worker].summed == s->spec->servers)
		s->worker[j->worker].pushed = s->now;
	if (bsp)
		summed_bsp(s, j);
	else if (s->spec->replicas > 1)
		copy_on(s, j, j->group);
	if (bsp || !j->last)
		return;
	clock_told(s, j);
	if (s->spec->replicas == 1)
		acknowledge(s, j->group, j->worker, j->group, 0);
}

static void copied(struct sim *s, const struct job *j)
{
	unsigned server = j->to - s->spec->workers;

	if (server != tail_of(s, j->group)) {
		copy_on(s, j, server);
	} else if (s->spec->sync.kind != SYNC_bsp) {
		if (j->last)
			acknowledge(s, j->group, j->worker, j->group, 0);
	} else {
		ready(s, j->group, j->piece);
		if (++s->group[j->group].copied == s->pieces)
			show(s, j->group);
	}
}

/* ---- both ------------------------------------------------------------------------- */

void steps_arrived(struct sim *s, struct job *j)
{
	switch (j->kind) {
	case JOB_ASK:
		asked(s, j);
		break;
	case JOB_ANSWER:
		answered(s, j);
		break;
	case JOB_COMPUTE:
		computed(s, j->worker);
		break;
	case JOB_PUSH:
		pushed(s, j);
		break;
	case JOB_UPDATE:
		updated(s, j);
		break;
	case JOB_COPY:
		copied(s, j);
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
	job_free(s, j);
}

void steps_begin(struct sim *s)
{
	for (unsigned w = 0; w < s->spec->workers; w++) {
		rng_init(&s->worker[w].rng, rng_mix(s->spec->seed) ^ w);
		s->worker[w].pushed = -1;
		ask(s, w);
	}
}

/* SPDX-License-Identifier: ISC */
/* The leases of a stream (coord/leases.h): workers die, rest, give partitions back, and the coordinator and
 * the whole job begin again, and every event counts once in each partition of the model. */
#include <string.h>
#include <time.h>

#include "coord/leases.h"
#include "core/mem.h"
#include "core/rng.h"
#include "tap.h"

enum { PARTS = 3, STREAMS = 4, EVENTS = 120, WORKERS = 3, LOG = 8192, HELD = STREAMS };

/* Places grow by 10 for each event, from 1000 on. */
static int64_t place_of(uint64_t event)
{
	return 1000 + 10 * (int64_t)event;
}

/* A partition that a worker holds, with copies of the earlier attempts. */
struct held {
	bool have;
	struct lease task;
};

struct worker {
	struct held held[HELD];
	uint64_t step, last[PARTS];
};

struct world {
	struct leases *t;
	struct rng rng;
	unsigned pushed[STREAMS][EVENTS][PARTS];
	struct worker worker[WORKERS];
	bool broken;
	unsigned logged;
	struct lease_change log[LOG];
	struct taken lists[LOG];
	/* a checkpoint: which partitions of the model are in it, and what they had */
	bool in[PARTS];
	unsigned saved[STREAMS][EVENTS][PARTS];
	uint64_t last[PARTS][WORKERS];
};

static void log_change(void *ctx, const struct lease_change *c)
{
	struct world *w = ctx;

	if (w->logged == LOG) {
		w->broken = true;
		return;
	}
	w->log[w->logged] = *c;
	taken_release(&w->lists[w->logged]);
	if (c->taken) {
		w->lists[w->logged] = taken_copy(c->taken);
		w->log[w->logged].taken = &w->lists[w->logged];
	}
	w->logged++;
}

static void drop_held(struct held *h)
{
	for (size_t i = 0; h->have && i < h->task.n_earlier; i++)
		taken_release(&h->task.earlier[i].taken);
	if (h->have)
		free(h->task.earlier);
	h->have = false;
}

static void copy_task(struct held *h, const struct lease *k)
{
	h->have = true;
	h->task = *k;
	h->task.earlier = mem_array(k->n_earlier + 1, sizeof *k->earlier);
	for (size_t i = 0; i < k->n_earlier; i++) {
		h->task.earlier[i] = k->earlier[i];
		h->task.earlier[i].taken = taken_copy(&k->earlier[i].taken);
	}
}

static void announce(struct world *w, unsigned i, struct held *h, uint64_t batch)
{
	struct lease_attempt *a = &h->task.attempt;

	a->step = w->worker[i].step;
	a->batch = batch;
	leases_advance(w->t, i, h->task.id, a->from, a->step, batch, place_of(a->from));
}

static bool was_pushed(const struct lease *k, uint64_t x, uint32_t part)
{
	for (size_t i = 0; i < k->n_earlier; i++) {
		const struct lease_attempt *a = &k->earlier[i];

		if (x >= a->from &&
		    taken_has(&a->taken, 0, part, a->step + (x - a->from) / a->batch))
			return true;
	}
	return false;
}

/* The size of the batch at event x that an earlier attempt may have pushed; 0: there is none. */
static uint64_t repeated_batch(const struct lease *k, uint64_t x)
{
	uint64_t batch = 0, from = 0, most = UINT64_MAX, end = 0;

	for (size_t i = 0; i < k->n_earlier; i++) {
		const struct lease_attempt *a = &k->earlier[i];
		uint64_t to = taken_end(&a->taken);

		to = a->from + (to > a->step ? to - a->step : 0) * a->batch;
		end = to > end ? to : end;
		if (a->from > x) {
			most = a->from - x < most ? a->from - x : most;
		} else if (a->from >= from) {
			from = a->from;
			batch = a->batch;
		}
	}
	return x < end ? (batch < most ? batch : most) : 0;
}

static void lose_worker(struct world *w, unsigned i, uint64_t complete)
{
	struct worker *me = &w->worker[i];
	struct taken taken = { 0 };

	for (uint32_t p = 0; p < PARTS; p++)
		if (me->last[p])
			taken_add(&taken, 0, p, me->last[p]);
	leases_take_back(w->t, i, complete, &taken);
	taken_release(&taken);
	for (unsigned k = 0; k < HELD; k++)
		drop_held(&me->held[k]);
	me->step += 1 + rng_below(&w->rng, 3);
}

/* Trains on one batch of a partition. False: it died before all of it was pushed. */
static bool train_batch(struct world *w, unsigned i, struct held *h, bool may_die)
{
	struct worker *me = &w->worker[i];
	uint64_t x = h->task.attempt.from, n = repeated_batch(&h->task, x), left = EVENTS - x;
	bool dies = may_die && rng_below(&w->rng, 10) == 0;
	uint32_t parts = dies ? (uint32_t)rng_below(&w->rng, PARTS + 1) : PARTS;

	if (!n)
		n = h->task.attempt.batch && rng_below(&w->rng, 3) ? h->task.attempt.batch
		                                                   : 1 + rng_below(&w->rng, 6);
	n = n < left ? n : left;
	/* It rests on all others first. */
	for (unsigned k = 0; k < HELD; k++)
		if (me->held[k].have && &me->held[k] != h && me->held[k].task.attempt.batch)
			announce(w, i, &me->held[k], 0);
	if (h->task.attempt.batch != n || h->task.attempt.step != me->step)
		announce(w, i, h, n);
	for (uint32_t p = 0; p < parts; p++) {
		bool has = false;

		for (uint64_t v = x; v < x + n; v++)
			if (v % PARTS == p && !was_pushed(&h->task, x, p)) {
				w->pushed[h->task.id][v][p]++;
				has = true;
			}
		if (has)
			me->last[p] = me->step + 1;
	}
	if (dies) {
		/* Another server may know less of its clock. */
		lose_worker(w, i, rng_below(&w->rng, 2) ? me->step : me->step / 2);
		return false;
	}
	me->step++;
	/* As leases.c counts it: the attempt goes on behind the batch. */
	h->task.attempt.from += n;
	h->task.attempt.step = me->step;
	return true;
}

static bool check_mark(const struct lease *k)
{
	return k->place == LEASES_NOT_BEGUN
	    ? !k->attempt.from
	    : k->place == place_of(k->placed) && k->placed <= k->attempt.from;
}

static void lease_some(struct world *w, unsigned i)
{
	const struct lease *k = leases_give(w->t, i, w->worker[i].step, 0);
	struct held *h = w->worker[i].held;

	if (!k)
		return;
	w->broken |= !check_mark(k);
	while (h->have)
		h++;
	copy_task(h, k);
}

/* Gives a partition back that it rests on. */
static void give_back(struct world *w, unsigned i, struct held *h)
{
	uint64_t id[HELD];
	size_t n = 0;

	announce(w, i, h, 0);
	drop_held(h);
	for (unsigned k = 0; k < HELD; k++)
		if (w->worker[i].held[k].have)
			id[n++] = w->worker[i].held[k].task.id;
	leases_keep_only(w->t, i, id, n);
}

static void move_worker(struct world *w, unsigned i, bool may_die)
{
	struct worker *me = &w->worker[i];
	struct held *h = &me->held[rng_below(&w->rng, HELD)];

	if (rng_below(&w->rng, 4) == 0)
		lease_some(w, i);
	if (!h->have)
		return;
	if (rng_below(&w->rng, 20) == 0) {
		give_back(w, i, h);
		return;
	}
	if (h->task.attempt.from < EVENTS) {
		train_batch(w, i, h, may_die);
		return;
	}
	/* A step without an event. */
	for (unsigned k = 0; k < HELD; k++)
		if (me->held[k].have && me->held[k].task.attempt.batch)
			announce(w, i, &me->held[k], 0);
	me->step++;
	if (may_die && rng_below(&w->rng, 10) == 0)
		lose_worker(w, i, me->step);
}

static void restart_coordinator(struct world *w, const struct state_leases *saved)
{
	leases_free(w->t);
	w->t = leases_new_stream(STREAMS);
	leases_set_limit(w->t, HELD);
	if (saved)
		leases_load(w->t, saved, true);
	for (unsigned i = 0; i < w->logged; i++)
		w->broken |= !leases_replay(w->t, &w->log[i]);
	leases_watch(w->t, log_change, w);
}

static bool all_trained(const struct world *w)
{
	for (unsigned s = 0; s < STREAMS; s++)
		for (unsigned v = 0; v < EVENTS; v++)
			for (uint32_t p = 0; p < PARTS; p++)
				if (w->pushed[s][v][p] != (v % PARTS == p))
					return false;
	return true;
}

static void end_world(struct world *w, struct state_leases *saved)
{
	for (unsigned i = 0; i < WORKERS; i++)
		for (unsigned k = 0; k < HELD; k++)
			drop_held(&w->worker[i].held[k]);
	leases_free(w->t);
	state_leases_free(saved);
	for (unsigned i = 0; i < LOG; i++)
		taken_release(&w->lists[i]);
	free(w);
}

/* Workers are lost, and the coordinator goes on from its saved state and its log. */
static bool survives(uint64_t seed)
{
	struct world *w = mem_alloc(sizeof *w);
	struct state_leases *saved = NULL;
	bool good;

	rng_init(&w->rng, seed);
	w->t = leases_new_stream(STREAMS);
	leases_set_limit(w->t, HELD);
	leases_watch(w->t, log_change, w);
	for (unsigned turn = 0; !all_trained(w) && turn < 8000; turn++) {
		move_worker(w, turn % WORKERS, turn < 3000);
		if (rng_below(&w->rng, 40) == 0)
			restart_coordinator(w, saved);
		if (rng_below(&w->rng, 40) == 0) {
			state_leases_free(saved);
			saved = leases_save(w->t);
			w->logged = 0;
		}
	}
	good = all_trained(w) && !w->broken && !leases_finished(w->t);
	end_world(w, saved);
	return good;
}

static bool take_values(struct world *w)
{
	uint32_t p = (uint32_t)rng_below(&w->rng, PARTS);
	bool all = true;

	if (!w->in[p]) {
		w->in[p] = true;
		for (unsigned s = 0; s < STREAMS; s++)
			for (unsigned v = 0; v < EVENTS; v++)
				w->saved[s][v][p] = w->pushed[s][v][p];
		for (unsigned i = 0; i < WORKERS; i++)
			w->last[p][i] = w->worker[i].last[p];
	}
	for (p = 0; p < PARTS; p++)
		all &= w->in[p];
	return all;
}

static struct state_leases *recorded(struct world *w)
{
	struct taken by[WORKERS] = { 0 };
	struct state_leases *state;

	for (unsigned i = 0; i < WORKERS; i++)
		for (uint32_t p = 0; p < PARTS; p++)
			if (w->last[p][i])
				taken_add(&by[i], 0, p, w->last[p][i]);
	state = leases_recorded(w->t, by, WORKERS);
	leases_end_record(w->t);
	for (unsigned i = 0; i < WORKERS; i++)
		taken_release(&by[i]);
	return state;
}

/* A checkpoint is taken while workers train and are lost; everything is killed, and another job goes on
 * from the checkpoint. */
static bool resumes(uint64_t seed)
{
	struct world *w = mem_alloc(sizeof *w);
	struct state_leases *state;
	unsigned before;
	bool good;

	rng_init(&w->rng, seed);
	w->t = leases_new_stream(STREAMS);
	leases_set_limit(w->t, HELD);
	before = (unsigned)rng_below(&w->rng, 200);
	for (unsigned i = 0; i < before; i++)
		move_worker(w, (unsigned)rng_below(&w->rng, WORKERS), true);
	leases_begin_record(w->t);
	while (!take_values(w))
		for (unsigned i = (unsigned)rng_below(&w->rng, 20); i > 0; i--)
			move_worker(w, (unsigned)rng_below(&w->rng, WORKERS), true);
	state = recorded(w);
	leases_free(w->t);
	w->t = leases_new_stream(STREAMS);
	leases_set_limit(w->t, HELD);
	leases_load(w->t, state, false);
	state_leases_free(state);
	memcpy(w->pushed, w->saved, sizeof w->pushed);
	for (unsigned i = 0; i < WORKERS; i++) {
		for (unsigned k = 0; k < HELD; k++)
			drop_held(&w->worker[i].held[k]);
		memset(&w->worker[i], 0, sizeof w->worker[i]);
	}
	for (unsigned turn = 0; !all_trained(w) && turn < 8000; turn++)
		move_worker(w, turn % WORKERS, turn < 1000);
	good = all_trained(w) && !w->broken;
	end_world(w, NULL);
	return good;
}

static void limits(void)
{
	struct leases *t = leases_new_stream(3);
	uint64_t done, leased, all;
	const struct lease *k;

	leases_set_limit(t, 2);
	k = leases_give(t, 0, 0, 0);
	ok(k && k->id == 0 && k->place == LEASES_NOT_BEGUN, "a partition that is new has no place");
	leases_advance(t, 0, 0, 5, 1, 0, 70);
	leases_take_back(t, 0, 0, NULL);
	k = leases_give(t, 1, 0, 0);
	ok(k && k->attempt.from == 0 && k->place == LEASES_NOT_BEGUN,
	    "a worker that rests cannot skip events");
	leases_advance(t, 1, 0, 0, 1, 8, 70);
	leases_advance(t, 1, 0, 16, 3, 0, 230);
	leases_take_back(t, 1, 9, NULL);
	k = leases_give(t, 2, 0, 0);
	ok(k && k->attempt.from == 16 && k->placed == 16 && k->place == 230,
	    "steps after a rest do not count as events");
	ok(leases_give(t, 2, 0, 0) && !leases_give(t, 2, 0, 0) && leases_held(t, 2) == 2,
	    "a worker holds no more than it may");
	ok(leases_give(t, 1, 0, 0) && !leases_give(t, 0, 0, 0), "each partition is leased once");
	leases_extend(t, 4);
	k = leases_give(t, 0, 0, 0);
	leases_count(t, &done, &leased, &all);
	ok(k && k->id == 3 && leased == 4 && !leases_finished(t),
	    "a partition that is added is leased");
	leases_free(t);
}

/* A partition is added and leased, and the coordinator ends before its state has the partition: the log of
 * leases alone tells of it. */
static void added_since_the_state(void)
{
	struct leases *t = leases_new_stream(1);
	const struct lease *k;

	ok(leases_give(t, 0, 0, 0) &&
	        leases_replay(t,
	            &(struct lease_change){ .event = LEASE_GIVEN, .id = 1, .worker = 1 }) &&
	        leases_held(t, 1) == 1,
	    "the lease of a partition that the saved state does not have is repeated");
	ok(!leases_replay(t, &(struct lease_change){ .event = LEASE_GIVEN, .id = 3, .worker = 1 }),
	    "the partition after the next one cannot have been leased");
	leases_set_limit(t, 2);
	k = leases_give(t, 0, 0, 0);
	ok(!k, "it is leased once");
	leases_free(t);
}

/* Returns the processor time of this thread, in ns. */
static int64_t processor_time(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* The processor's time in which a worker with so many partitions says once where it is, a checkpoint
 * is taken while it trains on each of them, and another coordinator goes on. */
static int64_t measure_leases(uint64_t partitions)
{
	struct leases *t = leases_new_stream(partitions), *next = leases_new_stream(partitions);
	uint64_t *id = mem_array(partitions, sizeof *id);
	struct taken taken = { 0 };
	struct state_leases *s;
	int64_t began;

	leases_set_limit(t, (unsigned)partitions);
	for (uint64_t i = 0; i < partitions; i++)
		id[i] = leases_give(t, 0, 0, 0)->id;
	began = processor_time();
	for (uint64_t i = 0; i < partitions; i++)
		leases_advance(t, 0, id[i], 0, 1, 0, (int64_t)i);
	leases_keep_only(t, 0, id, partitions);
	leases_begin_record(t);
	for (uint64_t i = 0; i < partitions; i++) {
		leases_advance(t, 0, id[i], 0, 2 + i, 8, (int64_t)i);
		leases_advance(t, 0, id[i], 8, 3 + i, 0, (int64_t)i + 8);
	}
	s = leases_recorded(t, &taken, 1);
	leases_end_record(t);
	leases_load(next, s, false);
	began = processor_time() - began;
	state_leases_free(s);
	leases_free(t);
	leases_free(next);
	free(id);
	return began;
}

/* With a search through all leases for each of them, 16 times as many would take 256 times as long. */
static void many_partitions(void)
{
	int64_t few = INT64_MAX, many = INT64_MAX;

	for (unsigned i = 0; i < 3; i++) {
		int64_t spent = measure_leases(1000);

		few = spent < few ? spent : few;
		spent = measure_leases(16000);
		many = spent < many ? spent : many;
	}
	ok(many < 100 * few, "16 times as many partitions take %d times as long",
	    (int)(many / (few ? few : 1)));
}

int main(void)
{
	unsigned good = 0;

	many_partitions();

	limits();
	added_since_the_state();
	for (uint64_t seed = 1; seed <= 500; seed++)
		good += survives(seed);
	ok(good == 500, "every event counts once, whoever is lost (%u of 500 worlds)", good);
	good = 0;
	for (uint64_t seed = 1; seed <= 500; seed++)
		good += resumes(seed);
	ok(good == 500, "and when a job goes on from a checkpoint (%u of 500 worlds)", good);
	return tap_done();
}

/* SPDX-License-Identifier: ISC */
/* Who trains on what: bsp's deal by steps and the leases of ssp and asp, for
 * all small numbers.  Every example once in every epoch. */
#include <stdlib.h>
#include <string.h>

#include "coord/leases.h"
#include "core/mem.h"
#include "core/rng.h"
#include "layout/step_data.h"
#include "tap.h"

enum { EPOCHS = 3, MOST = 24 };

/* ---- by steps ---- */

struct tally {
	unsigned seen[EPOCHS][MOST];
	unsigned wrong;
};

static void take(struct tally *t, struct data_position at, const struct step_shape *s)
{
	uint64_t covered = at.offset;

	for (uint64_t position = 0; position < s->ranks; position++) {
		uint64_t begin, end;

		step_data_range(at, position, s, &begin, &end);
		t->wrong += begin > end || end > s->examples || end - begin > s->batch ||
		    begin != covered;
		covered = end;
		for (uint64_t i = begin; i < end; i++)
			t->seen[at.epoch][i]++;
	}
	/* A step without one example would be a step for nothing. */
	t->wrong += covered == at.offset;
}

static bool each_once(const struct tally *t, uint64_t examples)
{
	for (unsigned e = 0; e < EPOCHS; e++)
		for (unsigned i = 0; i < MOST; i++)
			if (t->seen[e][i] != (i < examples))
				return false;
	return !t->wrong;
}

static void by_steps(void)
{
	unsigned bad = 0, worlds = 0, skipped = 0;

	for (uint64_t examples = 1; examples <= MOST; examples++)
		for (uint64_t batch = 1; batch <= MOST + 1; batch++)
			for (uint64_t ranks = 1; ranks <= 5; ranks++) {
				struct step_shape s = { examples, batch, ranks };
				struct data_position begin = { 0, 0 }, at;
				struct tally t = { 0 };
				uint64_t steps = 0;

				for (; (at = step_data_advance(begin, steps, &s)).epoch < EPOCHS;
				     steps++)
					take(&t, at, &s);
				bad += !each_once(&t, examples);
				bad += step_data_steps_left(begin, EPOCHS, &s) != steps;
				/* Far jumps are many single ones. */
				at = begin;
				for (uint64_t k = 0; k < steps; k++) {
					struct data_position far = step_data_advance(begin, k, &s);

					skipped += far.epoch != at.epoch || far.offset != at.offset;
					skipped += step_data_steps_left(at, EPOCHS, &s) !=
					    steps - k;
					at = step_data_advance(at, 1, &s);
				}
				worlds++;
			}
	ok(!bad,
	    "each example is dealt once in each epoch, by as many steps as foretold (%u worlds)",
	    worlds);
	ok(!skipped, "wherever one begins to count");
}

/* Members change at every possible step of the first epoch, to every number. */
static void by_steps_changing(void)
{
	unsigned bad = 0, worlds = 0;

	for (uint64_t examples = 1; examples <= 17; examples++)
		for (uint64_t batch = 1; batch <= 4; batch++)
			for (uint64_t before = 1; before <= 4; before++)
				for (uint64_t after = 1; after <= 4; after++)
					for (uint64_t when = 0; when <= 8; when++) {
						struct step_shape s1 = { examples, batch, before },
						                  s2 = { examples, batch, after };
						struct data_position begin = { 0, 0 }, at,
						                     then = step_data_advance(begin,
						                         when, &s1);
						struct tally t = { 0 };

						for (uint64_t k = 0; k < when &&
						     (at = step_data_advance(begin, k, &s1)).epoch <
						         EPOCHS;
						     k++)
							take(&t, at, &s1);
						for (uint64_t k = 0;
						     (at = step_data_advance(then, k, &s2)).epoch <
						     EPOCHS;
						     k++)
							take(&t, at, &s2);
						bad += !each_once(&t, examples);
						worlds++;
					}
	ok(!bad, "also when the number of workers changes at any step (%u worlds)", worlds);
	ok(step_data_steps_left((struct data_position){ 3, 0 }, 3,
	       &(struct step_shape){ 10, 2, 2 }) == 0,
	    "after the last epoch nothing is left");
}

/* ---- by leases ---- */

/* Three workers lease in turn; worker 1 dies after its k-th lease, having done
 * `finished` of them. */
static bool leases(uint64_t examples, uint64_t range, unsigned dies_after, unsigned finished,
    bool *again)
{
	struct leases *t = leases_new(examples, range, EPOCHS);
	unsigned done[EPOCHS][MOST] = { { 0 } }, taken[EPOCHS][MOST] = { { 0 } }, leased = 0,
	         wrong = 0;
	uint64_t n_done, n_leased, all, id, held[64];
	const struct lease *task;
	bool dead = false;

	for (unsigned turn = 0; !leases_finished(t) && turn < 1000; turn++) {
		unsigned worker = turn % 3;

		if (worker == 1 && dead)
			continue;
		if (!(task = leases_give(t, worker, 0, 1))) {
			/* Nothing more for it to take: then it dies with what it holds. */
			if (worker == 1)
				leases_take_back(t, 1, 0, NULL);
			dead |= worker == 1;
			continue;
		}
		wrong += task->begin >= task->end || task->end > examples ||
		    task->end - task->begin > range || task->epoch >= EPOCHS;
		for (uint64_t i = task->begin; i < task->end; i++)
			taken[task->epoch][i]++;
		if (worker == 1) {
			held[leased++] = task->id;
			if (leased > finished && leased < dies_after)
				continue;
			if (leased == dies_after) {
				dead = true;
				leases_take_back(t, 1, 0, NULL);
				wrong += leases_note_done(t, 1, held[leased - 1], 0); /* too late */
				continue;
			}
		}
		for (uint64_t i = task->begin; i < task->end; i++)
			done[task->epoch][i]++;
		id = task->id;
		wrong += !leases_note_done(t, worker, id, 0);
		wrong += leases_note_done(t, worker, id, 0); /* twice */
	}
	wrong += !leases_finished(t) || leases_give(t, 0, 0, 1);
	leases_count(t, &n_done, &n_leased, &all);
	wrong += n_done != all || n_leased != 0 || all != EPOCHS * ((examples + range - 1) / range);
	for (unsigned e = 0; e < EPOCHS; e++)
		for (unsigned i = 0; i < examples; i++) {
			wrong += done[e][i] != 1;
			*again |= taken[e][i] > 1;
		}
	leases_free(t);
	return !wrong;
}

static void by_leases(void)
{
	unsigned bad = 0, worlds = 0;
	bool again = false;

	for (uint64_t examples = 1; examples <= MOST; examples++)
		for (uint64_t range = 1; range <= MOST + 1; range++) {
			bad += !leases(examples, range, 1000, 1000, &again);
			worlds++;
		}
	ok(!bad && !again, "each example is leased once in each epoch when nobody dies (%u worlds)",
	    worlds);
	for (uint64_t examples = 1; examples <= 13; examples++)
		for (uint64_t range = 1; range <= 5; range++)
			for (unsigned dies = 1; dies <= 6; dies++)
				for (unsigned fin = 0; fin < dies; fin++) {
					bad += !leases(examples, range, dies, fin, &again);
					worlds++;
				}
	ok(!bad && again,
	    "what a dead worker held is leased again, and each range is done once (%u worlds)",
	    worlds);
}

static void lease_owner(void)
{
	struct leases *t = leases_new(10, 4, 0);
	const struct lease *a, *b;
	uint64_t done, leased, all, id;
	bool others;

	a = leases_give(t, 0, 0, 1);
	b = leases_give(t, 1, 0, 1);
	id = b->id;
	ok(a->id == 0 && a->begin == 0 && a->end == 4 && b->id == 1 && b->begin == 4 && b->end == 8,
	    "leases follow one another");
	others = leases_note_done(t, 1, 0, 0);
	ok(!others && leases_note_done(t, 0, 0, 0),
	    "only the holder of a lease can say that it is done");
	leases_take_back(t, 1, 0, NULL);
	a = leases_give(t, 2, 0, 1);
	others = a->id != id || leases_note_done(t, 1, id, 0);
	ok(!others && leases_note_done(t, 2, id, 0),
	    "a returned one is leased to the next worker that asks");
	a = leases_give(t, 2, 0, 1);
	ok(a->begin == 8 && a->end == 10, "the last of an epoch is short");
	a = leases_give(t, 2, 0, 1);
	ok(a->epoch == 1 && a->begin == 0, "then the next epoch begins");
	for (int i = 0; i < 1000; i++)
		if (!(a = leases_give(t, 3, 0, 1)) || !leases_note_done(t, 3, a->id, 0))
			break;
	leases_count(t, &done, &leased, &all);
	ok(done == 1002 && leased == 2 && all == UINT64_MAX && !leases_finished(t),
	    "without epochs there is no end");
	leases_free(t);
}

/* The examples of an epoch of blocks are known when all its ranges are done, also by one who has taken the
 * state or the changes over, and of the first epoch that begins under the count. */
static struct leases *copied;

static void copy_change(void *ctx, const struct lease_change *c)
{
	(void)ctx;
	if (!leases_replay(copied, c))
		abort();
}

static void counted_examples(void)
{
	struct leases *t = leases_new(10, 4, 3), *loaded = leases_new(10, 4, 3);
	struct state_leases *saved;
	bool early = false;

	copied = leases_new(10, 4, 3);
	leases_watch(t, copy_change, NULL);
	for (uint64_t i = 0; i < 3; i++) {
		early |= leases_epoch_examples(t) || leases_epoch_examples(copied);
		leases_note_done(t, 0, leases_give(t, 0, 0, 1)->id, 100 + i);
	}
	saved = leases_save(t);
	leases_load(loaded, saved, true);
	state_leases_free(saved);
	ok(!early && leases_epoch_examples(t) == 303 && leases_epoch_examples(copied) == 303 &&
	        leases_epoch_examples(loaded) == 303,
	    "examples of an epoch are known after the first one");
	leases_note_done(t, 0, leases_give(t, 0, 0, 1)->id, 7);
	ok(leases_epoch_examples(t) == 303 && leases_epochs_done(t) > 1.3 &&
	        leases_epochs_done(t) < 1.4,
	    "later ones do not count");
	leases_free(t);
	leases_free(loaded);
	leases_free(copied);
	t = leases_new(10, 4, 3);
	leases_begin_at(t, 0, 5);
	for (uint64_t i = 0; i < 2; i++)
		leases_note_done(t, 0, leases_give(t, 0, 0, 1)->id, 50);
	early = leases_epoch_examples(t);
	for (uint64_t i = 0; i < 3; i++)
		leases_note_done(t, 0, leases_give(t, 0, 0, 1)->id, 5);
	ok(!early && leases_epoch_examples(t) == 15,
	    "of an epoch that was begun before, they are not");
	leases_free(t);
}

/* ---- attempts ---- */

#define PARTS  3
#define RANGES 4
#define RANGE  20
#define LOG    4096

/* A world with a worker that dies at any moment: at each step it pushes a batch to some partitions and
 * then may be lost. The coordinator is saved and loaded, and its log is repeated, now and then. */
struct world {
	struct leases *t;
	struct rng rng;
	unsigned pushed[RANGES * RANGE][PARTS]; /* how often each example was applied */
	uint64_t step, clock, last[PARTS];      /* of the worker: clock: steps with all pushes */
	bool broken;                            /* the log did not follow from the saved state */
	unsigned logged;
	struct lease_change log[LOG];
	struct taken lists[LOG];
};

static void log_change(void *ctx, const struct lease_change *c)
{
	struct world *w = ctx;

	w->log[w->logged] = *c;
	taken_release(&w->lists[w->logged]);
	if (c->taken) {
		w->lists[w->logged] = taken_copy(c->taken);
		w->log[w->logged].taken = &w->lists[w->logged];
	}
	w->logged++;
}

/* Was the batch that begins at example x pushed to the partition in an earlier attempt? */
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

/* Pushes the examples [x, end) of a range to the first partitions. Every example is a row of partition
 * x % PARTS, so that not every batch has all partitions. */
static void push_batch(struct world *w, const struct lease *k, uint64_t x, uint64_t end,
    uint32_t parts)
{
	for (uint32_t p = 0; p < parts; p++) {
		bool has = false;

		for (uint64_t i = x; i < end; i++)
			if (i % PARTS == p && !was_pushed(k, x, p)) {
				w->pushed[k->begin + i][p]++;
				has = true;
			}
		if (has)
			w->last[p] = w->step + 1;
	}
}

/* Trains on a range for at most so many steps, and pushes the last batch to some partitions only. True:
 * the range is done. */
static bool train_range(struct world *w, const struct lease *k, uint64_t steps)
{
	uint64_t size = k->end - k->begin, x = k->attempt.from;

	for (; x < size; x += k->attempt.batch, w->step++, steps--) {
		uint64_t end = x + k->attempt.batch < size ? x + k->attempt.batch : size;

		push_batch(w, k, x, end, steps ? PARTS : (uint32_t)rng_below(&w->rng, PARTS + 1));
		if (!steps)
			return false;
		w->clock = w->step + 1;
	}
	return true;
}

static void lose_worker(struct world *w)
{
	struct taken taken = { 0 };

	for (uint32_t p = 0; p < PARTS; p++)
		if (w->last[p])
			taken_add(&taken, 0, p, w->last[p]);
	/* Another server may know less of its clock. */
	leases_take_back(w->t, 0, rng_below(&w->rng, 2) ? w->clock : w->clock / 2, &taken);
	taken_release(&taken);
	/* The position's next process begins beyond all steps. */
	w->step += 1 + rng_below(&w->rng, 3);
}

/* The coordinator ends, and another one goes on by the saved state and the log. */
static void restart_coordinator(struct world *w, const struct state_leases *saved)
{
	leases_free(w->t);
	w->t = leases_new(RANGES * RANGE, RANGE, 1);
	if (saved)
		leases_load(w->t, saved, true);
	for (unsigned i = 0; i < w->logged; i++)
		w->broken |= !leases_replay(w->t, &w->log[i]);
	leases_watch(w->t, log_change, w);
}

static bool counts_once(const struct world *w)
{
	for (unsigned i = 0; i < RANGES * RANGE; i++)
		for (uint32_t p = 0; p < PARTS; p++)
			if (w->pushed[i][p] != (i % RANGE % PARTS == p))
				return false;
	return true;
}

static bool survives(uint64_t seed)
{
	struct world *w = mem_alloc(sizeof *w);
	struct state_leases *saved = NULL;
	bool good;

	rng_init(&w->rng, seed);
	w->t = leases_new(RANGES * RANGE, RANGE, 1);
	leases_watch(w->t, log_change, w);
	for (unsigned turn = 0; !leases_finished(w->t) && turn < 1000; turn++) {
		const struct lease *k = leases_give(w->t, 0, w->step, 1 + rng_below(&w->rng, 5));
		uint64_t id = k->id;

		if (train_range(w, k, rng_below(&w->rng, 8))) {
			leases_note_done(w->t, 0, id, 0);
		} else {
			if (rng_below(&w->rng, 3) == 0)
				restart_coordinator(w, saved);
			lose_worker(w);
		}
		if (rng_below(&w->rng, 5) == 0) {
			state_leases_free(saved);
			saved = leases_save(w->t);
			w->logged = 0;
		}
	}
	good = counts_once(w) && leases_finished(w->t) && !w->broken;
	leases_free(w->t);
	state_leases_free(saved);
	for (unsigned i = 0; i < LOG; i++)
		taken_release(&w->lists[i]);
	free(w);
	return good;
}

/* ---- attempts while a checkpoint is taken ---- */

enum { WORKERS = 3 };

/* A worker in the middle of a range. */
struct trainer {
	bool busy;
	struct lease task; /* with copies of its earlier attempts */
	uint64_t x, step, last[PARTS];
};

/* A world of workers that push at the same time, and of partitions whose values are taken one by one. */
struct show {
	struct leases *t;
	struct rng rng;
	unsigned pushed[RANGES * RANGE][PARTS];
	struct trainer worker[WORKERS];
	/* the checkpoint: which partitions are in it, their values, and the steps that they had taken */
	bool in[PARTS];
	unsigned saved[RANGES * RANGE][PARTS];
	uint64_t last[PARTS][WORKERS];
};

static void begin_task(struct trainer *w, const struct lease *k)
{
	w->busy = true;
	w->task = *k;
	w->task.earlier = mem_array(k->n_earlier + 1, sizeof *k->earlier);
	for (size_t i = 0; i < k->n_earlier; i++) {
		w->task.earlier[i] = k->earlier[i];
		w->task.earlier[i].taken = taken_copy(&k->earlier[i].taken);
	}
	w->x = k->attempt.from;
}

static void end_task(struct trainer *w)
{
	for (size_t i = 0; w->busy && i < w->task.n_earlier; i++)
		taken_release(&w->task.earlier[i].taken);
	if (w->busy)
		free(w->task.earlier);
	w->busy = false;
}

/* Pushes the worker's batch to one partition after the other, up to `parts`. */
static void push_some(struct show *s, struct trainer *w, uint64_t end, uint32_t parts)
{
	for (uint32_t p = 0; p < parts; p++) {
		bool has = false;

		for (uint64_t i = w->x; i < end; i++)
			if (i % PARTS == p && !was_pushed(&w->task, w->x, p)) {
				s->pushed[w->task.begin + i][p]++;
				has = true;
			}
		if (has)
			w->last[p] = w->step + 1;
	}
}

/* The batch size at the worker's place, as in role/worker/batches.c: that of the last earlier attempt that
 * began before, and at most what is left to the next one. */
static uint64_t earlier_batch(const struct trainer *w)
{
	uint64_t batch = w->task.attempt.batch, from = 0, most = UINT64_MAX;

	for (size_t k = 0; k < w->task.n_earlier; k++) {
		const struct lease_attempt *a = &w->task.earlier[k];

		if (a->from > w->x) {
			most = a->from - w->x < most ? a->from - w->x : most;
		} else if (a->from >= from) {
			from = a->from;
			batch = a->batch;
		}
	}
	return batch < most ? batch : most;
}

/* One worker makes one step, or dies in the middle of it. */
static void move_worker(struct show *s, uint32_t i, bool may_die)
{
	struct trainer *w = &s->worker[i];
	bool dies = may_die && rng_below(&s->rng, 12) == 0;
	uint64_t size, end, batch;

	if (!w->busy) {
		const struct lease *k = leases_give(s->t, i, w->step, 1 + rng_below(&s->rng, 5));

		if (!k)
			return;
		begin_task(w, k);
	}
	size = w->task.end - w->task.begin;
	/* The batch size changes in the middle of a range. */
	if (w->x < size && !w->task.n_earlier && rng_below(&s->rng, 10) == 0) {
		w->task.attempt = (struct lease_attempt){ .from = w->x,
			.step = w->step,
			.batch = 1 + rng_below(&s->rng, 5) };
		leases_advance(s->t, i, w->task.id, w->x, w->step, w->task.attempt.batch, 0);
	}
	batch = earlier_batch(w);
	if (batch != w->task.attempt.batch) {
		w->task.attempt = (struct lease_attempt){ .from = w->x,
			.step = w->step,
			.batch = batch };
		leases_advance(s->t, i, w->task.id, w->x, w->step, batch, 0);
	}
	end = w->x + w->task.attempt.batch < size ? w->x + w->task.attempt.batch : size;
	push_some(s, w, end, dies ? (uint32_t)rng_below(&s->rng, PARTS + 1) : PARTS);
	if (dies) {
		struct taken taken = { 0 };

		for (uint32_t p = 0; p < PARTS; p++)
			if (w->last[p])
				taken_add(&taken, 0, p, w->last[p]);
		leases_take_back(s->t, i, w->step, &taken);
		taken_release(&taken);
		end_task(w);
		w->step += 1 + rng_below(&s->rng, 3);
		return;
	}
	w->x = end;
	w->step++;
	if (w->x >= size) {
		leases_note_done(s->t, i, w->task.id, 0);
		end_task(w);
	}
}

/* Takes the values of one more partition. True: all are taken. */
static bool take_values(struct show *s)
{
	uint32_t p = (uint32_t)rng_below(&s->rng, PARTS);
	bool all = true;

	if (!s->in[p]) {
		s->in[p] = true;
		for (unsigned i = 0; i < RANGES * RANGE; i++)
			s->saved[i][p] = s->pushed[i][p];
		for (unsigned i = 0; i < WORKERS; i++)
			s->last[p][i] = s->worker[i].last[p];
	}
	for (p = 0; p < PARTS; p++)
		all &= s->in[p];
	return all;
}

static struct state_leases *saved_leases(struct show *s)
{
	struct taken by[WORKERS] = { 0 };
	struct state_leases *state;

	for (unsigned i = 0; i < WORKERS; i++)
		for (uint32_t p = 0; p < PARTS; p++)
			if (s->last[p][i])
				taken_add(&by[i], 0, p, s->last[p][i]);
	state = leases_recorded(s->t, by, WORKERS);
	leases_end_record(s->t);
	for (unsigned i = 0; i < WORKERS; i++)
		taken_release(&by[i]);
	return state;
}

/* A job begins, a checkpoint is taken in its middle, and another job goes on from that. */
static bool resumes(uint64_t seed)
{
	struct show *s = mem_alloc(sizeof *s);
	struct state_leases *state;
	unsigned before;
	bool good = true;

	rng_init(&s->rng, seed);
	s->t = leases_new(RANGES * RANGE, RANGE, 1);
	before = (unsigned)rng_below(&s->rng, 30);
	for (unsigned i = 0; i < before; i++)
		move_worker(s, (uint32_t)rng_below(&s->rng, WORKERS), true);
	leases_begin_record(s->t);
	while (!take_values(s))
		for (unsigned i = (unsigned)rng_below(&s->rng, 8); i > 0; i--)
			move_worker(s, (uint32_t)rng_below(&s->rng, WORKERS), true);
	state = saved_leases(s);
	leases_free(s->t);
	s->t = leases_new(RANGES * RANGE, RANGE, 1);
	leases_load(s->t, state, false);
	state_leases_free(state);
	memcpy(s->pushed, s->saved, sizeof s->pushed);
	for (unsigned i = 0; i < WORKERS; i++) {
		end_task(&s->worker[i]);
		memset(&s->worker[i], 0, sizeof s->worker[i]);
	}
	for (unsigned turn = 0; !leases_finished(s->t) && turn < 2000; turn++)
		move_worker(s, turn % WORKERS, turn < 100);
	for (unsigned i = 0; i < RANGES * RANGE; i++)
		for (uint32_t p = 0; p < PARTS; p++)
			good &= s->pushed[i][p] == (i % RANGE % PARTS == p);
	good &= leases_finished(s->t);
	for (unsigned i = 0; i < WORKERS; i++)
		end_task(&s->worker[i]);
	leases_free(s->t);
	free(s);
	return good;
}

static void by_attempts(void)
{
	unsigned good = 0;

	for (uint64_t seed = 1; seed <= 2000; seed++)
		good += survives(seed);
	ok(good == 2000,
	    "every example counts once in its partition, whenever workers are lost (%u of 2000 worlds)",
	    good);
	good = 0;
	for (uint64_t seed = 1; seed <= 2000; seed++)
		good += resumes(seed);
	ok(good == 2000,
	    "and when a job goes on from a checkpoint in the middle (%u of 2000 worlds)", good);
}

int main(void)
{
	by_steps();
	by_steps_changing();
	by_leases();
	lease_owner();
	counted_examples();
	by_attempts();
	return tap_done();
}

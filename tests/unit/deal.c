/* SPDX-License-Identifier: ISC */
/* Who trains on what: bsp's deal by steps and the leases of ssp and asp, for
 * all small numbers.  Every example once in every epoch. */
#include <stdlib.h>
#include <string.h>

#include "layout/deal.h"
#include "coord/tasks.h"
#include "tap.h"

enum { EPOCHS = 3, MOST = 24 };

/* ---- by steps ---- */

struct tally {
	unsigned seen[EPOCHS][MOST];
	unsigned wrong;
};

static void take(struct tally *t, struct deal_pos at, const struct deal_shape *s)
{
	uint64_t covered = at.offset;

	for (uint64_t rank = 0; rank < s->slots; rank++) {
		uint64_t begin, end;

		deal_range(at, rank, s, &begin, &end);
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
			for (uint64_t slots = 1; slots <= 5; slots++) {
				struct deal_shape s = { examples, batch, slots };
				struct deal_pos begin = { 0, 0 }, at;
				struct tally t = { 0 };
				uint64_t steps = 0;

				for (; (at = deal_advance(begin, steps, &s)).epoch < EPOCHS;
				     steps++)
					take(&t, at, &s);
				bad += !each_once(&t, examples);
				bad += deal_steps_left(begin, EPOCHS, &s) != steps;
				/* Far jumps are many single ones. */
				at = begin;
				for (uint64_t k = 0; k < steps; k++) {
					struct deal_pos far = deal_advance(begin, k, &s);

					skipped += far.epoch != at.epoch || far.offset != at.offset;
					skipped += deal_steps_left(at, EPOCHS, &s) != steps - k;
					at = deal_advance(at, 1, &s);
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
						struct deal_shape s1 = { examples, batch, before },
						                  s2 = { examples, batch, after };
						struct deal_pos begin = { 0, 0 }, at,
						                then = deal_advance(begin, when,
						                    &s1);
						struct tally t = { 0 };

						for (uint64_t k = 0; k < when &&
						     (at = deal_advance(begin, k, &s1)).epoch <
						         EPOCHS;
						     k++)
							take(&t, at, &s1);
						for (uint64_t k = 0;
						     (at = deal_advance(then, k, &s2)).epoch <
						     EPOCHS;
						     k++)
							take(&t, at, &s2);
						bad += !each_once(&t, examples);
						worlds++;
					}
	ok(!bad, "also when the number of workers changes at any step (%u worlds)", worlds);
	ok(deal_steps_left((struct deal_pos){ 3, 0 }, 3, &(struct deal_shape){ 10, 2, 2 }) == 0,
	    "after the last epoch nothing is left");
}

/* ---- by leases ---- */

/* Three workers lease in turn; worker 1 dies after its k-th lease, having done
 * `finished` of them. */
static bool leases(uint64_t examples, uint64_t range, unsigned dies_after, unsigned finished,
    bool *again)
{
	struct tasks *t = tasks_new(examples, range, EPOCHS);
	unsigned done[EPOCHS][MOST] = { { 0 } }, taken[EPOCHS][MOST] = { { 0 } }, leased = 0,
	         wrong = 0;
	uint64_t n_done, n_leased, all, held[64];
	struct task task;
	bool dead = false;

	for (unsigned turn = 0; !tasks_finished(t) && turn < 1000; turn++) {
		unsigned worker = turn % 3;

		if (worker == 1 && dead)
			continue;
		if (!tasks_lease(t, worker, &task)) {
			/* Nothing more for it to take: then it dies with what it holds. */
			if (worker == 1)
				tasks_return(t, 1);
			dead |= worker == 1;
			continue;
		}
		wrong += task.begin >= task.end || task.end > examples ||
		    task.end - task.begin > range || task.epoch >= EPOCHS;
		for (uint64_t i = task.begin; i < task.end; i++)
			taken[task.epoch][i]++;
		if (worker == 1) {
			held[leased++] = task.id;
			if (leased > finished && leased < dies_after)
				continue;
			if (leased == dies_after) {
				dead = true;
				tasks_return(t, 1);
				wrong += tasks_done(t, 1, held[leased - 1]); /* too late */
				continue;
			}
		}
		wrong += !tasks_done(t, worker, task.id);
		wrong += tasks_done(t, worker, task.id); /* twice */
		for (uint64_t i = task.begin; i < task.end; i++)
			done[task.epoch][i]++;
	}
	wrong += !tasks_finished(t) || tasks_lease(t, 0, &task);
	tasks_count(t, &n_done, &n_leased, &all);
	wrong += n_done != all || n_leased != 0 || all != EPOCHS * ((examples + range - 1) / range);
	for (unsigned e = 0; e < EPOCHS; e++)
		for (unsigned i = 0; i < examples; i++) {
			wrong += done[e][i] != 1;
			*again |= taken[e][i] > 1;
		}
	tasks_free(t);
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
	struct tasks *t = tasks_new(10, 4, 0);
	struct task a, b;
	uint64_t done, leased, all;

	tasks_lease(t, 0, &a);
	tasks_lease(t, 1, &b);
	ok(a.id == 0 && a.begin == 0 && a.end == 4 && b.id == 1 && b.begin == 4 && b.end == 8,
	    "leases follow one another");
	ok(!tasks_done(t, 1, a.id) && tasks_done(t, 0, a.id),
	    "only who holds a lease can say that it is done");
	tasks_return(t, 1);
	tasks_lease(t, 2, &a);
	ok(a.id == b.id && !tasks_done(t, 1, a.id) && tasks_done(t, 2, a.id),
	    "a returned one goes to the next who asks");
	tasks_lease(t, 2, &a);
	ok(a.begin == 8 && a.end == 10, "the last of an epoch is short");
	tasks_lease(t, 2, &a);
	ok(a.epoch == 1 && a.begin == 0, "then the next epoch begins");
	for (int i = 0; i < 1000; i++)
		if (!tasks_lease(t, 3, &a) || !tasks_done(t, 3, a.id))
			break;
	tasks_count(t, &done, &leased, &all);
	ok(done == 1002 && leased == 2 && all == UINT64_MAX && !tasks_finished(t),
	    "without epochs there is no end");
	tasks_free(t);
}

int main(void)
{
	by_steps();
	by_steps_changing();
	by_leases();
	lease_owner();
	return tap_done();
}

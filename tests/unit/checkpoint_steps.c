/* SPDX-License-Identifier: ISC */
/* Which steps "checkpoint_every" asks for when a request takes as long as many steps. */
#include "coord/checkpoint_steps.h"

#include "tap.h"

/* A job that passes this number of steps while a request is on its way. */
struct job {
	uint64_t step, passing;
};

/* Requests checkpoints from the multiple `next` on until one is in time. Returns the number of requests. */
static unsigned request_until_in_time(struct checkpoint_steps *s, struct job *j, uint64_t next,
    uint64_t *made)
{
	unsigned requests = 1;

	for (j->step += j->passing; next <= j->step && requests < 100; j->step += j->passing) {
		next = checkpoint_steps_late(s, j->step);
		requests++;
	}
	*made = next;
	j->step = next;
	checkpoint_steps_made(s, next);
	return requests;
}

static void any_speed(void)
{
	unsigned most = 0, wrong = 0;

	for (uint64_t passing = 0; passing < 1000000; passing = passing * 3 + 1) {
		struct checkpoint_steps s = { .every = 50 };
		struct job j = { 0, passing };

		checkpoint_steps_begin(&s, 0);
		for (unsigned i = 0; i < 20; i++) {
			uint64_t made = 0, before = j.step;
			unsigned requests = request_until_in_time(&s, &j, (j.step / 50 + 1) * 50,
			    &made);

			most = requests > most ? requests : most;
			wrong += made % 50 != 0 || made > before + 12 * passing + 200;
		}
	}
	ok(most <= 4, "at most %u requests are needed for a checkpoint at any speed", most);
	ok(!wrong, "its step is a multiple, and not much further ahead than a request needs");
}

static void a_job_that_slows_down(void)
{
	struct checkpoint_steps s = { .every = 10 };
	struct job j = { 0, 5000 };
	uint64_t made = 0, next;

	for (unsigned i = 0; i < 3; i++)
		request_until_in_time(&s, &j, (j.step / 10 + 1) * 10, &made);
	j.passing = 0;
	for (unsigned i = 0; i < 40; i++)
		request_until_in_time(&s, &j, (j.step / 10 + 1) * 10, &made);
	next = checkpoint_steps_late(&s, j.step);
	ok(next <= j.step + 20, "what was measured is forgotten: %llu steps ahead",
	    (unsigned long long)(next - j.step));
}

static void reports(void)
{
	struct checkpoint_steps s = { .every = 10 };

	checkpoint_steps_begin(&s, 5);
	for (uint64_t step = 10; step <= 300; step += 10)
		checkpoint_steps_made(&s, step);
	ok(!s.skipped && !checkpoint_steps_report(&s), "every multiple has a checkpoint");
	checkpoint_steps_made(&s, 400);
	ok(s.skipped == 9 && !checkpoint_steps_report(&s), "a few that were skipped are no news");
	checkpoint_steps_missed(&s, 415);
	ok(checkpoint_steps_report(&s) == 10 && !checkpoint_steps_report(&s),
	    "more are reported once");
	checkpoint_steps_made(&s, 420);
	ok(!s.skipped, "the next one is not skipped");
	checkpoint_steps_made(&s, 600);
	ok(!checkpoint_steps_report(&s), "the next report needs twice as many");
	checkpoint_steps_made(&s, 700);
	ok(checkpoint_steps_report(&s) == 26, "and has all since the last one");
}

int main(void)
{
	any_speed();
	a_job_that_slows_down();
	reports();
	return tap_done();
}

/* SPDX-License-Identifier: ISC */
#include "coord/checkpoint_steps.h"

/* A snapshot is requested at least this many steps ahead. */
#define AHEAD 2
/* Fewer skipped multiples are not reported. */
#define SKIPPED_LEAST 10

void checkpoint_steps_begin(struct checkpoint_steps *s, uint64_t step)
{
	if (s->counting)
		return;
	s->counting = true;
	s->last = step;
}

uint64_t checkpoint_steps_late(struct checkpoint_steps *s, uint64_t at)
{
	uint64_t ahead;

	if (s->late && at > s->late_at && at - s->late_at > s->passing)
		s->passing = at - s->late_at;
	s->late++;
	s->late_at = at;
	/* At first twice the steps of a request; twice as many again with each further request that
	 * is late. */
	ahead = AHEAD + (s->passing << (s->late < 16 ? s->late : 16));
	return (at + ahead + s->every - 1) / s->every * s->every;
}

/* Counts the multiples up to this step; the step itself may be one, and has a checkpoint. */
static void count_skipped(struct checkpoint_steps *s, uint64_t step, bool made)
{
	uint64_t passed;

	if (!s->counting || step <= s->last)
		return;
	passed = step / s->every - s->last / s->every;
	s->skipped += passed - (made && passed);
	s->last = step;
}

void checkpoint_steps_made(struct checkpoint_steps *s, uint64_t step)
{
	count_skipped(s, step, true);
	s->counting = true;
	s->last = step;
	s->late = 0;
	/* An estimate that was raised by a pause of the machine becomes smaller again. */
	s->passing -= s->passing / 4;
}

void checkpoint_steps_missed(struct checkpoint_steps *s, uint64_t step)
{
	count_skipped(s, step, false);
}

uint64_t checkpoint_steps_report(struct checkpoint_steps *s)
{
	uint64_t skipped = s->skipped;

	if (skipped < (uint64_t)SKIPPED_LEAST << (s->reports < 32 ? s->reports : 32))
		return 0;
	s->skipped = 0;
	s->reports++;
	return skipped;
}

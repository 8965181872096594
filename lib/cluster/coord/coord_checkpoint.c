/* SPDX-License-Identifier: ISC */
#include "coord/checkpoint.h"
#include "coord/coord_state.h"

/* Chooses the steps of a checkpoint's attempts, and when it is dropped. checkpoint.h draws the
 * states. */

/* In bsp a snapshot is requested this many steps ahead of the fastest worker, so that the request
 * reaches every server before the step closes. */
#define AHEAD 2
/* Attempts for one checkpoint; each asks for a step further ahead. */
#define TRIES 40

/* Is the job done, or paused with all workers at rest, or does an evaluator wait in bsp, so that no
 * step closes until they go on? Then *step is the step of a checkpoint taken now. */
static bool is_at_rest(const struct coord *c, uint64_t *step)
{
	const struct coord_checkpoint *k = &c->checkpoint;

	*step = coord_best_awaited(c);
	if (*step && coord_is_lockstep(c) && *step >= k->first_free)
		return true;
	if (!coord_is_at_rest(c, step))
		return false;
	if (*step < k->first_free && (k->of_done_job || c->phase != PHASE_DONE))
		*step = k->first_free;
	return true;
}

/* The first step at which a checkpoint is possible. In bsp it must be ahead of every worker;
 * when the workers rest, or in other modes, it is the present step. */
static uint64_t find_soonest_step(const struct coord *c)
{
	uint64_t step, best = coord_best_wanted(c);

	if (!c->cfg.has_job)
		return c->checkpoint.order.number;
	if (is_at_rest(c, &step))
		return step;
	step = coord_newest_step(c);
	if (coord_is_lockstep(c))
		return step + AHEAD;
	/* In other modes each rank counts its own steps: the checkpoint of the best evaluation has
	 * the evaluator's, by which the result names it. */
	return best ? best : step;
}

/* The step of the next attempt, after one that ended in this state. */
static uint64_t find_next_step(struct coord *c, enum coord_snap state)
{
	struct coord_checkpoint *k = &c->checkpoint;
	uint64_t step;

	if (state == SNAP_BROKEN)
		return c->snap.step;
	if (k->order.steps)
		return checkpoint_steps_late(k->order.steps, c->snap.first_free);
	if (state == SNAP_LATE && k->first_free < c->snap.first_free)
		k->first_free = c->snap.first_free;
	/* In ssp and asp no server waits for a step. Of a step that nobody has reached, the
	 * checkpoint would seem newer than those after it. */
	if (!c->cfg.has_job || is_at_rest(c, &step) ||
	    (state != SNAP_LATE && !coord_is_lockstep(c)))
		return find_soonest_step(c);
	/* The servers are past that step: ask for a later one, further ahead with each attempt. */
	return c->snap.first_free + AHEAD + (UINT64_C(1) << (k->tries < 31 ? k->tries - 1 : 30));
}

/* A snapshot is requested: is the job done? The steps that servers named before are forgotten
 * then. */
static void note_phase_of_request(struct coord *c)
{
	struct coord_checkpoint *k = &c->checkpoint;
	bool done = c->phase == PHASE_DONE;

	if (done && !k->of_done_job)
		k->first_free = 0;
	k->of_done_job = done;
	k->done_limit = 0;
}

/* Is the checkpoint of an exact step ordered before a worker has reached that step, in a mode in
 * which no server waits for it? The mode has changed since the step was chosen. */
static bool is_too_early(const struct coord *c, uint64_t step)
{
	return c->checkpoint.order.steps && !coord_snap_would_be_by_step(c, step) &&
	    step > coord_newest_step(c);
}

/* With another checkpoint_every the schedule that ordered the checkpoint has no next step. */
static bool is_of_old_schedule(const struct coord *c)
{
	const struct coord_checkpoint *k = &c->checkpoint;

	return k->order.steps && k->order.steps->every != k->every;
}

static enum checkpoint_action drop(const struct coord *c, struct err *e)
{
	err_pass(e, &c->checkpoint.why);
	return CHECKPOINT_DROP;
}

/* Requests the snapshot of this step. */
static enum checkpoint_action try_step(struct coord *c, uint64_t step, int64_t now, struct err *e)
{
	struct coord_checkpoint *k = &c->checkpoint;

	if (k->tries++ == TRIES)
		return drop(c, e);
	/* The servers are not asked: their answers would wake the caller, who would try again. */
	if (is_too_early(c, step)) {
		err_set(e, ERR_STOPPED, "it was given up");
		return CHECKPOINT_DROP;
	}
	coord_snap_marks(c, k->order.mark, k->order.base);
	if (!coord_snap_begin(c, step, now))
		return drop(c, e);
	note_phase_of_request(c);
	k->named = false;
	err_set(&k->why, ERR_STOPPED, "it was given up");
	return CHECKPOINT_AGAIN;
}

/* Will the step of a snapshot that was requested never come? No step closes in a job that is done:
 * servers whose partitions have not reached it within the deadline will never do so. */
static bool is_hopeless(struct coord *c, int64_t now)
{
	struct coord_checkpoint *k = &c->checkpoint;

	if (c->phase < PHASE_RUNNING || c->phase > PHASE_DONE)
		return true;
	if (c->phase != PHASE_DONE)
		return false;
	if (!k->done_limit)
		k->done_limit = now + c->cfg.deadline;
	if (now < k->done_limit)
		return false;
	err_set(&k->why, ERR_STOPPED,
	    "the job is done, and some partitions have not reached step %llu",
	    (unsigned long long)c->snap.step);
	return true;
}

static enum checkpoint_action wait_for_snapshots(struct coord *c, int64_t now, struct err *e)
{
	uint64_t step;

	if (is_hopeless(c, now))
		return drop(c, e);
	if (c->checkpoint.order.requested && is_at_rest(c, &step) && step < c->snap.step)
		return try_step(c, find_next_step(c, SNAP_ASKED), now, e);
	return CHECKPOINT_WAIT;
}

/* A server is past the step, or workers have gone on to a bsp after the snapshot's mode. */
static enum checkpoint_action ask_for_later_step(struct coord *c, int64_t now, struct err *e)
{
	const struct coord_checkpoint *k = &c->checkpoint;

	if (is_of_old_schedule(c) || (k->order.steps && !coord_is_lockstep(c)))
		return drop(c, e);
	return try_step(c, find_next_step(c, SNAP_LATE), now, e);
}

/* In ssp and asp, names the snapshot by the fastest rank's step in it; exact: by the last multiple
 * of checkpoint_every that this rank has reached. The best evaluation's keeps the evaluator's step.
 * False: the snapshot is late (coord_snap_rename). */
static bool name_snapshot(struct coord *c)
{
	const struct coord_checkpoint *k = &c->checkpoint;
	uint64_t step = coord_snap_newest_clock(c), best = coord_best_wanted(c);

	/* A coordinator that was started again asks at step 0, before a worker has reported its
	 * step. */
	if (!c->cfg.has_job || (best && c->snap.step == best))
		return true;
	if (k->order.steps && k->every)
		step -= step % k->every;
	return coord_snap_rename(c, step);
}

/* Is the snapshot that was taken named by a step that the job, which is done, never reached? A run
 * that resumes from such a checkpoint would begin after that step. */
static bool is_after_end(const struct coord *c)
{
	uint64_t end;

	return c->phase == PHASE_DONE && c->cfg.has_job && is_at_rest(c, &end) &&
	    coord_snap_first_step(c) > end;
}

static enum checkpoint_action accept_snapshots(struct coord *c, int64_t now, struct err *e)
{
	struct coord_checkpoint *k = &c->checkpoint;
	uint64_t step;

	if (k->named)
		return CHECKPOINT_WRITE;
	if (is_after_end(c)) {
		err_set(&k->why, ERR_STOPPED, "the job was done before step %llu",
		    (unsigned long long)c->snap.step);
		return k->order.steps || !is_at_rest(c, &step) ? drop(c, e)
		                                               : try_step(c, step, now, e);
	}
	if (!name_snapshot(c))
		return ask_for_later_step(c, now, e);
	k->named = true;
	return CHECKPOINT_WRITE;
}

/* The layout or the settings have changed. */
static enum checkpoint_action ask_again(struct coord *c, int64_t now, struct err *e)
{
	bool written = c->snap.state == SNAP_WRITING || c->snap.state == SNAP_SAVED;
	enum checkpoint_action what;

	if (written && is_of_old_schedule(c))
		return drop(c, e);
	what = try_step(c, find_next_step(c, written ? SNAP_TAKEN : SNAP_BROKEN), now, e);
	if (what == CHECKPOINT_DROP && written)
		err_set(e, ERR_NOTREADY, "the cluster's servers have changed");
	return what;
}

void checkpoint_begin(struct coord *c, const struct checkpoint_order *o)
{
	struct coord_checkpoint *k = &c->checkpoint;

	*k = (struct coord_checkpoint){ .order = *o, .every = o->steps ? o->steps->every : 0 };
	err_set(&k->why, ERR_NOTREADY,
	    "nothing can be saved: no job is running, and there are no tables");
}

enum checkpoint_action checkpoint_next(struct coord *c, int64_t now, struct err *e)
{
	const struct coord_checkpoint *k = &c->checkpoint;

	if (!k->tries)
		return try_step(c, k->order.steps ? k->order.step : find_soonest_step(c), now, e);
	switch (coord_snap_state(c)) {
	case SNAP_ASKED:
		return wait_for_snapshots(c, now, e);
	case SNAP_TAKEN:
		return accept_snapshots(c, now, e);
	case SNAP_WRITING:
		return CHECKPOINT_WAIT;
	case SNAP_SAVED:
		return CHECKPOINT_COMMIT;
	case SNAP_LATE:
		return ask_for_later_step(c, now, e);
	case SNAP_BROKEN:
		return ask_again(c, now, e);
	case SNAP_FAILED:
		err_pass(e, coord_snap_failure(c));
		return CHECKPOINT_DROP;
	case SNAP_NONE:
		break;
	}
	return drop(c, e);
}

void checkpoint_write(struct coord *c, const char *dir, int64_t now)
{
	/* The snapshot is in memory: training may go on. One of an earlier step is not the model
	 * that an evaluator waits for. */
	if (c->snap.step >= coord_best_awaited(c))
		coord_best_taken(c);
	if (coord_snap_state(c) == SNAP_TAKEN)
		coord_snap_write(c, dir, now);
}

void checkpoint_end(struct coord *c)
{
	coord_snap_end(c);
	c->checkpoint = (struct coord_checkpoint){ 0 };
}

int64_t checkpoint_limit(const struct coord *c)
{
	return c->snap.state == SNAP_ASKED ? c->checkpoint.done_limit : 0;
}

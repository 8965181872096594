/* SPDX-License-Identifier: ISC */
#include "coordinator/checkpoint_schedule.h"

#include <errno.h>
#include <sodium.h>
#include <sys/stat.h>

#include "ckpt/dirs.h"
#include "ckpt/kept.h"
#include "ckpt/write.h"
#include "coordinator/checkpoint_steps.h"
#include "coordinator/owner_file.h"
#include "core/clock.h"
#include "core/json.h"
#include "core/mem.h"
#include "core/thread.h"
#include "msg/large_description.h"
#include "msg/manifest.h"
#include "rundir/rundir.h"

/* The checkpoint scheduler. Its thread decides when a checkpoint is made, agrees with the
 * servers on a step, has them write their parts, and commits. It holds the coordinator's lock except
 * while it touches files. */

/* In bsp a snapshot is requested this many steps ahead of the fastest worker, so that the request
 * reaches every server before the step closes. */
#define AHEAD 2
/* Attempts for one checkpoint; each asks for a step further ahead. */
#define TRIES 40
/* How long an order to stop an asynchronous job waits for its workers to rest. Their checkpoints need no
 * rest, and what is pushed after them until the job ends is little beside a step of this length. */
#define REST_WAIT (10 * NSEC_PER_SEC)
/* In place of a number of requests: this checkpoint was requested itself, so none interrupts it. */
#define BY_REQUEST UINT64_MAX

/* An order to stop the job (checkpoint_schedule.h). */
struct stop_order {
	uint64_t number; /* of the order given last */
	bool open;       /* it is under way */
	bool making;     /* its checkpoint is being made */
	bool called_off;
	bool held;            /* the job was held for it */
	int64_t rest_by, end; /* limits for the rest and for all of it (clock_now) */
	char why[200];
	struct checkpoint_schedule_stop last;
};

struct checkpoint_schedule {
	struct coordinator *coordinator;
	pthread_t thread;
	bool started, stop;
	char *dir;
	struct conf_every every;
	struct ckpt_keep rule;
	int64_t next_time;
	uint64_t next_step;
	struct checkpoint_steps steps; /* of `every`, where that is by steps */
	uint64_t requested; /* number of the last request (checkpoint_schedule_request) */
	/* of the checkpoint under way: the highest coord_snap_first_free; 0: no server was late */
	uint64_t first_free;
	struct checkpoint_schedule_last last;
	struct stop_order order;
	struct checkpoint_schedule_figures figures;
	bool waits;   /* a periodic checkpoint is under way */
	bool changed; /* the schedule has changed while it was under way */
	/* Base of delta checkpoints: path (NULL: none) and mark of the last full checkpoint, by
	 * which servers know what has changed since; how many deltas were made of it, and how
	 * many are allowed. */
	char *base;
	uint64_t base_mark;
	int64_t deltas, deltas_most;
	/* why the last failed checkpoint failed; "" when none has */
	struct err failure;
	bool failing;           /* the last checkpoint failed, and an event said so */
	const char *tmp;        /* temporary directory that servers write to now, or NULL */
	struct ckpt_kept *kept; /* the checkpoints in dir */
};

/* ---- one checkpoint, step by step ---- */

/* Is the job done, or paused with all workers at rest, or does an evaluator wait in bsp, so that no step
 * closes until they go on? Then *step is the step of a checkpoint taken now. */
static bool is_at_rest(const struct checkpoint_schedule *k, uint64_t *step)
{
	*step = coord_best_awaited(k->coordinator->coord);
	if (*step && coord_is_lockstep(k->coordinator->coord) && *step >= k->first_free)
		return true;
	if (!coord_is_at_rest(k->coordinator->coord, step))
		return false;
	if (*step < k->first_free)
		*step = k->first_free;
	return true;
}

/* The first step at which a checkpoint is possible. In bsp it must be ahead of every worker;
 * when the workers rest, or in other modes, it is the present step. */
static uint64_t soonest_step(const struct checkpoint_schedule *k)
{
	const struct coord *c = k->coordinator->coord;
	uint64_t step, best = coord_best_wanted(c);

	/* A cluster without a job counts no steps: its checkpoints are numbered. */
	if (!k->coordinator->cfg.has_job)
		return k->figures.step + 1;
	if (is_at_rest(k, &step))
		return step;
	step = coord_newest_step(c);
	if (coord_is_lockstep(c))
		return step + AHEAD;
	/* In other modes each rank counts its own steps: the checkpoint of the best evaluation has the
	 * evaluator's, by which the result names it. */
	return best ? best : step;
}

/* Is the order to stop the job called off, or late? */
static bool is_given_up(const struct checkpoint_schedule *k)
{
	return k->order.called_off || clock_now() >= k->order.end;
}

/* Wait until the snapshot's state is no longer `state`. False: this checkpoint is to be given
 * up. requests: as in make_checkpoint. A requested checkpoint also stops waiting for its step when all
 * workers have come to rest before it; the caller then asks for an earlier step. No step closes in a
 * job that is done: servers whose partitions have not reached the snapshot's step within the deadline
 * will never do so. */
static bool wait_while_state(struct checkpoint_schedule *k, enum coord_snap state,
    uint64_t requests)
{
	struct coordinator *coordinator = k->coordinator;
	int64_t end = k->order.making ? k->order.end : 0, done_end = 0;

	while (coord_snap_state(coordinator->coord) == state) {
		enum phase phase = coord_phase(coordinator->coord);
		uint64_t step;

		if (state == SNAP_ASKED && phase == PHASE_DONE && !done_end) {
			done_end = clock_now() + coordinator->cfg.deadline;
			end = end && end < done_end ? end : done_end;
		}
		if (k->stop || phase < PHASE_RUNNING || phase > PHASE_DONE ||
		    (k->order.making && is_given_up(k)) || (done_end && clock_now() >= done_end))
			return false;
		/* A periodic checkpoint that still waits for its step gives way to a requested
		 * one. */
		if (state == SNAP_ASKED && requests != BY_REQUEST &&
		    (k->requested > requests || k->order.open || k->changed ||
		        coord_best_awaited(coordinator->coord)))
			return false;
		if (state == SNAP_ASKED && requests == BY_REQUEST && is_at_rest(k, &step) &&
		    step < coord_snap_step(coordinator->coord))
			return true;
		coordinator_wait(coordinator, end);
	}
	return true;
}

/* Is the next checkpoint a delta checkpoint? */
static bool is_delta(const struct checkpoint_schedule *k)
{
	return k->base && k->deltas < k->deltas_most;
}

static void forget_base(struct checkpoint_schedule *k)
{
	free(k->base);
	k->base = NULL;
	k->deltas = 0;
}

/* Looks which checkpoints exist. Called without the coordinator's lock. */
static void look_at_kept(struct checkpoint_schedule *k)
{
	struct err e;

	if (ckpt_kept_look(k->kept, k->dir, &e))
		log_warn(k->coordinator->server->cfg.log,
		    "cannot find out which checkpoints there are, so that nothing that they need is given "
		    "up: %s",
		    e.msg);
}

/* Tells the state machine which events of a stream the checkpoints need: workers give up no others. */
static void note_kept_places(struct checkpoint_schedule *k)
{
	struct coord *c = k->coordinator->coord;
	uint64_t n = coord_stream_partitions(c);

	for (uint64_t i = 0; i < n; i++)
		coord_note_kept_place(c, i, ckpt_kept_newest_place(k->kept, i),
		    ckpt_kept_oldest_place(k->kept, i));
}

/* by_step: all partitions must have the values of the checkpoint's step. data: the large description that the
 * head refers to, or NULL. */
static enum err_code commit_checkpoint(struct checkpoint_schedule *k, struct ckpt *c, bool by_step,
    const char *base, const json_t *descriptions, const json_t *head,
    const struct large_description *data, char **path, struct err *e)
{
	enum err_code rc = ERR_OK;
	struct manifest_head decoded;
	const json_t *d;
	size_t i;

	if (data)
		rc = ckpt_describe(c, data, e);
	if (!rc && base)
		rc = ckpt_base(c, base, e);
	json_array_foreach((json_t *)descriptions, i, d)
		if (!rc)
			rc = ckpt_add(c, d, e);
	if (!rc && by_step)
		rc = ckpt_check_step(c, e);
	if (!rc)
		rc = manifest_head_decode(head, &decoded, e);
	if (rc) {
		ckpt_abort(c);
		return rc;
	}
	/* A coordinator that was overtaken must not replace or prune its successor's
	 * checkpoints. */
	rc = owner_file_verify(k->coordinator->server, e);
	if (rc) {
		ckpt_abort(c);
		return rc;
	}
	rc = ckpt_commit(c, &decoded, path, e);
	k->rule.also = base;
	if (!rc && ckpt_prune(k->dir, &k->rule, NULL, NULL, e))
		log_warn(k->coordinator->server->cfg.log, "cannot remove old checkpoints: %s",
		    e->msg);
	k->rule.also = NULL;
	if (!rc)
		look_at_kept(k);
	return rc;
}

/* In ssp and asp, names the snapshot by the fastest rank's step in it; exact: by the last multiple of
 * checkpoint_every that this rank has reached. The best evaluation's keeps the evaluator's step. */
static void name_snapshot(struct checkpoint_schedule *k, bool exact)
{
	struct coord *c = k->coordinator->coord;
	uint64_t step = coord_snap_newest_clock(c), best = coord_best_wanted(c);

	/* A coordinator that was started again asks at step 0, before a worker has told its step. */
	if (!k->coordinator->cfg.has_job || (best && coord_snap_step(c) == best))
		return;
	if (exact && k->every.steps)
		step -= step % (uint64_t)k->every.steps;
	coord_snap_rename(c, step);
}

/* The servers have taken their snapshots of one step: have them written, and commit. */
static enum err_code write_checkpoint(struct checkpoint_schedule *k, char **path, struct err *e)
{
	struct coordinator *coordinator = k->coordinator;
	uint64_t step = coord_snap_step(coordinator->coord);
	int64_t begin = clock_now();
	json_t *shared, *head, *descriptions;
	char *base = is_delta(k) ? mem_strdup(k->base) : NULL;
	struct large_description *data;
	struct ckpt *c;
	enum err_code rc;
	bool written, by_step = coord_snap_is_by_step(coordinator->coord);

	coordinator_commit_unlock(coordinator);
	rc = ckpt_begin(k->dir, step, &c, e);
	coordinator_lock(coordinator);
	if (rc) {
		free(base);
		return rc;
	}
	k->tmp = ckpt_tmp(c);
	/* The snapshot is in memory: training may go on. One of an earlier step is not the model that
	 * an evaluator waits for. */
	if (step >= coord_best_awaited(coordinator->coord))
		coord_best_taken(coordinator->coord);
	if (coord_snap_state(coordinator->coord) == SNAP_TAKEN)
		coord_snap_write(coordinator->coord, k->tmp, clock_now());
	written = wait_while_state(k, SNAP_WRITING, BY_REQUEST) &&
	    coord_snap_state(coordinator->coord) == SNAP_SAVED;
	k->tmp = NULL;
	if (!written) {
		if (coord_snap_state(coordinator->coord) == SNAP_FAILED)
			err_pass(e, coord_snap_failure(coordinator->coord));
		else
			err_set(e, ERR_NOTREADY, "the cluster's servers have changed");
		coordinator_commit_unlock(coordinator);
		ckpt_abort(c);
		free(base);
		coordinator_lock(coordinator);
		return e->code;
	}
	/* Other threads use these documents under the lock, so work on copies while it is
	 * released. */
	shared = coord_snap_head(coordinator->coord);
	head = json_deep_copy(shared);
	json_decref(shared);
	data = large_description_hold(coord_large_description(coordinator->coord));
	descriptions = json_deep_copy(coord_snap_descriptions(coordinator->coord));
	/* The checkpoint of the best evaluation need not be the newest one by its step. */
	k->rule.step = step == coord_best_wanted(coordinator->coord)
	    ? step
	    : coord_best_saved(coordinator->coord);
	coordinator_commit_unlock(coordinator);
	rc = commit_checkpoint(k, c, by_step, base, descriptions, head, data, path, e);
	large_description_release(data);
	free(base);
	json_decref(head);
	json_decref(descriptions);
	coordinator_lock(coordinator);
	if (rc)
		return rc;
	k->figures.took = clock_now() - begin;
	note_kept_places(k);
	return ERR_OK;
}

/* Remember a full checkpoint as the base of the next deltas. After a failure forget the base:
 * servers may count changes from a mark that belongs to no checkpoint. A delta that was only
 * given up leaves the base as it is. */
static void note_made(struct checkpoint_schedule *k, enum err_code rc, uint64_t mark)
{
	if (is_delta(k) && (!rc || rc == ERR_STOPPED || rc == ERR_NOTREADY)) {
		k->deltas += !rc;
		return;
	}
	forget_base(k);
	if (rc || !k->deltas_most)
		return;
	k->base = mem_strdup(k->last.path);
	k->base_mark = mark;
}

/* The snapshot could not be taken at the step that was asked for: the step of the next try. */
static uint64_t next_step_to_try(struct checkpoint_schedule *k, enum coord_snap state, bool exact,
    unsigned try)
{
	uint64_t step;

	if (exact)
		return checkpoint_steps_late(&k->steps,
		    coord_snap_first_free(k->coordinator->coord));

	if (state == SNAP_LATE && k->first_free < coord_snap_first_free(k->coordinator->coord))
		k->first_free = coord_snap_first_free(k->coordinator->coord);
	if (!k->coordinator->cfg.has_job)
		return soonest_step(k);
	if (is_at_rest(k, &step))
		return step;
	/* In ssp and asp no server waits for a step. Of a step that nobody has reached, the checkpoint would
	 * seem newer than those after it. */
	if (state != SNAP_LATE && !coord_is_lockstep(k->coordinator->coord))
		return soonest_step(k);
	/* The servers are past that step: ask for a later one, further ahead with each try. */
	return coord_snap_first_free(k->coordinator->coord) + AHEAD +
	    (UINT64_C(1) << (try < 30 ? try : 30));
}

/* Is the snapshot that was taken named by a step that the job, which is done, never reached? A run that
 * resumes from such a checkpoint would begin after that step. */
static bool is_after_end(const struct checkpoint_schedule *k)
{
	const struct coord *c = k->coordinator->coord;
	uint64_t end;

	return coord_phase(c) == PHASE_DONE && coord_snap_is_by_step(c) && is_at_rest(k, &end) &&
	    coord_snap_step(c) > end;
}

/* Make one checkpoint, at `step`. exact: at that step, or in bsp at a later multiple of checkpoint_every,
 * or not at all; otherwise at the first later step that succeeds. requests: the number of requests that came before it, or BY_REQUEST. */
static enum err_code make_checkpoint(struct checkpoint_schedule *k, uint64_t step, bool exact,
    uint64_t requests, struct err *e)
{
	struct coordinator *coordinator = k->coordinator;
	enum err_code rc = err_set(e, ERR_NOTREADY,
	    "nothing can be saved: no job is running, and there are no tables");
	uint64_t mark;
	char *path = NULL;

	randombytes_buf(&mark, sizeof mark);
	coord_snap_marks(coordinator->coord, mark, is_delta(k) ? k->base_mark : 0);
	for (unsigned i = 0; i < TRIES && coord_snap_begin(coordinator->coord, step, clock_now());
	     i++) {
		enum coord_snap state;

		rc = err_set(e, ERR_STOPPED, "it was given up");
		if (!wait_while_state(k, SNAP_ASKED, requests)) {
			if (coord_phase(coordinator->coord) == PHASE_DONE)
				rc = err_set(e, ERR_STOPPED,
				    "the job is done, and some partitions have not reached step %llu",
				    (unsigned long long)step);
			break;
		}
		state = coord_snap_state(coordinator->coord);
		if (state == SNAP_BROKEN)
			continue;
		if (state == SNAP_TAKEN && is_after_end(k)) {
			rc = err_set(e, ERR_STOPPED, "the job was done before step %llu",
			    (unsigned long long)step);
			if (exact || !is_at_rest(k, &step))
				break;
			continue;
		}
		if (state == SNAP_TAKEN) {
			name_snapshot(k, exact);
			rc = write_checkpoint(k, &path, e);
		} else if (state == SNAP_FAILED) {
			rc = err_pass(e, coord_snap_failure(coordinator->coord));
		}
		if (state == SNAP_FAILED || (state == SNAP_TAKEN && rc != ERR_NOTREADY) ||
		    (state == SNAP_LATE && exact && !coord_is_lockstep(coordinator->coord)))
			break;
		/* checkpoint_every has changed meanwhile: the old schedule has no next step. */
		if (exact && k->changed) {
			rc = err_set(e, ERR_STOPPED, "it was given up");
			break;
		}
		step = next_step_to_try(k, state, exact, i);
	}
	if (!rc) {
		*e = (struct err){ 0 };
		k->failing = false;
		k->last.step = coord_snap_step(coordinator->coord);
		free(k->last.path);
		k->last.path = path;
		k->figures.made++;
		k->figures.step = k->last.step;
		k->figures.at = clock_wall();
		coordinator_event(coordinator, "checkpoint", "checkpoint of step %llu: %s",
		    (unsigned long long)k->last.step, path);
	}
	note_made(k, rc, mark);
	k->first_free = 0;
	coord_snap_end(coordinator->coord);
	return rc;
}

/* ---- the schedule ---- */

/* Only the first of several failures in a row is an event; the log has them all. */
static void report_checkpoint_failure(struct checkpoint_schedule *k, const struct err *e)
{
	k->figures.failed++;
	k->failure = *e;
	if (k->failing)
		log_warn(k->coordinator->server->cfg.log, "no checkpoint: %s", e->msg);
	else
		coordinator_event(k->coordinator, "checkpoint_failed", "no checkpoint: %s", e->msg);
	k->failing = true;
}

static void make_requested(struct checkpoint_schedule *k)
{
	uint64_t request = k->requested, best = coord_best_wanted(k->coordinator->coord);
	struct err e = { 0 };

	k->last.rc = make_checkpoint(k, soonest_step(k), false, BY_REQUEST, &e);
	k->last.why = e;
	k->last.request = request;
	/* Not the next one's, which came meanwhile. */
	if (best && best == coord_best_wanted(k->coordinator->coord))
		coord_best_end(k->coordinator->coord, k->last.rc ? 0 : k->last.step);
	if (k->last.rc)
		report_checkpoint_failure(k, &e);
	coordinator_wake_parked(k->coordinator);
	if (k->coordinator->leaving && k->requested == k->last.request)
		coordinator_stop_job(k->coordinator);
}

/* ---- an order to stop the job ---- */

/* Can the checkpoint of the order be made now, or will it never be? */
static bool is_order_due(const struct checkpoint_schedule *k)
{
	const struct coord *c = k->coordinator->coord;
	uint64_t step;

	return k->order.open &&
	    (!coord_is_held(c) || coord_is_at_rest(c, &step) || coord_phase(c) != PHASE_RUNNING ||
	        is_given_up(k) || (!coord_is_lockstep(c) && clock_now() >= k->order.rest_by));
}

/* When is_order_due may change by time alone */
static int64_t find_order_limit(const struct checkpoint_schedule *k)
{
	return !coord_is_lockstep(k->coordinator->coord) && k->order.rest_by < k->order.end
	    ? k->order.rest_by
	    : k->order.end;
}

/* Why the job is not to be stopped, although nothing has failed. ERR_OK: it is. */
static enum err_code check_order(const struct checkpoint_schedule *k, bool held, struct err *e)
{
	const struct coord *c = k->coordinator->coord;
	uint64_t step;

	if (k->order.called_off)
		return err_set(e, ERR_STOPPED, "the stop was called off");
	if (clock_now() >= k->order.end)
		return err_set(e, ERR_TIMEOUT,
		    held && !coord_is_at_rest(c, &step)
		        ? "not every worker has come to rest within the time limit: ps-stat why names them"
		        : "the checkpoint was not complete within the time limit");
	if (held && !coord_is_held(c) && coord_phase(c) == PHASE_RUNNING)
		return err_set(e, ERR_STOPPED, "the job was resumed meanwhile");
	return ERR_OK;
}

/* Makes the last checkpoint of a job that rests or cannot rest, and stops the job. */
static void make_last_checkpoint(struct checkpoint_schedule *k)
{
	struct coord *c = k->coordinator->coord;
	struct checkpoint_schedule_stop done = { .number = k->order.number };
	bool held = k->order.held,
	     rested = coord_phase(c) != PHASE_RUNNING || (held && coord_is_at_rest(c, &done.step));

	if (!check_order(k, held, &done.why)) {
		k->order.making = true;
		make_checkpoint(k, soonest_step(k), false, BY_REQUEST, &done.why);
		k->order.making = false;
		if (done.why.code && !is_given_up(k))
			report_checkpoint_failure(k, &done.why);
	}
	/* A checkpoint that was given up has an error that does not say why. */
	if (!done.why.code || done.why.code == ERR_STOPPED)
		check_order(k, held, &done.why);
	if (!done.why.code) {
		done.step = k->last.step;
		done.rested = rested;
		if (rested)
			coord_stop_saved(c, done.step, k->order.why, clock_now());
		else
			coord_stop(c, k->order.why, clock_now());
	}
	coord_release_hold(c);
	k->order.open = false;
	k->order.last = done;
	coordinator_publish(k->coordinator);
	coordinator_wake_parked(k->coordinator);
}

/* Counts the multiples of checkpoint_every that have no checkpoint, and reports them now and then. */
static void note_skipped_steps(struct checkpoint_schedule *k, bool made)
{
	uint64_t step = made ? k->last.step : coord_newest_step(k->coordinator->coord), skipped;

	if (made)
		checkpoint_steps_made(&k->steps, step);
	else
		checkpoint_steps_missed(&k->steps, step);
	skipped = checkpoint_steps_report(&k->steps);
	if (skipped)
		coordinator_event(k->coordinator, "checkpoint_skipped",
		    "%llu multiples of %llu steps before step %llu have no checkpoint, because the job "
		    "passes them faster than checkpoints are made (checkpoint_every)",
		    (unsigned long long)skipped, (unsigned long long)k->steps.every,
		    (unsigned long long)step);
}

static void make_periodic(struct checkpoint_schedule *k)
{
	uint64_t every = k->coordinator->cfg.has_job ? (uint64_t)k->every.steps : 0,
	         step = coord_newest_step(k->coordinator->coord);
	struct err e = { 0 };
	enum err_code rc;
	bool changed;

	k->waits = true;
	if (every) {
		/* In bsp: the next multiple that is ahead of every worker. In other modes: the
		 * multiple that the fastest worker has reached. */
		if (k->next_step <= step)
			k->next_step = (step / every + coord_is_lockstep(k->coordinator->coord)) *
			    every;
		k->steps.every = every;
		checkpoint_steps_begin(&k->steps, step);
		rc = make_checkpoint(k, k->next_step, true, k->requested, &e);
		if (!k->changed && !rc)
			k->next_step = k->last.step + every;
		else if (!k->changed && k->requested == k->last.request)
			k->next_step += every;
		if (!k->changed)
			note_skipped_steps(k, !rc);
	} else {
		k->next_time = clock_now() + k->every.time;
		rc = make_checkpoint(k,
		    k->coordinator->cfg.has_job ? step + AHEAD : soonest_step(k), false,
		    k->requested, &e);
	}
	if (!rc && k->last.step == coord_best_wanted(k->coordinator->coord))
		coord_best_end(k->coordinator->coord, k->last.step);
	changed = k->changed;
	k->waits = k->changed = false;
	/* A full disk costs a checkpoint, not the job. */
	if (rc && rc != ERR_STOPPED && rc != ERR_NOTREADY)
		report_checkpoint_failure(k, &e);
	if (rc && !k->stop && !changed && !k->order.open && k->requested == k->last.request &&
	    !coord_best_awaited(k->coordinator->coord))
		coordinator_wait(k->coordinator, 0);
}

/* Is a checkpoint by steps due? In bsp always, because it is requested ahead of its step; in
 * other modes when the fastest worker has reached the step. */
static bool steps_due(struct checkpoint_schedule *k)
{
	uint64_t every = k->coordinator->cfg.has_job ? (uint64_t)k->every.steps : 0, step;

	if (!every || coord_is_lockstep(k->coordinator->coord))
		return every;
	/* coord_newest_step visits all workers, so call it only where it is needed. */
	step = coord_newest_step(k->coordinator->coord);
	if (!k->next_step)
		k->next_step = (step / every + 1) * every;
	return step >= k->next_step;
}

static void *run_checkpoint_thread(void *ctx)
{
	struct checkpoint_schedule *k = ctx;
	struct coordinator *coordinator = k->coordinator;

	coordinator_lock(coordinator);
	while (!k->stop) {
		bool due = steps_due(k) || (k->every.time && clock_now() >= k->next_time);

		if (k->requested > k->last.request ||
		    (coord_best_wanted(coordinator->coord) &&
		        coord_phase(coordinator->coord) == PHASE_RUNNING))
			make_requested(k);
		else if (is_order_due(k))
			make_last_checkpoint(k);
		else if (k->order.open)
			coordinator_wait(coordinator, find_order_limit(k));
		else if (due && coord_phase(coordinator->coord) == PHASE_RUNNING)
			make_periodic(k);
		else
			coordinator_wait(coordinator, k->every.time ? k->next_time : 0);
	}
	coordinator_commit_unlock(coordinator);
	return NULL;
}

/* ---- calls with the coordinator's lock held ---- */

uint64_t checkpoint_schedule_request(struct checkpoint_schedule *k)
{
	mutex_assert_held(&k->coordinator->lock);
	/* A checkpoint that is under way may have begun before the state that the caller wants
	 * saved. */
	k->requested++;
	return k->requested;
}

uint64_t checkpoint_schedule_stop_job(struct checkpoint_schedule *k, const char *why,
    int64_t timeout)
{
	struct coord *c = k->coordinator->coord;
	int64_t now = clock_now();
	struct err cannot;

	mutex_assert_held(&k->coordinator->lock);
	k->order.end = now + timeout;
	if (k->order.open)
		return k->order.number;
	k->order.number++;
	k->order.open = true;
	k->order.called_off = false;
	k->order.rest_by = now + (timeout / 4 < REST_WAIT ? timeout / 4 : REST_WAIT);
	snprintf(k->order.why, sizeof k->order.why, "%s", why);
	k->order.held = coord_hold(c, why, now, &cannot) == ERR_OK;
	return k->order.number;
}

uint64_t checkpoint_schedule_call_off(struct checkpoint_schedule *k)
{
	mutex_assert_held(&k->coordinator->lock);
	if (!k->order.open)
		return 0;
	k->order.called_off = true;
	coord_release_hold(k->coordinator->coord);
	return k->order.number;
}

const struct checkpoint_schedule_stop *checkpoint_schedule_last_stop(
    const struct checkpoint_schedule *k)
{
	mutex_assert_held(&k->coordinator->lock);
	return &k->order.last;
}

const struct checkpoint_schedule_last *checkpoint_schedule_last(const struct checkpoint_schedule *k)
{
	mutex_assert_held(&k->coordinator->lock);
	return &k->last;
}

const char *checkpoint_schedule_dir(const struct checkpoint_schedule *k)
{
	return k->dir;
}

const struct err *checkpoint_schedule_failure(const struct checkpoint_schedule *k)
{
	mutex_assert_held(&k->coordinator->lock);
	return &k->failure;
}

struct checkpoint_schedule_figures checkpoint_schedule_figures(const struct checkpoint_schedule *k)
{
	mutex_assert_held(&k->coordinator->lock);
	return k->figures;
}

char *checkpoint_schedule_receive_dir(const struct checkpoint_schedule *k, uint64_t id)
{
	if (!k)
		return NULL;
	mutex_assert_held(&k->coordinator->lock);
	return k->tmp && coord_snap_id(k->coordinator->coord) == id ? mem_strdup(k->tmp) : NULL;
}

void checkpoint_schedule_set_every(struct checkpoint_schedule *k, const struct conf_every *every)
{
	if (!k)
		return;
	mutex_assert_held(&k->coordinator->lock);
	if (k->every.steps == every->steps && k->every.time == every->time)
		return;
	k->every = *every;
	k->figures.every = every->time;
	k->next_step = 0;
	k->steps = (struct checkpoint_steps){ 0 };
	k->next_time = clock_now() + every->time;
	/* A checkpoint that waits for a step of the old schedule gives up. */
	k->changed = k->waits;
	coordinator_wake_waiters(k->coordinator);
}

/* The newest checkpoint may have been made by a coordinator before this one. */
static void find_newest_checkpoint(struct checkpoint_schedule *k)
{
	struct ckpt_entry *list = NULL;
	struct stat st;
	size_t n = 0;

	if (ckpt_list(k->dir, false, &list, &n, NULL))
		return;
	for (size_t i = 0; i < n; i++)
		if (list[i].whole && stat(list[i].path, &st) == 0) {
			k->figures.step = list[i].step;
			k->figures.at = st.st_mtim.tv_sec * NSEC_PER_SEC + st.st_mtim.tv_nsec;
		}
	ckpt_list_free(list, n);
}

enum err_code checkpoint_schedule_start(struct coordinator *coordinator, const struct conf *c,
    struct err *e)
{
	struct checkpoint_schedule *k;
	enum err_code rc;

	if (!coordinator->server->cfg.id->run_dir)
		return ERR_OK;
	k = mem_alloc(sizeof *k);
	k->coordinator = coordinator;
	k->dir = rundir_path(coordinator->server->cfg.id->run_dir, "checkpoints");
	k->every = c->checkpoint_every;
	k->deltas_most = c->checkpoint_deltas;
	k->rule = (struct ckpt_keep){ .last = (size_t)c->keep_last,
		.every = (uint64_t)c->keep_every,
		.best = (size_t)c->keep_best };
	k->next_time = clock_now() + k->every.time;
	k->figures.every = k->every.time;
	find_newest_checkpoint(k);
	k->kept = ckpt_kept_new();
	look_at_kept(k);
	/* The ticker and the HTTP threads run already and read coordinator->checkpoints, so set it under the
	 * lock. */
	coordinator_lock(coordinator);
	coordinator->checkpoints = k;
	coord_best_begin(coordinator->coord);
	coordinator_commit_unlock(coordinator);
	rc = thread_start(&k->thread, run_checkpoint_thread, k, e);
	k->started = !rc;
	return rc;
}

void checkpoint_schedule_stop(struct coordinator *coordinator)
{
	struct checkpoint_schedule *k = coordinator->checkpoints;

	if (!k)
		return;
	coordinator_lock(coordinator);
	k->stop = true;
	coordinator_commit_unlock(coordinator);
	if (k->started)
		pthread_join(k->thread, NULL);
}

void checkpoint_schedule_free(struct checkpoint_schedule *k)
{
	if (!k)
		return;
	ckpt_kept_free(k->kept);
	free(k->last.path);
	free(k->base);
	free(k->dir);
	free(k);
}

/* SPDX-License-Identifier: ISC */
#include "coordinator/checkpoint_schedule.h"

#include <errno.h>
#include <sodium.h>
#include <sys/stat.h>

#include "ckpt/dirs.h"
#include "ckpt/kept.h"
#include "ckpt/write.h"
#include "coord/checkpoint.h"
#include "state/state_store.h"
#include "core/clock.h"
#include "core/json.h"
#include "core/mem.h"
#include "core/thread.h"
#include "msg/large_description.h"
#include "msg/manifest.h"
#include "rundir/rundir.h"

/* The checkpoint scheduler. Its thread decides when a checkpoint is made, does what
 * coord/checkpoint.h says until the servers have written their parts, and commits. It holds the
 * coordinator's lock except while it touches files. */

/* How long an order to stop an asynchronous job waits for its workers to rest. Their checkpoints
 * need no rest, and what is pushed after them until the job ends is little beside a step of this
 * length. */
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

/* Is the order to stop the job called off, or late? */
static bool is_given_up(const struct checkpoint_schedule *k)
{
	return k->order.called_off || clock_now() >= k->order.end;
}

/* Is the checkpoint that is under way to be given up? A periodic one that still waits for its step
 * gives way to a requested one. requests: as in make_checkpoint. */
static bool is_interrupted(const struct checkpoint_schedule *k, uint64_t requests)
{
	const struct coord *c = k->coordinator->coord;

	if (k->stop || (k->order.making && is_given_up(k)))
		return true;
	return requests != BY_REQUEST && coord_snap_state(c) == SNAP_ASKED &&
	    (k->requested > requests || k->order.open || k->changed || coord_best_awaited(c));
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

/* Tells the state machine which events of a stream the checkpoints need: workers give up no
 * others. */
static void note_kept_places(struct checkpoint_schedule *k)
{
	struct coord *c = k->coordinator->coord;
	uint64_t n = coord_stream_partitions(c);

	for (uint64_t i = 0; i < n; i++)
		coord_note_kept_place(c, i, ckpt_kept_newest_place(k->kept, i),
		    ckpt_kept_oldest_place(k->kept, i));
}

/* by_step: all partitions must have the values of the checkpoint's step. data: the large
 * description that the head refers to, or NULL. */
static enum err_code commit_checkpoint(struct checkpoint_schedule *k, struct ckpt *c, bool by_step,
    const char *base, const json_t *descriptions, const json_t *head,
    const struct large_description *data, char **path, struct err *e)
{
	struct state_store *store = k->coordinator->server->state_store;
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
	rc = store->ops->verify(store, e);
	if (rc) {
		ckpt_abort(c);
		return rc;
	}
	rc = ckpt_commit(c, &decoded, path, e);
	k->rule.also = base;
	k->rule.written = *path;
	if (!rc && ckpt_prune(k->dir, &k->rule, NULL, NULL, e))
		log_warn(k->coordinator->server->cfg.log, "cannot remove old checkpoints: %s",
		    e->msg);
	k->rule.also = k->rule.written = NULL;
	if (!rc)
		look_at_kept(k);
	return rc;
}

/* Makes the directory that the servers write to. */
static enum err_code open_directory(struct checkpoint_schedule *k, struct ckpt **dir, struct err *e)
{
	struct coordinator *coordinator = k->coordinator;
	uint64_t step = coord_snap_step(coordinator->coord);
	enum err_code rc;

	coordinator_commit_unlock(coordinator);
	rc = ckpt_begin(k->dir, step, dir, e);
	coordinator_lock(coordinator);
	if (rc)
		return rc;
	k->tmp = ckpt_tmp(*dir);
	checkpoint_write(coordinator->coord, k->tmp, clock_now());
	return ERR_OK;
}

static void remove_directory(struct checkpoint_schedule *k, struct ckpt **dir)
{
	k->tmp = NULL;
	if (!*dir)
		return;
	coordinator_commit_unlock(k->coordinator);
	ckpt_abort(*dir);
	coordinator_lock(k->coordinator);
	*dir = NULL;
}

/* The servers have written all files: makes the directory a checkpoint. */
static enum err_code commit_directory(struct checkpoint_schedule *k, struct ckpt **dir, char **path,
    struct err *e)
{
	struct coordinator *coordinator = k->coordinator;
	uint64_t step = coord_snap_step(coordinator->coord);
	json_t *shared, *head, *descriptions;
	char *base = is_delta(k) ? mem_strdup(k->base) : NULL;
	struct large_description *data;
	bool by_step = coord_snap_is_by_step(coordinator->coord);
	struct ckpt *c = *dir;
	enum err_code rc;

	k->tmp = NULL;
	*dir = NULL;
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
	if (!rc)
		note_kept_places(k);
	return rc;
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

static void note_success(struct checkpoint_schedule *k, char *path, int64_t began)
{
	struct coordinator *coordinator = k->coordinator;

	k->failing = false;
	k->last.step = coord_snap_step(coordinator->coord);
	free(k->last.path);
	k->last.path = path;
	k->figures.made++;
	k->figures.step = k->last.step;
	k->figures.at = clock_wall();
	k->figures.took = clock_now() - began;
	coordinator_event(coordinator, EVENT_checkpoint, "checkpoint of step %llu: %s",
	    (unsigned long long)k->last.step, path);
}

/* Waits until the checkpoint that is under way may have made progress. */
static void wait_for_progress(struct checkpoint_schedule *k)
{
	int64_t end = k->order.making ? k->order.end : 0,
	        limit = checkpoint_limit(k->coordinator->coord);

	coordinator_wait(k->coordinator, !end || (limit && limit < end) ? limit : end);
}

/* Makes one checkpoint. steps: by these, at `step` or a later multiple; NULL: as soon as possible.
 * requests: the number of requests that came before it, or BY_REQUEST. */
static enum err_code make_checkpoint(struct checkpoint_schedule *k, struct checkpoint_steps *steps,
    uint64_t step, uint64_t requests, struct err *e)
{
	struct coord *c = k->coordinator->coord;
	struct checkpoint_order order = { .steps = steps,
		.step = step,
		.number = k->figures.step + 1,
		.requested = requests == BY_REQUEST };
	enum checkpoint_action what;
	struct ckpt *dir = NULL;
	char *path = NULL;
	int64_t began = 0;

	randombytes_buf(&order.mark, sizeof order.mark);
	order.base = is_delta(k) ? k->base_mark : 0;
	*e = (struct err){ 0 };
	checkpoint_begin(c, &order);
	do {
		what = checkpoint_next(c, clock_now(), e);
		if (what == CHECKPOINT_AGAIN) {
			remove_directory(k, &dir);
		} else if (what == CHECKPOINT_WRITE) {
			began = clock_now();
			open_directory(k, &dir, e);
		} else if (what == CHECKPOINT_COMMIT) {
			commit_directory(k, &dir, &path, e);
		} else if (what == CHECKPOINT_WAIT && is_interrupted(k, requests)) {
			err_set(e, ERR_STOPPED, "it was given up");
		} else if (what == CHECKPOINT_WAIT) {
			wait_for_progress(k);
		}
	} while (!e->code && !path);
	remove_directory(k, &dir);
	if (path)
		note_success(k, path, began);
	note_made(k, e->code, order.mark);
	checkpoint_end(c);
	return e->code;
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
		coordinator_event(k->coordinator, EVENT_checkpoint_failed, "no checkpoint: %s",
		    e->msg);
	k->failing = true;
}

static void make_requested(struct checkpoint_schedule *k)
{
	uint64_t request = k->requested, best = coord_best_wanted(k->coordinator->coord);
	struct err e = { 0 };

	k->last.rc = make_checkpoint(k, NULL, 0, BY_REQUEST, &e);
	k->last.why = e;
	k->last.request = request;
	/* Leave the next evaluation's request alone, which may have arrived meanwhile. */
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
		make_checkpoint(k, NULL, 0, BY_REQUEST, &done.why);
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

/* Counts the multiples of checkpoint_every that have no checkpoint, and reports them now and
 * then. */
static void note_skipped_steps(struct checkpoint_schedule *k, bool made)
{
	uint64_t step = made ? k->last.step : coord_newest_step(k->coordinator->coord), skipped;

	if (made)
		checkpoint_steps_made(&k->steps, step);
	else
		checkpoint_steps_missed(&k->steps, step);
	skipped = checkpoint_steps_report(&k->steps);
	if (skipped)
		coordinator_event(k->coordinator, EVENT_checkpoint_skipped,
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
		rc = make_checkpoint(k, &k->steps, k->next_step, k->requested, &e);
		if (!k->changed && !rc)
			k->next_step = k->last.step + every;
		else if (!k->changed && k->requested == k->last.request &&
		    (rc != ERR_STOPPED || coord_newest_step(k->coordinator->coord) >= k->next_step))
			k->next_step += every;
		if (!k->changed)
			note_skipped_steps(k, !rc);
	} else {
		k->next_time = clock_now() + k->every.time;
		rc = make_checkpoint(k, NULL, 0, k->requested, &e);
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
	/* The ticker and the I/O threads run already and read coordinator->checkpoints, so set it
	 * under the lock. */
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

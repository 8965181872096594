/* SPDX-License-Identifier: ISC */
#include "restart.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "parts.h"

/* Shortest and longest pause before a restart. */
#define RESTART_MIN (100 * NSEC_PER_MSEC)
#define RESTART_MAX (10 * NSEC_PER_SEC)
/* Longest pause between attempts: short, so that new room on a disk is soon noticed. */
#define RETRY_MAX (2 * NSEC_PER_SEC)

/* Write to the lock file that `id` cannot be started.  The log may be on a full disk, but the lock
 * file is overwritten in place.  A failure of this write only omits the report. */
static void publish_failed_start(struct runner *r, const char *id,
    const struct runner_restart *again, const struct err *e)
{
	struct rundir_retry *f = &r->failing;

	*f = (struct rundir_retry){ .tries = again->tries,
		.since = clock_wall() - (clock_now() - again->failing_since) };
	snprintf(f->id, sizeof f->id, "%s", id);
	snprintf(f->error, sizeof f->error, "%.399s", e->msg);
	rundir_write_retry(r->dir, f, NULL);
	snprintf(r->progress.trouble, sizeof r->progress.trouble, "cannot start %s: %s", f->id,
	    f->error);
}

/* Remove the report of `id` from the lock file, if it is the one there. */
static void clear_failed_start(struct runner *r, const char *id)
{
	if (!r->failing.id[0] || strcmp(r->failing.id, id) != 0)
		return;
	r->failing = (struct rundir_retry){ 0 };
	r->progress.trouble[0] = 0;
	rundir_write_retry(r->dir, &r->failing, NULL);
}

/* Does the job still need the process?  When the job is finishing or done, the coordinator still
 * answers for the result and the servers still serve the model, but workers have nothing left to
 * do. */
static bool is_still_needed(const struct runner *r, const char *id)
{
	if (strncmp(id, "server-", 7) == 0 || strcmp(id, "coordinator") == 0)
		return !runner_is_job_over(r) || runner_state_is(r, "done");
	return !runner_is_job_over(r) && !runner_state_is(r, "finishing");
}

bool restart_schedule(struct runner *r, size_t child, const char *id)
{
	int64_t wait = RESTART_MIN;

	if (child >= RUNNER_CHILDREN || r->restart[child].n >= r->max_restarts ||
	    !is_still_needed(r, id))
		return false;
	for (unsigned i = 0; i < r->restart[child].n && wait < RESTART_MAX; i++)
		wait *= 2;
	r->restart[child].n++;
	r->restart[child].at = clock_now() + wait;
	progress_say(&r->progress, "starting %s again (%u of %lld)", id, r->restart[child].n,
	    (long long)r->max_restarts);
	return true;
}

bool restart_is_pending(const struct runner *r)
{
	for (size_t i = 0; i < launch_count(r->set) && i < RUNNER_CHILDREN; i++)
		if (r->restart[i].at)
			return true;
	return false;
}

void restart_cancel_all(struct runner *r)
{
	for (size_t i = 0; i < RUNNER_CHILDREN; i++) {
		r->restart[i].at = r->restart[i].failing_since = 0;
		r->restart[i].tries = 0;
	}
	clear_failed_start(r, r->failing.id);
}

/* Stop trying to start a process.  The others may train on without a worker or without one server,
 * but the run fails without its coordinator or without any server. */
static void give_up_restart(struct runner *r, size_t child, const struct err *e)
{
	const char *id = launch_id(r->set, child);

	progress_say(&r->progress, "giving up %s, which could not be started for %.0f s: %s", id,
	    (double)r->conf->deadline / NSEC_PER_SEC, e->msg);
	r->restart[child].failing_since = 0;
	r->restart[child].tries = 0;
	clear_failed_start(r, id);
	if (strcmp(id, "coordinator") == 0 ||
	    (runner_count_alive(r, "server-") == 0 && !restart_is_pending(r) &&
	        !runner_is_job_over(r)))
		runner_give_up(r, id, "%s could not be started again: %s", id, e->msg);
}

/* The child of that id; RUNNER_CHILDREN when there is none. */
static size_t find_child_index(const struct runner *r, const char *id)
{
	for (size_t i = 0; i < launch_count(r->set) && i < RUNNER_CHILDREN; i++)
		if (strcmp(launch_id(r->set, i), id) == 0)
			return i;
	return RUNNER_CHILDREN;
}

void restart_retry_later(struct runner *r, const char *id, const struct err *e)
{
	size_t child = find_child_index(r, id);
	struct runner_restart *again;
	int64_t now = clock_now(), wait = RESTART_MIN;

	/* A process on another host can fail before it becomes a child, when the coordinator does
	 * not answer the request for its join file. */
	if (child == RUNNER_CHILDREN) {
		progress_say(&r->progress, "cannot start %s: %s", id, e->msg);
		return;
	}
	again = &r->restart[child];
	if (!again->failing_since) {
		again->failing_since = now;
		progress_say(&r->progress,
		    "cannot start %s: %s; trying again for %.0f s (deadline)", id, e->msg,
		    (double)r->conf->deadline / NSEC_PER_SEC);
	}
	if (now - again->failing_since >= r->conf->deadline) {
		give_up_restart(r, child, e);
		return;
	}
	for (unsigned i = 0; i < again->tries && wait < RETRY_MAX; i++)
		wait *= 2;
	again->tries++;
	again->at = now + wait;
	if (again->at > again->failing_since + r->conf->deadline)
		again->at = again->failing_since + r->conf->deadline;
	publish_failed_start(r, id, again, e);
}

void restart_start_due(struct runner *r)
{
	int64_t now = clock_now();
	struct err e;

	for (size_t i = 0; i < launch_count(r->set) && i < RUNNER_CHILDREN; i++) {
		const char *id = launch_id(r->set, i);
		struct runner_restart *again = &r->restart[i];

		if (!again->at || now < again->at)
			continue;
		again->at = 0;
		if (runner_spawn_member(r, id, &e) != ERR_OK) {
			restart_retry_later(r, id, &e);
		} else if (again->tries > 0) {
			progress_say(&r->progress, "started %s, after %u attempts that failed", id,
			    again->tries);
			again->tries = 0;
			again->failing_since = 0;
			clear_failed_start(r, id);
		}
	}
}

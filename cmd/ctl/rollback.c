/* SPDX-License-Identifier: ISC */
#include "rollback.h"

#include <stdlib.h>
#include <string.h>

#include "ckpt/dirs.h"
#include "core/clock.h"
#include "core/file.h"
#include "core/json.h"
#include "core/mem.h"
#include "ctl.h"
#include "parts.h"
#include "rundir/rundir.h"

/* How long processes may take to end before the roll-back, and pauses between attempts to start
 * again. */
#define GRACE     (2 * NSEC_PER_SEC)
#define RETRY_MIN (100 * NSEC_PER_MSEC)
#define RETRY_MAX (10 * NSEC_PER_SEC)

/* ckpt_newest() has skipped a damaged checkpoint: report it, and add it to r->passed_over. */
static void note_damaged_checkpoint(void *ctx, const char *path, const char *why)
{
	struct runner *r = ctx;

	char *before = r->passed_over;

	progress_say(&r->progress, "%s is damaged and not resumed from: %s", path, why);
	r->passed_over = mem_printf("%s%s%s: %s", before ? before : "", before ? "; " : "",
	    path_basename(path), why);
	free(before);
}

/* The path of the newest whole checkpoint, to be freed, or NULL. */
static char *find_newest_checkpoint(struct runner *r)
{
	char *dir = rundir_path(r->dir, "checkpoints"), *path = NULL;

	if (ckpt_newest(dir, note_damaged_checkpoint, r, &path, NULL) != ERR_OK)
		path = NULL;
	free(dir);
	return path;
}

static bool has_lost_a_server(const struct runner *r)
{
	return json_flag(r->status, "data_lost") || strncmp(r->culprit, "server-", 7) == 0;
}

/* Start all processes.  Failures, for example for lack of disk space, are retried until the
 * deadline. */
static bool start_cluster_again(struct runner *r)
{
	int64_t end = clock_now() + r->conf->deadline, wait = RETRY_MIN;
	struct err e = { 0 };

	while (runner_start(r, &e) != ERR_OK) {
		launch_stop_all(r->set, GRACE);
		runner_reset(r);
		progress_say(&r->progress, "cannot start again: %s", e.msg);
		if (clock_now() >= end) {
			runner_give_up(r, "", "cannot start again: %s", e.msg);
			return false;
		}
		for (int64_t next = clock_now() + wait;
		     clock_now() < next && !r->nsignals && !r->asked;)
			runner_wait_event(r, next);
		if (r->nsignals || r->asked)
			return false;
		wait = wait < RETRY_MAX ? wait * 2 : RETRY_MAX;
	}
	return true;
}

bool rollback(struct runner *r)
{
	char *path;

	if (!conf_trains(r->conf) || r->nsignals > 0 || r->asked ||
	    r->rollbacks >= r->max_restarts || !has_lost_a_server(r))
		return false;
	path = find_newest_checkpoint(r);
	if (!path)
		return false;
	r->rollbacks++;
	progress_say(&r->progress, "%s; rolling back to %s, in a new generation (%lld of %lld)",
	    r->reason[0] ? r->reason : json_str(r->status, "reason", "a server is lost"), path,
	    (long long)r->rollbacks, (long long)r->max_restarts);
	launch_stop_all(r->set, GRACE);
	free(r->resume);
	r->resume = path;
	runner_reset(r);
	return start_cluster_again(r);
}

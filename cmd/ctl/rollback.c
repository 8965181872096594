#include "rollback.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "ckpt/dirs.h"
#include "ctl.h"
#include "launch/rundir.h"

#define GRACE (2 * NSEC_PER_SEC)

static void passed_over(void *ctx, const char *path, const char *why)
{
	struct runner *r = ctx;

	progress_say(&r->progress, "%s is passed over: %s", path, why);
}

static char *newest(struct runner *r)
{
	char *dir = rundir_path(r->dir, "checkpoints"), *path = NULL;

	if (ckpt_newest(dir, passed_over, r, &path, NULL) != ERR_OK)
		path = NULL;
	free(dir);
	return path;
}

static bool lost_a_server(const struct runner *r)
{
	return json_flag(r->status, "data_lost") || strncmp(r->culprit, "server-", 7) == 0;
}

bool rollback(struct runner *r)
{
	struct err e = { 0 };
	char *path;

	if (!conf_trains(r->conf) || r->nsignals > 0 || r->asked || r->rollbacks >= r->max_restarts || !lost_a_server(r))
		return false;
	path = newest(r);
	if (!path)
		return false;
	r->rollbacks++;
	progress_say(&r->progress, "%s; rolling back to %s, in a new generation (%lld of %lld)",
	             r->reason[0] ? r->reason : json_str(r->status, "reason", "a server is lost"), path,
	             (long long)r->rollbacks, (long long)r->max_restarts);
	launch_stop_all(r->set, GRACE);
	free(r->resume);
	r->resume = path;
	runner_forget(r);
	if (runner_start(r, &e) == ERR_OK)
		return true;
	progress_say(&r->progress, "cannot start again: %s", e.msg);
	return false;
}

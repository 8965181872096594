/* SPDX-License-Identifier: ISC */
#include "coordinator/scale_request.h"

#include "core/clock.h"
#include "rundir/prepare.h"

enum err_code scale_request_apply(struct host *h, int64_t servers, int64_t workers, struct err *e)
{
	const char *dir = h->server->cfg.id->run_dir;
	enum err_code rc;

	host_lock(h);
	rc = coord_may_scale(h->coord, servers, workers, e);
	host_commit_and_wait(h);
	/* Make keys for processes beyond those planned, without the lock: files take a while. */
	if (!rc && dir && servers > 0)
		rc = rundir_add_keys(dir, "server", (size_t)servers, ROLE_SERVER, e);
	if (!rc && dir && workers > 0)
		rc = rundir_add_keys(dir, "worker", (size_t)workers, ROLE_WORKER, e);
	if (!rc && dir)
		rc = server_reload(h->server, e);
	if (rc)
		return rc;
	host_lock(h);
	rc = coord_scale(h->coord, servers, workers, clock_now(), e);
	host_commit_and_wait(h);
	return rc;
}

#include "server/scaling.h"

#include "base/clock.h"
#include "client/prepare.h"

enum err_code scale_to(struct host *h, int64_t servers, int64_t workers, struct err *e)
{
	const char *dir = h->server->cfg.id->run_dir;
	enum err_code rc;

	host_lock(h);
	rc = coord_may_scale(h->coord, servers, workers, e);
	host_unlock(h);
	/* Keys for those that were not foreseen; their files take a while. */
	if (!rc && dir && servers > 0)
		rc = run_add_keys(dir, "server", (size_t)servers, ROLE_SERVER, e);
	if (!rc && dir && workers > 0)
		rc = run_add_keys(dir, "worker", (size_t)workers, ROLE_WORKER, e);
	if (!rc && dir)
		rc = server_reload(h->server, e);
	if (rc)
		return rc;
	host_lock(h);
	rc = coord_scale(h->coord, servers, workers, clock_now(), e);
	host_unlock(h);
	return rc;
}

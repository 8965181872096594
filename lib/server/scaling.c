#include "server/scaling.h"

#include "base/clock.h"
#include "client/prepare.h"

/* Keys for those that were not foreseen. */
static enum err_code add_keys(struct host *h, const char *prefix, enum role role, int64_t n, struct err *e)
{
	char name[32];
	enum err_code rc = ERR_OK;

	for (int64_t i = 0; !rc && i < n; i++) {
		snprintf(name, sizeof name, "%s-%lld", prefix, (long long)i);
		rc = run_add_key(h->server->cfg.id->run_dir, name, role, e);
		if (rc == ERR_EXISTS)
			rc = ERR_OK;
	}
	return rc;
}

enum err_code scale_to(struct host *h, int64_t servers, int64_t workers, struct err *e)
{
	enum err_code rc = ERR_OK;

	if (h->server->cfg.id->run_dir && servers <= COORD_SERVERS_MAX && workers <= COORD_WORKERS_MAX) {
		rc = add_keys(h, "server", ROLE_SERVER, servers, e);
		if (!rc)
			rc = add_keys(h, "worker", ROLE_WORKER, workers, e);
		if (!rc)
			rc = server_reload(h->server, e);
	}
	if (rc)
		return rc;
	host_lock(h);
	rc = coord_scale(h->coord, servers, workers, clock_now(), e);
	host_unlock(h);
	return rc;
}

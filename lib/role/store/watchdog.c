/* SPDX-License-Identifier: ISC */
#include <stdio.h>

#include "coordinator/host.h"
#include "core/json.h"
#include "core/num.h"
#include "store/server_role.h"

/* Every loop counts its turns.  A loop whose count is the same as last time stands still, or has
 * not had time to turn yet. */
bool watchdog_turns(struct server *s)
{
	bool all = true;

	for (unsigned i = 0; i < s->nio_threads; i++)
		all &= atomic_load(&s->io_thread[i].turns) != s->io_thread[i].turns_seen;
	if (s->host)
		all &= atomic_load(&s->host->turns) != s->turns_seen;
	/* Only when all have turned are the counts stored: until then a fast loop counts as
	 * turned. */
	for (unsigned i = 0; all && i < s->nio_threads; i++)
		s->io_thread[i].turns_seen = atomic_load(&s->io_thread[i].turns);
	if (all && s->host)
		s->turns_seen = atomic_load(&s->host->turns);
	return all;
}

static void describe_coordinator(struct host *h, char *out, size_t size)
{
	const char *waiting, *reason;
	int64_t servers, workers;
	json_t *st;

	host_lock(h);
	st = coord_status(h->coord, clock_now());
	host_unlock(h);
	servers = json_int(st, "servers", 0);
	workers = json_int(st, "workers", 0);
	waiting = json_str(st, "waiting_for", "");
	reason = json_str(st, "reason", "");
	if (*waiting)
		snprintf(out, size, "%s, waiting for %s", json_str(st, "state", ""), waiting);
	else if (*reason)
		snprintf(out, size, "%s: %s", json_str(st, "state", ""), reason);
	else
		snprintf(out, size, "%s, step %lld, %lld server%s, %lld worker%s, on %s",
		    json_str(st, "state", ""), (long long)json_int(st, "step", 0),
		    (long long)servers, NUM_S(servers), (long long)workers, NUM_S(workers),
		    h->server->address);
	json_decref(st);
}

bool watchdog_describe(struct server *s, char *out, size_t size)
{
	bool there;

	if (s->host) {
		describe_coordinator(s->host, out, size);
		return true;
	}
	there = s->agent && agent_is_up(s->agent);
	if (!there)
		snprintf(out, size, "the coordinator cannot be reached");
	return there && s->cfg.role->describe(s, out, size);
}

#include <stdio.h>

#include "base/json.h"
#include "server/host.h"

/* Each loop counts its turns; one that has not turned since it was looked at last stands
 * still, or has had no time yet. */
bool server_turns(struct server *s)
{
	bool all = true;

	for (unsigned i = 0; i < s->nlanes; i++)
		all &= atomic_load(&s->lane[i].turns) != s->lane[i].turns_seen;
	if (s->host)
		all &= atomic_load(&s->host->turns) != s->turns_seen;
	/* What is slow and what is fast counts alike: the next look is at all of them. */
	for (unsigned i = 0; all && i < s->nlanes; i++)
		s->lane[i].turns_seen = atomic_load(&s->lane[i].turns);
	if (all && s->host)
		s->turns_seen = atomic_load(&s->host->turns);
	return all;
}

static void host_says(struct host *h, char *out, size_t size)
{
	const char *waiting, *reason;
	json_t *st;

	host_lock(h);
	st = coord_status(h->coord, clock_now());
	host_unlock(h);
	waiting = json_str(st, "waiting_for", "");
	reason = json_str(st, "reason", "");
	if (*waiting)
		snprintf(out, size, "%s, waiting for %s", json_str(st, "state", ""), waiting);
	else if (*reason)
		snprintf(out, size, "%s: %s", json_str(st, "state", ""), reason);
	else
		snprintf(out, size, "%s, step %lld, %lld server(s), %lld worker(s), on %s", json_str(st, "state", ""),
		         (long long)json_int(st, "step", 0), (long long)json_int(st, "servers", 0),
		         (long long)json_int(st, "workers", 0), h->server->address);
	json_decref(st);
}

bool server_says(struct server *s, char *out, size_t size)
{
	bool there;

	if (s->host) {
		host_says(s->host, out, size);
		return true;
	}
	there = s->agent && agent_is_up(s->agent);
	if (!there)
		snprintf(out, size, "the coordinator cannot be reached");
	else if (s->cfg.relay)
		snprintf(out, size, "a relay, on %s", s->address);
	else
		snprintf(out, size, "server-%d, on %s", s->cfg.index, s->address);
	return there && (s->cfg.relay || atomic_load(&s->shard));
}

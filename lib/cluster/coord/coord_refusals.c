/* SPDX-License-Identifier: ISC */
#include "coord/coord_state.h"

#include "core/clock.h"

/* Workers whose pushes servers refuse, and workers whose pushes they delay. Servers report them in
 * their heartbeats. */

/* Least time between two events about one worker. */
#define REFUSED_PACE (10 * NSEC_PER_SEC)

/* ---- refused ---- */

/* The refused pushes of one worker, as servers count them, or as it counted them in its last
 * message, which may arrive before the servers' next heartbeats. */
static uint64_t sum_refused_pushes(const struct coord *c, unsigned rank)
{
	uint64_t sum = 0, own = (uint64_t)c->worker[rank].figures.pushes_refused;

	for (unsigned s = 0; s < c->nservers; s++) {
		const struct heartbeat_server *f = &c->server[s].figures;

		for (size_t i = 0; i < f->nrefused; i++)
			if (f->refused[i].rank == rank)
				sum += (uint64_t)f->refused[i].number;
	}
	return sum > own ? sum : own;
}

uint64_t coord_watch_refused(const struct coord *c)
{
	uint64_t servers = 0, workers = 0;

	for (unsigned s = 0; s < c->nservers; s++)
		servers += (uint64_t)c->server[s].figures.pushes_refused;
	for (unsigned i = 0; i < c->nworkers; i++)
		workers += (uint64_t)c->worker[i].figures.pushes_refused;
	return servers > workers ? servers : workers;
}

/* final: the worker will not push again. */
static void report_refused_pushes(struct coord *c, unsigned rank, bool final, int64_t now)
{
	struct coord_member_worker *w = &c->worker[rank];
	uint64_t all;

	/* Servers repeat their totals with every heartbeat: add them up only when an event may be
	 * sent. */
	if (!final && w->refused_at && now - w->refused_at < REFUSED_PACE)
		return;
	w->refused_at = now;
	all = sum_refused_pushes(c, rank);
	/* A server has gone, and its count with it. */
	if (all < w->refused)
		w->refused = all;
	if (all == w->refused)
		return;
	coord_event(c, EVENT_refused,
	    "%llu push%s of worker-%u (key %s) %s refused: its values are not finite or out of "
	    "bounds, or the server lacks memory",
	    (unsigned long long)(all - w->refused), all - w->refused == 1 ? "" : "es", rank,
	    w->key_name, all - w->refused == 1 ? "was" : "were");
	w->refused = all;
}

void coord_watch_joined(struct coord *c, unsigned rank)
{
	c->worker[rank].quota_seconds = 0;
}

/* ---- quotas ---- */

/* Delays at most this far apart count as one run of delays. */
#define HELD_LATELY NSEC_PER_SEC

bool coord_watch_is_delayed(const struct coord_member_worker *w, int64_t now)
{
	return w->quota_at && now - w->quota_at < HELD_LATELY;
}

/* Note a server's total of delays. Only the total of the server that delays most is kept. */
static void note_quota_hold(struct coord *c, unsigned rank, double seconds, int64_t now)
{
	struct coord_member_worker *w = &c->worker[rank];

	if (seconds <= w->quota_seconds)
		return;
	if (!coord_watch_is_delayed(w, now))
		w->quota_since = now;
	w->quota_at = now;
	w->quota_seconds = seconds;
}

/* ---- all ---- */

void coord_watch_ended(struct coord *c, unsigned rank, int64_t now)
{
	report_refused_pushes(c, rank, true, now);
}

void coord_watch_heartbeat(struct coord *c, const struct heartbeat_server *f, int64_t now)
{
	for (size_t i = 0; i < f->nrefused; i++)
		if (f->refused[i].rank < c->nworkers)
			report_refused_pushes(c, f->refused[i].rank, false, now);
	for (size_t i = 0; i < f->nquota_held; i++)
		if (f->quota_held[i].rank < c->nworkers)
			note_quota_hold(c, f->quota_held[i].rank, f->quota_held[i].number, now);
}

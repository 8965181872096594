/* SPDX-License-Identifier: ISC */
#include "coord/coord_state.h"

#include "core/json.h"
#include "layout/place.h"

/* Changing the number of servers and workers while the job runs. New members are only requested:
 * the supervisor, or a person with a join file, starts them. Surplus servers hand over their
 * partitions and leave; surplus workers leave after a step. */

enum err_code coord_may_scale(const struct coord *c, int64_t servers, int64_t workers,
    struct err *e)
{
	int64_t most = c->ring.used ? COORD_RING_MAX : COORD_WORKERS_MAX;

	if (c->phase != PHASE_RUNNING)
		return err_set(e, ERR_NOTREADY, "the %s is %s: it must run to be scaled",
		    c->cfg.has_job ? "job" : "cluster", coord_phase_name(c->phase));
	if (servers > COORD_SERVERS_MAX || servers == 0)
		return err_set(e, ERR_USAGE, "servers: must be from 1 to %u, got %lld",
		    COORD_SERVERS_MAX, (long long)servers);
	if (workers > most || workers == 0)
		return err_set(e, ERR_USAGE, "workers: must be from 1 to %lld%s, got %lld",
		    (long long)most, c->ring.used ? " with via allreduce" : "", (long long)workers);
	if (workers > 0 && !c->cfg.has_job)
		return err_set(e, ERR_USAGE, "this cluster has no job: it has no workers");
	if (workers > 0 && c->cfg.deterministic)
		return err_set(e, ERR_USAGE, "a deterministic job keeps its %u worker%s",
		    c->cfg.workers, c->cfg.workers == 1 ? "" : "s");
	if (workers > 0 && c->cfg.workers_max > c->cfg.workers_min &&
	    (workers < c->cfg.workers_min || workers > c->cfg.workers_max))
		return err_set(e, ERR_USAGE,
		    "workers: must be from %u to %u, the range in the cluster file, got %lld",
		    c->cfg.workers_min, c->cfg.workers_max, (long long)workers);
	return ERR_OK;
}

static void scale_servers(struct coord *c, unsigned n)
{
	c->cfg.servers = n;
	if (n > c->nservers)
		c->nservers = n;
	for (unsigned i = 0; i < c->nservers; i++) {
		struct coord_member_server *s = &c->server[i];

		s->leaving = i >= n && s->live;
		s->requested = i < n && !s->live;
	}
	c->balance.wanted = true;
}

static void scale_workers(struct coord *c, unsigned n)
{
	c->cfg.workers = n;
	while (c->nworkers < n)
		c->worker[c->nworkers++].relay = -1;
	for (unsigned i = 0; i < c->nworkers; i++) {
		struct coord_member_worker *w = &c->worker[i];
		bool here = w->state == WORKER_ACTIVE || w->state == WORKER_JOINING;

		w->leave_requested = i >= n && here;
		w->requested = i < n && !here && w->state != WORKER_DONE;
	}
}

enum err_code coord_scale(struct coord *c, int64_t servers, int64_t workers, int64_t now,
    struct err *e)
{
	enum err_code rc = coord_may_scale(c, servers, workers, e);

	if (rc)
		return rc;
	if (servers > 0)
		scale_servers(c, (unsigned)servers);
	if (workers > 0)
		scale_workers(c, (unsigned)workers);
	coord_event(c, EVENT_scale, "scaling to %u server%s and %u worker%s", c->cfg.servers,
	    c->cfg.servers == 1 ? "" : "s", c->cfg.workers, c->cfg.workers == 1 ? "" : "s");
	coord_changed(c);
	coord_progress(c, now);
	return ERR_OK;
}

enum err_code coord_drain(struct coord *c, unsigned server, bool force, int64_t now, struct err *e)
{
	unsigned others = 0;

	if (c->phase != PHASE_RUNNING)
		return err_set(e, ERR_NOTREADY, "the %s is %s: it must run to drain a server",
		    c->cfg.has_job ? "job" : "cluster", coord_phase_name(c->phase));
	if (server >= c->nservers || !c->server[server].live)
		return err_set(e, ERR_NOTFOUND, "there is no living server-%u", server);
	for (unsigned i = 0; i < c->nservers; i++)
		others += i != server && c->server[i].live && !c->server[i].leaving;
	if (c->server[server].leaving)
		return ERR_OK;
	if (!others)
		return err_set(e, ERR_USAGE,
		    "server-%u is the only server: no other one can take its partitions", server);
	if (others == 1 && c->cfg.replicas > 1 && !force)
		return err_set(e, ERR_USAGE,
		    "without server-%u one server is left, with the only replica of all partitions "
		    "(replicas is %u): start another server first (ps-ctl scale servers=%u), or "
		    "drain it with --force",
		    server, c->cfg.replicas, c->cfg.servers + 1);
	c->server[server].leaving = true;
	if (others < c->cfg.replicas)
		coord_event(c, EVENT_drain,
		    "server-%u is draining; %u of %u replicas are left, because no other "
		    "server can take its place",
		    server, others, c->cfg.replicas);
	else
		coord_event(c, EVENT_drain, "server-%u is draining", server);
	coord_changed(c);
	coord_progress(c, now);
	return ERR_OK;
}

void coord_scale_permit_leave(struct coord *c, unsigned server)
{
	json_t *msg = MESSAGE(must_leave);

	c->io.to_server(c->io.ctx, server, msg);
	json_decref(msg);
}

void coord_scale_server_leaves(struct coord *c, unsigned server, int64_t now)
{
	/* If it was released, or if no other server can take its partitions, waiting is useless. */
	if (coord_drain(c, server, true, now, NULL))
		coord_scale_permit_leave(c, server);
}

enum err_code coord_rebalance(struct coord *c, int64_t now, struct err *e)
{
	if (c->phase != PHASE_RUNNING)
		return err_set(e, ERR_NOTREADY, "the %s is %s: it must run to be rebalanced",
		    c->cfg.has_job ? "job" : "cluster", coord_phase_name(c->phase));
	c->balance.wanted = true;
	coord_progress(c, now);
	return ERR_OK;
}

/* ---- servers that leave ---- */

static bool server_holds_partitions(const struct coord *c, unsigned server)
{
	for (size_t i = 0; i < c->layout.ntables; i++)
		for (size_t k = 0; k < c->layout.table[i].nruns; k++) {
			const struct run *r = &c->layout.table[i].run[k];

			if (run_chain_index(r, server) >= 0 || r->joining == server)
				return true;
		}
	return false;
}

bool coord_scale_release_servers(struct coord *c)
{
	bool some = false;

	for (unsigned i = 0; i < c->nservers; i++) {
		struct coord_member_server *s = &c->server[i];

		if (!s->live || !s->leaving || server_holds_partitions(c, i))
			continue;
		coord_scale_permit_leave(c, i);
		s->live = s->leaving = s->ever = false;
		s->released = true;
		s->gone_at = 0;
		coord_change_server_gone(c);
		coord_event(c, EVENT_server_left,
		    "server-%u has given up its partitions, and leaves", i);
		some = true;
	}
	return some;
}

static void append_member_id(json_t *list, const char *kind, unsigned i)
{
	char id[24];

	snprintf(id, sizeof id, "%s-%u", kind, i);
	json_array_append_new(list, json_string(id));
}

json_t *coord_scale_called(const struct coord *c)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < c->nservers; i++)
		if (c->server[i].requested)
			append_member_id(list, "server", i);
	for (unsigned i = 0; i < c->nworkers; i++)
		if (c->worker[i].requested)
			append_member_id(list, "worker", i);
	return list;
}

unsigned coord_scale_wanted_servers(const struct coord *c)
{
	unsigned n = c->cfg.servers;

	for (unsigned i = 0; i < c->nservers && i < c->cfg.servers; i++)
		n -= c->server[i].released && !c->server[i].live && !c->server[i].requested;
	return n;
}

json_t *coord_scale_released(const struct coord *c)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < c->nservers; i++)
		if (c->server[i].released)
			append_member_id(list, "server", i);
	return list;
}

bool coord_scale_in_progress(const struct coord *c)
{
	bool some = c->balance.wanted;

	for (unsigned i = 0; i < c->nservers; i++)
		some |= c->server[i].live && c->server[i].leaving;
	for (unsigned i = 0; i < c->nworkers; i++)
		some |= c->worker[i].state == WORKER_JOINING ||
		    (c->worker[i].leave_requested && c->worker[i].state == WORKER_ACTIVE);
	return some;
}

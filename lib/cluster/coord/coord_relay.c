/* SPDX-License-Identifier: ISC */
#include "coord/coord_state.h"

#include "aggregate/aggregate.h"
#include "core/clock.h"
#include "core/json.h"
#include "core/mem.h"
#include "msg/answer.h"

/* Relays, and which worker pushes through which relay. Zones are paths: zone dc1/rack2 lies in zone
 * dc1. Assignments change only together with the layout epoch, so that all processes judge the
 * members of a relay's sum by the same view. */

/* ---- the nearest relay ---- */

/* The relay of exactly this zone with the fewest workers, without incarnation `unreachable`; -1:
 * none. */
static int find_relay_in_zone(const struct coord *c, const char *zone, size_t len,
    uint64_t unreachable)
{
	unsigned load[COORD_RELAYS_MAX] = { 0 };
	int best = -1;

	for (unsigned i = 0; i < c->nworkers; i++)
		if (c->worker[i].relay >= 0)
			load[c->worker[i].relay]++;
	for (unsigned i = 0; i < c->nrelays; i++) {
		const struct coord_member_relay *r = &c->relay[i];

		if (r->live && r->incarnation != unreachable && strlen(r->zone) == len &&
		    strncmp(r->zone, zone, len) == 0 && (best < 0 || load[i] < load[best]))
			best = (int)i;
	}
	return best;
}

/* Length of the path of the enclosing zone; 0: there is none. */
static size_t outer_zone_length(const char *zone, size_t len)
{
	while (len && zone[len - 1] != '/')
		len--;
	return len ? len - 1 : 0;
}

static int find_nearest_relay(const struct coord *c, const char *zone, size_t len,
    uint64_t unreachable)
{
	int found = -1;

	for (; len && found < 0; len = outer_zone_length(zone, len))
		found = find_relay_in_zone(c, zone, len, unreachable);
	return found;
}

static bool worker_wants_relay(const struct coord_member_worker *w)
{
	return w->state == WORKER_JOINING || w->state == WORKER_ACTIVE;
}

/* Choose a relay for a worker. It keeps the one that it has, while that is alive and reachable.
 * True: its relay has changed. */
static bool assign_worker(struct coord *c, struct coord_member_worker *w)
{
	int before = w->relay;

	if (w->relay >= 0 &&
	    (!c->relay[w->relay].live || c->relay[w->relay].incarnation == w->unreachable_relay ||
	        !worker_wants_relay(w)))
		w->relay = -1;
	if (w->relay < 0 && worker_wants_relay(w))
		w->relay = find_nearest_relay(c, w->zone, strlen(w->zone), w->unreachable_relay);
	return w->relay != before;
}

/* Choose the relay of an enclosing zone that this relay sends to. It is never one of its own zone,
 * so there are no cycles. */
static bool assign_relay(struct coord *c, struct coord_member_relay *r)
{
	int before = r->upstream;

	r->upstream = r->live
	    ? find_nearest_relay(c, r->zone, outer_zone_length(r->zone, strlen(r->zone)),
	          r->unreachable_relay)
	    : -1;
	return r->upstream != before;
}

/* Assign all workers and relays again. If that changes anything after placement, the layout epoch
 * grows. */
static void reassign_relays(struct coord *c)
{
	bool changed = false;

	for (unsigned i = 0; i < c->nworkers; i++)
		changed |= assign_worker(c, &c->worker[i]);
	for (unsigned i = 0; i < c->nrelays; i++)
		changed |= assign_relay(c, &c->relay[i]);
	if (changed && c->placed)
		c->layout.epoch++;
	coord_changed(c);
}

void coord_relay_choose(struct coord *c, unsigned rank)
{
	struct coord_member_worker *w = &c->worker[rank];

	w->relay = -1;
	w->unreachable_relay = 0;
	if (assign_worker(c, w) && c->placed)
		c->layout.epoch++;
}

/* ---- coming and going ---- */

/* Choose the number of a joining relay: the last one of this key, or a free one; -1: none is
 * free. */
static int find_relay_place(const struct coord *c, const char *key)
{
	int free = c->nrelays < COORD_RELAYS_MAX ? (int)c->nrelays : -1;

	for (unsigned i = c->nrelays; i-- > 0;)
		if (!c->relay[i].live)
			free = (int)i;
	for (unsigned i = 0; i < c->nrelays; i++)
		if (!c->relay[i].live && strcmp(c->relay[i].key, key) == 0)
			return (int)i;
	return free;
}

/* Reattach a relay that has lost only its session. True: self is filled in. */
static bool rejoin_relay(struct coord *c, struct coord_self *self, int64_t now)
{
	for (unsigned i = 0; i < c->nrelays; i++) {
		struct coord_member_relay *r = &c->relay[i];

		if (!r->live || r->incarnation != self->incarnation ||
		    strcmp(r->key, self->key) != 0)
			continue;
		self->kind = COORD_RELAY;
		self->index = i;
		r->seen = now;
		r->gone_at = 0;
		return true;
	}
	return false;
}

static enum err_code check_relay_join(const struct coord *c, const char *zone, struct err *e)
{
	const char *why = !c->cfg.has_job                 ? "the cluster has a job"
	    : !c->cfg.lockstep                            ? "sync is bsp"
	    : c->cfg.deterministic                        ? "the job is not deterministic"
	    : c->ring.used                                ? "via is servers"
	    : aggregate_setting_compares(c->conf->robust) ? "robust is none"
	    : c->conf->backup                             ? "there are no backup workers"
	                                                  : NULL;

	if (why)
		return err_set(e, ERR_CONFIG,
		    "a relay sums the pushes of a step and requires that %s", why);
	if (!*zone || strlen(zone) >= COORD_ZONE || *zone == '/' || zone[strlen(zone) - 1] == '/' ||
	    strstr(zone, "//"))
		return err_set(e, ERR_CONFIG,
		    "zone: must be a name, or names separated by /, of at most %d characters, "
		    "got \"%s\"",
		    COORD_ZONE - 1, zone);
	if (c->phase > PHASE_RUNNING)
		return err_set(e, ERR_NOTREADY, "the job is %s: no relay can join any more",
		    coord_phase_name(c->phase));
	return ERR_OK;
}

void coord_relay_lost(struct coord *c, unsigned i, const char *how)
{
	struct coord_member_relay *r = &c->relay[i];

	r->live = false;
	r->loss = ++c->keys.losses;
	coord_event(c, EVENT_relay_lost, "relay-%u (%s, pid %lld) is lost: %s", i, r->host,
	    (long long)r->pid, how);
	reassign_relays(c);
}

/* A process of the same key joins: the old relay was restarted before its silence was noticed. */
static void drop_replaced_relay(struct coord *c, const char *key)
{
	for (unsigned i = 0; i < c->nrelays; i++)
		if (c->relay[i].live && strcmp(c->relay[i].key, key) == 0)
			coord_relay_lost(c, i, "it was restarted");
}

json_t *coord_on_relay_join(struct coord *c, const struct coord_request *request)
{
	const struct message_relay_join *m = &request->m->relay_join;
	struct coord_self *self = request->self;
	int64_t now = request->now;
	struct err *e = request->e;
	const char *zone = m->zone;
	struct coord_member_relay *r;
	int at;

	if (rejoin_relay(c, self, now))
		return ANSWER(relay_join, .relay = self->index);
	if (check_relay_join(c, zone, e))
		return NULL;
	drop_replaced_relay(c, self->key);
	at = find_relay_place(c, self->key);
	if (at < 0) {
		err_set(e, ERR_LIMIT, "the cluster already has %u relays", COORD_RELAYS_MAX);
		return NULL;
	}
	if (at == (int)c->nrelays)
		c->nrelays++;
	r = &c->relay[at];
	json_decref(r->stats);
	json_decref(r->about);
	/* A process that was only taken for lost does not check its sessions again. */
	*r = (struct coord_member_relay){ .live = true,
		.keys_made = r->incarnation == self->incarnation ? r->keys_made : 0,
		.incarnation = self->incarnation,
		.seen = now,
		.pid = m->pid,
		.upstream = -1 };
	snprintf(r->key, sizeof r->key, "%s", self->key);
	snprintf(r->zone, sizeof r->zone, "%s", zone);
	snprintf(r->host, sizeof r->host, "%s", m->host);
	snprintf(r->tcp, sizeof r->tcp, "%s", m->tcp);
	snprintf(r->unix_path, sizeof r->unix_path, "%s", m->unix_path);
	self->kind = COORD_RELAY;
	self->index = (unsigned)at;
	coord_event(c, EVENT_relay_joined, "relay-%d joined from %s (pid %lld) for zone %s", at,
	    r->host, (long long)r->pid, r->zone);
	reassign_relays(c);
	return ANSWER(relay_join, .relay = at);
}

/* Is the report about the relay `theirs` that the peer has now, and from the present layout
 * epoch? */
static bool is_current_miss(const struct coord *c, const struct message_relay_missed *m, int theirs)
{
	return theirs >= 0 && m->relay == theirs && (uint32_t)m->epoch == c->layout.epoch;
}

static void report_relay_missed(struct coord *c, const char *kind, unsigned i, int relay,
    const char *why)
{
	coord_event(c, EVENT_relay_missed, "%s-%u continues without relay-%d: %.300s", kind, i,
	    relay, *why ? why : "it could not be reached");
	reassign_relays(c);
}

/* A worker could not reach its relay: choose another one for it. */
static void handle_relay_missed(struct coord *c, unsigned rank,
    const struct message_relay_missed *m)
{
	struct coord_member_worker *w = &c->worker[rank];
	int relay = w->relay;

	if (!is_current_miss(c, m, relay))
		return;
	w->unreachable_relay = c->relay[relay].incarnation;
	report_relay_missed(c, "worker", rank, relay, m->message);
}

/* A relay could not reach the one that it sends to. */
static void handle_upstream_missed(struct coord *c, unsigned i,
    const struct message_relay_missed *m)
{
	struct coord_member_relay *r = &c->relay[i];
	int relay = r->upstream;

	if (!is_current_miss(c, m, relay))
		return;
	r->unreachable_relay = c->relay[relay].incarnation;
	report_relay_missed(c, "relay", i, relay, m->message);
}

json_t *coord_on_relay_missed(struct coord *c, const struct coord_request *r)
{
	if (r->self->kind == COORD_WORKER)
		handle_relay_missed(c, r->self->index, &r->m->relay_missed);
	else
		handle_upstream_missed(c, r->self->index, &r->m->relay_missed);
	return NULL;
}

bool coord_relay_heartbeat(struct coord *c, const struct coord_self *self,
    const struct message_beat *beat, int64_t now)
{
	struct coord_member_relay *r = &c->relay[self->index];

	if (self->kind != COORD_RELAY || r->incarnation != self->incarnation || !r->live)
		return false;
	r->seen = now;
	r->gone_at = 0;
	coord_keep(&r->stats, beat->stats);
	coord_keep(&r->about, beat->about);
	return true;
}

void coord_relay_gone(struct coord *c, const struct coord_self *self, int64_t now)
{
	struct coord_member_relay *r = &c->relay[self->index];

	if (r->live && r->incarnation == self->incarnation)
		coord_set_gone(&r->gone_at, &r->back_by, now);
}

bool coord_has_relays(const struct coord *c)
{
	for (unsigned i = 0; i < c->nrelays; i++)
		if (c->relay[i].live)
			return true;
	return false;
}

void coord_relays_check(struct coord *c, int64_t now)
{
	char how[80];

	for (unsigned i = 0; i < c->nrelays; i++) {
		const struct coord_member_relay *r = &c->relay[i];

		if (r->live && r->gone_at && now > r->back_by) {
			coord_relay_lost(c, i, "its connection broke");
		} else if (r->live && coord_overdue(c, r->seen, c->cfg.server_lost, now)) {
			snprintf(how, sizeof how, "no heartbeat for %lld ms",
			    (long long)((now - r->seen) / NSEC_PER_MSEC));
			coord_relay_lost(c, i, how);
		}
	}
}

json_t *coord_relays_to_json(const struct coord *c)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < c->nrelays; i++) {
		const struct coord_member_relay *r = &c->relay[i];

		json_array_append_new(list,
		    json_pack("{s:b, s:s, s:s, s:s, s:s, s:s, s:i, s:o}", "live", r->live, "host",
		        r->host, "zone", r->zone, "tcp", r->tcp, "unix", r->unix_path, "key",
		        r->key, "upstream", r->upstream, "incarnation",
		        json_of_u64(r->incarnation)));
	}
	return list;
}

void coord_relays_save(const struct coord *c, struct state *out)
{
	out->nrelays = c->nrelays;
	out->relays = mem_array(c->nrelays, sizeof *out->relays);
	for (unsigned i = 0; i < c->nrelays; i++) {
		const struct coord_member_relay *r = &c->relay[i];

		out->relays[i] = (struct state_relay){ .live = r->live,
			.host = r->host,
			.zone = r->zone,
			.tcp = r->tcp,
			.unix_path = r->unix_path,
			.key = r->key,
			.upstream = r->upstream,
			.incarnation = r->incarnation };
	}
}

bool coord_relays_load(struct coord *c, const struct state *state, int64_t seen)
{
	for (uint64_t i = 0; i < state->nrelays; i++) {
		const struct state_relay *s = &state->relays[i];
		struct coord_member_relay *r = &c->relay[i];

		*r = (struct coord_member_relay){ .live = s->live,
			.incarnation = s->incarnation,
			.seen = seen,
			.upstream = (int)s->upstream };
		if (s->upstream >= (int64_t)state->nrelays)
			return false;
		snprintf(r->key, sizeof r->key, "%s", s->key);
		snprintf(r->zone, sizeof r->zone, "%s", s->zone);
		snprintf(r->host, sizeof r->host, "%s", s->host);
		snprintf(r->tcp, sizeof r->tcp, "%s", s->tcp);
		snprintf(r->unix_path, sizeof r->unix_path, "%s", s->unix_path);
	}
	c->nrelays = (unsigned)state->nrelays;
	for (unsigned i = 0; i < c->nworkers; i++)
		if (c->worker[i].relay >= (int)c->nrelays)
			return false;
	return true;
}

json_t *coord_relays(const struct coord *c, int64_t now)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < c->nrelays; i++) {
		const struct coord_member_relay *r = &c->relay[i];
		json_t *o = json_event("relay");
		unsigned workers = 0;
		char id[24];

		for (unsigned k = 0; k < c->nworkers; k++)
			workers += c->worker[k].relay == (int)i;
		snprintf(id, sizeof id, "relay-%u", i);
		json_object_set_new(o, "id", json_string(id));
		json_object_set_new(o, "state", json_string(r->live ? "live" : "lost"));
		json_object_set_new(o, "zone", json_string(r->zone));
		json_object_set_new(o, "workers", json_integer(workers));
		json_object_set_new(o, "upstream",
		    r->upstream < 0 ? json_null() : json_sprintf("relay-%d", r->upstream));
		json_object_set_new(o, "pid", json_integer(r->pid));
		json_object_set_new(o, "host", json_string(r->host));
		json_object_set_new(o, "listen", json_string(r->tcp));
		coord_row_add_figures(o, r->stats, r->about,
		    (double)(now - r->seen) / (double)NSEC_PER_SEC);
		json_array_append_new(list, o);
	}
	return list;
}

/* SPDX-License-Identifier: ISC */
#include "coord/coord_state.h"

#include "core/clock.h"
#include "core/json.h"

/* The saved state of the coordinator: members, layout, decisions and requests. Figures are not
 * saved, because the next heartbeats bring them; votes and checkpoints that were under way begin
 * again. */

/* Servers and relays of a saved state have this much longer than usual to reconnect. */
#define GRACE (1500 * NSEC_PER_MSEC)

/* ---- writing ---- */

static json_t *server_to_state(const struct coord_member_server *s)
{
	return json_pack("{s:b, s:b, s:b, s:b, s:b, s:o, s:I, s:s, s:s, s:s, s:s, s:s}", "live",
	    s->live, "ever", s->ever, "leaving", s->leaving, "released", s->released, "called",
	    s->called, "incarnation", json_of_u64(s->incarnation), "pid", (json_int_t)s->pid, "key",
	    s->key, "host", s->host, "tcp", s->tcp, "unix", s->unix_path, "zone", s->zone);
}

static json_t *worker_to_state(const struct coord_member_worker *w)
{
	json_t *o = json_pack("{s:s}", "state", coord_worker_state_name(w->state));

	/* There may be thousands of ranks: an empty one has no other fields. */
	if (w->called)
		json_object_set_new(o, "called", json_true());
	if (!w->incarnation)
		return o;
	json_object_set_new(o, "incarnation", json_of_u64(w->incarnation));
	json_object_set_new(o, "from", json_integer((json_int_t)w->from));
	json_object_set_new(o, "resumes", json_boolean(w->resumes));
	json_object_set_new(o, "until", json_integer((json_int_t)w->until));
	json_object_set_new(o, "pid", json_integer(w->pid));
	json_object_set_new(o, "key", json_string(w->key));
	json_object_set_new(o, "key_name", json_string(w->key_name));
	json_object_set_new(o, "host", json_string(w->host));
	json_object_set_new(o, "evaluates", json_boolean(w->evaluates));
	json_object_set_new(o, "zone", json_string(w->zone));
	json_object_set_new(o, "relay", json_integer(w->relay));
	json_object_set_new(o, "go", json_boolean(w->go));
	json_object_set_new(o, "lost", json_boolean(w->lost_at != 0));
	if (w->ring.next_tcp[0])
		json_object_set_new(o, "ring", coord_ring_to_state(&w->ring));
	/* A worker that has left sends no more heartbeats: keep its last figures. */
	if (w->stats && w->state != WORKER_ACTIVE && w->state != WORKER_JOINING)
		json_object_set(o, "stats", w->stats);
	return o;
}

static void append_change(json_t *list, const struct change *ch)
{
	json_array_append_new(list,
	    json_pack("{s:i, s:i, s:o, s:i}", "kind", (int)ch->kind, "slot", (int)ch->slot,
	        "incarnation", json_of_u64(ch->incarnation), "after", (int)ch->after));
}

/* The proposed change comes first in the list: after a restart it is proposed again. */
static json_t *changes_to_state(const struct coord *c)
{
	json_t *list = json_array();

	if (c->votes.open.open)
		append_change(list, c->votes.open.change);
	for (const struct change *ch = c->votes.changes; ch; ch = ch->next)
		append_change(list, ch);
	return list;
}

json_t *coord_save(const struct coord *c)
{
	json_t *servers = json_array(), *workers = json_array(), *o;

	for (unsigned i = 0; i < c->nservers; i++)
		json_array_append_new(servers, server_to_state(&c->server[i]));
	for (unsigned i = 0; i < c->nworkers; i++)
		json_array_append_new(workers, worker_to_state(&c->worker[i]));
	o = json_pack("{s:i, s:s, s:s, s:s, s:b, s:b, s:I, s:o, s:o, s:o}", "v", 1, "cluster_id",
	    c->cfg.cluster_id, "phase", coord_phase_name(c->phase), "reason", c->reason, "placed",
	    c->placed, "data_lost", c->data_lost, "rev", (json_int_t)c->rev, "layout",
	    layout_to_json(&c->layout), "servers", servers, "workers", workers);
	json_object_set_new(o, "servers_wanted", json_integer(c->cfg.servers));
	json_object_set_new(o, "workers_wanted", json_integer(c->cfg.workers));
	json_object_set_new(o, "rebalance", json_boolean(c->balance.wanted));
	json_object_set_new(o, "members", coord_members_to_json(c));
	json_object_set_new(o, "members_base", json_integer(c->membership.base));
	json_object_set_new(o, "first_step", json_integer((json_int_t)c->membership.first_step));
	json_object_set_new(o, "examples", json_integer((json_int_t)c->data.examples));
	if (c->data.facts)
		json_object_set(o, "facts", c->data.facts);
	json_object_set_new(o, "changes", changes_to_state(c));
	json_object_set_new(o, "proposals", json_integer((json_int_t)c->votes.next));
	json_object_set_new(o, "evaluator", json_integer(c->evaluation.rank));
	json_object_set_new(o, "running_at", json_integer(c->running_at));
	json_object_set_new(o, "ended_at", json_integer(c->ended_at));
	if (c->nrelays)
		json_object_set_new(o, "relays", coord_relays_to_json(c));
	json_object_set_new(o, "ring_gone", json_integer(c->ring_gone));
	if (c->data.tasks)
		json_object_set_new(o, "tasks", tasks_to_json(c->data.tasks));
	json_object_set_new(o, "lease_changes", json_integer((json_int_t)c->data.leases));
	json_object_set_new(o, "leased_from", json_integer((json_int_t)c->data.leased_from));
	if (c->evaluation.last)
		json_object_set(o, "last_eval", c->evaluation.last);
	if (c->evaluation.result)
		json_object_set(o, "result", c->evaluation.result);
	coord_settings_to_state(c, o);
	coord_tables_to_state(c, o);
	if (c->pause.on)
		json_object_set_new(o, "paused_by", json_string(c->pause.by));
	json_object_set_new(o, "pauses", json_integer(c->pause.number));
	if (c->cfg.resume_path)
		json_object_set_new(o, "restore", json_string(c->cfg.resume_path));
	return o;
}

/* ---- reading ---- */

static void copy_state_text(char *out, size_t n, const json_t *o, const char *key)
{
	snprintf(out, n, "%s", json_str(o, key, ""));
}

static void server_from_state(struct coord_member_server *s, unsigned i, const json_t *o,
    int64_t seen)
{
	s->live = json_flag(o, "live");
	s->ever = json_flag(o, "ever");
	s->leaving = json_flag(o, "leaving");
	s->released = json_flag(o, "released");
	s->called = json_flag(o, "called");
	s->incarnation = json_u64s(o, "incarnation", 0);
	s->pid = json_int(o, "pid", 0);
	s->seen = seen;
	if (s->ever)
		snprintf(s->name, sizeof s->name, "server-%u", i);
	copy_state_text(s->key, sizeof s->key, o, "key");
	copy_state_text(s->host, sizeof s->host, o, "host");
	copy_state_text(s->tcp, sizeof s->tcp, o, "tcp");
	copy_state_text(s->unix_path, sizeof s->unix_path, o, "unix");
	copy_state_text(s->zone, sizeof s->zone, o, "zone");
}

static bool worker_from_state(struct coord_member_worker *w, unsigned i, const json_t *o,
    int64_t now)
{
	const char *state = json_str(o, "state", "");
	int s = WORKER_EMPTY;

	while (s <= WORKER_LEFT &&
	    strcmp(state, coord_worker_state_name((enum coord_worker_state)s)) != 0)
		s++;
	if (s > WORKER_LEFT)
		return false;
	w->state = (enum coord_worker_state)s;
	w->called = json_flag(o, "called");
	w->incarnation = json_u64s(o, "incarnation", 0);
	w->from = (uint64_t)json_int(o, "from", 0);
	w->resumes = json_flag(o, "resumes");
	w->until = (uint64_t)json_int(o, "until", 0);
	w->pid = json_int(o, "pid", 0);
	w->evaluates = json_flag(o, "evaluates");
	w->go = json_flag(o, "go");
	w->relay = (int)json_int(o, "relay", -1);
	copy_state_text(w->zone, sizeof w->zone, o, "zone");
	w->seen = now;
	w->lost_at = json_flag(o, "lost") ? now : 0;
	w->stats = json_incref(json_object_get(o, "stats"));
	heartbeat_worker_decode(w->stats, &w->figures);
	if (w->incarnation)
		snprintf(w->name, sizeof w->name, "worker-%u", i);
	copy_state_text(w->key, sizeof w->key, o, "key");
	copy_state_text(w->key_name, sizeof w->key_name, o, "key_name");
	copy_state_text(w->host, sizeof w->host, o, "host");
	coord_ring_from_state(w, json_object_get(o, "ring"));
	return true;
}

static bool changes_from_state(struct coord *c, const json_t *list)
{
	const json_t *o;
	size_t i;

	json_array_foreach(list, i, o) {
		int64_t kind = json_int(o, "kind", -1), slot = json_int(o, "slot", -1),
		        after = json_int(o, "after", -1);
		struct change *ch;

		if (kind < 0 || kind > CHANGE_TABLE || slot < 0 ||
		    (slot >= c->nworkers && kind < CHANGE_SET) || after < 0 || after > WORKER_LEFT)
			return false;
		ch = coord_change_request(c, (enum coord_change_kind)kind, (unsigned)slot,
		    (enum coord_worker_state)after);
		ch->incarnation = json_u64s(o, "incarnation", 0);
	}
	return true;
}

static bool participants_from_state(struct coord *c, const json_t *state, int64_t now)
{
	const json_t *servers = json_object_get(state, "servers"),
	             *workers = json_object_get(state, "workers"), *o;
	size_t i;

	if (!json_is_array(servers) || json_array_size(servers) == 0 ||
	    json_array_size(servers) > COORD_SERVERS_MAX ||
	    json_array_size(workers) > COORD_WORKERS_MAX)
		return false;
	c->nservers = (unsigned)json_array_size(servers);
	c->nworkers = (unsigned)json_array_size(workers);
	/* A server's limit is short, and its process may be waiting before its next attempt to
	 * connect. */
	json_array_foreach(servers, i, o)
		server_from_state(&c->server[i], (unsigned)i, o, now + GRACE);
	json_array_foreach(workers, i, o)
		if (!worker_from_state(&c->worker[i], (unsigned)i, o, now))
			return false;
	if (!coord_relays_from_json(c, json_object_get(state, "relays"), now + GRACE))
		return false;
	return changes_from_state(c, json_object_get(state, "changes"));
}

static int state_phase(const json_t *state)
{
	const char *text = json_str(state, "phase", "");
	int p = COORD_FORMING;

	while (p <= COORD_STOPPED && strcmp(text, coord_phase_name((enum coord_phase)p)) != 0)
		p++;
	return p;
}

bool coord_state_is_running(const json_t *state)
{
	return json_flag(state, "placed") && state_phase(state) < COORD_DONE;
}

bool coord_state_has_model(const json_t *state)
{
	return json_flag(state, "placed") && state_phase(state) <= COORD_DONE;
}

bool coord_state_is_forming(const json_t *state)
{
	return state && !json_flag(state, "placed") && state_phase(state) == COORD_FORMING;
}

static int64_t clamp_to_now(int64_t then, int64_t now)
{
	return then < now ? then : now;
}

/* Restore the job's progress: first step, times, results and data leases. */
static void job_from_state(struct coord *c, const json_t *state, int64_t now)
{
	c->membership.first_step = (uint64_t)json_int(state, "first_step", 0);
	c->data.examples = (uint64_t)json_int(state, "examples", 0);
	c->evaluation.rank = (int)json_int(state, "evaluator", -1);
	c->running_at = clamp_to_now(json_int(state, "running_at", 0), now);
	c->ended_at = clamp_to_now(json_int(state, "ended_at", 0), now);
	c->evaluation.last = json_incref(json_object_get(state, "last_eval"));
	c->evaluation.result = json_incref(json_object_get(state, "result"));
	json_decref(c->data.facts);
	c->data.facts = json_incref(json_object_get(state, "facts"));
	if (!c->cfg.has_job || !c->data.examples)
		return;
	c->data.leased = json_is_object(json_object_get(state, "tasks"));
	c->data.leased_from = (uint64_t)json_int(state, "leased_from", 0);
	coord_job_begin_leases(c, json_object_get(state, "tasks"));
	if (c->data.tasks)
		tasks_from_json(c->data.tasks, json_object_get(state, "tasks"), true);
}

enum err_code coord_recover(struct coord *c, const json_t *state, int64_t now, struct err *e)
{
	enum err_code rc;

	if (strcmp(json_str(state, "cluster_id", ""), c->cfg.cluster_id) != 0)
		return err_set(e, ERR_CONFIG, "the state is another cluster's");
	if (json_int(state, "v", 0) != 1 || !coord_state_has_model(state) ||
	    !coord_settings_from_state(c, state) || !participants_from_state(c, state, now) ||
	    !coord_members_from_json(c, json_object_get(state, "members")))
		return err_set(e, ERR_FORMAT, "the state is not what a coordinator writes");
	layout_release(&c->layout);
	rc = layout_from_json(json_object_get(state, "layout"), &c->layout, e);
	if (rc)
		return rc;
	coord_place_number_zones(c);
	c->placed = true;
	c->waiting[0] = 0;
	c->phase = (enum coord_phase)state_phase(state);
	c->data_lost = json_flag(state, "data_lost");
	c->balance.wanted = json_flag(state, "rebalance");
	c->ring_gone = (uint32_t)json_int(state, "ring_gone", 0);
	c->pause.on = json_object_get(state, "paused_by") != NULL;
	c->pause.number = json_int(state, "pauses", 0);
	c->pause.at = now;
	snprintf(c->pause.by, sizeof c->pause.by, "%s", json_str(state, "paused_by", ""));
	c->cfg.servers = (unsigned)json_int(state, "servers_wanted", c->nservers);
	c->cfg.workers = (unsigned)json_int(state, "workers_wanted", c->nworkers);
	c->membership.base = (unsigned)json_int(state, "members_base", 0);
	/* An open vote is void: its change is proposed again under a new number. */
	c->votes.decided = c->votes.next = (uint64_t)json_int(state, "proposals", 0);
	c->rev = (uint64_t)json_int(state, "rev", 0);
	coord_tables_from_state(c, state);
	c->data.leases = (uint64_t)json_int(state, "lease_changes", 0);
	c->settings.unwaited = true;
	job_from_state(c, state, now);
	c->layout.epoch++;
	coord_event(c, "recovered",
	    "epoch %u: the coordinator goes on where the one before it ended", c->layout.epoch);
	coord_changed(c);
	return ERR_OK;
}

uint64_t coord_stamp(const struct coord *c)
{
	return c->stamp;
}

bool coord_is_placed(const struct coord *c)
{
	return c->placed;
}

size_t coord_count_tables(const struct coord *c)
{
	size_t n = 0;

	for (size_t i = 0; i < c->layout.ntables; i++)
		n += !c->layout.table[i].dropped;
	return n;
}

void coord_begin_after(struct coord *c, const json_t *state)
{
	const json_t *layout = json_object_get(state, "layout");
	uint32_t epoch = (uint32_t)json_int(layout, "epoch", 0),
	         generation = (uint32_t)json_int(layout, "generation", 0);

	if (c->layout.epoch < epoch)
		c->layout.epoch = epoch;
	if (epoch && c->layout.generation <= generation)
		c->layout.generation = generation + 1;
}

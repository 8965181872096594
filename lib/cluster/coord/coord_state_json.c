/* SPDX-License-Identifier: ISC */
#include "coord/coord_state.h"

#include "core/clock.h"
#include "core/json.h"
#include "core/mem.h"

/* The saved state of the coordinator: members, layout, decisions and requests. Figures are not
 * saved, because the next heartbeats bring them; votes and checkpoints that were under way begin
 * again. */

/* Servers and relays of a saved state have this much longer than usual to reconnect. */
#define GRACE (1500 * NSEC_PER_MSEC)

/* ---- writing ---- */

static struct state_server save_server(const struct coord_member_server *s)
{
	return (struct state_server){ .live = s->live,
		.ever = s->ever,
		.leaving = s->leaving,
		.released = s->released,
		.called = s->requested,
		.incarnation = s->incarnation,
		.pid = s->pid,
		.key = s->key,
		.host = s->host,
		.tcp = s->tcp,
		.unix_path = s->unix_path,
		.zone = s->zone };
}

static struct state_worker save_worker(const struct coord_member_worker *w)
{
	/* A worker that has left sends no more heartbeats: keep its last figures. */
	bool gone = w->state != WORKER_ACTIVE && w->state != WORKER_JOINING;

	return (struct state_worker){ .state = w->state,
		.called = w->requested,
		.incarnation = w->incarnation,
		.from = (int64_t)w->from,
		.resumes = w->resumes,
		.until = (int64_t)w->until,
		.pid = w->pid,
		.key = w->key,
		.key_name = w->key_name,
		.host = w->host,
		.evaluates = w->evaluates,
		.zone = w->zone,
		.relay = w->relay,
		.go = w->leave_requested,
		.lost = w->lost_at != 0,
		.returns = w->returns,
		.ring = w->ring.next_tcp[0] ? coord_ring_save(&w->ring) : NULL,
		.stats = gone ? w->stats : NULL };
}

static struct state_change save_change(const struct change *ch)
{
	return (struct state_change){ .kind = ch->kind,
		.rank = ch->rank,
		.incarnation = ch->incarnation,
		.after = ch->after };
}

/* The proposed change comes first in the list: after a restart it is proposed again. */
static void save_changes(const struct coord *c, struct state *out)
{
	size_t n = 1;

	for (const struct change *ch = c->votes.changes; ch; ch = ch->next)
		n++;
	out->changes = mem_array(n, sizeof *out->changes);
	if (c->votes.proposal.open)
		out->changes[out->nchanges++] = save_change(c->votes.proposal.change);
	for (const struct change *ch = c->votes.changes; ch; ch = ch->next)
		out->changes[out->nchanges++] = save_change(ch);
}

static void save_members(const struct coord *c, struct state *out)
{
	out->nservers = c->nservers;
	out->servers = mem_array(c->nservers, sizeof *out->servers);
	for (unsigned i = 0; i < c->nservers; i++)
		out->servers[i] = save_server(&c->server[i]);
	out->nworkers = c->nworkers;
	out->workers = mem_array(c->nworkers, sizeof *out->workers);
	for (unsigned i = 0; i < c->nworkers; i++)
		out->workers[i] = save_worker(&c->worker[i]);
	for (unsigned i = 0; i < c->nworkers; i++)
		out->workers[i].unsettled_from = (int64_t)coord_settle_from(c, i);
	coord_relays_save(c, out);
	coord_members_save(c, out);
	save_changes(c, out);
}

void coord_save(const struct coord *c, struct state *out)
{
	*out = (struct state){ .v = STATE_VERSION,
		.cluster_id = c->cfg.cluster_id,
		.phase = c->phase,
		.reason = c->end.text,
		.placed = c->placed,
		.data_lost = c->data_lost,
		.rev = (int64_t)c->rev,
		.layout = layout_to_json(&c->layout),
		.servers_wanted = c->cfg.servers,
		.workers_wanted = c->cfg.workers,
		.rebalance = c->balance.wanted,
		.members_base = c->membership.base,
		.first_step = (int64_t)c->membership.first_step,
		.examples = (int64_t)c->data.examples,
		.facts = c->data.facts,
		.given = c->data.given,
		.proposals = (int64_t)c->votes.next,
		.evaluator = c->evaluation.rank,
		.running_at = c->times.running,
		.ended_at = c->times.ended,
		.ended = c->ended,
		.ring_gone = c->ring.gone,
		.tasks = c->data.leases ? leases_save(c->data.leases) : NULL,
		.lease_changes = (int64_t)c->data.lease_changes,
		.leased_from = (int64_t)c->data.leased_from,
		.stop = coord_early_stop_save(c),
		.epochs = (int64_t)c->cfg.epochs,
		.last_eval = c->evaluation.last.json,
		.result = c->evaluation.result.json,
		.paused_by = c->pause.on ? c->pause.by : NULL,
		.pauses = c->pause.number,
		.restore = c->cfg.resume_path,
		.restore_newest = c->cfg.resume_newest };
	save_members(c, out);
	coord_settings_save(c, out);
	coord_tables_save(c, out);
}

/* ---- reading ---- */

static void load_server(struct coord_member_server *s, unsigned i, const struct state_server *saved,
    int64_t seen)
{
	s->live = saved->live;
	s->ever = saved->ever;
	s->leaving = saved->leaving;
	s->released = saved->released;
	s->requested = saved->called;
	s->incarnation = saved->incarnation;
	s->pid = saved->pid;
	s->seen = seen;
	s->awaited = saved->live;
	if (s->ever)
		snprintf(s->name, sizeof s->name, "server-%u", i);
	snprintf(s->key, sizeof s->key, "%s", saved->key);
	snprintf(s->host, sizeof s->host, "%s", saved->host);
	snprintf(s->tcp, sizeof s->tcp, "%s", saved->tcp);
	snprintf(s->unix_path, sizeof s->unix_path, "%s", saved->unix_path);
	snprintf(s->zone, sizeof s->zone, "%s", saved->zone);
}

static bool load_worker(struct coord_member_worker *w, unsigned i, const struct state_worker *saved,
    int64_t now)
{
	if (saved->state < 0)
		return false;
	w->state = (enum worker_state)saved->state;
	w->requested = saved->called;
	w->incarnation = saved->incarnation;
	w->from = (uint64_t)saved->from;
	w->resumes = saved->resumes;
	w->until = (uint64_t)saved->until;
	w->pid = saved->pid;
	w->evaluates = saved->evaluates;
	w->leave_requested = saved->go;
	w->relay = (int)saved->relay;
	snprintf(w->zone, sizeof w->zone, "%s", saved->zone);
	w->seen = now;
	w->lost_at = saved->lost ? now : 0;
	w->returns = saved->returns;
	w->stats = json_incref((json_t *)(uintptr_t)saved->stats);
	heartbeat_worker_decode(w->stats, &w->figures);
	if (w->incarnation)
		snprintf(w->name, sizeof w->name, "worker-%u", i);
	snprintf(w->key, sizeof w->key, "%s", saved->key);
	snprintf(w->key_name, sizeof w->key_name, "%s", saved->key_name);
	snprintf(w->host, sizeof w->host, "%s", saved->host);
	if (saved->ring)
		coord_ring_load(&w->ring, saved->ring);
	return true;
}

static bool load_changes(struct coord *c, const struct state *state)
{
	for (uint64_t i = 0; i < state->nchanges; i++) {
		const struct state_change *s = &state->changes[i];
		struct change *ch;

		if (s->kind < 0 || s->rank < 0 || s->after < 0 ||
		    (s->rank >= c->nworkers && s->kind < CHANGE_SET))
			return false;
		ch = coord_change_request(c, (enum change_kind)s->kind, (unsigned)s->rank,
		    (enum worker_state)s->after);
		ch->incarnation = s->incarnation;
	}
	return true;
}

static bool load_members(struct coord *c, const struct state *state, int64_t now)
{
	/* Checked before anything is taken over: a job has at least one rank. */
	if (!state->nservers || (c->cfg.has_job && !state->nworkers) ||
	    state->evaluator >= (int64_t)state->nworkers)
		return false;
	c->nservers = (unsigned)state->nservers;
	c->nworkers = (unsigned)state->nworkers;
	/* A server's limit is short, and its process may be waiting before its next attempt to
	 * connect. */
	for (unsigned i = 0; i < c->nservers; i++)
		load_server(&c->server[i], i, &state->servers[i], now + GRACE);
	for (unsigned i = 0; i < c->nworkers; i++)
		if (!load_worker(&c->worker[i], i, &state->workers[i], now))
			return false;
	return coord_relays_load(c, state, now + GRACE) && load_changes(c, state) &&
	    coord_members_load(c, state) &&
	    coord_report_keep(&c->evaluation.last, state->last_eval) &&
	    coord_report_keep(&c->evaluation.result, state->result);
}

/* False for a phase that this version does not know. */
static bool is_phase_in(const struct state *state, enum phase first, enum phase last)
{
	return state->phase >= (int64_t)first && state->phase <= (int64_t)last;
}

bool coord_state_is_running(const struct state *state)
{
	return state->placed && is_phase_in(state, PHASE_FORMING, PHASE_FINISHING);
}

bool coord_state_has_model(const struct state *state)
{
	return state->placed && is_phase_in(state, PHASE_FORMING, PHASE_DONE);
}

bool coord_state_is_forming(const struct state *state)
{
	return !state->placed && state->phase == PHASE_FORMING;
}

static int64_t clamp_to_now(int64_t then, int64_t now)
{
	return then < now ? then : now;
}

/* Restore the job's progress: first step, times, results and data leases. */
static void load_progress(struct coord *c, const struct state *state, int64_t now)
{
	c->membership.first_step = (uint64_t)state->first_step;
	c->data.examples = (uint64_t)state->examples;
	c->evaluation.rank = (int)state->evaluator;
	c->times.running = clamp_to_now(state->running_at, now);
	c->times.ended = clamp_to_now(state->ended_at, now);
	c->data.given = state->given;
	coord_early_stop_load(c, state->stop);
	if (!c->cfg.has_job || !c->data.examples)
		return;
	c->cfg.epochs = (uint64_t)state->epochs;
	c->data.leased = state->tasks != NULL;
	c->data.leased_from = (uint64_t)state->leased_from;
	coord_job_begin_leases(c, state->tasks);
	if (c->data.leases && state->tasks)
		leases_load(c->data.leases, state->tasks, true);
	for (unsigned i = 0; i < c->nworkers; i++)
		if (c->data.leases && state->workers[i].unsettled_from)
			coord_settle_begin(c, i, (uint64_t)state->workers[i].unsettled_from, 0);
}

enum err_code coord_recover(struct coord *c, const struct state *state, int64_t now, struct err *e)
{
	enum err_code rc;

	if (strcmp(state->cluster_id, c->cfg.cluster_id) != 0)
		return err_set(e, ERR_CONFIG, "the state belongs to another cluster");
	if (state->v > STATE_VERSION)
		return err_set(e, ERR_FORMAT,
		    "the state was written by a newer version of pskit: it has version %lld, and this one "
		    "reads versions up to %d",
		    (long long)state->v, STATE_VERSION);
	if (state->v < 1 || !coord_state_has_model(state) || !coord_settings_load(c, state) ||
	    !load_members(c, state, now))
		return err_set(e, ERR_FORMAT, "the state was not written by a coordinator");
	if (!coord_description_set(c, state->facts))
		return err_set(e, ERR_FORMAT,
		    "the state refers to a description of the training data that is missing");
	layout_release(&c->layout);
	rc = layout_from_json(state->layout, &c->layout, e);
	if (rc)
		return rc;
	coord_place_number_zones(c);
	c->placed = true;
	c->checking.open = false;
	c->waiting[0] = 0;
	c->phase = (enum phase)state->phase;
	c->data_lost = state->data_lost;
	c->balance.wanted = state->rebalance;
	c->ring.gone = (uint32_t)state->ring_gone;
	c->pause.on = state->paused_by != NULL;
	c->pause.number = state->pauses;
	c->pause.at = now;
	snprintf(c->pause.by, sizeof c->pause.by, "%s", state->paused_by ? state->paused_by : "");
	c->cfg.servers = state->servers_wanted < 0 ? c->nservers : (unsigned)state->servers_wanted;
	c->cfg.workers = state->workers_wanted < 0 ? c->nworkers : (unsigned)state->workers_wanted;
	c->membership.base = (unsigned)state->members_base;
	/* An open vote is void: its change is proposed again under a new number. */
	c->votes.decided = c->votes.next = (uint64_t)state->proposals;
	c->rev = (uint64_t)state->rev;
	coord_tables_load(c, state);
	c->data.lease_changes = (uint64_t)state->lease_changes;
	c->settings.unwaited = true;
	load_progress(c, state, now);
	c->layout.epoch++;
	coord_event(c, EVENT_recovered,
	    "layout epoch %u: the coordinator continues from the saved state", c->layout.epoch);
	coord_changed(c);
	return ERR_OK;
}

uint64_t coord_state_rev(const struct coord *c)
{
	return c->state_rev;
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

void coord_begin_after(struct coord *c, const struct state *state)
{
	uint32_t epoch = layout_json_epoch(state->layout),
	         generation = layout_json_generation(state->layout);

	if (c->layout.epoch < epoch)
		c->layout.epoch = epoch;
	if (epoch && c->layout.generation <= generation)
		c->layout.generation = generation + 1;
}

/* SPDX-License-Identifier: ISC */
#include "coord/coord_state.h"

#include <math.h>

#include "conf/conf_rule.h"
#include "core/clock.h"
#include "core/json.h"
#include "core/steps.h"
#include "core/version.h"
#include "layout/place.h"

/* ---- the view that servers and workers follow ---- */

static json_t *view_servers(const struct coord *c)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < c->nservers; i++) {
		const struct coord_member_server *s = &c->server[i];

		json_array_append_new(list,
		    json_pack("{s:s, s:b, s:s, s:s, s:s, s:s, s:o}", "id", s->name, "live", s->live,
		        "host", s->host, "tcp", s->tcp, "unix", s->unix_path, "key", s->key,
		        "incarnation", json_of_u64(s->incarnation)));
	}
	return list;
}

static json_t *view_workers(const struct coord *c)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < c->nworkers; i++) {
		const struct coord_member_worker *w = &c->worker[i];
		json_t *row = json_pack("{s:s}", "state", coord_worker_state_name(w->state));

		/* There may be thousands of ranks: an empty one has no other fields. */
		if (w->incarnation)
			json_object_set_new(row, "incarnation", json_of_u64(w->incarnation));
		if (w->key[0])
			json_object_set_new(row, "key", json_string(w->key));
		if (w->state == WORKER_JOINING)
			json_object_set_new(row, "first",
			    json_boolean(c->placed && c->phase == PHASE_FORMING));
		if (w->resumes)
			json_object_set_new(row, "resumes", json_true());
		if (w->from)
			json_object_set_new(row, "from", json_integer((json_int_t)w->from));
		if (w->until)
			json_object_set_new(row, "until", json_integer((json_int_t)w->until));
		if (w->relay >= 0)
			json_object_set_new(row, "relay", json_integer(w->relay));
		if (w->leave_requested)
			json_object_set_new(row, "go", json_true());
		json_array_append_new(list, row);
	}
	return list;
}

uint64_t coord_layout_number(const struct coord *c)
{
	return (uint64_t)c->layout.generation << 32 | c->layout.epoch;
}

/* Before the partitions are placed nobody has any, whatever layouts a run before this one had. So a
 * process reports none to a coordinator that is started again meanwhile, which would take it for
 * one of that run. */
static json_t *view_layout(const struct coord *c)
{
	json_t *layout = layout_to_json(&c->layout);

	if (!c->placed)
		json_object_set_new(layout, "epoch", json_integer(0));
	return layout;
}

json_t *coord_view(const struct coord *c)
{
	json_t *v = json_pack("{s:s, s:I, s:s, s:s, s:s, s:s, s:s}", "op", "view", "rev",
	    (json_int_t)c->rev, "name", c->cfg.name, "cluster_id", c->cfg.cluster_id, "phase",
	    coord_phase_name(c->phase), "reason", c->end.text, "waiting_for", c->waiting);

	json_object_set_new(v, "ended", json_boolean(c->ended));
	coord_settings_to_view(c, v);
	if (coord_is_paused(c))
		json_object_set_new(v, "paused", json_integer(c->pause.number));
	/* Only the first servers load the checkpoint; later ones get replicas from other
	 * servers. */
	if (c->cfg.resume_path && c->phase == PHASE_FORMING) {
		json_object_set_new(v, "restore", json_string(c->cfg.resume_path));
		if (!coord_resume_is_checked(c))
			json_object_set_new(v, "checking", json_true());
	}
	coord_probe_to_view(c, v);
	json_object_set_new(v, "servers", view_servers(c));
	json_object_set_new(v, "workers", view_workers(c));
	if (c->nrelays)
		json_object_set_new(v, "relays", coord_relays_to_json(c));
	if (c->ring.used)
		json_object_set_new(v, "ring", coord_ring_to_view(c));
	json_object_set_new(v, "layout", view_layout(c));
	json_object_set_new(v, "members", coord_members_to_json(c));
	if (c->data.leased)
		json_object_set_new(v, "leased_from",
		    json_integer((json_int_t)c->data.leased_from));
	json_object_set_new(v, "members_base", json_integer(c->membership.base));
	json_object_set_new(v, "examples", json_integer((json_int_t)c->data.examples));
	json_object_set_new(v, "decided", json_integer((json_int_t)c->votes.decided));
	if (c->stopping.ended[0])
		json_object_set_new(v, "ending", json_true());
	if (c->stopping.state.seen_step >= 0)
		json_object_set_new(v, "evaluated", json_integer(c->stopping.state.seen_step));
	if (coord_best_awaited(c))
		json_object_set_new(v, "evaluator_waits_at",
		    json_integer((json_int_t)coord_best_awaited(c)));
	json_object_set_new(v, "evaluator", json_integer(c->evaluation.rank));
	return v;
}

/* ---- for people: GET /v1/... ---- */

uint64_t coord_worker_step(const struct coord_member_worker *w)
{
	int64_t step = w->figures.step;

	/* Ignore a value that cannot be a step. */
	return step > 0 && (uint64_t)step < STEPS_END && (uint64_t)step > w->from ? (uint64_t)step
	                                                                          : w->from;
}

/* Does the worker count for the job's step? A worker that joined when no work was left does not. */
static bool worker_counts_for_step(const struct coord_member_worker *w, enum worker_state state)
{
	if (state == WORKER_ACTIVE)
		return w->state == WORKER_ACTIVE;
	if (state == WORKER_DONE)
		return w->state == WORKER_DONE && coord_worker_step(w) > 0;
	return w->state != WORKER_EMPTY && w->state != WORKER_LOST && coord_worker_step(w) > 0;
}

/* The least step of the active workers. Without any, the step of those that are done: the least, or
 * in lockstep the greatest, because a worker may have ended before the others. Without these, the
 * least of all that ever trained. */
uint64_t coord_step(const struct coord *c)
{
	static const enum worker_state pass[] = { WORKER_ACTIVE, WORKER_DONE, WORKER_EMPTY };

	for (size_t k = 0; k < sizeof pass / sizeof *pass; k++) {
		uint64_t least = UINT64_MAX, greatest = 0;

		for (unsigned i = 0; i < c->nworkers; i++) {
			uint64_t step = coord_worker_step(&c->worker[i]);

			if (!worker_counts_for_step(&c->worker[i], pass[k]))
				continue;
			least = step < least ? step : least;
			greatest = step > greatest ? step : greatest;
		}
		if (least != UINT64_MAX)
			return pass[k] == WORKER_DONE && coord_is_lockstep(c) ? greatest : least;
	}
	return 0;
}

uint64_t coord_shown_step(const struct coord *c)
{
	return c->stopping.saved_step ? c->stopping.saved_step : coord_step(c);
}

/* The workers' figures added up; losses: the mean over their examples, NAN without any. */
struct worker_sums {
	double examples, examples_per_second, train_loss, progressive_loss;
	double pushed_bytes, pulled_bytes, ring_bytes;
	double data_bytes; /* of an epoch of data in blocks, as any worker reports it */
};

static struct worker_sums sum_workers(const struct coord *c)
{
	struct worker_sums sum = { 0 };
	double weight = 0, progressive = 0;

	for (unsigned i = 0; i < c->nworkers; i++) {
		const struct heartbeat_worker *f = &c->worker[i].figures;

		sum.examples += (double)f->examples;
		if (f->data_bytes)
			sum.data_bytes = (double)f->data_bytes;
		sum.examples_per_second += f->examples_per_second;
		sum.pushed_bytes += (double)f->pushed_bytes;
		sum.pulled_bytes += (double)f->pulled_bytes;
		sum.ring_bytes += (double)f->ring_bytes;
		sum.train_loss += f->train_loss * (double)f->loss_examples;
		weight += (double)f->loss_examples;
		/* A worker without examples has no such loss. */
		if (f->progressive_examples)
			sum.progressive_loss += f->progressive_loss *
			    (double)f->progressive_examples;
		progressive += (double)f->progressive_examples;
	}
	sum.progressive_loss = progressive > 0 ? sum.progressive_loss / progressive : (double)NAN;
	sum.train_loss = weight > 0 ? sum.train_loss / weight : (double)NAN;
	return sum;
}

/* How many steps the job has, as its workers report: the active ones, or else all. Workers that
 * have not reported it yet, and ranks that no worker has taken, do not count. 0: not known. */
static int64_t count_all_steps(const struct coord *c)
{
	for (int pass = 0; pass < 2; pass++) {
		int64_t most = 0;

		for (unsigned i = 0; i < c->nworkers; i++) {
			const struct coord_member_worker *w = &c->worker[i];

			if ((w->state == WORKER_ACTIVE || pass) && w->figures.steps_total > most)
				most = w->figures.steps_total;
		}
		if (most)
			return most;
	}
	return 0;
}

static unsigned count_workers(const struct coord *c, enum worker_state s)
{
	unsigned n = 0;

	for (unsigned i = 0; i < c->nworkers; i++)
		n += c->worker[i].state == s;
	return n;
}

bool coord_worker_does(const struct coord_member_worker *w, const char *what)
{
	return w->state == WORKER_ACTIVE && strcmp(w->figures.doing, what) == 0;
}

static bool worker_rests(const struct coord *c, const struct coord_member_worker *w)
{
	return w->state == WORKER_ACTIVE && w->figures.paused == c->pause.number;
}

/* Could a push that the worker has made still change the parameters, although no worker makes
 * another one? A push without a receipt could, except where its step stays open because too few
 * workers have made theirs. */
static bool worker_may_change_model(const struct coord *c, const struct coord_member_worker *w)
{
	int64_t open = w->figures.unacknowledged;
	struct sync_mode mode;
	size_t active = 0, unfinished = 0;

	if (open < 0)
		return false;
	mode = coord_mode_at(c, (uint64_t)open);
	for (unsigned i = 0; i < c->nworkers; i++) {
		if (c->worker[i].state != WORKER_ACTIVE)
			continue;
		active++;
		unfinished += coord_worker_step(&c->worker[i]) <= (uint64_t)open;
	}
	return !sync_sums_steps(&mode) || unfinished <= sync_spare(&mode, active);
}

/* Workers that rest before a step, and those that wait for a worker that rests; without those whose
 * pushes could still change the parameters. */
static unsigned count_resting(const struct coord *c)
{
	uint64_t least = UINT64_MAX;
	unsigned n = 0;

	for (unsigned i = 0; coord_is_paused(c) && i < c->nworkers; i++)
		if (worker_rests(c, &c->worker[i]) && coord_worker_step(&c->worker[i]) < least)
			least = coord_worker_step(&c->worker[i]);
	for (unsigned i = 0; coord_is_paused(c) && i < c->nworkers; i++)
		n += !worker_may_change_model(c, &c->worker[i]) &&
		    (worker_rests(c, &c->worker[i]) ||
		        (coord_worker_does(&c->worker[i], "wait") &&
		            least < coord_needed_step(c, coord_worker_step(&c->worker[i]))));
	return n;
}

bool coord_is_at_rest(const struct coord *c, uint64_t *step)
{
	uint64_t least = UINT64_MAX;
	struct sync_mode mode;
	unsigned active = 0;

	if (c->phase == PHASE_DONE) {
		/* A worker may have ended at an earlier step, and the others have gone on without
		 * it. */
		*step = coord_newest_step(c);
		return true;
	}
	for (unsigned i = 0; i < c->nworkers; i++) {
		if (c->worker[i].state != WORKER_ACTIVE)
			continue;
		active++;
		if (coord_worker_step(&c->worker[i]) < least)
			least = coord_worker_step(&c->worker[i]);
	}
	if (!active || count_resting(c) < active)
		return false;
	mode = coord_mode_at(c, least);
	*step = sync_is_lockstep(&mode) ? least : coord_newest_step(c);
	return true;
}

/* All members have joined, and some servers have not loaded their partitions yet: name them. */
static void report_placing_servers(const struct coord *c, json_t *status)
{
	char text[300] = "";
	size_t at = 0;

	for (unsigned i = 0;
	     c->phase == PHASE_FORMING && c->placed && i < c->nservers && at + 80 < sizeof text;
	     i++)
		if (c->server[i].live && c->server[i].acked < c->rev)
			at += (size_t)snprintf(text + at, sizeof text - at, "%sserver-%u",
			    at ? ", " : "", i);
	if (at) {
		snprintf(text + at, sizeof text - at,
		    " to take over the partitions that %s to hold",
		    strchr(text, ',') ? "they are" : "it is");
		json_object_set_new(status, "waiting_for", json_string(text));
	}
}

/* Adds how far training on data in blocks is. bytes: of an epoch. */
static void report_data_in_blocks(const struct coord *c, double bytes, json_t *status)
{
	uint64_t examples = leases_epoch_examples(c->data.leases);

	json_object_set_new(status, "data_bytes", json_integer((json_int_t)bytes));
	json_object_set_new(status, "data_done_bytes",
	    json_integer((json_int_t)(bytes * leases_epochs_done(c->data.leases))));
	json_object_set_new(status, "data_epochs",
	    c->cfg.epochs ? json_integer((json_int_t)c->cfg.epochs) : json_null());
	json_object_set_new(status, "epoch_examples",
	    examples ? json_integer((json_int_t)examples) : json_null());
}

/* Adds the layout and the numbers of servers, partitions and workers. */
static void report_members(const struct coord *c, json_t *status)
{
	uint64_t moving, all;

	place_progress(&c->layout, &moving, &all);
	json_object_set_new(status, "layout_epoch", json_integer(c->layout.epoch));
	json_object_set_new(status, "generation", json_integer(c->layout.generation));
	json_object_set_new(status, "servers", json_integer(coord_live_servers(c)));
	json_object_set_new(status, "servers_wanted", json_integer(coord_scale_wanted_servers(c)));
	json_object_set_new(status, "called", coord_scale_called(c));
	json_object_set_new(status, "released", coord_scale_released(c));
	json_object_set_new(status, "scaling", json_boolean(coord_scale_in_progress(c)));
	json_object_set_new(status, "data_lost", json_boolean(c->data_lost));
	json_object_set_new(status, "replicas", json_integer(c->cfg.replicas));
	json_object_set_new(status, "replicas_present",
	    json_integer(layout_least_replicas(&c->layout)));
	json_object_set_new(status, "partitions", json_integer((json_int_t)all));
	json_object_set_new(status, "partitions_moving", json_integer((json_int_t)moving));
	json_object_set_new(status, "workers", json_integer(count_workers(c, WORKER_ACTIVE)));
	json_object_set_new(status, "workers_done", json_integer(count_workers(c, WORKER_DONE)));
	json_object_set_new(status, "workers_wanted",
	    json_integer(c->cfg.has_job ? c->cfg.workers : 0));
}

/* Adds how far the training is. sum: of all workers. */
static void report_progress(const struct coord *c, const struct worker_sums *sum, json_t *status)
{
	json_object_set_new(status, "step", json_integer((json_int_t)coord_shown_step(c)));
	json_object_set_new(status, "steps_total", json_integer(count_all_steps(c)));
	json_object_set_new(status, "examples", json_integer((json_int_t)sum->examples));
	if (c->data.leases && sum->data_bytes > 0)
		report_data_in_blocks(c, sum->data_bytes, status);
	json_object_set_new(status, "train_loss", json_of_num(sum->train_loss));
	json_object_set_new(status, "first_loss", json_of_num(coord_learning_first_loss(c)));
	json_object_set_new(status, "progressive_loss", json_of_num(sum->progressive_loss));
	json_object_set_new(status, "examples_per_second", json_of_num(sum->examples_per_second));
}

json_t *coord_status(const struct coord *c, int64_t now)
{
	const struct coord_report *last = c->evaluation.result.json ? &c->evaluation.result
	                                                            : &c->evaluation.last;
	const struct worker_sums sum = sum_workers(c);
	int64_t end = c->times.ended ? c->times.ended : now;
	json_t *s = json_event("cluster");
	char sync[32];

	json_object_set_new(s, "rev", json_integer((json_int_t)c->rev));
	json_object_set_new(s, "version", json_string(PSKIT_VERSION));
	json_object_set_new(s, "protocol", json_integer(PSKIT_PROTOCOL));
	json_object_set_new(s, "name", json_string(c->cfg.name));
	json_object_set_new(s, "state", json_string(coord_phase_name(c->phase)));
	json_object_set_new(s, "reason", json_string(c->end.text));
	json_object_set_new(s, "cause", json_string(err_cause_name(c->end.cause)));
	json_object_set_new(s, "waiting_for", json_string(c->waiting));
	json_object_set_new(s, "job", json_of_text(c->data.job));
	report_placing_servers(c, s);
	json_object_set_new(s, "tables", json_integer((json_int_t)coord_count_tables(c)));
	sync_format(&c->conf->sync, sync);
	json_object_set_new(s, "sync", json_string(sync));
	json_object_set_new(s, "model", json_string(c->conf->job.model ? c->conf->job.model : ""));
	report_members(c, s);
	report_progress(c, &sum, s);
	json_object_set_new(s, "settings", json_integer(c->settings.newest));
	json_object_set_new(s, "settings_step",
	    c->settings.applied_step >= 0 ? json_integer(c->settings.applied_step) : json_null());
	json_object_set_new(s, "paused", json_boolean(coord_is_paused(c)));
	json_object_set_new(s, "resting", json_integer(count_resting(c)));
	json_object_set_new(s, "pushed_bytes", json_integer((json_int_t)sum.pushed_bytes));
	json_object_set_new(s, "pulled_bytes", json_integer((json_int_t)sum.pulled_bytes));
	json_object_set_new(s, "ring_bytes", json_integer((json_int_t)sum.ring_bytes));
	json_object_set_new(s, "seconds",
	    json_of_num(
	        c->times.running ? (double)(end - c->times.running) / (double)NSEC_PER_SEC : 0));
	if (last->eval) {
		json_object_set(s, "eval", (json_t *)(uintptr_t)last->eval);
		json_object_set_new(s, "eval_step", json_integer(last->step));
	}
	coord_early_stop_report(c, s);
	coord_learning_report(c, s);
	return s;
}

void coord_row_add_figures(json_t *row, const json_t *stats, const json_t *about,
    double seen_seconds)
{
	double ours = (double)clock_wall() / (double)NSEC_PER_SEC;
	struct heartbeat_about theirs = { 0 };

	heartbeat_about_decode(about, &theirs);
	json_object_set_new(row, "seen_seconds", json_of_num(seen_seconds));
	/* The coordinator's own fields have precedence. */
	json_object_update_missing(row, (json_t *)(uintptr_t)stats);
	json_object_update_missing(row, (json_t *)(uintptr_t)about);
	if (theirs.clock_seconds > 0)
		json_object_set_new(row, "clock_skew_seconds",
		    json_of_num(theirs.clock_seconds + seen_seconds - ours));
}

json_t *coord_servers(const struct coord *c, int64_t now)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < c->nservers; i++) {
		const struct coord_member_server *s = &c->server[i];
		char id[24];
		json_t *o = json_event("server");

		snprintf(id, sizeof id, "server-%u", i);
		json_object_set_new(o, "id", json_string(id));
		json_object_set_new(o, "state",
		    json_string(s->live ? "live"
		            : s->ever   ? "lost"
		                        : "absent"));
		json_object_set_new(o, "pid", json_integer(s->pid));
		json_object_set_new(o, "host", json_string(s->host));
		json_object_set_new(o, "step", json_integer((json_int_t)s->figures.step));
		json_object_set_new(o, "zone", json_string(s->zone));
		json_object_set_new(o, "listen", json_string(s->tcp));
		coord_row_add_figures(o, s->stats, s->about,
		    s->ever ? (double)(now - s->seen) / (double)NSEC_PER_SEC : 0);
		json_array_append_new(list, o);
	}
	return list;
}

json_t *coord_workers(const struct coord *c, int64_t now)
{
	json_t *list = json_array();

	for (unsigned i = 0; c->cfg.has_job && i < c->nworkers; i++) {
		const struct coord_member_worker *w = &c->worker[i];
		char id[24];
		json_t *o = json_event("worker");

		snprintf(id, sizeof id, "worker-%u", i);
		json_object_set_new(o, "id", json_string(id));
		json_object_set_new(o, "state",
		    json_string(w->lost_at ? "lost" : coord_worker_state_name(w->state)));
		json_object_set_new(o, "quota_seconds", json_real(w->quota_seconds));
		json_object_set_new(o, "pid", json_integer(w->pid));
		json_object_set_new(o, "host", json_string(w->host));
		json_object_set_new(o, "step", json_integer((json_int_t)w->figures.step));
		json_object_set_new(o, "listen", json_string("-"));
		coord_row_add_figures(o, w->stats, w->about,
		    w->incarnation ? (double)(now - w->seen) / (double)NSEC_PER_SEC : 0);
		json_array_append_new(list, o);
	}
	return list;
}

bool coord_worker_times(const struct coord *c, unsigned rank, struct coord_worker_times *out)
{
	const struct coord_member_worker *w;
	const struct heartbeat_worker *f;

	if (!c->cfg.has_job || rank >= c->nworkers)
		return false;
	w = &c->worker[rank];
	f = &w->figures;
	*out = (struct coord_worker_times){ .active = !w->lost_at && w->state == WORKER_ACTIVE,
		.examples = (double)f->examples,
		.alone = f->data_seconds + f->compute_seconds + f->encode_seconds,
		.wire = f->push_seconds + f->pull_seconds,
		.wait = f->wait_seconds };
	return true;
}

/* Add the servers' figures of a sparse table to its row. */
static void add_table_stats(const struct coord *c, const struct table *t, json_t *row)
{
	json_t *sums = json_object();
	const char *key;
	int64_t live_rows = 0;

	for (unsigned i = 0; i < c->nservers; i++) {
		json_t *o, *n;
		size_t k;

		json_array_foreach(c->server[i].figures.tables, k, o) {
			struct heartbeat_table theirs = { 0 };

			heartbeat_table_decode(o, &theirs);
			if (!c->server[i].live || theirs.id != t->id)
				continue;
			live_rows += theirs.rows;
			json_object_foreach(o, key, n)
				if (message_is_count(n))
					json_object_set_new(sums, key,
					    json_integer(
					        json_int(sums, key, 0) + json_integer_value(n)));
		}
	}
	json_object_set_new(row, "live_rows", json_integer(live_rows));
	json_object_del(sums, "rows");
	json_object_del(sums, "id");
	json_object_update(row, sums);
	json_decref(sums);
}

json_t *coord_tables(const struct coord *c)
{
	json_t *list = json_array();
	struct conf_rule rule;
	bool known = c->conf && conf_trains(c->conf) && !conf_job_rule(c->conf, &rule, NULL);

	for (size_t i = 0; i < c->layout.ntables; i++) {
		const struct table *t = &c->layout.table[i];
		char policy[POLICY_TEXT];
		json_t *o;

		if (t->dropped)
			continue;
		o = json_event("table");
		json_object_set_new(o, "id", json_string(t->name));
		json_object_set_new(o, "type", json_string(t->sparse ? "sparse" : "dense"));
		json_object_set_new(o, "rows", json_integer((json_int_t)t->rows));
		json_object_set_new(o, "cols", json_integer(t->cols));
		json_object_set_new(o, "partitions", json_integer(t->nparts));
		json_object_set_new(o, "added", json_boolean(t->added));
		row_policy_text(&t->policy, policy);
		json_object_set_new(o, "policy", t->sparse ? json_string(policy) : json_null());
		json_object_set_new(o, "optimizer",
		    known ? json_string(conf_rule_of_table(&rule, t->name).rule->name)
		          : json_null());
		json_object_set_new(o, "live_rows", json_integer((json_int_t)t->rows));
		json_object_set_new(o, "bytes",
		    json_integer((json_int_t)(t->sparse ? 0 : table_elements(t) * sizeof(float))));
		if (t->sparse)
			add_table_stats(c, t, o);
		json_array_append_new(list, o);
	}
	return list;
}

json_t *coord_layout(const struct coord *c)
{
	json_t *o = json_event("layout"), *l = layout_to_json(&c->layout);

	json_object_update(o, l);
	json_decref(l);
	return o;
}

json_t *coord_tasks(const struct coord *c)
{
	uint64_t done = 0, leased = 0, all = 0;
	json_t *o = json_event("tasks");

	if (c->data.leases)
		leases_count(c->data.leases, &done, &leased, &all);
	json_object_set_new(o, "done", json_integer((json_int_t)done));
	json_object_set_new(o, "leased", json_integer((json_int_t)leased));
	json_object_set_new(o, "total",
	    all && all != UINT64_MAX ? json_integer((json_int_t)all) : json_null());
	return o;
}

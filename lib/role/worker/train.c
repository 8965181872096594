/* SPDX-License-Identifier: ISC */
#include "worker/train.h"

#include <math.h>
#include <sodium.h>
#include <unistd.h>

#include "conf/conf_rule.h"
#include "ckpt/kept.h"
#include "core/clock.h"
#include "core/json.h"
#include "core/mem.h"
#include "msg/answer.h"
#include "rundir/rundir.h"
#include "wire/emulated_link.h"
#include "session/description_exchange.h"
#include "worker/data_facts.h"
#include "worker/evaluate.h"
#include "worker/job_line.h"
#include "worker/residual_file.h"
#include "worker/worker_settings.h"

#define REST_LOOK (100 * NSEC_PER_MSEC)
/* How long a worker waits for its first session, unless it was told. */
#define FIRST_WAIT (60 * NSEC_PER_SEC)
/* How often a worker asks again for a rank that a silent worker holds. */
#define JOIN_AGAIN (100 * NSEC_PER_MSEC)

/* ---- views ---- */

static bool must_leave(const struct worker *w)
{
	return w->sent_away || interrupt_came(&w->cfg->interrupt);
}

/* The error with which a worker ends that must leave. */
static enum err_code set_leave_error(const struct worker *w, struct err *e)
{
	return err_set(e, ERR_STOPPED, "%s",
	    w->sent_away ? "leaving: the number of workers was reduced" : "interrupted");
}

/* Reports the loss of the rank in the same words whether the coordinator or a server noticed it
 * first. */
static enum err_code fail_rank_lost(const struct worker *w, struct err *e)
{
	return err_set(e, ERR_FENCED, "worker-%u was declared lost and its rank given up%s",
	    w->rank, w->cfg->kind->advise_restart(w));
}

enum err_code worker_refresh(struct worker *w, struct err *e)
{
	const struct view_worker *row;
	const struct view *view;

	if (w->view && !cluster_view_changed(w->cluster))
		return ERR_OK;
	view = cluster_view_current(w->cluster);
	if (view && (!w->view || view->rev != w->view->rev)) {
		view_release(w->view);
		w->view = view;
		if (w->batches)
			batches_take_view(w->batches, view);
		if (w->client && client_apply_view(w->client, view, e))
			return e->code;
		w->exchange->take_view(w, view);
	} else {
		view_release(view);
	}
	if (cluster_view_is_lost(w->cluster, e))
		return e->code;
	if (cluster_view_is_over(w->view, e))
		return e->code;
	row = w->view->worker;
	w->sent_away = row && row->go;
	if (w->batches && (!row || row->incarnation != w->incarnation || row->state == WORKER_LOST))
		return fail_rank_lost(w, e);
	return ERR_OK;
}

/* Tells the coordinator the newest layout whose servers all get this worker's CLOCKs. Servers that
 * join take their places once all workers have confirmed. */
static void confirm_layout(struct worker *w)
{
	if (w->client)
		cluster_view_confirm_layout(w->cluster, client_confirmed_epoch(w->client));
}

/* client_config.attend. A failover reaches a waiting worker here: worker_refresh installs the new
 * view in the client. */
bool worker_attend(void *ctx, struct err *why)
{
	struct worker *w = ctx;

	if (worker_refresh(w, why))
		return true;
	confirm_layout(w);
	if (must_leave(w) && !w->leaving) {
		set_leave_error(w, why);
		return true;
	}
	w->exchange->answer_peers(w);
	return false;
}

/* The client's wait log asks which workers delay a step. */
static void append_workers_behind(void *ctx, uint64_t step, struct buf *out)
{
	if (step != CLIENT_NOW)
		cluster_view_stragglers(((struct worker *)ctx)->cluster, step, out);
}

/* The client could not reach a relay. */
static void tell_missed_relay(void *ctx, unsigned relay, uint32_t epoch, const char *why)
{
	cluster_view_report_relay(((struct worker *)ctx)->cluster, relay, epoch, why);
}

/* ---- joining ---- */

/* Sends the large description again, which a coordinator that was started again does not have. */
static enum err_code describe_again(struct worker *w, const json_t *facts, struct err *e)
{
	json_t *described;
	enum err_code rc = description_send(cluster_view_agent(w->cluster), facts, WORKER_TIMEOUT,
	    &described, e);

	json_decref(described);
	return rc;
}

/* Sends the request to join until it is answered with a rank, or refused. While no rank is free,
 * but silent workers hold some, asks again: their leases end soon. facts: the description of the
 * data. */
static enum err_code await_rank(struct worker *w, const json_t *msg, const json_t *facts,
    struct answer_worker_join *joined, struct err *e)
{
	enum err_code rc = ERR_OK;
	bool held = true, undescribed, logged = false;

	while (!rc && held) {
		json_t *answer;

		rc = agent_call(cluster_view_agent(w->cluster), msg, WORKER_TIMEOUT, &answer, e);
		if (rc)
			return rc;
		rc = answer_decode_worker_join(answer, joined, e);
		undescribed = !rc && joined->undescribed != NULL;
		held = !rc && (joined->held || undescribed);
		if (held && !undescribed && !logged)
			log_info(w->cfg->log, "waiting for a rank: %s; retrying",
			    joined->held->text);
		logged = true;
		answer_release_worker_join(joined);
		json_decref(answer);
		if (undescribed)
			rc = describe_again(w, facts, e);
		else if (held && interrupt_await(&w->cfg->interrupt, JOIN_AGAIN))
			rc = set_leave_error(w, e);
	}
	return rc;
}

/* Asks the coordinator for a rank and describes this worker and its data. The request is kept: a
 * coordinator that was started again gets it once more, with the rank. */
static enum err_code send_worker_join(struct worker *w, struct err *e)
{
	char host[64] = "";
	const struct range_source *source = w->job.source;
	json_t *msg, *tables, *facts, *described, *ring;
	char *line = job_line(&w->job);
	struct answer_worker_join joined;
	enum err_code rc;

	if (w->cfg->hold)
		pthread_sigmask(SIG_BLOCK, w->cfg->hold, NULL);
	agent_set_interrupt(cluster_view_agent(w->cluster), &w->cfg->interrupt);
	gethostname(host, sizeof host - 1);
	tables = job_tables(&w->job);
	facts = data_facts(w->job.train);
	rc = description_send(cluster_view_agent(w->cluster), facts, WORKER_TIMEOUT, &described, e);
	if (rc) {
		json_decref(tables);
		json_decref(facts);
		free(line);
		return rc;
	}
	ring = w->exchange->address(w);
	msg = MESSAGE(worker_join,
	    .evaluates = w->cfg->kind->can_score(w) || w->cfg->kind->scores_later,
	    .rank = w->cfg->rank, .pid = getpid(), .host = host, .zone = w->cfg->zone,
	    .stream = w->job.stream != NULL, .examples = (int64_t)source->units,
	    .lease = (int64_t)source->per_range, .tables = tables, .facts = described, .ring = ring,
	    .settings = w->cfg->settings, .waits = true, .returns = w->cfg->returns, .job = line,
	    .first = w->cfg->first && strcmp(w->job.conf.job.init, w->cfg->first) == 0);
	json_decref(tables);
	json_decref(described);
	json_decref(ring);
	free(line);
	rc = await_rank(w, msg, facts, &joined, e);
	json_decref(facts);
	if (!rc) {
		w->rank = (uint32_t)joined.rank;
		/* A coordinator that is started again must give it the same rank. */
		message_set_int(msg, "rank", w->rank);
		message_remove(msg, "waits");
		agent_set_join(cluster_view_agent(w->cluster), msg);
		log_info(w->cfg->log, "joined as worker-%u", w->rank);
	}
	json_decref(msg);
	return rc;
}

/* Does the view show this incarnation in its rank? */
static bool holds_rank(const struct worker *w, const struct view *view)
{
	return view->worker && view->worker->incarnation == w->incarnation;
}

/* True when the job is running and this worker's rank is active; also when the job is over or the
 * rank was lost meanwhile, which the caller reports. A view from before the join says nothing about
 * it. */
static bool may_start(void *ctx, const struct view *view)
{
	struct worker *w = ctx;
	struct err ignored;

	if (!view)
		return false;
	if (cluster_view_is_over(view, &ignored))
		return true;
	if (!holds_rank(w, view))
		return w->admitted;
	w->admitted = true;
	return !view_phase_is(view, PHASE_FORMING) && view->worker->state != WORKER_JOINING;
}

/* A push for a closed step is ignored. So where steps are closed, a worker without data keeps
 * step with the others: a range that comes back must be trained on in the step that is open. */
static bool may_rest(void *ctx)
{
	return !sync_sums_steps(&((struct worker *)ctx)->job.conf.sync);
}

/* This worker has no data left, unless another worker dies and its data is assigned again. Sends
 * DONE, so that nobody waits for this worker, also to servers that join meanwhile. A range of
 * examples that comes back later is pushed outside the step windows. While the ranges of the rank's
 * earlier process are being settled, the worker soon has examples: then the others go on waiting
 * for it. */
static enum err_code announce_idle(void *ctx, bool settling, struct err *e)
{
	struct worker *w = ctx;
	enum err_code rc = worker_refresh(w, e);

	if (!rc && must_leave(w))
		rc = set_leave_error(w, e);
	if (!rc && !settling && !w->idle)
		rc = client_done(w->client, e);
	w->idle |= !settling;
	if (!rc) {
		client_poke(w->client);
		confirm_layout(w);
	}
	return rc;
}

static enum err_code await_receipts(void *ctx, struct err *e)
{
	return client_wait_receipts(((struct worker *)ctx)->client, e);
}

/* In the modes in which workers wait for one another, a worker without examples makes its steps at
 * once while others train. */
static bool is_awaited(void *ctx)
{
	const struct worker *w = ctx;

	return w->others_train && sync_needed_step(&w->job.conf.sync, w->step) > 0;
}

static bool is_coordinator_up(void *ctx)
{
	return agent_is_up(cluster_view_agent(((struct worker *)ctx)->cluster));
}

static bool job_is_paused(void *ctx)
{
	return ((struct worker *)ctx)->view->paused > 0;
}

/* Opens the emulated link of the setting net, if there is one, and chooses the transport of the
 * worker's connections to servers and relays. */
static enum err_code open_network(struct worker *w, const struct transport **out, struct err *e)
{
	const struct conf *c = &w->job.conf;
	struct emulated_link_spec spec;
	int64_t last[EMULATED_KINDS];
	enum err_code rc = emulated_link_parse(c->net,
	    (struct emulated_link_end){ EMULATED_WORKER, w->rank }, &spec, last, e);

	*out = transport_find(c->transport);
	if (rc || !spec.emulated)
		return rc;
	rc = emulated_link_open(&spec, rng_mix((uint64_t)c->job.seed + w->rank), &w->net, e);
	if (!rc)
		*out = emulated_link_transport(w->net);
	return rc;
}

/* Waits for the job's first step, then makes what depends on the job as it runs: the client, the
 * parameters, the batches. Restores residuals of a checkpoint. */
static enum err_code start_training(struct worker *w, struct err *e)
{
	struct client_config cc = { .id = w->cfg->id,
		.rank = w->rank,
		.incarnation = w->incarnation,
		.deadline = w->job.conf.deadline,
		.spin = w->job.conf.spin,
		.log = w->cfg->log,
		.ctx = w,
		.list_stragglers = append_workers_behind,
		.missed = tell_missed_relay,
		.coordinator_is_up = is_coordinator_up,
		.attend = worker_attend,
		.paused = job_is_paused,
		.attend_fd = w->cfg->interrupt.fd,
		.latency = &w->latency,
		.oldest_open = &w->oldest_open };
	const struct view *view;
	enum err_code rc = cluster_view_await(w->cluster, may_start, w, 0, &view, e);

	if (rc)
		return rc;
	view_release(view);
	rc = worker_refresh(w, e);
	if (!rc && (!holds_rank(w, w->view) || w->view->worker->state != WORKER_ACTIVE))
		rc = fail_rank_lost(w, e);
	if (!rc)
		rc = worker_settings_begin(w, e);
	if (!rc)
		rc = worker_settings_coding(&w->job.conf, &cc.coding, e);
	if (!rc)
		rc = open_network(w, &cc.transport, e);
	if (!rc)
		rc = client_new(&cc, &w->client, e);
	if (!rc)
		rc = client_apply_view(w->client, w->view, e);
	if (!rc)
		client_source_init(&w->source, w->client);
	if (!rc)
		rc = params_new(&w->job, w->client, &w->source.source, &w->params, e);
	if (!rc)
		rc = local_new(&w->job, &w->local, e);
	if (!rc)
		rc = w->exchange->begin(w, e);
	if (rc)
		return rc;
	w->batches = batches_new(&w->job, w->cluster, w->rank,
	    &(struct batches_hooks){ .ctx = w,
	        .log = w->cfg->log,
	        .may_rest = may_rest,
	        .idle = announce_idle,
	        .await_receipts = await_receipts,
	        .awaited = is_awaited });
	batches_take_view(w->batches, w->view);
	w->lookahead = lookahead_new(&w->job, &w->params, w->batches, w->cfg->log);
	w->step = (uint64_t)w->view->worker->from;
	w->recent.rate_at = clock_now();
	delay_init(&w->delay, w->job.conf.job.slow, &w->cfg->compute,
	    (uint64_t)w->job.conf.job.seed, w->rank);
	residual_file_load(w);
	return worker_settings_apply(w, e);
}

/* ---- a step ---- */

enum err_code worker_score(struct worker *w, bool dense_here, json_t **out, struct err *e)
{
	struct eval_result r = { 0 };
	enum err_code rc = w->cfg->kind->score(w, dense_here, &r, e);

	*out = NULL;
	if (!rc && r.remark[0])
		log_warn(w->cfg->log, "evaluation: %s", r.remark);
	data_unseen_log(w->job.unseen, "data: the evaluation data", w->cfg->log);
	if (!rc)
		*out = job_eval_json(&r);
	if (rc || !w->job.held_out)
		return rc;
	/* The dense tables are here now. */
	rc = evaluate(&w->params, w->job.held_out, true, false, NULL, &r, e);
	if (!rc)
		json_object_set_new(*out, "validate", job_eval_json(&r));
	return rc;
}

/* Sends an evaluation to the coordinator. */
static enum err_code report_eval(struct worker *w, const json_t *eval, struct err *e)
{
	json_t *answer;
	json_t *msg = MESSAGE(eval, .step = (int64_t)w->step, .eval = eval);
	enum err_code rc = agent_call(cluster_view_agent(w->cluster), msg, WORKER_TIMEOUT, &answer,
	    e);

	if (!rc)
		json_decref(answer);
	json_decref(msg);
	return rc;
}

/* Waits for the next view, at most REST_LOOK, and keeps the sessions with the servers alive. */
static enum err_code rest_a_moment(struct worker *w, struct err *e)
{
	enum err_code rc;

	client_poke(w->client);
	rc = must_leave(w) ? set_leave_error(w, e)
	                   : cluster_view_await_change(w->cluster, REST_LOOK, e);
	if (!rc)
		rc = worker_refresh(w, e);
	confirm_layout(w);
	return rc;
}

/* With job.stop, waits until the coordinator has compared the evaluation of this step and, if it is
 * the best one, has had a snapshot taken. In bsp no step closes without this worker, so the
 * snapshot is of the evaluated model. */
static enum err_code await_best_snapshot(struct worker *w, struct err *e)
{
	enum err_code rc = worker_refresh(w, e);

	while (!rc && conf_is_named(w->job.conf.job.stop) &&
	    (w->view->evaluated < (int64_t)w->step ||
	        w->view->evaluator_waits_at == (int64_t)w->step)) {
		rc = rest_a_moment(w, e);
	}
	return rc;
}

/* Is an evaluation due before this step? A job with job.stop and without job.eval_every is
 * evaluated after each epoch: when the batch of this step is the first one of the next epoch. */
static bool is_evaluation_due(struct worker *w)
{
	uint64_t every = (uint64_t)w->job.conf.job.eval_every, before = w->epochs_seen;
	double epochs = batches_epoch(w->batches);
	bool known = w->epoch_is_known;

	if (every)
		return w->step > 0 && w->step % every == 0;
	if (!conf_is_named(w->job.conf.job.stop) || !isfinite(epochs))
		return false;
	w->epoch_is_known = true;
	w->epochs_seen = (uint64_t)epochs;
	return known && w->epochs_seen > before;
}

enum err_code worker_evaluate_now(struct worker *w, struct err *e)
{
	json_t *eval = NULL;
	enum err_code rc;

	if (!is_evaluation_due(w) || !w->cfg->kind->can_score(w) ||
	    !batches_is_evaluator(w->batches, w->step))
		return ERR_OK;
	figures_doing(w, "evaluate");
	rc = worker_score(w, true, &eval, e);
	if (!rc)
		rc = report_eval(w, eval, e);
	json_decref(eval);
	if (!rc)
		rc = await_best_snapshot(w, e);
	/* Sparse evaluation has replaced this batch's rows: pull them again. */
	if (!rc && params_has_rows(&w->params, &w->batch))
		rc = params_pull(&w->params, &w->batch, w->step, false, e);
	return rc;
}

/* Waits until the pause of the job ends. Acknowledgements are still handled meanwhile, and servers
 * may come and go. */
static enum err_code wait_while_paused(struct worker *w, struct err *e)
{
	enum err_code rc = ERR_OK;
	int64_t number = 0;

	log_info(w->cfg->log, "paused before step %llu", (unsigned long long)w->step);
	while (!rc && job_is_paused(w)) {
		/* Another pause may have followed this one. */
		if (number != w->view->paused) {
			number = w->view->paused;
			figures_paused(w, number);
		}
		rc = rest_a_moment(w, e);
	}
	return rc;
}

enum err_code worker_fetch(struct worker *w, struct step_times *t, bool *over, struct err *e)
{
	enum err_code rc = worker_refresh(w, e);

	*t = (struct step_times){ 0 };
	if (!rc)
		rc = worker_check_refused(w, e);
	if (!rc && must_leave(w))
		rc = set_leave_error(w, e);
	if (!rc && job_is_paused(w))
		rc = wait_while_paused(w, e);
	if (rc)
		return rc;
	t->begin = clock_now();
	confirm_layout(w);
	/* Skip the steps that the servers have closed without this worker. */
	if (client_open_step(w->client) > w->step)
		w->step = client_open_step(w->client);
	rc = worker_settings_apply(w, e);
	return rc ? rc : w->exchange->fetch(w, t, over, e);
}

/* Computes into w->params.g what this worker will push, and its mean loss. That may be infinite or
 * NaN; nothing may be pushed then. */
static enum err_code step_compute(struct worker *w, double *loss, struct err *e)
{
	int64_t begin = clock_now();
	enum err_code rc;

	figures_doing(w, "compute");
	rc = w->cfg->kind->compute(w, loss, e);
	if (!rc)
		delay_take(&w->delay, begin, &w->cfg->interrupt);
	if (!rc && isfinite((float)*loss))
		params_mark_good(&w->params, w->step);
	return rc;
}

/* Pushes the gradient, and requests the next parameters early where the configuration says so. */
static enum err_code step_push(struct worker *w, struct err *e)
{
	enum err_code rc;

	figures_doing(w, "push");
	rc = w->exchange->reduce(w, e);
	if (rc)
		return rc;
	if (w->job.conf.prefetch)
		rc = params_request_ahead(&w->params, w->step + 1, true, e);
	if (!rc && w->job.conf.prefetch)
		rc = lookahead_prefetch(w->lookahead, w->step + 1, e);
	if (rc)
		return rc;
	return batches_repeats(w->batches)
	    ? params_push_lacking(&w->params, &w->batch, w->batches, w->step, e)
	    : params_push(&w->params, &w->batch, w->step, e);
}

/* Announces to all servers that this worker's step is over.
 *
 * In bsp a pull of step N+1 waits at the servers until N is complete. Requesting it right after
 * the CLOCK gives the same answer as requesting it later, but it does not wait until this thread
 * runs again, and the server is woken once and not twice. With backup workers the next step may be
 * another one. */
static enum err_code step_clock(struct worker *w, struct err *e)
{
	const struct conf *c = &w->job.conf;
	bool ahead = w->cfg->kind->asks_ahead && w->exchange->pulls_each_step &&
	    sync_sums_steps(&c->sync) && !c->backup && !c->prefetch && w->params.pulled;
	enum err_code rc = client_clock_begin(w->client, w->step, (uint32_t)w->batch.rows, e);

	if (!rc && ahead)
		rc = params_request_ahead(&w->params, w->step + 1, false, e);
	return rc ? rc : client_clock_end(w->client, w->step, e);
}

enum err_code worker_commit(struct worker *w, struct step_times *t, const double *loss,
    struct err *e)
{
	enum err_code rc = ERR_OK;

	/* A loss beyond float32 means a gradient beyond what servers accept. */
	if (w->batch.rows && loss && !isfinite((float)*loss))
		return worker_loss_failed(w, *loss, e);
	/* Values that are not finite may not show in the loss. */
	if (w->batch.rows && params_check_values(&w->params, &w->batch, e))
		return worker_values_failed(w, e);
	t->computed = clock_now();
	rc = batches_lease_ahead(w->batches, e);
	if (!rc && (w->batch.rows || w->exchange->takes_empty_steps))
		rc = step_push(w, e);
	if (!rc)
		rc = step_clock(w, e);
	if (!rc)
		batches_used(w->batches);
	t->pushed = clock_now();
	figures_record_step(w, loss, t);
	w->step++;
	return rc;
}

/* One whole step; the picture is in worker.h. */
static enum err_code take_step_once(struct worker *w, bool *over, struct err *e)
{
	struct step_times t;
	double loss = 0;
	enum err_code rc = lookahead_await(w->lookahead, w->step, e);

	if (!rc)
		rc = worker_fetch(w, &t, over, e);
	if (rc || *over)
		return rc;
	rc = worker_evaluate_now(w, e);
	if (!rc)
		rc = lookahead_request(w->lookahead, w->step, e);
	if (!rc && w->batch.rows)
		rc = step_compute(w, &loss, e);
	return rc ? rc : worker_commit(w, &t, &loss, e);
}

/* ---- a life ---- */

/* job_head_hooks.agree */
static enum err_code agree_on_facts(void *ctx, const json_t *offer, json_t **out, struct err *e)
{
	struct worker *w = ctx;

	return description_offer(cluster_view_agent(w->cluster), offer, WORKER_TIMEOUT, out, e);
}

static bool is_interrupted(void *ctx)
{
	return interrupt_came(&((struct worker *)ctx)->cfg->interrupt);
}

/* Loads the job with this worker's own data and settings, and starts what computes. */
static enum err_code load_job(struct worker *w, const struct view *view, struct err *e)
{
	const struct train_config *cfg = w->cfg;
	const struct job_head_hooks head = { w, agree_on_facts, is_interrupted };
	char *shared = cfg->id->run_dir ? rundir_path(cfg->id->run_dir, RUNDIR_PARSED) : NULL;
	struct job_source from = { .models = cfg->models,
		.data = cfg->data,
		.ndata = cfg->ndata,
		.cache = cfg->cache,
		.shared = shared,
		.tables = cfg->tables,
		.examples = cfg->examples,
		.trains = true,
		.head = &head,
		.log = cfg->log };
	json_t *settings = cfg->settings || cfg->first ? json_object() : NULL, *facts;
	bool given;
	/* A description of the data that the job's model was trained on so far; given: it began
	 * with this model. */
	enum err_code rc = description_ask(cluster_view_agent(w->cluster), WORKER_TIMEOUT, &given,
	    &facts, e);

	if (cfg->settings)
		json_object_update(settings, (json_t *)(uintptr_t)cfg->settings);
	if (cfg->first)
		json_object_set_new(settings, "job.init", json_string(cfg->first));
	from.settings = settings;
	from.base = given ? facts : NULL;
	from.before = given ? NULL : facts;
	cfg->kind->prepare(w, &from);
	if (!rc)
		rc = job_load(view->config, &from, &w->job, e);
	if (!rc && !facts && layout_json_generation(view->layout) > 1 && !w->job.train->numbered)
		log_warn(cfg->log,
		    "the checkpoint has no description of its data: it was worked out from job.data as it is now");
	free(shared);
	json_decref(facts);
	json_decref(settings);
	return rc ? rc : cfg->kind->start(w, e);
}

/* Loads the job, joins it and waits for its first step. */
static enum err_code enter_job(struct worker *w, struct err *e)
{
	const struct view *view = cluster_view_current(w->cluster);
	enum err_code rc = load_job(w, view, e);

	w->settings = view->settings_base;
	view_release(view);
	if (!rc) {
		figures_know_job(w);
		agent_set_pace(cluster_view_agent(w->cluster), conf_worker_heartbeat(&w->job.conf),
		    w->job.conf.deadline);
		if (allreduce_is_used(&w->job))
			w->exchange = &exchange_ring;
		rc = w->exchange->open(w, e);
	}
	if (!rc)
		rc = send_worker_join(w, e);
	return rc ? rc : start_training(w, e);
}

static bool is_job_done(const struct worker *w)
{
	const struct view *view = w->cluster ? cluster_view_current(w->cluster) : NULL;
	bool done = view && view_phase_is(view, PHASE_DONE);

	view_release(view);
	return done;
}

enum err_code worker_open(struct worker *w, const struct train_config *cfg, struct err *e)
{
	struct cluster_view_config cc = { .id = cfg->id,
		.role = ROLE_WORKER,
		.heartbeat = 200 * NSEC_PER_MSEC,
		.deadline = cfg->first_wait ? cfg->first_wait : FIRST_WAIT,
		.interrupt = &cfg->interrupt,
		.log = cfg->log,
		.stats = figures_json,
		.ctx = w };
	enum err_code rc;

	*w = (struct worker){ .cfg = cfg,
		.exchange = &exchange_servers,
		.began = clock_wall(),
		.fig.norm = -1 };
	mutex_init(&w->lock, LOCK_WORKER);
	randombytes_buf(&w->incarnation, sizeof w->incarnation);
	w->incarnation >>= 1;
	cc.incarnation = w->incarnation;
	rc = cluster_view_open(&cc, &w->cluster, e);
	if (!rc && is_job_done(w))
		rc = err_set(e, ERR_NOTREADY, "the job is done");
	if (rc)
		return rc;
	cluster_view_announce_join(w->cluster, cfg->rank);
	return enter_job(w, e);
}

bool train_has_given_up(const struct err *e)
{
	return e->code == ERR_UNREACH || e->code == ERR_CLOSED || e->code == ERR_TIMEOUT;
}

enum err_code worker_close(struct worker *w, enum err_code rc, struct err *e)
{
	if (rc == ERR_FENCED && w->batches)
		fail_rank_lost(w, e);
	if (rc == ERR_STOPPED) {
		if (w->cluster && must_leave(w))
			worker_leave(w);
		rc = ERR_OK;
	}
	if (rc && w->client)
		cluster_view_give_up(w->cluster, e, w->cfg->returns && train_has_given_up(e));
	else if (rc && w->cluster)
		cluster_view_report_unfit(w->cluster, w->cfg->rank, e);
	/* The client goes first: its queued pushes point into the memory of the others. */
	client_free(w->client);
	ckpt_kept_free(w->kept);
	emulated_link_close(w->net);
	w->exchange->close(w);
	local_free(w->local);
	lookahead_free(w->lookahead);
	params_release(&w->params);
	w->cfg->kind->release(w);
	batches_free(w->batches);
	cluster_view_close(w->cluster);
	job_release(&w->job);
	batch_release(&w->batch);
	view_release(w->view);
	mutex_destroy(&w->lock);
	return rc;
}

enum err_code train(const struct train_config *cfg, struct err *e)
{
	struct worker w;
	bool over = false;
	enum err_code rc = worker_open(&w, cfg, e);

	if (rc == ERR_NOTREADY && is_job_done(&w)) {
		/* It was started again at the end of the job, and is not needed any more. */
		log_info(cfg->log, "the job is done");
		return worker_close(&w, ERR_OK, e);
	}
	while (!rc && !over)
		rc = take_step_once(&w, &over, e);
	if (!rc)
		rc = worker_finish(&w, e);
	return worker_close(&w, rc, e);
}

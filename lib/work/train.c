#include "work/train.h"

#include <math.h>
#include <sodium.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "conf/live.h"
#include "data/data_facts.h"
#include "work/coding.h"
#include "work/kept.h"
#include "work/step.h"
#include "work/turn.h"

#define RING_PAUSE (20 * NSEC_PER_MSEC)
#define REST_LOOK (100 * NSEC_PER_MSEC)

/* ---- views ------------------------------------------------------------------------------- */

static bool interrupted(const struct worker *w)
{
	return w->sent_away || interrupt_came(&w->cfg->interrupt);
}

static const json_t *own_row(const struct worker *w)
{
	return json_object_get(w->view, "worker");
}

/* Whoever notices it first, the coordinator or a server, it is the same. */
static enum err_code slot_lost(const struct worker *w, struct err *e)
{
	return err_set(e, ERR_FENCED, "worker-%u was taken for dead and its slot given up: start ps-work train once more", w->slot);
}

enum err_code worker_refresh(struct worker *w, struct err *e)
{
	const json_t *row;
	json_t *view;

	if (w->view && !cluster_changed(w->cluster))
		return ERR_OK;
	view = cluster_view(w->cluster);
	if (view && (!w->view || json_int(view, "rev", 0) != json_int(w->view, "rev", 0))) {
		json_decref(w->view);
		w->view = view;
		if (w->feed)
			feed_view(w->feed, view);
		if (w->client && client_view(w->client, view, e))
			return e->code;
		if (w->ring)
			allreduce_view(w->ring, view);
	} else {
		json_decref(view);
	}
	if (cluster_lost(w->cluster, e))
		return e->code;
	if (view_over(w->view, e))
		return e->code;
	row = own_row(w);
	w->sent_away = json_flag(row, "go");
	if (w->feed && (json_u64s(row, "incarnation", 0) != w->incarnation || strcmp(json_str(row, "state", ""), "lost") == 0))
		return slot_lost(w, e);
	return ERR_OK;
}

/* The coordinator lets servers that join take their places when all workers'
 * CLOCKs go to them, too. */
static void confirm(struct worker *w)
{
	if (w->client)
		cluster_confirm(w->cluster, client_confirmed(w->client));
}

/* The client's waits ask this, so that none outlives the job or a signal. */
static bool cancelled(void *ctx, struct err *why)
{
	struct worker *w = ctx;

	if (worker_refresh(w, why))
		return true;
	confirm(w);
	if (interrupted(w) && !w->leaving) {
		err_set(why, ERR_STOPPED, "interrupted");
		return true;
	}
	if (w->ring)
		allreduce_tend(w->ring);
	return false;
}

static enum err_code pause_a_moment(void *ctx, struct err *e)
{
	struct worker *w = ctx;
	enum err_code rc = cluster_pause(w->cluster, RING_PAUSE, e);

	return rc ? rc : cancelled(w, e) ? e->code : ERR_OK;
}

static enum err_code open_ring(struct worker *w, struct err *e)
{
	const struct allreduce_config cfg = { .job = &w->job, .id = w->cfg->id, .incarnation = w->incarnation, .listen = w->cfg->listen, .iface = w->cfg->iface,
		.slot = w->cfg->slot, .log = w->cfg->log, .cancelled = cancelled, .pause = pause_a_moment, .ctx = w,
		.cancel_fd = w->cfg->interrupt.fd };

	return allreduce_wanted(&w->job) ? allreduce_new(&cfg, &w->ring, e) : ERR_OK;
}

static void who(void *ctx, uint64_t step, struct buf *out)
{
	if (step != CLIENT_NOW)
		cluster_who(((struct worker *)ctx)->cluster, step, out);
}

static void missed(void *ctx, unsigned relay, uint32_t epoch, const char *why)
{
	cluster_missed(((struct worker *)ctx)->cluster, relay, epoch, why);
}

/* ---- joining -------------------------------------------------------------------------------- */

static enum err_code join(struct worker *w, struct err *e)
{
	char host[64] = "";
	json_t *msg, *answer;
	enum err_code rc;

	if (w->cfg->hold)
		pthread_sigmask(SIG_BLOCK, w->cfg->hold, NULL);
	agent_set_interrupt(cluster_agent(w->cluster), &w->cfg->interrupt);
	gethostname(host, sizeof host - 1);
	msg = json_pack("{s:s, s:b, s:i, s:i, s:s, s:s, s:I, s:o}", "op", "worker_join", "evaluates", worker_evaluates(w) || w->cfg->by_caller, "slot", w->cfg->slot, "pid", (int)getpid(),
	    "host", host, "zone", w->cfg->zone ? w->cfg->zone : "", "examples", (json_int_t)w->job.train->rows, "tables", job_tables(&w->job));
	json_object_set_new(msg, "facts", data_facts(w->job.train));
	if (w->ring)
		json_object_set_new(msg, "ring", allreduce_address(w->ring));
	if (w->cfg->settings)
		json_object_set(msg, "settings", (json_t *)(uintptr_t)w->cfg->settings);
	if (w->cfg->first && strcmp(w->job.conf.job.init, w->cfg->first) == 0)
		json_object_set_new(msg, "first", json_true());
	rc = agent_call(cluster_agent(w->cluster), msg, WORKER_TIMEOUT, &answer, e);
	if (!rc) {
		w->slot = (uint32_t)json_int(answer, "slot", 0);
		agent_set_join(cluster_agent(w->cluster), msg);
		log_info(w->cfg->log, "joined as worker-%u", w->slot);
		json_decref(answer);
	}
	json_decref(msg);
	return rc;
}

static bool holds_slot(const struct worker *w, const json_t *view)
{
	const json_t *row = json_object_get(view, "worker");

	return json_u64s(row, "incarnation", 0) == w->incarnation;
}

/* Running, and our slot active; or the job over, or the slot lost while we
 * slept, which is told afterwards.  A view from before the join tells nothing. */
static bool may_begin(void *ctx, const json_t *view)
{
	struct worker *w = ctx;
	const json_t *row = json_object_get(view, "worker");
	struct err ignored;

	if (!view)
		return false;
	if (view_over(view, &ignored))
		return true;
	if (!holds_slot(w, view))
		return w->admitted;
	w->admitted = true;
	return strcmp(json_str(view, "phase", ""), "forming") != 0 && strcmp(json_str(row, "state", ""), "joining") != 0;
}

/* Nothing to do until somebody dies or all is done: say DONE, so that ssp waits
 * for us no longer.  A range that comes back later is pushed outside the waits. */
static enum err_code on_idle(void *ctx, struct err *e)
{
	struct worker *w = ctx;
	enum err_code rc = worker_refresh(w, e);

	if (!rc && interrupted(w))
		rc = err_set(e, ERR_STOPPED, "interrupted");
	if (!rc && !w->idle)
		rc = client_done(w->client, e);
	w->idle = true;
	return rc;
}

static bool informed(void *ctx)
{
	return agent_is_up(cluster_agent(((struct worker *)ctx)->cluster));
}

static bool paused(void *ctx)
{
	return json_int(((struct worker *)ctx)->view, "paused", 0) > 0;
}

/* What we would have had the job begin with may not be what it has begun with: that, and what was set since. */
static enum err_code forget_settings(struct worker *w, struct err *e)
{
	struct conf c;
	enum err_code rc = w->cfg->settings ? conf_from_json(json_object_get(w->view, "config"), &c, e) : ERR_OK;

	if (rc || !w->cfg->settings)
		return rc;
	rc = conf_take_live(&w->job.conf, &c, e);
	w->job.conf.job.epochs = c.job.epochs;
	w->job.conf.job.steps = c.job.steps;
	conf_release(&c);
	w->settings = json_int(w->view, "settings_base", 0);
	return rc;
}

static enum err_code begin(struct worker *w, struct err *e)
{
	struct client_config cc = { .id = w->cfg->id, .slot = w->slot, .incarnation = w->incarnation,
		.transport = w->job.conf.transport, .deadline = w->job.conf.deadline, .spin = w->job.conf.spin, .log = w->cfg->log,
		.ctx = w, .who = who, .missed = missed, .informed = informed, .cancelled = cancelled, .paused = paused, .cancel_fd = w->cfg->interrupt.fd,
		.latency = &w->latency };
	json_t *view;
	enum err_code rc = cluster_await(w->cluster, may_begin, w, 0, &view, e);

	if (rc)
		return rc;
	json_decref(view);
	rc = worker_refresh(w, e);
	if (!rc && (!holds_slot(w, w->view) || strcmp(json_str(own_row(w), "state", ""), "active") != 0))
		rc = slot_lost(w, e);
	if (!rc)
		rc = forget_settings(w, e);
	if (!rc)
		rc = coding_of(&w->job.conf, &cc.coding, e);
	if (!rc)
		rc = client_new(&cc, &w->client, e);
	if (!rc)
		rc = client_view(w->client, w->view, e);
	if (!rc)
		rc = params_new(&w->job, w->client, &w->params, e);
	if (!rc)
		rc = local_new(&w->job, &w->local, e);
	if (!rc && w->ring)
		rc = allreduce_begin(w->ring, w->slot, w->client, &w->params, e);
	if (rc)
		return rc;
	if (w->ring)
		allreduce_view(w->ring, w->view);
	w->feed = feed_new(&w->job, w->cluster, w->slot, on_idle, w);
	feed_view(w->feed, w->view);
	w->step = (uint64_t)json_int(own_row(w), "from", 0);
	w->rate_at = clock_now();
	rng_init(&w->chance, (uint64_t)w->job.conf.job.seed * 4096 + w->slot);
	kept_load(w);
	return turn_take(w, e);
}

/* ---- a step ---------------------------------------------------------------------------------- */

static enum err_code report_eval(struct worker *w, const struct eval_result *r, struct err *e)
{
	json_t *msg = json_pack("{s:s, s:I, s:o}", "op", "eval", "step", (json_int_t)w->step, "eval", job_eval_json(r));
	json_t *answer;
	enum err_code rc = agent_call(cluster_agent(w->cluster), msg, WORKER_TIMEOUT, &answer, e);

	if (!rc)
		json_decref(answer);
	json_decref(msg);
	return rc;
}

enum err_code worker_evaluate_now(struct worker *w, struct err *e)
{
	int64_t every = w->job.conf.job.eval_every;
	struct eval_result r;
	enum err_code rc;

	if (!every || !worker_evaluates(w) || w->step == 0 || w->step % (uint64_t)every || !feed_elected(w->feed, w->step))
		return ERR_OK;
	figures_doing(w, "evaluate");
	rc = worker_evaluate(w, true, &r, e);
	if (!rc)
		rc = report_eval(w, &r, e);
	/* Sparse evaluation has pulled other rows over ours. */
	if (!rc && params_has_rows(&w->params, &w->batch))
		rc = params_pull(&w->params, &w->batch, w->step, false, e);
	return rc;
}

/* The job is paused.  What is under way is answered meanwhile; servers may come and go. */
static enum err_code rest(struct worker *w, struct err *e)
{
	enum err_code rc = ERR_OK;
	int64_t number = 0;

	log_info(w->cfg->log, "paused before step %llu", (unsigned long long)w->step);
	while (!rc && paused(w)) {
		/* Another pause may have followed this one. */
		if (number != json_int(w->view, "paused", 0)) {
			number = json_int(w->view, "paused", 0);
			figures_rest(w, number);
		}
		client_poke(w->client);
		rc = interrupted(w) ? err_set(e, ERR_STOPPED, "interrupted") : cluster_pause(w->cluster, REST_LOOK, e);
		if (!rc)
			rc = worker_refresh(w, e);
		confirm(w);
	}
	return rc;
}

enum err_code worker_fetch(struct worker *w, struct step_times *t, bool *over, struct err *e)
{
	enum err_code rc = worker_refresh(w, e);

	*t = (struct step_times){ 0 };
	if (!rc && interrupted(w))
		rc = err_set(e, ERR_STOPPED, w->sent_away ? "asked to leave: there are to be fewer workers" : "interrupted");
	if (!rc && paused(w))
		rc = rest(w, e);
	if (rc)
		return rc;
	t->begin = clock_now();
	confirm(w);
	/* Steps that have been closed without us are gone. */
	if (client_open_step(w->client) > w->step)
		w->step = client_open_step(w->client);
	rc = turn_take(w, e);
	return rc ? rc : step_fetch(w, t, over, e);
}

enum err_code worker_commit(struct worker *w, struct step_times *t, double loss, struct err *e)
{
	enum err_code rc = ERR_OK;

	/* Beyond float32 the gradient is beyond what servers take. */
	if (w->batch.rows && !isfinite((float)loss) && loss != WORKER_NO_LOSS)
		return worker_loss_failed(w, loss, e);
	t->computed = clock_now();
	if (w->batch.rows || w->ring)
		rc = step_push(w, e);
	if (!rc)
		rc = step_clock(w, e);
	if (!rc)
		rc = feed_used(w->feed, e);
	t->pushed = clock_now();
	figures_note(w, loss, t);
	w->step++;
	return rc;
}

static enum err_code one_step(struct worker *w, bool *over, struct err *e)
{
	struct step_times t;
	double loss = 0;
	enum err_code rc = worker_fetch(w, &t, over, e);

	if (rc || *over)
		return rc;
	rc = worker_evaluate_now(w, e);
	if (!rc && w->batch.rows)
		rc = step_compute(w, &t, &loss, e);
	return rc ? rc : worker_commit(w, &t, loss, e);
}

/* ---- a life ----------------------------------------------------------------------------------- */

/* Who has the gradients: we, or the program that was named. */
static enum err_code begin_program(struct worker *w, struct err *e)
{
	bool custom = strcmp(w->job.conf.job.model, "custom") == 0;

	if (custom && !w->program && !w->cfg->by_caller)
		return err_set(e, ERR_CONFIG, "job.model: the gradients of model custom come from a program: ps-work train --exec COMMAND");
	if (!custom && w->program)
		return err_set(e, ERR_CONFIG, "--exec: is for job.model custom, and this job's is %s", w->job.conf.job.model);
	return w->program ? program_begin(w->program, &w->job, e) : ERR_OK;
}

static enum err_code load(struct worker *w, const json_t *config, struct err *e)
{
	const struct train_config *cfg = w->cfg;
	struct program_config pc = { .command = cfg->exec, .name = cfg->log->name, .data = cfg->data, .ndata = cfg->ndata, .log = cfg->log,
		.restarts = &w->program_restarts, .cancelled = cancelled, .ctx = w };
	struct job_source from = { .data = cfg->data, .ndata = cfg->ndata, .cache = cfg->cache, .tables = cfg->tables,
		.examples = cfg->examples, .log = cfg->log };
	json_t *settings = cfg->settings || cfg->first ? json_object() : NULL;
	enum err_code rc;

	if (cfg->settings)
		json_object_update(settings, (json_t *)(uintptr_t)cfg->settings);
	if (cfg->first)
		json_object_set_new(settings, "job.init", json_string(cfg->first));
	from.settings = settings;
	if (cfg->exec)
		w->program = program_new(&pc);
	if (w->program)
		from.outside = program_outside(w->program);
	rc = job_load(config, &from, &w->job, e);
	json_decref(settings);
	return rc ? rc : begin_program(w, e);
}

/* Load, join, and be there when the job begins. */
static enum err_code enter(struct worker *w, struct err *e)
{
	json_t *view = cluster_view(w->cluster);
	enum err_code rc = load(w, json_object_get(view, "config"), e);

	w->settings = json_int(view, "settings_base", 0);
	json_decref(view);
	if (!rc) {
		agent_set_pace(cluster_agent(w->cluster), w->job.conf.heartbeat, w->job.conf.deadline);
		rc = open_ring(w, e);
	}
	if (!rc)
		rc = join(w, e);
	return rc ? rc : begin(w, e);
}

enum err_code worker_open(struct worker *w, const struct train_config *cfg, struct err *e)
{
	struct cluster_config cc = { .id = cfg->id, .role = ROLE_WORKER, .heartbeat = 200 * NSEC_PER_MSEC,
		.deadline = 60 * NSEC_PER_SEC, .interrupt = &cfg->interrupt, .log = cfg->log, .stats = figures_json,
		.ctx = w };
	enum err_code rc;

	*w = (struct worker){ .cfg = cfg, .began = clock_wall(), .fig.norm = -1 };
	pthread_mutex_init(&w->lock, NULL);
	randombytes_buf(&w->incarnation, sizeof w->incarnation);
	w->incarnation >>= 1;
	cc.incarnation = w->incarnation;
	rc = cluster_open(&cc, &w->cluster, e);
	if (rc)
		return rc;
	cluster_coming(w->cluster, cfg->slot);
	return enter(w, e);
}

enum err_code worker_close(struct worker *w, enum err_code rc, struct err *e)
{
	if (rc == ERR_FENCED && w->feed)
		slot_lost(w, e);
	if (rc == ERR_STOPPED) {
		if (w->cluster && interrupted(w))
			worker_leave(w);
		rc = ERR_OK;
	}
	if (rc && w->client)
		cluster_give_up(w->cluster, e);
	else if (rc && w->cluster)
		cluster_unfit(w->cluster, w->cfg->slot, e);
	/* Says goodbye: what is queued until then is others' memory. */
	client_free(w->client);
	allreduce_free(w->ring);
	local_free(w->local);
	params_release(&w->params);
	program_free(w->program);
	feed_free(w->feed);
	cluster_close(w->cluster);
	job_release(&w->job);
	batch_release(&w->batch);
	json_decref(w->view);
	pthread_mutex_destroy(&w->lock);
	return rc;
}

enum err_code train(const struct train_config *cfg, struct err *e)
{
	struct worker w;
	bool over = false;
	enum err_code rc = worker_open(&w, cfg, e);

	while (!rc && !over)
		rc = one_step(&w, &over, e);
	if (!rc)
		rc = worker_finish(&w, e);
	return worker_close(&w, rc, e);
}

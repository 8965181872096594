/* SPDX-License-Identifier: ISC */
#include "worker/cluster_view.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/json.h"
#include "core/lock.h"
#include "core/mem.h"
#include "msg/answer.h"
#include "session/tracer.h"
#include "worker/prober.h"

struct cluster_view {
	struct cluster_view_config cfg;
	struct agent *agent;
	struct tracer *tracer;
	struct mutex lock; /* view, lost, why */
	const struct view *view;
	bool lost;
	struct err why;
	/* eventfd: readable since a view or the loss arrived, until cluster_view_current reads it */
	int changed;
	struct prober *prober; /* of training workers; agent's thread only */
	uint32_t confirmed;    /* epoch confirmed last; owner's thread only */
};

static void signal_change(struct cluster_view *c)
{
	uint64_t one = 1;

	if (write(c->changed, &one, sizeof one) < 0 && errno != EAGAIN)
		abort();
}

/* Runs on the agent's thread for each view. The lock covers only the exchange of the view;
 * tracer and prober have locks or rules of their own. */
static void store_view(void *ctx, const struct view *view)
{
	struct cluster_view *c = ctx;

	tracer_view(c->tracer, c->agent, view);
	mutex_lock(&c->lock);
	view_release(c->view);
	c->view = view_ref(view);
	mutex_unlock(&c->lock);
	if (c->prober)
		prober_view(c->prober, view);
	signal_change(c);
}

static void store_loss(void *ctx, const struct err *why)
{
	struct cluster_view *c = ctx;

	mutex_lock(&c->lock);
	c->lost = true;
	c->why = *why;
	mutex_unlock(&c->lock);
	signal_change(c);
}

static json_t *collect_stats(void *ctx)
{
	struct cluster_view *c = ctx;
	json_t *o = c->cfg.stats ? c->cfg.stats(c->cfg.ctx) : NULL;

	tracer_send(c->tracer, c->agent);
	if (o && c->prober)
		prober_report(c->prober, o);
	return o;
}

static bool has_view(void *ctx, const struct view *view)
{
	(void)ctx;
	return view != NULL;
}

/* Configuration, tables and description of the data may still be replaced by values of an older
 * checkpoint. */
static bool has_checked_view(void *ctx, const struct view *view)
{
	(void)ctx;
	return view && (!view->checking || cluster_view_is_over(view, NULL));
}

enum err_code cluster_view_open(const struct cluster_view_config *cfg, struct cluster_view **out,
    struct err *e)
{
	struct cluster_view *c = mem_alloc(sizeof *c);
	struct agent_config a = {
		.addr = { cfg->id->local, cfg->id->data },
		.id = &cfg->id->conn,
		.info = { .incarnation = cfg->incarnation,
		    .rank = UINT32_MAX,
		    .role = (uint8_t)cfg->role },
		.heartbeat = cfg->heartbeat,
		.deadline = cfg->deadline,
		.eager = cfg->eager,
		.log = cfg->log,
		.ctx = c,
		.view = store_view,
		.latest = true,
		.stats = collect_stats,
		.lost = store_loss,
	};
	const struct view *view;
	enum err_code rc;

	c->cfg = *cfg;
	c->tracer = tracer_new();
	c->changed = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	mutex_init(&c->lock, LOCK_CLUSTER_VIEW);
	memcpy(a.info.cluster, cfg->id->conn.cluster, sizeof a.info.cluster);
	memcpy(a.server_key, cfg->id->server_key, sizeof a.server_key);
	if (cfg->stats)
		c->prober = prober_new(cfg->id, cfg->incarnation);
	a.join = MESSAGE(watch);
	rc = agent_start(&a, &c->agent, e);
	json_decref(a.join);
	if (!rc)
		rc = cluster_view_await(c, has_view, NULL, cfg->deadline, &view, e);
	if (!rc && view->checking) {
		/* A large checkpoint takes minutes. The coordinator ends the job if nothing goes
		 * on. */
		view_release(view);
		rc = cluster_view_await(c, has_checked_view, NULL, 0, &view, e);
	}
	if (rc) {
		cluster_view_close(c);
		return rc;
	}
	view_release(view);
	*out = c;
	return ERR_OK;
}

void cluster_view_close(struct cluster_view *c)
{
	if (!c)
		return;
	agent_stop(c->agent);
	tracer_free(c->tracer);
	prober_free(c->prober);
	view_release(c->view);
	close(c->changed);
	mutex_destroy(&c->lock);
	free(c);
}

struct agent *cluster_view_agent(struct cluster_view *c)
{
	return c->agent;
}

struct tracer *cluster_view_tracer(struct cluster_view *c)
{
	return c->tracer;
}

const struct view *cluster_view_current(struct cluster_view *c)
{
	uint64_t count;
	const struct view *view;

	if (read(c->changed, &count, sizeof count) < 0 && errno != EAGAIN)
		abort();
	mutex_lock(&c->lock);
	view = view_ref(c->view);
	mutex_unlock(&c->lock);
	return view;
}

bool cluster_view_changed(const struct cluster_view *c)
{
	struct pollfd p = { c->changed, POLLIN, 0 };

	return poll(&p, 1, 0) > 0;
}

int cluster_view_fd(const struct cluster_view *c)
{
	return c->changed;
}

bool cluster_view_is_lost(struct cluster_view *c, struct err *why)
{
	bool lost;

	mutex_lock(&c->lock);
	lost = c->lost;
	if (lost && why)
		*why = c->why;
	mutex_unlock(&c->lock);
	return lost;
}

enum err_code cluster_view_await_change(struct cluster_view *c, int64_t ns, struct err *e)
{
	struct pollfd p = { c->changed, POLLIN, 0 };

	if (poll(&p, 1, clock_poll_timeout(ns)) < 0 && errno != EINTR)
		abort();
	return cluster_view_is_lost(c, e) ? (e ? e->code : ERR_UNREACH) : ERR_OK;
}

static void log_wait(struct cluster_view *c, const struct view *view, int64_t begin)
{
	int s = (int)((clock_now() - begin) / NSEC_PER_SEC);

	if (view)
		log_warn(c->cfg.log, "the cluster is %s; waiting for %s for %d s",
		    words_text(words_phase, view->phase),
		    *view->waiting_for ? view->waiting_for : "the servers to be ready", s);
}

enum err_code cluster_view_await(struct cluster_view *c,
    bool (*ready)(void *ctx, const struct view *view), void *ctx, int64_t timeout,
    const struct view **out, struct err *e)
{
	int64_t begin = clock_now(), next = begin + 2 * NSEC_PER_SEC;

	for (;;) {
		struct pollfd p[2] = { { c->changed, POLLIN, 0 },
			{ interrupt_fd(c->cfg.interrupt), POLLIN, 0 } };
		const struct view *view = cluster_view_current(c);
		int64_t now = clock_now();

		if (ready(ctx, view)) {
			/* This loop has consumed the signal: raise it again for the caller's
			 * refresh. */
			signal_change(c);
			*out = view;
			return ERR_OK;
		}
		if (now >= next) {
			log_wait(c, view, begin);
			next = now + 10 * NSEC_PER_SEC;
		}
		view_release(view);
		if (cluster_view_is_lost(c, e))
			return e ? e->code : ERR_UNREACH;
		if (timeout && now - begin > timeout)
			return err_set(e, ERR_TIMEOUT, "the cluster is not ready after %lld s",
			    (long long)(timeout / NSEC_PER_SEC));
		if (poll(p, 2, 200) < 0 && errno != EINTR)
			abort();
		if (interrupt_came(c->cfg.interrupt))
			return err_set(e, ERR_STOPPED, "interrupted");
	}
}

void cluster_view_confirm_layout(struct cluster_view *c, uint32_t epoch)
{
	if (epoch <= c->confirmed)
		return;
	c->confirmed = epoch;
	/* Lasting: it is sent again after a reconnect, because servers that join wait for it. */
	agent_tell_lasting(c->agent, "confirm", MESSAGE(confirm, .epoch = epoch));
}

void cluster_view_report_relay(struct cluster_view *c, unsigned relay, uint32_t epoch,
    const char *why)
{
	agent_tell(c->agent,
	    MESSAGE(relay_missed, .relay = (int)relay, .epoch = epoch, .message = why));
}

void cluster_view_give_up(struct cluster_view *c, const struct err *why, bool returns)
{
	json_t *msg, *answer;

	/* The coordinator knows these errors, because it sent them. */
	if (!agent_is_up(c->agent) || why->code == ERR_FENCED || why->code == ERR_STOPPED ||
	    why->code == ERR_NONFINITE || why->code == ERR_FAILED)
		return;
	agent_set_interrupt(c->agent, NULL);
	msg = MESSAGE(give_up, .returns = returns, .message = why->msg,
	    .cause = err_cause_name(why->cause));
	if (agent_call(c->agent, msg, NSEC_PER_SEC, &answer, NULL) == ERR_OK)
		json_decref(answer);
	json_decref(msg);
}

void cluster_view_announce_join(struct cluster_view *c, int rank)
{
	char host[64] = "";

	gethostname(host, sizeof host - 1);
	agent_tell(c->agent, MESSAGE(coming, .rank = rank, .pid = getpid(), .host = host));
}

void cluster_view_report_unfit(struct cluster_view *c, int rank, const struct err *why)
{
	json_t *msg, *answer;
	char host[64] = "";

	if (!agent_is_up(c->agent) || why->code == ERR_STOPPED)
		return;
	gethostname(host, sizeof host - 1);
	msg = MESSAGE(unfit, .rank = rank, .pid = getpid(), .host = host, .message = why->msg,
	    .cause = err_cause_name(why->cause));
	if (agent_call(c->agent, msg, NSEC_PER_SEC, &answer, NULL) == ERR_OK)
		json_decref(answer);
	json_decref(msg);
}

void cluster_view_stragglers(struct cluster_view *c, uint64_t step, struct buf *out)
{
	json_t *msg = MESSAGE(who, .step = (int64_t)step), *answer;
	struct answer_who says;

	if (agent_call(c->agent, msg, NSEC_PER_SEC, &answer, NULL) == ERR_OK) {
		if (!answer_decode_who(answer, &says, NULL))
			buf_puts(out, says.text);
		json_decref(answer);
	}
	json_decref(msg);
}

enum err_code cluster_view_is_over(const struct view *view, struct err *e)
{
	if (view_phase_is(view, PHASE_FAILED))
		return err_set(e, ERR_FAILED, "the job failed: %s", view->reason);
	if (view_phase_is(view, PHASE_STOPPED) || view->ended)
		return err_set(e, ERR_STOPPED, "the job was stopped: %s", view->reason);
	return ERR_OK;
}

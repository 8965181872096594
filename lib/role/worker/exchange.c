/* SPDX-License-Identifier: ISC */
#include "client/saved_residuals.h"
#include "core/clock.h"
#include "worker/residual_file.h"
#include "worker/worker.h"
#include "worker/worker_settings.h"

#define RING_PAUSE (20 * NSEC_PER_MSEC)

/* Both implementations of struct exchange_ops. */

/* ---- both ---- */

/* Chooses the examples of this step and the sparse rows that they need. */
static enum err_code choose_batch(struct worker *w, struct step_times *t, bool *over, struct err *e)
{
	enum err_code rc;

	figures_doing(w, "data");
	rc = batches_next(w->batches, w->step, &w->batch, over, e);
	t->waited += batches_take_idle_time(w->batches);
	if (!rc && !*over)
		rc = w->cfg->kind->name_rows(w, e);
	t->data = clock_now();
	figures_doing(w, "wait");
	return rc;
}

/* The servers' answers say how many changes of membership are in force at this step, and with that which
 * examples belong to this worker. Waits until the view has caught up with them. *other is true when
 * `known`, by which the batch was chosen, was out of date, or when a setting changed at this step:
 * then the batch must be chosen again. */
static enum err_code settle_members(struct worker *w, uint32_t known, bool *other, struct err *e)
{
	bool deals = batches_are_assigned(w->batches, w->step), turned;
	enum err_code rc;

	while (client_members(w->client) > batches_members(w->batches)) {
		rc = cluster_view_await_change(w->cluster, 100 * NSEC_PER_MSEC, e);
		if (!rc)
			rc = worker_refresh(w, e);
		if (rc)
			return rc;
	}
	*other = batches_members(w->batches) != known && deals;
	rc = worker_settings_apply_due(w, &turned, e);
	*other |= turned;
	return rc;
}

/* After a pull: has any worker trained since the previous pull? Updates and examples that may be
 * this worker's own tell nothing about others. Dense tables show updates by themselves; sparse and
 * frozen ones do not, and the servers tell of examples. */
static void note_updates(struct worker *w)
{
	uint64_t updates = params_updates(&w->params);

	if (!w->pushed_rows)
		w->others_train = updates != w->updates ||
		    client_trained_step(w->client) == w->step;
	w->updates = updates;
	w->pushed_rows = w->batch.rows > 0;
}

static enum err_code pull_params(struct worker *w, struct step_times *t, struct err *e)
{
	enum err_code rc = params_pull(&w->params, &w->batch, w->step, true, e);

	t->answer = client_first_answer(w->client);
	t->pulled = clock_now();
	if (!rc)
		note_updates(w);
	return rc;
}

/* ---- servers: push, and pull for each step ---- */

static enum err_code do_nothing(struct worker *w, struct err *e)
{
	(void)w;
	(void)e;
	return ERR_OK;
}

static json_t *no_address(const struct worker *w)
{
	(void)w;
	return NULL;
}

static void ignore_view(struct worker *w, const struct view *view)
{
	(void)w;
	(void)view;
}

static void stay_idle(struct worker *w)
{
	(void)w;
}

static uint64_t no_bytes(const struct worker *w)
{
	(void)w;
	return 0;
}

/* Each round of the loop chooses a batch by the members known, pulls, and asks settle_members
 * whether the answers agree. If not, the members or settings of this step have changed: the pulled
 * parameters are dropped and the batch is chosen again. */
static enum err_code fetch_from_servers(struct worker *w, struct step_times *t, bool *over,
    struct err *e)
{
	bool other = true;

	while (other) {
		enum err_code rc = choose_batch(w, t, over, e);
		uint32_t known = batches_members(w->batches);

		t->answer = t->pulled = t->data;
		if (rc || *over)
			return rc;
		rc = pull_params(w, t, e);
		if (!rc)
			rc = settle_members(w, known, &other, e);
		if (rc)
			return rc;
		/* These parameters were pulled for other members and are not used: count the time
		 * as waiting. */
		if (other)
			t->waited += clock_now() - t->data;
	}
	residual_file_save(w);
	return ERR_OK;
}

static enum err_code pull_last_step(struct worker *w, struct err *e)
{
	return params_pull(&w->params, &w->batch, w->step, true, e);
}

const struct exchange_ops exchange_servers = {
	.open = do_nothing,
	.address = no_address,
	.begin = do_nothing,
	.take_view = ignore_view,
	.answer_peers = stay_idle,
	.fetch = fetch_from_servers,
	.reduce = do_nothing,
	.pull_last = pull_last_step,
	.verify = do_nothing,
	.bytes = no_bytes,
	.close = stay_idle,
	.pulls_each_step = true,
};

/* ---- ring: all-reduce among the workers ---- */

/* Between two attempts to form a ring: waits a moment for a new view. */
static enum err_code pause_ring(void *ctx, struct err *e)
{
	struct worker *w = ctx;
	enum err_code rc = cluster_view_await_change(w->cluster, RING_PAUSE, e);

	return rc ? rc : worker_attend(w, e) ? e->code : ERR_OK;
}

/* Starts to listen for the other workers, before the rank is known. The ring borrows the job,
 * the identity and the log, and calls back with w, so w must outlive it. */
static enum err_code open_ring(struct worker *w, struct err *e)
{
	const struct allreduce_config cfg = { .job = &w->job,
		.id = w->cfg->id,
		.incarnation = w->incarnation,
		.listen = w->cfg->listen,
		.iface = w->cfg->iface,
		.rank = w->cfg->rank,
		.log = w->cfg->log,
		.attend = worker_attend,
		.pause = pause_ring,
		.ctx = w,
		.attend_fd = w->cfg->interrupt.fd };

	return allreduce_new(&cfg, &w->ring, e);
}

static json_t *ring_address_json(const struct worker *w)
{
	return allreduce_address(w->ring);
}

static void take_ring_view(struct worker *w, const struct view *view)
{
	if (w->ring)
		allreduce_view(w->ring, view);
}

static enum err_code begin_ring(struct worker *w, struct err *e)
{
	enum err_code rc = allreduce_begin(w->ring, w->rank, w->client, &w->params, e);

	if (!rc)
		allreduce_view(w->ring, w->view);
	return rc;
}

static void answer_ring_peers(struct worker *w)
{
	if (w->ring)
		allreduce_answer_peers(w->ring);
}

/* With via: allreduce each worker holds the dense parameters itself, so after the first step it
 * waits only for the other workers and pulls only sparse rows. */
static enum err_code fetch_by_ring(struct worker *w, struct step_times *t, bool *over,
    struct err *e)
{
	bool other = true, first;
	enum err_code rc = ERR_OK;

	while (!rc && other) {
		uint32_t known;

		rc = choose_batch(w, t, over, e);
		known = batches_members(w->batches);
		if (!rc)
			rc = allreduce_await_members(w->ring, w->step, e);
		if (!rc)
			rc = settle_members(w, known, &other, e);
	}
	t->answer = t->pulled = clock_now();
	if (!rc)
		rc = allreduce_hand_over(w->ring, w->step, &first, e);
	/* At the end no worker leaves before the servers have the last mean. */
	if (!rc && *over)
		return client_wait(w->client, w->step, e);
	if (!rc && (first || params_has_rows(&w->params, &w->batch)))
		rc = params_pull(&w->params, &w->batch, w->step, first, e);
	t->pulled = clock_now();
	if (!rc)
		residual_file_save(w);
	return rc;
}

static enum err_code reduce_by_ring(struct worker *w, struct err *e)
{
	return allreduce_update(w->ring, w->step, (uint32_t)w->batch.rows, e);
}

/* A difference (ERR_FAILED) is logged and becomes ERR_OK. Any other error of the comparison is
 * returned. */
static enum err_code verify_ring(struct worker *w, struct err *e)
{
	bool compared;
	enum err_code rc = allreduce_verify(w->ring, &compared, e);

	if (rc == ERR_FAILED)
		log_error(w->cfg->log, "%s: the servers' model becomes the result", e->msg);
	else if (!rc && compared)
		log_info(w->cfg->log, "the servers' parameters equal the workers' in every bit");
	return rc == ERR_FAILED ? ERR_OK : rc;
}

static uint64_t ring_bytes(const struct worker *w)
{
	return allreduce_bytes(w->ring);
}

static void close_ring(struct worker *w)
{
	allreduce_free(w->ring);
}

const struct exchange_ops exchange_ring = {
	.open = open_ring,
	.address = ring_address_json,
	.begin = begin_ring,
	.take_view = take_ring_view,
	.answer_peers = answer_ring_peers,
	.fetch = fetch_by_ring,
	.reduce = reduce_by_ring,
	.pull_last = do_nothing, /* each worker holds them */
	.verify = verify_ring,
	.bytes = ring_bytes,
	.close = close_ring,
	.takes_empty_steps = true,
};

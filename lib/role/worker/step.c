/* SPDX-License-Identifier: ISC */
#include "worker/step.h"

#include <math.h>
#include <poll.h>

#include "core/clock.h"
#include "worker/residual_file.h"
#include "worker/worker_settings.h"

/* Chooses the examples of this step. A program for model custom also names the sparse rows that
 * they need. */
static enum err_code choose_batch(struct worker *w, struct step_times *t, bool *over, struct err *e)
{
	enum err_code rc;

	figures_doing(w, "data");
	rc = batches_next(w->feed, w->step, &w->batch, over, e);
	t->waited += batches_take_idle_time(w->feed);
	if (!rc && !*over && w->program) {
		program_step(w->program, w->step);
		rc = program_name_rows(w->program, &w->batch, &w->params, e);
	}
	t->data = clock_now();
	figures_doing(w, "wait");
	return rc;
}

/* The servers' answers say how many changes of membership hold at this step, and with that which
 * examples belong to this worker. Waits until the view has caught up with them. *other is true when
 * `known`, by which the batch was chosen, was out of date, or when a setting changed at this step:
 * then the batch must be chosen again. */
static enum err_code settle_members(struct worker *w, uint32_t known, bool *other, struct err *e)
{
	bool deals = batches_are_dealt(w->feed, w->step), turned;
	enum err_code rc;

	while (client_members(w->client) > batches_members(w->feed)) {
		rc = cluster_view_pause(w->cluster, 100 * NSEC_PER_MSEC, e);
		if (!rc)
			rc = worker_refresh(w, e);
		if (rc)
			return rc;
	}
	*other = batches_members(w->feed) != known && deals;
	rc = worker_settings_apply_due(w, &turned, e);
	*other |= turned;
	return rc;
}

static enum err_code pull_params(struct worker *w, struct step_times *t, struct err *e)
{
	enum err_code rc = params_pull(&w->params, &w->batch, w->step, true, e);

	t->answer = client_first_answer(w->client);
	t->pulled = clock_now();
	return rc;
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
		known = batches_members(w->feed);
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

/* Each round of the loop chooses a batch by the members known, pulls, and asks settle_members
 * whether the answers agree. If not, the members or settings of this step are others: the pulled
 * parameters are dropped and the batch is chosen again. */
enum err_code step_fetch(struct worker *w, struct step_times *t, bool *over, struct err *e)
{
	bool other = true;

	if (w->ring)
		return fetch_by_ring(w, t, over, e);
	while (other) {
		enum err_code rc = choose_batch(w, t, over, e);
		uint32_t known = batches_members(w->feed);

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

/* Imitates a slow worker: sleeps until the configured duration of a computation has passed. Only an
 * interrupt cuts it short. */
static void delay_step(struct worker *w, int64_t begin)
{
	double seconds = compute_time_draw(&w->cfg->compute, &w->chance);
	struct pollfd p = { w->cfg->interrupt.fd, POLLIN, 0 };
	int64_t left = begin + (int64_t)(seconds * NSEC_PER_SEC) - clock_now();
	struct timespec t = { left / NSEC_PER_SEC, left % NSEC_PER_SEC };

	if (left > 0)
		ppoll(&p, 1, &t, NULL);
}

/* Computes into w->params.g what this worker will push, and its mean loss. */
enum err_code step_compute(struct worker *w, double *loss, struct err *e)
{
	int64_t begin = clock_now();
	enum err_code rc;

	figures_doing(w, "compute");
	if (w->program)
		program_step(w->program, w->step);
	rc = local_compute(w->local, &w->params, &w->batch, w->step, loss, e);
	if (!rc && w->program)
		rc = program_fault(w->program, e);
	if (!rc && w->cfg->compute.seconds > 0)
		delay_step(w, begin);
	if (!rc && isfinite((float)*loss))
		params_good(&w->params, w->step);
	return rc;
}

enum err_code step_push(struct worker *w, struct err *e)
{
	enum err_code rc = ERR_OK;

	figures_doing(w, "push");
	if (w->ring)
		rc = allreduce_update(w->ring, w->step, (uint32_t)w->batch.rows, e);
	if (rc)
		return rc;
	if (w->job.conf.prefetch)
		rc = params_ask(&w->params, w->step + 1, true, e);
	return rc ? rc : params_push(&w->params, &w->batch, w->step, e);
}

/* In bsp the servers hold a pull of step N+1 back until N is complete. Requesting it right behind
 * the CLOCK gives the same answer as requesting it later, but it does not wait until this thread
 * runs again, and the server is woken once and not twice. With backup workers the next step may be
 * another one. */
enum err_code step_clock(struct worker *w, struct err *e)
{
	const struct conf *c = &w->job.conf;
	bool ahead = w->cfg->by_caller && !w->ring && sync_sums_steps(&c->sync) && !c->backup &&
	    !c->prefetch && w->params.pulled;
	enum err_code rc = client_clock_begin(w->client, w->step, (uint32_t)w->batch.rows, e);

	if (!rc && ahead)
		rc = params_ask(&w->params, w->step + 1, false, e);
	return rc ? rc : client_clock_end(w->client, w->step, e);
}

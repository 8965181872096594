/* SPDX-License-Identifier: ISC */
#include "worker/step.h"

#include <math.h>

#include "core/clock.h"

/* Computes into w->params.g what this worker will push, and its mean loss. */
enum err_code step_compute(struct worker *w, double *loss, struct err *e)
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

enum err_code step_push(struct worker *w, struct err *e)
{
	enum err_code rc;

	figures_doing(w, "push");
	rc = w->exchange->reduce(w, e);
	if (rc)
		return rc;
	if (w->job.conf.prefetch)
		rc = params_request_ahead(&w->params, w->step + 1, true, e);
	if (rc)
		return rc;
	return batches_repeats(w->feed)
	    ? params_push_lacking(&w->params, &w->batch, w->feed, w->step, e)
	    : params_push(&w->params, &w->batch, w->step, e);
}

/* In bsp a pull of step N+1 waits at the servers until N is complete. Requesting it right behind
 * the CLOCK gives the same answer as requesting it later, but it does not wait until this thread
 * runs again, and the server is woken once and not twice. With backup workers the next step may be
 * another one. */
enum err_code step_clock(struct worker *w, struct err *e)
{
	const struct conf *c = &w->job.conf;
	bool ahead = w->cfg->kind->asks_ahead && w->exchange->pulls_each_step &&
	    sync_sums_steps(&c->sync) && !c->backup && !c->prefetch && w->params.pulled;
	enum err_code rc = client_clock_begin(w->client, w->step, (uint32_t)w->batch.rows, e);

	if (!rc && ahead)
		rc = params_request_ahead(&w->params, w->step + 1, false, e);
	return rc ? rc : client_clock_end(w->client, w->step, e);
}

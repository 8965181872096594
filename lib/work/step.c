#include "work/step.h"

#include <math.h>
#include <poll.h>

#include "base/clock.h"
#include "work/kept.h"
#include "work/turn.h"

static enum err_code batch(struct worker *w, struct step_times *t, bool *over, struct err *e)
{
	enum err_code rc;

	figures_doing(w, "data");
	rc = feed_batch(w->feed, w->step, &w->batch, over, e);
	t->waited += feed_idled(w->feed);
	if (!rc && !*over && w->program) {
		program_step(w->program, w->step);
		rc = program_name_rows(w->program, &w->batch, &w->params, e);
	}
	t->data = clock_now();
	figures_doing(w, "wait");
	return rc;
}

/* The servers' answers settle who takes part, and so which examples are whose.  *other:
 * they know of more members than the batch was dealt by. */
static enum err_code settle_members(struct worker *w, uint32_t known, bool *other, struct err *e)
{
	bool deals = feed_deals(w->feed, w->step), turned;
	enum err_code rc;

	while (client_members(w->client) > feed_members(w->feed)) {
		rc = cluster_pause(w->cluster, 100 * NSEC_PER_MSEC, e);
		if (!rc)
			rc = worker_refresh(w, e);
		if (rc)
			return rc;
	}
	*other = feed_members(w->feed) != known && deals;
	rc = turn_settle(w, &turned, e);
	*other |= turned;
	return rc;
}

/* Streaming, with no examples: a step begins for this worker when it has for all. */
static enum err_code idle(struct worker *w, struct step_times *t, struct err *e)
{
	enum err_code rc = client_wait(w->client, w->step, e);

	if (!rc) {
		local_merge(w->local, &w->params);
		rc = local_probe(w->local, &w->params, w->step, e);
	}
	if (!rc)
		rc = client_wait(w->client, w->step, e);
	t->answer = t->pulled = clock_now();
	return rc;
}

static enum err_code pull(struct worker *w, struct step_times *t, struct err *e)
{
	enum err_code rc = params_pull(&w->params, &w->batch, w->step, true, e);

	t->answer = client_first_answer(w->client);
	t->pulled = clock_now();
	return rc;
}

/* The parameters are here, once they have been pulled: what is waited for is the others,
 * and rows. */
static enum err_code meet(struct worker *w, struct step_times *t, bool *over, struct err *e)
{
	bool other = true, first;
	enum err_code rc = ERR_OK;

	while (!rc && other) {
		uint32_t known;

		rc = batch(w, t, over, e);
		known = feed_members(w->feed);
		if (!rc)
			rc = allreduce_meet(w->ring, w->step, e);
		if (!rc)
			rc = settle_members(w, known, &other, e);
	}
	t->answer = t->pulled = clock_now();
	if (!rc)
		rc = allreduce_hand_over(w->ring, w->step, &first, e);
	/* At the end nobody goes before the servers have it all. */
	if (!rc && *over)
		return client_wait(w->client, w->step, e);
	if (!rc && (first || params_has_rows(&w->params, &w->batch)))
		rc = params_pull(&w->params, &w->batch, w->step, first, e);
	t->pulled = clock_now();
	if (!rc)
		kept_save(w);
	return rc;
}

enum err_code step_fetch(struct worker *w, struct step_times *t, bool *over, struct err *e)
{
	bool other = true, begun = local_begun(w->local);

	if (w->ring)
		return meet(w, t, over, e);
	while (other) {
		enum err_code rc = batch(w, t, over, e);
		uint32_t known = feed_members(w->feed);

		t->answer = t->pulled = t->data;
		/* What comes back of the last push is waited for afterwards. */
		if (rc || *over || (begun && w->batch.rows))
			return rc;
		rc = begun ? idle(w, t, e) : pull(w, t, e);
		if (!rc)
			rc = settle_members(w, known, &other, e);
		if (rc)
			return rc;
		/* What was pulled is not used. */
		if (other)
			t->waited += clock_now() - t->data;
	}
	kept_save(w);
	return local_streams(w->local) && !begun ? local_begin(w->local, &w->params, e) : ERR_OK;
}

/* As if it had been computed for so long; nothing else is done meanwhile. */
static void drag(struct worker *w, int64_t begin)
{
	const struct sim_compute *c = &w->cfg->compute;
	double seconds = c->seconds * (rng_unit(&w->chance) < c->chance ? c->times : 1);
	struct pollfd p = { w->cfg->interrupt.fd, POLLIN, 0 };
	int64_t left = begin + (int64_t)(seconds * NSEC_PER_SEC) - clock_now();
	struct timespec t = { left / NSEC_PER_SEC, left % NSEC_PER_SEC };

	if (left > 0)
		ppoll(&p, 1, &t, NULL);
}

/* What is to be pushed, and when it is there. */
static enum err_code work(struct worker *w, double *loss, struct err *e)
{
	int64_t begin = clock_now();
	enum err_code rc;

	figures_doing(w, "compute");
	if (w->program)
		program_step(w->program, w->step);
	rc = local_work(w->local, &w->params, &w->batch, w->step, loss, e);
	if (!rc && w->program)
		rc = program_fault(w->program, e);
	if (!rc && w->cfg->compute.seconds > 0)
		drag(w, begin);
	return rc;
}

/* Local steps first; then what the others have made of the last fragment. */
static enum err_code compute_stream(struct worker *w, struct step_times *t, double *loss, struct err *e)
{
	bool other = true, over = false;

	while (other && w->batch.rows) {
		uint32_t known = feed_members(w->feed);
		enum err_code rc = work(w, loss, e);
		int64_t done = clock_now();

		figures_doing(w, "wait");
		if (!rc)
			rc = client_wait(w->client, w->step, e);
		if (!rc)
			rc = settle_members(w, known, &other, e);
		if (rc)
			return rc;
		/* Waited for after the work, counted as if before it. */
		t->answer += clock_now() - done;
		t->pulled = t->answer;
		if (!other)
			break;
		local_undo(w->local);
		rc = batch(w, t, &over, e);
		if (rc)
			return rc;
		/* There is nothing for us at this step any more. */
		if (over)
			w->batch.rows = 0;
	}
	local_merge(w->local, &w->params);
	kept_save(w);
	return ERR_OK;
}

enum err_code step_compute(struct worker *w, struct step_times *t, double *loss, struct err *e)
{
	enum err_code rc = local_streams(w->local) ? compute_stream(w, t, loss, e) : work(w, loss, e);

	if (!rc && isfinite((float)*loss) && !local_streams(w->local))
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
	if (local_streams(w->local))
		return local_send(w->local, &w->params, &w->batch, w->step, e);
	if (w->job.conf.prefetch)
		rc = params_ask(&w->params, w->step + 1, true, e);
	return rc ? rc : params_push(&w->params, &w->batch, w->step, e);
}

/* In bsp what is asked for now is what would be asked for later: right behind the CLOCK it does not wait until this
 * thread runs again, nor is the server woken twice.  With backup workers the next step may be another one. */
enum err_code step_clock(struct worker *w, struct err *e)
{
	const struct conf *c = &w->job.conf;
	bool ahead = w->cfg->by_caller && !w->ring && c->sync.kind == SYNC_bsp && !c->backup && !c->prefetch && w->params.pulled;
	enum err_code rc = client_clock_begin(w->client, w->step, (uint32_t)w->batch.rows, e);

	if (!rc && ahead)
		rc = params_ask(&w->params, w->step + 1, false, e);
	return rc ? rc : client_clock_end(w->client, w->step, e);
}

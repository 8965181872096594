/* SPDX-License-Identifier: ISC */
#include "coord/coord_state.h"

#include "conf/conf_rule.h"
#include "core/clock.h"
#include "core/json.h"
#include "core/mem.h"
#include "msg/answer.h"

/* Ranges of data that a worker leases in an epoch, about. Many make the last ones of an epoch
 * short, so that workers end together; few make leasing rare. */
#define LEASES_PER_WORKER 8

/* A lease was given, finished or taken back. The owner must log this before any message that
 * depends on it is sent. */
static void forward_lease_change(void *ctx, const struct lease_change *change)
{
	struct coord *c = ctx;

	c->data.lease_changes++;
	if (c->io.lease_changed)
		c->io.lease_changed(c->io.ctx, c->data.lease_changes, change);
}

static void begin_leases_of_stream(struct coord *c, const struct state_leases *resumed)
{
	c->data.stream = true;
	c->data.leases = leases_new_stream(c->data.examples);
	leases_watch(c->data.leases, forward_lease_change, c);
	if (resumed)
		leases_load(c->data.leases, resumed, false);
}

void coord_job_choose_epochs(struct coord *c)
{
	uint64_t rows = 0, epochs;

	for (size_t i = 0; i < c->layout.ntables; i++)
		if (c->layout.table[i].rows > rows)
			rows = c->layout.table[i].rows;
	epochs = conf_epochs(c->conf, c->data.blocks_per_lease ? 0 : c->data.examples, rows);
	if (epochs > c->cfg.epochs && c->cfg.epochs)
		c->cfg.epochs = epochs;
}

void coord_job_begin_leases(struct coord *c, const struct state_leases *saved)
{
	const struct state_leases *resumed = coord_resume_saved_leases(c);
	uint64_t range;

	if (!c->cfg.lockstep || c->data.blocks_per_lease || resumed)
		c->data.leased = true;
	if (!c->data.leased)
		return;
	if (c->data.stream || (saved && saved->stream)) {
		begin_leases_of_stream(c, resumed);
		return;
	}
	range = c->data.examples / (c->nworkers * LEASES_PER_WORKER) / c->cfg.batch * c->cfg.batch;
	if (range < c->cfg.batch)
		range = c->cfg.batch;
	if (range > 64 * c->cfg.batch)
		range = 64 * c->cfg.batch;
	if (c->data.blocks_per_lease)
		range = c->data.blocks_per_lease;
	/* Leases of a saved state keep their range size, whatever the batch size is now. */
	if (saved && saved->range)
		range = (uint64_t)saved->range;
	c->data.leases = leases_new(c->data.examples, range, c->cfg.epochs);
	if (c->cfg.deterministic)
		leases_assign(c->data.leases, c->nworkers, c->membership.first_step, c->cfg.batch);
	leases_watch(c->data.leases, forward_lease_change, c);
	if (resumed && coord_resume_has_other_data(c))
		leases_load_epoch(c->data.leases, resumed, (uint64_t)c->cfg.resume->data->examples);
	else if (resumed)
		leases_load(c->data.leases, resumed, false);
}

/* The worker lists the ranges that it holds, and where it is in them: [id, from, step, batch,
 * place]. A range that is not among them was leased in an answer that it never received, or it
 * gives the range back: take it back. */
static void note_held_ranges(struct coord *c, unsigned rank, const json_t *holds)
{
	/* It cannot hold more than it was leased. */
	size_t most = leases_held(c->data.leases, rank), n = 0;
	uint64_t *held = mem_array(most + 1, sizeof *held);

	while (n < most && n < json_array_size(holds)) {
		struct message_lease_held h = message_lease_held_at(holds, n);

		held[n++] = (uint64_t)h.id;
		leases_advance(c->data.leases, rank, (uint64_t)h.id, (uint64_t)h.from,
		    (uint64_t)h.step, (uint64_t)h.batch, h.place);
	}
	if (json_is_array(holds))
		leases_keep_only(c->data.leases, rank, held, n);
	free(held);
}

uint64_t coord_stream_partitions(const struct coord *c)
{
	return c->data.stream && c->data.leases ? c->data.examples : 0;
}

void coord_note_kept_place(struct coord *c, uint64_t partition, int64_t newest, int64_t oldest)
{
	struct coord_data *d = &c->data;

	if (partition >= coord_stream_partitions(c))
		return;
	if (partition >= d->nkept) {
		d->kept = mem_regrow(d->kept, d->examples, sizeof *d->kept);
		while (d->nkept < d->examples)
			d->kept[d->nkept++] = (struct coord_kept_place){ -1, -1 };
	}
	d->kept[partition] = (struct coord_kept_place){ newest, oldest };
}

/* Lists the places that checkpoints need in the partitions of the worker: *n of them, to be
 * freed. */
static struct answer_kept *list_kept_places(const struct coord *c, const json_t *holds, uint64_t *n)
{
	struct answer_kept *list = mem_array(json_array_size(holds) + 1, sizeof *list);

	*n = 0;
	for (size_t i = 0; i < json_array_size(holds); i++) {
		int64_t id = message_lease_held_at(holds, i).id;

		if ((uint64_t)id >= c->data.nkept || c->data.kept[id].newest < 0)
			continue;
		list[(*n)++] = (struct answer_kept){ .id = id,
			.newest = c->data.kept[id].newest,
			.oldest = c->data.kept[id].oldest };
	}
	return list;
}

/* How the partitions of a stream are shared: no worker holds more than an equal number of them,
 * rounded up. *surplus: this worker holds two more than another one, which would get one of
 * them. */
static void share_stream(struct coord *c, unsigned rank, bool *surplus)
{
	unsigned active = 0, least = UINT_MAX;

	for (unsigned i = 0; i < c->nworkers; i++)
		if (c->worker[i].state == WORKER_ACTIVE) {
			unsigned held = leases_held(c->data.leases, i);

			active++;
			least = held < least ? held : least;
		}
	if (!active)
		return;
	leases_set_limit(c->data.leases, (unsigned)((c->data.examples + active - 1) / active));
	*surplus = leases_held(c->data.leases, rank) >= least + 2;
}

static json_t *lease_to_json(const struct lease *t)
{
	json_t *earlier = json_array(), *answer;
	struct answer_task task = { .id = (int64_t)t->id,
		.epoch = (int64_t)t->epoch,
		.begin = (int64_t)t->begin,
		.end = (int64_t)t->end,
		.from = (int64_t)t->attempt.from,
		.step = (int64_t)t->attempt.step,
		.batch = (int64_t)t->attempt.batch,
		.placed = (int64_t)t->placed,
		.place = t->place,
		.earlier = earlier };

	for (size_t i = 0; i < t->n_earlier; i++) {
		const struct lease_attempt *a = &t->earlier[i];

		json_array_append_new(earlier,
		    json_pack("[IIIo]", (json_int_t)a->from, (json_int_t)a->step,
		        (json_int_t)a->batch, taken_to_json(&a->taken)));
	}
	answer = ANSWER(granted, .task = &task);
	json_decref(earlier);
	return answer;
}

/* End and take back leases, and lease one more range if asked to. */
json_t *coord_on_lease(struct coord *c, const struct coord_request *r)
{
	const struct message_lease *m = &r->m->lease;
	unsigned rank = r->self->index;
	struct err *e = r->e;
	struct answer_kept *kept;
	const struct lease *t;
	bool surplus = false;
	uint64_t nkept;
	json_t *answer;

	if (!c->data.leases) {
		err_set(e, ERR_PROTO, "this job deals its data by steps and has no leases");
		return NULL;
	}
	if (coord_settle_is_open(c, rank))
		return ANSWER(lease, .settling = true);
	for (size_t i = 0; i < json_array_size(m->done); i++) {
		struct message_lease_done d = message_lease_done_at(m->done, i);

		leases_note_done(c->data.leases, rank, (uint64_t)d.id, (uint64_t)d.examples);
	}
	note_held_ranges(c, rank, m->holds);
	if (c->data.stream)
		share_stream(c, rank, &surplus);
	if (m->more && !c->data.stream && !leases_may_lease(c->data.leases, rank)) {
		err_set(e, ERR_LIMIT,
		    "worker-%u holds %u ranges of the data and may lease no more before it has finished one",
		    rank, leases_held(c->data.leases, rank));
		return NULL;
	}
	t = m->more ? leases_give(c->data.leases, rank, (uint64_t)m->step, (uint64_t)m->batch)
	            : NULL;
	if (t)
		return lease_to_json(t);
	kept = list_kept_places(c, m->holds, &nkept);
	answer = ANSWER(lease, .finished = leases_finished(c->data.leases), .surplus = surplus,
	    .kept = kept, .nkept = nkept);
	free(kept);
	return answer;
}

uint64_t coord_lease_changes(const struct coord *c)
{
	return c->data.lease_changes;
}

bool coord_replay_lease(struct coord *c, uint64_t number, const struct lease_change *change)
{
	/* The saved state contains this change. */
	if (number <= c->data.lease_changes)
		return true;
	if (number != c->data.lease_changes + 1 || !c->data.leases)
		return false;
	c->data.lease_changes = number;
	/* Its ranges were taken back after the state was saved. */
	coord_settle_drop(c, change->worker);
	return leases_replay(c->data.leases, change);
}

void coord_job_worker_done(struct coord *c, unsigned rank)
{
	struct coord_member_worker *w = &c->worker[rank];

	w->state = WORKER_DONE;
	w->lost_at = 0;
	/* job.steps may end the job within a range. */
	if (c->data.leases && !coord_settle_is_open(c, rank))
		leases_take_back(c->data.leases, rank, 0, NULL);
	coord_event(c, EVENT_worker_done, "worker-%u has finished at step %lld", rank,
	    (long long)w->figures.steps);
	coord_changed(c);
}

void coord_report_release(struct coord_report *r)
{
	json_decref(r->json);
	*r = (struct coord_report){ 0 };
}

bool coord_report_keep(struct coord_report *r, const json_t *msg)
{
	struct message m;

	coord_report_release(r);
	if (!msg)
		return true;
	r->json = json_deep_copy(msg);
	if (message_decode(r->json, ROLE_WORKER, &m, NULL))
		return false;
	if (m.kind == MESSAGE_eval) {
		r->step = m.eval.step;
		r->eval = m.eval.eval;
	} else if (m.kind == MESSAGE_result) {
		r->step = m.result.step;
		r->eval = m.result.eval;
		r->digest = m.result.digest;
	}
	return m.kind == MESSAGE_eval || m.kind == MESSAGE_result;
}

/* Ignored unless it comes from the evaluator in the phase finishing. */
json_t *coord_on_result(struct coord *c, const struct coord_request *r)
{
	const json_t *msg = r->m->json;

	if (c->phase != PHASE_FINISHING || (int)r->self->index != c->evaluation.rank ||
	    json_dumpb(msg, NULL, 0, 0) > FIGURES_MAX)
		return NULL;
	coord_report_keep(&c->evaluation.result, msg);
	if (r->m->result.eval) {
		coord_learning_take(c, r->m->result.step, r->m->result.eval);
		coord_early_stop_take(c, r->m->result.step, r->m->result.eval, true);
	}
	coord_enter(c, PHASE_DONE, r->now);
	return NULL;
}

static void count_worker_states(const struct coord *c, unsigned n[static 6])
{
	for (unsigned i = 0; i < c->nworkers; i++)
		n[c->worker[i].state]++;
}

static void choose_evaluator(struct coord *c, int64_t now)
{
	if (c->evaluation.rank >= 0 && c->worker[c->evaluation.rank].state == WORKER_DONE)
		return;
	/* Prefer a worker that has the evaluation data. */
	for (unsigned k = 0; k < 2 * c->nworkers; k++) {
		unsigned i = k % c->nworkers;

		if (c->worker[i].state == WORKER_DONE &&
		    (c->worker[i].evaluates || k >= c->nworkers)) {
			c->evaluation.rank = (int)i;
			coord_changed(c);
			return;
		}
	}
	coord_fail(c, CAUSE_UNKNOWN, "all workers have ended before the final evaluation", now);
}

int coord_job_returning(const struct coord *c)
{
	for (unsigned i = 0; i < c->nworkers; i++) {
		const struct coord_member_worker *w = &c->worker[i];

		if (w->returns && !w->leave_requested &&
		    (w->state == WORKER_LEFT || w->state == WORKER_LOST))
			return (int)i;
	}
	return -1;
}

/* No worker is left, and none is done. Does the job wait for one that is started again? It does so for
 * `deadline`. */
static bool is_return_awaited(struct coord *c, int64_t now)
{
	int rank = coord_job_returning(c);

	if (rank < 0)
		return false;
	if (!c->times.deserted) {
		c->times.deserted = now;
		coord_event(c, EVENT_worker_awaited,
		    "no worker is left: waiting up to %lld s for worker-%d, which is started again",
		    (long long)(c->cfg.deadline / NSEC_PER_SEC), rank);
	}
	return now - c->times.deserted <= c->cfg.deadline;
}

/* Leave the phase running when no worker is at work any more: to finishing if some are done, else
 * to failed, unless one is started again. In finishing, replace an evaluator that has gone. */
void coord_job_check_end(struct coord *c, int64_t now)
{
	unsigned n[6] = { 0 };

	if (!c->cfg.has_job)
		return;
	if (c->phase == PHASE_FINISHING) {
		choose_evaluator(c, now);
		return;
	}
	count_worker_states(c, n);
	if (n[WORKER_ACTIVE] || n[WORKER_JOINING])
		c->times.deserted = 0;
	if (n[WORKER_ACTIVE] || n[WORKER_JOINING] || c->votes.proposal.open || c->votes.changes ||
	    coord_early_stop_is_writing(c))
		return;
	if (!n[WORKER_DONE] && is_return_awaited(c, now))
		return;
	if (!n[WORKER_DONE]) {
		char why[400];

		snprintf(why, sizeof why,
		    "all workers have ended, and training cannot continue%s%.300s",
		    c->last_lost.text[0] ? "; " : "", c->last_lost.text);
		coord_fail(c, c->last_lost.cause, why, now);
		return;
	}
	coord_enter(c, PHASE_FINISHING, now);
	choose_evaluator(c, now);
}

/* ---- the result ---- */

struct totals {
	uint64_t examples, pushed, pulled, ring, rows, held;
	double loss, weight, progressive_loss, progressive;
};

static bool counts_for_result(const struct coord_member_worker *w)
{
	return w->state != WORKER_EMPTY && w->state != WORKER_LOST;
}

static void add_worker_totals(struct totals *t, const struct heartbeat_worker *f)
{
	double examples = (double)f->loss_examples;

	t->examples += (uint64_t)f->examples;
	t->pushed += (uint64_t)f->pushed_bytes;
	t->pulled += (uint64_t)f->pulled_bytes;
	t->ring += (uint64_t)f->ring_bytes;
	t->rows += (uint64_t)f->rows_offered;
	t->held += (uint64_t)f->rows_held;
	t->loss += f->train_loss * examples;
	t->weight += examples;
	if (f->progressive_examples)
		t->progressive_loss += f->progressive_loss * (double)f->progressive_examples;
	t->progressive += (double)f->progressive_examples;
}

/* How long one process with one thread would have taken, without any communication: the time that
 * the workers took to get their examples and to compute gradients, and that servers took to sum and
 * to apply them. Times are elapsed ones, so processors that are shared by several processes make it
 * longer. Null unless every worker of the job measures its phases. With emulated slow workers the
 * times are not measurements, and the caller leaves them out. */
static void add_seconds_alone(const struct coord *c, json_t *result)
{
	double data = 0, compute = 0, update = 0;
	bool measured = false;

	for (unsigned i = 0; i < c->nworkers; i++) {
		const struct heartbeat_worker *f = &c->worker[i].figures;

		if (!counts_for_result(&c->worker[i]) || !f->examples)
			continue;
		measured = f->has_compute_seconds && f->has_data_seconds;
		if (!measured)
			break;
		data += f->data_seconds;
		compute += f->compute_seconds;
	}
	for (unsigned i = 0; i < c->nservers; i++)
		update += c->server[i].figures.apply.sum;
	json_object_set_new(result, "alone_seconds",
	    measured ? json_of_num(data + compute + update) : json_null());
	json_object_set_new(result, "data_seconds", measured ? json_of_num(data) : json_null());
	json_object_set_new(result, "compute_seconds",
	    measured ? json_of_num(compute) : json_null());
	json_object_set_new(result, "update_seconds", measured ? json_of_num(update) : json_null());
}

/* Returns the step of the evaluation in the result if the saved model has other values, because
 * other workers have pushed after the best evaluation, or the job ends without a final one. -1: the
 * evaluation used the saved model. */
static int64_t find_evaluated_step(const struct coord *c, bool earlier)
{
	if (earlier)
		return coord_early_stop_is_exact(c) ? -1 : c->stopping.state.best_step;
	return c->evaluation.result.json || !c->evaluation.last.eval ? -1 : c->evaluation.last.step;
}

/* The bad lines that one worker has skipped, at most. Workers may have read the same lines, so they
 * are not summed. */
static json_int_t most_bad_lines(const struct coord *c)
{
	json_int_t most = 0;

	for (unsigned i = 0; i < c->nworkers; i++)
		if (c->worker[i].figures.bad_lines > most)
			most = c->worker[i].figures.bad_lines;
	return most;
}

json_t *coord_result(const struct coord *c, int64_t now)
{
	struct totals t = { 0 };
	int64_t end = c->times.ended ? c->times.ended : now;
	const struct coord_report *result = &c->evaluation.result;
	const json_t *eval = result->json ? result->eval : c->evaluation.last.eval;
	json_t *r = json_event("result");
	int64_t step;
	/* The checkpoint of an earlier evaluation is the job's model. */
	bool earlier = coord_early_stop_is_earlier(c);
	char *emulation = conf_emulation(c->conf->job.slow, c->conf->net);

	for (unsigned i = 0; i < c->nworkers; i++) {
		const struct coord_member_worker *w = &c->worker[i];

		if (counts_for_result(w))
			add_worker_totals(&t, &w->figures);
	}
	json_object_set_new(r, "state", json_string(coord_phase_name(c->phase)));
	if (c->end.text[0])
		json_object_set_new(r, "reason", json_string(c->end.text));
	if (c->end.cause)
		json_object_set_new(r, "cause", json_string(err_cause_name(c->end.cause)));
	json_object_set_new(r, "job", json_of_text(c->data.job));
	json_object_set_new(r, "steps", json_integer((json_int_t)coord_shown_step(c)));
	json_object_set_new(r, "examples", json_integer((json_int_t)t.examples));
	json_object_set_new(r, "seconds",
	    json_of_num(
	        c->times.running ? (double)(end - c->times.running) / (double)NSEC_PER_SEC : 0));
	if (*emulation)
		json_object_set_new(r, "emulated", json_string(emulation));
	else
		add_seconds_alone(c, r);
	free(emulation);
	json_object_set_new(r, "pushes_refused", json_integer((json_int_t)coord_watch_refused(c)));
	json_object_set_new(r, "bad_lines", json_integer(most_bad_lines(c)));
	json_object_set_new(r, "train_loss",
	    t.weight > 0 ? json_of_num(t.loss / t.weight) : json_null());
	json_object_set_new(r, "first_loss", json_of_num(coord_learning_first_loss(c)));
	json_object_set_new(r, "progressive_loss",
	    t.progressive > 0 ? json_of_num(t.progressive_loss / t.progressive) : json_null());
	if (earlier)
		eval = c->stopping.eval;
	json_object_set(r, "eval", eval ? (json_t *)(uintptr_t)eval : json_null());
	step = find_evaluated_step(c, earlier);
	json_object_set_new(r, "eval_step", step < 0 ? json_null() : json_integer(step));
	json_object_set_new(r, "model_digest",
	    result->digest && *result->digest && !earlier ? json_string(result->digest)
	                                                  : json_null());
	coord_early_stop_report(c, r);
	coord_learning_report(c, r);
	json_object_set_new(r, "pushed_bytes", json_integer((json_int_t)t.pushed));
	json_object_set_new(r, "pulled_bytes", json_integer((json_int_t)t.pulled));
	if (c->settings.nkept)
		json_object_set_new(r, "settings", coord_settings(c));
	json_object_set_new(r, "ring_bytes", json_integer((json_int_t)t.ring));
	json_object_set_new(r, "rows_offered", json_integer((json_int_t)t.rows));
	json_object_set_new(r, "rows_held", json_integer((json_int_t)t.held));
	return r;
}

/* ---- a pause ---- */

static enum err_code check_can_rest(const struct coord *c, bool pause, struct err *e)
{
	if (c->phase != PHASE_RUNNING || !c->cfg.has_job)
		return err_set(e, ERR_NOTREADY, "there is no running job to be %s",
		    pause ? "paused" : "resumed");
	/* A worker one step ahead would wait in the ring for the workers that rest. */
	if (pause && c->ring.used)
		return err_set(e, ERR_UNSUPPORTED, "a job with via allreduce cannot be paused");
	return ERR_OK;
}

/* Has the workers rest, unless they do so already. */
static void begin_rest(struct coord *c, int64_t now)
{
	if (coord_is_paused(c))
		return;
	c->pause.number++;
	c->pause.at = now;
}

enum err_code coord_pause(struct coord *c, bool pause, const char *who, int64_t now, struct err *e)
{
	enum err_code rc = check_can_rest(c, pause, e);

	if (rc)
		return rc;
	if (c->pause.on == pause && (pause || !c->pause.held))
		return ERR_OK;
	if (pause)
		begin_rest(c, now);
	c->pause.on = pause;
	c->pause.held &= pause;
	snprintf(c->pause.by, sizeof c->pause.by, "%s", who);
	coord_event(c, pause ? EVENT_paused : EVENT_resumed, "the job is %s, by %s",
	    pause ? "paused" : "resumed", who);
	coord_changed(c);
	return ERR_OK;
}

bool coord_is_paused(const struct coord *c)
{
	return c->pause.on || c->pause.held;
}

enum err_code coord_hold(struct coord *c, const char *who, int64_t now, struct err *e)
{
	enum err_code rc = check_can_rest(c, true, e);

	if (rc)
		return rc;
	begin_rest(c, now);
	c->pause.held = true;
	snprintf(c->pause.holder, sizeof c->pause.holder, "%s", who);
	coord_event(c, EVENT_paused, "the job is held for its last checkpoint, by %s", who);
	coord_changed(c);
	return ERR_OK;
}

bool coord_is_held(const struct coord *c)
{
	return c->pause.held;
}

void coord_release_hold(struct coord *c)
{
	if (!c->pause.held)
		return;
	c->pause.held = false;
	if (c->phase < PHASE_DONE)
		coord_event(c, c->pause.on ? EVENT_paused : EVENT_resumed,
		    c->pause.on ? "the job is no longer held, and stays paused, by %s"
		                : "the job is no longer held, and continues; it was held by %s",
		    c->pause.on ? c->pause.by : c->pause.holder);
	coord_changed(c);
}

/* SPDX-License-Identifier: ISC */
#include <poll.h>
#include <pthread.h>
#include <sodium.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/json.h"
#include "core/mem.h"
#include "conf/conf_live.h"
#include "conf/conf_rule.h"
#include "shard/shard.h"
#include "tests/fault/ledger.h"
#include "worker/cluster_view.h"
#include "worker/evaluate.h"

#define CALL_TIMEOUT (60 * NSEC_PER_SEC)
/* Any number will do, as long as all workers give the same. */
#define EXAMPLES 1000000

struct worker {
	const struct ledger_config *cfg;
	struct cluster_view *cluster;
	struct client *client;
	struct conf conf;
	struct book *book;
	const struct view *view;
	uint32_t rank;
	uint64_t incarnation, from, step;
	_Atomic uint64_t shown; /* copy of step, for the heartbeat */
	_Atomic int64_t shown_settings;
	const struct table *dense, *rows;
	int64_t settings; /* epoch of the settings in conf */
	bool averaged;    /* the last push was in bsp */
	uint32_t unit, ranks;
	float *gradient, *seen;  /* of the dense table */
	uint64_t bad;            /* receipts that were late or refused */
	double sum;              /* of all cells of the dense table, when last pulled */
	float row[LEDGER_WIDTH]; /* a row's gradient */
	/* For every rank the cell to which this step adds, before the step. */
	float cell_before[LEDGER_RANKS], row_before[LEDGER_RANKS * LEDGER_WIDTH];
	bool admitted; /* a view has shown us as the holder of our rank */
	bool joined;
};

/* ---- the cluster ---- */

static bool is_interrupted(const struct worker *w)
{
	struct pollfd p = { w->cfg->interrupt_fd, POLLIN, 0 };

	return poll(&p, 1, 0) > 0;
}

static const struct view_worker *worker_row_of_view(const struct view *view)
{
	return view ? view->worker : NULL;
}

static enum err_code refresh_view(struct worker *w, struct err *e)
{
	const struct view_worker *row;

	if (cluster_view_changed(w->cluster) || !w->view) {
		view_release(w->view);
		w->view = cluster_view_current(w->cluster);
		if (w->client && client_apply_view(w->client, w->view, e))
			return e->code;
	}
	if (cluster_view_is_lost(w->cluster, e) || cluster_view_is_over(w->view, e))
		return e->code;
	row = worker_row_of_view(w->view);
	if (w->joined && (!row || row->incarnation != w->incarnation))
		return err_set(e, ERR_FENCED, "rank %u has another holder", w->rank);
	if (w->joined && row->state == WORKER_LOST)
		return err_set(e, ERR_FENCED, "rank %u was declared lost", w->rank);
	return ERR_OK;
}

/* Tells the coordinator which layout we use, as a worker does: servers that join wait for this. */
static void confirm_layout(struct worker *w)
{
	if (w->client)
		cluster_view_confirm_layout(w->cluster, client_confirmed_epoch(w->client));
}

static bool is_cancelled(void *ctx, struct err *why)
{
	if (refresh_view(ctx, why) != ERR_OK)
		return true;
	confirm_layout(ctx);
	return false;
}

static void name_waiting_for(void *ctx, uint64_t step, struct buf *out)
{
	cluster_view_stragglers(((struct worker *)ctx)->cluster, step, out);
}

static void tell_missed_relay(void *ctx, unsigned relay, uint32_t epoch, const char *why)
{
	cluster_view_report_relay(((struct worker *)ctx)->cluster, relay, epoch, why);
}

static json_t *heartbeat_stats(void *ctx)
{
	struct worker *w = ctx;

	return json_pack("{s:I, s:I, s:I}", "step", (json_int_t)atomic_load(&w->shown), "settings",
	    (json_int_t)atomic_load(&w->shown_settings), "settings_step",
	    (json_int_t)atomic_load(&w->shown));
}

static enum err_code call_coordinator(struct worker *w, json_t *msg, struct err *e)
{
	json_t *answer;
	enum err_code rc = agent_call(cluster_view_agent(w->cluster), msg, CALL_TIMEOUT, &answer,
	    e);

	if (!rc)
		json_decref(answer);
	json_decref(msg);
	return rc;
}

/* ---- joining ---- */

static json_t *make_ledger_tables(const struct worker *w)
{
	struct table t = { .sparse = true, .cols = LEDGER_WIDTH, .rows = w->cfg->cells };
	json_t *list = json_array();

	snprintf(t.name, sizeof t.name, LEDGER_ROWS);
	json_array_append_new(list, table_to_json(&t));
	t = (struct table){ .rows = (uint64_t)w->conf.workers.max, .cols = w->cfg->cells };
	snprintf(t.name, sizeof t.name, LEDGER_DENSE);
	json_array_append_new(list, table_to_json(&t));
	return list;
}

static enum err_code join_cluster(struct worker *w, struct err *e)
{
	char host[64] = "";
	json_t *msg, *answer;
	enum err_code rc;

	gethostname(host, sizeof host - 1);
	msg = json_pack("{s:s, s:s, s:b, s:i, s:i, s:s, s:I, s:o}", "op", "worker_join", "zone",
	    w->cfg->zone ? w->cfg->zone : "", "evaluates", 0, "rank", (int)w->cfg->rank, "pid",
	    (int)getpid(), "host", host, "examples", (json_int_t)EXAMPLES, "tables",
	    make_ledger_tables(w));
	rc = agent_call(cluster_view_agent(w->cluster), msg, CALL_TIMEOUT, &answer, e);
	if (!rc) {
		w->rank = (uint32_t)json_int(answer, "rank", 0);
		agent_set_join(cluster_view_agent(w->cluster), msg);
		json_decref(answer);
	}
	json_decref(msg);
	return rc;
}

/* True when the job lets us begin, or we have to find out why not.  A rank that was ours and has
 * another incarnation is lost, as for a training worker. */
static bool may_begin_steps(void *ctx, const struct view *view)
{
	struct worker *w = ctx;
	const struct view_worker *row = worker_row_of_view(view);
	struct err ignored;

	if (!view)
		return false;
	if (cluster_view_is_over(view, &ignored))
		return true;
	if (!row || row->incarnation != w->incarnation)
		return w->admitted;
	w->admitted = true;
	return !view_phase_is(view, PHASE_FORMING) && row->state != WORKER_JOINING;
}

static enum err_code find_ledger_tables(struct worker *w, struct err *e)
{
	enum err_code rc = client_apply_view(w->client, w->view, e);

	if (rc)
		return rc;
	w->dense = layout_find(client_layout(w->client), LEDGER_DENSE);
	w->rows = layout_find(client_layout(w->client), LEDGER_ROWS);
	if (!w->dense || !w->rows || w->dense->cols != w->cfg->cells || w->dense->nparts != 1)
		return err_set(e, ERR_CONFIG,
		    "the cluster has no ledger of one partition with %u cells a rank",
		    w->cfg->cells);
	return ERR_OK;
}

static bool is_agent_up(void *ctx)
{
	return agent_is_up(cluster_view_agent(((struct worker *)ctx)->cluster));
}

static enum err_code begin_work(struct worker *w, struct err *e)
{
	struct client_config cc = { .id = w->cfg->id,
		.rank = w->rank,
		.incarnation = w->incarnation,
		.transport = transport_find(w->conf.transport),
		.deadline = w->conf.deadline,
		.log = w->cfg->log,
		.ctx = w,
		.list_stragglers = name_waiting_for,
		.missed = tell_missed_relay,
		.coordinator_is_up = is_agent_up,
		.attend = is_cancelled,
		.attend_fd = cluster_view_fd(w->cluster) };
	const struct view *view;
	enum err_code rc = cluster_view_await(w->cluster, may_begin_steps, w, 0, &view, e);

	if (rc)
		return rc;
	view_release(view);
	w->joined = true;
	rc = refresh_view(w, e);
	if (!rc)
		rc = client_new(&cc, &w->client, e);
	if (!rc)
		rc = find_ledger_tables(w, e);
	if (!rc)
		rc = book_open(w->cfg->book, w->rank, w->incarnation, &w->book, e);
	if (rc)
		return rc;
	w->ranks = (uint32_t)w->conf.workers.max;
	w->unit = ledger_unit(&w->conf);
	w->gradient = client_gradients(w->client, table_elements(w->dense));
	if (!w->gradient)
		return err_set(e, ERR_NOMEM, "no memory for a gradient");
	w->seen = mem_array(table_elements(w->dense), sizeof *w->seen);
	for (uint32_t i = 0; i < LEDGER_WIDTH; i++)
		w->row[i] = -(float)w->unit;
	w->from = w->step = (uint64_t)worker_row_of_view(w->view)->from;
	log_info(w->cfg->log, "rank %u begins at step %llu", w->rank, (unsigned long long)w->from);
	return ERR_OK;
}

/* ---- a step ---- */

static uint32_t cell_of_step(const struct worker *w, uint64_t step)
{
	return (uint32_t)(step % w->cfg->cells);
}

static float *own_gradient_cell(struct worker *w, uint64_t step)
{
	return w->gradient + (size_t)w->rank * w->cfg->cells + cell_of_step(w, step);
}

/* Checks what the last step added to each rank's value; values are `stride` floats apart. averaged:
 * all that pushed must have added equal shares of one unit in all; otherwise our own value must
 * have grown by one unit. *part becomes what our own value grew by. */
static enum err_code judge_added(const struct worker *w, const char *what, bool averaged,
    const float *before, const float *after, size_t stride, uint32_t *part, struct err *e)
{
	float own = after[w->rank * stride] - before[w->rank * stride], sum = 0;
	bool equal = own > 0;

	for (uint32_t v = 0; v < w->ranks; v++) {
		float added = after[v * stride] - before[v * stride];

		sum += added;
		equal &= !averaged || added == 0 || added == own;
	}
	*part = (uint32_t)own;
	if (equal && (averaged ? sum : own) == (float)w->unit)
		return ERR_OK;
	return err_set(e, ERR_FAILED,
	    "WRONG SUM: step %llu has added %.9g of %u to own cell of the %s table, %.9g in all",
	    (unsigned long long)w->step - 1, (double)own, w->unit, what, (double)sum);
}

/* Was the last push to this table in bsp, where job.rules does not say that each push is an update? */
static bool averages(const struct worker *w, const char *table)
{
	struct conf_rule rule;

	return w->averaged &&
	    (conf_job_rule(&w->conf, &rule, NULL) || !conf_rule_of_table(&rule, table).on_arrival);
}

/* Has a view that arrived after the last step began changed the mode of that step? The servers may have decided
 * it just before they answered the step's pulls. Waits a while for such a view. */
static bool has_changed_mode(struct worker *w)
{
	int64_t end = clock_now() + 2 * NSEC_PER_SEC;
	bool was = w->averaged;
	struct err ignored;

	do {
		struct conf c;

		if (refresh_view(w, &ignored) ||
		    conf_at(w->view->config, w->view->changes, w->view->nchanges, w->step - 1, &c,
		        &ignored))
			return false;
		w->averaged = sync_sums_steps(&c.sync);
		conf_release(&c);
	} while (w->averaged == was && clock_now() < end &&
	    !cluster_view_await_change(w->cluster, 100 * NSEC_PER_MSEC, &ignored));
	return w->averaged != was;
}

static enum err_code judge_last_step(const struct worker *w, const float *cells, const float *rows,
    uint32_t *dense, uint32_t *sparse, struct err *e)
{
	enum err_code rc = judge_added(w, "dense", averages(w, LEDGER_DENSE), w->cell_before, cells,
	    1, dense, e);

	return rc ? rc
	          : judge_added(w, "sparse", averages(w, LEDGER_ROWS), w->row_before, rows,
	                LEDGER_WIDTH, sparse, e);
}

/* Checks the step before, whose pushes are all acknowledged, and writes its ack to the book. */
static enum err_code check_last_step(struct worker *w, const float *rows, struct err *e)
{
	float cells[LEDGER_RANKS];
	uint32_t last = cell_of_step(w, w->step - 1), dense, sparse;
	double sum = 0;
	enum err_code rc;

	for (uint32_t v = 0; v < w->ranks; v++)
		cells[v] = w->seen[(size_t)v * w->cfg->cells + last];
	for (uint64_t i = 0; i < table_elements(w->dense); i++)
		sum += (double)w->seen[i];
	if (sum < w->sum)
		return err_set(e, ERR_FAILED,
		    "WENT BACK: at step %llu the table's sum is %.17g after %.17g",
		    (unsigned long long)w->step, sum, w->sum);
	w->sum = sum;
	rc = judge_last_step(w, cells, rows, &dense, &sparse, e);
	if (rc && has_changed_mode(w)) {
		*e = (struct err){ 0 };
		rc = judge_last_step(w, cells, rows, &dense, &sparse, e);
	}
	return rc ? rc : book_ack(w->book, w->step - 1, dense, sparse, e);
}

/* Tells an observer what this step has pulled. */
static void note_pull(const struct worker *w)
{
	ledger_note_pull(&(struct ledger_pull){ .rank = w->rank,
	    .ranks = w->ranks,
	    .cells = w->cfg->cells,
	    .incarnation = w->incarnation,
	    .step = w->step,
	    .mode = &w->conf.sync,
	    .exact = !w->conf.backup,
	    .seen = w->seen });
}

/* Waits for the receipts of the step before, checks what it added, and reads the cells to which
 * this step will add. */
static enum err_code await_last_step(struct worker *w, struct err *e)
{
	uint64_t ids[2 * LEDGER_RANKS], bad;
	float rows[2 * LEDGER_RANKS * LEDGER_WIDTH];
	struct client_stats cs;
	uint32_t n = w->ranks;
	bool awaits = !w->averaged && w->rank % 2 == 0;
	enum err_code rc = awaits ? client_wait_receipts(w->client, e) : ERR_OK;

	if (rc)
		return rc;
	for (uint32_t v = 0; v < n; v++) {
		ids[v] = ledger_row(w->rows, v, cell_of_step(w, w->step));
		ids[n + v] = ledger_row(w->rows, v, cell_of_step(w, w->step - 1));
	}
	rc = (w->conf.pull_delta ? client_want_changed_rows : client_want_rows)(w->client, w->rows,
	    w->step, ids, w->step > w->from ? 2 * n : n, rows, e);
	if (!rc)
		rc = client_want(w->client, w->dense, w->step, NULL, w->seen, e);
	if (!rc)
		rc = client_wait(w->client, w->step, e);
	/* Odd ranks wait for the receipts of ssp and asp after they have pulled: what they pulled must
	 * have their own pushes all the same. */
	if (!rc && !w->averaged)
		rc = client_wait_receipts(w->client, e);
	if (rc)
		return rc;
	client_stats(w->client, &cs);
	bad = cs.receipts[PUSH_LATE] + cs.receipts[PUSH_REFUSED];
	if (bad > w->bad && !w->conf.backup)
		return err_set(e, ERR_FAILED,
		    "CLOSED EARLY: a push of step %llu was late or refused, without backup workers",
		    (unsigned long long)w->step - 1);
	note_pull(w);
	if (w->step > w->from) {
		*own_gradient_cell(w, w->step - 1) = 0;
		rc = bad > w->bad ? book_not_applied(w->book, w->step - 1, e)
		                  : check_last_step(w, rows + n * LEDGER_WIDTH, e);
	}
	w->bad = bad;
	memcpy(w->row_before, rows, n * LEDGER_WIDTH * sizeof *rows);
	for (uint32_t v = 0; v < n; v++)
		w->cell_before[v] = w->seen[(size_t)v * w->cfg->cells + cell_of_step(w, w->step)];
	return rc;
}

/* Applies the settings that hold from this step on.  Outside of bsp, a change may name a later
 * step: then the worker jumps to that step, and sets *jumped. */
static enum err_code apply_ledger_settings(struct worker *w, bool *jumped, struct err *e)
{
	enum err_code rc = ERR_OK;
	/* A CLOCK may wait, and another view be taken over meanwhile. */
	const struct view *view = view_ref(w->view);

	for (size_t i = 0; i < view->nchanges; i++) {
		const struct setting *r = &view->changes[i];
		bool bsp = sync_sums_steps(&w->conf.sync);
		uint64_t step = (uint64_t)r->step;

		if (rc || (bsp && step > w->step))
			break;
		if (r->number <= w->settings)
			continue;
		rc = conf_apply(&w->conf, r->set, e);
		w->settings = r->number;
		if (rc || step <= w->step)
			continue;
		rc = client_clock(w->client, step - 1, 0, e);
		w->from = w->step = step;
		*jumped = true;
	}
	view_release(view);
	atomic_store(&w->shown_settings, w->settings);
	return rc;
}

/* Waits for a view with all the members of which the servers have told us. */
static enum err_code learn_members(struct worker *w, struct err *e)
{
	enum err_code rc = refresh_view(w, e);

	while (!rc &&
	    client_members(w->client) > (uint64_t)w->view->members_base + w->view->nmembers) {
		rc = cluster_view_await_change(w->cluster, 100 * NSEC_PER_MSEC, e);
		if (!rc)
			rc = refresh_view(w, e);
	}
	return rc;
}

/* Checks the step before, and begins this one with the settings that hold for it. */
static enum err_code open_ledger_step(struct worker *w, struct err *e)
{
	bool jumped = true;
	enum err_code rc = ERR_OK;

	while (!rc && jumped) {
		jumped = false;
		rc = await_last_step(w, e);
		if (!rc)
			rc = learn_members(w, e);
		if (!rc)
			rc = apply_ledger_settings(w, &jumped, e);
	}
	w->averaged = sync_sums_steps(&w->conf.sync);
	return rc;
}

static enum err_code push_ledger_step(struct worker *w, struct err *e)
{
	enum err_code rc = open_ledger_step(w, e);
	uint64_t id = ledger_row(w->rows, w->rank, cell_of_step(w, w->step));

	confirm_layout(w);
	/* No push or pull is in flight: a new layout may be adopted now. */
	if (!rc)
		rc = find_ledger_tables(w, e);
	if (!rc)
		rc = book_begin(w->book, w->step, e);
	if (!rc)
		ledger_note_push(w->rank, w->incarnation, w->step, w->cell_before[w->rank]);
	*own_gradient_cell(w, w->step) = -(float)w->unit;
	if (!rc)
		rc = client_push(w->client, w->dense, w->step, 1, w->gradient, e);
	if (!rc)
		rc = client_push_rows(w->client,
		    &(struct row_push){ .table = w->rows,
		        .step = w->step,
		        .examples = 1,
		        .ids = &id,
		        .n = 1,
		        .g = w->row },
		    e);
	if (!rc)
		rc = client_clock(w->client, w->step, 0, e);
	atomic_store(&w->shown, ++w->step);
	return rc;
}

/* ---- the end ---- */

static bool is_job_settled(void *ctx, const struct view *view)
{
	struct worker *w = ctx;
	struct err ignored;

	return view &&
	    (cluster_view_is_over(view, &ignored) || view_phase_is(view, PHASE_DONE) ||
	        (view_phase_is(view, PHASE_FINISHING) && view->evaluator == (int64_t)w->rank));
}

static enum err_code finish_work(struct worker *w, struct err *e)
{
	enum err_code rc = await_last_step(w, e);
	char hex[65];

	if (!rc)
		rc = client_done(w->client, e);
	if (!rc)
		rc = call_coordinator(w,
		    json_pack("{s:s, s:I}", "op", "done", "steps", (json_int_t)w->step), e);
	while (!rc) {
		const struct view *view;
		bool over;

		rc = cluster_view_await(w->cluster, is_job_settled, w, 0, &view, e);
		if (rc)
			break;
		rc = cluster_view_is_over(view, e);
		over = view_phase_is(view, PHASE_DONE);
		view_release(view);
		if (rc || over)
			break;
		rc = model_digest(w->client, hex, e);
		if (!rc)
			rc = call_coordinator(w,
			    json_pack("{s:s, s:I, s:s}", "op", "result", "step",
			        (json_int_t)w->step, "digest", hex),
			    e);
	}
	return rc;
}

static enum err_code live_as_worker(struct worker *w, struct err *e)
{
	const struct view *view = cluster_view_current(w->cluster);
	enum err_code rc = conf_from_json(view->config, &w->conf, e);

	w->settings = view->settings_base;
	w->averaged = sync_sums_steps(&w->conf.sync);
	view_release(view);
	if (!rc && w->conf.workers.max > LEDGER_RANKS)
		rc = err_set(e, ERR_CONFIG, "at most %d workers can be told apart", LEDGER_RANKS);
	if (!rc) {
		agent_set_pace(cluster_view_agent(w->cluster), w->conf.heartbeat, w->conf.deadline);
		rc = join_cluster(w, e);
	}
	if (!rc)
		rc = begin_work(w, e);
	while (!rc && !is_interrupted(w) && (!w->cfg->steps || w->step < w->cfg->steps))
		rc = push_ledger_step(w, e);
	return rc ? rc : finish_work(w, e);
}

enum err_code ledger_work(const struct ledger_config *cfg, struct err *e)
{
	struct worker w = { .cfg = cfg };
	struct cluster_view_config cc = { .id = cfg->id,
		.role = ROLE_WORKER,
		.heartbeat = 200 * NSEC_PER_MSEC,
		.deadline = 60 * NSEC_PER_SEC,
		.log = cfg->log,
		.stats = heartbeat_stats,
		.ctx = &w };
	enum err_code rc;

	randombytes_buf(&w.incarnation, sizeof w.incarnation);
	w.incarnation >>= 1;
	cc.incarnation = w.incarnation;
	rc = cluster_view_open(&cc, &w.cluster, e);
	if (!rc)
		rc = live_as_worker(&w, e);
	if (rc && w.client)
		cluster_view_give_up(w.cluster, e, false);
	client_free(w.client);
	cluster_view_close(w.cluster);
	conf_release(&w.conf);
	book_close(w.book);
	view_release(w.view);
	free(w.seen);
	return rc;
}

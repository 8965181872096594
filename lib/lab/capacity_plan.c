/* SPDX-License-Identifier: ISC */
#include "lab/capacity_plan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "conf/conf_rule.h"
#include "core/mem.h"
#include "layout/layout.h"
#include "optim/optim.h"
#include "wire/payload.h"

/* I/O threads of a server, as in lib/cluster/server/server.c. */
#define LANES_MAX 4u
/* Memory that a session may use (P6 in ps-consistency(7)). */
#define SESSION_BYTES (18.0 * (1 << 20))
#define SHARED_BYTES  (8.0 * (1 << 20))
/* Bytes that a server prepares before it writes, as in lib/cluster/server/server_state.h. */
#define AHEAD_BYTES  (1 << 20)
#define RECORD_BYTES (RECORD_HEAD + RECORD_TAG)

static const struct capacity_plan_cost_info infos[] = {
#define COST(name, per, help) { #name, per, help },
#include "lab/plan_cost.def"
#undef COST
};

const struct capacity_plan_cost_info *capacity_plan_cost_at(size_t i)
{
	return i < PLAN_COSTS ? &infos[i] : NULL;
}

/* ---- the job ---- */

/* The evaluation data are left out, since no gradient needs them. Warnings of loading go to stderr.
 * Dense tables are cut into partitions of PART_ELEMENTS values, each table by itself. */
enum err_code capacity_plan_facts_load(const struct conf *c, struct capacity_plan_facts *out,
    struct err *e)
{
	json_t *config = conf_to_json(c);
	struct log quiet;
	enum err_code rc;

	*out = (struct capacity_plan_facts){ 0 };
	log_init(&quiet, "plan", STDERR_FILENO, LOG_LEVEL_WARN);
	json_object_del(json_object_get(config, "job"), "eval");
	rc = job_load(config, &(struct job_source){ .models = model_kinds_all, .log = &quiet },
	    &out->job, e);
	json_decref(config);
	if (rc)
		return rc;
	out->tried = true;
	out->examples = (double)out->job.train->rows;
	for (size_t i = 0; i < out->job.ntables; i++) {
		const struct model_table *t = &out->job.table[i];
		double n = (double)(t->rows * t->cols);

		if (t->sparse)
			out->row_values += (double)t->cols;
		else
			out->parts += (unsigned)ceil(n / PART_ELEMENTS);
		out->values += t->sparse ? 0 : n;
	}
	return ERR_OK;
}

void capacity_plan_facts_release(struct capacity_plan_facts *f)
{
	if (f->tried)
		job_release(&f->job);
	*f = (struct capacity_plan_facts){ 0 };
}

/* ---- what it costs ---- */

/* The speed of a core changes from second to second with the load of its neighbours, on shared
 * machines by half. Everything is measured in this many rounds, and the mean counts. */
#define ROUNDS 4u

struct plan_seen {
	struct plan_seen *next;
	char *what;
	unsigned rounds;
	double v[5]; /* means of the rounds */
};

void capacity_plan_init(struct plan *p)
{
	*p = (struct plan){ .place = { .compute = { .seconds = -1, .times = 1 },
		                .slow = { .times = 1 } } };
	for (size_t i = 0; i < PLAN_COSTS; i++)
		p->fixed[i] = NAN;
}

void capacity_plan_release(struct plan *p)
{
	struct plan_seen *s;

	while ((s = p->seen)) {
		p->seen = s->next;
		free(s->what);
		free(s);
	}
	capacity_plan_facts_release(&p->facts);
}

/* The measurements named `what` so far, perhaps none. Takes ownership of what. */
static struct plan_seen *find_measurement(struct plan *p, char *what)
{
	struct plan_seen *s = p->seen;

	while (s && strcmp(s->what, what) != 0)
		s = s->next;
	if (s) {
		free(what);
		return s;
	}
	s = mem_alloc(sizeof *s);
	s->what = what;
	s->next = p->seen;
	p->seen = s;
	return s;
}

/* Adds one round to the means. */
static void add_round(struct plan_seen *s, const double *v, size_t n)
{
	s->rounds++;
	for (size_t i = 0; i < n; i++)
		s->v[i] += (v[i] - s->v[i]) / s->rounds;
}

static enum suite suite_of(const struct plan *p, const struct conf *c)
{
	enum suite s = p->place.remote ? SUITE_CHACHA20POLY1305 : SUITE_POLY1305;

	if (strcmp(c->suite, "auto") != 0)
		suite_parse(c->suite, &s);
	return s;
}

/* Did the user give all of these n costs, so that they need no measurement? */
static bool are_given(const struct plan *p, unsigned first, unsigned n)
{
	for (unsigned i = first; i < first + n; i++)
		if (isnan(p->fixed[i]))
			return false;
	return true;
}

/* The mean over the rounds is remembered under the transport and the cipher suite. Nothing is
 * measured when the user gives all five costs. */
static enum err_code measure_wire(struct plan *p, const struct conf *c, unsigned round,
    struct capacity_plan_costs *out, struct err *e)
{
	const char *way = p->place.remote ? "tcp"
	    : conf_shares_memory(c)       ? "shm"
	    : c->mem_limit                ? "unix"
	                                  : c->transport;
	enum suite suite = suite_of(p, c);
	struct plan_seen *s = find_measurement(p, mem_printf("wire %s %d", way, (int)suite));
	enum err_code rc = ERR_OK;
	struct gauge_wire w = { 0 };

	_Static_assert(PLAN_hop == PLAN_seal + 4,
	    "seal, send, take, message and hop are copied in a row");
	if (s->rounds <= round && !are_given(p, PLAN_seal, 5)) {
		rc = gauge_wire(way, suite, (size_t)(p->facts.values * 4), &w, e);
		add_round(s, (double[]){ w.seal_byte, w.send_byte, w.take_byte, w.message, w.hop },
		    5);
	}
	memcpy(&out->v[PLAN_seal], s->v, 5 * sizeof *s->v);
	return rc;
}

/* cols: 0 for dense tables. */
static enum err_code measure_store(struct plan *p, const struct conf *c,
    const struct codec_spec *codec, uint32_t cols, unsigned round, struct capacity_plan_costs *out,
    struct err *e)
{
	bool sums = sync_sums_steps(&c->sync);
	double n = cols ? p->facts.ids * cols : p->facts.values;
	struct plan_seen *s = find_measurement(p,
	    mem_printf("store %s %u %d %s %d %s", cols ? "rows" : c->codec, cols, sums,
	        c->job.optimizer, c->local_steps > 1, c->outer));
	struct gauge_store g = { 0 };
	enum err_code rc = ERR_OK;

	_Static_assert(PLAN_answer == PLAN_sum + 2 && PLAN_row_answer == PLAN_row_sum + 2,
	    "sum, update and answer are copied in a row");
	if (s->rounds <= round && n > 0) {
		rc = gauge_store(c, codec, (size_t)n, cols, &g, e);
		add_round(s, (double[]){ g.sum, g.update, g.answer, g.bytes }, 4);
	}
	memcpy(&out->v[cols ? PLAN_row_sum : PLAN_sum], s->v, 3 * sizeof *s->v);
	if (!cols)
		out->push_value = s->v[3];
	return rc;
}

/* Measures the gradient of a batch, unless the user gave its time. */
static enum err_code measure_batch(struct plan *p, const struct conf *c, unsigned round,
    struct capacity_plan_costs *out, struct err *e)
{
	struct gauge_model m = { .crowded = 1 };
	enum err_code rc = ERR_OK;
	struct plan_seen *s;

	out->v[PLAN_crowded] = 1;
	out->v[PLAN_batch] = p->place.compute.seconds;
	if (!p->facts.tried && p->place.compute.seconds < 0 && isnan(p->fixed[PLAN_batch]))
		return err_set(e, ERR_CONFIG,
		    "--compute is required, because without data no batch can be measured");
	if (!p->facts.tried)
		return ERR_OK;
	s = find_measurement(p, mem_printf("batch %lld", (long long)c->job.batch));
	if (s->rounds <= round) {
		p->facts.job.conf.job.batch = c->job.batch;
		rc = gauge_model(&p->facts.job, p->place.cores ? p->place.cores : 1, &m, e);
		add_round(s, (double[]){ m.gather + m.gradient, m.crowded, (double)m.ids }, 3);
	}
	if (p->place.compute.seconds < 0)
		out->v[PLAN_batch] = s->v[0];
	out->v[PLAN_crowded] = s->v[1];
	p->facts.ids = s->v[2];
	return rc;
}

/* Measures encoding, decoding, and the local update rule. */
static void measure_codecs(struct plan *p, const struct conf *c, const struct codec_spec *codec,
    unsigned round, struct capacity_plan_costs *out)
{
	size_t n = (size_t)p->facts.values;
	struct plan_seen *s = find_measurement(p,
	    mem_printf("encode %s %d", c->codec, c->feedback));
	double v[3] = { 0 };

	if (s->rounds <= round)
		add_round(s, (double[]){ gauge_encode(codec, c->feedback, n) }, 1);
	out->v[PLAN_encode] = s->v[0];
	s = find_measurement(p, mem_printf("pull %s", c->pull_codec));
	if (s->rounds <= round) {
		gauge_pull(codec_by_name(c->pull_codec), n, &v[0], &v[1], &v[2]);
		add_round(s, v, 3);
	}
	out->v[PLAN_answer] += s->v[0];
	out->v[PLAN_decode] = s->v[1];
	out->pull_value = s->v[2];
	s = find_measurement(p, mem_printf("rule %s", c->job.optimizer));
	_Static_assert(PLAN_copy == PLAN_rule + 1, "rule and copy are in a row");
	if (s->rounds <= round && !are_given(p, PLAN_rule, 2))
		add_round(s, (double[]){ gauge_rule(c, n), gauge_copy(n) }, 2);
	out->v[PLAN_rule] = s->v[0];
	out->v[PLAN_copy] = s->v[1];
}

/* All costs are measured ROUNDS times, one round after the other rather than one cost after the
 * other, so that a disturbance of a second does not fall on a single cost. Costs that the user
 * gives replace the measured ones at the end. */
enum err_code capacity_plan_measure(struct plan *p, const struct conf *c,
    struct capacity_plan_costs *out, struct err *e)
{
	struct codec_spec codec;
	enum err_code rc = codec_parse(c->codec, &codec, e);

	if (!rc && strcmp(c->via, "allreduce") == 0)
		rc = err_set(e, ERR_CONFIG, "via: all-reduce is not simulated; use via servers");
	for (unsigned round = 0; !rc && round < ROUNDS; round++) {
		*out = (struct capacity_plan_costs){ 0 };
		rc = measure_batch(p, c, round, out, e);
		if (!rc)
			rc = measure_wire(p, c, round, out, e);
		if (!rc)
			rc = measure_store(p, c, &codec, 0, round, out, e);
		if (!rc && p->facts.row_values > 0)
			rc = measure_store(p, c, &codec, (uint32_t)p->facts.row_values, round, out,
			    e);
		if (!rc)
			measure_codecs(p, c, &codec, round, out);
	}
	for (size_t i = 0; i < PLAN_COSTS; i++)
		if (!isnan(p->fixed[i]))
			out->v[i] = p->fixed[i];
	return rc;
}

/* ---- the simulation ---- */

/* Bytes a pull transfers per value of a dense table. Normally all of them. With pull_delta only
 * what pushes have changed: each push changes a random share of the values, and some update rules
 * (keeps_untouched) leave the others alone. The positions take about as many bits as their
 * distances need. Rows of sparse tables count as changed. */
static double pulled_value(const struct conf *c, const struct capacity_plan_costs *k)
{
	const struct optim_rule *rule = optim_find(c->job.optimizer);
	bool alone = rule && rule->keeps_untouched;
	struct codec_spec spec;
	double share;

	if (!c->pull_delta || !alone || c->local_steps > 1 || codec_parse(c->codec, &spec, NULL) ||
	    spec.codec->takes != CODEC_FRACTION)
		return k->pull_value;
	share = 1 - pow(1 - spec.arg, (double)c->workers.max);
	return fmin(k->pull_value, share * (k->pull_value + (1.5 - log2(share)) / 8));
}

/* Bytes of the values of pushed rows. */
static double push_row_bytes(const struct plan *p, const struct conf *c, double ids)
{
	struct codec_spec spec;
	double values = ids * p->facts.row_values;

	if (codec_parse(c->codec, &spec, NULL) || !spec.codec->lossy ||
	    spec.codec->takes == CODEC_FRACTION)
		return values * 4;
	return values * (double)spec.codec->bound(spec.arg, 4096) / 4096;
}

/* Bytes of the row ids of a push or pull. A push need not repeat a list that has just come with a
 * pull (row_ids cached). */
static double id_bytes(const struct plan *p, const struct conf *c, double ids)
{
	double all = p->facts.tried && p->facts.job.train->nids > 0
	    ? (double)p->facts.job.train->nids
	    : ids;

	if (strcmp(c->row_ids, "raw") == 0)
		return ids * 8;
	return ids * (1.5 + log2(fmax(1, all / fmax(1, ids)))) / 8;
}

struct amounts {
	/* of a step: values of dense tables, values of rows, features */
	double dense, rows, ids;
	double push, pull, ask; /* bytes */
};

/* Values, rows and bytes of one worker's step, over all servers. Row ids are of all batches
 * of a step, and at most those that the data have. Each partition of a push and of an answer has a
 * record's head, and each server two records more. */
static struct amounts amounts_of(const struct plan *p, const struct conf *c,
    const struct capacity_plan_costs *k)
{
	double batches = (double)(c->accumulate * c->local_steps), servers = (double)c->servers;
	struct amounts a = { .dense = p->facts.values, .ids = p->facts.ids * batches };
	double heads = RECORD_BYTES * (p->facts.parts + 2 * servers), ids = id_bytes(p, c, a.ids);

	if (p->facts.tried && p->facts.job.train->nids > 0)
		a.ids = fmin(a.ids, (double)p->facts.job.train->nids);
	a.rows = a.ids * p->facts.row_values;
	a.push = a.dense * k->push_value + heads + push_row_bytes(p, c, a.ids) +
	    (strcmp(c->row_ids, "cached") == 0 ? 0 : ids);
	a.pull = a.dense * pulled_value(c, k) + heads + a.rows * 4;
	a.ask = servers * (RECORD_BYTES + PAYLOAD_RUN_BYTES) + ids;
	return a;
}

/* Copies what does not depend on sizes. The I/O threads of a server are as many as the host has
 * cores, up to LANES_MAX. The cost of waking a process (PLAN_hop) becomes part of a worker's delay,
 * in seconds. */
static void spec_of_place(const struct plan *p, const struct conf *c, const double *v,
    struct sim_spec *out)
{
	long here = sysconf(_SC_NPROCESSORS_ONLN);
	unsigned lanes = p->place.cores ? p->place.cores : here > 0 ? (unsigned)here : 1;

	*out = (struct sim_spec){ .workers = (unsigned)c->workers.max,
		.servers = (unsigned)c->servers,
		.replicas = (unsigned)c->replicas,
		.sync = c->sync,
		.compute = p->place.compute,
		.slow = p->place.slow,
		.worker = p->place.worker,
		.server = p->place.server,
		.cores = p->place.cores,
		.carried = p->place.carried,
		.crowded = v[PLAN_crowded] < 1 ? 1 : v[PLAN_crowded],
		.seed = p->place.seed,
		.steps = p->place.steps,
		.prefetch = c->prefetch };
	out->sync.backup = (unsigned)c->backup;
	out->lanes = lanes < LANES_MAX ? lanes : LANES_MAX;
	out->worker.delay += v[PLAN_hop];
}

/* Each time is a sum of amounts (values, rows, bytes) times the cost of one in seconds. The names
 * follow struct sim_spec: make comes before the first byte, send and take overlap with the
 * transfer. */
void capacity_plan_spec(const struct plan *p, const struct conf *c,
    const struct capacity_plan_costs *k, struct sim_spec *out)
{
	const double *v = k->v;
	double steps = (double)c->local_steps, batches = (double)c->accumulate * steps,
	       servers = (double)c->servers;
	double touched = p->facts.values + p->facts.ids * p->facts.row_values,
	       message = servers * v[PLAN_message];
	struct amounts a = amounts_of(p, c, k);
	bool sums = sync_sums_steps(&c->sync);

	spec_of_place(p, c, v, out);
	out->pieces = (unsigned)ceil(p->facts.parts / servers);
	out->push_bytes = a.push;
	out->pull_bytes = a.pull;
	out->ask_bytes = a.ask;
	out->ask = message + a.ask * v[PLAN_take];
	/* Besides the cost of its bytes, each server gets a record or two: the push with its CLOCK,
	 * the answer, the receipts. */
	out->make_push = a.dense * v[PLAN_encode] + a.rows * v[PLAN_copy] + a.push * v[PLAN_seal];
	out->send_push = a.push * v[PLAN_send] + message;
	out->take_push = a.dense * v[PLAN_sum] + a.rows * v[PLAN_row_sum] + a.push * v[PLAN_take] +
	    message;
	out->make_pull = a.dense * v[PLAN_answer] + a.rows * v[PLAN_row_answer] +
	    a.pull * v[PLAN_seal];
	out->send_pull = a.pull * v[PLAN_send] + 2 * message;
	out->ahead = AHEAD_BYTES;
	out->take_pull = a.dense * v[PLAN_decode] + a.pull * v[PLAN_take] + 2 * message;
	out->update = a.dense * v[PLAN_update] + a.rows * v[PLAN_row_update];
	out->copy_bytes = sums ? a.dense * 4 + a.rows * 4 + a.ids * 8 : a.push;
	out->send_copy = out->copy_bytes * (v[PLAN_seal] + v[PLAN_send]);
	out->take_copy = out->copy_bytes * v[PLAN_take] +
	    (sums ? out->update : out->take_push - a.push * v[PLAN_take]);
	out->compute.seconds = batches * v[PLAN_batch];
	if (c->accumulate > 1)
		out->compute.seconds += batches * touched * v[PLAN_copy];
	/* With local steps: a copy of the parameters first, then the steps, then the difference. */
	if (c->local_steps > 1)
		out->compute.seconds += steps * touched * v[PLAN_rule] + 3 * touched * v[PLAN_copy];
}

/* State vectors of the servers' update rules: the mean over the tables, by their values, where the
 * tables are known. */
static double state_vectors(const struct plan *p, const struct conf_rule *rule)
{
	const struct job *job = &p->facts.job;
	double values = 0, state = 0;

	for (size_t i = 0; p->facts.tried && i < job->ntables; i++) {
		double floats = (double)job->table[i].rows * (double)job->table[i].cols;

		values += floats;
		state += floats * conf_rule_of_table(rule, job->table[i].name).rule->nvectors;
	}
	return values > 0 ? state / values : rule->rule->nvectors;
}

double capacity_plan_memory(const struct plan *p, const struct conf *c, double *tables)
{
	double copies = 1 + (double)c->deterministic + (sync_sums_steps(&c->sync) ? 2 : 0),
	       sessions;
	double values = p->facts.values;
	struct conf_rule rule;

	if (conf_server_rule(c, &rule, NULL) == ERR_OK)
		copies += state_vectors(p, &rule);
	if (p->facts.tried)
		values += p->facts.row_values * (double)p->facts.job.train->nids;
	/* The first server is also the coordinator and has a second session with each process. */
	sessions = (double)(c->workers.max + c->servers) * (c->replicas > 1 ? 1 : 2) + 1;
	/* pull_delta records when each value changed. */
	*tables = (4 * copies + (c->pull_delta ? 2 : 0)) * values * (double)c->replicas /
	    (double)c->servers;
	return *tables + sessions * (SESSION_BYTES + (conf_shares_memory(c) ? SHARED_BYTES : 0));
}

double capacity_plan_samples(const struct plan *p, const struct conf *c)
{
	double steps = (double)c->job.steps * (double)conf_step_examples(c) *
	    (double)c->workers.max;
	double epochs = (double)conf_epochs(c, (uint64_t)p->facts.examples,
	                    job_most_rows(&p->facts.job)) *
	    p->facts.examples;

	if (steps > 0 && (epochs <= 0 || steps < epochs))
		return steps;
	return epochs > 0 ? epochs : p->facts.examples;
}

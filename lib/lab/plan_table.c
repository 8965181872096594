/* SPDX-License-Identifier: ISC */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conf/conf_rule.h"
#include "core/buf.h"
#include "core/mem.h"
#include "lab/plan.h"
#include "optim/optim.h"

/* ---- one configuration ---- */

void plan_candidate_release(struct planned *x)
{
	free(x->set);
	conf_release(&x->conf);
}

enum err_code plan_candidate_run(struct plan *p, struct planned *x, double samples, struct err *e)
{
	enum err_code rc = capacity_plan_measure(p, &x->conf, &x->costs, e);

	if (rc)
		return rc;
	capacity_plan_spec(p, &x->conf, &x->costs, &x->spec);
	rc = sim_run(&x->spec, &x->result, e);
	if (rc)
		return rc;
	x->seconds = samples /
	    (x->result.gradients_per_second * (double)conf_step_examples(&x->conf));
	x->memory = capacity_plan_memory(p, &x->conf, &x->tables);
	return ERR_OK;
}

/* ---- bottlenecks ---- */

/* Makes the i-th possible bottleneck of a spec twice as fast, or removes it. Returns its
 * description, or NULL past the last. */
static const char *relieve_bottleneck(struct sim_spec *p, size_t i)
{
	switch (i) {
	case 0:
		p->compute.seconds /= 2;
		return "computing gradients twice as fast";
	case 1:
		p->worker.up *= 2;
		p->worker.down *= 2;
		return "workers' links twice as fast";
	case 2:
		p->server.up *= 2;
		p->server.down *= 2;
		return "servers' links twice as fast";
	case 3:
		p->worker.delay /= 2;
		p->server.delay /= 2;
		return "round trips of half the time";
	case 4:
		p->make_push /= 2;
		p->send_push /= 2;
		p->take_pull /= 2;
		return "encoding, sending and receiving at workers twice as fast";
	case 5:
		p->take_push /= 2;
		p->update /= 2;
		p->make_pull /= 2;
		p->send_pull /= 2;
		p->send_copy /= 2;
		p->take_copy /= 2;
		return "the servers' processors twice as fast";
	case 6:
		p->carried /= 2;
		return "the proxy twice as fast";
	case 7:
		p->compute.chance = 0;
		p->slow.workers = 0;
		return "no worker that takes longer than others";
	default:
		return NULL;
	}
}

static int compare_step_seconds(const void *a, const void *b)
{
	double x = ((const struct plan_limit *)a)->step_seconds,
	       y = ((const struct plan_limit *)b)->step_seconds;

	return (x > y) - (x < y);
}

/* Simulates again with one thing relieved at a time; a gain of less than 2 % is not named. Gains do
 * not add up: relieving one bottleneck shows the next. */
enum err_code plan_limit(const struct sim_spec *spec, double step_seconds,
    struct plan_limit out[static PLAN_LIMITS], struct err *e)
{
	struct plan_limit all[PLAN_BOTTLENECKS_MAX];
	struct sim_spec p = *spec;
	struct sim_result r;
	const char *what;
	size_t n = 0;

	for (size_t i = 0; i < PLAN_BOTTLENECKS_MAX && (what = relieve_bottleneck(&p, i)) != NULL;
	     i++, p = *spec) {
		enum err_code rc = sim_run(&p, &r, e);

		if (rc)
			return rc;
		if (r.step_seconds < 0.98 * step_seconds)
			all[n++] = (struct plan_limit){ what, r.step_seconds };
	}
	qsort(all, n, sizeof *all, compare_step_seconds);
	for (size_t i = 0; i < PLAN_LIMITS; i++)
		out[i] = i < n ? all[i] : (struct plan_limit){ NULL, step_seconds };
	return ERR_OK;
}

/* ---- alternatives ---- */

struct table {
	struct plan *plan;
	const struct planned *own;
	double samples;
	struct planned *row;
	size_t n;
};

bool plan_candidate_exceeds_memory(const struct planned *x)
{
	return x->conf.mem_limit > 0 && x->memory > (double)x->conf.mem_limit;
}

/* False: a change does not apply, for example a key that the configuration lacks. *shown, which
 * must be freed, is set in any case. */
static bool apply_changes(struct conf *c, const char *sets, char **shown)
{
	char *copy = mem_strdup(sets), *save = NULL, *word;
	struct buf out = BUF_INIT;
	bool good = true;

	for (word = strtok_r(copy, " ", &save); good && word; word = strtok_r(NULL, " ", &save)) {
		good = conf_set(c, word, NULL) == ERR_OK;
		buf_printf(&out, "%s--set %s", out.len ? " " : "", word);
	}
	free(copy);
	*shown = mem_strdup(out.len ? (char *)out.data : "");
	buf_release(&out);
	return good;
}

/* Simulates the file's configuration with the changes `sets` ("a=b c=d") and adds it to the table.
 * Skips it when nothing changes, the cluster could not start with it, or the simulator does not
 * support it. */
static enum err_code add_alternative(struct table *t, const char *sets, struct err *e)
{
	json_t *o = conf_to_json(&t->own->conf);
	struct planned x = { 0 };
	char *diff = NULL;
	enum err_code rc = conf_from_json(o, &x.conf, e);

	json_decref(o);
	if (!rc && apply_changes(&x.conf, sets, &x.set) && conf_validate(&x.conf, NULL) == ERR_OK &&
	    (diff = conf_diff(&x.conf, &t->own->conf)) != NULL) {
		rc = plan_candidate_run(t->plan, &x, t->samples, e);
		if (!rc && !plan_candidate_exceeds_memory(&x)) {
			t->row = mem_regrow(t->row, t->n + 1, sizeof *t->row);
			t->row[t->n++] = x;
			free(diff);
			return ERR_OK;
		}
		rc = rc == ERR_CONFIG ? ERR_OK : rc;
	}
	free(diff);
	plan_candidate_release(&x);
	return rc;
}

static enum err_code add_alternative_number(struct table *t, const char *key, int64_t n,
    struct err *e)
{
	char *set = mem_printf("%s=%lld", key, (long long)n);
	enum err_code rc = add_alternative(t, set, e);

	free(set);
	return rc;
}

static double planned_speed(const struct planned *x)
{
	return x->result.gradients_per_second * (double)conf_step_examples(&x->conf);
}

/* Appends to out the changes of the fastest row from `first` on, if it is faster than the file's
 * own. */
static void append_best_changes(const struct table *t, size_t first, struct buf *out)
{
	const struct planned *top = t->own;

	for (size_t i = first; i < t->n; i++)
		if (planned_speed(&t->row[i]) > 1.01 * planned_speed(top))
			top = &t->row[i];
	for (const char *s = top->set; *s;) {
		if (strncmp(s, "--set ", 6) == 0)
			s += 6;
		buf_printf(out, "%s%.*s", out->len ? " " : "", (int)strcspn(s, " "), s);
		s += strcspn(s, " ");
		s += *s == ' ';
	}
}

static enum err_code add_server_counts(struct table *t, struct err *e)
{
	int64_t n = t->own->conf.servers;
	enum err_code rc = n > 1 ? add_alternative_number(t, "servers", n / 2, e) : ERR_OK;

	if (!rc)
		rc = add_alternative_number(t, "servers", n * 2, e);
	return rc || n < 3 ? rc : add_alternative_number(t, "servers", n * 4, e);
}

static enum err_code add_alternatives(struct table *t, const char *const *sets, size_t n,
    struct err *e)
{
	enum err_code rc = ERR_OK;

	for (size_t i = 0; !rc && i < n; i++)
		rc = add_alternative(t, sets[i], e);
	return rc;
}

static int compare_speed_descending(const void *a, const void *b)
{
	double x = planned_speed(a), y = planned_speed(b);

	return (x < y) - (x > y);
}

/* Adds pulls of changed values only. That saves bytes with update rules that keep values without a
 * gradient. */
static enum err_code add_delta_pulls(struct table *t, struct err *e)
{
	const struct optim_rule *rule = optim_find(t->own->conf.job.optimizer);

	if (!rule || !rule->keeps_untouched)
		return ERR_OK;
	return add_alternative(t, "codec=topk:0.01 pull_delta=true", e);
}

/* Adds configurations that push less often. */
static enum err_code add_rare_pushes(struct table *t, struct err *e)
{
	static const char *const rare[] = { "local_steps=10 outer=nesterov",
		"local_steps=50 outer=nesterov" };
	enum err_code rc = add_alternative(t, "accumulate=4", e);

	if (!rc)
		rc = add_alternatives(t, rare, sizeof rare / sizeof *rare, e);
	return rc;
}

static void add_own_configuration(struct table *t)
{
	const struct conf *c = &t->own->conf;

	t->row = mem_regrow(t->row, t->n + 1, sizeof *t->row);
	t->row[t->n] = *t->own;
	t->row[t->n].set = mem_strdup("");
	/* A conf cannot be shared: copy only the fields by which examples are counted. The rest stays
	 * with `own`. */
	t->row[t->n++].conf = (struct conf){ .job.batch = c->job.batch,
		.accumulate = c->accumulate,
		.local_steps = c->local_steps };
}

/* First what leaves the synchronization alone: numbers of servers, codecs, delta pulls. Then modes,
 * backup workers and rarer pushes. Each is a change of `own`, not of the row before it. On an
 * error, *out has what was simulated so far and is the caller's to release. */
enum err_code plan_table(struct plan *p, const struct planned *own, double samples,
    struct planned **out, size_t *n, struct err *e)
{
	static const char *const codecs[] = { "codec=f16 pull_codec=f16",
		"codec=int8 pull_codec=int8", "codec=topk:0.01 pull_codec=int8" };
	static const char *const modes[] = { "sync=bsp", "prefetch=true", "sync=ssp:3",
		"sync=asp" };
	struct table t = { .plan = p, .own = own, .samples = samples };
	int64_t backup = own->conf.workers.max / 20;
	struct buf all = BUF_INIT;
	enum err_code rc = add_server_counts(&t, e);
	size_t first = t.n;

	append_best_changes(&t, 0, &all);
	if (!rc)
		rc = add_alternatives(&t, codecs, sizeof codecs / sizeof *codecs, e);
	if (!rc)
		rc = add_delta_pulls(&t, e);
	append_best_changes(&t, first, &all);
	if (!rc)
		rc = add_alternatives(&t, modes, sizeof modes / sizeof *modes, e);
	if (!rc)
		rc = add_alternative_number(&t, "backup", backup > 1 ? backup : 1, e);
	if (!rc)
		rc = add_rare_pushes(&t, e);
	/* Try the best number of servers and the best codec together: neither changes the
	 * synchronization. */
	if (!rc && all.len && strstr((char *)all.data, "servers=") &&
	    strstr((char *)all.data, "codec="))
		rc = add_alternative(&t, (char *)all.data, e);
	buf_release(&all);
	if (!rc) {
		add_own_configuration(&t);
		qsort(t.row, t.n, sizeof *t.row, compare_speed_descending);
	}
	*out = t.row;
	*n = t.n;
	return rc;
}

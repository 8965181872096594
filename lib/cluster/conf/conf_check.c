/* SPDX-License-Identifier: ISC */
/* Checks that involve several keys. One function for each subject; each reports the first error
 * that it finds. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "aggregate/aggregate.h"
#include "codec/codec.h"
#include "codec/filter.h"
#include "conf/conf_data.h"
#include "conf/conf_key.h"
#include "conf/conf_live.h"
#include "conf/conf_rule.h"
#include "conf/conf_slow.h"
#include "conf/serve_if.h"
#include "data/source/data_log.h"
#include "data/source/data_uri.h"
#include "core/buf.h"
#include "core/json.h"
#include "core/names.h"
#include "core/num.h"
#include "core/suggest.h"
#include "data/reader/data_bad_lines.h"
#include "etcd/url.h"
#include "data/batch/data_split.h"
#include "metric/early_stop.h"
#include "format/safetensors.h"
#include "layout/limits.h"
#include "layout/row_policy.h"
#include "model/class_weight.h"
#include "model/model.h"
#include "format/uri.h"
#include "optim/optim.h"
#include "optim/schedule.h"
#include "wire/emulated_link.h"

#define NAMES_MAX         64
#define STEP_EXAMPLES_MAX (UINT64_C(1) << 31)

/* Report an unknown name: 'KEY: no WHAT "NAME"', with "did you mean" or with a list of the known
 * names. */
static enum err_code report_unknown_choice(const char *key, const char *what, const char *got,
    const char *const *names, size_t n, struct err *e)
{
	const char *near = suggest(got, names, n);
	struct buf list = BUF_INIT;
	enum err_code rc;

	for (size_t i = 0; i < n; i++)
		buf_printf(&list, "%s%s", i == 0 ? "" : ", ", names[i]);
	if (near)
		rc = err_set(e, ERR_CONFIG, "%s: no %s \"%.80s\"; did you mean \"%s\"?", key, what,
		    got, near);
	else
		rc = err_set(e, ERR_CONFIG, "%s: no %s \"%.80s\"; this version has %s", key, what,
		    got, (char *)list.data);
	buf_release(&list);
	return rc;
}

enum err_code conf_model_check(const char *name, struct err *e)
{
	const char *names[NAMES_MAX];
	size_t n = 0;

	if (model_info_find(name))
		return ERR_OK;
	while (n < NAMES_MAX && model_info_at(n)) {
		names[n] = model_info_at(n)->name;
		n++;
	}
	return report_unknown_choice("job.model", "model", name, names, n, e);
}

/* Only models with hidden layers take job.hidden and job.activation. */
static enum err_code check_hidden(const struct conf_job *job, struct err *e)
{
	bool has = strstr(model_info_find(job->model)->tables, "hidden[") != NULL;

	if (has && job->hidden.n == 0)
		return err_set(e, ERR_CONFIG,
		    "job.hidden: model %s needs the widths of its hidden layers, "
		    "as [256] (--set hidden=[256])",
		    job->model);
	if (!has && job->hidden.n > 0)
		return err_set(e, ERR_CONFIG,
		    "job.hidden: model %s has no hidden layers; leave the key out, or empty it: "
		    "--set hidden=[]",
		    job->model);
	if (!has && strcmp(job->activation, "relu") != 0)
		return err_set(e, ERR_CONFIG,
		    "job.activation: model %s has no hidden layers, got \"%s\"", job->model,
		    job->activation);
	return ERR_OK;
}

/* The model says which losses it can have; only classes have weights. */
static enum err_code check_loss(const struct conf_job *job, struct err *e)
{
	enum model_task task;
	struct loss_spec loss;
	enum err_code rc = model_info_loss(model_info_find(job->model), job->loss, &loss, &task, e);

	if (rc || !conf_is_named(job->class_weight))
		return rc;
	if (task != MODEL_TWO && task != MODEL_CLASSES)
		return err_set(e, ERR_CONFIG,
		    "job.class_weight: model %s does not learn classes in this job; set it to "
		    "none",
		    job->model);
	return class_weight_check(job->class_weight, e);
}

/* Check the keys that only model custom has. */
static enum err_code check_custom(const struct conf_job *job, struct err *e)
{
	struct model_table *table;
	size_t n;

	if (strcmp(job->model, "custom") != 0) {
		const char *key = conf_is_named(job->tables) ? "tables"
		    : conf_is_named(job->exec)               ? "exec"
		    : conf_is_named(job->command)            ? "command"
		    : job->examples                          ? "examples"
		                                             : NULL;

		return key ? err_set(e, ERR_CONFIG, "job.%s: requires job.model custom, got \"%s\"",
		                 key, job->model)
		           : ERR_OK;
	}
	if (conf_is_named(job->exec) && conf_is_named(job->command))
		return err_set(e, ERR_CONFIG,
		    "job.command: cannot be combined with job.exec; job.command runs the worker "
		    "itself, job.exec a program that ps-work runs");
	if (!conf_is_named(job->tables))
		return conf_is_named(job->exec)
		    ? err_set(e, ERR_CONFIG,
		          "job.tables: model custom needs its tables, such as w:784x10,b:10")
		    : ERR_OK;
	if (model_spec_parse(job->tables, &table, &n, e))
		return e ? e->code : ERR_CONFIG;
	free(table);
	return ERR_OK;
}

/* Checks the codec and its parameters. A codec that applies momentum at the workers needs the
 * rule sgd and error feedback. Only a name that no codec has (ERR_NOTFOUND) is answered with the
 * list of all codecs. */
static enum err_code check_codec(const struct conf *c, struct err *e)
{
	const char *names[NAMES_MAX];
	size_t n = 0;
	struct codec_spec spec;
	struct err why;
	enum err_code rc = codec_parse(c->codec, &spec, &why);

	if (rc && rc != ERR_NOTFOUND)
		return err_set(e, ERR_CONFIG, "codec: %s", why.msg);
	if (!rc && spec.codec->momentum && strcmp(c->job.optimizer, "sgd") != 0)
		return err_set(e, ERR_CONFIG,
		    "codec: %s applies job.momentum at the workers and requires job.optimizer "
		    "sgd, got \"%s\"",
		    spec.codec->name, c->job.optimizer);
	if (!rc && spec.codec->momentum && conf_is_named(c->job.rules))
		return err_set(e, ERR_CONFIG,
		    "codec: %s applies job.momentum at the workers and requires job.rules none",
		    spec.codec->name);
	if (!rc && spec.codec->momentum && !c->feedback)
		return err_set(e, ERR_CONFIG, "codec: %s requires feedback true", spec.codec->name);
	if (!rc)
		return ERR_OK;
	while (n < NAMES_MAX && codec_at(n)) {
		names[n] = codec_at(n)->name;
		n++;
	}
	return report_unknown_choice("codec", "codec", c->codec, names, n, e);
}

/* Check the row policy of sparse tables. */
static enum err_code check_sparse(const struct conf *c, struct err *e)
{
	struct row_policy policy;
	uint64_t each;
	struct err why;

	if (row_policy_parse(c->sparse, &policy, &why))
		return err_set(e, ERR_CONFIG, "sparse: %s", why.msg);
	if (policy.ram && !conf_is_named(c->spill_dir))
		return err_set(e, ERR_CONFIG,
		    "sparse: ram=SIZE requires spill_dir, the directory for the other rows");
	if (c->mem_limit && policy.ram > (uint64_t)c->mem_limit)
		return err_set(e, ERR_CONFIG,
		    "sparse: ram=%llu is more than mem_limit, which is %llu bytes",
		    (unsigned long long)policy.ram, (unsigned long long)c->mem_limit);
	each = policy.sketch / (uint64_t)c->servers * (uint64_t)c->replicas;
	if (c->mem_limit && each > (uint64_t)c->mem_limit)
		return err_set(e, ERR_CONFIG,
		    "sparse: sketch=%llu needs %llu bytes on each of %lld server%s, but "
		    "mem_limit is %llu bytes",
		    (unsigned long long)policy.sketch, (unsigned long long)each,
		    (long long)c->servers, NUM_S(c->servers), (unsigned long long)c->mem_limit);
	return ERR_OK;
}

/* Check the filter that holds back rows of sparse gradients. */
static enum err_code check_filter(const struct conf *c, struct err *e)
{
	struct filter filter;
	struct err why;

	if (filter_parse(c->filter, &filter, &why))
		return err_set(e, ERR_CONFIG, "filter: %s", why.msg);
	if (filter.kind == FILTER_KKT && c->job.l1 == 0)
		return err_set(e, ERR_CONFIG, "filter: kkt requires job.l1 above 0");
	if (filter.kind != FILTER_NONE && c->deterministic)
		return err_set(e, ERR_CONFIG,
		    "filter: must be none when deterministic, got \"%.80s\"", c->filter);
	return ERR_OK;
}

/* Checks a table whose pushes are applied on arrival while those of others are summed: the other
 * keys must not need the sum of a step, or one order of the pushes. */
static enum err_code check_sync_of_table(const struct conf *c, const char *pattern, struct err *e)
{
	const char *want = !sync_sums_steps(&c->sync) ? "sync: must be bsp"
	    : c->deterministic                        ? "deterministic: must be false"
	    : strcmp(c->via, "servers") != 0          ? "via: must be servers"
	    : c->local_steps > 1                      ? "local_steps: must be 1"
	    : aggregate_setting_compares(c->robust)   ? "robust: must be none"
	                                              : NULL;

	return want ? err_set(e, ERR_CONFIG, "%s with job.rules %s:sync=asp", want, pattern)
	            : ERR_OK;
}

/* Checks job.rules. Whether the tables exist is checked where they are known, as for job.frozen. */
static enum err_code check_table_rules(const struct conf *c, struct err *e)
{
	struct conf_rule rule;
	enum err_code rc = conf_job_rule(c, &rule, e);

	for (unsigned i = 0; !rc && i < rule.tables.n; i++) {
		const struct table_rule *t = &rule.tables.of[i];

		if (t->hyper.l1 != rule.hyper.l1 && strncmp(c->filter, "kkt", 3) == 0)
			rc = err_set(e, ERR_CONFIG,
			    "job.rules: %s must have the same l1 as the job, because filter kkt "
			    "uses the job's",
			    t->pattern);
		else if (c->local_steps > 1 && c->deterministic && t->rule->nvectors)
			rc = err_set(e, ERR_CONFIG,
			    "job.rules: with local_steps and deterministic %s must have "
			    "optimizer sgd, because the state of %s in a worker is lost with the "
			    "worker",
			    t->pattern, t->rule->name);
		else if (t->on_arrival)
			rc = check_sync_of_table(c, t->pattern, e);
	}
	return rc;
}

/* Checks that the update rule exists and that job.l1 is 0 unless the rule uses it. The error
 * message lists the rules that do. */
static enum err_code check_optimizer(const struct conf_job *job, struct err *e)
{
	const struct optim_rule *rule = optim_find(job->optimizer);
	const char *names[NAMES_MAX];
	struct buf list = BUF_INIT;
	size_t n = 0;
	enum err_code rc;

	for (; n < NAMES_MAX && optim_at(n); n++) {
		names[n] = optim_at(n)->name;
		if (optim_at(n)->uses & OPTIM_USES_L1)
			buf_printf(&list, "%s%s", list.len ? ", " : "", names[n]);
	}
	if (!rule)
		rc = report_unknown_choice("job.optimizer", "update rule", job->optimizer, names, n,
		    e);
	else if (job->l1 != 0 && !(rule->uses & OPTIM_USES_L1))
		rc = err_set(e, ERR_CONFIG, "job.l1: only job.optimizer %s has l1, and this is %s",
		    list.data ? (char *)list.data : "of another kind", rule->name);
	else
		rc = ERR_OK;
	buf_release(&list);
	return rc;
}

/* The name is used for directories, logs and metric labels. */
static enum err_code check_cluster_name(const struct conf *c, struct err *e)
{
	size_t n = c->name ? strlen(c->name) : 0;

	if (!c->name ||
	    (n <= 64 && c->name[0] != '.' && c->name[0] != '-' &&
	        strspn(c->name,
	            "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == n))
		return ERR_OK;
	return err_set(e, ERR_CONFIG,
	    "name: must be at most 64 letters, digits, or . _ - (these not "
	    "first), got \"%.80s\"%s",
	    c->name,
	    conf_given(c, conf_key_find("name", NULL))
	        ? ""
	        : ", the name of the cluster file; add --set name=NAME, or rename the file");
}

/* Checks that nothing lets two deterministic runs add up different gradients: every step sums
 * the exact gradients of all workers, and a lost worker is waited for. Only the first key that
 * violates this is reported. */
static enum err_code check_deterministic(const struct conf *c, struct err *e)
{
	char mode[32];

	if (!c->deterministic)
		return ERR_OK;
	sync_format(&c->sync, mode);
	if (!sync_sums_steps(&c->sync))
		return err_set(e, ERR_CONFIG, "sync: must be bsp when deterministic, got \"%s\"",
		    mode);
	if (c->backup != 0)
		return err_set(e, ERR_CONFIG, "backup: must be 0 when deterministic, got %lld",
		    (long long)c->backup);
	if (strcmp(c->codec, "raw") != 0)
		return err_set(e, ERR_CONFIG,
		    "codec: must be raw when deterministic, got \"%.80s\"", c->codec);
	if (c->on_worker_loss.policy != CONF_WAIT)
		return err_set(e, ERR_CONFIG,
		    "on_worker_loss: must be wait:T when deterministic, got "
		    "\"%s\"",
		    c->on_worker_loss.policy == CONF_FAIL ? "fail" : "shrink");
	if (conf_automatic(c, conf_key_find("workers", NULL)))
		return err_set(e, ERR_CONFIG,
		    "workers: must be a number when deterministic, got \"auto\"");
	if (c->workers.min != c->workers.max)
		return err_set(e, ERR_CONFIG,
		    "workers: must be one number when deterministic, got "
		    "%lld:%lld",
		    (long long)c->workers.min, (long long)c->workers.max);
	return ERR_OK;
}

/* Backup workers: a step completes without the slowest ones. */
static enum err_code check_backup(const struct conf *c, struct err *e)
{
	if (c->backup > 0 && !sync_sums_steps(&c->sync))
		return err_set(e, ERR_CONFIG,
		    "backup: %lld requires sync bsp; ssp and asp do not wait for gradients",
		    (long long)c->backup);
	if (c->backup > 0 && c->backup >= c->workers.min)
		return err_set(e, ERR_CONFIG,
		    "backup: must be less than workers, which may be %lld, got %lld",
		    (long long)c->workers.min, (long long)c->backup);
	return ERR_OK;
}

/* Settings that adapt change at times that depend on measurements. */
static enum err_code check_adapt(const struct conf *c, struct err *e)
{
	unsigned keys;
	enum err_code rc = conf_parse_adapt(c->adapt, &keys, e);

	if (!rc && keys && c->deterministic)
		return err_set(e, ERR_CONFIG,
		    "adapt: must be none when deterministic, got \"%.80s\"", c->adapt);
	if (!rc && keys && strcmp(c->via, "allreduce") == 0)
		return err_set(e, ERR_CONFIG,
		    "adapt: must be none with via allreduce, got \"%.80s\"", c->adapt);
	return rc;
}

/* Only the form is checked here. Whether the tables exist is checked by the workers at the start,
 * and by the coordinator for a live change. */
static enum err_code check_frozen_list(const struct conf *c, struct err *e)
{
	const char *list = c->job.frozen;
	bool none = strcmp(list, "none") == 0;

	if (!none &&
	    (*list == ',' || strstr(list, ",,") || list[strlen(list) - 1] == ',' ||
	        names_has(list, "none")))
		return err_set(e, ERR_CONFIG,
		    "job.frozen: must be none or names of tables, separated by commas, got \"%.80s\"",
		    list);
	if (!none && strcmp(c->via, "allreduce") == 0)
		return err_set(e, ERR_CONFIG, "job.frozen: must be none with via allreduce");
	return ERR_OK;
}

/* Robust aggregation compares the gradients of all workers, so each must arrive by itself, in the
 * same step. */
static enum err_code check_robust(const struct conf *c, struct err *e)
{
	struct aggregate aggregate;
	bool compares;
	struct err why;
	const char *want;

	if (aggregate_parse(c->robust, &aggregate, &why))
		return err_set(e, ERR_CONFIG, "robust: %s", why.msg);
	compares = aggregate_compares(&aggregate);
	want = !sync_sums_steps(&c->sync)    ? "sync: must be bsp"
	    : c->backup                      ? "backup: must be 0"
	    : strcmp(c->via, "servers") != 0 ? "via: must be servers"
	                                     : NULL;
	if (compares && want)
		return err_set(e, ERR_CONFIG,
		    "%s with robust %s, which compares the gradients of all workers", want,
		    c->robust);
	if (compares && (int64_t)aggregate.ops->workers_min(&aggregate) > c->workers.min)
		return err_set(e, ERR_CONFIG,
		    "robust: %s with workers %lld removes all gradients; it needs at least %u "
		    "workers",
		    c->robust, (long long)c->workers.min, aggregate.ops->workers_min(&aggregate));
	return ERR_OK;
}

static enum err_code check_prefetch(const struct conf *c, struct err *e)
{
	if (c->prefetch && !sync_sums_steps(&c->sync))
		return err_set(e, ERR_CONFIG,
		    "prefetch: requires sync bsp; in ssp and asp a pull must follow the worker's "
		    "own push to include it");
	return ERR_OK;
}

/* The path that is a stream; NULL: none. */
static const char *find_stream(const struct conf_strs *list)
{
	for (size_t i = 0; i < list->n; i++)
		if (data_log_is(list->item[i]))
			return list->item[i];
	return NULL;
}

/* Checks lookahead. A worker must know its next examples and their rows before it makes their step. */
static enum err_code check_lookahead(const struct conf *c, struct err *e)
{
	if (!c->lookahead || !c->has_job || !c->job.model)
		return ERR_OK;
	if (strcmp(c->job.model, "custom") == 0)
		return err_set(e, ERR_CONFIG,
		    "lookahead: must be 0 with model custom, whose program names the rows of each step "
		    "itself; a program that uses the library calls ps_prefetch_rows");
	if (find_stream(&c->job.data))
		return err_set(e, ERR_CONFIG,
		    "lookahead: must be 0, because \"%s\" is a stream, whose next events are not known",
		    find_stream(&c->job.data));
	return ERR_OK;
}

/* Items that model warp draws for an example, at most: each has a field of its own. */
#define ITEMS_DRAWN_MOST 1000

/* Are the classes of a whole push drawn together? Items are drawn for each example. */
static bool draws_classes(const struct conf_job *job)
{
	const struct model_info *info = model_info_find(job->model ? job->model : "");

	return !info || !(info->takes & MODEL_DRAWS_ITEMS);
}

static enum err_code check_draws(const struct conf *c, struct err *e)
{
	if (draws_classes(&c->job) || c->job.negatives <= ITEMS_DRAWN_MOST)
		return ERR_OK;
	return err_set(e, ERR_CONFIG,
	    "job.negatives: model %s draws at most %d items for each example", c->job.model,
	    ITEMS_DRAWN_MOST);
}

/* Several batches for each step, and several local steps for each push. */
static enum err_code check_local(const struct conf *c, struct err *e)
{
	const struct optim_rule *rule = optim_find(c->job.optimizer);

	if (conf_step_examples(c) > STEP_EXAMPLES_MAX)
		return err_set(e, ERR_CONFIG,
		    "local_steps: batch times accumulate times local_steps must be at most %llu examples",
		    (unsigned long long)STEP_EXAMPLES_MAX);
	if (c->local_steps > 1 && c->deterministic && rule && rule->nvectors > 0)
		return err_set(e, ERR_CONFIG,
		    "local_steps: with deterministic job.optimizer must be sgd, because the "
		    "state of %s in a worker is lost with the worker",
		    rule->name);
	if (c->local_steps > 1 && stale_needs_values(&c->sync.stale))
		return err_set(e, ERR_CONFIG,
		    "sync: %s compensates gradients, and with local_steps workers push differences; "
		    "must be bsp, ssp, asp or scaled",
		    c->sync.stale.ops->name);
	if (c->local_steps > 1 && c->job.negatives > 0 && draws_classes(&c->job))
		return err_set(e, ERR_CONFIG,
		    "local_steps: must be 1 with job.negatives, because classes are drawn once for each "
		    "push");
	if (c->local_steps < 2 && strcmp(c->outer, "average") != 0)
		return err_set(e, ERR_CONFIG, "outer: \"%s\" requires local_steps above 1",
		    c->outer);
	/* A momentum of differences that were made from older parameters does not learn (Liu et
	 * al., "Asynchronous Local-SGD Training for Language Modeling", 2024). A read-only cluster
	 * makes no updates, and serves what an earlier version has trained. */
	if (c->local_steps > 1 && strcmp(c->outer, "average") != 0 && !sync_sums_steps(&c->sync) &&
	    !c->read_only)
		return err_set(e, ERR_CONFIG,
		    "outer: \"%s\" requires sync bsp, because its momentum does not learn from "
		    "differences that come late; set outer=average and sync=asp:scaled, or sync=bsp",
		    c->outer);
	return ERR_OK;
}

/* With via allreduce the workers hold the parameters and update them. Keys that concern the traffic
 * with servers, or let a step go on without some workers, have no meaning then. */
static enum err_code check_via(const struct conf *c, struct err *e)
{
	const char *want = !sync_is_lockstep(&c->sync) ? "sync: must be bsp"
	    : c->backup                                ? "backup: must be 0"
	    : c->deterministic                         ? "deterministic: must be false"
	    : c->local_steps > 1                       ? "local_steps: must be 1"
	    : strcmp(c->codec, "raw") != 0             ? "codec: must be raw"
	    : strcmp(c->pull_codec, "raw") != 0        ? "pull_codec: must be raw"
	    : c->pull_delta                            ? "pull_delta: must be false"
	    : c->prefetch                              ? "prefetch: must be false"
	    : c->lookahead                             ? "lookahead: must be 0"
	    : c->workers.max > COORD_RING_MAX          ? "workers: at most 256"
	                                               : NULL;

	if (strcmp(c->via, "allreduce") != 0 || !want)
		return ERR_OK;
	return err_set(e, ERR_CONFIG, "%s with via allreduce", want);
}

/* The lease must leave room for one lost heartbeat, so it is at least two intervals long. */
static enum err_code check_times(const struct conf *c, struct err *e)
{
	if (c->lease < 2 * c->heartbeat)
		return err_set(e, ERR_CONFIG,
		    "lease: must be at least twice the heartbeat of %g s, got "
		    "%g s",
		    (double)c->heartbeat / 1e9, (double)c->lease / 1e9);
	if (c->on_worker_loss.policy == CONF_WAIT && c->on_worker_loss.wait <= 0)
		return err_set(e, ERR_CONFIG, "on_worker_loss: the time of wait must be above 0 s");
	return ERR_OK;
}

static bool has_stdin(const struct conf_strs *s)
{
	for (size_t i = 0; i < s->n; i++)
		if (conf_path_is_stdin(s->item[i]))
			return true;
	return false;
}

/* The causes of an error about a file that the cluster file names: it is missing, or has another
 * fault. */
struct path_causes {
	enum err_cause missing, other;
};

static const struct path_causes data_causes = { CAUSE_DATA_MISSING, CAUSE_DATA },
                                eval_causes = { CAUSE_EVAL_DATA, CAUSE_EVAL_DATA },
                                init_causes = { CAUSE_UNKNOWN, CAUSE_UNKNOWN };

/* A cluster file that names a missing file is a wrong configuration. Returns the code of rc as
 * that. */
static enum err_code as_config_error(enum err_code rc, const struct path_causes *c, struct err *e)
{
	if (rc)
		err_blame(e, rc == ERR_NOTFOUND ? c->missing : c->other);
	if (rc == ERR_NOTFOUND && e)
		e->code = ERR_CONFIG;
	return rc == ERR_NOTFOUND ? ERR_CONFIG : rc;
}

/* A path with wrong options does not tell whether it is a stream. */
static enum err_code check_data_options(const struct conf_strs *list, struct err *e)
{
	for (size_t i = 0; i < list->n; i++) {
		struct data_options options;
		char *file;

		if (data_uri_parse(list->item[i], &file, &options, e)) {
			err_prefix(e, "job.data");
			return ERR_CONFIG;
		}
		data_uri_release(&options);
		free(file);
	}
	return ERR_OK;
}

/* Checks job.validate. */
static enum err_code check_validate(const struct conf_job *job, struct err *e)
{
	const struct model_info *info = model_info_find(job->model ? job->model : "");
	double share;

	if (data_split_parse(job->validate, &share, e))
		return err_prefix(e, "job.validate");
	if (share == 0)
		return ERR_OK;
	if (find_stream(&job->data))
		return err_set(e, ERR_CONFIG,
		    "job.validate: cannot hold out a share of \"%s\", because it is a stream",
		    find_stream(&job->data));
	if (info && (info->task == MODEL_OUTSIDE || info->task == MODEL_WORDS))
		return err_set(e, ERR_CONFIG,
		    "job.validate: cannot hold out a share for model %s; "
		    "name job.eval",
		    job->model);
	return ERR_OK;
}

/* Checks job.data, job.eval, job.bad_lines and job.cache. Standard input can be read only once, so
 * it serves one worker and not the evaluation as well. A cache that does not exist yet is fine. */
static enum err_code check_data(const struct conf *c, struct err *e)
{
	const struct conf_job *job = &c->job;
	enum err_code rc = ERR_OK;
	struct conf_strs paths = { 0 };
	uint64_t lines;
	struct err why;
	struct stat st;

	/* A worker program of model custom may name its data itself. */
	if (job->data.n == 0 && !job->examples &&
	    (strcmp(job->model, "custom") != 0 || conf_is_named(job->exec)))
		return err_set(e, ERR_CONFIG, "job.data: must name the training data%s",
		    strcmp(job->model, "custom") == 0 ? ", or job.examples the number of "
		                                        "examples that its program has"
		                                      : "");
	if (has_stdin(&job->data) && c->workers.max > 1)
		return err_set(e, ERR_CONFIG,
		    "job.data: \"-\" requires one worker, got workers %lld",
		    (long long)c->workers.max);
	if (has_stdin(&job->data) && has_stdin(&job->eval))
		return err_set(e, ERR_CONFIG, "job.eval: \"-\" is already in use by job.data");
	if (find_stream(&job->data) && job->data.n > 1)
		return err_set(e, ERR_CONFIG,
		    "job.data: a stream must be the only data, got \"%s\" and others",
		    find_stream(&job->data));
	if (find_stream(&job->eval))
		return err_set(e, ERR_CONFIG,
		    "job.eval: must be data with an end, and \"%s\" is a stream",
		    find_stream(&job->eval));
	for (size_t i = 0; i < job->data.n && rc == ERR_OK && !c->data_elsewhere; i++)
		rc = as_config_error(conf_path_check("job.data", job->data.item[i], e),
		    &data_causes, e);
	if (rc == ERR_OK)
		rc = conf_data_paths(job, (const char *const *)job->data.item, job->data.n, &paths,
		    e);
	conf_data_release(&paths);
	if (rc)
		err_blame(e, CAUSE_DATA);
	if (rc == ERR_OK)
		rc = conf_data_check_eval(job, e);
	for (size_t i = 0; i < job->eval.n && rc == ERR_OK && !c->data_elsewhere; i++)
		rc = as_config_error(conf_path_check("job.eval", job->eval.item[i], e),
		    &eval_causes, e);
	if (rc == ERR_OK)
		rc = check_validate(job, e);
	if (rc == ERR_OK && data_bad_lines_parse(job->bad_lines, &lines, &why))
		return err_set(e, ERR_CONFIG, "job.bad_lines: %s", why.msg);
	if (rc == ERR_OK && stat(job->cache, &st) == 0 && !S_ISDIR(st.st_mode))
		return err_set(e, ERR_CONFIG,
		    "job.cache: must be run, none or a directory, and \"%s\" is a file",
		    job->cache);
	return rc;
}

/* Accepts a method by its name or a file. The file is opened and closed again, so that one which
 * is not a safetensors file is reported as ERR_CONFIG before the job starts. */
static enum err_code check_job_init(const struct conf_job *job, struct err *e)
{
	size_t n = strlen(job->init);
	struct safetensors *file;
	enum err_code rc;

	if (conf_is_named(job->init_from) && strchr(job->init, '/'))
		return err_set(e, ERR_CONFIG,
		    "job.init_from: cannot be combined with a file in job.init; leave one of "
		    "them out");
	if (strcmp(job->init, "auto") == 0 || strcmp(job->init, "zeros") == 0 ||
	    strcmp(job->init, "glorot") == 0)
		return ERR_OK;
	if (n < 13 || strcmp(job->init + n - 12, ".safetensors") != 0)
		return err_set(e, ERR_CONFIG,
		    "job.init: must be auto, zeros, glorot or a .safetensors "
		    "file, got \"%.200s\"",
		    job->init);
	rc = as_config_error(conf_path_check_file("job.init", job->init, e), &init_causes, e);
	if (rc == ERR_OK && safetensors_open(job->init, &file, e) != ERR_OK) {
		err_prefix(e, "job.init");
		rc = e ? (e->code = ERR_CONFIG) : ERR_CONFIG;
	} else if (rc == ERR_OK) {
		safetensors_close(file);
	}
	return rc;
}

/* Checks job.stop. */
static enum err_code check_stop(const struct conf *c, struct err *e)
{
	struct early_stop_rule rule;
	enum model_task task;
	struct loss_spec loss;
	bool own;

	if (early_stop_parse(c->job.stop, &rule, e))
		return err_prefix(e, "job.stop");
	if (!c->has_job || rule.metric == METRICS)
		return ERR_OK;
	if (model_info_loss(model_info_find(c->job.model), c->job.loss, &loss, &task, e))
		return ERR_CONFIG;
	own = strcmp(c->job.loss, "auto") == 0;
	if (!metrics_may_suit(rule.metric, task, loss_quantile_of(&loss),
	        loss_gives_probabilities(&loss)))
		return err_set(e, ERR_CONFIG,
		    "job.stop: evaluations of model %s%s%s do not have the metric %s", c->job.model,
		    own ? "" : " with job.loss ", own ? "" : c->job.loss, metric_name[rule.metric]);
	if (!c->job.eval_every && (find_stream(&c->job.data) || task == MODEL_OUTSIDE))
		return err_set(e, ERR_CONFIG,
		    "job.stop: requires job.eval_every above 0 for a stream and for model custom, whose "
		    "epochs are not known");
	/* A program may evaluate by its own means. */
	if (!c->job.eval.n && strcmp(c->job.validate, "none") == 0 && task != MODEL_OUTSIDE)
		return err_set(e, ERR_CONFIG,
		    "job.stop: the job has no evaluation data; name job.eval, or hold out a "
		    "share of the data by job.validate");
	if (strcmp(c->via, "allreduce") == 0)
		return err_set(e, ERR_CONFIG,
		    "job.stop: cannot be combined with via allreduce, whose workers must all end "
		    "at one step");
	return ERR_OK;
}

/* Checks the emulated links. Of a worker, only connections to a server or relay use them. */
static enum err_code check_net(const struct conf *c, struct err *e)
{
	struct emulated_link_spec spec;
	int64_t last[EMULATED_KINDS];

	if (emulated_link_parse(c->net, (struct emulated_link_end){ EMULATED_WORKER, 0 }, &spec,
	        last, e))
		return err_prefix(e, "net");
	if (last[EMULATED_WORKER] >= c->workers.max)
		return err_set(e, ERR_CONFIG,
		    "net: there is no worker-%lld, because workers is %lld",
		    (long long)last[EMULATED_WORKER], (long long)c->workers.max);
	if (last[EMULATED_SERVER] >= c->servers)
		return err_set(e, ERR_CONFIG,
		    "net: there is no server-%lld, because servers is %lld",
		    (long long)last[EMULATED_SERVER], (long long)c->servers);
	if (spec.emulated && strcmp(c->via, "servers") != 0)
		return err_set(e, ERR_CONFIG,
		    "net: links between workers are not emulated; via must be servers");
	if (spec.emulated && strcmp(c->transport, "auto") != 0 && strcmp(c->transport, "tcp") != 0)
		return err_set(e, ERR_CONFIG,
		    "net: emulated links use TCP; transport must be auto or tcp");
	return ERR_OK;
}

/* Checks job.slow. Workers of job.command compute outside of pskit, where nothing delays them. */
static enum err_code check_slow(const struct conf *c, struct err *e)
{
	struct conf_slow slow;
	int64_t last;

	if (conf_slow_parse(c->job.slow, 0, &slow, e))
		return err_prefix(e, "job.slow");
	last = conf_slow_last_rank(c->job.slow);
	if (last >= c->workers.max)
		return err_set(e, ERR_CONFIG,
		    "job.slow: there is no worker-%lld, because workers is %lld", (long long)last,
		    (long long)c->workers.max);
	if (conf_is_named(c->job.slow) && conf_is_named(c->job.command))
		return err_set(e, ERR_CONFIG,
		    "job.slow: cannot slow down the workers of job.command");
	return ERR_OK;
}

/* Checks what the job trains and that training has an end. A configuration without a job
 * passes. */
static enum err_code check_job(const struct conf *c, struct err *e)
{
	const struct conf_job *job = &c->job;
	struct schedule schedule;
	enum err_code rc;

	if (!c->has_job)
		return ERR_OK;
	if (!job->model)
		return err_set(e, ERR_CONFIG,
		    "job.model: must name the model, such as \"softmax\"");
	if ((rc = conf_model_check(job->model, e)) != ERR_OK ||
	    (rc = check_custom(job, e)) != ERR_OK || (rc = check_loss(job, e)) != ERR_OK ||
	    (rc = check_hidden(job, e)) != ERR_OK || (rc = check_optimizer(job, e)) != ERR_OK ||
	    (rc = schedule_parse(job->schedule, &schedule, e)) != ERR_OK ||
	    (rc = check_table_rules(c, e)) != ERR_OK || (rc = check_slow(c, e)) != ERR_OK)
		return rc;
	/* A worker program of model custom may name the end itself, or just report that it is
	 * done. */
	if ((rc = check_data_options(&job->data, e)) != ERR_OK)
		return rc;
	if (find_stream(&job->data))
		return job->epochs == 0
		    ? ERR_OK
		    : err_set(e, ERR_CONFIG,
		          "job.epochs: must be 0 for a stream, which has no end");
	if (job->epochs == 0 && job->steps == 0 && !conf_is_named(job->stop) &&
	    (strcmp(job->model, "custom") != 0 || conf_is_named(job->exec)))
		return err_set(e, ERR_CONFIG,
		    "job.epochs: job.epochs or job.steps must be above 0");
	return ERR_OK;
}

static enum err_code check_job_files(const struct conf *c, struct err *e)
{
	enum err_code rc = c->has_job ? check_job_init(&c->job, e) : ERR_OK;

	return rc == ERR_OK && c->has_job ? check_data(c, e) : rc;
}

enum err_code conf_validate(const struct conf *c, struct err *e)
{
	enum err_code rc = conf_validate_keys(c, e);

	return rc == ERR_OK ? check_job_files(c, e) : rc;
}

/* Checks only the form of checkpoint_to; the store itself is not contacted. */
static enum err_code check_store(const struct conf *c, struct err *e)
{
	struct uri u = { 0 };
	struct err why;
	enum err_code rc = ERR_OK;

	if (conf_is_named(c->checkpoint_to) && !uri_is_s3(c->checkpoint_to))
		rc = err_set(e, ERR_CONFIG,
		    "checkpoint_to: must be none or s3://BUCKET/PREFIX, got \"%.80s\"",
		    c->checkpoint_to);
	else if (conf_is_named(c->checkpoint_to) && uri_parse(c->checkpoint_to, &u, &why))
		rc = err_set(e, ERR_CONFIG, "checkpoint_to: %s", why.msg);
	uri_release(&u);
	return rc;
}

/* Checks only the form of state; the store itself is not contacted. */
static enum err_code check_state(const struct conf *c, struct err *e)
{
	struct etcd_url url = { 0 };
	enum err_code rc = conf_is_named(c->state) ? etcd_url_read(c->state, &url, e) : ERR_OK;

	etcd_url_release(&url);
	return rc ? err_prefix(e, "state") : ERR_OK;
}

bool conf_is_loopback(const char *address)
{
	return strncmp(address, "127.", 4) == 0 || strncmp(address, "[::1]:", 6) == 0 ||
	    strncmp(address, "localhost:", 10) == 0;
}

static bool is_host_and_port(const char *address)
{
	const char *colon = strrchr(address, ':');
	uint64_t port;

	return colon && colon != address && num_uint(colon + 1, 65535, &port) &&
	    !strpbrk(address, " /\t");
}

/* Checks who may use serve_http. A Unix socket is open to its own user alone; on loopback a token or
 * a certificate is needed unless serve_open is set, and elsewhere TLS, too. */
static enum err_code check_serve_access(const struct conf *c, struct err *e)
{
	const char *address = c->serve_http;
	bool tls = conf_is_named(c->serve_cert), local = strncmp(address, "unix:", 5) == 0;
	bool named = conf_is_named(c->serve_tokens) || conf_is_named(c->serve_ca);

	if (tls != conf_is_named(c->serve_key))
		return err_set(e, ERR_CONFIG, "%s: requires %s", tls ? "serve_cert" : "serve_key",
		    tls ? "serve_key, the private key of the certificate" : "serve_cert");
	if (conf_is_named(c->serve_ca) && !tls)
		return err_set(e, ERR_CONFIG,
		    "serve_ca: requires serve_cert and serve_key: clients have certificates only with TLS");
	if (local && tls)
		return err_set(e, ERR_CONFIG, "serve_cert: a Unix socket needs no TLS");
	if (!local && !is_host_and_port(address))
		return err_set(e, ERR_CONFIG,
		    "serve_http: must be none, HOST:PORT or unix:PATH, got \"%.80s\"", address);
	if (local || (named && tls))
		return ERR_OK;
	if (!conf_is_loopback(address))
		return err_set(e, ERR_CONFIG,
		    "serve_http: %.80s can be reached from other hosts: it requires TLS (serve_cert and "
		    "serve_key), and serve_tokens or serve_ca",
		    address);
	if (!named && !c->serve_open)
		return err_set(e, ERR_CONFIG,
		    "serve_http: any user of this host can reach %.80s: name a file of tokens in "
		    "serve_tokens, use unix:PATH, or set serve_open=true",
		    address);
	return ERR_OK;
}

/* Checks the condition under which a read replica takes over new values. */
static enum err_code check_serve_if(const struct conf *c, struct err *e)
{
	struct serve_if condition;

	if (!conf_is_named(c->serve_if))
		return ERR_OK;
	if (!c->read_only)
		return err_set(e, ERR_CONFIG,
		    "serve_if: only a read replica has it: ps-serve --read-only RUN --set serve_if=...");
	return serve_if_parse(c->serve_if, &condition, e) ? err_prefix(e, "serve_if") : ERR_OK;
}

/* Checks who may use serve_redis, which has no TLS. */
static enum err_code check_redis_access(const struct conf *c, struct err *e)
{
	const char *address = c->serve_redis;

	if (strncmp(address, "unix:", 5) == 0)
		return ERR_OK;
	if (!is_host_and_port(address))
		return err_set(e, ERR_CONFIG,
		    "serve_redis: must be none, HOST:PORT or unix:PATH, got \"%.80s\"", address);
	if (conf_is_named(c->serve_tokens))
		return ERR_OK;
	if (!conf_is_loopback(address))
		return err_set(e, ERR_CONFIG,
		    "serve_redis: %.80s can be reached from other hosts: it requires serve_tokens for AUTH, and "
		    "tokens and values are not encrypted; or use a tunnel to unix:PATH",
		    address);
	if (!c->serve_open)
		return err_set(e, ERR_CONFIG,
		    "serve_redis: any user of this host can reach %.80s: name a file of tokens in "
		    "serve_tokens, use unix:PATH, or set serve_open=true",
		    address);
	return ERR_OK;
}

/* Checks the endpoints of a read-only server. */
static enum err_code check_serve(const struct conf *c, struct err *e)
{
	bool http = conf_is_named(c->serve_http), redis = conf_is_named(c->serve_redis);
	enum err_code rc = ERR_OK;

	if ((http || redis) && !c->read_only)
		return err_set(e, ERR_CONFIG,
		    "%s: only a read-only server has this endpoint: ps-serve --read-only FROM --set "
		    "%s=%.80s",
		    http ? "serve_http" : "serve_redis", http ? "serve_http" : "serve_redis",
		    http ? c->serve_http : c->serve_redis);
	if (c->serve_rated.n && !http)
		return err_set(e, ERR_CONFIG,
		    "serve_rated: only POST /nearest of serve_http leaves out what users have rated");
	if (http)
		rc = check_serve_access(c, e);
	return rc || !redis ? rc : check_redis_access(c, e);
}

enum err_code conf_validate_keys(const struct conf *c, struct err *e)
{
	static enum err_code (*const checks[])(const struct conf *, struct err *) = {
		check_cluster_name,
		check_codec,
		check_filter,
		check_sparse,
		check_deterministic,
		check_backup,
		check_adapt,
		check_frozen_list,
		check_robust,
		check_prefetch,
		check_lookahead,
		check_draws,
		check_local,
		check_via,
		check_net,
		check_times,
		check_store,
		check_state,
		check_serve,
		check_serve_if,
		check_job,
		check_stop,
	};
	enum err_code rc = ERR_OK;

	for (size_t i = 0; i < sizeof checks / sizeof *checks && rc == ERR_OK; i++)
		rc = checks[i](c, e);
	return rc;
}

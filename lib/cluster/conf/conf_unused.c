/* SPDX-License-Identifier: ISC */
#include "conf/conf_unused.h"

#include <stdio.h>
#include <string.h>

#include "codec/codec.h"
#include "conf/conf_key.h"
#include "conf/conf_live.h"
#include "conf/conf_rule.h"
#include "conf/tune.h"
#include "model/model.h"
#include "optim/optim.h"

struct unused_keys {
	const struct conf *c;
	conf_unused_fn *fn;
	void *ctx;
};

__attribute__((format(printf, 3, 4))) static void report_unused(const struct unused_keys *u,
    const char *key, const char *fmt, ...)
{
	char why[200];
	va_list args;

	va_start(args, fmt);
	vsnprintf(why, sizeof why, fmt, args);
	va_end(args);
	u->fn(u->ctx, key, why);
}

static bool is_given(const struct unused_keys *u, const char *key)
{
	return conf_given(u->c, conf_key_find(key, NULL));
}

/* Rules of single tables may have constants that the job's rule does not have; but they take theirs
 * from job.rules, unless they have the job's rule. */
static void find_unused_constants(const struct unused_keys *u)
{
	const struct conf *c = u->c;
	const struct optim_rule *rule = optim_find(c->job.optimizer);
	const char *names[CONF_RULE_KEYS_MAX];
	struct codec_spec spec;
	bool momentum = codec_parse(c->codec, &spec, NULL) == ERR_OK && spec.codec->momentum;

	for (size_t i = 0, n = conf_rule_keys(names); rule && i < n; i++) {
		struct conf_rule_key key;

		if (!conf_rule_key_find(names[i], &key) || !key.uses || rule->uses & key.uses ||
		    !is_given(u, key.path) || (momentum && key.uses == OPTIM_USES_MOMENTUM))
			continue;
		report_unused(u, key.path, "update rule %s has no %s%s", rule->name, names[i],
		    conf_is_named(c->job.rules)
		        ? ", and tables with another one have theirs in job.rules"
		        : "");
	}
}

static void find_unused_sizes(const struct unused_keys *u)
{
	const struct model_info *info = model_info_find(u->c->job.model);

	if (info && info->task != MODEL_OUTSIDE && is_given(u, "job.factors") &&
	    !strstr(info->tables, "factors"))
		report_unused(u, "job.factors", "model %s has no vectors of features", info->name);
	if (info && info->task != MODEL_OUTSIDE && is_given(u, "job.cross") &&
	    !strstr(info->tables, "cross"))
		report_unused(u, "job.cross", "model %s has no layers that cross features",
		    info->name);
	if (info && info->task != MODEL_OUTSIDE && is_given(u, "job.bottom") &&
	    !strstr(info->tables, "bottom"))
		report_unused(u, "job.bottom", "model %s has no layers for the numbers alone",
		    info->name);
}

/* A program of model custom may evaluate by its own means. */
static void find_unused_evaluations(const struct unused_keys *u)
{
	const struct conf *c = u->c;
	const struct model_info *info = model_info_find(c->job.model);

	if (c->job.eval.n || conf_is_named(c->job.validate) || !info || info->task == MODEL_OUTSIDE)
		return;
	if (c->job.eval_every)
		report_unused(u, "job.eval_every",
		    "there are no data to evaluate on: name job.eval, or hold out a share by "
		    "job.validate");
	if (c->keep_best)
		report_unused(u, "keep_best",
		    "there are no data to evaluate on: name job.eval, or hold out a share by "
		    "job.validate");
}

static void find_unused_codec_keys(const struct unused_keys *u)
{
	struct codec_spec spec;

	if (!u->c->feedback && !conf_is_named(u->c->filter) &&
	    codec_parse(u->c->codec, &spec, NULL) == ERR_OK && !spec.codec->lossy)
		report_unused(u, "feedback", "codec %s drops nothing", spec.codec->name);
}

static void find_unused_adaptation(const struct unused_keys *u)
{
	const struct conf *c = u->c;
	unsigned keys;

	if (conf_parse_adapt(c->adapt, &keys, NULL))
		return;
	if (keys & TUNE_BACKUP && !sync_sums_steps(&c->sync))
		report_unused(u, "adapt", "there are no backup workers unless sync is bsp");
	if (keys & TUNE_STALENESS && !sync_bounds_staleness(&c->sync))
		report_unused(u, "adapt", "there is no bound of staleness unless sync is ssp");
	if (keys & (TUNE_BACKUP | TUNE_STALENESS) && c->workers.max < 2)
		report_unused(u, "adapt", "a single worker waits for no other");
}

static void find_unused_replicas(const struct unused_keys *u)
{
	const struct conf *c = u->c;

	if (c->replicas > c->servers)
		report_unused(u, "replicas",
		    "each replica of a partition is on another server, and servers is %lld: set "
		    "servers=%lld",
		    (long long)c->servers, (long long)c->replicas);
}

void conf_unused(const struct conf *c, conf_unused_fn *fn, void *ctx)
{
	struct unused_keys u = { c, fn, ctx };

	find_unused_replicas(&u);
	if (!conf_trains(c))
		return;
	find_unused_adaptation(&u);
	find_unused_codec_keys(&u);
	find_unused_constants(&u);
	find_unused_sizes(&u);
	find_unused_evaluations(&u);
}

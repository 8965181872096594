/* SPDX-License-Identifier: ISC */
/* Defaults that depend on the job: what model.def gives for a model, and the defaults of an update
 * rule. A key that somebody has set is never touched. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conf/conf_key.h"
#include "conf/conf_rule.h"
#include "core/buf.h"
#include "data/source/data_log.h"
#include "model/model.h"
#include "optim/optim.h"

/* Defaults of the keys that neither the model nor the rule gives. */
#define ELSEWHERE \
	"optimizer=sgd schedule=constant batch=64 epochs=0 factors=8 hidden=[] l2=0 scale=none momentum=0.9 " \
	"beta1=0.9 beta2=0.999 eps=0 initial_accumulator=0 rho=0.9 ftrl_beta=1"

/* The constants of update rules. The rule gives the defaults of the first NRULE_KEYS of them. */
static const struct conf_rule_key rule_keys[] = {
	{ "job.lr", offsetof(struct optim_hyper, lr), 0 },
	{ "job.momentum", offsetof(struct optim_hyper, momentum), OPTIM_USES_MOMENTUM },
	{ "job.beta1", offsetof(struct optim_hyper, beta1), OPTIM_USES_BETA1 },
	{ "job.beta2", offsetof(struct optim_hyper, beta2), OPTIM_USES_BETA2 },
	{ "job.eps", offsetof(struct optim_hyper, eps), OPTIM_USES_EPS },
	{ "job.initial_accumulator", offsetof(struct optim_hyper, initial), OPTIM_USES_INITIAL },
	{ "job.rho", offsetof(struct optim_hyper, rho), OPTIM_USES_RHO },
	{ "job.ftrl_beta", offsetof(struct optim_hyper, ftrl_beta), OPTIM_USES_FTRL_BETA },
	{ "job.l1", offsetof(struct optim_hyper, l1), OPTIM_USES_L1 },
	{ "job.l2", offsetof(struct optim_hyper, l2), 0 },
};
#define NCONSTANTS (sizeof rule_keys / sizeof *rule_keys)
#define NRULE_KEYS (NCONSTANTS - 2)

_Static_assert(NCONSTANTS == CONF_RULE_KEYS_MAX, "conf_rule_keys lists all of them");

bool conf_rule_key_find(const char *name, struct conf_rule_key *out)
{
	for (size_t i = 0; i < NCONSTANTS; i++)
		if (strcmp(rule_keys[i].path + strlen("job."), name) == 0) {
			*out = rule_keys[i];
			return true;
		}
	return false;
}

size_t conf_rule_keys(const char *names[static CONF_RULE_KEYS_MAX])
{
	for (size_t i = 0; i < NCONSTANTS; i++)
		names[i] = rule_keys[i].path + strlen("job.");
	return NCONSTANTS;
}

bool conf_key_derives(const struct conf_key *k)
{
	return strcmp(k->deflt, CONF_BY_MODEL) == 0 || strcmp(k->deflt, CONF_BY_RULE) == 0;
}

static bool is_key_of_rule(const struct conf_key *k)
{
	return strcmp(k->deflt, CONF_BY_RULE) == 0;
}

/* Copies the value of a key, "job.NAME", from "name=value name=value ..." to text. False: the list
 * does not have it. */
static bool find_in_list(const char *list, const struct conf_key *k, char *text, size_t room)
{
	const char *name = k->path + strlen("job.");
	size_t n = strlen(name);

	for (const char *p = list; p && *p; p += strspn(p, " ")) {
		size_t word = strcspn(p, " ");

		if (word > n && p[n] == '=' && memcmp(p, name, n) == 0) {
			snprintf(text, room, "%.*s", (int)(word - n - 1), p + n + 1);
			return true;
		}
		p += word;
	}
	return false;
}

/* The defaults of the job's model; "" without a model, or where there is none of this name. */
static const char *defaults_of_model(const struct conf *c)
{
	const struct model_info *info = c->job.model ? model_info_find(c->job.model) : NULL;

	return info ? info->defaults : "";
}

/* Does the job have the rule that goes with its model? */
static bool has_rule_of_model(const struct conf *c)
{
	char text[64];
	const struct conf_key *k = conf_key_find("job.optimizer", NULL);

	return c->job.optimizer && find_in_list(defaults_of_model(c), k, text, sizeof text) &&
	    strcmp(text, c->job.optimizer) == 0;
}

/* Writes the value of a key in the rule's defaults, with as few digits as its float needs. False:
 * the rule does not read the key. */
static bool write_rule_value(const struct optim_rule *rule, const struct conf_rule_key *key,
    char *text, size_t room)
{
	struct optim_hyper h;
	float v;

	if (key->uses && !(rule->uses & key->uses))
		return false;
	rule->defaults(&h);
	memcpy(&v, (const char *)&h + key->offset, sizeof v);
	snprintf(text, room, "%.7g", (double)v);
	return true;
}

char *conf_rule_defaults(const struct optim_rule *rule)
{
	struct buf out = BUF_INIT;
	char text[32];

	for (size_t i = 0; i < NRULE_KEYS; i++)
		if (write_rule_value(rule, &rule_keys[i], text, sizeof text))
			buf_printf(&out, "%s%s=%s", out.len ? " " : "",
			    rule_keys[i].path + strlen("job."), text);
	return (char *)out.data;
}

/* Writes the value that the job's update rule gives to the key. False: the rule does not read
 * it. */
static bool find_in_rule(const struct conf *c, const struct conf_key *k, char *text, size_t room)
{
	const struct optim_rule *rule = c->job.optimizer ? optim_find(c->job.optimizer) : NULL;

	for (size_t i = 0; rule && i < NRULE_KEYS; i++)
		if (strcmp(rule_keys[i].path, k->path) == 0)
			return write_rule_value(rule, &rule_keys[i], text, room);
	return false;
}

/* Finds the default of a key that the model or the rule gives, and says which one it was. The
 * model's values of a rule's keys hold for the model's own rule alone. */
static enum conf_origin find_default(const struct conf *c, const struct conf_key *k, char *text,
    size_t room)
{
	bool of_rule = is_key_of_rule(k);

	if ((!of_rule || has_rule_of_model(c)) && find_in_list(defaults_of_model(c), k, text, room))
		return CONF_FROM_MODEL;
	if (of_rule && find_in_rule(c, k, text, room))
		return CONF_FROM_RULE;
	if (!find_in_list(ELSEWHERE, k, text, room))
		snprintf(text, room, "0.1");
	return CONF_FROM_NOBODY;
}

/* The rule in place of a model's own one that finds its step sizes, when the user gives a learning
 * rate. */
#define RULE_WITH_RATE "adam"

bool conf_rule_follows_lr(const struct conf *c)
{
	const struct conf_key *key = conf_key_find("job.optimizer", NULL);
	const struct optim_rule *rule;
	char text[64];

	if (conf_given(c, key) || !conf_given(c, conf_key_find("job.lr", NULL)))
		return false;
	find_default(c, key, text, sizeof text);
	rule = optim_find(text);
	return rule && rule->finds_rate;
}

enum conf_origin conf_origin_of(const struct conf *c, const struct conf_key *k)
{
	char text[64];

	if (conf_given(c, k))
		return CONF_FROM_USER;
	return conf_key_derives(k) ? find_default(c, k, text, sizeof text) : CONF_FROM_NOBODY;
}

static void derive_default(struct conf *c, const struct conf_key *k)
{
	char text[64];
	enum err_code rc;

	if (conf_given(c, k))
		return;
	find_default(c, k, text, sizeof text);
	if (strcmp(k->path, "job.optimizer") == 0 && conf_rule_follows_lr(c))
		snprintf(text, sizeof text, RULE_WITH_RATE);
	rc = conf_value_parse(k, text, NULL, c, NULL);
	assert(rc == ERR_OK);
	(void)rc;
	conf_forget_given(c, k);
}

void conf_derive_of_rule(struct conf *c)
{
	size_t n;
	const struct conf_key *k = conf_keys(&n);

	for (size_t i = 0; i < n; i++)
		if (is_key_of_rule(&k[i]))
			derive_default(c, &k[i]);
}

/* Does something else than epochs end the training, or nothing at all? */
static bool has_other_end(const struct conf *c)
{
	return c->job.steps > 0 || conf_is_named(c->job.stop) ||
	    (c->job.data.n && data_log_is(c->job.data.item[0]));
}

void conf_derive(struct conf *c)
{
	size_t n;
	const struct conf_key *k = conf_keys(&n);

	for (size_t i = 0; i < n; i++)
		if (conf_key_derives(&k[i]) && !is_key_of_rule(&k[i]))
			derive_default(c, &k[i]);
	if (!conf_given(c, conf_key_find("job.epochs", NULL)) && has_other_end(c))
		c->job.epochs = 0;
	conf_derive_of_rule(c);
}

double conf_l2(const struct conf *c, uint64_t examples)
{
	const struct model_info *model = c->job.model ? model_info_find(c->job.model) : NULL;

	if (conf_given(c, conf_key_find("job.l2", NULL)) || !examples || !model ||
	    !(model->takes & MODEL_PRIOR))
		return c->job.l2;
	return 1 / (double)examples;
}

/* One worker pushes this many times an epoch, and of several workers each has this many batches of an epoch,
 * within these bounds. */
#define PUSHES_AN_EPOCH  16u
#define PUSH_MOST        65536u
#define BATCHES_AN_EPOCH 1024u
#define BATCH_MOST       4096u

/* Is a key left to the model or its rule, or does it have its default? A configuration that was read from a
 * run directory does not tell whether somebody has set a key to its default. */
static bool is_left(const struct conf *c, const struct conf *deflt, const char *path)
{
	const struct conf_key *k = conf_key_find(path, NULL);
	json_t *a, *b;
	bool same;

	if (conf_key_derives(k))
		return !conf_given(c, k);
	a = conf_value_json(k, c);
	b = conf_value_json(k, deflt);
	same = json_equal(a, b);
	json_decref(a);
	json_decref(b);
	return same;
}

/* Has nobody set a key on which the size of a step depends, or that counts steps, or that local steps do not
 * go with? */
static bool leaves_batches_to_model(const struct conf *c)
{
	static const char *const keys[] = { "job.batch", "local_steps", "accumulate", "outer",
		"deterministic", "robust", "adapt", "codec", "via", "lookahead", "checkpoint_every",
		"job.optimizer", "job.rules", "job.clip_norm", "job.steps", "job.eval_every",
		"job.stop" };
	bool left = true;
	struct conf deflt;

	conf_init(&deflt);
	for (size_t i = 0; left && i < sizeof keys / sizeof *keys; i++)
		left = is_left(c, &deflt, keys[i]);
	conf_release(&deflt);
	return left;
}

struct conf_batches conf_batches_of_data(const struct conf *c, uint64_t examples)
{
	const struct model_info *model = c->job.model ? model_info_find(c->job.model) : NULL;
	struct conf_batches out = { c->job.batch, c->local_steps };
	uint64_t part;

	if (!model || !(model->takes & MODEL_LEARNS_BY_USER) || examples < CONF_EXAMPLES_LARGE ||
	    !leaves_batches_to_model(c))
		return out;
	if (c->workers.max == 1) {
		part = examples / PUSHES_AN_EPOCH;
		return (struct conf_batches){ 1,
			part < PUSH_MOST ? (int64_t)part : (int64_t)PUSH_MOST };
	}
	part = examples / BATCHES_AN_EPOCH;
	if ((int64_t)part > out.batch)
		out.batch = part < BATCH_MOST ? (int64_t)part : (int64_t)BATCH_MOST;
	return out;
}

uint64_t conf_epochs(const struct conf *c, uint64_t examples, uint64_t rows)
{
	const struct model_info *model = c->job.model ? model_info_find(c->job.model) : NULL;
	uint64_t least = (uint64_t)c->job.epochs, wanted;

	if (conf_given(c, conf_key_find("job.epochs", NULL)) || !least || !examples || !model)
		return least;
	if (model->vectors && examples / CONF_EXAMPLES_OF_ROW < rows)
		return least;
	if (examples < CONF_EXAMPLES_LEAST)
		examples = CONF_EXAMPLES_LEAST;
	wanted = (model->enough + examples - 1) / examples;
	return wanted > least ? wanted : least;
}

/* SPDX-License-Identifier: ISC */
#include "conf/conf_live.h"

#include <string.h>

#include "conf/conf_key.h"
#include "conf/tune.h"
#include "core/json.h"
#include "core/names.h"

enum err_code conf_apply(struct conf *c, const json_t *set, struct err *e)
{
	enum err_code rc = ERR_OK;
	const char *name;
	json_t *v;
	bool rule_is_set = false;

	json_object_foreach((json_t *)(uintptr_t)set, name, v) {
		const struct conf_key *k = conf_key_find(name, e);

		if (!k)
			return e->code;
		rc = json_is_string(v)
		    ? conf_value_parse(k, json_string_value(v), NULL, c, e)
		    : err_set(e, ERR_CONFIG, "%s: must be a string in the syntax of --set",
		          k->path);
		if (rc)
			break;
		rule_is_set = rule_is_set || strcmp(k->path, "job.optimizer") == 0;
	}
	/* While the rule stays, its constants do, also those that another version wrote. */
	if (rule_is_set)
		conf_derive_of_rule(c);
	return rc;
}

static bool is_default(const struct conf *c, const struct conf *deflt, const struct conf_key *k)
{
	json_t *here = conf_value_json(k, c), *there = conf_value_json(k, deflt);
	bool same = conf_key_derives(k)
	    ? !conf_given(c, k)
	    : here == there || (here && there && json_equal(here, there));

	json_decref(here);
	json_decref(there);
	return same;
}

enum err_code conf_apply_unset(struct conf *c, const json_t *set, json_t **taken, struct err *e)
{
	json_t *mine = json_object();
	enum err_code rc = ERR_OK;
	struct conf deflt;
	const char *name;
	json_t *v;

	conf_init(&deflt);
	json_object_foreach((json_t *)(uintptr_t)set, name, v) {
		const struct conf_key *k = conf_key_find(name, e);

		if (!k)
			rc = ERR_CONFIG;
		else if (is_default(c, &deflt, k))
			json_object_set(mine, k->path, v);
	}
	conf_release(&deflt);
	if (!rc)
		rc = conf_apply(c, mine, e);
	if (!rc && taken)
		*taken = json_incref(mine);
	json_decref(mine);
	return rc;
}

static bool counts_members(const struct conf_key *k)
{
	return strcmp(k->path, "servers") == 0 || strcmp(k->path, "workers") == 0;
}

enum err_code conf_may_change(const json_t *set, struct err *e)
{
	const char *name;
	json_t *v;

	json_object_foreach((json_t *)(uintptr_t)set, name, v) {
		const struct conf_key *k = conf_key_find(name, e);

		if (!k)
			return e->code;
		if (!k->live)
			return err_set(e, ERR_CONFIG,
			    "%s: cannot change while the job runs; ps-ctl list options --json "
			    "shows the keys that can",
			    k->path);
	}
	return ERR_OK;
}

bool conf_holds_at_once(const json_t *set)
{
	const char *name;
	json_t *v;

	json_object_foreach((json_t *)(uintptr_t)set, name, v) {
		const struct conf_key *k = conf_key_find(name, NULL);

		if (!k || k->live != CONF_AT_ONCE)
			return false;
	}
	return true;
}

enum err_code conf_parse_adapt(const char *text, unsigned *keys, struct err *e)
{
	static const struct {
		const char *name;
		unsigned key;
	} known[] = { { "backup", TUNE_BACKUP }, { "staleness", TUNE_STALENESS },
		{ "codec", TUNE_CODEC }, { "batch", TUNE_BATCH } };

	*keys = 0;
	for (const char *at = names_first(text); at; at = names_next(at)) {
		size_t i = 0;

		while (i < sizeof known / sizeof *known && !names_is(at, known[i].name))
			i++;
		if (i == sizeof known / sizeof *known)
			return err_set(e, ERR_CONFIG,
			    "adapt: must be none or a list of backup, staleness, codec and batch, got \"%.80s\"",
			    text);
		*keys |= known[i].key;
	}
	return ERR_OK;
}

/* Copies one key, and whether somebody has set it. */
static enum err_code copy_key(const struct conf_key *k, struct conf *c, const struct conf *from,
    struct err *e)
{
	json_t *v = conf_value_json(k, from), *had = conf_value_json(k, c);
	bool same = v && had && json_equal(v, had) && conf_given(from, k) == conf_given(c, k);
	enum err_code rc = ERR_OK;

	if (v && !same && (c->has_job || strncmp(k->path, "job.", 4) != 0))
		rc = conf_value_read(k, v, NULL, c, e);
	if (v && conf_key_derives(k) && !conf_given(from, k))
		conf_forget_given(c, k);
	json_decref(v);
	json_decref(had);
	return rc;
}

enum err_code conf_copy_live(struct conf *c, const struct conf *from, struct err *e)
{
	enum err_code rc = ERR_OK;
	size_t n;
	const struct conf_key *k = conf_keys(&n);

	for (size_t i = 0; !rc && i < n; i++)
		if (k[i].live && !counts_members(&k[i]))
			rc = copy_key(&k[i], c, from, e);
	return rc;
}

enum err_code conf_follow(struct conf *c, const struct conf *from, struct err *e)
{
	const struct conf_key *epochs = conf_key_find("job.epochs", NULL);
	enum err_code rc = conf_copy_live(c, from, e);

	if (!rc)
		rc = copy_key(conf_key_find("job.steps", NULL), c, from, e);
	if (!rc && (conf_given(c, epochs) || conf_given(from, epochs)))
		rc = copy_key(epochs, c, from, e);
	return rc;
}

enum err_code conf_copy_at_once(struct conf *c, const struct conf *from, struct err *e)
{
	enum err_code rc = ERR_OK;
	size_t n;
	const struct conf_key *k = conf_keys(&n);

	for (size_t i = 0; !rc && i < n; i++)
		if (k[i].live == CONF_AT_ONCE && !counts_members(&k[i]))
			rc = copy_key(&k[i], c, from, e);
	return rc;
}

json_t *conf_take_at_once(json_t *set)
{
	json_t *taken = json_object(), *v;
	const char *name;
	void *next;

	json_object_foreach_safe(set, next, name, v) {
		const struct conf_key *k = conf_key_find(name, NULL);

		if (k && k->live == CONF_AT_ONCE) {
			json_object_set(taken, name, v);
			json_object_del(set, name);
		}
	}
	return taken;
}

enum err_code conf_at(const json_t *base, const struct setting *change, size_t n, uint64_t step,
    struct conf *out, struct err *e)
{
	enum err_code rc = conf_from_json(base, out, e);

	if (rc)
		return rc;
	for (size_t i = 0; !rc && i < n; i++)
		if ((uint64_t)change[i].step <= step)
			rc = conf_apply(out, change[i].set, e);
	if (rc)
		conf_release(out);
	return rc;
}

#include "server/settings.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "conf/conf_key.h"

/* Those that only workers go by: each takes them over before a step of its own; and quotas, which
 * servers take over with the view. */
static const char *const changeable[] = { "codec", "feedback", "filter", "quota_bytes", "quota_pushes" };

static bool may_change(const struct conf_key *k)
{
	for (size_t i = 0; i < sizeof changeable / sizeof *changeable; i++)
		if (strcmp(k->path, changeable[i]) == 0)
			return true;
	return false;
}

static enum err_code apply(struct conf *c, const json_t *set, struct err *e)
{
	enum err_code rc = ERR_OK;
	const char *name;
	json_t *v;

	json_object_foreach((json_t *)set, name, v) {
		const struct conf_key *k = rc ? NULL : conf_key_find(name, e);

		if (!k)
			return e->code;
		if (!may_change(k))
			rc = err_set(e, ERR_CONFIG, "%s: cannot change while the job runs; codec, feedback, filter, quota_bytes and quota_pushes can", k->path);
		else if (!json_is_string(v))
			rc = err_set(e, ERR_CONFIG, "%s: must be a string, as --set takes it", k->path);
		else
			rc = conf_value_parse(k, json_string_value(v), NULL, c, e);
	}
	return rc;
}

json_t *settings_of(const struct conf *c, const json_t *state)
{
	json_t *plain = conf_to_json(c), *changed = NULL;
	struct conf again;
	struct err e;

	if (!json_object_size(json_object_get(state, "settings")))
		return plain;
	if (conf_from_json(plain, &again, &e) == ERR_OK) {
		if (apply(&again, json_object_get(state, "settings"), &e) == ERR_OK)
			changed = conf_to_json(&again);
		conf_release(&again);
	}
	if (!changed)
		return plain;
	json_decref(plain);
	return changed;
}

/* "codec=topk:0.01 feedback=off", of strings; fresh. */
static char *sentence(const json_t *set)
{
	struct buf b = BUF_INIT;
	const char *name;
	json_t *v;

	json_object_foreach((json_t *)set, name, v)
		buf_printf(&b, "%s%s=%.80s", b.len ? " " : "", name, json_string_value(v));
	return b.data ? (char *)b.data : mem_strdup("");
}

json_t *settings_now(struct host *h)
{
	json_t *copy;

	host_lock(h);
	copy = json_deep_copy(h->config);
	host_unlock(h);
	return copy;
}

enum err_code settings_change(struct host *h, const json_t *set, const char *who, int64_t *number, struct err *e)
{
	json_t *config, *old;
	struct conf conf;
	enum err_code rc;
	char *what;

	if (!json_object_size(set))
		return err_set(e, ERR_USAGE, "set: must name a key at least");
	host_lock(h);
	rc = conf_from_json(h->config, &conf, e);
	if (!rc) {
		rc = apply(&conf, set, e);
		if (!rc)
			rc = conf_validate(&conf, e);
		config = conf_to_json(&conf);
		conf_release(&conf);
		old = h->config;
		/* Only now: apply has seen that all values are strings. */
		what = rc ? NULL : sentence(set);
		if (!rc)
			rc = coord_set(h->coord, config, set, what, who, number, e);
		if (!rc)
			h->config = config;
		json_decref(rc ? config : old);
		free(what);
	}
	host_unlock(h);
	return rc;
}

enum err_code settings_pause(struct host *h, bool pause, const char *who, struct err *e)
{
	enum err_code rc;

	host_lock(h);
	rc = coord_pause(h->coord, pause, who, clock_now(), e);
	host_unlock(h);
	return rc;
}

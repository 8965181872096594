/* SPDX-License-Identifier: ISC */
#include "coordinator/initial_settings.h"

#include <stdio.h>
#include <unistd.h>

#include "conf/conf_key.h"
#include "conf/conf_live.h"
#include "conf/conf_rule.h"
#include "coordinator/settings.h"
#include "core/json.h"
#include "core/mem.h"
#include "rundir/rundir.h"

/* A worker's key has no administrator's rights, so its program may propose these keys only. */
static const char *const keys[] = {
	"sync",
	"codec",
	"job.epochs",
	"job.steps",
	"job.batch",
	"job.optimizer",
	"job.rules",
	"job.lr",
	"job.schedule",
	"job.momentum",
	"job.beta1",
	"job.beta2",
	"job.eps",
	"job.rho",
	"job.l2",
	"job.clip_norm",
	"job.eval_every",
};

static enum err_code check_proposed_keys(const struct coordinator *coordinator, const json_t *set,
    struct err *e)
{
	const char *model = coord_present_conf(coordinator->coord)->job.model;
	const char *name;
	json_t *v;

	if (json_object_size(set) && (!model || strcmp(model, "custom") != 0))
		return err_set(e, ERR_CONFIG,
		    "settings: a worker can set keys only with model custom");
	json_object_foreach((json_t *)(uintptr_t)set, name, v) {
		const struct conf_key *k = conf_key_find(name, e);
		size_t i = 0;

		if (!k)
			return e->code;
		while (i < sizeof keys / sizeof *keys && strcmp(k->path, keys[i]) != 0)
			i++;
		if (i == sizeof keys / sizeof *keys)
			return err_set(e, ERR_CONFIG,
			    "%s: a worker cannot set this key; set it in the cluster file",
			    k->path);
	}
	return ERR_OK;
}

/* The file of initial parameters that a worker made in the run directory: a fresh path, or NULL
 * with the reason in e. */
static char *find_initial_parameters(const struct coordinator *coordinator, struct err *e)
{
	const char *run = coordinator->server->cfg.id->run_dir;
	char *path = run ? rundir_path(run, RUNDIR_FIRST) : NULL;

	if (path && access(path, R_OK) == 0)
		return path;
	free(path);
	err_set(e, ERR_NOTREADY,
	    "the run directory does not have the initial parameters yet: worker-0 writes them");
	return NULL;
}

static enum err_code propose_initial_settings(struct coordinator *coordinator, const char *who,
    const json_t *set, struct err *e)
{
	json_t *present = coord_present_config(coordinator->coord), *taken = NULL, *config;
	struct conf c;
	enum err_code rc = conf_from_json(present, &c, e);

	if (rc)
		return rc;
	rc = conf_apply_unset(&c, set, &taken, e);
	if (!rc && json_object_size(taken))
		rc = conf_validate_keys(&c, e);
	if (!rc && json_object_size(taken))
		rc = settings_check_job(coordinator, &c, taken, e);
	config = conf_to_json(&c);
	if (!rc && !json_equal(config, present))
		coord_apply_settings_before_start(coordinator->coord,
		    &(struct setting){ .set = taken, .who = who });
	json_decref(config);
	json_decref(taken);
	conf_release(&c);
	return rc;
}

/* Adds the text of an integer to the settings. */
static void set_integer(json_t *set, const char *key, int64_t value)
{
	char text[32];

	snprintf(text, sizeof text, "%lld", (long long)value);
	json_object_set_new(set, key, json_string(text));
}

/* Proposes the settings whose default depends on the number of examples. */
static enum err_code propose_defaults(struct coordinator *coordinator,
    const struct message_worker_join *m, struct err *e)
{
	const struct conf *c = coord_present_conf(coordinator->coord);
	uint64_t examples = m->lease || m->stream ? 0 : (uint64_t)m->examples;
	struct conf_batches batches = conf_batches_of_data(c, examples);
	double l2 = conf_l2(c, examples);
	enum err_code rc = ERR_OK;
	json_t *set = json_object();
	char text[32];

	if (l2 != c->job.l2) {
		snprintf(text, sizeof text, "%.6g", l2);
		json_object_set_new(set, "job.l2", json_string(text));
	}
	if (batches.batch != c->job.batch)
		set_integer(set, "job.batch", batches.batch);
	if (batches.local_steps != c->local_steps)
		set_integer(set, "local_steps", batches.local_steps);
	if (json_object_size(set))
		rc = propose_initial_settings(coordinator, "default", set, e);
	json_decref(set);
	return rc;
}

enum err_code initial_settings(struct coordinator *coordinator, const struct coord_self *self,
    const struct message_worker_join *m, struct err *e)
{
	const json_t *settings = m->settings;
	json_t *set;
	enum err_code rc = check_proposed_keys(coordinator, settings, e);
	char *first = NULL;

	mutex_assert_held(&coordinator->lock);
	if (rc || !coordinator->cfg.has_job || coord_is_placed(coordinator->coord) ||
	    !coord_resume_is_checked(coordinator->coord) ||
	    coord_phase(coordinator->coord) != PHASE_FORMING)
		return rc;
	set = json_is_object(settings) ? json_copy((json_t *)(uintptr_t)settings) : json_object();
	if (m->first) {
		first = find_initial_parameters(coordinator, e);
		rc = first ? ERR_OK : e->code;
		json_object_set_new(set, "job.init", json_string(first ? first : ""));
	}
	if (!rc)
		rc = propose_initial_settings(coordinator, self->name, set, e);
	if (!rc)
		rc = propose_defaults(coordinator, m, e);
	free(first);
	json_decref(set);
	return rc;
}

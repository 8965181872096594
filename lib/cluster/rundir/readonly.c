/* SPDX-License-Identifier: ISC */
#include "rundir/readonly.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conf/conf_key.h"
#include "core/mem.h"
#include "rundir/prepare.h"

/* Is the key about training alone? A read-only server has the model as it was trained. */
static bool is_of_training(const char *path)
{
	static const char *const keys[] = { "servers_max", "workers", "sync", "backup", "adapt",
		"deterministic", "robust", "on_worker_loss", "codec", "lookahead", "sparse", "via",
		"filter", "feedback", "accumulate", "local_steps", "outer", "quota_pushes",
		"join_wait", "checkpoint_every", "checkpoint_deltas", "checkpoint_to", "keep_last",
		"keep_every", "keep_best" };
	static const char *const read[] = { "job.data", "job.eval", "job.data_memory", "job.cache",
		"job.top_k", "job.batch" };

	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
		if (strcmp(keys[i], path) == 0)
			return true;
	/* Evaluations and predictions of the cluster's programs read these. */
	for (size_t i = 0; i < sizeof read / sizeof *read; i++)
		if (strcmp(read[i], path) == 0)
			return false;
	return strncmp(path, "job.", 4) == 0;
}

/* Says that an assignment changes nothing. It was valid. */
static void report_unused(const char *assignment)
{
	char *name = mem_printf("%.*s", (int)strcspn(assignment, "="), assignment);
	const struct conf_key *k = conf_key_find(name, NULL);

	if (k && is_of_training(k->path))
		fprintf(stderr,
		    "%s: --set %s changes nothing: a read-only server has the model as it was trained\n",
		    program_invocation_short_name, name);
	free(name);
}

enum err_code readonly_prepare(const json_t *config, const char *const *sets, size_t nsets,
    struct conf *conf, char **dir, int *lock, struct err *e)
{
	enum err_code rc = conf_from_json(config, conf, e);

	if (!rc)
		rc = conf_make_read_only(conf, e);
	for (size_t i = 0; !rc && i < nsets; i++)
		rc = conf_set(conf, sets[i], e);
	if (!rc)
		rc = conf_validate_keys(conf, e);
	if (!rc && conf->servers > 1)
		rc = err_set(e, ERR_CONFIG,
		    "servers: a read-only cluster must be one server, got %lld",
		    (long long)conf->servers);
	if (rc)
		return rc;
	for (size_t i = 0; i < nsets; i++)
		report_unused(sets[i]);
	if (!*dir)
		*dir = mem_printf("%s-read.run",
		    conf->name && *conf->name ? conf->name : "cluster");
	return rundir_prepare(conf, *dir, lock, e);
}

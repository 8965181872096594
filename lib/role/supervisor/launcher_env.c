/* SPDX-License-Identifier: ISC */
#include "supervisor/launcher_env.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/json.h"
#include "core/num.h"
#include "msg/tf_config.h"

#define RANKS_MAX 65536
#define TF_MAX    65536

void launcher_env_init(struct launcher_env *r)
{
	*r = (struct launcher_env){ .rank = -1,
		.size = -1,
		.local = -1,
		.servers = -1,
		.workers = -1 };
}

/* The value of a variable; NULL when it is unset or empty. name may be NULL. */
static const char *get_variable(const char *name)
{
	const char *value = name ? getenv(name) : NULL;

	return value && *value ? value : NULL;
}

/* Read a number from a variable. *out stays when it is unset; a wrong value is ERR_CONFIG. */
static enum err_code read_number_variable(const char *name, int64_t *out, struct err *e)
{
	const char *text = get_variable(name);

	if (!text || num_int(text, 0, RANKS_MAX, out))
		return ERR_OK;
	return err_set(e, ERR_CONFIG, "%s=%.40s: must be a number from 0 to %d", name, text,
	    RANKS_MAX);
}

static enum err_code parse_role(const char *name, const char *text, enum launcher_role *role,
    struct err *e)
{
	static const struct {
		const char *word;
		enum launcher_role role;
	} words[] = {
		{ "server", LAUNCHER_SERVER },
		{ "ps", LAUNCHER_SERVER },
		{ "worker", LAUNCHER_WORKER },
		{ "chief", LAUNCHER_WORKER },
	};

	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (strcmp(words[i].word, text) == 0) {
			*role = words[i].role;
			return ERR_OK;
		}
	return err_set(e, ERR_CONFIG, "%s=%.40s: must be server or worker", name, text);
}

/* ---- variables ---- */

/* The variables of one launcher. The source counts only if `rank` and `with` are both set.
 * `here`: the number of ranks on this host. `run`: up to three variables that together identify
 * the run. */
struct source {
	const char *rank, *with, *size, *local, *here, *run[3];
};

static const struct source sources[] = {
	{ "PS_RANK", NULL, "PS_WORLD_SIZE", "PS_LOCAL_RANK", NULL, { "PS_RUN_ID" } },
	{ "RANK", "WORLD_SIZE", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE",
	    { "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "MASTER_PORT" } },
	{ "OMPI_COMM_WORLD_RANK", NULL, "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
	    "OMPI_COMM_WORLD_LOCAL_SIZE", { "PMIX_NAMESPACE" } },
	{ "PMI_RANK", "PMI_SIZE", "PMI_SIZE", NULL, NULL,
	    { "PMI_JOBID", "SLURM_JOB_ID", "SLURM_STEP_ID" } },
	{ "PMIX_RANK", NULL, NULL, NULL, NULL, { "PMIX_NAMESPACE" } },
	{ "SLURM_PROCID", "SLURM_STEP_ID", "SLURM_NTASKS", "SLURM_LOCALID", NULL,
	    { "SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT" } },
	{ "JOB_COMPLETION_INDEX", NULL, NULL, NULL, NULL, { NULL } },
};

static void join_run_id(struct launcher_env *r, const struct source *s)
{
	for (size_t i = 0; i < 3; i++) {
		const char *part = get_variable(s->run[i]);
		size_t n = strlen(r->run);

		if (part)
			snprintf(r->run + n, sizeof r->run - n, "%s%s", n ? "." : "", part);
	}
}

/* Read the members that are still unknown from the variables of one launcher. */
static enum err_code read_source(struct launcher_env *r, const struct source *s, struct err *e)
{
	int64_t here = -1;
	enum err_code rc = read_number_variable(s->rank, &r->rank, e);

	if (rc == ERR_OK && r->size < 0)
		rc = read_number_variable(s->size, &r->size, e);
	if (rc == ERR_OK)
		rc = read_number_variable(s->local, &r->local, e);
	if (rc == ERR_OK)
		rc = read_number_variable(s->here, &here, e);
	if (!r->run[0])
		join_run_id(r, s);
	r->one_host = here > 0 && here == r->size;
	snprintf(r->from, sizeof r->from, "%s", s->rank);
	return rc;
}

static bool is_source_present(const struct source *s)
{
	return get_variable(s->rank) && (!s->with || get_variable(s->with));
}

/* In a heterogeneous job of Slurm the size is that of one component only, and is dropped. */
static void correct_slurm_size(struct launcher_env *r)
{
	const char *nodes = get_variable("SLURM_STEP_NUM_NODES"),
	           *parts = get_variable("SLURM_HET_SIZE");

	if (strcmp(r->from, "SLURM_PROCID") != 0)
		return;
	if (parts)
		r->size = -1;
	r->one_host = !parts && nodes && strcmp(nodes, "1") == 0;
}

/* ---- other sources ---- */

/* Kubernetes: the number at the end of the host name, "web-2", of a pod of a stateful set. */
static bool rank_from_hostname(struct launcher_env *r)
{
	char name[256] = "";
	const char *dash;

	if (!get_variable("KUBERNETES_SERVICE_HOST"))
		return false;
	gethostname(name, sizeof name - 1);
	name[strcspn(name, ".")] = 0;
	dash = strrchr(name, '-');
	if (!dash || !num_int(dash + 1, 0, RANKS_MAX, &r->rank))
		return false;
	snprintf(r->from, sizeof r->from, "the host's name");
	return true;
}

/* Read TF_CONFIG. Its chief is worker 0, and its workers follow. */
static enum err_code rank_from_tf_config(struct launcher_env *r, const char *text, struct err *e)
{
	json_t *o = json_parse(text, strlen(text), TF_MAX, e);
	enum err_code rc = o ? ERR_OK : ERR_CONFIG;
	struct tf_config tf;

	tf_config_decode(o, &tf);
	if (rc == ERR_OK && (tf.index < 0 || tf.index >= RANKS_MAX))
		rc = err_set(e, ERR_CONFIG, "task.index: must be a number from 0");
	if (rc == ERR_OK)
		rc = parse_role("task.type", tf.type, &r->role, e);
	if (rc == ERR_OK) {
		r->rank = tf.index + (strcmp(tf.type, "worker") == 0 ? tf.chiefs : 0);
		r->servers = tf.servers;
		r->workers = tf.chiefs + tf.workers;
		r->in_role = true;
		snprintf(r->from, sizeof r->from, "TF_CONFIG");
	} else {
		err_prefix(e, "TF_CONFIG");
	}
	json_decref(o);
	return rc;
}

/* Read the variables of MXNet's and ps-lite's launchers. */
static enum err_code rank_from_dmlc(struct launcher_env *r, const char *role, struct err *e)
{
	const char *name;
	enum err_code rc;

	if (strcmp(role, "scheduler") == 0)
		return err_set(e, ERR_CONFIG,
		    "DMLC_ROLE=scheduler: pskit has no scheduler; server 0 is the coordinator");
	rc = parse_role("DMLC_ROLE", role, &r->role, e);
	name = r->role == LAUNCHER_SERVER ? "DMLC_SERVER_ID" : "DMLC_WORKER_ID";
	r->in_role = true;
	if (rc == ERR_OK)
		rc = read_number_variable(name, &r->rank, e);
	if (rc == ERR_OK)
		rc = read_number_variable("DMLC_NUM_SERVER", &r->servers, e);
	if (rc == ERR_OK)
		rc = read_number_variable("DMLC_NUM_WORKER", &r->workers, e);
	if (rc == ERR_OK && r->rank < 0)
		rc = err_set(e, ERR_CONFIG, "DMLC_ROLE=%s is set, and %s is not", role, name);
	snprintf(r->from, sizeof r->from, "DMLC_ROLE");
	return rc;
}

/* Use the first launcher whose variables are present. *found: there is one. */
static enum err_code rank_from_variables(struct launcher_env *r, bool *found, struct err *e)
{
	enum err_code rc = ERR_OK;

	*found = false;
	for (size_t i = 0; !*found && i < sizeof sources / sizeof *sources; i++)
		if (is_source_present(&sources[i])) {
			*found = true;
			rc = read_source(r, &sources[i], e);
			/* The index of a Kubernetes job, and PS_RANK with PS_ROLE, count in a
			 * role. */
			r->in_role = i + 1 == sizeof sources / sizeof *sources ||
			    (i == 0 && get_variable("PS_ROLE"));
			correct_slurm_size(r);
		}
	if (!*found && rank_from_hostname(r))
		*found = r->in_role = true;
	return rc;
}

enum err_code launcher_env_read_environment(struct launcher_env *r, struct err *e)
{
	const char *role = get_variable("PS_ROLE"), *run = get_variable("PS_RUN_ID"),
	           *tf = get_variable("TF_CONFIG"), *dmlc = get_variable("DMLC_ROLE");
	enum err_code rc = ERR_OK;
	bool found = false;

	if (!r->run[0] && run)
		snprintf(r->run, sizeof r->run, "%s", run);
	if (r->rank >= 0) {
		r->in_role = r->role != LAUNCHER_ANY;
		snprintf(r->from, sizeof r->from, "--rank");
		return r->size < 0 ? read_number_variable("PS_WORLD_SIZE", &r->size, e) : ERR_OK;
	}
	if (r->role == LAUNCHER_ANY && role)
		rc = parse_role("PS_ROLE", role, &r->role, e);
	if (rc == ERR_OK)
		rc = rank_from_variables(r, &found, e);
	if (rc != ERR_OK || found)
		return rc;
	if (tf)
		return rank_from_tf_config(r, tf, e);
	if (dmlc)
		return rank_from_dmlc(r, dmlc, e);
	return err_set(e, ERR_NOTFOUND,
	    "cannot tell the rank of this process: start it by srun, mpirun or torchrun, or give "
	    "--rank and --run-id");
}

/* ---- role and number ---- */

void launcher_env_describe(const struct launcher_env *r, char *out, size_t size)
{
	static const char *const roles[] = { "by rank", "server", "worker" };
	char of[32] = "", local[32] = "";

	if (r->size >= 0)
		snprintf(of, sizeof of, "/%lld", (long long)r->size);
	if (r->local >= 0)
		snprintf(local, sizeof local, " local=%lld", (long long)r->local);
	snprintf(out, size, "role=%s rank=%lld%s%s from %s", roles[r->role], (long long)r->rank, of,
	    local, r->from);
}

enum err_code launcher_env_find_role(const struct launcher_env *r, int64_t servers,
    enum launcher_role *role, int64_t *n, struct err *e)
{
	if (!r->in_role && r->size >= 0 && r->rank >= r->size)
		return err_set(e, ERR_CONFIG, "%s: rank %lld is out of range: size is %lld",
		    r->from, (long long)r->rank, (long long)r->size);
	if (r->in_role && r->role == LAUNCHER_ANY)
		return err_set(e, ERR_CONFIG,
		    "%s counts the processes of one role: give --role server or --role worker",
		    r->from);
	*role = r->in_role ? r->role : r->rank < servers ? LAUNCHER_SERVER : LAUNCHER_WORKER;
	if (r->role != LAUNCHER_ANY && *role != r->role)
		return err_set(e, ERR_CONFIG,
		    "rank %lld (%s) is a %s, as are the first %lld %s, but its role differs",
		    (long long)r->rank, r->from, *role == LAUNCHER_SERVER ? "server" : "worker",
		    (long long)servers, servers == 1 ? "is a server" : "are servers");
	*n = r->in_role || *role == LAUNCHER_SERVER ? r->rank : r->rank - servers;
	return ERR_OK;
}

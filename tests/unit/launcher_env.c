/* SPDX-License-Identifier: ISC */
#include <stdlib.h>
#include <string.h>

#include "supervisor/launcher_env.h"
#include "tap.h"

static struct launcher_env r;
static struct err e;

/* An environment of these alone: "A=1 B=2" (no blanks inside), or with | between them. */
static enum err_code in(const char *variables)
{
	char copy[1024], *at = copy, *one;

	clearenv();
	snprintf(copy, sizeof copy, "%s", variables);
	while ((one = strsep(&at, "|")) != NULL) {
		const char *name = strsep(&one, "=");

		if (one)
			setenv(name, one, 1);
	}
	launcher_env_init(&r);
	e = (struct err){ 0 };
	return launcher_env_read_environment(&r, &e);
}

static void is(const char *variables, const char *want, const char *run)
{
	char text[160] = "";
	enum err_code rc = in(variables);

	launcher_env_describe(&r, text, sizeof text);
	ok(rc == ERR_OK && strcmp(text, want) == 0 && strcmp(r.run, run) == 0, "%s, run \"%s\"%s%s",
	    text, r.run, rc ? ": " : "", e.msg);
}

static void refused(const char *variables, enum err_code code, const char *why)
{
	ok(in(variables) == code && strstr(e.msg, why), "%s: %s", variables, e.msg);
}

#define SLURM \
	"SLURM_PROCID=2|SLURM_NTASKS=4|SLURM_LOCALID=0|SLURM_JOB_ID=7|SLURM_STEP_ID=0|SLURM_STEP_NUM_NODES=2"
#define OMPI \
	"OMPI_COMM_WORLD_RANK=1|OMPI_COMM_WORLD_SIZE=3|OMPI_COMM_WORLD_LOCAL_RANK=1|OMPI_COMM_WORLD_LOCAL_SIZE=3|PMIX_NAMESPACE=9"

static void sources(void)
{
	is(SLURM, "role=by rank rank=2/4 local=0 from SLURM_PROCID", "7.0");
	ok(!r.one_host, "two nodes");
	is(SLURM "|SLURM_RESTART_COUNT=1", "role=by rank rank=2/4 local=0 from SLURM_PROCID",
	    "7.0.1");
	is(SLURM "|SLURM_HET_SIZE=2", "role=by rank rank=2 local=0 from SLURM_PROCID", "7.0");
	is(OMPI, "role=by rank rank=1/3 local=1 from OMPI_COMM_WORLD_RANK", "9");
	ok(r.one_host, "one host");
	is(OMPI "|" SLURM, "role=by rank rank=1/3 local=1 from OMPI_COMM_WORLD_RANK", "9");
	is("RANK=1|WORLD_SIZE=2|LOCAL_RANK=0|LOCAL_WORLD_SIZE=1|TORCHELASTIC_RUN_ID=x|TORCHELASTIC_RESTART_COUNT=0|" OMPI,
	    "role=by rank rank=1/2 local=0 from RANK", "x.0");
	is("RANK=1|" OMPI, "role=by rank rank=1/3 local=1 from OMPI_COMM_WORLD_RANK", "9");
	is("PS_RANK=0|PS_WORLD_SIZE=5|PS_RUN_ID=a|" OMPI, "role=by rank rank=0/5 from PS_RANK",
	    "a");
	is("PS_RANK=2|PS_ROLE=worker|PS_RUN_ID=a", "role=worker rank=2 from PS_RANK", "a");
	is("PMI_RANK=1|PMI_SIZE=2|SLURM_JOB_ID=3", "role=by rank rank=1/2 from PMI_RANK", "3");
	is("PMIX_RANK=1|PMIX_NAMESPACE=n", "role=by rank rank=1 from PMIX_RANK", "n");
	is("JOB_COMPLETION_INDEX=4|PS_ROLE=worker|PS_RUN_ID=u",
	    "role=worker rank=4 from JOB_COMPLETION_INDEX", "u");
	is("TF_CONFIG={\"cluster\":{\"ps\":[\"a:1\"],\"chief\":[\"b:1\"],\"worker\":[\"c:1\",\"d:1\"]},\"task\":{\"type\":\"worker\",\"index\":1}}",
	    "role=worker rank=2 from TF_CONFIG", "");
	ok(r.servers == 1 && r.workers == 3, "a chief is a worker");
	is("DMLC_ROLE=server|DMLC_SERVER_ID=1|DMLC_NUM_SERVER=2|DMLC_NUM_WORKER=4",
	    "role=server rank=1 from DMLC_ROLE", "");
	ok(r.servers == 2 && r.workers == 4, "as many as DMLC says");
}

static void mistakes(void)
{
	refused("", ERR_NOTFOUND, "cannot tell the rank");
	/* The batch script is no step. */
	refused("SLURM_PROCID=0|SLURM_JOB_ID=7|SLURM_NTASKS=4", ERR_NOTFOUND,
	    "cannot tell the rank");
	refused("PS_RANK=first", ERR_CONFIG, "PS_RANK=first");
	refused("PS_RANK=1|PS_ROLE=boss", ERR_CONFIG, "PS_ROLE=boss");
	refused("TF_CONFIG={", ERR_CONFIG, "TF_CONFIG");
	refused("TF_CONFIG={\"task\":{\"type\":\"evaluator\",\"index\":0}}", ERR_CONFIG,
	    "task.type=evaluator");
	refused("DMLC_ROLE=scheduler", ERR_CONFIG, "server 0 is the coordinator");
	refused("DMLC_ROLE=worker", ERR_CONFIG, "DMLC_WORKER_ID is not");
}

static void placed(const char *variables, int64_t servers, enum launcher_role want, int64_t n)
{
	enum launcher_role role = LAUNCHER_ANY;
	int64_t number = -1;
	enum err_code rc = in(variables);

	rc = rc ? rc : launcher_env_find_role(&r, servers, &role, &number, &e);
	ok(rc == ERR_OK && role == want && number == n, "%s of %lld servers is %s %lld%s",
	    variables, (long long)servers, role == LAUNCHER_SERVER ? "server" : "worker",
	    (long long)number, e.msg);
}

static void misplaced(const char *variables, const char *why)
{
	enum launcher_role role;
	int64_t number;

	ok(in(variables) == ERR_OK &&
	        launcher_env_find_role(&r, 2, &role, &number, &e) == ERR_CONFIG &&
	        strstr(e.msg, why),
	    "%s: %s", variables, e.msg);
}

int main(void)
{
	sources();
	mistakes();
	placed("PS_RANK=1", 2, LAUNCHER_SERVER, 1);
	placed("PS_RANK=2", 2, LAUNCHER_WORKER, 0);
	placed("PS_RANK=2|PS_ROLE=worker", 2, LAUNCHER_WORKER, 2);
	placed(SLURM "|PS_ROLE=worker", 2, LAUNCHER_WORKER, 0);
	misplaced(SLURM "|PS_ROLE=server", "its role differs");
	misplaced("PS_RANK=4|PS_WORLD_SIZE=4", "rank 4 is out of range: size is 4");
	misplaced("JOB_COMPLETION_INDEX=1", "--role");
	clearenv();
	launcher_env_init(&r);
	r.rank = 3;
	r.role = LAUNCHER_WORKER;
	ok(launcher_env_read_environment(&r, &e) == ERR_OK && r.in_role &&
	        strcmp(r.from, "--rank") == 0,
	    "options come first");
	return tap_done();
}

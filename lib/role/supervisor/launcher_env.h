/* SPDX-License-Identifier: ISC */
#ifndef SUPERVISOR_LAUNCHER_ENV_H
#define SUPERVISOR_LAUNCHER_ENV_H

#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"

/* Finds out which process of a run this one is, from the environment that launchers and schedulers
 * set. The sources are tried in the order of launcher_env_read_environment(), and the first one
 * that is present counts. No state; reads the environment only. */
enum launcher_role { LAUNCHER_ANY, LAUNCHER_SERVER, LAUNCHER_WORKER };

struct launcher_env {
	enum launcher_role role;  /* LAUNCHER_ANY: by the rank, servers first */
	int64_t rank;             /* from 0; -1: unknown */
	bool in_role;             /* the rank counts processes of its role only */
	int64_t size;             /* number of all ranks; -1: unknown */
	int64_t local;            /* rank among the ranks of this host; -1: unknown */
	bool one_host;            /* the source says that all ranks are on this host */
	int64_t servers, workers; /* their numbers; -1: unknown */
	char run[128];            /* an id that differs for each run; "": unknown */
	char from[48];            /* the source: "OMPI_COMM_WORLD_RANK" */
};

/* Set all members to unknown. */
void launcher_env_init(struct launcher_env *r);

/* Fill the members of r that are unknown (the others come from options) from the first source of:
 *   PS_RANK (with PS_ROLE: among that role), PS_WORLD_SIZE, PS_LOCAL_RANK; PS_RUN_ID
 *   RANK with WORLD_SIZE (torchrun)
 *   OMPI_COMM_WORLD_RANK (Open MPI; before Slurm's, which its children see, too)
 *   PMI_RANK with PMI_SIZE, PMIX_RANK (MPICH, PMIx)
 *   SLURM_PROCID, when SLURM_STEP_ID says that this is a step, and not the batch script
 *   JOB_COMPLETION_INDEX, or with KUBERNETES_SERVICE_HOST the number that ends the host's name
 *   TF_CONFIG
 *   DMLC_ROLE with DMLC_WORKER_ID or DMLC_SERVER_ID
 * ERR_CONFIG names a variable with an invalid value; ERR_NOTFOUND: there is no source. */
enum err_code launcher_env_read_environment(struct launcher_env *r, struct err *e);

/* Describe r as "role=worker rank=3/8 local=1 from OMPI_COMM_WORLD_RANK". */
void launcher_env_describe(const struct launcher_env *r, char *out, size_t size);

/* The role of the process (LAUNCHER_SERVER or LAUNCHER_WORKER) and its number in that role, where
 * the first `servers` ranks are servers. ERR_CONFIG when the rank contradicts the role or the
 * size. */
enum err_code launcher_env_find_role(const struct launcher_env *r, int64_t servers,
    enum launcher_role *role, int64_t *number, struct err *e);

#endif

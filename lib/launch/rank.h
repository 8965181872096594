#ifndef LAUNCH_RANK_H
#define LAUNCH_RANK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/* Which of the processes of a run this one is, as launchers and schedulers say it in the
 * environment.  The first that says it counts, in the order of rank_find. */
enum rank_role { RANK_ANY, RANK_SERVER, RANK_WORKER };

struct rank {
	enum rank_role role;            /* RANK_ANY: by the rank, servers first */
	int64_t rank;                   /* from 0; -1: not said */
	bool in_role;                   /* it counts those of its role alone */
	int64_t size;                   /* of all ranks; -1: not said */
	int64_t local;                  /* among those of this host; -1: not said */
	bool one_host;                  /* all are on this host, as is said */
	int64_t servers, workers;       /* how many there are; -1: not said */
	char run[128];                  /* what tells this run from the one before; "": not said */
	char from[48];                  /* who said it: "OMPI_COMM_WORLD_RANK" */
};

/* As nothing was said. */
void rank_init(struct rank *r);

/* What is in r already (of options) stays; the rest is from the first of:
 *   PS_RANK (with PS_ROLE among those of the role), PS_WORLD_SIZE, PS_LOCAL_RANK; PS_RUN_ID
 *   RANK with WORLD_SIZE (torchrun)
 *   OMPI_COMM_WORLD_RANK (Open MPI; before Slurm's, which its children see, too)
 *   PMI_RANK with PMI_SIZE, PMIX_RANK (MPICH, PMIx)
 *   SLURM_PROCID, when SLURM_STEP_ID says that this is a step, and not the batch script
 *   JOB_COMPLETION_INDEX, or with KUBERNETES_SERVICE_HOST the number that ends the host's name
 *   TF_CONFIG
 *   DMLC_ROLE with DMLC_WORKER_ID or DMLC_SERVER_ID
 * ERR_CONFIG names the variable that makes no sense; ERR_NOTFOUND: nobody says it. */
enum err_code rank_find(struct rank *r, struct err *e);

/* "role=worker rank=3/8 local=1 from OMPI_COMM_WORLD_RANK". */
void rank_text(const struct rank *r, char *out, size_t size);

/* Who that is, servers being the first `servers` ranks: RANK_SERVER or RANK_WORKER, and its number among
 * those.  ERR_CONFIG when role and rank contradict each other, or size. */
enum err_code rank_place(const struct rank *r, int64_t servers, enum rank_role *role, int64_t *number, struct err *e);

#endif

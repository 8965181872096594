#ifndef WORK_TRAIN_H
#define WORK_TRAIN_H

#include <jansson.h>
#include <signal.h>

#include "base/err.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "client/identity.h"
#include "sim/sim.h"

struct train_config {
	const struct identity *id;
	int slot;                       /* -1: any */
	const char *const *data;        /* instead of the configuration's; ndata 0: that */
	size_t ndata;
	/* Of model custom, where the caller takes the steps (work/worker.h) and has the gradients;
	 * tables, examples: where the configuration says nothing. */
	bool by_caller;
	const char *tables;
	uint64_t examples;
	const json_t *settings;         /* likewise: {"lr":"0.01"}; NULL: none */
	const char *first;              /* file with first parameters, where those are not configured; NULL: none */
	const char *exec;               /* command that computes the gradients of model custom; NULL: none */
	const char *cache;              /* directory for parsed data, or "none"; NULL: the configuration's */
	const char *zone;               /* where it is; NULL: not said */
	const char *listen, *iface;     /* where other workers reach it (via allreduce); NULL: as suits */
	const sigset_t *hold;           /* blocked from the join on: until then there is nothing to leave */
	struct sim_compute compute;     /* a step's gradient takes as long at least, to try slow workers; 0 */
	struct interrupt interrupt;     /* of these: finish the step (in a ring: not) and leave */
	struct log *log;
};

/* One worker's life: load the data, join, train until the job is over.  ERR_OK
 * when the job is done, or when this worker was asked to leave. */
enum err_code train(const struct train_config *cfg, struct err *e);

#endif

/* SPDX-License-Identifier: ISC */
#ifndef WORKER_TRAIN_H
#define WORKER_TRAIN_H

#include <signal.h>

#include "core/err.h"
#include "core/thread.h"
#include "core/json.h"
#include "core/log.h"
#include "model/model.h"
#include "session/identity.h"
#include "worker/delay.h"
#include "worker/worker_ops.h"

/* The configuration of one worker. All pointers are borrowed and must outlive train(). */
struct train_config {
	const struct model_kind *const *models; /* kinds that it can compute; job_source.models */
	const struct identity *id;
	int rank; /* rank to ask for; -1: any */
	/* training data instead of the configuration's; ndata 0: the configuration's */
	const char *const *data;
	size_t ndata;
	/* who computes gradients (worker/worker_ops.h): &worker_native, &worker_program with
	 * `exec`, or the library's. kind_ctx is for it alone. */
	const struct worker_ops *kind;
	void *kind_ctx;
	/* tables and number of examples where the configuration leaves them open */
	const char *tables;
	uint64_t examples;
	/* settings that the configuration leaves open, as {"lr":"0.01"}; NULL: none */
	const json_t *settings;
	/* file of initial parameters where none is configured; NULL: none */
	const char *first;
	const char
	    *exec; /* of worker_program: command that computes the gradients of model custom */
	const char
	    *cache; /* directory for parsed data, "run" or "none"; NULL: the configuration's */
	const char *zone; /* availability zone; NULL: not given */
	/* listening address or interfaces for other workers (via: allreduce); NULL: chosen */
	const char *listen, *iface;
	/* signals to block from the join on, when leaving needs care */
	const sigset_t *hold;
	/* minimum duration of a gradient, to imitate slow workers; 0: none */
	struct compute_time compute;
	/* when it fires: finish the step (all-reduce: abandon it) and leave */
	struct interrupt interrupt;
	/* something starts this process again when it has ended */
	bool returns;
	/* how long to wait for the first session with the coordinator, in ns; 0: 60 s */
	int64_t first_wait;
	struct log *log;
};

/* Runs one worker: loads the data, joins and trains until the job is over. ERR_OK when the job is
 * done, or when this worker was asked to leave. Blocks; see worker/worker.h for the states. */
enum err_code train(const struct train_config *cfg, struct err *e);
/* Has the worker given up because it could not reach the coordinator or a server? Another try may help. */
bool train_has_given_up(const struct err *e);

#endif

/* SPDX-License-Identifier: ISC */
#ifndef WORKER_PROGRAM_H
#define WORKER_PROGRAM_H

#include "metric/metrics.h"
#include "worker/params.h"

/* Runs the user's program that computes the gradients of model custom; see ps-program(7).
 * Parameters and gradients are files of raw little-endian float32 (program_files.h), questions and
 * answers are lines on its stdin and stdout.
 *
 * States: not running (pid 0) -> running: start_program_process; running -> not running: the
 * program closed its stdout or does not read, and is reaped. A question to a program that is not
 * running starts it; a program that dies during a question is started again and asked once more,
 * AGAIN times in a row at most.
 *
 * One thread, the training thread. The worker becomes a child subreaper, so that children which the
 * program leaves behind can be killed. */
struct program;

struct program_config {
	const char *command; /* for sh -c */
	const char *name;    /* name of the worker */
	/* data instead of the configuration's; ndata 0: the configuration's */
	const char *const *data;
	size_t ndata;
	struct log *log;
	_Atomic uint64_t *restarts; /* counts its restarts */
	/* Called while the program computes: shall the worker give up? May be NULL. */
	bool (*attend)(void *ctx, struct err *why);
	void *ctx;
};

/* Does not start it yet. Copies cfg, but not the data that it points to. */
struct program *program_new(const struct program_config *cfg);
/* The functions that job_load needs to compute model custom with this program. */
const struct model_outside *program_outside(const struct program *p);
/* Makes the files of the job's tables, and starts the program. The job is borrowed. From here on,
 * processes that the program leaves behind become children of this process, which has no other
 * children. */
enum err_code program_begin(struct program *p, const struct job *job, struct err *e);
/* Closes its stdin, and kills it when it is still there after 2 s; also whatever it started. */
void program_free(struct program *p);

/* Sets the step that questions are about from now on. */
void program_step(struct program *p, uint64_t step);
/* Before the parameters are pulled: asks which rows of the job's sparse tables these examples need,
 * and leaves them in to->rows. Asks nothing when there are no such tables or no examples. */
enum err_code program_name_rows(struct program *p, const struct batch *b, struct params *to,
    struct err *e);
/* Asks which rows job.eval needs. The rows of the step stay as they are. */
enum err_code program_name_eval_rows(struct program *p, struct params *to, struct err *e);
/* Why the last gradient failed, as an error; ERR_OK: it did not. */
enum err_code program_fault(const struct program *p, struct err *e);
/* Scores job.eval with these parameters; for sparse tables they are the rows that
 * program_name_eval_rows returned. */
enum err_code program_evaluate(struct program *p, const float *const params[],
    struct eval_result *out, struct err *e);
#endif

#ifndef WORK_PROGRAM_H
#define WORK_PROGRAM_H

#include "model/metrics.h"
#include "work/params.h"

/* The gradients of model custom, from a program of the user's: parameters and gradients are
 * files of raw little-endian float32, questions and answers lines on its stdin and stdout; see
 * ps-program(7).  It is started again when it dies, and asked once more. */
struct program;

struct program_config {
	const char *command;            /* for sh -c */
	const char *name;               /* of the worker */
	const char *const *data;        /* instead of the configuration's; ndata 0: that */
	size_t ndata;
	struct log *log;
	_Atomic uint64_t *restarts;     /* how often it was started again: counted here */
	/* Asked while it computes: shall that be given up?  May be NULL. */
	bool (*cancelled)(void *ctx, struct err *why);
	void *ctx;
};

/* Copies cfg, not what it points to. */
struct program *program_new(const struct program_config *cfg);
/* What job_load is to know of it. */
const struct model_outside *program_outside(const struct program *p);
/* Make the files of the job's tables, and start it.  The job is borrowed.  From here on what
 * the program leaves behind becomes a child of this process, which has no others. */
enum err_code program_begin(struct program *p, const struct job *job, struct err *e);
/* The end of its stdin; killed with all of its process group when it stays for 2 s. */
void program_free(struct program *p);

/* The step that gradients are asked for from now on. */
void program_step(struct program *p, uint64_t step);
/* Before the parameters are pulled: ask which rows of the job's sparse tables these examples need, and leave them in
 * to->rows.  Without such tables, or without examples, nothing is asked. */
enum err_code program_name_rows(struct program *p, const struct batch *b, struct params *to, struct err *e);
/* The same of job.eval; those of the step are as they were. */
enum err_code program_name_eval_rows(struct program *p, struct params *to, struct err *e);
/* Why the last gradient failed; ERR_OK: it did not. */
enum err_code program_fault(const struct program *p, struct err *e);
/* Score job.eval with these parameters; of sparse tables with those of the rows that program_name_eval_rows gave. */
enum err_code program_evaluate(struct program *p, const float *const params[], struct eval_result *out, struct err *e);
#endif

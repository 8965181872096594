/* SPDX-License-Identifier: ISC */
#ifndef WORKER_LOCAL_H
#define WORKER_LOCAL_H

#include "conf/conf_rule.h"
#include "worker/params.h"

/* The work between a pull and a push. There are two ways, by configuration:
 *
 * Gradient: the gradient of the batch is pushed. It is computed in pieces of job.batch
 * examples, `accumulate` pieces a step.
 *
 * Local steps (local_steps > 1): this many steps with the rule job.optimizer on a copy of the
 * parameters. The difference between the pulled parameters and the copy is pushed. The rule's state
 * lasts from push to push; that of sparse tables is in local_rows.h. A step reads and changes only the
 * rows that its examples have.
 *
 * One thread; no locks. */
struct local;

/* job is borrowed. ERR_CONFIG, ERR_NOMEM. */
enum err_code local_new(const struct job *job, struct local **out, struct err *e);
void local_free(struct local *l);

/* The job's configuration has changed. The rule's state is kept when the
 * rule stays the same. ERR_CONFIG, ERR_NOMEM. */
enum err_code local_reconfigure(struct local *l, struct err *e);

/* Completes the gradient in p->g as the settings in force say. Every kind of worker calls it before the
 * gradient is pushed, so a setting that changes gradients has its place here. */
void local_finish(const struct local *l, struct params *p, const struct batch *b);
/* Computes into p->g what is to be pushed at this step. *loss is the mean over the examples;
 * infinite or NaN when that of a piece is. ERR_NOMEM. */
enum err_code local_compute(struct local *l, struct params *p, const struct batch *b, uint64_t step,
    double *loss, struct err *e);

#endif

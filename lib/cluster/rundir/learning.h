/* SPDX-License-Identifier: ISC */
#ifndef RUNDIR_LEARNING_H
#define RUNDIR_LEARNING_H

#include "core/buf.h"
#include "core/json.h"

/* Text about the learning of a job, from its status or result. Pure. */

/* Is the loss of the last batches, `last`, well above that of the first batch? False for NAN. */
bool learning_loss_rose(double first, double last);
/* Is this the result of a job that has made steps, but had no example in them? */
bool learning_lacked_examples(const json_t *result);
/* Appends "auc 0.81, best 0.82 at step 300"; nothing before the first evaluation. best: the member
 * best_eval. */
void learning_put_best(const json_t *best, struct buf *out);
/* Is the evaluated model no better than the best constant prediction? */
bool learning_trails_constant(const json_t *figures);
/* Appends what is wrong with the course of the loss; nothing otherwise. */
void learning_put_course_faults(const json_t *figures, struct buf *out);
/* Appends all that is wrong, as "overfits since step 300; diverged: ..."; nothing otherwise. */
void learning_put_faults(const json_t *figures, struct buf *out);

#endif

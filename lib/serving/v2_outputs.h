/* SPDX-License-Identifier: ISC */
#ifndef SERVING_V2_OUTPUTS_H
#define SERVING_V2_OUTPUTS_H

#include "core/buf.h"
#include "core/json.h"
#include "serving/v2_request.h"
#include "worker/job.h"

/* Scores as outputs of the Open Inference Protocol:
 *
 *   prediction   of classes their names (BYTES, [n]); else the value of each real target (FP32, or
 *                FP64 where the targets are relative to an origin; [n], or [n, targets])
 *   probability  of each class (FP32, [n, classes]), where the model gives probabilities
 *   score        of each class, or of class 1 of two classes, where it does not (FP32, [n, k])
 *
 * Pure. */

/* The outputs as metadata, a new reference. */
json_t *v2_outputs_describe(const struct job *job);
/* Does the model have all outputs that were asked for? ERR_FORMAT. */
enum err_code v2_outputs_check(const struct v2_request *r, const struct job *job, struct err *e);
/* Appends the answer: JSON, and after it the raw outputs, if any is asked for in binary. Returns the
 * length of the JSON; *binary: raw outputs follow it. scores: (r->rows, outputs). */
size_t v2_outputs_write(const struct v2_request *r, const struct job *job, const float *scores,
    const char *model, const char *version, struct buf *out, bool *binary);

#endif

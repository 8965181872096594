/* SPDX-License-Identifier: ISC */
#ifndef METRIC_BASELINE_H
#define METRIC_BASELINE_H

#include "core/json.h"
#include "metric/metrics.h"

/* The best constant prediction for the examples of an evaluation (struct baseline). Pure. */

/* m has been finished, with the result r. */
void baseline_measure(const struct metrics *m, const struct eval_result *r, struct baseline *out);
/* An evaluation as JSON has the member "constant", the metrics of the constant prediction, if the
 * model is no better. */
void baseline_add(json_t *eval, const struct baseline *b);
/* Appends "no better than the constant prediction (accuracy 0.5, and 0.52)"; nothing when the model
 * is better. */
void baseline_sentence(const json_t *eval, struct buf *out);

#endif

/* SPDX-License-Identifier: ISC */
#ifndef WORKER_EVALUATE_H
#define WORKER_EVALUATE_H

#include "metric/detail.h"
#include "worker/params.h"

/* Scoring of examples with the parameters of a source (layout/param_source.h), and hashing of a
 * model on the servers. No state; all calls may block on reads. */

/* Scores the examples of a sequence, from the first one on, with the present values of the source.
 * dense_here: the dense tables in p are used as they are and not pulled. strict: a parameter or a
 * score that is not finite is an error, ERR_NONFINITE; otherwise the metrics show it. detail: gets
 * the tables of the same examples; NULL: they are not wanted. */
enum err_code evaluate(struct params *p, struct data_sequence *data, bool dense_here, bool strict,
    struct metric_detail *detail, struct eval_result *out, struct err *e);

/* Calls fn with the scores of the examples in order, n * model_outputs floats, a batch at a time.
 * An error of fn ends it. ERR_NONFINITE: a parameter, which the message names, or a score is not
 * finite. */
typedef enum err_code (
    *predict_fn)(void *ctx, const struct batch *b, const float *scores, struct err *e);
enum err_code evaluate_predict(struct params *p, struct data_sequence *data, predict_fn fn,
    void *ctx, struct err *e);
/* As evaluate_predict, of examples that arrive while others wait for their predictions. fresh: pull
 * the dense tables and the rows that all scores use first; else p holds the parameters of the last
 * call. */
enum err_code evaluate_predict_now(struct params *p, const struct dataset *data, bool fresh,
    predict_fn fn, void *ctx, struct err *e);

/* BLAKE2b-256 of all tables by name and rows by id, as hexadecimal digits; see
 * ps-consistency(7) for what is hashed. */
enum err_code model_digest(struct client *c, char hex[static 65], struct err *e);

#endif

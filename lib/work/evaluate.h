#ifndef WORK_EVALUATE_H
#define WORK_EVALUATE_H

#include "work/params.h"

/* Score a data set with the model as it stands on the servers (or, dense_here,
 * with the dense tables that params holds already). */
enum err_code evaluate(struct params *p, const struct dataset *data, bool dense_here, struct eval_result *out,
    struct err *e);

/* Scores for each example, in order: n * model_outputs floats, a piece at a time.  dense: pull the dense
 * tables, too; else they are as the last call has left them. */
typedef enum err_code (*predict_fn)(void *ctx, const struct batch *b, const float *scores, struct err *e);
enum err_code predict(struct params *p, const struct dataset *data, bool dense, predict_fn fn, void *ctx, struct err *e);

/* BLAKE2b-256 of all tables by name and rows by id, as hexadecimal digits; see
 * ps-consistency(7) for what is hashed. */
enum err_code model_digest(struct client *c, char hex[static 65], struct err *e);

#endif

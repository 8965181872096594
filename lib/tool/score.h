/* SPDX-License-Identifier: ISC */
#ifndef TOOL_SCORE_H
#define TOOL_SCORE_H

#include "tool/prediction.h"
#include "tool/tool.h"
#include "worker/evaluate.h"

/* A job's model with a source of its parameters, to score data with. Shared by score.c and
 * follow.c. One thread, the source's. */
struct scoring {
	struct job job;
	struct params params;
	struct predictions predictions;
	int fd; /* where predictions go */
};

/* Loads the job. The training data are read only when the source does not describe them, or when
 * items are to be ranked. reads_eval: load the job's evaluation data, too. measures: data will be
 * evaluated. */
enum err_code score_open(const struct tool_model *m, bool reads_eval, bool measures, int fd,
    struct scoring *out, struct err *e);
/* Frees what score_open made, also when it has failed. */
void score_close(struct scoring *s);
/* A predict_fn whose ctx is a struct scoring. Writes the predictions of a batch to its
 * descriptor. */
enum err_code score_print(void *ctx, const struct batch *b, const float *scores, struct err *e);
/* Writes what is known even where there are no examples. */
enum err_code score_end(struct scoring *s, struct err *e);

#endif

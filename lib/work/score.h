#ifndef WORK_SCORE_H
#define WORK_SCORE_H

#include "work/evaluate.h"
#include "work/tool.h"

/* Shared by score.c and follow.c: a job's model, and its parameters on the servers. */
struct scoring {
	struct job job;
	struct params params;
	int fd;                         /* where predictions go */
};

/* The training data are read only where the coordinator cannot tell of them. */
enum err_code scoring_open(struct tool *t, bool evaluates, int fd, struct scoring *out, struct err *e);
/* Of what scoring_open has failed on, too. */
void scoring_close(struct scoring *s);
/* For predict, with a struct scoring as ctx.  A line an example: of real targets the value; of two
 * classes the probability of class 1; of classes the name of the likeliest and its probability. */
enum err_code scoring_print(void *ctx, const struct batch *b, const float *scores, struct err *e);

#endif

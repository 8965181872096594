/* SPDX-License-Identifier: ISC */
#ifndef WORKER_LOCAL_H
#define WORKER_LOCAL_H

#include "conf/rule.h"
#include "worker/params.h"

/* The work between a pull and a push. Three ways, by configuration:
 *
 * Gradient: of the batch, in pieces of job.batch examples, `accumulate` pieces a step.
 *
 * Local steps (local_steps > 1): so many steps with the rule job.optimizer on a copy of the
 * parameters. Pushed is the difference between the pulled parameters and the copy. The rule's state
 * for dense tables lasts from push to push.
 *
 * Streaming (fragments > 1, too): the copy goes on from step to step. Each step pushes one fragment
 * of it, a range of partitions, whose answer comes while the next step computes (Douillard et al.,
 * "Streaming DiLoCo", 2025). local_begin, then each step: local_compute, client_wait, local_merge,
 * local_send.
 *
 * One thread; no locks. */
struct local;

/* ERR_CONFIG: local steps with a rule that has state need dense tables. */
enum err_code local_new(const struct job *job, struct local **out, struct err *e);
void local_free(struct local *l);

/* The job's configuration has changed; `fragments` cannot change. The rule's state is kept when the
 * rule stays the same. ERR_CONFIG, ERR_NOMEM. */
enum err_code local_reconfigure(struct local *l, struct err *e);

/* Completes the gradient in p->g: zero for frozen tables, and clipped to job.clip_norm. */
void local_finish(const struct local *l, struct params *p, const struct batch *b);
/* Computes into p->g what is to be pushed at this step. *loss is the mean over the examples;
 * infinite or NaN when that of a piece is. ERR_NOMEM. */
enum err_code local_compute(struct local *l, struct params *p, const struct batch *b, uint64_t step,
    double *loss, struct err *e);

/* Does the configuration ask for streaming? Has it begun? */
bool local_streams(const struct local *l);
bool local_begun(const struct local *l);
/* Begins streaming with the parameters in p, which must all have been pulled. ERR_CONFIG: there are
 * fewer partitions than fragments, or a sparse table. ERR_NOMEM. */
enum err_code local_begin(struct local *l, const struct params *p, struct err *e);
/* Undoes the last local_compute, which used the wrong examples. Only when streaming. */
void local_undo(struct local *l);
/* When streaming, for a step without examples: requests one partition, whose arrival tells that the
 * step has begun. An outstanding fragment must have been merged. */
enum err_code local_probe(struct local *l, struct params *p, uint64_t step, struct err *e);
/* After client_wait: merges the fragment that has arrived into the copy. */
void local_merge(struct local *l, struct params *p);
/* Pushes the fragment of this step, and requests the servers' sum of it. */
enum err_code local_send(struct local *l, struct params *p, const struct batch *b, uint64_t step,
    struct err *e);

#endif

#ifndef WORK_LOCAL_H
#define WORK_LOCAL_H

#include "conf/rule.h"
#include "work/params.h"

/* What a worker does between a pull and a push: the gradient of its batches, in
 * pieces of job.batch examples, `accumulate` of them to a step; and with local_steps
 * so many steps by job.optimizer on a copy of the parameters, of which the way back
 * is what is pushed.  The rule's state lasts from push to push, of dense tables. */
struct local;

/* ERR_CONFIG: local steps by a rule with state want dense tables. */
enum err_code local_new(const struct job *job, struct local **out, struct err *e);
void local_free(struct local *l);

/* The job's configuration has changed: of fragments nothing may.  What the rule keeps goes on
 * where it is the same rule. */
enum err_code local_turn(struct local *l, struct err *e);

/* p->g has been given: what of it is frozen is zero, and it is as long as it may be. */
void local_finish(const struct local *l, struct params *p, const struct batch *b);
/* Leaves in p->g what is to be pushed at this step; *loss is the mean over the
 * examples, infinite or NaN where a piece's is.  ERR_NOMEM. */
enum err_code local_work(struct local *l, struct params *p, const struct batch *b, uint64_t step, double *loss,
    struct err *e);

/* With fragments above 1 the copy goes on from step to step; only a part of it is pushed at
 * each, and comes back while the next is computed (Douillard et al., "Streaming DiLoCo",
 * 2025).  Does it?  Has it begun? */
bool local_streams(const struct local *l);
bool local_begun(const struct local *l);
/* Everything has been pulled: the copy begins there.  ERR_CONFIG: there are fewer partitions
 * than fragments, or a sparse table; ERR_NOMEM. */
enum err_code local_begin(struct local *l, const struct params *p, struct err *e);
/* The last local_work was of other examples than it should have been. */
void local_undo(struct local *l);
/* With nothing to compute at this step: ask for as little as tells when it has begun.
 * What is on its way must have been merged. */
enum err_code local_probe(struct local *l, struct params *p, uint64_t step, struct err *e);
/* After client_wait: what was asked for is here. */
void local_merge(struct local *l, struct params *p);
/* Push the fragment whose turn it is, and ask for what becomes of it. */
enum err_code local_send(struct local *l, struct params *p, const struct batch *b, uint64_t step, struct err *e);

#endif

#ifndef WORK_FEED_H
#define WORK_FEED_H

#include "work/cluster.h"
#include "work/job.h"

/* Which examples a worker's next batch has.  bsp: by (seed, epoch, step, slot),
 * from the members in the view.  ssp and asp, and a bsp that comes after them: from
 * ranges leased from the coordinator, one ahead. */
struct feed;

/* idle: called while no range is to be had, though others still hold some that
 * would come back if they died; it must see to it that nobody waits for this
 * worker meanwhile.  An error ends the wait. */
struct feed *feed_new(const struct job *job, struct cluster *cluster, uint32_t slot,
    enum err_code (*idle)(void *ctx, struct err *e), void *ctx);
void feed_free(struct feed *f);

/* Take the members from a view. */
void feed_view(struct feed *f, const json_t *view);
/* The job's configuration has changed. */
void feed_turn(struct feed *f);
/* Is the data of this step dealt, and so by who takes part in it? */
bool feed_deals(const struct feed *f, uint64_t step);
/* Membership entries known. */
uint32_t feed_members(const struct feed *f);

/* The batch of this step; *over when there is no more.  An empty batch (bsp, at
 * an epoch's end) is a step all the same. */
enum err_code feed_batch(struct feed *f, uint64_t step, struct batch *b, bool *over, struct err *e);
/* Of the time since it was asked last, how much there was nothing to lease, in ns. */
int64_t feed_idled(struct feed *f);
/* The batch has been trained on: its range may be given back as done. */
enum err_code feed_used(struct feed *f, struct err *e);
/* Nothing is kept: hand back what is done. */
enum err_code feed_finish(struct feed *f, struct err *e);

/* Epochs done so far, with a fraction; steps in all, 0 when unknown. */
double feed_epoch(const struct feed *f);
uint64_t feed_total(const struct feed *f);
/* Is this slot the one that evaluates during training, at this step? */
bool feed_elected(const struct feed *f, uint64_t step);

#endif

/* SPDX-License-Identifier: ISC */
#ifndef LAB_SWEEP_LADDER_H
#define LAB_SWEEP_LADDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"

/* Which run of a sweep comes next. The points of a sweep climb a ladder: at each rung a point has trained
 * for this many steps, and only the best 1/eta of those that have finished a rung go on to the next one.
 * This is asynchronous successive halving, ASHA (Li et al., "A system for massively parallel
 * hyperparameter tuning", 2018, arXiv 1810.05934, algorithm 2): a promotion does not wait until all
 * points have finished the rung. Without ASHA the ladder has one rung.
 *
 *   waiting   --next-->           running   the first rung, in the order of the points
 *   running   --ended-->          at rest   with a score of the rung; the last rung is the end
 *   at rest   --next, promoted--> running   the next rung
 *   running   --interrupted-->    waiting, or at rest  (it is the next one to run)
 *
 * The paper draws points without end. Here they end, so when nothing else can run and no point has
 * finished the last rung, the best one of the highest rung goes on. Pure: no clock, file or thread. */

struct sweep_climber {
	size_t granted; /* rungs that it may run */
	size_t done;    /* rungs that it has finished */
	bool running;
	bool ended;    /* it cannot go on: it failed, or its data were used up */
	double *score; /* of each finished rung, the lower the better; INFINITY: failed */
};

struct sweep_ladder {
	int64_t eta;
	int64_t *steps; /* of each rung, ascending; 0, with one rung: as the cluster file says */
	size_t rungs;
	struct sweep_climber *point;
	size_t npoints;
};

/* Makes a ladder of n points. text: NULL, one rung; or "min=STEPS[,max=STEPS][,eta=N]" of --asha.
 * steps: the steps of the cluster file, which are the default of max; 0: it does not say.
 * ERR_USAGE. The ladder must be released in any case. */
enum err_code sweep_ladder_init(struct sweep_ladder *l, const char *text, int64_t steps, size_t n,
    struct err *e);
void sweep_ladder_release(struct sweep_ladder *l);

/* Chooses the next point to run. Its rung is point[*i].done, and it is running then. False: none,
 * until a run ends. */
bool sweep_ladder_next(struct sweep_ladder *l, size_t *i);
/* A running point has finished its rung with a score. ended: it cannot go on. */
void sweep_ladder_ended(struct sweep_ladder *l, size_t i, double score, bool ended);
/* A running point was interrupted: it has not finished its rung. */
void sweep_ladder_gave_up(struct sweep_ladder *l, size_t i);
/* Begin with what an earlier sweep did: the point has begun its next rung. */
void sweep_ladder_grant(struct sweep_ladder *l, size_t i);

/* Counts the points that have finished a rung, and those that went on from it. */
struct sweep_rung {
	size_t finished, promoted, failed;
	double best; /* score; INFINITY: none */
};
struct sweep_rung sweep_ladder_rung(const struct sweep_ladder *l, size_t rung);

#endif

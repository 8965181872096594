/* SPDX-License-Identifier: ISC */
#ifndef LAYOUT_PLACE_H
#define LAYOUT_PLACE_H

#include "layout/layout.h"

/* Changes of a layout that is in use: failover, repair and balancing. Pure; the owner locks (the
 * coordinator: coordinator.lock), and raises the layout epoch when something has changed. The
 * states of a run are drawn in layout.h. */

/* Take a lost server out of all chains. The next server of each chain moves up, so the one that was
 * after a lost primary is the primary now. Returns the number of partitions without any replica
 * left. */
uint32_t place_drop(struct layout *l, unsigned server);

/* Repair chains: where a replica is missing, choose one server to join; at most one joins a run at
 * a time. `server` are the n servers that may hold partitions; only the first njoin may get new
 * ones. A replica is missing where a chain is shorter than `replicas`; a server in a chain that is
 * not among the n is to leave. Returns the number of runs changed. */
size_t place_repair(struct layout *l, const uint16_t *server, size_t njoin, size_t n,
    unsigned replicas);

/* The weights of partitions, by table and partition: half of the total comes from their elements
 * and half from their push rates. rate has the same shape, in any unit; a negative rate is unknown
 * and counts as the table's mean. Rates close to the table's mean count as the mean, so that the
 * noise of measurements moves nothing. Free it with place_weights_free. */
uint64_t **place_weights(const struct layout *l, double *const *rate);
/* Free weights of ntables tables; NULL is fine. */
void place_weights_free(uint64_t **weight, size_t ntables);
/* Start moving partitions from loaded servers to others, until no move from the most to the least
 * loaded one would help, or the two are about even. Runs with a joining server do not move. weight:
 * from place_weights; NULL: elements alone. Returns the number of moves. */
size_t place_balance(struct layout *l, const uint16_t *server, size_t n, uint64_t *const *weight);

/* The joining server now has replicas of all runs of which `from` is the tail, in this layout epoch
 * (1 or more). Returns the number of runs for which that is new. */
size_t place_copied(struct layout *l, unsigned server, unsigned from);
/* Joining servers whose tail has said in this layout epoch that they have their replicas become
 * tails, and leaving servers go. Returns the number of runs changed.
 *
 * A report of an earlier layout must not count. Suppose that server C has copied a partition in
 * layout 5, that layout 6 takes C out of the chain and layout 7 lets it join again. Its copy begins
 * again, and pushes are acknowledged without it. If the report of layout 5 made C the tail, these
 * pushes would be lost, and workers would wait for steps that C has not closed. */
size_t place_joined(struct layout *l);
/* Take `server` out of the chains in which it comes directly after `from`, because `from` cannot
 * reach it. Returns the number of runs changed. */
size_t place_cut_link(struct layout *l, unsigned from, unsigned server);

/* The load of a server with the runs it holds or is joining, in elements (sparse tables: the rows
 * that the shape announces). */
uint64_t place_load(const struct layout *l, unsigned server);
/* The number of partitions with a joining server, and of all partitions. */
void place_progress(const struct layout *l, uint64_t *moving, uint64_t *all);

#endif

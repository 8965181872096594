#ifndef COORD_PLACE_H
#define COORD_PLACE_H

#include "coord/layout.h"

/* Changes of a layout while it is in use.  Pure; the owner locks, and raises
 * the epoch when something has changed. */

/* A server is gone: take it out of all chains.  Returns how many partitions
 * have no copy left. */
uint32_t place_drop(struct layout *l, unsigned server);

/* Where copies are wanted, name one server to join: `server` are the n that may
 * hold partitions, of which the first njoin may get more; at most one joins a
 * run at a time.  Copies are missing where a chain is shorter than `replicas`;
 * and a server in a chain that is not among the n shall leave.  Returns how
 * many runs have changed. */
size_t place_mend(struct layout *l, const uint16_t *server, size_t njoin, size_t n, unsigned replicas);

/* What partitions weigh, by table and partition: their elements, and as much in all
 * by how much they are pushed to (rate, of the same shape, in any unit; below 0 where
 * that is not known: as the others of the table are).  What is pushed to about as much
 * as its table is on the average counts as that, so what was measured moves nothing by
 * its noise alone. */
uint64_t **place_weigh(const struct layout *l, double *const *rate);
void place_weigh_free(uint64_t **weight, size_t ntables);
/* Move runs from servers that hold much to servers that hold little, until no
 * move from the fullest to the emptiest makes it more even, or the two differ by
 * little.  Nothing is moved where a server joins.  weight:
 * of place_weigh; NULL: elements alone. */
size_t place_balance(struct layout *l, const uint16_t *server, size_t n, uint64_t *const *weight);

/* The joining server has copies of the runs of which `from` is the last.  Returns
 * of how many that was not known. */
size_t place_copied(struct layout *l, unsigned server, unsigned from);
/* Servers that have their copies take their places, and who was to leave goes.
 * Returns how many runs have changed. */
size_t place_joined(struct layout *l);
/* Take `server` out where it comes right after `from`.  Returns how many runs
 * have changed. */
size_t place_unlink(struct layout *l, unsigned from, unsigned server);

/* What a server holds or will hold, in elements (rows of sparse tables as the
 * shape says). */
uint64_t place_load(const struct layout *l, unsigned server);
/* Partitions with a copy on the way, and all partitions. */
void place_progress(const struct layout *l, uint64_t *moving, uint64_t *all);

#endif

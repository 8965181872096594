/* SPDX-License-Identifier: ISC */
#ifndef DATA_OBSERVATIONS_H
#define DATA_OBSERVATIONS_H

#include "data/data_blocks.h"
#include "data/batch/data_pairs.h"

/* The observations of training data in blocks, which are too large for the memory: the list of their items,
 * and a filter that knows their pairs of a user and an item. The filter finds each observed pair. It also
 * finds a few others by mistake, one in 30 at most: such an item is never drawn for that user, and is not
 * ranked for it. (It is a blocked Bloom filter: Putze, Sanders and Singler, "Cache-, Hash- and
 * Space-Efficient Bloom Filters", 2007.)
 *
 * Observations that are held out are in neither of the two. They are listed, for a random sample of the
 * users that is as large as a ranked set needs (DATA_PAIRS_RANKED).
 *
 * Nothing changes after data_observations_read, so that all threads may read. */
struct data_observations;

/* Reads all blocks once. memory: bytes that training data may take; a quarter of them is used for the
 * filter, and the items may need another quarter. share->share 0: nothing is held out. draws: items that
 * are drawn for each example. ERR_CONFIG: the data are not ratings, have features of users or items, or have
 * too many observations or items; or all observations are held out, or none. Errors of the data's readers. */
enum err_code data_observations_read(const struct data_blocks *b,
    const struct data_pairs_share *share, size_t draws, uint64_t memory,
    struct data_observations **out, struct err *e);
void data_observations_free(struct data_observations *o); /* NULL is fine */

/* Was the pair observed? */
bool data_observations_have(const struct data_observations *o, struct data_pair p);
/* The features of the items, ascending. */
const uint64_t *data_observations_items(const struct data_observations *o, size_t *n);
/* The observations that are held out, of a sample of the users. */
const struct data_pair *data_observations_held_out(const struct data_observations *o, size_t *n);
/* Bytes that these observations take, with those for two chunks; 0 for NULL. */
uint64_t data_observations_memory(const struct data_observations *o);

/* Makes training examples of a chunk of the blocks (data_blocks_finish_by): removes the observations that
 * are held out, and joins the others (data_pairs_join). ctx: the observations. */
enum err_code data_observations_finish(const void *ctx, struct dataset *chunk, struct err *e);

#endif

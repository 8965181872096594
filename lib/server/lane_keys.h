#ifndef SERVER_LANE_KEYS_H
#define SERVER_LANE_KEYS_H

#include "server/state.h"

/* Sessions and the keys that they were made with. */

/* Look every peer's key up again, and cut those that have none any more.  When all lanes have,
 * the coordinator is told how many sessions of whom were cut, and that this is by the
 * keys of that number. */
void lanes_recheck(struct server *s, uint64_t made);
/* On the lane's thread, every now and then: cut those whose key has expired. */
void lane_expire(struct lane *l);
/* How many sessions there are of each key, by its name: a new object.  Waits for the lanes;
 * no lock may be held that they take. */
json_t *lanes_census(struct server *s);

#endif

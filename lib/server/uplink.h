#ifndef SERVER_UPLINK_H
#define SERVER_UPLINK_H

#include "server/state.h"
#include "wire/sums.h"

/* A relay's way to the servers, or to the relay above it.  One thread of its own; the
 * calls may come from any other. */

enum err_code uplink_start(struct server *s, struct err *e);
/* Its thread ends; then, when nobody calls any more, the rest. */
void uplink_stop(struct uplink *u);
void uplink_free(struct uplink *u);

/* The view has been taken over here: self is this relay's number in it. */
void uplink_view(struct uplink *u, const json_t *view, unsigned self);

/* shard_config.forward; ctx is the server. */
void uplink_forward(void *server, uint16_t index, uint16_t table, uint32_t part);

/* Tell of a slot's clock; the answer is due when uplink_acked is as much as this gives. */
uint64_t uplink_clock(struct uplink *u, const struct slot_clock *c);
uint64_t uplink_acked(struct uplink *u);
/* The slot is no longer this relay's. */
void uplink_forget(struct uplink *u, uint32_t slot);

/* What is pulled at a step, and is not here: a dense table, or rows of a partition.  epoch:
 * that it is asked in; in another one all is asked anew, and who has come may be at a step
 * before.  False: they are more than mem_limit lets a relay keep. */
void uplink_want(struct uplink *u, uint16_t table, uint64_t step, uint32_t epoch);
bool uplink_want_rows(struct uplink *u, uint16_t table, uint32_t part, uint64_t step, uint32_t epoch, const uint8_t *ids,
    uint32_t n);

#endif

/* SPDX-License-Identifier: ISC */
#ifndef RELAY_UPLINK_H
#define RELAY_UPLINK_H

#include "shard/sum_body.h"
#include "server/server_role.h"

struct uplink;

/* A relay's connections to the servers, or to the relay above it. Sums and clocks go up, pulled
 * values come down. A thread of its own runs a client (client/client_of_relay.h). The functions
 * below may be called by any other thread, and do not wait for the network.
 *
 * uplink.lock guards the data that other threads hand over (uplink_state.h). It is taken under a
 * partition's lock, and no lock is taken under it. */

/* Start the thread and set the relay's uplink, also after an error. */
enum err_code uplink_start(struct server *s, struct err *e);
/* End the thread. uplink_free frees the rest, when no thread calls the functions below any more.
 * NULL is fine for both. */
void uplink_stop(struct uplink *u);
/* Closes the client's sessions with BYE. */
void uplink_free(struct uplink *u);

/* The agent's thread has installed this view here: the client installs it, too. self: the number
 * of this relay in it. */
void uplink_view(struct uplink *u, const struct view *view, unsigned self);

/* shard_config.forward: a partition has a sum to send. ctx is the server. Called with the
 * partition's lock held. */
void uplink_forward(void *server, uint16_t index, uint16_t table, uint32_t part);

/* Pass a worker's CLOCK or DONE on. Returns a token: every server has acknowledged it when
 * uplink_acked is at least that. io_threads_wake is called when uplink_acked has grown. */
uint64_t uplink_clock(struct uplink *u, const struct rank_clock *c);
/* The highest token of which every earlier one is acknowledged, too. */
uint64_t uplink_acked(struct uplink *u);
/* The worker does not use this relay any more: drop its clock. */
void uplink_forget(struct uplink *u, uint32_t rank);

/* Fetch the values of a dense table, or of rows of a partition, that were pulled for a step and are
 * not here. epoch: in which they were pulled; in a newer layout epoch everything is requested
 * again, and a worker that has moved to this relay may be at an earlier step. False: the rows do
 * not fit into the relay's mem_limit. */
void uplink_request_table(struct uplink *u, uint16_t table, uint64_t step, uint32_t epoch);
/* ids: u64 little-endian, any alignment; they are copied. Rows that are here, or were asked for
 * in this layout epoch, are left out. Takes the partition's lock, so call it without locks of the
 * shard. */
bool uplink_request_rows(struct uplink *u, uint16_t table, uint32_t part, uint64_t step,
    uint32_t epoch, const uint8_t *ids, uint32_t n);

#endif

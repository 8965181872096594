/* SPDX-License-Identifier: ISC */
#ifndef STORE_REPLICATE_H
#define STORE_REPLICATE_H

#include "store/store_state.h"

/* Replication: links to the servers that hold the next replicas of this server's partitions, and to
 * joining servers, which get replicas. A thread of its own owns the links; the functions below may
 * be called by any other thread.
 *
 * A link is down, dialled (a conn that is not live), or up. It is dialled when its partitions have
 * something to send, after a pause that doubles with each failure. When it comes up, and with each
 * new layout epoch while it is up, everything that is not acknowledged is sent again. While it is
 * down for longer than REPORT_EVERY the coordinator gets "unreachable", and decides.
 *
 * repl.lock guards the lists of partitions to send. It is taken under a partition's lock, and no
 * lock is taken under it. */

/* Start the thread and set the store's `repl`. */
enum err_code replicate_start(struct server *s, struct err *e);
/* Chooses the transport of the links by the configuration: with the setting net an emulated link,
 * which they share. Once, before the first replicate_view. The agent's thread. */
enum err_code replicate_choose_transport(struct repl *r, const struct conf *conf, struct err *e);
/* End the thread. replicate_free frees the rest, when no thread can call replicate_forward any
 * more. NULL is fine for both. */
void replicate_stop(struct repl *r);
/* Closes the links without a BYE and drops the lists; unacknowledged records stay with their
 * partitions. */
void replicate_free(struct repl *r);

/* The agent's thread, for each view. replicate_prepare makes links for its servers, before its
 * layout is installed; replicate_view updates addresses, keys and the layout epoch of the links,
 * after that. */
void replicate_prepare(struct repl *r, const struct view *view);
void replicate_view(struct repl *r, const struct view *view, const struct layout *layout);

/* The coordinator asks whether this server is still unreachable: report it again if so. */
void replicate_report_again(struct repl *r, int64_t server);

/* shard_config.forward: a partition has something to send to server `index`. ctx is the server.
 * Called with the partition's lock held. */
void replicate_forward(void *server, uint16_t index, uint16_t table, uint32_t part);

#endif

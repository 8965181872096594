/* SPDX-License-Identifier: ISC */
#ifndef COORDINATOR_OWNERSHIP_H
#define COORDINATOR_OWNERSHIP_H

/* A coordinator shows that it is alive, so that no other takes over, and knows when one may have done so.
 *
 *   state    event                                          next
 *   ------   ---------------------------------------------  -----------------------------------
 *   owner    a beat (state_store.h) succeeds                owner
 *   owner    beats fail, but owned_until has not passed     owner; `why` and the log say it
 *   owner    owned_until has passed                         aside: it closes all sessions
 *   aside    a beat succeeds                                the process begins again (server_end_again)
 *   any      another process is the owner (ERR_FENCED)      the process ends, or stands by again
 *   any      this one is not any more (ERR_CLOSED)          the process begins again
 *
 * Why a coordinator that is aside closes its sessions: the members would stay with it, while its successor
 * waits for them and in the end takes them all for lost. Why it begins again instead of going on: while it
 * is aside it hears of no member, so that what it has in memory is worth less than the state in the store,
 * from which every restarted coordinator goes on.
 *
 * Members train on meanwhile as they do while a coordinator is restarted (ps-consistency(7)). */
#include "core/err.h"
#include "core/json.h"

struct coordinator;

/* Start and end the thread that beats. Without a state store there is none. */
enum err_code ownership_start(struct coordinator *coordinator, struct err *e);
/* Without the lock. */
void ownership_stop(struct coordinator *coordinator);
/* With the lock held, by the ticker: goes aside when its time is over. True: it is aside. */
bool ownership_is_aside(struct coordinator *coordinator, int64_t now);
/* With the lock held: the addresses of the data plane, or of the control plane, of this coordinator and of
 * those that stand by, as a fresh list (net_list_at). */
char *ownership_addresses(const struct coordinator *coordinator, bool http);
/* With the lock held: adds the coordinators that stand by to the status. status: NULL is fine. */
void ownership_add_status(const struct coordinator *coordinator, json_t *status);
/* With the lock held: if the store of the state cannot be reached, puts that before the other rows of
 * GET /v1/why. why: NULL is fine. */
void ownership_add_why(const struct coordinator *coordinator, json_t *why, int64_t now);

#endif

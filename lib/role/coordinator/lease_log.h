/* SPDX-License-Identifier: ISC */
#ifndef COORDINATOR_LEASE_LOG_H
#define COORDINATOR_LEASE_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"

/* The coordinator's log of leases, in the state store beside the parts of the state.
 *
 * Leases change far more often than the rest of the state, so they do not rewrite a part of it.
 * Each change is a line, numbered without gaps; the state says how many changes it contains itself.
 * The log's thread appends all waiting lines at once, so that many leases share the cost of one
 * sync, and no thread holds the coordinator's lock during a sync. The answer to a lease is sent
 * when its line is durable (coordinator_may_announce).
 *
 * When the log has become long its lines are dropped, after a state that contains all of them was
 * written. A line has a checksum; reading ends at the first line that is torn or older than the one
 * before. A line that does not continue the state and the lines before it is an error: leases are
 * missing. */
struct coordinator;
struct lease_log;
struct lease_change;

/* Make an empty log and start its thread. All calls but this one and lease_log_stop are made
 * with the coordinator's lock held. */
enum err_code lease_log_open(struct coordinator *coordinator, struct lease_log **out,
    struct err *e);
/* Stop and join the thread; waiting lines are not written. Call without the coordinator's lock. */
void lease_log_stop(struct lease_log *l);
void lease_log_free(struct lease_log *l); /* l may be NULL */

/* Queue a change for the log's thread. */
void lease_log_add(struct lease_log *l, uint64_t number, const struct lease_change *change);
/* Is the log so long that the state should be written in order to drop its lines? l may be NULL. */
bool lease_log_is_long(const struct lease_log *l);
/* The state is about to be written with all changes so far. When the log is long, lines that are
 * added from now on wait until lease_log_saved. */
void lease_log_pause(struct lease_log *l);
/* The state was written (ok), or could not be written. Lines of a log that is long are dropped
 * now. */
void lease_log_saved(struct lease_log *l, bool ok);

/* Apply the changes of the log that the former owner has left to the coordinator, which has been
 * given the state of that owner. ERR_FORMAT, ERR_IO: it cannot be known what was leased. */
enum err_code lease_log_replay(struct coordinator *coordinator, struct err *e);

#endif

/* SPDX-License-Identifier: ISC */
#ifndef COORDINATOR_STATE_FILE_H
#define COORDINATOR_STATE_FILE_H

#include "coordinator/coordinator.h"

/* The state from which a restarted coordinator continues, and when it is written to the state store
 * (state_store.h).
 *
 * A thread of its own, the writer, writes the state without the coordinator's lock:
 *
 *    idle --a commit with a new revision--> writing --durable--> announce, then idle or writing
 *                                        writing --failed--> wait 200 ms, then writing
 *
 * It takes a copy of the state and the announcements (views and notices) that follow from it, and
 * sends them once the copy is durable. Changes that come meanwhile share the next write. The copy
 * is of one moment, and the parts of it that have changed are replaced together, so that what is
 * durable is always the state at some revision. Leases of data, which change often, have a
 * log beside it (lease_log.h). The member "began" is a random number for each life of the cluster:
 * a coordinator that recovers keeps it, and one that begins from nothing or from a checkpoint draws
 * a new one.
 *
 * Answers that depend on a change are held back until the change is durable
 * (coordinator_may_announce). */

/* Called before anything else: read the previous coordinator's state, decide whether to recover,
 * and become the owner of the state. Sets s->state (NULL: there is none) and s->recover.
 * ERR_CONFIG, with advice: the run cannot continue from this state; ERR_FORMAT, ERR_IO: it cannot
 * be read; ERR_EXISTS: another coordinator is running on this host; a standby gets
 * ERR_FENCED then. */
enum err_code state_file_read(struct server *s, struct err *e);
/* Set coordinator->began, once it is known whether the coordinator recovers from s->state. */
void state_file_begin_life(struct coordinator *coordinator);
/* Write the state before any other thread uses it; with the lock held. A coordinator that was
 * started again tries again until its deadline, or until a signal ends the process: the cluster
 * continues meanwhile. */
enum err_code state_file_write_first(struct coordinator *coordinator, struct err *e);
/* Start the writer. state_file_stop ends it after a last write, without the lock held. */
enum err_code state_file_start(struct coordinator *coordinator, struct err *e);
void state_file_stop(struct coordinator *coordinator);
/* With the lock held: may the present state be announced? When it must be written first, wakes the
 * writer, which announces it. */
bool state_file_is_durable(struct coordinator *coordinator);
/* With the lock held: is the state of this revision still to be written, and is nothing in the way of
 * that? */
bool state_file_is_awaited(const struct coordinator *coordinator, uint64_t rev);
/* With the lock held, when the HTTP server listens: wakes the writer, because the saved state may have the
 * address of the coordinator before this one. Commands on other hosts find the coordinator by the state. */
void state_file_note_http(struct coordinator *coordinator);
/* With the lock held: does the saved state identify the cluster by its present secret? */
bool state_file_has_secret(const struct coordinator *coordinator);
/* With the lock held, which is released meanwhile: wait until it does, or until writing it has
 * failed. */
bool state_file_await_secret(struct coordinator *coordinator);
/* With the lock held: something that must be durable could not be written. Log it once, fail the
 * job when that has lasted for its deadline, or end the process when another coordinator owns the
 * run directory. *since: when it failed first, which this sets, and the caller sets to 0 when it is
 * written. */
void state_file_report_failure(struct coordinator *coordinator, int64_t *since, const struct err *e,
    int64_t now);
/* With the lock held: the lease log is durable up to this number of changes. */
void state_file_note_leases(struct coordinator *coordinator, uint64_t leases);

#endif

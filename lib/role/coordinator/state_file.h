/* SPDX-License-Identifier: ISC */
#ifndef COORDINATOR_STATE_FILE_H
#define COORDINATOR_STATE_FILE_H

#include "coordinator/host.h"

/* state.json in the run directory: the state from which a restarted coordinator continues.
 * Covered by the host's lock, which is held while the file is written and synced.
 *
 * The file is always replaced as a whole by a durable one. Leases of data, which change often,
 * have a log beside it (lease_log.h). The member "began" is a random number for each life of the
 * cluster: a coordinator that recovers keeps it, and one that begins from nothing or from a
 * checkpoint draws a new one.
 *
 * Answers that depend on a change are held back until the change is durable (host_may_tell). */

/* Called before anything else: read the previous coordinator's state, decide whether to recover,
 * and become the owner of the run directory. Sets s->state (NULL: there is none) and s->recover.
 * ERR_CONFIG, with advice: the run cannot continue from this state; ERR_FORMAT, ERR_IO: the file
 * cannot be read; ERR_EXISTS: another coordinator is running on this host. */
enum err_code state_file_read(struct server *s, struct err *e);
/* Set h->began, once it is known whether the coordinator recovers from s->state. */
void state_file_begin_life(struct host *h);
/* With the lock held: write the state if it has changed. False: it cannot be written, and
 * nothing that depends on it may be sent. */
bool state_file(struct host *h, int64_t now);
/* With the lock held: something that must be durable could not be written. Log it, fail the job
 * after its deadline, or end the process when another coordinator owns the run directory. */
void state_file_report_failure(struct host *h, const struct err *e, int64_t now);
/* With the lock held: the lease log is durable up to this number of changes. */
void state_file_note_leases(struct host *h, uint64_t leases);

#endif

/* SPDX-License-Identifier: ISC */
#ifndef COORDINATOR_FILE_SERVICE_H
#define COORDINATOR_FILE_SERVICE_H

#include "coordinator/coordinator.h"

/* Files between the coordinator and servers that do not share its run directory: such a server
 * sends its part of a checkpoint, and fetches the checkpoint to resume from or the initial
 * parameters (ps-protocol(7), FILE_PUT). Each session has a thread of its own, since disks may be
 * slow. A session ends when the peer hangs up, when a request is refused, or in file_service_stop.
 * The list of sessions is covered by the coordinator's lock. */

/* Take over the peer's connection, whose first FILE_ record is still held. Called by an I/O
 * thread. */
struct server_session;
void file_service_take(struct coordinator *coordinator, struct server_session *p);
/* End and join all sessions, and refuse new ones. Call without the coordinator's lock. */
void file_service_stop(struct coordinator *coordinator);

#endif

#ifndef SERVER_FILES_H
#define SERVER_FILES_H

#include "server/host.h"

/* The coordinator's side of files that servers without the run directory give it
 * (their part of a checkpoint) and want of it (a checkpoint to go on from, first
 * values): a thread for each session that moves any, since disks may take their
 * time (ps-protocol(7), FILE_PUT). */

/* Both ends: what one record has, and how much is queued. */
#define FILE_PIECE (256u << 10)
#define FILE_QUEUED (4 * FILE_PIECE)
/* The disk of the other end may take its time. */
#define FILE_PATIENCE (300 * NSEC_PER_SEC)

/* Takes the peer's session, whose first FILE_ record is held. */
struct peer;
void files_serve(struct host *h, struct peer *p);
/* Ends them all. */
void files_stop(struct host *h);

#endif

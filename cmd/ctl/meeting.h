/* SPDX-License-Identifier: ISC */
#ifndef CTL_MEETING_H
#define CTL_MEETING_H

#include "runner.h"

/* The rendezvous of the ranks that ps-ctl launch starts: the directory RUN/launch/RUN_ID, which
 * all of them see.  Rank 0, which runs the coordinator, writes a join file ID.join there for
 * each other rank, and at the end a file "over" with the reason; the other ranks poll for their
 * file. */

/* The directory's path, to be freed. */
char *meeting_path(const char *dir, const char *run_id);

/* Rank 0, whose r->meeting is the directory: make it empty, removing an earlier run of that id. */
enum err_code meeting_create(struct runner *r, struct err *e);
/* Is that process started by another rank, so that it needs a join file? */
bool meeting_expects(const struct runner *r, const char *id);
/* Write the join file of the process. */
enum err_code meeting_invite(struct runner *r, const char *id, struct err *e);
/* Remove the join files, and leave the reason for ranks that come later. */
void meeting_close(struct runner *r, const char *why);

/* The other ranks: wait for the join file of id; *join is its path, to be freed.  ERR_TIMEOUT after
 * `timeout` ns; ERR_FAILED when the run is over. */
enum err_code meeting_await_join(const char *meeting, const char *id, int64_t timeout, char **join,
    struct err *e);

#endif

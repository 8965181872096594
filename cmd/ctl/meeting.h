#ifndef CTL_MEETING_H
#define CTL_MEETING_H

#include "runner.h"

/* Where the ranks of one run meet: RUN/launch/RUN_ID, in a directory that all see.  Rank 0 leaves a
 * join file there for each of the others. */

/* The directory, fresh. */
char *meeting_path(const char *dir, const char *run_id);

/* Of rank 0, whose r->meeting is the directory.  What another run of that id has left goes. */
enum err_code meeting_begin(struct runner *r, struct err *e);
/* Is it one of the processes that others are? */
bool meeting_expects(const struct runner *r, const char *id);
enum err_code meeting_invite(struct runner *r, const char *id, struct err *e);
/* Who comes from now on is told why it is over; the join files go. */
void meeting_end(struct runner *r, const char *why);

/* Of the others: wait for the join file of id; *join is its path, fresh.  ERR_TIMEOUT; ERR_FAILED when the run
 * is over. */
enum err_code meeting_await(const char *meeting, const char *id, int64_t timeout, char **join, struct err *e);

#endif

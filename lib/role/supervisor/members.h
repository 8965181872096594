/* SPDX-License-Identifier: ISC */
#ifndef SUPERVISOR_MEMBERS_H
#define SUPERVISOR_MEMBERS_H

#include "supervisor/supervisor.h"

/* The members of a run, "coordinator", "server-1" or "worker-0", and the tools that the supervisor
 * runs: their command lines, and where they are started. */

/* Start a member. *child is its index in s->set. In a rendezvous of ranks another rank starts it:
 * its join file is written, and *child stays as it is. */
enum err_code members_start(struct supervisor *s, const char *id, size_t *child, struct err *e);
/* Start a program on this host. words: its name and arguments, NULL-ended; a name without "/" is
 * looked up in the directory of this program. Its output goes to RUN/ID.log. */
enum err_code members_start_tool(struct supervisor *s, const char *id, const char *const *words,
    size_t *child, struct err *e);
/* Does a run with this cluster file start its workers itself? Workers of model custom without a
 * program are started by others (torchrun, srun, a shell). */
bool members_include_workers(const struct conf *c);
/* Read "began" from the saved state (state/state_store.h), which differs for each start of the
 * cluster; "" when there is no readable state. */
void members_read_began(const char *dir, char out[static SUPERVISOR_BEGAN]);
/* Why the job was stopped, by the saved state, for a coordinator that has ended before it could be
 * asked. "": it was not stopped, or not after it had begun. */
void members_read_stop_reason(const char *dir, char *out, size_t size);

#endif

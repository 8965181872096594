#ifndef SERVER_REMEMBER_H
#define SERVER_REMEMBER_H

#include "server/host.h"

/* state.json in the run directory: what a coordinator that is started again goes
 * on from.  Its lock is the host's. */

/* Before anything else is done: read what was left by another coordinator, and
 * decide what that means.  ERR_CONFIG with what to do when it cannot be gone on
 * with, ERR_FORMAT or ERR_IO when it cannot be read.  s->state is NULL when there
 * is none, s->recover says whether it is to be gone on with. */
enum err_code remember_read(struct server *s, struct err *e);
/* Write what has changed, so that it survives this process, and (of a coordinator
 * that is no store) this machine.  False: it cannot be written, and nothing of
 * it may be told yet. */
bool remember(struct host *h, int64_t now);

#endif

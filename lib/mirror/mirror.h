#ifndef MIRROR_MIRROR_H
#define MIRROR_MIRROR_H

#include "base/interrupt.h"
#include "base/log.h"
#include "conf/conf.h"
#include "server/server.h"

/* A read-only server's parameters from a living cluster, which it follows: first all of them, as a checkpoint to
 * begin with; then, again and again, what has changed.  It is a peer outside of that cluster's job, which pulls: nobody
 * waits for it there, and it may come and go.  When the cluster cannot be reached what was had last is served on, and
 * the cluster looked for. */
struct mirror;

/* Is it no checkpoint, but may be a run directory or a join file? */
bool mirror_can_follow(const char *where);
/* Connects to the cluster of a run directory, or of a join file of any role that may pull.  interrupt:
 * gives up this and mirror_prepare (ERR_STOPPED), borrowed as long as the mirror.  ERR_NOTFOUND, ERR_UNREACH, ERR_AUTH,
 * ERR_NOTREADY.  *out is set whatever is returned. */
enum err_code mirror_open(const char *where, const struct interrupt *interrupt, struct log *log, struct mirror **out, struct err *e);
/* readonly_prepare (client/readonly.h) of what it has now, which lies in the run directory's checkpoints.  ERR_CONFIG: it is to be
 * more than one server. */
enum err_code mirror_prepare(struct mirror *m, const char *const *sets, size_t nsets, struct conf *conf, char **dir, int *lock,
                             char **from, struct err *e);
/* A thread that keeps `s`, which began with that, no older than `fresh` (ns), as far as pulls are that quick. */
enum err_code mirror_start(struct mirror *m, struct server *s, int64_t fresh, struct err *e);
/* NULL is nothing.  Before server_stop. */
void mirror_close(struct mirror *m);

#endif

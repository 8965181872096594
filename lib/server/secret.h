#ifndef SERVER_SECRET_H
#define SERVER_SECRET_H

#include "server/host.h"

/* The cluster's secret, as its coordinator renews it.  Other processes of the run directory find
 * it there by themselves (auth/secrets.h).  All with the host's lock held, but for secret_renew,
 * which takes it. */

/* Seconds that the one before is still accepted, unless it is said otherwise; and at most. */
#define SECRET_GRACE 600
#define SECRET_GRACE_MAX (30 * 86400)

/* At first: the cluster's number; and that of the state that a coordinator before this one has
 * left, which may have ended amid secret_renew. */
void secret_begin(struct host *h);
/* The control plane takes it over. */
void secret_tell(struct host *h);
/* What is over is forgotten. */
void secret_tick(struct host *h);
/* until: wall seconds.  ERR_IO: it is as it was. */
enum err_code secret_renew(struct host *h, int64_t until, const char *who, struct err *e);

#endif

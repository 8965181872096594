#ifndef SERVER_OFFSITE_H
#define SERVER_OFFSITE_H

#include "server/host.h"

/* Has each checkpoint of the coordinator copied to the object store that checkpoint_to names, on a
 * thread of its own, by a ps-ctl (object/helper.h): the job does not wait for it, and goes on
 * without.  What is under way when it stops is given up, and left to who owns the run directory. */
struct offsite;

/* After keep_start.  Nothing is started when there is no store or no run directory. */
enum err_code offsite_start(struct host *h, const struct conf *c, struct err *e);
void offsite_stop(struct host *h);
void offsite_free(struct offsite *o);

#endif

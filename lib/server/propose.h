#ifndef SERVER_PROPOSE_H
#define SERVER_PROPOSE_H

#include "server/host.h"

/* What the program of a worker that joins (worker_join: settings, first) would have the job begin with, where the
 * configuration says nothing: of the update rule, the mode, the end.  Once the partitions have been dealt out, nothing.
 * With the host's lock held.  ERR_CONFIG: it cannot be; ERR_NOTREADY: it has first parameters, and they are not here. */
enum err_code propose(struct host *h, const struct coord_self *self, const json_t *msg, struct err *e);

#endif

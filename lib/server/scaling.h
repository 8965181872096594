#ifndef SERVER_SCALING_H
#define SERVER_SCALING_H

#include "server/host.h"

/* Have so many servers and workers (-1: as now), with keys for those that were not foreseen.
 * Errors of coord_scale; ERR_IO.  Takes the host's lock. */
enum err_code scale_to(struct host *h, int64_t servers, int64_t workers, struct err *e);

#endif

/* SPDX-License-Identifier: ISC */
#ifndef COORDINATOR_SCALE_REQUEST_H
#define COORDINATOR_SCALE_REQUEST_H

#include "coordinator/host.h"

/* Change the number of servers and workers (-1: leave it), and make keys for those that have
 * none. Errors of coord_scale; ERR_IO. Takes the host's lock. */
enum err_code scale_request_apply(struct host *h, int64_t servers, int64_t workers, struct err *e);

#endif

/* SPDX-License-Identifier: ISC */
#ifndef WORKER_ALLREDUCE_LISTEN_H
#define WORKER_ALLREDUCE_LISTEN_H

#include "worker/allreduce.h"

/* Addresses at which a worker listens for the other workers (via: allreduce). Pure, except that
 * they look at the host's interfaces. */

/* Chooses the TCP address to listen at, with port 0 where none is configured. */
enum err_code allreduce_listen_address(const struct allreduce_config *cfg,
    char out[static NET_TEXT], struct err *e);
/* Path of a Unix socket in the run directory, named after the rank (by_slot) or the process.
 * Without a run directory out stays as it is. */
void allreduce_listen_socket(const struct allreduce_config *cfg, bool by_slot,
    char out[static NET_TEXT]);

#endif

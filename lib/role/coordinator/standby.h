/* SPDX-License-Identifier: ISC */
#ifndef COORDINATOR_STANDBY_H
#define COORDINATOR_STANDBY_H

/* A coordinator that stands by (ps-serve --standby): it waits, and takes over when the one that owns the
 * state does not live any more.
 *
 * Its addresses are bound while it waits, so that they can be told to the members of the cluster before
 * they are needed, but it does not listen: a member that tries one is refused at once and tries the next
 * coordinator.
 *
 *   waiting   the owner lives, or it cannot be known (state_store.h)    waiting
 *   waiting   the store refuses this process, and has never answered    end with an error
 *   waiting   no owner lives, and the cluster has ended                 end
 *   waiting   no owner lives                                            take over: server_start
 *   waiting   SIGTERM, SIGINT                                           end
 *
 * server_start may find that another process was faster (ERR_FENCED); then the program begins again, and
 * waits. */
#include <stdbool.h>

#include "core/err.h"
#include "server/server.h"

/* Waits until this process is to be the coordinator; then cfg has the bound sockets (data_fd,
 * http_fd), which the server takes over. signals: readable when a signal has arrived. *end: the
 * process is to end, because of a signal or because the cluster has ended. Errors: as of binding
 * the addresses, and of a store that refuses this process; ERR_CONFIG: no state is kept. Before any
 * thread. */
enum err_code standby_wait(struct server_config *cfg, int signals, bool *end, struct err *e);

#endif

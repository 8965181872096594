/* SPDX-License-Identifier: ISC */
#ifndef SESSION_CONTROL_H
#define SESSION_CONTROL_H

/* The control plane of a run directory's cluster: RUN/ctl.sock, where only the user who owns the directory
 * can connect, or, when no coordinator listens there, the address that the coordinator's state has
 * (state_store.h). So a command finds the coordinator also when it runs on another host that has the
 * run directory, or one of its own with the same keys and the same `state`. */
#include "core/err.h"
#include "http/client.h"

/* Make a client. No connection is made yet. */
enum err_code control_connect(const char *dir, struct http_client **client, struct err *e);
/* Connects as control_connect does, but connecting and all calls of the client end with ERR_STOPPED
 * once *stop is true. */
enum err_code control_connect_until(const char *dir, const atomic_bool *stop,
    struct http_client **client, struct err *e);

/* As rundir_find, but a cluster whose lock nobody on this host holds is alive, too, if its coordinator
 * answers elsewhere. */
enum err_code control_find(const char *opt_C, char **path, struct err *e);
/* As rundir_is_alive, in the same way. */
bool control_is_alive(const char *dir);
/* May a coordinator come back, though none answers now? Its cluster has not ended, by its state. */
bool control_may_return(const char *dir);

#endif

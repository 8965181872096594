/* SPDX-License-Identifier: ISC */
#ifndef RUNDIR_CONTROL_H
#define RUNDIR_CONTROL_H

#include "core/err.h"
#include "http/client.h"

/* Make a client of the coordinator's control socket in the run directory dir (RUN/ctl.sock). Only
 * the user who owns the directory can connect there. No connection is made yet. */
enum err_code control_connect(const char *dir, struct http_client **client, struct err *e);
/* Connects as control_connect does, but connecting and all calls of the client end with ERR_STOPPED
 * once *stop is true. */
enum err_code control_connect_until(const char *dir, const atomic_bool *stop,
    struct http_client **client, struct err *e);

#endif

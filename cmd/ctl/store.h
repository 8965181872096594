/* SPDX-License-Identifier: ISC */
#ifndef CTL_STORE_H
#define CTL_STORE_H

#include "core/clock.h"
#include "object/client.h"

/* Access to an object store, for the subcommands object and checkpoint. */
#define STORE_TIMEOUT (60 * NSEC_PER_SEC)

/* Open a client for the rest of this program's life. It reports retries on standard error.
 * SIGTERM, SIGINT, SIGHUP, or the loss of the reader of standard output make it give up and abort
 * its uploads. timeout: in ns. Installs signal handlers. */
enum err_code store_open(int64_t timeout, struct object_client **out, struct err *e);

/* Upload the file at path (NULL: standard input) as the object `name`. */
enum err_code store_put_file(struct object_client *c, const char *path, const char *name,
    struct err *e);

#endif

#ifndef CTL_STORE_H
#define CTL_STORE_H

#include "base/clock.h"
#include "object/client.h"

/* Subcommands that speak to an object store. */
#define STORE_TIMEOUT (60 * NSEC_PER_SEC)

/* A client for the rest of this program's life: it tells on stderr what it tries again, and gives up
 * (and takes uploads back) when it is sent SIGTERM, SIGINT or SIGHUP or nobody reads its output. */
enum err_code store_open(int64_t timeout, struct object_client **out, struct err *e);

/* The file at path, or standard input for NULL. */
enum err_code store_put_file(struct object_client *c, const char *path, const char *name, struct err *e);

#endif

/* SPDX-License-Identifier: ISC */
#ifndef AUTH_AUTHFILE_H
#define AUTH_AUTHFILE_H

#include <stddef.h>
#include <sys/types.h>

#include "core/err.h"

/* Opens and creates the files with keys, secrets and authorized keys. Checks are made on the
 * open descriptor only, so that the path cannot be swapped in between. No locks. */

/* Open path for reading. It must be a regular file (not a symbolic link), owned by us or by
 * root, with no mode bit of `forbidden` set, and of at most max bytes. Never blocks (a fifo is
 * opened and refused). Gives the descriptor, which the caller closes, and the size. ERR_AUTH
 * (with the chmod to run), ERR_NOTFOUND, ERR_IO. */
enum err_code authfile_open(const char *path, mode_t forbidden, size_t max, int *fd, size_t *size,
    struct err *e);

/* The path of a credential that the service manager has provided for this service
 * (LoadCredential= of systemd.exec(5)): $CREDENTIALS_DIRECTORY/name, a fresh string; NULL when
 * there is none. name has no "/". If root owns that file its group may read it: the bit is the
 * mask of the access list that admits the service. */
char *authfile_credential(const char *name);

/* Create path, which must not exist, with mode 0600 and these contents; it is durable on return.
 * After a failure there is no file. ERR_EXISTS, ERR_IO. */
enum err_code authfile_create(const char *path, const void *data, size_t n, struct err *e);

#endif

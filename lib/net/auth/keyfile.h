/* SPDX-License-Identifier: ISC */
#ifndef AUTH_KEYFILE_H
#define AUTH_KEYFILE_H

#include "auth/keyring.h"

/* Changes an authorized_keys file. Each change is atomic and durable on return; the mode is
 * 0600. A lock on the directory keeps processes and threads from changing the file at the same
 * time. Comments and the order of lines stay. A process that has read the file must be told to
 * read it again. */

/* Add a line for each of n entries, or for none of them. Errors of keyring_load and keyring_add. */
enum err_code keyfile_add(const char *path, const struct keyring_entry *entry, size_t n,
    struct err *e);
/* Remove the line with that name; *was (may be NULL) is its entry. ERR_NOTFOUND. */
enum err_code keyfile_remove(const char *path, const char *name, struct keyring_entry *was,
    struct err *e);

#endif

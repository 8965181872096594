#ifndef AUTH_KEYFILE_H
#define AUTH_KEYFILE_H

#include "auth/keyring.h"

/* Changes of an authorized_keys file.  Each is durable when it returns, of mode 0600, and
 * whole or not at all; a lock on the directory keeps two at a time apart, also of different
 * processes.  Comments and the order of lines stay.  Who has read the file is to be told. */

/* A line for each of n entries, or for none of them.  Errors of keyring_load and keyring_add. */
enum err_code keyfile_add(const char *path, const struct keyring_entry *entry, size_t n, struct err *e);
/* The line of that name goes; *was (may be NULL) is what it said.  ERR_NOTFOUND. */
enum err_code keyfile_remove(const char *path, const char *name, struct keyring_entry *was, struct err *e);

#endif

/* SPDX-License-Identifier: ISC */
#ifndef RUNDIR_PREPARE_H
#define RUNDIR_PREPARE_H

#include "auth/keyring.h"
#include "conf/conf.h"
#include "core/err.h"

/* Making and reopening run directories, and the keys in them. No threads of its own; a change
 * of keys/authorized_keys is one atomic replacement of the file.
 *
 * rundir_prepare makes a fresh run directory for a configuration. It is locked by this process
 * (*lock, see rundir/rundir.h), and holds the psk, a key for the coordinator, the admin and
 * each server and worker, authorized_keys and cluster.json. ERR_EXISTS: a living cluster has
 * that directory; ERR_IO. */
enum err_code rundir_prepare(const struct conf *c, const char *dir, int *lock, struct err *e);

/* Reopen and lock the run directory of an earlier run, which will be resumed, and remove that run's
 * results unless they are to be kept. ERR_NOTFOUND: there is none; ERR_EXISTS: its cluster lives;
 * ERR_CONFIG: its configuration is another one, and the error names the keys. */
enum err_code rundir_reopen(const struct conf *c, const char *dir, bool keep_results, int *lock,
    struct err *e);

/* Make the keys of PREFIX-0 to PREFIX-(n - 1) that are missing: key files on this host, and
 * lines in authorized_keys. */
enum err_code rundir_add_keys(const char *dir, const char *prefix, size_t n, enum role role,
    struct err *e);
/* Admit one more key: append its line to the run directory's authorized_keys. ERR_EXISTS: the
 * name has a key. */
enum err_code rundir_authorize_key(const char *dir, const struct keyring_entry *entry,
    struct err *e);
/* Revoke a key: remove its line (*was is its content; may be NULL), and its key file if this
 * host has one. A process that gets the name later gets a fresh key. ERR_NOTFOUND. */
enum err_code rundir_revoke_key(const char *dir, const char *name, struct keyring_entry *was,
    struct err *e);
/* Is the secret key of this name on this host? If not, it was given away in a join file or as
 * a token. */
bool rundir_has_key_file(const char *dir, const char *name);

#endif

#ifndef CLIENT_PREPARE_H
#define CLIENT_PREPARE_H

#include "auth/keyring.h"
#include "base/err.h"
#include "conf/conf.h"

/* A fresh run directory for a configuration: locked by this process (*lock,
 * see launch/rundir.h), with the cluster's secret, a key for the coordinator,
 * the admin and each server and worker, authorized_keys and cluster.json. */
enum err_code run_prepare(const struct conf *c, const char *dir, int *lock, struct err *e);

/* The run directory of an earlier run, as it is, for going on: locked, what the
 * earlier run came to removed.  ERR_NOTFOUND when there is none; ERR_CONFIG,
 * naming the keys, when its configuration is another. */
enum err_code run_reopen(const struct conf *c, const char *dir, int *lock, struct err *e);

/* For PREFIX-0 to PREFIX-(n - 1): key files of this host, and lines in authorized_keys, where
 * there are none yet. */
enum err_code run_add_keys(const char *dir, const char *prefix, size_t n, enum role role, struct err *e);
/* Admit one more key: append its line to the run directory's authorized_keys.
 * ERR_EXISTS when the name is there. */
enum err_code run_authorize(const char *dir, const struct keyring_entry *entry, struct err *e);
/* Admit it no longer: its line goes (*was is what it said; may be NULL), and its key file if
 * there is one.  ERR_NOTFOUND. */
enum err_code run_revoke(const char *dir, const char *name, struct keyring_entry *was, struct err *e);
/* Is its secret key kept here?  Else it was given away, in a join file or as a token. */
bool run_has_secret(const char *dir, const char *name);

#endif

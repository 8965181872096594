#ifndef CLIENT_PREPARE_H
#define CLIENT_PREPARE_H

#include "auth/keyring.h"
#include "base/err.h"
#include "conf/conf.h"

/* A fresh run directory for a configuration: locked by this process (*lock,
 * see launch/rundir.h), with the cluster's secret, a key for the coordinator,
 * the admin and each server and worker, authorized_keys and cluster.json. */
enum err_code run_prepare(const struct conf *c, const char *dir, int *lock, struct err *e);

/* Admit one more key: append its line to the run directory's authorized_keys.
 * ERR_EXISTS when the name is there. */
enum err_code run_authorize(const char *dir, const struct keyring_entry *entry, struct err *e);

#endif

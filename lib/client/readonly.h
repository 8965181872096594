#ifndef CLIENT_READONLY_H
#define CLIENT_READONLY_H

#include <jansson.h>

#include "conf/conf.h"

/* A cluster that answers pulls from a checkpoint: one server, the checkpoint's configuration with
 * read_only set, its addresses on this host and any free port, and then the assignments.
 *
 * *dir: the run directory that is wanted, or NULL: NAME-read.run here, in a fresh string.  It is made and
 * locked; *from: the checkpoint, absolute, in a fresh string.  ERR_FORMAT when the checkpoint is damaged,
 * ERR_NOTFOUND when there is none, ERR_CONFIG for the assignments. */
enum err_code readonly_prepare(const char *checkpoint, const char *const *sets, size_t nsets, struct conf *conf, char **dir, int *lock,
                               char **from, struct err *e);

/* The same by what the cluster goes by, whose parameters are still to be had. */
enum err_code readonly_begin(const json_t *config, const char *const *sets, size_t nsets, struct conf *conf, char **dir, int *lock,
                             struct err *e);

#endif

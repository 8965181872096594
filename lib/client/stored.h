#ifndef CLIENT_STORED_H
#define CLIENT_STORED_H

#include <stdbool.h>

#include "conf/conf.h"

/* Checkpoints in object stores, for who begins a run or takes one up: a ps-ctl speaks to the store
 * (object/helper.h), and what it has to say comes as the error. */

/* ERR_OK when there are none at the run's checkpoint_to (or it is none); else ERR_CONFIG, which says
 * what to do: those of another run must not be mixed with this one's. */
enum err_code stored_is_free(const struct conf *conf, struct err *e);
/* One checkpoint, or the newest of a place, to directory dir; *path is fresh.  newer: NULL when dir
 * has that or a later one.  ERR_NOTFOUND. */
enum err_code stored_fetch(const char *from, const char *dir, bool newer, int64_t deadline, char **path, struct err *e);
/* Was it made with these settings, but for those that may change while a job runs?  Else ERR_CONFIG,
 * naming the keys. */
enum err_code stored_fits(const struct conf *conf, const char *path, const char *from, struct err *e);

#endif

#ifndef CLIENT_RESUME_H
#define CLIENT_RESUME_H

#include "conf/conf.h"

/* --resume FROM: take a run up again, or begin from a checkpoint.
 *
 * wish: none (or NULL), auto, step=N, a checkpoint's directory, or its name in an object store.  The run
 * directory is made or reopened, and locked; *from is what the coordinator is
 * to go on from, fresh, or NULL.  ERR_CONFIG when the earlier run had another
 * configuration; ERR_NOTFOUND when what is named is not there. */
enum err_code resume_prepare(const struct conf *conf, const char *dir, const char *wish, int *lock, char **from,
                             struct err *e);

#endif

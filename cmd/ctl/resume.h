#ifndef CTL_RESUME_H
#define CTL_RESUME_H

#include "conf/conf.h"

/* --resume of run and start: take a run up again, or begin from a checkpoint.
 *
 * wish: none (or NULL), auto, step=N, or a checkpoint's directory.  The run
 * directory is made or reopened, and locked; *from is what the coordinator is
 * to go on from, fresh, or NULL.  ERR_CONFIG when the earlier run had another
 * configuration; ERR_NOTFOUND when what is named is not there. */
enum err_code resume_prepare(const struct conf *conf, const char *dir, const char *wish, int *lock, char **from,
                             struct err *e);

#define CTL_OPT_RESUME(type, field) \
	{ "resume", 0, OPT_STR, offsetof(type, field), "FROM", \
	  "go on: auto (an unfinished run, from its newest checkpoint), step=N, a checkpoint's directory, or none", \
	  NULL, 0, 0 }

#endif

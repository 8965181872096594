#ifndef CTL_LOCAL_H
#define CTL_LOCAL_H

#include <stdbool.h>

#include "base/err.h"
#include "base/opt.h"
#include "conf/conf.h"

/* What run and start do before a process is started. */

/* The cluster file (NULL: none, with --exec) and --set, checked whole, and the run directory that it
 * asks for: *dir is absolute and fresh.  Nothing is made yet.  ERR_NOTFOUND,
 * ERR_USAGE; all else that is wrong with the file is ERR_CONFIG.  c is zeroes after a failure. */
enum err_code local_load(const char *file, const struct opt_list *sets, const char *exec, struct conf *c, char **dir,
                         struct err *e);
/* exec (NULL: none) is a command whose processes are the workers. */
#define LOCAL_OPT_EXEC(type, field) \
	{ "exec", 'x', OPT_STR, offsetof(type, field), "COMMAND", \
	  "a program that is a worker itself (pskit(3), pskit.torch): one is started for each; then FILE may be left out", NULL, 0, 0 }
/* FILE, or --exec. */
bool local_may_go(const char *prog, const char *file, const char *exec, int *code);
/* Standard input as data: a process started here has none of its own, so let it
 * read ours by its name in /proc.  True when there is such a path. */
bool local_name_stdin(struct conf *c);

#endif

#ifndef CTL_LOCAL_H
#define CTL_LOCAL_H

#include <stdbool.h>

#include "base/err.h"
#include "base/opt.h"
#include "conf/conf.h"

/* What run and start do before a process is started. */

/* Options that say what runs where: which hosts, which addresses of theirs, whose program. */
struct local_place {
	const char *hostfile, *bind, *iface, *advertise;
	const char *exec;               /* a command whose processes are the workers, or NULL */
	bool later;                     /* nothing is started now: no address is looked for */
};
#define LOCAL_OPTS(type, field) \
	{ "hostfile", 0, OPT_STR, offsetof(type, field.hostfile), "FILE", \
	  "start servers and workers on the hosts of this file (of Open MPI, MPICH or Slurm, or one a line)", NULL, 0, 0 }, \
	{ "bind", 0, OPT_STR, offsetof(type, field.bind), "ADDR", \
	  "the coordinator listens on this address, any port", NULL, 0, 0 }, \
	{ "iface", 0, OPT_STR, offsetof(type, field.iface), "NAMES", \
	  "everybody listens on a network interface of one of these names, as eth*,ib0", NULL, 0, 0 }, \
	{ "advertise", 0, OPT_STR, offsetof(type, field.advertise), "ADDR", \
	  "address that others shall use for the coordinator: host or host:port", NULL, 0, 0 }

/* The cluster file (NULL: none, with place->exec) and --set, checked whole, and the run directory that it
 * asks for: *dir is absolute and fresh.  Nothing is made yet.  ERR_NOTFOUND,
 * ERR_USAGE; all else that is wrong with the file is ERR_CONFIG.  c is zeroes after a failure.
 * With a place (else NULL) c has its hosts, and an address that other hosts can reach. */
enum err_code local_load(const char *file, const struct opt_list *sets, const struct local_place *place, struct conf *c, char **dir,
                         struct err *e);
#define LOCAL_OPT_EXEC(type, field) \
	{ "exec", 'x', OPT_STR, offsetof(type, field.exec), "COMMAND", \
	  "a program that is a worker itself (pskit(3), pskit.torch): one is started for each; then FILE may be left out", NULL, 0, 0 }
/* FILE, or --exec. */
bool local_may_go(const char *prog, const char *file, const char *exec, int *code);
/* Standard input as data: a process started here has none of its own, so let it
 * read ours by its name in /proc.  True when there is such a path. */
bool local_name_stdin(struct conf *c);

#endif

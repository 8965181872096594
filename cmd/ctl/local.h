/* SPDX-License-Identifier: ISC */
#ifndef CTL_LOCAL_H
#define CTL_LOCAL_H

#include <stdbool.h>

#include "conf/conf.h"
#include "core/err.h"
#include "core/opt.h"
#include "supervisor/supervisor.h"

/* The steps of ps-ctl run, start and launch before a process is started: load the cluster file,
 * check it, choose the coordinator's address, and prepare the run directory. */

/* Options for what runs where: the hosts, the addresses, and the workers' program. */
struct local_place {
	const char *hostfile, *bind, *iface, *advertise;
	const char *exec;      /* the command that is run as a worker, or NULL */
	const char *init_from; /* the saved model that the job begins with, or NULL */
	bool later;            /* nothing is started now: choose no address */
	bool elsewhere;        /* the data are on other hosts: do not look for them here */
};
#define LOCAL_OPTS(type, field) \
	{ "hostfile", 0, OPT_STR, offsetof(type, field.hostfile), "FILE", \
		"start servers and workers on the hosts of this file (of Open MPI, MPICH or Slurm, or one per line)", \
		NULL, 0, 0 }, \
	    { "bind", 0, OPT_STR, offsetof(type, field.bind), "ADDR", \
		    "the coordinator listens on this address, any port", NULL, 0, 0 }, \
	    { "iface", 0, OPT_STR, offsetof(type, field.iface), "NAMES", \
		    "all processes listen on a network interface of one of these names, as eth*,ib0", \
		    NULL, 0, 0 }, \
	{ \
		"advertise", 0, OPT_STR, offsetof(type, field.advertise), "ADDR", \
		    "address that other processes use for the coordinator: host or host:port", \
		    NULL, 0, 0 \
	}

/* Load and validate the cluster file (NULL: none, with place->exec) with the assignments of --set,
 * and find the run directory: *dir is absolute and to be freed. Nothing is created. With a place
 * (else NULL) c gets its hosts and a listen address that other hosts can reach. ERR_NOTFOUND,
 * ERR_USAGE; every other fault of the file is ERR_CONFIG. c is zeroes after a failure. */
enum err_code local_load_conf(const char *file, const struct opt_list *sets,
    const struct local_place *place, struct conf *c, char **dir, struct err *e);
#define LOCAL_OPT_EXEC(type, field) \
	{ \
		"exec", 'x', OPT_STR, offsetof(type, field.exec), "COMMAND", \
		    "a program that is a worker itself (pskit(3), pskit.torch), started for each worker; " \
		    "FILE is then optional", \
		    NULL, 0, 0 \
	}
#define LOCAL_OPT_INIT(type, field) \
	{ \
		"init-from", 0, OPT_STR, offsetof(type, field.init_from), "MODEL", \
		    "start from a saved model: a model file, a checkpoint or a run directory", \
		    NULL, 0, 0 \
	}
/* Is there a FILE or --exec? Otherwise report that it is missing; *code is the exit code. */
bool local_check_operands(const char *prog, const char *file, const char *exec, int *code);
/* Replace standard input ("-") in the paths of the data by /proc/PID/fd/0 of this process, because
 * the processes started here have no standard input. True when there was such a path. */
bool local_replace_stdin(struct conf *c);
/* Begin the run: s with the options of place, and the run directory, locked (*lock) and with what
 * `resume` names (resume_prepare). False: a message is printed, and *code is the exit code. */
bool local_begin_run(struct supervisor *s, const struct conf *c, const char *dir,
    const struct local_place *place, const char *resume, int *lock, int *code);

#endif

/* SPDX-License-Identifier: ISC */
#ifndef RUNDIR_RUNDIR_H
#define RUNDIR_RUNDIR_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/err.h"

/* The run directory, by which all tools know a cluster. A cluster is alive as long as some process
 * holds the write lock on DIR/lock, which also names the supervisor's process id. The lock belongs
 * to the open file description (F_OFD_SETLK): it is inherited by fork but not by exec, it ends with
 * the last process that has it, however that ends, and other processes can test it without taking
 * it.
 *
 * States of a run directory:
 *
 *   state    event                                              next state
 *   -        rundir_create: made under a hidden name, locked,   LIVING
 *            then renamed to its path
 *   LIVING   rundir_write_ending: the supervisor has saved the  ENDING
 *            model, and will end the processes
 *   LIVING   the last holder of the lock ends                   ENDED
 *   ENDING   the last holder of the lock ends                   ENDED
 *   ENDED    rundir_lock                                        LIVING (resumed)
 *   ENDED    rundir_create of the same path                     ENDED, renamed to PATH.N, N one more
 *                                                               than the largest so far
 *
 * All functions may be called by any thread; processes are kept apart by the lock and by
 * rename(2). */

/* The path of "NAME.run" beside the cluster file, a fresh string. */
char *rundir_name_for(const char *cluster_file, const char *name);

/* The cluster file beside "NAME.run" as commands take it, "NAME" for NAME.json: a new string; NULL:
 * there is none of this name. */
char *rundir_cluster_file(const char *dir);

/* Make a new directory (mode 0700), locked by this process: *lock is the descriptor, to be
 * kept open for as long as the cluster lives. A directory whose cluster has ended is first
 * renamed to PATH.N, where N is 1 or one more than the largest so far. Two processes may do this
 * at the same time.
 * ERR_EXISTS: a living cluster has the path. */
enum err_code rundir_create(const char *path, int *lock, struct err *e);
/* Lock a directory whose cluster has ended, to resume it. ERR_NOTFOUND; ERR_EXISTS: its
 * cluster is alive. */
enum err_code rundir_lock(const char *path, int *lock, struct err *e);
/* After a fork: write this process's id to the lock file. */
enum err_code rundir_lock_owner(int lock, struct err *e);

/* A process that the supervisor has failed to start, stored in the lock file after the
 * process id. The record has a fixed place and length, so that it can be replaced while the
 * disk is full. */
struct rundir_retry {
	char id[48];   /* the process; "": no failure */
	int64_t since; /* wall clock of the first failure, in ns */
	unsigned tries;
	char error[400];
};
/* Write the failure to a living cluster's lock file; an empty id removes it. ERR_IO. */
enum err_code rundir_write_retry(const char *path, const struct rundir_retry *retry, struct err *e);
/* False when there is no failure, or the cluster is not alive. */
bool rundir_read_retry(const char *path, struct rundir_retry *out);

/* Write to a living cluster's lock file that its supervisor is about to end the processes, and that
 * the model, if any, is saved. Call this before the result is written: a program that has seen the
 * result must not read parameters from servers that end. ERR_IO. */
enum err_code rundir_write_ending(const char *path, struct err *e);
/* Is the cluster alive, and not ending? Then its servers have the parameters; otherwise the saved
 * model has them. */
bool rundir_is_serving(const char *path);

/* Is the directory's cluster alive? *pid (may be NULL): the process id in the lock file; 0
 * when it is not alive, or when the lock belongs to a process of another host or container. */
bool rundir_is_alive(const char *path, pid_t *pid);
/* Is a ps-ctl the supervisor of the directory's cluster? That process starts the others and will
 * write result.json. */
bool rundir_is_supervised(const char *path);
/* The process id in PATH/ID.pid, which the supervisor writes; 0 when there is none. */
pid_t rundir_read_pid(const char *path, const char *id);

/* Notices when a living cluster's directory is removed: then its processes cannot be reached
 * any more. A rename does not count. */
struct rundir_watch {
	/* readable when rundir_watch_gone should be called; -1: not open */
	int fd;
	int dir;
};
/* Begin to watch. ERR_IO. */
enum err_code rundir_watch_open(const char *path, struct rundir_watch *w, struct err *e);
/* Has the directory, or its lock file, been removed? */
bool rundir_watch_gone(struct rundir_watch *w);
void rundir_watch_close(struct rundir_watch *w);

/* Find the run directory that a tool is to use: opt_C (option -C, may be NULL), else
 * $PS_CLUSTER, else the only *.run with a living cluster in the current directory. *path is a
 * fresh string, or NULL. ERR_NOTFOUND: there is none; ERR_USAGE: several are alive;
 * ERR_NOTREADY: it is not alive, and *path is set if only one directory can be meant, for
 * tools that read runs that have ended. */
enum err_code rundir_find(const char *opt_C, char **path, struct err *e);
/* Like rundir_find, for tools that read parameters: a cluster that is ending is not alive
 * (rundir_is_serving). */
enum err_code rundir_find_serving(const char *opt_C, char **path, struct err *e);

/* The file of the initial parameters that a worker has sent. */
#define RUNDIR_FIRST "first.safetensors"
/* The directory in which the workers of this host share parsed data, while the cluster lives. */
#define RUNDIR_PARSED "parsed"

/* The path DIR/name, a fresh string: rundir_path(dir, "ctl.sock"). */
char *rundir_path(const char *dir, const char *name);

#endif

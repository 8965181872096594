#ifndef LAUNCH_RUNDIR_H
#define LAUNCH_RUNDIR_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"

/* The run directory, which is the cluster to all tools.  A cluster lives as
 * long as somebody holds the write lock on DIR/lock, which also holds the
 * supervisor's process number.  The lock belongs to the open file (F_OFD_SETLK):
 * it goes with the descriptor through fork, not through exec, ends with the
 * last process that has it however that ends, and others can ask whether it is
 * held without taking it for a moment. */

/* "NAME.run" beside the cluster file, fresh string. */
char *rundir_name_for(const char *cluster_file, const char *name);

/* A new directory (mode 0700), locked by this process: *lock is the
 * descriptor, to be kept open for as long as the cluster lives.  A finished
 * one is first moved to PATH.1 or the next free number.  Two that start at
 * once do not harm each other.  ERR_EXISTS when a living cluster holds it. */
enum err_code rundir_create(const char *path, int *lock, struct err *e);
/* Lock a finished one to resume it.  ERR_NOTFOUND, ERR_EXISTS as above. */
enum err_code rundir_lock(const char *path, int *lock, struct err *e);
/* After a fork: the lock now stands for this process. */
enum err_code rundir_lock_owner(int lock, struct err *e);

/* Does a living cluster hold it?  *pid (may be NULL) as the lock file says, 0
 * when it does not. */
bool rundir_is_alive(const char *path, pid_t *pid);

/* The directory that a tool is to use: opt_C (option -C, may be NULL), else
 * $PS_CLUSTER, else the only *.run with a living cluster in the current
 * directory.  *path is fresh, or NULL.  ERR_NOTFOUND: there is none;
 * ERR_USAGE: several live here; ERR_NOTREADY: not running, and *path is set
 * all the same when it is the only one meant, for tools that read finished
 * runs. */
enum err_code rundir_find(const char *opt_C, char **path, struct err *e);

/* First parameters that a worker has brought. */
#define RUNDIR_FIRST "first.safetensors"

/* DIR/name, fresh string: rundir_path(dir, "ctl.sock"). */
char *rundir_path(const char *dir, const char *name);

/* A Unix socket's path must fit 107 bytes.  out is path itself when it does;
 * else "/proc/self/fd/N/NAME" with N a descriptor of its directory, which
 * bind and connect take as well, needs no other place and leaves nothing
 * behind.  *dirfd is N or -1; close it after bind or connect.  The short path
 * means something in this process alone: publish the long one. */
#define RUNDIR_SOCKET_PATH 108
enum err_code rundir_socket_path(const char *path, char out[static RUNDIR_SOCKET_PATH], int *dirfd,
                                 struct err *e);

#endif

/* SPDX-License-Identifier: ISC */
#ifndef CMD_WORK_COMMON_H
#define CMD_WORK_COMMON_H

#include "core/opt.h"
#include "tool/tool.h"

/* The common part of the commands of ps-work: the options that name the cluster, the connection to
 * it, and error messages. */
struct where {
	const char *run_dir, *join, *log_level;
	int64_t timeout; /* ns */
};

#define WHERE_OPTS(type) \
	{ "run-dir", 'C', OPT_STR, offsetof(type, where.run_dir), "DIR", \
		"the cluster's run directory", NULL, 0, 0 }, \
	    { "join", 0, OPT_STR, offsetof(type, where.join), "FILE", \
		    "join a cluster with a join file made by ps-ctl invite", NULL, 0, 0 }, \
	    { "timeout", 0, OPT_DURATION, offsetof(type, where.timeout), "TIME", \
		    "wait at most this long for the cluster (30s)", NULL, 0, 0 }, \
	{ \
		"log-level", 0, OPT_CHOICE, offsetof(type, where.log_level), "LEVEL", \
		    "the lowest level of logged messages", "error|warn|info|debug", 0, 0 \
	}

/* Parse the options of spec. Returns 0 to go on, else the exit code plus 1. */
int where_parse(const struct opt_spec *spec, void *out, int argc, char **argv, int *nargs);
/* Find the cluster and the identity to use there: of the join file, else of the run directory,
 * there by name (NULL: "admin", outside of the job). identity_release() when done. */
enum err_code where_identity(const struct where *w, const char *name, struct identity *out,
    struct err *e);
/* The level of --log-level, or deflt. */
int where_log_level(const struct where *w, int deflt);
/* Make the log of the command of spec, to standard error; by default only warnings are logged. */
void where_log(const struct where *w, const struct opt_spec *spec, struct log *out);
/* Connect to the cluster as a session outside of the job. transport: "auto", "tcp", "unix" or
 * "shm". On success both *id and *out must be released. */
enum err_code where_connect(const struct where *w, const char *transport, struct log *log,
    struct identity *id, struct admin_client *out, struct err *e);

/* Connect to the cluster and call fn with the connection and the parsed options. Returns the exit
 * code; a reader that closes standard output early is not a failure. */
typedef enum err_code (
    *where_fn)(struct admin_client *t, const void *options, int nargs, char **argv, struct err *e);
int where_run(const struct opt_spec *spec, const struct where *w, const void *options, int nargs,
    char **argv, where_fn fn);

/* Print "prog: MESSAGE". Returns the exit code of e. */
int fail(const char *prog, const struct err *e);
/* Like fail(), but returns 0 when writing failed because the reader of standard output has closed
 * it. */
int where_fail_output(const char *prog, const struct err *e);

#endif

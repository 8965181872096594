#ifndef CMD_WORK_COMMON_H
#define CMD_WORK_COMMON_H

#include "base/opt.h"
#include "work/tool.h"

/* What the commands share: where the cluster is, and how to speak of faults. */
struct where {
	const char *run_dir, *join, *log_level;
	int64_t timeout;                /* ns */
};

#define WHERE_OPTS(type) \
	{ "run-dir", 'C', OPT_STR, offsetof(type, where.run_dir), "DIR", "the cluster's run directory", NULL, 0, 0 }, \
	{ "join", 0, OPT_STR, offsetof(type, where.join), "FILE", "join file made by ps-ctl invite", NULL, 0, 0 }, \
	{ "timeout", 0, OPT_DURATION, offsetof(type, where.timeout), "TIME", "how long to wait for the cluster (30s)", NULL, 0, 0 }, \
	{ "log-level", 0, OPT_CHOICE, offsetof(type, where.log_level), "LEVEL", "how much to say", "error|warn|info|debug", 0, 0 }

/* 0: go on; else the exit code plus 1 (1: exit 0). */
int where_parse(const struct opt_spec *spec, void *out, int argc, char **argv, int *nargs);
/* The identity of a peer outside the job, or (name not NULL) of that name. */
enum err_code where_identity(const struct where *w, const char *name, struct identity *out, struct err *e);
int where_level(const struct where *w, int deflt);
enum err_code where_tool(const struct where *w, const char *transport, struct log *log, struct identity *id,
    struct tool *out, struct err *e);

/* What a command does with a cluster, once its options are parsed: fn is called with a tool of it, and the
 * options; the exit code.  What fn writes may be read by somebody who leaves. */
typedef enum err_code (*where_fn)(struct tool *t, const void *options, int nargs, char **argv, struct err *e);
int where_run(const struct opt_spec *spec, const struct where *w, const void *options, int nargs, char **argv, where_fn fn);

int fail(const char *prog, const struct err *e);
/* The same of what writes to stdout: who reads it may leave, and that is 0. */
int fail_output(const char *prog, const struct err *e);

#endif

/* SPDX-License-Identifier: ISC */
#ifndef CTL_CTL_H
#define CTL_CTL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/clock.h"
#include "core/err.h"
#include "core/json.h"
#include "core/opt.h"
#include "http/client.h"

/* Shared by the subcommands of ps-ctl: their table (ctl.def), parsing of options, error messages,
 * output as JSON Lines, and requests to the cluster's control socket. ps-ctl has one thread;
 * nothing here is locked.
 *
 * A subcommand is one struct. usage has its operands, options and help; run gets argv with the
 * subcommand's name as argv[0], and returns the program's exit code. */
struct ctl_cmd {
	const char *name;
	struct opt_spec usage;
	int (*run)(const struct ctl_cmd *self, int argc, char **argv);
};

#define CTL(name) extern const struct ctl_cmd ctl_cmd_##name;
#include "ctl.def"
#undef CTL

/* Find a subcommand by its index in ctl.def, or by its name; NULL past the last, or for an unknown
 * name. */
const struct ctl_cmd *ctl_at(size_t i);
const struct ctl_cmd *ctl_find(const char *name);
/* Returns the subcommand whose name is most like this one, for "did you mean", or NULL. */
const char *ctl_suggest(const char *name);

/* Options that many subcommands have. The value is stored in `field` of struct `type`. */
#define CTL_OPT_CLUSTER(type, field) \
	{ \
		"cluster", 'C', OPT_STR, offsetof(type, field), "DIR", \
		    "the cluster's run directory (default: $PS_CLUSTER, or the only running one in this folder)", \
		    NULL, 0, 0 \
	}
#define CTL_OPT_JSON(type, field) \
	{ \
		"json", 0, OPT_FLAG, offsetof(type, field), NULL, "print JSON Lines for programs", \
		    NULL, 0, 0 \
	}
#define CTL_OPT_TIMEOUT(type, field, text) \
	{ \
		"timeout", 0, OPT_DURATION, offsetof(type, field), "TIME", text, NULL, 0, 9e18 \
	}
#define CTL_OPT_RESUME(type, field) \
	{ \
		"resume", 0, OPT_STR, offsetof(type, field), "FROM", \
		    "resume: auto (an unfinished run, from its newest checkpoint), step=N, a " \
		    "checkpoint's directory or s3:// name, or none", \
		    NULL, 0, 0 \
	}
#define CTL_OPT_RESTARTS(type, field) \
	{ \
		"max-restarts", 0, OPT_INT, offsetof(type, field), "N", \
		    "how many times each process that died is restarted (3 with replicas or " \
		    "checkpoint_every, else 0)", \
		    NULL, 0, 1000000 \
	}
/* The roles that a key can have, as choices of an option. */
#define CTL_ROLES        "worker|server|relay|monitor|reader|admin"
#define CTL_COUNT(array) (sizeof(array) / sizeof *(array))

/* Parses the options of a subcommand into *o. False: exit with *code. */
bool ctl_parse(const struct ctl_cmd *self, void *o, int argc, char **argv, int *nargs, int *code);
/* As opt_spec.advise: names --set for keys of the cluster file, and -C for clusters. */
bool ctl_advise(const struct opt_spec *spec, const char *arg, const char *value,
    char out[static OPT_ADVICE]);
/* Prints "ps-ctl: MESSAGE" to stderr, and returns the documented exit code for e. */
int ctl_fail(const struct err *e);
/* Reports a wrong use that the option table cannot detect, as "ps-ctl run: ..." on stderr. Returns
 * 2, the exit code. */
int ctl_report_misuse(const struct ctl_cmd *self, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Finds the action of a subcommand that its first operand names, as "ls" of ps-ctl checkpoint ls.
 * actions is an array of n structs of `size` bytes whose first member is their name. For an
 * unknown word, reports it ("did you mean ...?") and returns NULL. */
#define CTL_ACTION(self, word, actions) \
	ctl_action(self, word, actions, CTL_COUNT(actions), sizeof *(actions))
const void *ctl_action(const struct ctl_cmd *self, const char *word, const void *actions, size_t n,
    size_t size);

/* Makes a client of the running cluster that -C names (dir), or of the one that $PS_CLUSTER or the
 * current directory tells when dir is NULL. */
enum err_code ctl_reach(const char *dir, struct http_client **client, struct err *e);
/* A request. path has a query. repeatable: it does no harm when it is made twice, so it is repeated also when
 * the connection broke before the answer. */
struct ctl_call {
	const char *method, *path; /* NULL: POST */
	const json_t *body;        /* borrowed; may be NULL */
	bool repeatable;
};
/* As http_call for the cluster of ctl_reach(), but a coordinator that is being started again is waited for,
 * as long as its supervisor lives and `timeout` (ns) lasts. answer may be NULL. */
enum err_code ctl_call(const char *dir, struct http_client *client, const struct ctl_call *r,
    int64_t timeout, json_t **answer, struct err *e);
/* Sends one such request to the cluster of ctl_reach(). */
enum err_code ctl_request(const char *dir, const struct ctl_call *r, int64_t timeout,
    json_t **answer, struct err *e);
/* Have the coordinator save the job and stop it at that step, in at most `timeout` ns. It gives up by itself
 * then, and carries the order out even if this program is killed. *answer is that of POST /v1/stop. */
enum err_code ctl_stop_saved(const char *dir, struct http_client *client, const char *why,
    int64_t timeout, json_t **answer, struct err *e);
/* As ctl_request, for commands without --timeout: the coordinator may take longer to be started again than
 * `timeout`, within which it must answer. */
enum err_code ctl_request_soon(const char *dir, const struct ctl_call *r, int64_t timeout,
    json_t **answer, struct err *e);
/* Finds the run directory that -C names, running or not. *dir must be freed. */
enum err_code ctl_run_dir(const char *opt, char **dir, struct err *e);
/* Calls act with the run directory that -C names (opt), and returns the program's exit code; a
 * failure is printed. living: its cluster must be running. */
typedef enum err_code ctl_run_fn(void *options, const char *dir, struct err *e);
int ctl_act_on_run(const char *opt, bool living, ctl_run_fn *act, void *options);
/* Timeout of a request that the coordinator answers at once. */
#define CTL_CALL (5 * NSEC_PER_SEC)
/* Gets the cluster's status as a new reference, and its revision in *rev. Returns at once when
 * *rev is negative; otherwise waits until the status is newer than *rev, for at most 0.2 s. */
enum err_code ctl_next_status(struct http_client *client, int64_t *rev, json_t **status,
    struct err *e);
/* Calls look() with each new status until it sets *done or returns an error, which is then
 * returned. A coordinator that is being started again is waited for. ERR_TIMEOUT: neither happened within
 * `timeout` ns. */
typedef enum err_code ctl_status_fn(void *ctx, const json_t *status, bool *done, struct err *e);
enum err_code ctl_watch_status(struct http_client *client, int64_t timeout, ctl_status_fn *look,
    void *ctx, struct err *e);

#endif

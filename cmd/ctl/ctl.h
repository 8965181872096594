#ifndef CTL_CTL_H
#define CTL_CTL_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/opt.h"
#include "http/client.h"

/* A subcommand.  usage has its operands, options and help; run gets argv with
 * the subcommand's name as argv[0], and returns the program's exit code. */
struct ctl_cmd {
	const char *name;
	struct opt_spec usage;
	int (*run)(const struct ctl_cmd *self, int argc, char **argv);
};

#define CTL(name) extern const struct ctl_cmd ctl_cmd_##name;
#include "ctl.def"
#undef CTL

/* In the order of the table; NULL past the last, or for an unknown name. */
const struct ctl_cmd *ctl_at(size_t i);
const struct ctl_cmd *ctl_find(const char *name);
/* "did you mean", or NULL. */
const char *ctl_suggest(const char *name);

/* Options that many subcommands have, of struct type with this field. */
#define CTL_OPT_CLUSTER(type, field) \
	{ "cluster", 'C', OPT_STR, offsetof(type, field), "DIR", \
	  "the cluster's run directory; else $PS_CLUSTER, else the one that runs here", NULL, 0, 0 }
#define CTL_OPT_JSON(type, field) \
	{ "json", 0, OPT_FLAG, offsetof(type, field), NULL, "JSON Lines for programs", NULL, 0, 0 }
#define CTL_OPT_TIMEOUT(type, field, text) \
	{ "timeout", 0, OPT_DURATION, offsetof(type, field), "TIME", text, NULL, 0, 9e18 }
#define CTL_OPT_RESUME(type, field) \
	{ "resume", 0, OPT_STR, offsetof(type, field), "FROM", \
	  "go on: auto (an unfinished run, from its newest checkpoint), step=N, a checkpoint's directory or s3:// name, or none", \
	  NULL, 0, 0 }
#define CTL_OPT_RESTARTS(type, field) \
	{ "max-restarts", 0, OPT_INT, offsetof(type, field), "N", \
	  "how often each process that died is started again (3 with replicas or checkpoint_every, else 0)", NULL, 0, 1000000 }
/* What a key may be for, as choices. */
#define CTL_ROLES "worker|server|relay|monitor|reader|admin"
#define CTL_COUNT(array) (sizeof(array) / sizeof *(array))

/* opt_parse with the subcommand's table.  False: end with *code. */
bool ctl_parse(const struct ctl_cmd *self, void *o, int argc, char **argv, int *nargs, int *code);
/* "ps-ctl: MESSAGE" on stderr; the documented exit code of e. */
int ctl_fail(const struct err *e);
/* A wrong use that the option table cannot see: "ps-ctl run: ..."; 2. */
int ctl_misuse(const struct ctl_cmd *self, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* What a subcommand does, by the word that is its first operand: that of an array of structs which
 * begin with their name; NULL: there is none, and it was said ("did you mean"). */
#define CTL_ACTION(self, word, actions) ctl_action(self, word, actions, CTL_COUNT(actions), sizeof *(actions))
const void *ctl_action(const struct ctl_cmd *self, const char *word, const void *actions, size_t n, size_t size);

/* One line of output, flushed, with "v", "ts" and "kind" in front. */
void ctl_line(const char *kind, const json_t *object);
/* v, ts and kind, then the members of object; a new reference. */
json_t *ctl_event(const char *kind, const json_t *object);

/* A client of the cluster's control socket. */
enum err_code ctl_connect(const char *dir, struct http_client **client, struct err *e);
/* The same of the cluster at dir, or that which CTL_OPT_CLUSTER tells when dir is NULL. */
enum err_code ctl_reach(const char *dir, struct http_client **client, struct err *e);
/* One question to it; body is borrowed, or NULL, and answer may be. */
enum err_code ctl_ask(const char *dir, const char *method, const char *path, const json_t *body, int64_t timeout, json_t **answer,
    struct err *e);
/* The run directory that CTL_OPT_CLUSTER tells, to be freed: of a run that has ended, too. */
enum err_code ctl_run_dir(const char *opt, char **dir, struct err *e);
/* How long a question that is answered at once may take. */
#define CTL_CALL (5 * NSEC_PER_SEC)
/* The cluster's status, a new reference: at first (*rev below 0) as it is, then when it has
 * changed since *rev, or after 0.2 s.  Leaves its own in *rev. */
enum err_code ctl_next_status(struct http_client *client, int64_t *rev, json_t **status, struct err *e);
/* Look at the status, as it changes, until look() has seen enough: *done, or an error of its
 * own.  ERR_TIMEOUT: not in that time. */
typedef enum err_code ctl_look(void *ctx, const json_t *status, bool *done, struct err *e);
enum err_code ctl_until(struct http_client *client, int64_t timeout, ctl_look *look, void *ctx, struct err *e);
/* For people: "1.2M", "18.2k", "431", "0.25" (base 1000). */
void ctl_count(double v, char out[static 16]);
/* "1 server", "2 servers". */
const char *ctl_plural(int64_t n);
/* The number in DIR/ID.pid, 0 when there is none. */
pid_t ctl_read_pid(const char *dir, const char *id);
/* Is the cluster run by a ps-ctl, which is to write result.json? */
bool ctl_supervised(const char *dir);

#endif

#ifndef CONF_CONF_H
#define CONF_CONF_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "sync/sync.h"

/* The cluster file, typed and validated whole.  conf.def lists the keys; the
 * fields below have their names.  Not thread-safe; a const one may be shared. */
enum conf_policy { CONF_SHRINK, CONF_WAIT, CONF_FAIL };

struct conf_range { int64_t min, max; };
struct conf_loss { enum conf_policy policy; int64_t wait; };       /* ns of wait:T, else 0 */
struct conf_every { int64_t steps, time; };                        /* time in ns; both 0: never */
struct conf_strs { char **item; size_t n; };
struct conf_ints { int64_t *item; size_t n; };

struct conf_job {
	char *model;                            /* NULL when none is named */
	char *tables, *exec, *command;          /* none, or of model custom */
	int64_t examples;
	struct conf_strs data, eval;            /* absolute, with globs and "?format=..." */
	char *cache;                            /* none, or an absolute path */
	struct conf_ints hidden;
	int64_t factors;
	char *activation;
	int64_t epochs, steps;                  /* 0: not a limit */
	int64_t batch;
	char *optimizer, *schedule;
	double lr, momentum, beta1, beta2;
	double eps;                             /* 0: as the rule's paper */
	double rho, ftrl_beta, l1, l2;
	double clip_norm;                       /* 0: none */
	char *frozen;                           /* none, or names (base/names.h) */
	int64_t seed, eval_every;
	char *init;                             /* auto, zeros, glorot, or an absolute path */
};

struct conf {
	uint64_t given[2];                      /* bit i: key i was set, not left at its default */
	bool has_job;                           /* false: servers only, and job holds defaults */
	char *name;                             /* NULL when neither given nor loaded from a file */
	int64_t servers;
	struct conf_range workers;
	int64_t replicas;
	struct sync_mode sync;
	int64_t backup;
	char *adapt;                            /* none, or a list: see conf_adapts */
	uint64_t quota_bytes;
	int64_t quota_pushes;
	char *robust;
	bool quarantine;
	bool deterministic;
	struct conf_loss on_worker_loss;
	char *codec, *pull_codec;
	bool pull_delta, prefetch;
	char *row_ids, *sparse, *via, *filter;
	bool feedback;
	int64_t accumulate, local_steps, fragments;
	char *outer, *suite, *transport, *listen, *http;
	struct conf_strs hosts;                 /* entries, as base/hosts.h reads them */
	bool read_only;
	uint64_t mem_limit;                     /* bytes, 0: none */
	int64_t spin, heartbeat, lease, deadline;       /* nanoseconds */
	struct conf_every checkpoint_every;
	int64_t checkpoint_deltas, keep_last, keep_every, keep_best;
	char *checkpoint_to;
	char *log_level;
	struct conf_job job;
};

/* Of a key whose value may be none: is it another? */
bool conf_names(const char *value);
/* Where checkpoints are copied to, "s3://BUCKET/PREFIX/NAME", fresh; NULL: nowhere. */
char *conf_store(const struct conf *c);

/* Is there a job, and is it trained here?  A read-only cluster has one for its model's sake. */
bool conf_trains(const struct conf *c);

/* All keys at their defaults, without a job.  conf_release drops the strings
 * and leaves c as zeroes; it may be called on zeroes. */
void conf_init(struct conf *c);
void conf_release(struct conf *c);

/* The cluster file that a user means by arg: arg itself, or arg with ".json"
 * when only that exists ("cluster").  Fresh string, also when neither does. */
char *conf_file(const char *arg);

/* Read the cluster file, apply the nsets assignments ("lr=0.5") on top, and
 * validate the whole.  Relative paths in the file become absolute by the
 * file's directory.  *c is initialised here; after a failure it is zeroes.
 * path NULL: no file, the assignments alone, and the name "exec".
 * ERR_NOTFOUND when there is no such file, ERR_CONFIG (or what the JSON
 * reader says) when it is wrong. */
enum err_code conf_load(const char *path, const char **sets, size_t nsets, struct conf *c,
                        struct err *e);

/* "key=value", parsed by the key's type.  "job." may be left out.  A list is
 * JSON, or separated by commas.  Relative paths become absolute by the current
 * directory.  A failure leaves *c alone.  Nothing across keys is checked. */
enum err_code conf_set(struct conf *c, const char *assignment, struct err *e);

/* Everything that one key alone cannot tell: models and rules that exist,
 * keys that fit together, data that is there.  ERR_CONFIG, and the sentence
 * begins with the offending key's path. */
enum err_code conf_validate(const struct conf *c, struct err *e);
/* The same, but no file is looked for: those of a job that runs may be gone. */
enum err_code conf_validate_keys(const struct conf *c, struct err *e);

/* The effective configuration: every key that has a value, in the table's
 * order, job nested (absent when there is none).  conf_from_json reads it back
 * to an equal struct (*c is initialised here, zeroes after a failure); it does
 * not validate, because another host need not have the data. */
json_t *conf_to_json(const struct conf *c);
enum err_code conf_from_json(const json_t *o, struct conf *c, struct err *e);

/* The keys that differ, "job.lr, job.batch", in a fresh string; NULL if none. */
char *conf_diff(const struct conf *a, const struct conf *b);

/* Text of a small cluster file for the model, in a fresh string.  mlp and
 * softmax train on Fashion-MNIST where Debian's dataset-fashion-mnist puts it;
 * other models name a file that the user puts there.  NULL: unknown model. */
char *conf_template(const char *model, struct err *e);

#endif

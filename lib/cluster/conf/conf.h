/* SPDX-License-Identifier: ISC */
#ifndef CONF_CONF_H
#define CONF_CONF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "core/json.h"
#include "sync/sync.h"

/* The cluster file as a typed struct, validated as a whole. conf.def lists the keys; the fields of
 * struct conf have their names. Like all of this folder it has no threads and no locks: a struct
 * conf is used by one thread at a time, a const one may be shared. Strings in it are owned by the
 * struct. */
enum conf_policy { CONF_SHRINK, CONF_WAIT, CONF_FAIL };

struct conf_range {
	int64_t min, max;
};
/* wait: the T of "wait:T", in ns; 0 with the other policies. */
struct conf_loss {
	enum conf_policy policy;
	int64_t wait;
};
struct conf_every {
	int64_t steps, time;
}; /* time in ns; both 0: never */
struct conf_strs {
	char **item;
	size_t n;
};
struct conf_ints {
	int64_t *item;
	size_t n;
};
/* A member for each key job.NAME of conf.def, which finds its member by the path of the key. */
struct conf_job {
	char *model;                   /* NULL when none is named */
	char *tables, *exec, *command; /* "none" unless the model is custom */
	int64_t examples;
	struct conf_strs data, eval; /* absolute, with globs and "?format=..." */
	/* options of the same names for all paths of `data` (conf_data.h), or "none" */
	char *format, *label, *weight, *ignore, *categories, *text, *text_weight, *lists;
	char *columns, *id, *missing;
	char *user, *item, *rating, *positive, *bits, *norm, *pairs;
	char *validate;       /* "none" or "N%" (data/batch/data_split.h) */
	uint64_t data_memory; /* bytes of training data in memory */
	char *scale;          /* as data_options.scale, for paths that do not have it */
	char *bad_lines;      /* "fail" or "skip:N" (data/reader/data_bad_lines.h) */
	char *bad_gradients;  /* "auto", "fail" or "skip": conf_skips_bad_gradients */
	char *cache;          /* "run", "none", or an absolute path */
	char *loss;           /* "auto", or as loss/loss.h reads it */
	char *class_weight;   /* "none", "balanced" or a list (model/class_weight.h) */
	struct conf_ints hidden;
	int64_t factors;
	struct conf_ints bottom; /* hidden layers that see the numbers */
	int64_t cross;           /* layers that cross features */
	/* Classes drawn for a batch, 0: all are used; for warp, items drawn for an example, 0: 20. */
	int64_t negatives;
	char *activation;
	int64_t epochs, steps; /* 0: not a limit */
	int64_t batch;
	char *optimizer, *schedule;
	char *rules; /* "none", or rules of single tables (conf_rule.h) */
	double lr, momentum, beta1, beta2;
	double eps; /* 0: the value of the rule's paper, too */
	double initial_accumulator;
	double rho, ftrl_beta, l1, l2;
	double clip_norm; /* 0: none */
	char *frozen;     /* "none", or names (core/names.h) */
	int64_t seed, eval_every, top_k;
	char *stop;      /* "none", or a rule (metric/early_stop.h) */
	char *slow;      /* "none", or emulated delays (conf_slow.h) */
	char *init;      /* auto, zeros, glorot, or an absolute path */
	char *init_from; /* none, or the absolute path of a saved model */
};

struct conf {
	uint64_t given[3];     /* bit i: key i was set, not left at its default */
	uint64_t automatic[3]; /* bit i: key i was set to "auto" (conf_automatic) */
	bool has_job;          /* false: servers only, and job holds defaults */
	char *name;            /* NULL when neither given nor loaded from a file */
	int64_t servers, servers_max;
	struct conf_range workers;
	int64_t replicas;
	struct sync_mode sync;
	int64_t backup;
	char *adapt; /* "none", or a list: see conf_parse_adapt */
	uint64_t quota_bytes;
	int64_t quota_pushes;
	char *robust;
	bool deterministic;
	struct conf_loss on_worker_loss;
	char *codec, *pull_codec;
	bool pull_delta, prefetch;
	int64_t lookahead; /* batches; 0: none */
	char *row_ids, *sparse, *via, *filter;
	bool feedback;
	int64_t accumulate, local_steps;
	char *outer, *suite, *transport, *net, *listen, *http;
	struct conf_strs hosts; /* entries, as conf/hosts.h reads them */
	bool read_only;
	/* endpoints of a read-only server (lib/serving): "none", "HOST:PORT" or "unix:PATH"; files
	 * or "none" */
	char *serve_http, *serve_tokens, *serve_cert, *serve_key, *serve_ca;
	struct conf_strs serve_rated;
	char *serve_if; /* parsed by serve_if_parse */
	bool serve_open;
	int64_t serve_delay, serve_deadline; /* nanoseconds */
	int64_t serve_connections, serve_rows;
	uint64_t serve_body, serve_memory; /* bytes */
	char *serve_redis, *serve_redis_values;
	int64_t serve_redis_connections;
	uint64_t mem_limit; /* bytes, 0: none */
	char *spill_dir;    /* for rows on the disk; "none": there are none */
	int64_t spin, heartbeat, lease, deadline, join_wait; /* nanoseconds */
	struct conf_every checkpoint_every;
	int64_t checkpoint_deltas, keep_last, keep_every, keep_best, keep_runs;
	char *checkpoint_to, *state;
	char *log_level;
	struct conf_job job;
	bool data_elsewhere; /* not a key: see conf_load_elsewhere */
};

/* The Debian package that a server needs for spill_dir. */
#define CONF_SPILL_PACKAGE "librocksdb7.8"

/* Does a key that may be "none" have another value? */
bool conf_is_named(const char *value);
/* The settings that slow down workers or their links on purpose, as "job.slow=20ms net=100M", in a
 * fresh string; "": none. */
char *conf_emulation(const char *slow, const char *net);
/* Is this HOST:PORT of serve_http on this host's loopback, so that no other host can connect? Pure. */
bool conf_is_loopback(const char *address);
/* The object store URI that checkpoints are uploaded to, "s3://BUCKET/PREFIX/NAME", in a fresh
 * string; NULL: none. */
char *conf_checkpoint_uri(const struct conf *c);
/* The URL of the coordinator's state, "etcd://HOST:PORT,.../PREFIX/NAME", in a fresh string; NULL: it is
 * in the run directory. */
char *conf_state_url(const struct conf *c);

/* Does the job go on when a push of its own worker is refused for its values? By default it does so
 * with an aggregator that expects bad gradients. */
bool conf_skips_bad_gradients(const struct conf *c);

/* Is the update rule another one than the model's own, which finds its step sizes itself, because
 * job.lr is given and job.optimizer is not? */
bool conf_rule_follows_lr(const struct conf *c);

/* Does this cluster train? A read-only cluster has a job only to describe its model. */
bool conf_trains(const struct conf *c);
/* Makes the configuration of a cluster that of a read-only one, with one server on this host, which
 * serves the parameters. ERR_CONFIG. */
enum err_code conf_make_read_only(struct conf *c, struct err *e);

/* conf_init sets all keys to their defaults, without a job. conf_release frees the strings and
 * leaves *c as zeroes; it may be called on zeroes. */
void conf_init(struct conf *c);
void conf_release(struct conf *c);

/* The cluster file that a user names by arg: arg itself, or arg with ".json" if only that exists
 * ("cluster"). A fresh string, also if neither exists. */
char *conf_file(const char *arg);

/* Read the cluster file, apply the nsets assignments ("lr=0.5") to it, and validate the result.
 * Relative paths in the file are relative to the file's directory, and become absolute. *c is
 * initialised here, and is zeroes after a failure. path NULL: no file, only the assignments; the
 * name is "exec". ERR_NOTFOUND: there is no such file; ERR_CONFIG, or an error of the JSON reader:
 * it is wrong. */
enum err_code conf_load(const char *path, const char **sets, size_t nsets, struct conf *c,
    struct err *e);
/* Does the same for a cluster that other hosts will run: the files of job.data and job.eval are
 * theirs, and are not looked for here. */
enum err_code conf_load_elsewhere(const char *path, const char **sets, size_t nsets, struct conf *c,
    struct err *e);

/* Set one key from "key=value", parsed by the key's type. "job." may be omitted. A list is JSON, or
 * separated by commas. Relative paths become absolute by the current directory. A failure leaves *c
 * unchanged. Rules across keys are not checked. */
enum err_code conf_set(struct conf *c, const char *assignment, struct err *e);

/* Set a key, by its whole path, back to its default, as if it had not been given. */
void conf_reset(struct conf *c, const char *path);

/* Check what involves several keys or the world: models and rules must exist, keys must fit
 * together, data must be there. ERR_CONFIG; the message begins with the path of the offending
 * key. */
enum err_code conf_validate(const struct conf *c, struct err *e);
/* Like conf_validate, without looking for files: the files of a running job may be gone. */
enum err_code conf_validate_keys(const struct conf *c, struct err *e);

/* conf_to_json writes the effective configuration: every key that has a value, in the table's
 * order, with "job" nested (absent without a job), and "by_default", the list of the job's keys
 * that nobody has set and that the model or the update rule decides. conf_from_json reads it back
 * to an equal struct: *c is initialised here, and is zeroes after a failure. It does not validate,
 * because another host need not have the data. */
json_t *conf_to_json(const struct conf *c);
enum err_code conf_from_json(const json_t *o, struct conf *c, struct err *e);

/* The effective configuration as a cluster file, which conf_load reads to an equal struct: without
 * the keys that nobody has set and that the model or the update rule decides. A new reference. */
json_t *conf_file_json(const struct conf *c);

/* The configuration that goes with a model into a file: the name, and the keys of the job without
 * paths and commands, which are those of one host. conf_from_json reads it. A new reference. */
json_t *conf_model_json(const struct conf *c);

/* The keys in which a and b differ, "job.lr, job.batch", in a fresh string; NULL: none. */
char *conf_diff(const struct conf *a, const struct conf *b);

/* The text of a small cluster file for the model, in a fresh string. mlp and softmax train on
 * Fashion-MNIST as Debian's package dataset-fashion-mnist installs it; other models name a file
 * that the user provides. NULL: unknown model. */
char *conf_template(const char *model, struct err *e);

#endif

/* SPDX-License-Identifier: ISC */
#ifndef CONF_CONF_KEY_H
#define CONF_CONF_KEY_H

#include "conf/conf.h"
#include "core/json.h"

/* The types of keys, as an X-macro: TYPE(name, text for the user, type of the field). */
#define CONF_TYPES(TYPE) \
	TYPE(STR, "string", char *) \
	TYPE(CHOICE, "choice", char *) \
	TYPE(INT, "integer", int64_t) \
	TYPE(COUNT, "integer or auto", int64_t) \
	TYPE(NUM, "number", double) \
	TYPE(BOOL, "boolean", bool) \
	TYPE(SIZE, "size", uint64_t) \
	TYPE(DURATION, "duration", int64_t) \
	TYPE(RANGE, "integer, MIN:MAX or auto", struct conf_range) \
	TYPE(SYNC, "choice", struct sync_mode) \
	TYPE(LOSS, "choice", struct conf_loss) \
	TYPE(EVERY, "steps or duration", struct conf_every) \
	TYPE(ADDR, "address:port", char *) \
	TYPE(FILE, "choice or file", char *) \
	TYPE(PATHS, "path or list", struct conf_strs) \
	TYPE(HOSTS, "host or list", struct conf_strs) \
	TYPE(INTS, "list of integers", struct conf_ints)

enum conf_type {
#define TYPE(name, text, ctype) CONF_##name,
	CONF_TYPES(TYPE)
#undef TYPE
};

/* May a key change while the job runs, and when does a change hold? Only CONF_FIXED is false. */
enum conf_change {
	CONF_FIXED,
	CONF_LIVE,    /* for all servers and workers from one step on */
	CONF_AT_ONCE, /* when the coordinator has it: no computation depends on it */
};

/* Defaults in place of a value: the job's model or its update rule gives one (conf_derive). */
#define CONF_BY_MODEL "by model"
#define CONF_BY_RULE  "by rule"

/* The origin of a value. */
enum conf_origin {
	CONF_FROM_USER,   /* a file, --set or a live change */
	CONF_FROM_MODEL,  /* model.def */
	CONF_FROM_RULE,   /* the update rule */
	CONF_FROM_NOBODY, /* the same for all jobs */
};

/* One row of conf.def. Bounds of durations are in seconds. */
struct conf_key {
	const char *path; /* "job.lr" */
	enum conf_type type;
	const char *deflt; /* as text; "" or "[]": none; or CONF_BY_... */
	double min, max;   /* equal: unbounded */
	enum conf_change live;
	const char *help;
	const char *choices; /* "a|b"; NULL when open */
	size_t offset;       /* of the field in struct conf */
};

/* All keys, in the order of conf.def; *n is their number. */
const struct conf_key *conf_keys(size_t *n);
const char *conf_type_name(enum conf_type type);
/* Find a key by its whole path, or by the part after "job.". NULL and ERR_CONFIG, with "did you
 * mean", if there is none. */
const struct conf_key *conf_key_find(const char *name, struct err *e);
/* The key that a word of other programs means, such as job.lr for learning_rate (conf_synonym.def);
 * NULL: it is none of them. For advice: such a word is not accepted. */
const struct conf_key *conf_key_meant(const char *name);
/* Was the key set by a file, by --set or by a live change? */
bool conf_given(const struct conf *c, const struct conf_key *k);
/* Was the key set to "auto"? Of servers and workers: its value is that of the rule of thumb, until
 * ps-ctl run or start has chosen another one. */
bool conf_automatic(const struct conf *c, const struct conf_key *k);
/* Forgets that the key was set; its value stays. */
void conf_forget_given(struct conf *c, const struct conf_key *k);

/* Does the default of the key depend on the job? */
bool conf_key_derives(const struct conf_key *k);
enum conf_origin conf_origin_of(const struct conf *c, const struct conf_key *k);
/* Give the keys that nobody has set the defaults of the job's model and update rule; or only those
 * of the rule, which a live change of job.optimizer brings along. */
void conf_derive(struct conf *c);
void conf_derive_of_rule(struct conf *c);

/* Set a key's value from text, or from JSON; write it as JSON (NULL if it has none). Relative paths
 * become absolute by dir; NULL: they stay relative. A failure leaves the field unchanged:
 * ERR_CONFIG, "job.lr: must be > 0, got -1". */
enum err_code conf_value_parse(const struct conf_key *k, const char *text, const char *dir,
    struct conf *c, struct err *e);
enum err_code conf_value_read(const struct conf_key *k, const json_t *v, const char *dir,
    struct conf *c, struct err *e);
json_t *conf_value_json(const struct conf_key *k, const struct conf *c);
void conf_value_release(const struct conf_key *k, struct conf *c);

/* Is there a model of this name? ERR_CONFIG, "job.model: ...", with "did you mean". */
enum err_code conf_model_check(const char *name, struct err *e);

/* Data paths, in the form of data/source/data_uri.h. conf_path_from makes one absolute by dir
 * (NULL: leaves it as it is), with its options and globs, in a fresh string. The checks find
 * missing files, ERR_NOTFOUND, and other mistakes, ERR_CONFIG: "KEY: ...". */
bool conf_path_is_stdin(const char *spec);
char *conf_path_from(const char *dir, const char *spec);
enum err_code conf_path_check(const char *key, const char *spec, struct err *e);
enum err_code conf_path_check_file(const char *key, const char *path, struct err *e);

#endif

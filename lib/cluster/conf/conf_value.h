/* SPDX-License-Identifier: ISC */
#ifndef CONF_CONF_VALUE_H
#define CONF_CONF_VALUE_H

#include "conf/conf_key.h"

/* The inside of the key types, shared by conf_value.c, conf_scalar.c and conf_list.c. Pure: no
 * state, no threads. */
union conf_value {
	char *s;   /* STR, CHOICE, ADDR, FILE */
	int64_t i; /* INT; DURATION in ns */
	double d;
	bool b;
	uint64_t u;
	struct conf_range range;
	struct sync_mode sync;
	struct conf_loss loss;
	struct conf_every every;
	struct conf_strs strs;
	struct conf_ints ints;
};

/* Bits, so that a type can accept several kinds. */
enum conf_json_kind {
	CONF_JSON_STRING = 1,
	CONF_JSON_INTEGER = 2,
	CONF_JSON_REAL = 4,
	CONF_JSON_BOOLEAN = 8,
	CONF_JSON_ARRAY = 16,
};

struct conf_type_ops {
	unsigned accepts; /* accepted kinds of JSON, of enum conf_json_kind */
	size_t size;      /* of the field */
	const char *what; /* completes "must be ..." for JSON of another kind */
	/* parse reads a value from text; *v owns nothing when it returns false, with ERR_CONFIG in
	 * e. NULL for lists. json writes a value; NULL: it has none. */
	bool (
	    *parse)(const struct conf_key *k, const char *text, union conf_value *v, struct err *e);
	json_t *(*json)(const union conf_value *v);
	enum err_cause cause; /* of JSON of another kind */
};
const struct conf_type_ops *conf_type_ops(enum conf_type type);

/* Set e to "KEY: must be WHAT, got GOT" and return ERR_CONFIG. Text is quoted unless it is a
 * number. */
enum err_code conf_must_json(const struct conf_key *k, const char *what, const json_t *got,
    struct err *e);
bool conf_in_bounds(const struct conf_key *k, double x, const char *got, struct err *e);
/* Is text one of "a|b|c"? */
bool conf_among(const char *choices, const char *text);

/* Read a list's text (JSON, or separated by commas) as a JSON array; NULL and e if it is wrong. The
 * functions below read such an array into a value, and write it again. */
json_t *conf_list_parse(const struct conf_key *k, const char *text, struct err *e);
bool conf_strs_read(const struct conf_key *k, const json_t *v, const char *dir,
    union conf_value *out, struct err *e);
bool conf_hosts_read(const struct conf_key *k, const json_t *v, union conf_value *out,
    struct err *e);
bool conf_ints_read(const struct conf_key *k, const json_t *v, union conf_value *out,
    struct err *e);
json_t *conf_strs_json(const union conf_value *v);
json_t *conf_ints_json(const union conf_value *v);
void conf_strs_release(struct conf_strs *s);

#endif

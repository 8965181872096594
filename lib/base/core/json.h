/* SPDX-License-Identifier: ISC */
#ifndef CORE_JSON_H
#define CORE_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"

/* ---- making values from text ------------------------------------------------------------
 *
 * jansson returns NULL for a string or key that is not valid UTF-8, and json_pack then returns
 * NULL for the whole document: a text that a peer wrote, or that a fixed buffer cut, would make
 * an answer, an event or a state file disappear. These functions repair such a text instead
 * (core/utf8.h): every invalid byte and control character becomes U+FFFD. They never fail for
 * the sake of a text; for lack of memory they end the process.
 *
 * The names of jansson stand for them everywhere, so that no caller can choose the wrong one. */

/* A string; NULL for NULL, as json_string. */
json_t *json_of_text(const char *s);
json_t *json_of_bytes(const char *s, size_t n);
json_t *json_of_format(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* As json_pack, with the formats s (also s?), i, I, f, b, n, o, O (also o?, O?, o*, O*), {} and [].
 * A NULL without ? or * and a number that is not finite become null: a document is made in any
 * case. A format that does not exist is a bug of the caller and aborts. */
json_t *json_build(const char *fmt, ...);

/* As json_object_set_new: takes v over; -1 when v or o is NULL. */
int json_put(json_t *o, const char *key, json_t *v);

#ifndef JSON_OWN_NAMES
#define json_string                json_of_text
#define json_stringn               json_of_bytes
#define json_sprintf               json_of_format
#define json_pack                  json_build
#define json_object_set_new        json_put
#define json_object_set(o, key, v) json_put((o), (key), json_incref(v))
#endif

#define JSON_PEER_DEPTH 16

/* ---- reading ---- */

/* Parse one JSON value from text that a stranger may have written: at most max
 * bytes, at most 32 levels (checked before jansson recurses), duplicate keys
 * and trailing text refused. NULL and e on failure, with line and column. */
json_t *json_parse(const char *text, size_t n, size_t max, struct err *e);
/* As json_parse, with at most `depth` levels. A document from a peer is embedded in ours, which
 * others parse again, so it must be shallower than those: JSON_PEER_DEPTH. */
json_t *json_parse_to_depth(const char *text, size_t n, size_t max, int depth, struct err *e);
/* As json_parse, for a file of at most max bytes; errors begin with the path. */
json_t *json_parse_file(const char *path, size_t max, struct err *e);

/* Typed reads of a member. Absent: returns false, e->code stays ERR_OK, *out is unchanged. Wrong
 * type or out of range: returns false, and e says "path.key: must be ...". `path` names the object
 * ("job"; "" for the root). */
bool json_want_str(const json_t *o, const char *path, const char *key, const char **out,
    struct err *e);
bool json_want_int(const json_t *o, const char *path, const char *key, int64_t min, int64_t max,
    int64_t *out, struct err *e);
bool json_want_num(const json_t *o, const char *path, const char *key, double *out, struct err *e);
bool json_want_bool(const json_t *o, const char *path, const char *key, bool *out, struct err *e);
/* Reads a u64 that is written as a decimal string (ids above 2^53). False: the value is none. */
bool json_u64_value(const json_t *v, uint64_t *out);
/* A member that is such a string. */
bool json_want_u64s(const json_t *o, const char *path, const char *key, uint64_t *out,
    struct err *e);

/* Read with a default, for documents that this program has made and that are known to be
 * well-formed. The text of json_str is borrowed from the document. They never fail: a wrong type
 * counts as absent. */
const char *json_str(const json_t *o, const char *key, const char *deflt);
int64_t json_int(const json_t *o, const char *key, int64_t deflt);
double json_num(const json_t *o, const char *key, double deflt);
bool json_flag(const json_t *o, const char *key);
uint64_t json_u64s(const json_t *o, const char *key, uint64_t deflt);

/* Refuses members that are not in the NULL-ended list, with "did you mean". */
bool json_only(const json_t *o, const char *path, const char *const *keys, struct err *e);

/* New values: a u64 as a decimal string; a number, or null when it is not finite. */
json_t *json_of_u64(uint64_t v); /* string */
json_t *json_of_num(double v);   /* null when not finite */
/* {"v":1,"ts":...,"kind":kind}, to be completed: the beginning of every line of JSON output. */
json_t *json_event(const char *kind);
/* A new object with these three members, then those of `object`. A "ts" of the object replaces
 * ours: it is the time of its figures. */
json_t *json_event_with(const char *kind, const json_t *object);
/* Prints json_event_with() as one line to stdout, and flushes it. */
void json_print_event(const char *kind, const json_t *object);
/* Compact text as a new string; "null" for NULL. */
char *json_text(const json_t *v);

#endif

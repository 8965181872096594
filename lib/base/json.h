#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Parse one JSON value from text that a stranger may have written: at most max
 * bytes, at most 32 levels (checked before jansson recurses), duplicate keys
 * and trailing text refused.  NULL and e on failure, with line and column. */
json_t *json_parse(const char *text, size_t n, size_t max, struct err *e);
json_t *json_parse_file(const char *path, size_t max, struct err *e);

/* Typed reads of a member.  Absent: false, e->code stays ERR_OK, *out alone.
 * Of another type or out of range: false and e says "path.key: must be ...".
 * `path` names the object ("job"; "" for the root). */
bool json_want_str(const json_t *o, const char *path, const char *key, const char **out, struct err *e);
bool json_want_int(const json_t *o, const char *path, const char *key, int64_t min, int64_t max, int64_t *out, struct err *e);
bool json_want_num(const json_t *o, const char *path, const char *key, double *out, struct err *e);
bool json_want_bool(const json_t *o, const char *path, const char *key, bool *out, struct err *e);
/* u64 written as a decimal string (ids above 2^53). */
bool json_want_u64s(const json_t *o, const char *path, const char *key, uint64_t *out, struct err *e);

/* Reads with a default, for documents of our own that are known to be whole. */
const char *json_str(const json_t *o, const char *key, const char *deflt);
int64_t json_int(const json_t *o, const char *key, int64_t deflt);
double json_num(const json_t *o, const char *key, double deflt);
bool json_flag(const json_t *o, const char *key);
uint64_t json_u64s(const json_t *o, const char *key, uint64_t deflt);

/* Keep a member in the place of an older one; false: there is none, and the older one stays. */
bool json_keep(json_t **place, const json_t *o, const char *key);

/* Refuse members outside the NULL-ended list, with "did you mean". */
bool json_only(const json_t *o, const char *path, const char *const *keys, struct err *e);

json_t *json_of_u64(uint64_t v);               /* string */
json_t *json_of_num(double v);                 /* null when not finite */
/* {"v":1,"ts":...,"kind":kind} to be filled: the start of every output line. */
json_t *json_event(const char *kind);
/* Compact text in a fresh string (free it). */
char *json_text(const json_t *v);

#endif

#ifndef HTTP_ARGS_H
#define HTTP_ARGS_H

#include <stddef.h>

#include "base/err.h"

/* A query string ("since=4&pretty") taken apart. */
#define HTTP_ARGS_MAX 16
struct http_args {
	char *text;                     /* owned: the decoded strings */
	size_t n;
	const char *key[HTTP_ARGS_MAX], *value[HTTP_ARGS_MAX];
};

/* Percent escapes are decoded, "+" is a plus.  ERR_USAGE for a bad escape, an
 * escaped control byte, an empty or doubled key, more than HTTP_ARGS_MAX keys.
 * a must be zeroed or released. */
enum err_code http_args_parse(struct http_args *a, const char *query, struct err *e);
const char *http_args_get(const struct http_args *a, const char *key);
void http_args_release(struct http_args *a);

#endif

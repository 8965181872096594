/* SPDX-License-Identifier: ISC */
#ifndef HTTP_ARGS_H
#define HTTP_ARGS_H

#include <stddef.h>

#include "core/err.h"

/* A parsed query string ("since=4&pretty"). Pure; no locks. */
#define HTTP_ARGS_MAX 16
struct http_args {
	char *text; /* owned: the decoded strings */
	size_t n;
	const char *key[HTTP_ARGS_MAX], *value[HTTP_ARGS_MAX];
};

/* Percent escapes are decoded; "+" stays a plus. ERR_USAGE for a bad escape, an escaped control
 * byte, an empty or repeated key, or more than HTTP_ARGS_MAX keys. a must be zeroed or released. */
enum err_code http_args_parse(struct http_args *a, const char *query, struct err *e);
/* The value of a key, "" for a key without "=", or NULL. */
const char *http_args_get(const struct http_args *a, const char *key);
/* Free the text and zero a. */
void http_args_release(struct http_args *a);

#endif

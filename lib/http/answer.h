#ifndef HTTP_ANSWER_H
#define HTTP_ANSWER_H

#include <jansson.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

/* What a handler says; the server takes over json and text. */
struct http_answer {
	int status;                     /* 0 means 200 */
	json_t *json;                   /* compact, or indented when the query has "pretty" */
	struct buf text;                /* the body when json is NULL */
	const char *content_type;       /* of text; a constant; NULL: text/plain */
	const void *fixed;              /* a body that is never freed, in the place of text; NULL: none */
	size_t fixed_len;
	const char *encoding;           /* Content-Encoding of fixed; a constant; NULL: none */
	const char *csp;                /* a constant; replaces default-src 'none' for a page */
	int64_t park_ms;                /* with HTTP_PARK: from the first call on */
};

/* The HTTP status by which an error is told. */
int http_status_of(enum err_code code);

/* Make the answer {"error":{"code":..,"message":..,"hint":..}} with the status
 * of code; hint may be NULL.  Drops what the answer held.  Bytes that are not
 * UTF-8 are escaped. */
void http_fail(struct http_answer *a, enum err_code code, const char *hint, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* The same from a filled err. */
void http_fail_err(struct http_answer *a, const struct err *e);

void http_answer_release(struct http_answer *a);

#endif

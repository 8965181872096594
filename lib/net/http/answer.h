/* SPDX-License-Identifier: ISC */
#ifndef HTTP_ANSWER_H
#define HTTP_ANSWER_H

#include <stdint.h>

#include "core/buf.h"
#include "core/err.h"
#include "core/json.h"

/* The answer that a route's handler fills in. The server owns json and text afterwards. No
 * threads or locks: an answer belongs to the thread that runs the handler. */
struct http_answer {
	int status;      /* HTTP status; 0 means 200 */
	json_t *json;    /* body; printed compactly, or indented when the query has "pretty" */
	struct buf text; /* the body when json is NULL */
	const char *content_type; /* of text; a constant; NULL: text/plain */
	const void *fixed;        /* a body that is never freed, instead of text; NULL: none */
	size_t fixed_len;
	const char *encoding; /* Content-Encoding of fixed; a constant; NULL: none */
	const char *csp;      /* Content-Security-Policy, a constant; NULL: default-src 'none' */
	int64_t park_ms;      /* with HTTP_PARK: ms from the handler's first call on */
};

/* Make the answer {"error":{"code":..,"message":..,"hint":..}} with the status of code; hint may
 * be NULL. Releases what the answer held. Bytes that are not UTF-8 are escaped. */
void http_fail(struct http_answer *a, enum err_code code, const char *hint, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* Like http_fail, from a filled err; the answer names its cause if it is known. */
void http_fail_err(struct http_answer *a, const struct err *e, const char *hint);

/* Release json and text, and zero the answer. */
void http_answer_release(struct http_answer *a);

#endif

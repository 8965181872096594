/* SPDX-License-Identifier: ISC */
#include "http/answer.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/json.h"
#include "core/utf8.h"

/* The HTTP status of an error code. */
static int status_of_error(enum err_code code)
{
	switch (code) {
	case ERR_OK:
		return 200;
	case ERR_USAGE:
	case ERR_CONFIG:
	case ERR_FORMAT:
	case ERR_PROTO:
	case ERR_NONFINITE:
		return 400;
	case ERR_AUTH:
		return 401;
	case ERR_FORBIDDEN:
		return 403;
	case ERR_NOTFOUND:
		return 404;
	case ERR_EXISTS:
	case ERR_FENCED:
	case ERR_STALE:
		return 409;
	case ERR_LIMIT:
		return 429;
	case ERR_UNSUPPORTED:
		return 501;
	case ERR_UNREACH:
	case ERR_CLOSED:
		return 502;
	case ERR_NOTREADY:
	case ERR_STOPPED:
	case ERR_NOMEM:
		return 503;
	case ERR_TIMEOUT:
		return 504;
	case ERR_FAILED:
	case ERR_IO:
		break;
	}
	return 500;
}

void http_answer_release(struct http_answer *a)
{
	json_decref(a->json);
	buf_release(&a->text);
	memset(a, 0, sizeof(*a));
}

/* Replaces the contents of the answer by an error object. msg and hint are copied, but must not
 * lie in the answer itself, which is released first. hint may be NULL. */
static void fail_with(struct http_answer *a, enum err_code code, enum err_cause cause,
    const char *msg, const char *hint)
{
	json_t *error = json_object();

	http_answer_release(a);
	json_object_set_new(error, "code", json_string(err_name(code)));
	json_object_set_new(error, "message", json_string(msg));
	json_object_set_new(error, "hint", json_string(hint != NULL ? hint : ""));
	if (cause)
		json_object_set_new(error, "cause", json_string(err_cause_name(cause)));
	a->status = status_of_error(code);
	a->json = json_object();
	json_object_set_new(a->json, "error", error);
}

void http_fail(struct http_answer *a, enum err_code code, const char *hint, const char *fmt, ...)
{
	char msg[600];
	va_list ap;

	va_start(ap, fmt);
	utf8_vprintf(msg, sizeof(msg), fmt, ap);
	va_end(ap);
	fail_with(a, code, CAUSE_UNKNOWN, msg, hint);
}

void http_fail_err(struct http_answer *a, const struct err *e, const char *hint)
{
	fail_with(a, e->code, e->cause, e->msg[0] != '\0' ? e->msg : err_text(e->code), hint);
}

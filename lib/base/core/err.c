/* SPDX-License-Identifier: ISC */
#include "core/err.h"

#include <errno.h>
#include <stdarg.h>

#include "core/utf8.h"

static const struct {
	const char *name, *text;
	int exit_code;
} rows[] = {
#define ERR(id, name, number, exit_code, text) [number] = { name, text, exit_code },
#include "core/err.def"
#undef ERR
};
#define ROWS (sizeof rows / sizeof *rows)

/* When a message is too long, at least this much of its end is kept, so that a long path does not
 * displace the reason. */
#define SUFFIX_KEPT 128

/* The arguments may point into e->msg, so the text is made in another buffer first. */
__attribute__((format(printf, 4, 0))) static void fill(struct err *e, enum err_code code,
    const char *suffix, const char *fmt, va_list ap)
{
	char text[sizeof e->msg];
	size_t n, left, kept = strlen(suffix) < SUFFIX_KEPT ? strlen(suffix) : SUFFIX_KEPT;

	utf8_vprintf(text, sizeof text - kept, fmt, ap);
	n = strlen(text);
	left = sizeof e->msg - 1 - n;
	e->code = code;
	memcpy(e->msg, text, n + 1);
	left = strlen(suffix) < left ? strlen(suffix) : utf8_whole(suffix, left);
	memcpy(e->msg + n, suffix, left);
	e->msg[n + left] = 0;
}

enum err_code err_set(struct err *e, enum err_code code, const char *fmt, ...)
{
	va_list ap;

	if (!e)
		return code;
	va_start(ap, fmt);
	fill(e, code, "", fmt, ap);
	va_end(ap);
	return code;
}

enum err_code err_sys(struct err *e, enum err_code code, const char *fmt, ...)
{
	const char *text = strerrordesc_np(errno);
	char why[SUFFIX_KEPT];
	va_list ap;

	if (!e)
		return code;
	snprintf(why, sizeof why, ": %s", text ? text : "unknown error");
	va_start(ap, fmt);
	fill(e, code, why, fmt, ap);
	va_end(ap);
	return code;
}

enum err_code err_prefix(struct err *e, const char *fmt, ...)
{
	char rest[sizeof e->msg + 2];
	va_list ap;

	if (!e)
		return ERR_FAILED;
	snprintf(rest, sizeof rest, ": %s", e->msg);
	va_start(ap, fmt);
	fill(e, e->code, rest, fmt, ap);
	va_end(ap);
	return e->code;
}

int err_exit_code(enum err_code code)
{
	return (size_t)code < ROWS ? rows[code].exit_code : 1;
}

const char *err_text(enum err_code code)
{
	return (size_t)code < ROWS ? rows[code].text : "failed";
}

const char *err_name(enum err_code code)
{
	return (size_t)code < ROWS ? rows[code].name : "failed";
}

enum err_code err_by_name(const char *name)
{
	for (size_t i = 0; i < ROWS; i++)
		if (strcmp(name, err_name((enum err_code)i)) == 0)
			return (enum err_code)i;
	return ERR_FAILED;
}

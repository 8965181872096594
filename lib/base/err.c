#include "base/err.h"

#include <errno.h>
#include <stdarg.h>

static const struct {
	const char *name, *text;
	int exit_code;
} rows[] = {
#define ERR(id, name, number, exit_code, text) [number] = { name, text, exit_code },
#include "base/err.def"
#undef ERR
};
#define ROWS (sizeof rows / sizeof *rows)

/* Of what follows a text that is too long, so much is kept: the reason must not
 * be lost behind a long path. */
#define SUFFIX_KEPT 128

/* The arguments may point into e->msg itself, so the text is made aside. */
__attribute__((format(printf, 4, 0))) static void
fill(struct err *e, enum err_code code, const char *suffix, const char *fmt, va_list ap)
{
	char text[sizeof e->msg];
	size_t n, left, kept = strlen(suffix) < SUFFIX_KEPT ? strlen(suffix) : SUFFIX_KEPT;

	vsnprintf(text, sizeof text - kept, fmt, ap);
	n = strlen(text);
	left = sizeof e->msg - 1 - n;
	e->code = code;
	memcpy(e->msg, text, n + 1);
	if (strlen(suffix) < left)
		left = strlen(suffix);
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

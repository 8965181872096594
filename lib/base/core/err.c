/* SPDX-License-Identifier: ISC */
#include "core/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/utf8.h"

static const char *const cause_names[] = {
#define CAUSE(id, name) name,
#include "core/cause.def"
#undef CAUSE
};
#define CAUSES (sizeof cause_names / sizeof *cause_names)

static const struct {
	const char *name, *text;
	int exit_code;
} rows[] = {
#define ERR(id, name, number, exit_code, text) [number] = { name, text, exit_code },
#include "core/err.def"
#undef ERR
};
#define ROWS (sizeof rows / sizeof *rows)

/* The cause that most failures of this code have. */
static enum err_cause usual_cause(enum err_code code)
{
	switch (code) {
	case ERR_UNREACH:
	case ERR_CLOSED:
		return CAUSE_UNREACHABLE;
	case ERR_NOMEM:
		return CAUSE_MEMORY;
	case ERR_NONFINITE:
		return CAUSE_LOSS;
	case ERR_FENCED:
		return CAUSE_FENCED;
	default:
		return CAUSE_UNKNOWN;
	}
}

static enum err_cause cause_of_errno(int number, enum err_code code)
{
	switch (number) {
	case ENOSPC:
		return CAUSE_NO_SPACE;
	case EDQUOT:
		return CAUSE_DISK_QUOTA;
	case EROFS:
		return CAUSE_READ_ONLY;
	case EIO:
		return CAUSE_DISK_FAILS;
	case EMFILE:
	case ENFILE:
		return CAUSE_DESCRIPTORS;
	case EADDRINUSE:
		return CAUSE_PORT_TAKEN;
	case EADDRNOTAVAIL:
		return CAUSE_ADDRESS;
	case ENOMEM:
		return CAUSE_MEMORY;
	default:
		return usual_cause(code);
	}
}

/* When a message is too long, at least this much of its end is kept, so that a long path does not
 * displace the reason. */
#define SUFFIX_KEPT 128

/* The arguments may point into e->msg, so the text is made in another buffer first. */
__attribute__((format(printf, 5, 0))) static void fill(struct err *e, enum err_code code,
    enum err_cause cause, const char *suffix, const char *fmt, va_list ap)
{
	char text[sizeof e->msg];
	size_t n, left, kept = strlen(suffix) < SUFFIX_KEPT ? strlen(suffix) : SUFFIX_KEPT;

	utf8_vprintf(text, sizeof text - kept, fmt, ap);
	n = strlen(text);
	left = sizeof e->msg - 1 - n;
	e->code = code;
	e->cause = cause;
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
	fill(e, code, usual_cause(code), "", fmt, ap);
	va_end(ap);
	return code;
}

enum err_code err_because(struct err *e, enum err_code code, enum err_cause cause, const char *fmt,
    ...)
{
	va_list ap;

	if (!e)
		return code;
	va_start(ap, fmt);
	fill(e, code, cause, "", fmt, ap);
	va_end(ap);
	return code;
}

enum err_code err_blame(struct err *e, enum err_cause cause)
{
	if (!e)
		return ERR_FAILED;
	if (e->cause == CAUSE_UNKNOWN)
		e->cause = cause;
	return e->code;
}

enum err_code err_sys(struct err *e, enum err_code code, const char *fmt, ...)
{
	enum err_cause cause = cause_of_errno(errno, code);
	const char *text = strerrordesc_np(errno);
	char why[SUFFIX_KEPT];
	va_list ap;

	if (!e)
		return code;
	snprintf(why, sizeof why, ": %s", text ? text : "unknown error");
	va_start(ap, fmt);
	fill(e, code, cause, why, fmt, ap);
	va_end(ap);
	return code;
}

enum err_code err_pass(struct err *e, const struct err *from)
{
	if (e)
		*e = *from;
	return from->code;
}

enum err_code err_prefix(struct err *e, const char *fmt, ...)
{
	char rest[sizeof e->msg + 2];
	va_list ap;

	if (!e)
		return ERR_FAILED;
	snprintf(rest, sizeof rest, ": %s", e->msg);
	va_start(ap, fmt);
	fill(e, e->code, e->cause, rest, fmt, ap);
	va_end(ap);
	return e->code;
}

/* The process that reads the logs of its children, by its number. */
#define READER "PSKIT_LOGS_READ_BY"

void err_tag_children(void)
{
	char number[16];

	snprintf(number, sizeof number, "%d", (int)getpid());
	setenv(READER, number, 1);
}

int err_report(const char *program, const struct err *e)
{
	const char *reader = getenv(READER), *cause = err_cause_name(e->cause);
	char self[16];

	snprintf(self, sizeof self, "%d", (int)getpid());
	if (*cause && reader && strcmp(reader, self) != 0)
		fprintf(stderr, "%s[%s]: %s\n", program, cause, e->msg);
	else
		fprintf(stderr, "%s: %s\n", program, e->msg);
	return err_exit_code(e->code);
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

const char *err_cause_name(enum err_cause cause)
{
	return (size_t)cause < CAUSES ? cause_names[cause] : "";
}

enum err_cause err_cause_by_name(const char *name)
{
	for (size_t i = 0; i < CAUSES; i++)
		if (strcmp(name, cause_names[i]) == 0)
			return (enum err_cause)i;
	return CAUSE_UNKNOWN;
}

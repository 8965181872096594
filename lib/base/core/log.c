/* SPDX-License-Identifier: ISC */
#include "core/log.h"

#include <errno.h>
#include <stdarg.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/utf8.h"

static const char *const level_name[] = { "error", "warn", "info", "debug" };

void log_init(struct log *l, const char *name, int fd, enum log_level level)
{
	atomic_init(&l->level, level);
	l->fd = fd;
	snprintf(l->name, sizeof l->name, "%s", name);
	l->sink = NULL;
}

/* errno survives, since callers log in the middle of handling a failure. A line goes out by one
 * write(), so that lines of several threads and processes do not mix in a file that was opened for
 * appending. A line of more than 1200 bytes is cut. */
__attribute__((format(printf, 4, 0))) static void write_line(struct log *l, enum log_level level,
    const char *level_text, const char *fmt, va_list ap)
{
	char line[1200], stamp[32];
	int saved = errno;
	size_t n;

	if ((int)level > atomic_load_explicit(&l->level, memory_order_relaxed))
		return;
	clock_stamp(stamp);
	n = l->sink ? 0
	            : (size_t)snprintf(line, sizeof line, "%s %s %s ", stamp, l->name, level_text);
	utf8_vprintf(line + n, sizeof line - n - 1, fmt, ap);
	/* One event is one line: newlines in quoted names and messages are replaced. */
	for (n = 0; line[n]; n++)
		if ((unsigned char)line[n] < 0x20 || line[n] == 0x7f)
			line[n] = '?';
	if (l->sink) {
		l->sink(l->ctx, (int)level, line);
		errno = saved;
		return;
	}
	line[n++] = '\n';
	/* Failing to write a log is not a reason to stop. */
	while (write(l->fd, line, n) < 0 && errno == EINTR)
		;
	errno = saved;
}

void log_at(struct log *l, enum log_level level, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	write_line(l, level, level_name[level], fmt, ap);
	va_end(ap);
}

__attribute__((format(printf, 3, 4))) static void write_error(struct log *l, const char *level_text,
    const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	write_line(l, LOG_LEVEL_ERROR, level_text, fmt, ap);
	va_end(ap);
}

void log_err(struct log *l, const struct err *e)
{
	const char *cause = err_cause_name(e->cause);
	char level[32];

	snprintf(level, sizeof level, *cause ? "error[%s]" : "error", cause);
	write_error(l, level, "%s", e->msg);
}

uint32_t log_allowed(struct log_limit *limit, uint32_t burst)
{
	uint32_t used = atomic_load(&limit->tokens);
	int64_t now = clock_now(), next;

	while (used < burst) {
		/* Stored before the token is taken, so that a thread which finds none waits. */
		atomic_store(&limit->next, now + NSEC_PER_SEC);
		if (atomic_compare_exchange_weak(&limit->tokens, &used, used + 1))
			return 1;
	}
	next = atomic_load(&limit->next);
	if (now >= next && atomic_compare_exchange_strong(&limit->next, &next, now + NSEC_PER_SEC))
		return atomic_exchange(&limit->swallowed, 0) + 1;
	atomic_fetch_add(&limit->swallowed, 1);
	return 0;
}

int log_level_parse(const char *s)
{
	for (int i = 0; i < 4; i++)
		if (strcmp(s, level_name[i]) == 0)
			return i;
	return -1;
}

void log_follow_level(struct log *l, char seen[static LOG_LEVEL_TEXT], const char *level)
{
	if (*seen && strcmp(seen, level) != 0 && log_level_parse(level) >= 0)
		atomic_store(&l->level, log_level_parse(level));
	snprintf(seen, LOG_LEVEL_TEXT, "%s", level);
}

void log_escape(char *out, size_t outlen, const void *p, size_t n)
{
	const uint8_t *b = p;
	size_t at = 0;

	for (size_t i = 0; i < n && at + 5 <= outlen; i++) {
		if (b[i] >= 0x20 && b[i] < 0x7f && b[i] != '\\')
			out[at++] = (char)b[i];
		else
			at += (size_t)snprintf(out + at, 5, "\\x%02x", b[i]);
	}
	if (outlen)
		out[at] = 0;
}

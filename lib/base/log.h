#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

/* Where a process talks: one line an event, "stamp name level text", by one
 * write(2) to fd; or, with a sink, by a call of that, from any thread, with the text alone.
 * Any thread may log.  level may be changed at any time. */
struct log {
	_Atomic int level;
	int fd;
	char name[48];
	void (*sink)(void *ctx, int level, const char *text);
	void *ctx;
};

void log_init(struct log *l, const char *name, int fd, enum log_level level);
void log_at(struct log *l, enum log_level level, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
#define log_error(l, ...) log_at(l, LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warn(l, ...) log_at(l, LOG_LEVEL_WARN, __VA_ARGS__)
#define log_info(l, ...) log_at(l, LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(l, ...) log_at(l, LOG_LEVEL_DEBUG, __VA_ARGS__)

/* For lines that a stranger can cause: at most `burst` lines, then one a
 * second, with the number swallowed in between.  Returns the number of
 * suppressed lines so far plus 1 when this one may be written, else 0. */
struct log_limit {
	_Atomic int64_t next;
	_Atomic uint32_t tokens, swallowed;
};
uint32_t log_allowed(struct log_limit *limit, uint32_t burst);

/* "error", "warn", "info", "debug"; -1 when unknown. */
int log_level_parse(const char *s);
const char *log_level_name(enum log_level level);

/* Bytes from outside as printable text: anything else becomes \xNN. */
void log_escape(char *out, size_t outlen, const void *p, size_t n);

#endif

/* SPDX-License-Identifier: ISC */
#ifndef CORE_LOG_H
#define CORE_LOG_H

/* Logging, and making foreign text printable for it. */

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };
#define LOG_LEVEL_TEXT 16

/* A process's log: one line an event, "stamp name level text", written by one write(2) to fd; or,
 * if there is a sink, one call of it, from any thread, with the text alone. Any thread may log.
 * level may be changed at any time; the other fields only before threads use it. */
struct log {
	_Atomic int level;
	int fd;
	char name[48];
	void (*sink)(void *ctx, int level, const char *text);
	void *ctx;
};

/* Logs to fd, which stays the caller's; `name` appears in each line and is copied. */
void log_init(struct log *l, const char *name, int fd, enum log_level level);
/* Logs a line if the level allows; use the macros. */
void log_at(struct log *l, enum log_level level, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
#define log_error(l, ...) log_at(l, LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warn(l, ...)  log_at(l, LOG_LEVEL_WARN, __VA_ARGS__)
#define log_info(l, ...)  log_at(l, LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(l, ...) log_at(l, LOG_LEVEL_DEBUG, __VA_ARGS__)

/* Logs e->msg as an error; the level is "error[cause]" if the cause is known (core/cause.def). */
void log_err(struct log *l, const struct err *e);

/* Limits lines that strangers can cause: at most `burst` lines, then one a second. Returns 0 when
 * this line must not be written, else 1 plus the number of lines suppressed before it. */
struct log_limit {
	_Atomic int64_t next;
	_Atomic uint32_t tokens, swallowed;
};
uint32_t log_allowed(struct log_limit *limit, uint32_t burst);

/* "error", "warn", "info", "debug"; -1 when unknown. */
int log_level_parse(const char *s);
/* Follows a live setting of the level. Call it with each text of the setting: one that differs from
 * the last sets the level. The first one does not, because a process is started with its level, nor
 * does an unknown one. seen: the last text, "" at first; it belongs to the caller, who serialises
 * the calls. */
void log_follow_level(struct log *l, char seen[static LOG_LEVEL_TEXT], const char *level);

/* Makes bytes from outside printable: others become \xNN. */
void log_escape(char *out, size_t outlen, const void *p, size_t n);

#endif

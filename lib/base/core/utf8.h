/* SPDX-License-Identifier: ISC */
#ifndef CORE_UTF8_H
#define CORE_UTF8_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include "core/buf.h"

/* Texts that strangers wrote: names, paths, messages of peers. They may hold any bytes, and a
 * fixed buffer may cut them anywhere. JSON, Prometheus and HTML accept valid UTF-8 only, so
 * every text passes through here on its way there. No function here keeps state. */

/* The length of the character that the n bytes at s begin with: 1 to 4, or 0 when they do not
 * begin with a complete, valid character (RFC 3629: no surrogates, no overlong forms). */
size_t utf8_step(const char *s, size_t n);

/* How many of the first n bytes remain when a character that is incomplete at their end is left
 * out. Bytes that are not UTF-8 at all are kept. */
size_t utf8_whole(const char *s, size_t n);

/* All n bytes are valid UTF-8 without control characters other than tab, line feed and carriage
 * return. */
bool utf8_is_clean(const char *s, size_t n);

/* Append the text to out; each byte or control character that is not clean becomes U+FFFD. */
void utf8_repair(struct buf *out, const char *s, size_t n);

/* As snprintf and vsnprintf, but the text ends with a complete character, also where the size or
 * the precision of its last argument cuts it. */
void utf8_printf(char *out, size_t size, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void utf8_vprintf(char *out, size_t size, const char *fmt, va_list ap)
    __attribute__((format(printf, 3, 0)));

#endif

/* SPDX-License-Identifier: ISC */
#include "core/utf8.h"

#include <stdio.h>
#include <string.h>

#define REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

/* The length that the first byte announces; 0 when no character begins with it. */
static size_t announced_length(unsigned char first)
{
	if (first < 0x80)
		return 1;
	if (first >= 0xc2 && first < 0xe0)
		return 2;
	if (first >= 0xe0 && first < 0xf0)
		return 3;
	return first >= 0xf0 && first < 0xf5 ? 4 : 0;
}

/* Do the existing bytes continue the character that s begins? The second byte has narrower bounds
 * after some first bytes, which exclude overlong forms, surrogates and characters above
 * U+10FFFF. */
static bool is_continued(const unsigned char *s, size_t n)
{
	unsigned char low = 0x80, high = 0xbf;

	if (s[0] == 0xe0)
		low = 0xa0;
	else if (s[0] == 0xed)
		high = 0x9f;
	else if (s[0] == 0xf0)
		low = 0x90;
	else if (s[0] == 0xf4)
		high = 0x8f;
	for (size_t i = 1; i < n; i++) {
		if (s[i] < low || s[i] > high)
			return false;
		low = 0x80;
		high = 0xbf;
	}
	return true;
}

size_t utf8_step(const char *s, size_t n)
{
	size_t length = n ? announced_length((unsigned char)*s) : 0;

	return length && length <= n && is_continued((const unsigned char *)s, length) ? length : 0;
}

size_t utf8_whole(const char *s, size_t n)
{
	for (size_t back = 1; back <= 3 && back <= n; back++) {
		size_t length = announced_length((unsigned char)s[n - back]);

		if (length > back && is_continued((const unsigned char *)s + n - back, back))
			return n - back;
		if (length)
			break;
	}
	return n;
}

/* C0 without tab, line feed and carriage return, DEL, and C1 (U+0080 to U+009F). */
static bool is_control(const char *s, size_t length)
{
	unsigned char c = (unsigned char)*s;

	if (length == 1)
		return (c < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == 0x7f;
	return length == 2 && c == 0xc2 && (unsigned char)s[1] < 0xa0;
}

bool utf8_is_clean(const char *s, size_t n)
{
	size_t length;

	for (; n; s += length, n -= length) {
		length = utf8_step(s, n);
		if (!length || is_control(s, length))
			return false;
	}
	return true;
}

void utf8_repair(struct buf *out, const char *s, size_t n)
{
	while (n) {
		size_t length = utf8_step(s, n);

		if (length && !is_control(s, length))
			buf_append(out, s, length);
		else
			buf_puts(out, REPLACEMENT);
		length = length ? length : 1;
		s += length;
		n -= length;
	}
}

void utf8_vprintf(char *out, size_t size, const char *fmt, va_list ap)
{
	/* The text may also end in an argument that a precision has cut. */
	if (size && vsnprintf(out, size, fmt, ap) >= 0)
		out[utf8_whole(out, strlen(out))] = 0;
}

void utf8_printf(char *out, size_t size, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	utf8_vprintf(out, size, fmt, ap);
	va_end(ap);
}

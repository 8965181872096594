/* SPDX-License-Identifier: ISC */
#include "core/utf8_bytes.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "core/buf.h"
#include "core/mem.h"
#include "core/utf8.h"

/* U+10FF00 to U+10FFFF are F4 8F BC 80 to F4 8F BF BF: the last two bytes have the escaped one. */
#define ESCAPE       "\xf4\x8f"
#define ESCAPE_BYTES 4u

/* Is an escape of a byte at s, which has at least the bytes that are compared? */
static bool is_escape(const char *s)
{
	const uint8_t *p = (const uint8_t *)s;

	return strncmp(s, ESCAPE, 2) == 0 && p[2] >= 0xbc && p[2] <= 0xbf && p[3] >= 0x80 &&
	    p[3] <= 0xbf;
}

char *utf8_escape_bytes(const char *text)
{
	struct buf out = BUF_INIT;
	size_t n = text ? strlen(text) : 0, length;

	if (!text)
		return NULL;
	for (size_t i = 0; i < n; i += length) {
		uint8_t byte = (uint8_t)text[i];
		char escape[ESCAPE_BYTES] = { ESCAPE[0], ESCAPE[1], (char)(0xbc + (byte >> 6)),
			(char)(0x80 | (byte & 0x3f)) };

		length = utf8_step(text + i, n - i);
		if (length && utf8_is_clean(text + i, length) && !is_escape(text + i)) {
			buf_append(&out, text + i, length);
			continue;
		}
		length = 1;
		buf_append(&out, escape, sizeof escape);
	}
	buf_append(&out, "", 1);
	return (char *)out.data;
}

char *utf8_unescape_bytes(const char *text)
{
	char *out = text ? mem_strdup(text) : NULL, *to = out;

	if (!out || !strstr(out, ESCAPE))
		return out;
	for (const char *p = text; *p; to++) {
		if (is_escape(p)) {
			*to = (char)(((uint8_t)p[2] - 0xbc) << 6 | ((uint8_t)p[3] & 0x3f));
			p += ESCAPE_BYTES;
		} else {
			*to = *p++;
		}
	}
	*to = '\0';
	return out;
}

/* SPDX-License-Identifier: ISC */
#ifndef CORE_UTF8_BYTES_H
#define CORE_UTF8_BYTES_H

/* Names that must keep their bytes in JSON, whatever encoding they have: names of columns,
 * categories, classes and words. A byte that is not part of valid UTF-8, or a control character, is
 * written as the character U+10FF00 + byte of the last private plane, so that different names stay
 * different and come back as they were. A character of this range is written as its four bytes.
 * Valid names stay as they are. */

/* The text as valid UTF-8 without control characters. A new string; NULL for NULL. */
char *utf8_escape_bytes(const char *text);
/* The text that utf8_escape_bytes was given. A new string; NULL for NULL. */
char *utf8_unescape_bytes(const char *text);

#endif

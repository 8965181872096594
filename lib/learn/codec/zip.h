/* SPDX-License-Identifier: ISC */
#ifndef CODEC_ZIP_H
#define CODEC_ZIP_H

#include <stddef.h>
#include <stdint.h>

/* zstd for lists of numbers. A struct zip holds zstd's memory, for one thread at a time. */
struct zip;

/* Never NULL: without memory the process aborts. zstd's own memory is allocated when it is first
 * used. zip_free(NULL) does nothing. */
struct zip *zip_new(void);
void zip_free(struct zip *z);
/* Compresses len bytes in place and returns the new length; 0: it would not save enough, and they
 * are unchanged. z may be NULL. */
size_t zip_shrink(struct zip *z, uint8_t *bytes, size_t len);
/* Decompresses; the result is borrowed until the next call and has *got bytes, at most `most`.
 * NULL: not compressed data, or longer, or no memory. */
const uint8_t *zip_expand(struct zip *z, const uint8_t *p, size_t len, size_t most, size_t *got);

#endif

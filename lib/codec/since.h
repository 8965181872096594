#ifndef CODEC_SINCE_H
#define CODEC_SINCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "codec/zip.h"

/* As of which version each of n things is had: u64 the newest of them, u8 1 when what
 * follows is compressed by zstd, else 0; then a byte for each: 0 not had, else 1 + b,
 * where its age, newest less it, is below 2^b.  So what is read is up to twice as old as
 * what was written, and never newer: whoever goes by it tells too much, if anything. */

/* Not had, and above every version. */
#define SINCE_NEVER UINT64_MAX

/* Bytes that n of them take at most. */
size_t since_bound(size_t n);
/* How many bytes.  z: NULL to leave them plain. */
size_t since_put(struct zip *z, const uint64_t *version, size_t n, uint8_t *out);
/* False: these len bytes are not n of them, whole and well-formed. */
bool since_get(struct zip *z, const uint8_t *p, size_t len, size_t n, uint64_t *version);

#endif

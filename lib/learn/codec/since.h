/* SPDX-License-Identifier: ISC */
#ifndef CODEC_SINCE_H
#define CODEC_SINCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "codec/zip.h"

/* Encodes, for each of n things, which version of it a client has, approximately. u64 the newest
 * version, u8 1 when the rest is compressed by zstd, else 0; then a byte for each: 0 for none, else
 * 1 + b, where its age (newest minus version) is below 2^b. A decoded age is up to twice the real
 * one and never smaller, so a server that uses it sends too much rather than too little. */

/* The client does not have it; above every version. */
#define SINCE_NEVER UINT64_MAX

/* Most bytes that n of them may take. */
size_t since_bound(size_t n);
/* Encodes; returns the number of bytes. z NULL: without compression. */
size_t since_put(struct zip *z, const uint64_t *version, size_t n, uint8_t *out);
/* Decodes. False: the bytes are not n of them, complete and well-formed. */
bool since_get(struct zip *z, const uint8_t *p, size_t len, size_t n, uint64_t *version);

#endif

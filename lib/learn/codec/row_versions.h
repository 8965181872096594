/* SPDX-License-Identifier: ISC */
#ifndef CODEC_ROW_VERSIONS_H
#define CODEC_ROW_VERSIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "codec/zip.h"

/* Encodes, for each of n rows, which version of it a client has, approximately. u64 the newest
 * version, u8 1 when the rest is compressed by zstd, else 0; then a byte for each: 0 for none, else
 * 1 + b, where its age (newest minus version) is below 2^b. A decoded age is up to twice the real
 * one and never smaller, so a server that uses it sends too much rather than too little. */

/* The client does not have the row; greater than every version. */
#define ROW_VERSION_NONE UINT64_MAX

/* The most bytes that the versions of n rows take. */
size_t row_versions_bound(size_t n);
/* Encodes; returns the number of bytes. z NULL: without compression. */
size_t row_versions_put(struct zip *z, const uint64_t *version, size_t n, uint8_t *out);
/* Decodes. False: the bytes are not the versions of n rows, complete and well-formed. */
bool row_versions_get(struct zip *z, const uint8_t *p, size_t len, size_t n, uint64_t *version);

#endif

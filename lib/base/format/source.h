/* SPDX-License-Identifier: ISC */
#ifndef FORMAT_SOURCE_H
#define FORMAT_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"

/* The bytes of a file, of standard input or of memory. When their first bytes are those of gzip
 * (any number of members) or zstd (any number of frames), they are decompressed. One thread at a
 * time. */
struct source;

/* How a file is compressed that begins with these n bytes; four of them are enough. */
enum source_packing { SOURCE_PLAIN, SOURCE_GZIP, SOURCE_ZSTD };
enum source_packing source_packing_of(const uint8_t *p, size_t n);

/* path "-" is standard input, which is not closed at the end. */
enum err_code source_open(const char *path, struct source **out, struct err *e);
/* Reads the n bytes at p, which must outlive the source. */
enum err_code source_memory(const void *p, size_t n, const char *name, struct source **out,
    struct err *e);
/* Reads bytes from a callback: read returns at least one and at most n bytes, 0 at the end. close
 * is called once, also when source_from fails. */
struct source_reader {
	void *ctx;
	uint64_t size; /* bytes that will be read; 0: not known */
	bool plain;    /* the bytes are never decompressed, whatever the first ones look like */
	enum err_code (*read)(void *ctx, void *p, size_t n, size_t *got, struct err *e);
	void (*close)(void *ctx);
};
enum err_code source_from(const struct source_reader *r, const char *name, struct source **out,
    struct err *e);
void source_close(struct source *s);

/* Reads at least one and at most n bytes; *got 0 is the end. ERR_FORMAT when compressed data are
 * truncated or corrupt, or a regular file has become shorter since it was opened. */
enum err_code source_read(struct source *s, void *p, size_t n, size_t *got, struct err *e);

/* The number of bytes that will be read, where it is known and they are not compressed; else 0. */
uint64_t source_plain_size(const struct source *s);

/* The fraction of the bytes that has been read, where their number is known; else 0. */
double source_progress(const struct source *s);

/* The path, or "standard input". */
const char *source_name(const struct source *s);

#endif

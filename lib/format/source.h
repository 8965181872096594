#ifndef FORMAT_SOURCE_H
#define FORMAT_SOURCE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* The bytes of a file, of standard input or of memory, decompressed on the way
 * when their first bytes are those of gzip (any number of members) or zstd
 * (any number of frames).  One thread at a time. */
struct source;

/* path "-" is standard input, which is not closed at the end. */
enum err_code source_open(const char *path, struct source **out, struct err *e);
/* The n bytes at p, which must outlive the source. */
enum err_code source_memory(const void *p, size_t n, const char *name, struct source **out,
                            struct err *e);
/* Bytes that come from elsewhere: read gives at least one and at most n, 0 at the end.  close is
 * called once, also when this fails. */
struct source_reader {
	void *ctx;
	enum err_code (*read)(void *ctx, void *p, size_t n, size_t *got, struct err *e);
	void (*close)(void *ctx);
};
enum err_code source_from(const struct source_reader *r, const char *name, struct source **out, struct err *e);
void source_close(struct source *s);

/* At least one and at most n bytes; *got 0 is the end.  ERR_FORMAT when the
 * compressed data is cut off or corrupt, or when a regular file has become
 * shorter since it was opened. */
enum err_code source_read(struct source *s, void *p, size_t n, size_t *got, struct err *e);

/* How much of a regular file or of memory has been read, from 0 to 1; 0 when that is
 * not known. */
double source_progress(const struct source *s);

/* The path, or "standard input". */
const char *source_name(const struct source *s);

#endif

#ifndef CODEC_ZIP_H
#define CODEC_ZIP_H

#include <stddef.h>
#include <stdint.h>

/* zstd for lists of numbers as bytes: its memory, for one thread at a time. */
struct zip;

struct zip *zip_new(void);
void zip_free(struct zip *z);
/* Compress len bytes in place; returns how many they are then, 0: not worth it (z may be
 * NULL), and they are as they were. */
size_t zip_shrink(struct zip *z, uint8_t *bytes, size_t len);
/* What they were, borrowed until the next call, *got of at most so many; NULL: it is
 * nothing that was compressed, or more, or there is no memory. */
const uint8_t *zip_expand(struct zip *z, const uint8_t *p, size_t len, size_t most, size_t *got);

#endif

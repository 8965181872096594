/* SPDX-License-Identifier: ISC */
#ifndef FORMAT_FRAMES_H
#define FORMAT_FRAMES_H

#include <stddef.h>
#include <stdint.h>

#include "core/err.h"

/* The frames of a zstd file (RFC 8878), which can be decompressed independently of each other. A
 * file has several when pzstd made it, or when files were put together. Any thread. */

/* Finds the places where frames with content begin, by the lengths in the headers of frames and
 * blocks, and without decompressing anything. *at: a new array of *n places, the first one 0, for a
 * file that has skippable frames in front, too. The search ends at the first frame of more than
 * `most` bytes, which the list has, since the header of each of its blocks is read. ERR_FORMAT: the
 * file is not a zstd file, or damaged; ERR_IO. */
enum err_code frames_find(int fd, const char *name, uint64_t size, uint64_t most, uint64_t **at,
    size_t *n, struct err *e);

#endif

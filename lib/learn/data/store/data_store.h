/* SPDX-License-Identifier: ISC */
#ifndef DATA_STORE_H
#define DATA_STORE_H

#include "core/err.h"
#include "data/data.h"
#include "format/digest.h"

/* A file of parsed data: a chunk (data_cache.h) that can be mapped and used in place.
 *
 * 64-bit words, little-endian:
 *   0       "pskdata2"          1  length of the file     2  checksum
 *   3-10    the key, 64 hexadecimal digits
 *   11      1: more chunks of the block follow
 *   12      name of the shape, padded with zeroes (data_shape.h)
 *   13-15   rows, cols, classes                           16  what else there is (STORE_*)
 *   17      bits of weight_factor                         18  index base
 *   19      bytes of text       20  targets
 *   21-22   bits of target_shift and target_factor
 *   23-25   heading, separator and unwatched (struct dataset)
 *   32-35   numbers of the shape
 *   36-47   for each array of the shape the number of elements, and the bytes of one
 *
 * A chunk without examples has the words up to 11 alone, and zeroes. Then, each at a multiple of 64
 * bytes with zeroes before it, the arrays of the shape, and the existing ones of: weight, group, y,
 * label, class_value (as in struct dataset), and text: the names of the format, the classes and the
 * features, the schema, the names of hashed features, the roles of columns, and the options, each
 * with a NUL. The schema, the names of hashed features and the options are JSON.
 *
 * The checksum protects against damage, not forgery: whoever can write here could write other data
 * as well. It must cost less than the parsing that it saves, so it consists of eight sums side by
 * side with one multiplication for each eight bytes. Each step is invertible for a known word, so a
 * change within one word is always found; other changes are missed with probability 2^-64. */
#define DATA_STORE_VERSION 12 /* raise it also when a reader's result for a file changes */

/* Can such data be stored? Not all shapes can. */
bool data_store_can(const struct dataset *d);

/* Writes a chunk to fd at its current offset, without syncing; d NULL: it has no examples. more:
 * others follow it. ERR_IO; ERR_LIMIT when sizes overflow. */
enum err_code data_store_write(const struct dataset *d, bool more,
    const char key[static DIGEST_HEX], int fd, struct err *e);

/* Maps a file as a dataset (`source` is NULL), after checking all of it; *out NULL: the chunk has
 * no examples. ERR_NOTFOUND; ERR_FORMAT: damaged, of another key, or another user's; ERR_IO: it
 * cannot be read, and may be whole; ERR_NOMEM. */
enum err_code data_store_map(const char *path, const char key[static DIGEST_HEX],
    struct dataset **out, bool *more, struct err *e);

#endif

/* SPDX-License-Identifier: ISC */
#ifndef DATA_STORE_H
#define DATA_STORE_H

#include "core/err.h"
#include "data/data.h"
#include "format/digest.h"

/* A file format for datasets that can be mapped and used in place.
 *
 * 64-bit words, little-endian:
 *   0       "pskdata1"          1  length of the file     2  checksum
 *   3-10    the key, 64 hexadecimal digits
 *   11-15   rows, cols, entries, distinct ids, classes    16  which arrays exist (STORE_*)
 *   17      bits of scale, and of weight_factor (the upper half)
 *   18      index base            19  bytes of text     20  fields
 *   21      targets               22-23  bits of target_shift and target_factor
 *
 * Then, each at a multiple of 64 bytes with zeroes before it, the existing ones of: x or x8, start,
 * col, val, field, id, weight, group, y, label, class_value (as in struct dataset), and text: the
 * names of the format, the classes and the features, the schema, and the names of hashed features, each
 * with a NUL. The last two are JSON.
 *
 * The checksum protects against damage, not forgery: whoever can write here could write other data
 * as well. It must cost less than the parsing that it saves, so it consists of eight sums side by
 * side with one multiplication for each eight bytes. Each step is invertible for a known word, so a
 * change within one word is always found; other changes are missed with probability 2^-64. */
#define DATA_STORE_VERSION 11 /* raise it also when a reader's result for a file changes */

/* Writes the dataset to fd at its current offset, without syncing. ERR_IO; ERR_LIMIT when sizes
 * overflow. */
enum err_code data_store_write(const struct dataset *d, const char key[static DIGEST_HEX], int fd,
    struct err *e);

/* Maps a file as a dataset (`source` is NULL), after checking all of it. ERR_NOTFOUND; ERR_FORMAT:
 * damaged, of another key, or another user's; ERR_IO. */
enum err_code data_store_map(const char *path, const char key[static DIGEST_HEX],
    struct dataset **out, struct err *e);

#endif

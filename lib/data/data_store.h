#ifndef DATA_STORE_H
#define DATA_STORE_H

#include "base/err.h"
#include "data/data.h"
#include "format/digest.h"

/* A dataset as a file that can be used where it lies.  Words of 64 bits, little-endian:
 *   0       "pskdata1"          1  length of the file     2  checksum
 *   3-10    the key, 64 hexadecimal digits
 *   11-15   rows, cols, entries, distinct ids, classes    16  what there is (STORE_*)
 *   17      bits of scale       18 index base             19  bytes of text     20  fields     21-23  0
 * then, each at a multiple of 64 bytes with zeroes before it, those there are of
 *   x or x8, start, col, val, field, id, y, label, class_value (as in struct dataset), and
 *   text: names of the format, of the classes and of the features, a NUL behind each.
 *
 * The checksum is against damage, not forgery: who can write here could write other
 * data as well.  It has to cost less than the parsing that it saves, so it is eight
 * sums side by side, a multiplication for each eight bytes.  Each step can be undone
 * when the word is known, so that what is changed within one word is always found; of
 * all else 2^-64 is missed. */
#define DATA_STORE_VERSION 2    /* a change of what readers make of a file raises it, too */

/* Writes all to fd, from where it is.  ERR_IO. */
enum err_code data_store_write(const struct dataset *d, const char key[static DIGEST_HEX], int fd, struct err *e);

/* The file, checked whole, as a dataset whose arrays are mapped (`source` is NULL).
 * ERR_NOTFOUND when there is none; ERR_FORMAT when it is damaged, not of this key or
 * another user's; ERR_IO. */
enum err_code data_store_map(const char *path, const char key[static DIGEST_HEX], struct dataset **out, struct err *e);

#endif

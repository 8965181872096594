/* SPDX-License-Identifier: ISC */
#ifndef FORMAT_NPY_H
#define FORMAT_NPY_H

#include <stddef.h>
#include <stdint.h>

#include "core/buf.h"
#include "core/err.h"
#include "format/stream.h"

/* NumPy's array files, versions 1.0 to 3.0 for reading, 1.0 for writing (numpy.lib.format): magic,
 * header length, a Python dictionary, then the values row by row. Read: npy_read_header,
 * npy_read_exact until all are read, npy_read_end; or npy_read for all. One thread for each
 * stream. */
#define NPY_RANK_MAX 8

struct npy_type;

struct npy {
	const struct npy_type *type; /* type in the file; values are returned as float32 */
	size_t rank;                 /* 0 is a scalar */
	uint64_t shape[NPY_RANK_MAX];
	uint64_t count; /* product of shape */
	size_t head;    /* bytes before the first value */
};

/* Reads the header, up to the first value. Types <f4 <f8 <i4 <i8 |u1 |b1; Fortran order, big-endian
 * and other types are refused with advice. ERR_FORMAT. */
enum err_code npy_read_header(struct stream *s, struct npy *h, struct err *e);

/* Bytes of a value in the file. */
size_t npy_value_size(const struct npy *h);

/* Reads the next n values and converts them, without rounding to float32; whole numbers are exact
 * up to 2^53. ERR_FORMAT when the file ends before. */
enum err_code npy_read_exact(struct stream *s, const struct npy *h, double *out, size_t n,
    struct err *e);

/* ERR_FORMAT when anything follows the last value. */
enum err_code npy_read_end(struct stream *s, struct err *e);

/* Reads all values of a file of at most max values into a new array. Memory grows with the data
 * read, never by the header alone. */
enum err_code npy_read(struct stream *s, uint64_t max, struct npy *h, float **out, struct err *e);

/* Appends a version 1.0 header for float32 in C order, padded to 64 bytes. */
void npy_put_header(struct buf *out, const uint64_t *shape, size_t rank);

/* Writes header and values to a descriptor, which stays open: x has as many floats as the product
 * of shape, in C order. After ERR_IO a part of it has been written. */
enum err_code npy_write(int fd, const float *x, const uint64_t *shape, size_t rank, struct err *e);

#endif

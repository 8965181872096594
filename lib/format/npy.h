#ifndef FORMAT_NPY_H
#define FORMAT_NPY_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "format/stream.h"

/* NumPy's array file, versions 1.0 to 3.0 for reading (numpy.lib.format):
 * magic, header length, a Python dictionary, then the values row by row. */
#define NPY_RANK_MAX 8

struct npy_type;

struct npy {
	const struct npy_type *type;    /* of the file; values are given out as float32 */
	size_t rank;                    /* 0 is a scalar */
	uint64_t shape[NPY_RANK_MAX];
	uint64_t count;                 /* product of shape */
};

/* The header, up to the first value.  Types <f4 <f8 <i4 <i8 |u1 |b1; Fortran
 * order, big-endian and other types are refused with what to do instead. */
enum err_code npy_read_header(struct stream *s, struct npy *h, struct err *e);

/* The next n values, converted; ERR_FORMAT when the file ends before them. */
enum err_code npy_read_values(struct stream *s, const struct npy *h, float *out, size_t n,
                              struct err *e);

/* Nothing may follow the last value. */
enum err_code npy_read_end(struct stream *s, struct err *e);

/* All values of a file of at most max values, in a fresh array (free it); the
 * memory grows with what is read, never with what the header says. */
enum err_code npy_read(struct stream *s, uint64_t max, struct npy *h, float **out, struct err *e);

/* Append a version 1.0 header for float32 in C order, padded to 64 bytes. */
void npy_put_header(struct buf *out, const uint64_t *shape, size_t rank);

/* Header and all values to a descriptor. */
enum err_code npy_write(int fd, const float *x, const uint64_t *shape, size_t rank, struct err *e);

#endif

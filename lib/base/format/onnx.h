/* SPDX-License-Identifier: ISC */
#ifndef FORMAT_ONNX_H
#define FORMAT_ONNX_H

#include <stddef.h>
#include <stdint.h>

#include "core/err.h"

/* Builds a graph of ONNX operators and writes it as a model file (github.com/onnx/onnx: onnx/onnx.proto
 * has the messages, docs/IR.md and docs/ExternalData.md their meaning). The operators are those of
 * version 13 of ONNX and version 2 of its domain ai.onnx.ml, which every runtime since 2020 has.
 *
 * A value of the graph is known by its name, a text that belongs to the graph and stays until
 * onnx_free. The name of an input or a tensor is the one that was asked for, with underscores after it
 * where that one is in use; other values have names of digits.
 *
 * Life: onnx_new -> inputs, tensors, operators, outputs in any order -> onnx_size, onnx_write ->
 * onnx_free. One thread. Without memory the process aborts. */
struct onnx;

/* Types of elements, by their numbers in onnx.proto. */
enum onnx_type { ONNX_FLOAT = 1, ONNX_INT64 = 7, ONNX_STRING = 8, ONNX_BOOL = 9, ONNX_DOUBLE = 11 };

struct onnx *onnx_new(void);
void onnx_free(struct onnx *g);

/* Adds a sentence about the model, and a fact under a key. */
void onnx_describe(struct onnx *g, const char *text);
void onnx_add_fact(struct onnx *g, const char *key, const char *value);

/* ---- inputs and outputs: a row for each of N examples ---- */

/* Columns of a row: a number of them, 0 for a tensor of rank 1, or the name of a number that each call
 * may choose. */
struct onnx_columns {
	int64_t n;
	const char *name; /* NULL: it is n */
};

const char *onnx_input(struct onnx *g, const char *name, enum onnx_type type,
    struct onnx_columns columns, const char *description);
/* Gives the value out under a name, which no other value may have. */
void onnx_output(struct onnx *g, const char *value, const char *name, enum onnx_type type,
    struct onnx_columns columns, const char *description);

/* ---- operators ---- */

/* Adds an operator of ONNX, or of ai.onnx.ml. Its inputs are values, ended by NULL. Returns its
 * output. */
const char *onnx_op(struct onnx *g, const char *op, ...) __attribute__((sentinel));
const char *onnx_op_ml(struct onnx *g, const char *op, ...) __attribute__((sentinel));
/* Give the operator that was added last an attribute. */
void onnx_set_int(struct onnx *g, const char *name, int64_t v);
void onnx_set_ints(struct onnx *g, const char *name, const int64_t *v, size_t n);
void onnx_set_text(struct onnx *g, const char *name, const char *v);
void onnx_set_texts(struct onnx *g, const char *name, const char *const *v, size_t n);

/* ---- constants ---- */

/* Small constants, which are copied: an array of this shape. Rank 0 is one number. */
const char *onnx_floats(struct onnx *g, const float *x, size_t rank, const int64_t *dims);
const char *onnx_doubles(struct onnx *g, const double *x, size_t rank, const int64_t *dims);
const char *onnx_ints(struct onnx *g, const int64_t *x, size_t rank, const int64_t *dims);

/* A tensor whose values are asked for when the model is written. `put` calls onnx_put for all bytes of
 * them, little-endian and row by row, in pieces of any length, and returns its errors. */
struct onnx_out;
typedef enum err_code onnx_put_fn(void *ctx, size_t number, struct onnx_out *out, struct err *e);

const char *onnx_tensor(struct onnx *g, const char *name, enum onnx_type type, size_t rank,
    const int64_t *dims, onnx_put_fn *put, void *ctx, size_t number);
enum err_code onnx_put(struct onnx_out *out, const void *p, size_t n, struct err *e);

/* ---- the file ---- */

/* Readers refuse files of more bytes than this, so that the values of larger models are in a second file. */
#define ONNX_FILE_MAX ((uint64_t)INT32_MAX)

/* The bytes of the model with all values in one file. */
uint64_t onnx_size(struct onnx *g);
/* Writes the model to fd. location NULL: with all values. Otherwise the values of tensors go to
 * data_fd, each from a multiple of 4096 bytes on, and the model names the file `location`, relative to
 * its own folder. Memory does not depend on the size of tensors. ERR_IO, ERR_LIMIT: the file is too
 * large for readers; ERR_FAILED: `put` gave another number of bytes; errors of `put`. */
enum err_code onnx_write(struct onnx *g, int fd, const char *location, int data_fd, struct err *e);

#endif

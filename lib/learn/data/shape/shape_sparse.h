/* SPDX-License-Identifier: ISC */
#ifndef SHAPE_SPARSE_H
#define SHAPE_SPARSE_H

#include "data/shape/data_shape.h"

/* Functions of struct data_shape, for shapes whose rows are sparse rows. */
enum err_code shape_sparse_append(struct data_build *b, const struct dataset *d, struct err *e);
uint64_t shape_sparse_values(const struct dataset *d);
double shape_sparse_bytes(const struct dataset *d, double rows, double values);
float *shape_sparse_row(const struct dataset *d, size_t r, size_t *n);
void shape_sparse_describe(const struct dataset *d, char *out, size_t n);

#endif

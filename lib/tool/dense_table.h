/* SPDX-License-Identifier: ISC */
#ifndef TOOL_DENSE_TABLE_H
#define TOOL_DENSE_TABLE_H

#include "client/client.h"

/* Pulls a dense table as it is now, and calls fn with its elements in order, n from element `first`
 * on, some partitions at a time: memory is bounded, whatever the size of the table. rows: those
 * that the table had when the caller began. ERR_STALE: it has others now, or was dropped. An error
 * of fn ends it. */
enum err_code dense_table_read(struct client *c, const struct table *t, uint64_t rows,
    enum err_code (*fn)(void *ctx, uint64_t first, const float *w, size_t n, struct err *e),
    void *ctx, struct err *e);

#endif

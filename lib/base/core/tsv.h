/* SPDX-License-Identifier: ISC */
#ifndef CORE_TSV_H
#define CORE_TSV_H

#include "core/buf.h"

/* Appends a text as a cell of tab-separated output: a tab, a newline, a carriage return and a backslash
 * become \t, \n, \r and \\, so that a line has as many cells as columns. */
void tsv_put_cell(struct buf *out, const char *text);

#endif

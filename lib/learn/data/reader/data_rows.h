/* SPDX-License-Identifier: ISC */
#ifndef DATA_ROWS_H
#define DATA_ROWS_H

#include "data/reader/data_parts.h"

/* Files whose examples are rows of equal length, with labels in the rows or in a second file:
 * arrays. They are read as a whole, or in parts. A part is a range of rows, or the whole file where
 * one of the two is compressed.
 *
 * A format fills in a struct data_rows, when a file is cut or read as a whole, and has the
 * functions below in its struct data_parts. It is no push parser (data_parser.h), because it has to
 * read from two files in step. Nor would one have anything to keep: there is no heading, and every
 * part begins with a row. */
struct data_rows {
	uint64_t rows;
	uint64_t head, width; /* bytes before the first row, and of a row */
	/* The second file; labels.name is NULL where there is none. */
	struct data_file labels;
	uint64_t label_head, label_width;
	/* Appends n rows and their labels, of which `first` is the number of the first one. labels:
	 * NULL where there is no second file; labels that are ignored may be nowhere. Errors as data_load. */
	enum err_code (*append)(const struct data_rows *r, struct stream *s, struct stream *labels,
	    uint64_t first, size_t n, struct data_build *b, struct err *e);
};

/* Appends all rows, from streams that are after their headers; labels may be NULL. A header that
 * announces more rows than there are takes no memory for them. Errors as data_load. */
enum err_code data_rows_read_all(const struct data_rows *r, struct stream *s, struct stream *labels,
    struct data_build *b, struct err *e);

/* Cuts f as f->own, which is a struct data_rows or begins with one, says. *n 0: its size is another
 * than that, or it has no rows, which reading it as a whole reports. */
void data_rows_cut(struct data_file *f, uint64_t bytes, struct data_part **out, size_t *n);
/* The functions of struct data_parts. */
void data_rows_release(struct data_file *f);
enum err_code data_rows_open(const struct data_file *f, const struct data_part *p, struct buf *text,
    struct data_cursor **out, struct err *e);
enum err_code data_rows_read(struct data_cursor *c, size_t bytes, struct data_build *b,
    struct err *e);
void data_rows_close(struct data_cursor *c);
uint64_t data_rows_width(const struct data_file *f);

#endif

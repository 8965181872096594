/* SPDX-License-Identifier: ISC */
#ifndef DATA_PIECES_H
#define DATA_PIECES_H

#include "data/data.h"

/* Examples of a text that arrives in pieces of whole lines, such as a stream or a file that is larger
 * than memory. The first piece shows the format and whether there is a heading, which hold for all later
 * pieces.
 *
 * Life: set `options`; data_pieces_load for each piece; data_pieces_release. One thread. */
struct data_pieces {
	struct data_options options; /* owned; data_pieces_load adds what the head has decided */
	char *heading;               /* put before every later piece; NULL: none */
	uint64_t lines;              /* lines before the next piece; the caller counts them */
	bool begun;                  /* a piece has shown the format and the heading */
};

void data_pieces_release(struct data_pieces *l);

/* Loads n bytes of whole lines; `name` stands in errors, whose lines count from the beginning of the
 * text. like: as in data_load; *out becomes NULL when the piece has no example. Errors as data_load. */
enum err_code data_pieces_load(struct data_pieces *l, const char *name, const char *p, size_t n,
    const struct data_want *want, const struct dataset *like, struct dataset **out, struct err *e);

/* Number of newlines in n bytes. */
uint64_t data_pieces_lines(const char *p, size_t n);

#endif

/* SPDX-License-Identifier: ISC */
#ifndef DATA_HEAD_H
#define DATA_HEAD_H

#include "core/json.h"

#include "data/data_build.h"

/* The head of data are their first examples: the beginning of a file, the first piece of a text that arrives
 * in pieces, the first events of a stream, or examples from many places of data in blocks. It decides what
 * cannot be seen in a later part alone: the format, the separator of cells, and whether the first line has
 * names. Every later part is read by this decision (data_options.decided); nothing is guessed again.
 *
 *   parts of a file or stream:   head --> data_head_decide --> options of all later parts
 *
 * This file also begins every stream of lines, whole or in parts: it drops the byte order mark, and
 * refuses line ends that no reader knows. */

/* Puts into the options what these examples have shown: the format and the separator. names: the
 * heading, which is above all parts that are read by these options, but in none of them; copied; NULL:
 * there is none. */
void data_head_decide(struct data_options *o, const struct dataset *d, const char *names);

/* The decisions that these examples led to, for their description: [format, separator, line of the
 * heading]. A new reference; NULL: nothing. data_head_from_json takes it back, and leaves the dataset
 * as it is for NULL. */
json_t *data_head_to_json(const struct dataset *d);
void data_head_from_json(const json_t *json, struct dataset *d);

/* Returns a copy of line `number` of a text, counted from 1, without its newline and a byte order mark.
 * NULL: the text has fewer lines, or number is 0. */
char *data_head_line(const char *p, size_t n, uint64_t number);

/* Finds the heading of a file that is read like another one, whose heading is known: the first line
 * that is not blank, if at least half of its cells are names in `heading`. Returns its number; 0: it is
 * an example. *separator: that of the other file, and that of this one afterwards, where its heading
 * shows another one. */
uint64_t data_head_find(const char *p, size_t n, const char *heading, char *separator);

/* Does the file that begins with this line have no heading, although the files before it have one, as
 * the files that split -l makes? The heading of the first of them, b->heading, then holds for it. */
bool data_head_is_bare(const struct data_build *b, const struct data_options *o, const char *line);
/* Keeps the heading of a stream: for its later parts (b->stream_heading), and for files after it that
 * have none. */
void data_head_keep(struct data_build *b, const char *line);

/* Begins a stream of examples: drops its byte order mark. ERR_FORMAT: its lines end in carriage returns
 * alone. Errors as stream_peek. */
enum err_code data_head_begin(struct stream *s, struct err *e);

#endif

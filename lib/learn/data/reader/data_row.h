/* SPDX-License-Identifier: ISC */
#ifndef DATA_ROW_H
#define DATA_ROW_H

#include "data/reader/data_parser.h"

/* Builds sparse rows of text formats entry by entry, for formats whose lines are not worth parsing
 * in place as libsvm's are. A format calls data_row_begin with a function that parses a line, calls
 * data_row_add for each entry, and data_row_end. One thread. */
struct data_row;
/* Parses a line. It may write to it; the line contains no NUL byte. */
typedef enum err_code (*data_row_fn)(struct data_row *r, char *line, struct err *e);
struct data_row {
	data_row_fn parse;
	struct data_build *b;
	struct stream *s;
	uint64_t *id;
	float *val;
	uint16_t *field;
	size_t n, room;
	bool full; /* the line has more entries than DATA_ROW_ENTRIES */
	const struct data_options *options;
	void *own; /* of the format */
};

#define DATA_FIELDS 65536 /* fields must be below this */
/* Entries of a row, at most: more come from pairs of features, or from a line that is not an example. */
#define DATA_ROW_ENTRIES ((size_t)1 << 22)

/* Begins the rows of a build: p->own becomes a struct data_row, which stays for the builds after this
 * one. `size` bytes of memory, which are 0 at first, are the format's (r->own). */
struct data_row *data_row_begin(struct data_parser *p, size_t size, data_row_fn parse);
/* The functions of struct data_text_format, for a p->own that data_row_begin has set. */
enum err_code data_row_line(struct data_parser *p, char *line, size_t len, struct err *e);
void data_row_release(struct data_parser *p);

/* Adds an entry. Running out of memory aborts: a row is limited, and data_row_end reports one with more
 * entries. */
void data_row_add(struct data_row *r, uint64_t id, float val, uint16_t field);
/* Adds the values of the row's entries that have the same field and id, in the place of the first one. */
void data_row_sum(struct data_row *r);
/* Checks what holds for the entries of every sparse row, whatever its reader: the values, and sums and
 * products of them, are finite. ERR_FORMAT. */
enum err_code data_row_check(const struct stream *s, const float *val, size_t n, struct err *e);
/* Ends the row and appends it to the dataset, after data_row_check; its label must have been given.
 * with_fields must be the same in all rows. ERR_FORMAT, ERR_NOMEM, ERR_LIMIT. */
enum err_code data_row_end(struct data_row *r, bool with_fields, struct err *e);

/* A hash of n bytes and a salt; all 64 bits are well mixed. */
uint64_t data_hash(uint64_t salt, const char *p, size_t n);

/* The text at p up to a blank, for a message. */
void data_token(char out[static DATA_SHOWN], const char *p);
/* Both are for text that DATA_NUM_PAD bytes follow, as the lines of a stream. Parses an integer of at most 18
 * digits and moves *p past it; false when there are none or more. */
bool data_take_index(const char **p, uint64_t *out);
/* Parses a finite float32, which a blank or the end must follow, and moves *p past it. */
bool data_take_value(const char **p, float *out);
/* As data_take_value, in double; the number must be finite as a float32, too. */
bool data_take_number(const char **p, double *out);
/* As data_take_value, of the value of a feature, which is watched (data_build_spread). */
bool data_take_feature(struct data_row *r, const char **p, uint64_t id, float *out);

/* Is weight=label given, which says that a weight may stand after each label, as in "1:2.5"? ERR_CONFIG:
 * it says something else. For formats without columns. */
enum err_code data_has_label_weights(const struct data_options *o, const struct stream *s,
    bool *out, struct err *e);
/* Parses the ":weight" at *p, which a blank or the end must follow, gives it to the next row, and moves *p
 * after it. */
enum err_code data_take_label_weight(struct data_build *b, const struct stream *s, const char **p,
    struct err *e);

static inline bool data_is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static inline bool data_is_digit(char c)
{
	return (unsigned char)(c - '0') < 10;
}

/* Does a line begin with "digits:", as an entry does, where other lines have a label? */
static inline bool data_has_no_label(const char *p)
{
	const char *q = p;

	while (data_is_digit(*q))
		q++;
	return q > p && *q == ':';
}

static inline const char *data_skip_blanks(const char *p)
{
	while (data_is_blank(*p))
		p++;
	return p;
}

#endif

#ifndef DATA_ROW_H
#define DATA_ROW_H

#include "data/data_build.h"

/* One sparse row of a text format, gathered entry by entry: for readers whose lines are not
 * worth parsing in place, as libsvm's are. */
struct data_row {
	struct data_build *b;
	struct stream *s;
	uint64_t *id;
	float *val;
	uint16_t *field;
	size_t n, room;
	const struct data_options *options;
	void *own;                      /* the reader's */
};

#define DATA_FIELDS 65536       /* fields are below this */

/* Calls fn for each line of the stream, which it may write to and which has no NUL byte in it, until
 * one fails. */
typedef enum err_code (*data_row_fn)(struct data_row *r, char *line, struct err *e);
enum err_code data_row_each(struct data_build *b, struct stream *s, const struct data_options *o, void *own, data_row_fn fn,
                            struct err *e);

/* No errors: a line is short beside memory. */
void data_row_add(struct data_row *r, uint64_t id, float val, uint16_t field);
/* The row goes to the data, whose label has been given; with_fields: in all rows or none. */
enum err_code data_row_end(struct data_row *r, bool with_fields, struct err *e);

/* A hash of n bytes and a number, all 64 bits of which are good. */
uint64_t data_hash(uint64_t salt, const char *p, size_t n);

/* For formats that could be taken for others': they must be named. */
bool data_probe_never(const uint8_t *bytes, size_t n);

/* What stands at p up to a blank, for a message. */
void data_token(char out[static DATA_SHOWN], const char *p);
/* Digits at *p, at most 18, which it moves behind; false when there are none or more. */
bool data_take_index(const char **p, uint64_t *out);
/* A finite float32 number at *p, likewise, which a blank or the end follows. */
bool data_take_value(const char **p, float *out);

static inline bool data_is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static inline bool data_is_digit(char c)
{
	return (unsigned char)(c - '0') < 10;
}

static inline const char *data_skip_blanks(const char *p)
{
	while (data_is_blank(*p))
		p++;
	return p;
}

#endif

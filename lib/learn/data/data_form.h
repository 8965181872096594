/* SPDX-License-Identifier: ISC */
#ifndef DATA_FORM_H
#define DATA_FORM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How the numbers of a column are written, and what a column holds by its first cells. Pure. */

/* Signs of currencies and percent may stand before or behind a number; they do not change it. */
enum data_form {
	DATA_PLAIN,  /* 12, -1.5e3 */
	DATA_MARKED, /* also $1,234.50, 12 %: commas, apostrophes and blanks group three digits */
	DATA_COMMA,  /* 1.234,50 EUR sign: the comma is the decimal sign, points and blanks group */
	DATA_DATE,   /* 2021-03-04, perhaps with a time and a zone: days since 1970 began */
	DATA_FORMS
};

/* The names, as in a schema. */
extern const char *const data_form_name[DATA_FORMS];

/* Parses the whole text as one finite number in this form. */
bool data_form_number(enum data_form form, const char *text, double *out);

/* Does this cell say that there is no value (empty, ?, NA, nan, null, ..)? */
bool data_form_is_missing(const char *cell);

/* Counts of a column's first cells. Zeroes: none yet. */
struct data_look {
	size_t numbers[DATA_FORMS]; /* cells that are a number in this form */
	size_t missing, words;      /* words: neither missing nor a number in any form */
	size_t cells;
	/* Hashes of the different words, as long as they fit. */
	uint64_t seen[64];
	size_t different;
};

/* Counts one more cell: by its text, as a number, or as a word. */
void data_look_add(struct data_look *l, const char *cell);
void data_look_add_number(struct data_look *l);
void data_look_add_word(struct data_look *l, const char *word);

/* The contents of a column: categories, or numbers in a form, beside which a few words may be categories. */
struct data_column_look {
	bool text;  /* categories */
	bool words; /* numbers, and words that come again: categories, too */
	enum data_form form;
};

/* Most cells decide. A word among numbers that does not come again is a fault of the file, and no
 * category. comma: take 1,234 for a number with a decimal comma. */
struct data_column_look data_look_decide(const struct data_look *l, bool comma);

#endif

/* SPDX-License-Identifier: ISC */
#ifndef DATA_FORM_H
#define DATA_FORM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How the numbers of a column are written, and what a column holds by its first cells. Pure. */

/* Signs and codes of currencies and the sign of percent may stand before or after a marked number; they do
 * not change it. Dates count days since 1970 began; a time (12:30, 12:30:05.25, 1:30 PM) and a zone may
 * stand after them. */
enum data_form {
	DATA_PLAIN, /* 12, -1.5e3 */
	DATA_MARKED, /* also $1,234.50, 12 %, (12): commas, apostrophes and blanks group three digits, and
	              * parentheses mean minus */
	DATA_COMMA, /* 1.234,50 EUR sign: the comma is the decimal sign, points and blanks group */
	DATA_DATE,  /* 2021-03-04, 2021/03/04 */
	DATA_MONTH, /* 3/4/2021, 3-4-2021: the month first */
	DATA_DAY,   /* 4.3.2021, 4/3/2021, 4-3-2021, 4 Mar 2021: the day first */
	DATA_TIME,  /* a time: hours since midnight, or a duration in hours */
	DATA_FORMS
};

/* The names, as in a schema. */
extern const char *const data_form_name[DATA_FORMS];

/* Parses the whole text as one finite number in this form. unit: a word that may stand after it, as km in
 * "12 km" or "12km"; empty or NULL: none may. */
bool data_form_number(enum data_form form, const char *unit, const char *text, double *out);
/* Does a column of this form hold dates or times? */
bool data_form_is_time(enum data_form form);

/* Bytes of a unit, with the NUL. */
#define DATA_UNIT 16

/* Does this cell say that there is no value (empty, ?, NA, nan, null, ..)? */
bool data_form_is_missing(const char *cell);
/* The i-th text that says so, whatever the case of its letters; NULL after the last one. */
const char *data_form_missing(size_t i);

/* Counts of a column's first cells. Zeroes: none yet. */
struct data_column_stats {
	size_t numbers[DATA_FORMS]; /* cells that are a number in this form */
	size_t missing, words;      /* words: neither missing nor a number in any form */
	size_t cells;
	/* Cells that are a number in this form with the one unit that the column has, and all that
	 * have it. */
	size_t measures[DATA_FORMS], measured;
	char unit[DATA_UNIT]; /* empty: no cell has had one */
	bool units;           /* there are several units: such cells are words */
	/* Hashes of the different words, as long as they fit. */
	uint64_t seen[64];
	size_t different;
	size_t parted[3]; /* words with a bar, a semicolon, a comma within */
};

/* Counts one more cell: by its text, as a number, or as a word. */
void data_column_stats_add(struct data_column_stats *l, const char *cell);
void data_column_stats_add_number(struct data_column_stats *l);
void data_column_stats_add_word(struct data_column_stats *l, const char *word);

/* The contents of a column: categories, or numbers in a form, beside which a few words may be categories. */
struct data_column_decision {
	bool text;  /* categories */
	bool words; /* numbers, and words that come again: categories, too */
	enum data_form form;
	char unit[DATA_UNIT]; /* of the numbers; empty: they have none */
	char list;            /* the sign of "|;," that most words have within; 0: none has one */
};

/* Most cells decide. Numbers have a unit when most of them have it, and almost all other cells are numbers,
 * too. A word among numbers that does not come again is a fault of the file, and no
 * category. comma: take 1,234 for a number with a decimal comma. */
struct data_column_decision data_column_stats_decide(const struct data_column_stats *l, bool comma);

#endif

/* SPDX-License-Identifier: ISC */
#ifndef DATA_ALIKE_H
#define DATA_ALIKE_H

#include <stdbool.h>

#include "data/data.h"

/* Two names of a column of categories, or of classes, that look alike: they differ only by blanks at
 * their ends. Readers remove blanks and tabs there, but not others such as the no-break space, which
 * spreadsheets and web pages leave. */
struct data_alike {
	const char *column; /* NULL: they are classes */
	const char *a, *b;  /* of the dataset */
};

/* Finds the first such pair, classes before columns. False: there is none. Pure. */
bool data_alike_find(const struct dataset *d, struct data_alike *out);

#endif

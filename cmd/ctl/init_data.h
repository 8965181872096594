/* SPDX-License-Identifier: ISC */
#ifndef CTL_INIT_DATA_H
#define CTL_INIT_DATA_H

#include "core/err.h"

/* A first cluster file for the examples in `data`, a path with options, as new text: it looks at the
 * first lines, chooses the model by their labels (two classes, several, or real numbers), and scales
 * the numbers of tables. model, eval: given by the user; NULL: chosen, none. NULL after an error:
 * the file cannot be read, or is none of the formats. */
char *init_data_template(const char *data, const char *eval, const char *model, struct err *e);

#endif

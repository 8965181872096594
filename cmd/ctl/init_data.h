/* SPDX-License-Identifier: ISC */
#ifndef CTL_INIT_DATA_H
#define CTL_INIT_DATA_H

#include "core/err.h"
#include "init_model.h"

/* A first cluster file for the examples in r->data, a path with options, as new text: it looks at a
 * sample of all files, lists the columns, chooses the task by the labels (two classes, several, or
 * real numbers), scales the numbers of tables, and chooses the model (init_model.h). NULL after an
 * error: the files cannot be read, or are none of the formats. */
char *init_data_template(const struct init_request *r, struct err *e);

#endif

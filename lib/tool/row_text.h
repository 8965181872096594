/* SPDX-License-Identifier: ISC */
#ifndef TOOL_ROW_TEXT_H
#define TOOL_ROW_TEXT_H

#include <stdint.h>

#include "core/buf.h"
#include "core/json.h"

/* Writes the parameters of a model as lines of text, with the names of what they belong to:
 *
 *   TABLE[ROW,COLUMN] tab VALUE [tab NAME [tab CLASS]]
 *
 * NAME is that of the row: a feature of the data ("age", "city=Paris"), a word, or "intercept".
 * CLASS is the class of the labels that the column belongs to. A name that is not known is left
 * out, together with what follows it. Tabs, newlines and backslashes in names are written as \t,
 * \n, \r and \\.
 *
 * The kind of model says which tables have names (the axes in model.def), and the description of
 * the training data has them. One thread. */
struct row_text;

/* config: the configuration of the cluster, or what of it goes with a model; facts: of the training
 * data (worker/data_facts.h). Either may be NULL or damaged: then there are fewer names. Nothing is
 * borrowed. */
struct row_text *row_text_new(const json_t *config, const json_t *facts);
/* Frees x; NULL is fine. */
void row_text_free(struct row_text *x);
/* Appends the line of a parameter. Those of one row follow each other, or else this is slow. */
void row_text_put(struct row_text *x, const char *table, uint64_t row, uint64_t column, float value,
    struct buf *out);

#endif

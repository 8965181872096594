/* SPDX-License-Identifier: ISC */
#ifndef TOOL_EXPLAIN_H
#define TOOL_EXPLAIN_H

#include "tool/tool.h"

/* Explains a model: the features with the largest weights, how much a metric needs each feature, and the
 * parts of one prediction. The tables of the model's kind say which weights there are (the axes in
 * model.def), and the kind itself which parts (model_parts).
 *
 * All functions make a document:
 *
 *   { "kind": "weights", .. figures .., "columns": ["feature", "weight"],
 *     "rows": [{"feature": "age", ..}, ..] }
 *
 * whose rows are objects with the members that "columns" names, or some of them. explain_print writes it.
 * One thread, that of the source. */
struct explain_options {
	size_t top; /* rows at most */
	const char
	    *metric;    /* of importance; NULL: the first one after the loss that the model has */
	size_t repeats; /* permutations of each feature, at least 1 */
	uint64_t seed;  /* of the permutations */
	const char *class; /* whose score is explained; NULL: that of the class that is predicted */
};

/* The weights of features with the largest magnitudes, after those of the intercept. ERR_UNSUPPORTED: no
 * table of the model has a weight for each feature. */
enum err_code explain_weights(const struct tool_model *m, const struct explain_options *o,
    json_t **out, struct err *e);
/* How much worse the metric becomes when the values of a feature are permuted among the examples of the
 * data: the mean and the standard deviation over o->repeats permutations (Breiman, "Random Forests", 2001,
 * section 10). A column of a table, with all its categories, is one feature, and so is a field. Of more
 * than o->top features those are measured that are not zero in the most examples. ERR_UNSUPPORTED: the data
 * are words or are ranked; ERR_USAGE: the data do not have this metric. */
enum err_code explain_importance(const struct tool_model *m, const char *const *data, size_t ndata,
    const struct explain_options *o, json_t **out, struct err *e);
/* The parts of the prediction of example `row` of the data, from 1: a line "intercept", one for each feature
 * that is not zero, and one for the sum of those after the first o->top. Their sum is the member "score",
 * before the link. ERR_UNSUPPORTED: scores of the model are not sums; ERR_NOTFOUND: the example or the
 * class does not exist. */
enum err_code explain_row(const struct tool_model *m, const char *const *data, size_t ndata,
    uint64_t row, const struct explain_options *o, json_t **out, struct err *e);

/* Writes such a document to fd. form: "text": figures and aligned columns; "tsv": a heading and lines
 * with tabs; "json": one object. */
enum err_code explain_print(const json_t *doc, const char *form, int fd, struct err *e);

#endif

/* SPDX-License-Identifier: ISC */
#ifndef TOOL_PREDICTION_H
#define TOOL_PREDICTION_H

#include "core/buf.h"
#include "worker/job.h"

/* Writes predictions as text: one line an example, in one of three forms.
 *
 *   plain  the value of each real target; the probability of class 1 of two classes; the most likely of
 *          more classes and its probability; the loss of a word
 *   csv    a heading, then the example (its id, or its number from 1), the prediction (with classes the name
 *          of the most likely one), and with classes the probability of each, or the score of class 1
 *          where the model gives no probabilities
 *   json   the same as an object a line:
 *          {"id": "a7", "prediction": "yes", "probability": {"no": 0.1, "yes": 0.9}}
 *
 * One thread. */
enum prediction_form { PREDICTION_PLAIN, PREDICTION_CSV, PREDICTION_JSON };

struct predictions {
	enum prediction_form form;
	const struct job *job; /* borrowed: its model, and the description of its training data */
	uint64_t written;      /* examples so far */
	bool headed;           /* the heading has been written */
};

/* Appends the lines of a batch with the scores of model_forward, (b->rows, model_outputs). The
 * first batch of a csv also has the heading, which depends on whether the examples have ids. */
void predictions_put(struct predictions *p, const struct batch *b, const float *scores,
    struct buf *out);
/* Appends the heading of a csv, if no batch has been written. */
void predictions_end(struct predictions *p, struct buf *out);

/* For the scores (model_outputs) of one example: are the predictions classes, which one do the
 * scores predict, and what is the probability of class k (of two classes by the score of class 1)? */
bool prediction_has_classes(const struct job *job);
size_t prediction_class(const struct job *job, const float *scores);
double prediction_probability(const struct job *job, const float *scores, size_t k);

#endif

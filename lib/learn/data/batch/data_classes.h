/* SPDX-License-Identifier: ISC */
#ifndef DATA_CLASSES_H
#define DATA_CLASSES_H

#include "data/batch/row_domain.h"

/* Draws classes for the steps of a model that has too many to use all of them in each step (Bengio
 * and Senécal, "Adaptive Importance Sampling to Accelerate Training of a Neural Probabilistic
 * Language Model", 2008; Jean et al., "On Using Very Large Target Vocabulary for Neural Machine
 * Translation", 2015). All examples of a batch are compared with the same drawn classes.
 *
 * A draw chooses a class in proportion to its examples, or, one time in eight, any class with the
 * same probability, so that a class without examples is drawn, too. Draws are independent, and a
 * class that was drawn several times counts once.
 *
 * The drawn classes depend on the seed, and on the pass and the labels of the batch, alone: a
 * batch that another worker repeats gets the same ones. One thread. */
struct data_classes;

/* Draws by the labels of d, borrowed. row, borrowed: only these n examples count; NULL: the first
 * n. d may have no examples. draws: for each batch, above 0. */
struct data_classes *data_classes_new(const struct dataset *d, const uint32_t *row, size_t n,
    size_t draws, uint64_t seed);
void data_classes_free(struct data_classes *c); /* NULL is fine */

/* Draws the classes of b, whose labels are below the classes of the dataset, and sets b->classes,
 * which are valid until the next call. b->epoch must be set. ERR_NOMEM. */
enum err_code data_classes_draw(struct data_classes *c, struct batch *b, struct err *e);

/* The rows of a table are classes, and a step uses the rows of its labels and the drawn ones. Its
 * sampler is a struct data_classes. */
extern const struct row_domain row_domain_classes;

#endif

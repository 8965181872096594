/* SPDX-License-Identifier: ISC */
#ifndef DATA_LABEL_H
#define DATA_LABEL_H

#include <stddef.h>

#include "core/err.h"
#include "data/data.h"
#include "format/stream.h"

/* Collects the targets of the rows while they are read: real numbers, or classes, which are
 * numbered in order of appearance and sorted at the end. "+1", "1" and "1.0" are one class; text
 * that is not a number is the name of a class. One thread. */
struct data_label;

/* Classes of data, at most: more of them are likely to be real numbers, unless the model is meant
 * for this many (data_want.many). */
#define DATA_LABEL_CLASSES_MAX  100000
#define DATA_LABEL_CLASSES_MANY 10000000

/* like: for evaluation data the training set, borrowed, whose classes are the only ones; else
 * NULL; their labels may have a dot after the class's name. */
struct data_label *data_label_new(const struct data_want *want, const struct dataset *like);
void data_label_free(struct data_label *l);

/* Takes the memory of a dataset's targets for these, of which there are none yet. */
void data_label_reuse(struct data_label *l, struct dataset *old);

/* Sets the number of targets of each row, which is 1 before; called before the first row.
 * ERR_CONFIG: there are several, and classes are wanted. */
enum err_code data_label_set_targets(struct data_label *l, const struct stream *s, size_t n,
    struct err *e);
/* The next label to be added is that of target k. A row is complete when it has had all of its
 * targets, in any order. */
void data_label_select(struct data_label *l, size_t k);

/* Adds a label of the next row; s is for the place in messages. ERR_FORMAT; ERR_CONFIG: classes are
 * wanted and the labels are real numbers; ERR_LIMIT, ERR_NOMEM. */
enum err_code data_label_number(struct data_label *l, const struct stream *s, double v,
    struct err *e);
enum err_code data_label_text(struct data_label *l, const struct stream *s, const char *text,
    struct err *e);
/* Is the label at p the name of a class, although it has digits alone? It is when it has a leading
 * zero, as 00501. Other text may follow the label. False when the labels are not classes. */
bool data_label_is_code(const struct data_label *l, const char *p);
/* Does the model want the words of a text instead of labels? */
bool data_label_wants_words(const struct data_label *l);
/* Does the model want observations of users and items instead of labels (data_want.pairs)? */
bool data_label_wants_pairs(const struct data_label *l);
/* Do the labels of the rows not matter (data_want.any)? */
bool data_label_is_ignored(const struct data_label *l);
/* Number of rows whose labels have been added. */
size_t data_label_count(const struct data_label *l);

/* Adds the labels of a dataset that was read like the training data. ERR_NOMEM. */
enum err_code data_label_append(struct data_label *l, const struct dataset *d, struct err *e);
/* Drops the labels after the labels of the first n rows, of rows that are dropped or not complete,
 * and the class that the last one has added. */
void data_label_drop(struct data_label *l, size_t n);

/* The spread of target k of all rows, also of those that were dropped; NULL: it is not known. */
struct data_spread;
const struct data_spread *data_label_spread(const struct data_label *l, size_t k);

/* The real targets of all rows as they were read, in double, until data_label_free; NULL: they are
 * not real targets of training data, or not known so exactly. */
const double *data_label_exact(const struct data_label *l);
/* Sorts the classes, and hands y or label, the classes and their names over to d. ERR_FORMAT, for
 * example when `two` finds another number of classes. */
enum err_code data_label_finish(struct data_label *l, struct dataset *d, struct err *e);

#endif

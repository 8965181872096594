#ifndef DATA_LABEL_H
#define DATA_LABEL_H

#include <stddef.h>

#include "base/err.h"
#include "data/data.h"
#include "format/stream.h"

/* The targets of the rows read so far: real numbers, or classes, which are
 * numbered as they come and sorted at the end.  "+1", "1" and "1.0" are one
 * class; text that is no number is the name of one. */
struct data_label;

#define DATA_LABEL_CLASSES_MAX 100000

struct data_label *data_label_new(const struct data_want *want, const struct dataset *like);
void data_label_free(struct data_label *l);

/* The label of the next row; s says where, for the message. */
enum err_code data_label_number(struct data_label *l, const struct stream *s, double v, struct err *e);
enum err_code data_label_text(struct data_label *l, const struct stream *s, const char *text,
                              struct err *e);
/* Are there none, but words of a text? */
bool data_label_wants_words(const struct data_label *l);
size_t data_label_count(const struct data_label *l);

/* Sort the classes and hand y or label, classes and their names to d. */
enum err_code data_label_finish(struct data_label *l, struct dataset *d, struct err *e);

#endif

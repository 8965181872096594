#ifndef DATA_FACTS_H
#define DATA_FACTS_H

#include <jansson.h>

#include "data/data.h"

/* What evaluation data must know of the training's, and a model of its data, without the examples:
 * {"sparse", "cols", "fields", "index_base", "classes"?: [..], "source"}, where a class that is a
 * number is one.  A new reference; NULL where that is not all: for words, numbered data and more
 * than DATA_FACTS_CLASSES classes. */
json_t *data_facts(const struct dataset *d);
#define DATA_FACTS_CLASSES 1000u

/* The other way: a dataset without examples, to be `like`.  ERR_FORMAT for what data_facts has not made. */
enum err_code data_of_facts(const json_t *facts, struct dataset **out, struct err *e);

#endif

/* SPDX-License-Identifier: ISC */
#ifndef WORKER_DATA_FACTS_H
#define WORKER_DATA_FACTS_H

#include "core/json.h"
#include "data/data.h"

/* Describes training data without their examples, as the document of msg/training_facts.h: the
 * properties that evaluation data and models depend on. Pure.
 *
 * A new reference; NULL for numbered data, which need no description. A description may have millions of
 * names (msg/large_description.h). */
json_t *data_facts(const struct dataset *d);

/* Do two descriptions say the same of the data? Their names of files may differ. Pure. */
bool data_facts_are_equal(const json_t *a, const json_t *b);

/* Makes a dataset without examples from such a description, to be passed as `like`. ERR_FORMAT: not
 * a description. */
enum err_code data_of_facts(const json_t *facts, struct dataset **out, struct err *e);

#endif

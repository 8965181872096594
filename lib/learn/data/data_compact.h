/* SPDX-License-Identifier: ISC */
#ifndef DATA_COMPACT_H
#define DATA_COMPACT_H

#include "core/err.h"
#include "data/data_build.h"

/* Turns the ids of the files (in d->col or b->raw) into those of the dataset: subtracts the index
 * base, lists the distinct ids ascending in d->id, makes d->col the entries' positions in that
 * list, and sets d->cols. Frees b->raw. ERR_FORMAT, ERR_NOMEM. */
enum err_code data_compact(struct data_build *b, struct err *e);

#endif

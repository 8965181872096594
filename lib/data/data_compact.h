#ifndef DATA_COMPACT_H
#define DATA_COMPACT_H

#include "base/err.h"
#include "data/data_build.h"

/* From the ids as files state them (d->col, or b->raw) to the dataset's: the index
 * base comes off, distinct ids are listed ascending in d->id, entries name them by
 * their place there (d->col), and d->cols is set.  Frees b->raw. */
enum err_code data_compact(struct data_build *b, struct err *e);

#endif

#ifndef CTL_SAVED_H
#define CTL_SAVED_H

#include <stdint.h>

#include "base/err.h"

/* As model_export of work/export.h, from a model file that a run left instead
 * of from living servers; the text is the same.  ERR_NOTFOUND when there is no
 * such file or table. */
enum err_code saved_export(const char *model, const char *table, const char *format, int fd,
                           struct err *e);

/* How many of its dense or sparse values are not finite; -1 when it cannot be
 * read. */
int64_t saved_nonfinite(const char *model);

#endif

/* SPDX-License-Identifier: ISC */
#ifndef SAVED_SAVED_SOURCE_H
#define SAVED_SAVED_SOURCE_H

#include "layout/param_source.h"
#include "saved/saved_model.h"

/* A saved model (saved/saved_model.h) as a source of parameters with constant values. Its files are
 * mapped into memory, and values are used where they lie: a read makes no copy of a dense table,
 * and finds a row by binary search. Beside the pages of the files it takes
 *
 *   an eighth of a byte for each row of sparse tables;
 *   4 bytes for each row, where the rows of a file do not ascend by their ids;
 *   the values of dense tables whose partitions lie in several files of a checkpoint, at
 *   addresses that are not a multiple of 4, or in another type than float32, and the rows of
 *   tables in a delta checkpoint.
 *
 * Opening reads the ids of sparse tables, and checks the first 16 MiB of dense values and of the
 * digests of a checkpoint. The others are checked piece by piece while the model is used, so that
 * it can be used at once. A file that is removed or replaced by another one while it is open stays
 * readable. A file that is cut off or overwritten in place does not: the process gets SIGBUS
 * (saved_source_report_cuts), or reads other values. */

/* Opens the model at a path, with its description. ERR_FORMAT: a row occurs twice; errors of
 * param_source_ops.finish; errors of saved_model_open, of its configuration, ERR_NOMEM. */
enum err_code saved_source_open(const char *path, struct param_source **out, struct err *e);
/* Facts about the model of a source that saved_source_open has made. Borrowed from the source. */
struct saved_about saved_source_about(const struct param_source *s);
/* From now on a file that is cut off while a source reads it ends the process with exit code 1 and a
 * sentence on standard error, in place of SIGBUS: its pages cannot be read, and no call can go on without
 * them. For `main` of a program, before it opens a source. */
void saved_source_report_cuts(void);
/* NULL is fine. */
void saved_source_close(struct param_source *s);

#endif

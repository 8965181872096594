/* SPDX-License-Identifier: ISC */
#ifndef LAYOUT_PARAM_SOURCE_H
#define LAYOUT_PARAM_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "core/json.h"
#include "layout/layout.h"

/* A parameter source gives dense tables whole, and rows of sparse tables, as they are now, with the
 * shapes of the tables and the description of the model. Code that scores examples reads
 * parameters through this interface and does not know which implementation it has:
 *
 *   client/client_source.h   the servers of a living cluster. The values change; a read waits for
 *                            answers.
 *   saved/saved_source.h     a model file or a checkpoint, mapped into memory. The values are
 *                            constant; no call waits for another process.
 *
 * A source reads in two halves, so that the questions to several servers are on their way at the
 * same time: want_dense and want_rows ask, and `wait` returns when all answers have arrived. What
 * they borrow must stay until then. After an error of any of them the reads that are open are
 * forgotten, and nothing is written to their destinations afterwards.
 *
 * Threads: one thread at a time may call a source, and there is no lock. A source has no global
 * state, so a process may have many, each for a thread of its own. Errors are values: a code, and
 * a sentence for the user. */
struct param_source;

/* Takes n rows of a sparse table with their ids, n * cols floats. Both are borrowed for the call. */
typedef enum err_code param_rows_fn(void *ctx, const uint64_t *ids, const float *rows, size_t n,
    struct err *e);

struct param_source_ops {
	/* The shapes of all tables, borrowed. Those of a living cluster may change in `wait` and
	 * in `attend`, but a table stays at its address. */
	const struct layout *(*layout)(const struct param_source *s);
	/* Asks for a whole dense table, rows * cols floats to dst. base: the table as the last read
	 * of it from this source brought it (it may be dst), so that only changes must be sent;
	 * NULL: all values are sent. */
	enum err_code (*want_dense)(struct param_source *s, const struct table *t,
	    const float *base, float *dst, struct err *e);
	/* Asks for n rows of a sparse table, n * cols floats to dst in the order of ids. A row that
	 * does not exist has its initial values. changed: the source may keep copies of rows, and
	 * have only those sent again that have changed. */
	enum err_code (*want_rows)(struct param_source *s, const struct table *t,
	    const uint64_t *ids, size_t n, bool changed, float *dst, struct err *e);
	/* Waits for everything that was asked for. */
	enum err_code (*wait)(struct param_source *s, struct err *e);
	/* To be called now and then by a thread that computes for long. Attends to the cluster; or
	 * checks a part of the values, with the errors of `finish`. */
	enum err_code (*attend)(struct param_source *s, struct err *e);

	/* Calls fn with all rows of a sparse table, in pieces and in any order, each row once. Ends with
	 * the first error of fn; ERR_NOMEM. Of a
	 * living cluster, rows that change meanwhile are given as they were before or after. */
	enum err_code (*each_row)(struct param_source *s, const struct table *t, param_rows_fn *fn,
	    void *ctx, struct err *e);

	/* Says which of n rows of a sparse table exist, and writes the values of those to dst, in the
	 * order of ids, like want_rows, but at once; dst NULL: the values are not wanted. NULL: the
	 * source does not know, and all count as existing. ERR_NOTREADY, ERR_NOMEM. */
	enum err_code (*find_rows)(struct param_source *s, const struct table *t,
	    const uint64_t *ids, size_t n, bool *there, float *dst, struct err *e);

	/* Only a source with constant values has these; NULL otherwise. A server can begin from such a
	 * source. */

	/* Lends a whole dense table, in place of want_dense and `wait`: rows * cols floats, which
	 * stay until the source is closed. */
	enum err_code (*lend_dense)(struct param_source *s, const struct table *t,
	    const float **out, struct err *e);
	/* Completes the checks of the values. To be called before results count. ERR_NONFINITE: a
	 * dense table has a value that is not a finite number. ERR_FORMAT: a file is damaged. What
	 * was made of the values is worthless then. */
	enum err_code (*finish)(struct param_source *s, struct err *e);
	/* Frees the source, and all that it has lent. */
	void (*close)(struct param_source *s);
};

/* The first member of each implementation. */
struct param_source {
	const struct param_source_ops *ops;
	/* The configuration of the cluster or of the model, with its job, and the description of
	 * the training data (msg/training_facts.h; NULL: not known). Borrowed from the owner of the
	 * source. Both are NULL in a worker, which knows its job. */
	const json_t *config, *facts;
};

/* Do the values never change? */
static inline bool param_source_is_constant(const struct param_source *s)
{
	return s->ops->lend_dense != NULL;
}

/* Calls `finish`, if the source has it. Values of other sources are checked when they are read. */
static inline enum err_code param_source_finish(struct param_source *s, struct err *e)
{
	return s->ops->finish ? s->ops->finish(s, e) : ERR_OK;
}

#endif

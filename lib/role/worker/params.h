/* SPDX-License-Identifier: ISC */
#ifndef WORKER_PARAMS_H
#define WORKER_PARAMS_H

#include "client/client.h"
#include "layout/param_source.h"
#include "worker/batches.h"
#include "worker/job.h"

/* Rows of a sparse table that a step needs; ids ascend. */
struct params_rows {
	uint64_t *id;
	size_t n;
};

/* A worker's copy of the parameters and the room for their gradient: dense tables whole, of sparse
 * tables the rows that a batch touches.
 *
 * Two buffers a dense table: `w` (current) and `good` (the last good ones). After params_mark_good
 * the next pull swaps them and fills the other, so keeping the last good parameters costs memory,
 * but no copy.
 *
 * One thread, the training thread. */
struct params {
	const struct job *job;
	/* Steps are pulled and pushed by the client; NULL: the parameters are only read for scores */
	struct client *client;
	struct param_source *source; /* the present values, for scores */
	const struct table **table;  /* in the layout, by the model's table */
	/* w of dense tables is lent by a source with constant values. g of dense tables lies in
	 * `reduced`, or in memory of the client (client_gradients). */
	float **w, **g;
	/* g of the tables that workers reduce, one after the other; NULL: there are none */
	float *reduced;
	size_t nreduced; /* floats in it */
	size_t *cap;     /* floats in w[i] and g[i] */
	/* by table: rows to use instead of the rows that the batch touches; NULL: the rows of the
	 * batch */
	const struct params_rows *rows;
	/* by table: rows that params_request_rows has requested for rows_asked_step; n 0: none. Their
	 * values are in next_w[i], which has next_cap[i] floats. */
	struct params_rows *next;
	float **next_w;
	size_t *next_cap;
	uint64_t rows_asked_step;
	struct row_counts counts; /* of the batch that is being pushed */
	uint64_t *first;          /* the numbers 0 .. nfirst-1 */
	size_t nfirst;
	/* Dense tables as of good_step, the last step with a finite loss. */
	float **good;
	uint64_t good_step;
	bool w_is_good; /* w is good: the next pull must go into the other buffer */
	bool has_good;  /* `good` has values */
	bool checked;   /* values of the dense tables, once (params_check_values) */
	bool pulled;    /* the dense tables have been pulled at least once */
	/* params_request_ahead has requested the dense tables of asked_step */
	bool asked;
	uint64_t asked_step;
	/* between the swap and the end of the pull: the last pulled values are in good, not in w */
	bool swapped;
	/* of the last gradient given to params_clip; negative: none yet */
	double norm;
	bool norm_wanted; /* measure the next one, even if nothing is clipped */
	int64_t reading;  /* ns that params_pull_scores has taken so far */
};

/* Finds the model's tables in the layout of the source and allocates room; borrows the dense tables
 * of a source with constant values. ERR_NOTFOUND; ERR_CONFIG: a table has another shape than in the
 * model; ERR_NOMEM; errors of the source. job, client (NULL: no steps) and source are borrowed; call
 * params_new before the client's first pull or push, because it allocates the client's gradients. */
enum err_code params_new(const struct job *job, struct client *client, struct param_source *source,
    struct params *out, struct err *e);
void params_release(struct params *p);

/* Are there sparse rows to pull and push for this batch? */
bool params_has_rows(const struct params *p, const struct batch *b);
/* The rows of sparse table i that a step needs: returns their number, *id their ids. */
size_t params_rows_of(const struct params *p, const struct batch *b, size_t i, const uint64_t **id);
/* The number of updates of all dense tables, as far as the last pull tells: it grows when anybody
 * has trained, and stays 0 where the model has sparse tables alone. */
uint64_t params_updates(const struct params *p);
/* Requests what a batch needs at a step (or CLIENT_NOW: at any step) and waits for it. dense false:
 * the dense tables are here already. Unless it is false, a step that needs no values pulls an
 * unused row, and so waits as others do. */
enum err_code params_pull(struct params *p, const struct batch *b, uint64_t step, bool dense,
    struct err *e);
/* As params_pull at CLIENT_NOW, of what the scores of a batch need (model_forward). scored false:
 * the rows that all scores use (row_domain.scored) are here already. Rows that still have their
 * random initial values are given as 0: an id that no example has trained adds nothing to a
 * score. */
enum err_code params_pull_scores(struct params *p, const struct batch *b, bool dense, bool scored,
    struct err *e);
/* After params_mark_good: requests the dense tables of a later step; params_pull of that step then
 * waits for them. early: sent before this step's push, and each partition answers as soon as it is
 * ready. */
enum err_code params_request_ahead(struct params *p, uint64_t step, bool early, struct err *e);
/* Requests the rows of sparse tables that batch b needs at `step`, the step after the present one, before
 * this step's push; each partition answers as soon as it is ready. params_pull of that step then takes
 * them, if its batch has the same rows. Not with a relay. ERR_NOMEM, and errors of the client. */
enum err_code params_request_rows(struct params *p, const struct batch *b, uint64_t step,
    struct err *e);
/* The loss at this step was finite: the parameters that were pulled for it count as good, until
 * rows of a later step do. */
void params_mark_good(struct params *p, uint64_t step);
/* Writes the last good parameters as safetensors to path, which appears whole or not at all.
 * ERR_NOTFOUND when there are none, a table is sparse, or a value is not finite. */
enum err_code params_save_good(const struct params *p, const char *path, struct err *e);
/* Checks that the values which the last pull brought for this batch are finite: values of dense
 * tables once, rows of sparse tables each time. ERR_NONFINITE names the table and the row. */
enum err_code params_check_values(struct params *p, const struct batch *b, struct err *e);
/* As params_check_values, of what params_pull_scores has pulled with the same arguments. */
enum err_code params_check_scored(const struct params *p, const struct batch *b, bool dense,
    bool scored, struct err *e);
/* Number of floats of table i in w[i] and g[i] for the batch: all of a dense table, the rows of the
 * batch of a sparse one. */
size_t params_floats(const struct params *p, const struct batch *b, size_t i);
/* Pushes the gradient in g, except frozen tables and those that workers reduce. The client borrows
 * g and w until the receipts. */
enum err_code params_push(struct params *p, const struct batch *b, uint64_t step, struct err *e);
/* Pushes rows, as client_push_rows does, but only to the partitions that lack the present batch of f
 * (batches_is_taken). */
enum err_code params_push_lacking_rows(struct client *c, const struct batches *f,
    const struct row_push *push, struct err *e);
/* Pushes the gradient in g only to the partitions that lack this batch (batches_is_taken). */
enum err_code params_push_lacking(struct params *p, const struct batch *b, const struct batches *f,
    uint64_t step, struct err *e);
/* Scales g down to the norm `most` over all tables, and stores in p->norm what it was before. A
 * gradient that is not finite stays as it is. */
void params_clip(struct params *p, const struct batch *b, double most);

#endif

#ifndef WORK_PARAMS_H
#define WORK_PARAMS_H

#include "client/client.h"
#include "work/job.h"

/* Of a sparse table; id ascends. */
struct params_rows {
	uint64_t *id;
	size_t n;
};

/* A worker's copy of the parameters and room for the gradient: dense tables
 * whole, of sparse ones the rows that a batch touches. */
struct params {
	const struct job *job;
	struct client *client;
	const struct table **table;     /* in the layout, by model table */
	float **w, **g;
	float *flat;                    /* where g of reduced tables lies, one after the other; NULL: there are none */
	size_t nflat;                   /* floats in it */
	size_t *cap;                    /* floats in w[i] and g[i] */
	const struct params_rows *rows; /* by table, instead of those that a batch touches; NULL: those */
	/* Dense tables as they were at the last step that was good. */
	float **kept;
	uint64_t kept_step;
	bool fresh;                     /* w is good: the next pull goes beside it */
	bool any;                       /* something is kept */
	bool pulled;                    /* the dense tables have been, once at least */
	bool asked;                     /* for that step, the dense tables are on their way already */
	uint64_t asked_step;
	bool aside;                     /* while pulling: what came last lies in kept, not in w */
	double norm;                    /* of the last gradient that params_clip was given; negative: none yet */
	bool norm_wanted;               /* of the next one, even where nothing is clipped */
};

/* Finds the model's tables in the client's layout. */
enum err_code params_new(const struct job *job, struct client *client, struct params *out, struct err *e);
void params_release(struct params *p);

/* Are there rows to pull and push for this batch? */
bool params_has_rows(const struct params *p, const struct batch *b);
/* Ask for what a batch needs at a step (or CLIENT_NOW) and wait for it.
 * dense false: the dense tables are here already. */
enum err_code params_pull(struct params *p, const struct batch *b, uint64_t step, bool dense, struct err *e);
/* After params_good: ask for the dense tables of the next step, which params_pull of that step then waits for.  early:
 * before the push, each partition as soon as it is there. */
enum err_code params_ask(struct params *p, uint64_t step, bool early, struct err *e);
/* The loss at this step was finite: keep what was pulled for it until a later
 * step is good.  Costs no copy: the next pull goes to the other place. */
void params_good(struct params *p, uint64_t step);
/* The last good parameters as safetensors to path, which appears whole or not
 * at all.  ERR_NOTFOUND when nothing is kept, a table is sparse, or a kept value
 * is not finite. */
enum err_code params_save_good(const struct params *p, const char *path, struct err *e);
/* Floats of table i that concern the batch, in w[i] and g[i]: all of a dense table,
 * of a sparse one the rows that it touches. */
size_t params_floats(const struct params *p, const struct batch *b, size_t i);
/* Push the gradient in g. */
enum err_code params_push(struct params *p, const struct batch *b, uint64_t step, struct err *e);
/* Scale g down to the norm `most` over all tables; non-finite stays.  Keeps the norm as it was. */
void params_clip(struct params *p, const struct batch *b, double most);

#endif

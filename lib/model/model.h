#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/batch.h"
#include "base/err.h"

/* Loss and gradient of a batch.  A model is a fixed list of parameter tables
 * and the arithmetic on them; the parameters themselves belong to the caller.
 * A struct model has scratch memory: one thread at a time. */
struct model;

enum model_task {
	MODEL_REAL,             /* batch->y, any number */
	MODEL_TWO,              /* batch->y, 0 or 1 */
	MODEL_CLASSES,          /* batch->label, 0 .. classes-1 */
	MODEL_WORDS,            /* none: the words of a text foretell each other */
	MODEL_OUTSIDE,          /* nothing that is known here */
};

enum model_init { INIT_ZEROS, INIT_GLOROT };

struct model_table {
	char name[64];          /* as those of tables (coord/layout.h) */
	bool sparse;
	size_t rows, cols;      /* row-major; sparse: rows is 0, cols a row's width */
	enum model_init init;   /* what job.init "auto" means */
	float init_scale;       /* glorot: uniform in +-init_scale = sqrt(6 / (fan_in + fan_out)) */
	bool decay;             /* l1 and l2 apply (not to biases) */
};

/* A program, or another library, that has the arithmetic of model custom.  As model_grad; a
 * loss that is not finite when it fails, which it tells otherwise. */
struct model_outside {
	void *ctx;
	double (*gradient)(void *ctx, const struct batch *b, const float *const params[], float *const grads[]);
};

/* "w:784x10:glorot,b:10:nodecay": NAME:ROWS or NAME:ROWSxCOLS, then glorot, nodecay or sparse
 * (":" before each; of a sparse one rows is a hint), separated by commas.  *out, *n tables, to be freed.  ERR_CONFIG. */
enum err_code model_spec_parse(const char *text, struct model_table **out, size_t *n, struct err *e);

/* What the data are like, and what the job asks for. */
struct model_shape {
	size_t features;        /* dense: columns; sparse: not used */
	size_t classes;         /* 0 for MODEL_REAL */
	bool sparse;
	const size_t *hidden;   /* widths of the hidden layers */
	size_t nhidden;
	size_t fields;          /* of the data: fields that entries are of, 0 without; dense: columns */
	size_t factors;         /* width of a feature's vector, at least 1 */
	const char *activation; /* "relu" or "tanh"; NULL is relu */
	/* Of model custom alone: */
	const struct model_table *table;
	size_t ntables;
	const struct model_outside *outside;    /* NULL: it has no gradient here */
};

/* The i-th kind of model, or by name; NULL past the last, or for an unknown
 * name.  The two functions, and model_spec_parse, are in objects of their own that need no BLAS. */
struct model_info {
	const char *name, *help, *tables;
	enum model_task task;
};
const struct model_info *model_info_at(size_t i);
const struct model_info *model_info_find(const char *name);

/* ERR_CONFIG, in words of the cluster file, when there is no such model or it
 * does not fit the shape.  The shape is copied. */
enum err_code model_new(const char *name, const struct model_shape *shape, struct model **out,
                        struct err *e);
void model_free(struct model *m);

size_t model_tables(const struct model *m, const struct model_table **out);
enum model_task model_task(const struct model *m);
/* Scores an example has: 1, or one a class. */
size_t model_outputs(const struct model *m);

/* Scratch memory for batches of up to `rows` examples.  ERR_NOMEM.  Calls with
 * more examples than were ever reserved grow it, and abort where it is lacking. */
enum err_code model_reserve(struct model *m, size_t rows, struct err *e);

/* Whether the batch fits: dense or sparse, columns, targets in range.  Readers
 * cannot know that a second file has more classes: call it for each batch that
 * comes from outside, before the two functions below, which trust it. */
enum err_code model_check(const struct model *m, const struct batch *b, struct err *e);

/* The same of what models see of it: its targets are not looked at. */
enum err_code model_check_inputs(const struct model *m, const struct batch *b, struct err *e);

/* Mean loss over the examples, and its gradient: grads[i] is written whole.
 * params[i] and grads[i] belong to table i.  Dense: rows * cols floats.  Sparse:
 * (b->nids, cols), row k for feature b->id[k].  No examples: 0 and zeroes. */
double model_grad(struct model *m, const struct batch *b, const float *const params[],
                  float *const grads[]);

/* scores (b->rows, outputs), by the task: the value; the probability of
 * class 1; the probability of each class; of words the loss.  Returns the loss
 * summed over the examples (for a batch without targets, y and label NULL: 0). */
double model_forward(struct model *m, const struct batch *b, const float *const params[],
                     float *scores);

#endif

/* SPDX-License-Identifier: ISC */
#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H

#include <stdbool.h>
#include <stddef.h>

#include "core/err.h"
#include "data/batch/row_domain.h"
#include "loss/loss.h"

/* Computes the loss and gradient of a batch. A model is a fixed list of parameter tables and the
 * arithmetic on them; the parameters belong to the caller. The kinds of models are listed in
 * model.def; model_kind.h says what one provides.
 *
 * Life: model_new -> model_reserve -> model_check, model_grad, model_forward, ... -> model_free. A
 * struct model has scratch memory: one thread at a time. */
struct model;

enum model_task {
	MODEL_REAL,    /* batch->y, any numbers */
	MODEL_TWO,     /* batch->y, 0 or 1 */
	MODEL_CLASSES, /* batch->label, 0 .. classes-1 */
	MODEL_WORDS,   /* no targets: words of a text predict each other */
	MODEL_PAIRS,   /* batch->y, 1 for items that are to be ranked before the others of a user */
	MODEL_OUTSIDE, /* known only to a user's program */
};

/* INIT_MEAN: all values are the mean of the training targets (0 for classes). */
enum model_init { INIT_ZEROS, INIT_GLOROT, INIT_MEAN };

struct model_table {
	char name[64]; /* as table names (layout/layout.h) */
	bool sparse;
	const struct row_domain *domain; /* of the row ids; NULL: the table is dense */
	size_t rows, cols;               /* row-major; sparse: rows is 0, cols a row's width */
	enum model_init init;            /* the meaning of job.init "auto" */
	float init_scale; /* glorot: uniform in +-init_scale = sqrt(6 / (fan_in + fan_out)) */
	bool decay;       /* l1 and l2 apply (false for biases) */
};

/* Computes model custom: a program or another library. As model_grad; when it fails, it returns a
 * loss that is not finite and reports the error in its own way. */
struct model_outside {
	void *ctx;
	double (*gradient)(void *ctx, const struct batch *b, const float *const params[],
	    float *const grads[]);
};

/* Parses "w:784x10:glorot,b:10:nodecay": NAME:ROWS or NAME:ROWSxCOLS, then any of glorot, nodecay
 * and sparse (":" before each; of a sparse table rows is a hint), separated by commas. *out has *n
 * tables, to be freed. ERR_CONFIG. */
enum err_code model_spec_parse(const char *text, struct model_table **out, size_t *n,
    struct err *e);

/* The shape of the data and what the job configures. */
#define MODEL_NO_PLACE UINT16_MAX
struct model_shape {
	size_t features; /* dense: columns; sparse: not used */
	size_t classes;  /* 0 for MODEL_REAL */
	size_t targets;  /* of each example, in batch->y; 0: one */
	bool sparse;
	const size_t *hidden; /* widths of the hidden layers */
	size_t nhidden;
	size_t fields; /* number of fields of the data, 0 without; dense: columns */
	/* Features below this are columns of numbers (data_schema.h), in sparse data; 0: no feature is
	 * known to be one. */
	size_t numbers;
	/* Fields that have categories, and for each field its place among them, or
	 * MODEL_NO_PLACE. place NULL: all fields have some. */
	size_t places;
	const uint16_t *place;
	size_t factors;       /* width of a feature's vector, at least 1 */
	size_t cross;         /* cross layers, for the models that have them */
	const size_t *bottom; /* widths of the hidden layers that see the numbers */
	size_t nbottom;
	/* Classes drawn for a batch (data_classes.h), 0: it uses all classes; or, with
	 * MODEL_DRAWS_ITEMS, items drawn for each example. */
	size_t negatives;
	/* The number of items that may be drawn (data_pairs.h); 0: not known, and nothing is trained. */
	size_t items;
	const char *activation; /* "relu" or "tanh"; NULL is relu */
	const char *loss;       /* as job.loss; NULL is "auto" */
	/* weight of each class, in gradients alone; NULL: all are 1. Ignored without classes. */
	const float *class_weight;
	/* MODEL_REAL: how tables fit each target, unless the loss forbids it, while batches,
	 * scores, losses and their arguments are in the units of y. NULL: as it is. */
	const struct target_scaling *scaling;
	/* For model custom only: */
	const struct model_table *table;
	size_t ntables;
	const struct model_outside *outside; /* NULL: it has no gradient here */
};

/* The meaning of a table's rows, or of its columns, for names in exports. */
enum model_axis {
	MODEL_AXIS_NOTHING,   /* without a name */
	MODEL_AXIS_FEATURES,  /* the features of the data, by their numbers */
	MODEL_AXIS_CLASSES,   /* the classes of the labels */
	MODEL_AXIS_INTERCEPT, /* the one row of a bias */
	/* Columns have these, in tables whose rows belong to something: */
	MODEL_AXIS_OUTPUTS,       /* its weight in each output of the model, before the link */
	MODEL_AXIS_VECTOR,        /* its vector */
	MODEL_AXIS_WEIGHT_VECTOR, /* its weight, as of OUTPUTS, and then its vector */
};
struct model_axes {
	const char *table;
	enum model_axis rows, columns;
};
#define MODEL_AXES 3 /* tables of a model with such a meaning, at most */

/* The i-th kind of model, or the one of a name; NULL past the last, or for an unknown name. These
 * functions and model_spec_parse are in objects of their own that need no BLAS. */
struct model_info {
	const char *name, *help, *tables;
	/* The job's keys that the model decides unless the user does, "optimizer=adagrad lr=0.1
	 * ...", as --set takes them; "" where nothing is special. job.lr and the rule's other
	 * constants hold with the optimizer that is beside them. */
	const char *defaults;
	/* Small data are passed over more often than the default of job.epochs says, until this
	 * many examples have been used; 0: they are not. */
	uint64_t enough;
	enum model_task task; /* with its own loss */
	const char *loss;     /* its own; NULL: it is none of loss.def, and no other may be named */
	/* MODEL_TAKES_ of other losses, MODEL_TAKES_SEVERAL, MODEL_SCALES_REAL, MODEL_PRIOR,
	 * MODEL_PAIRS_ENTRIES, MODEL_LEARNS_BY_USER, MODEL_NEEDS_FIELDS, MODEL_DRAWS_ITEMS */
	unsigned takes;
	/* The format of data that look like a table, unless their path says another one
	 * (data_want.tables); NULL: that of a table. */
	const char *reads;
	/* Each feature has a vector of numbers, which overfits from the second pass on over data
	 * with few examples of each feature: Zhang et al., Towards Understanding the Overfitting
	 * Phenomenon of Deep Click-Through Rate Models, CIKM 2022 (arXiv:2209.06053). */
	bool vectors;
	struct model_axes axes[MODEL_AXES]; /* ends early with a table of NULL */
};
const struct model_info *model_info_at(size_t i);
const struct model_info *model_info_find(const char *name);
/* The axes of a model's table; MODEL_AXIS_NOTHING twice for a table without any. */
struct model_axes model_info_axes(const struct model_info *info, const char *table);

/* Targets of the losses that a model can have. */
enum {
	MODEL_TAKES_REAL = 1 << LOSS_REAL,
	MODEL_TAKES_TWO = 1 << LOSS_TWO,
	MODEL_TAKES_CLASSES = 1 << LOSS_CLASSES,
	/* Parameters are learned in steps of a size that does not depend on the data, so that real
	 * targets must have a usual size. */
	MODEL_SCALES_REAL = 1 << 8,
	/* By default the weights have a prior of variance 1, as scikit-learn's
	 * LogisticRegression(C=1): l2 is 1 by the number of examples, and the l2 of the defaults
	 * only where that is not known. */
	MODEL_PRIOR = 1 << 9,
	/* Examples may have several real targets. */
	MODEL_TAKES_SEVERAL = 1 << 10,
	/* Each pair of the entries of an example costs time, so that rows of tables are sparse,
	 * with their columns as fields. */
	MODEL_PAIRS_ENTRIES = 1 << 11,
	/* It learns in place (model_learn) from examples that have a user first, so that many
	 * examples of few users touch few rows. */
	MODEL_LEARNS_BY_USER = 1 << 12,
	/* Rows of tables are sparse, with their columns as fields, however few features they have. */
	MODEL_NEEDS_FIELDS = 1 << 13,
	/* MODEL_PAIRS: job.negatives says how many items are drawn for an example, which is one
	 * otherwise. */
	MODEL_DRAWS_ITEMS = 1 << 14,
};

/* The loss of a model that `text` (job.loss) names, and the task that the model has with it. NULL
 * or "auto": the model's own. loss->ops NULL: it is none of loss.def. ERR_CONFIG, in words of the
 * cluster file. */
enum err_code model_info_loss(const struct model_info *info, const char *text,
    struct loss_spec *loss, enum model_task *task, struct err *e);

/* The kinds of models that a program can compute: one entry a line of model.def, in its order; NULL
 * where the program has no arithmetic for it. Each program hands one of these two constant lists to
 * model_new, and thereby chooses what it links: model_kinds_all needs BLAS, model_kinds_custom,
 * which has model custom alone, does not. */
struct model_kind;
extern const struct model_kind *const model_kinds_all[], *const model_kinds_custom[];

/* Makes a model of a kind in `kinds` (one of the lists above). ERR_CONFIG, in words of the cluster
 * file, when there is no such model or it does not fit the shape; ERR_UNSUPPORTED when `kinds` has
 * no arithmetic for it. The shape is copied. */
enum err_code model_new(const struct model_kind *const *kinds, const char *name,
    const struct model_shape *shape, struct model **out, struct err *e);
/* Frees the scratch memory, too; NULL is fine. Parameters stay the caller's. */
void model_free(struct model *m);

/* Number of parameter tables; *out points to them, borrowed from the model. Their order is that of
 * params and grads below. */
size_t model_tables(const struct model *m, const struct model_table **out);
enum model_task model_task(const struct model *m);
/* The quantile that the scores estimate; 0: they estimate none. */
double model_quantile(const struct model *m);
/* Are the scores probabilities of the classes? */
bool model_gives_probabilities(const struct model *m);
/* Does the model use the fields of sparse data? */
bool model_uses_fields(const struct model *m);
/* Number of scores an example: one for each target, or one for each class. */
size_t model_outputs(const struct model *m);

/* Allocates scratch memory for batches of up to `rows` examples. ERR_NOMEM. Calls with more
 * examples let it grow, and abort without memory. */
enum err_code model_reserve(struct model *m, size_t rows, struct err *e);

/* Does the batch fit the model: dense or sparse, columns, targets in range? Call it for each batch
 * from outside before the two functions below, which trust it: readers cannot know that a second
 * file has more classes. ERR_FORMAT, ERR_LIMIT. */
enum err_code model_check(const struct model *m, const struct batch *b, struct err *e);

/* As model_check, but ignores the targets. */
enum err_code model_check_inputs(const struct model *m, const struct batch *b, struct err *e);

/* Returns the sum over the examples of their loss times their weight, divided by their number, and
 * writes its gradient to grads, whole. params[i] and grads[i] belong to table i. Dense: rows * cols
 * floats. Sparse: (n, cols), a row for each of the n ids that the table's domain lists for the
 * batch. Without examples: 0 and zeroes. */
double model_grad(struct model *m, const struct batch *b, const float *const params[],
    float *const grads[]);

/* Changes parameters in place, for model_learn. `row` gets the number of an example in the batch, and its
 * gradient g of row `row` of table `table`, which begins at w: a whole row each. */
struct model_update {
	void (*row)(void *ctx, size_t example, size_t table, size_t row, float *w, const float *g);
	void *ctx;
	/* `row` will be called for this row after a few examples: loads what it needs beside w into the cache
	 * of the processor, in two stages, 0 and then 1. NULL: there is nothing to load. */
	void (*expect)(const void *ctx, size_t table, size_t row, unsigned stage);
};

/* Can the model learn from the examples of sparse data one after another (model_learn)? */
bool model_learns(const struct model *m);
/* Trains on the examples of a sparse batch one after another, in place: calls update->row for each
 * row that an example touches, once, with the gradient at the parameters that the examples before it have
 * left. This is model_grad of batches of one example, without a gradient of the whole batch. Returns
 * the sum over the examples of their loss times their weight. It stops after the first example whose
 * loss is not finite as a float, and changes no parameters for it. Only if model_learns. */
double model_learn(struct model *m, const struct batch *b, float *const params[],
    const struct model_update *update);

/* Writes scores (b->rows, outputs): by the task the value of each target; the probability of class
 * 1; the probability of each class; for words the loss. params[i] is as for model_grad, or, where
 * the table's domain has `scored`, all of these rows in order; rows that a sampler has chosen for
 * the batch have no effect. Returns the loss times the weight, summed over the examples; 0 for a
 * batch without targets (y and label NULL). */
double model_forward(struct model *m, const struct batch *b, const float *const params[],
    float *scores);

/* Are the scores sums of parts, one for each entry of an example, before the link (such as the logistic
 * function) makes probabilities of them? */
bool model_has_parts(const struct model *m);
/* The parts of the scores of example r: part (n, outputs) of its n entries (model/entries.h), and base
 * (outputs), which belongs to none. base plus all parts is the score before the link, in the units of the
 * targets where there is no link. A product of two features belongs to both by halves. Only if
 * model_has_parts. */
void model_parts(struct model *m, const struct batch *b, size_t r, const float *const params[],
    double *part, double *base);

#endif

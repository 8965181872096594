/* SPDX-License-Identifier: ISC */
#ifndef MODEL_FACTORS_H
#define MODEL_FACTORS_H

#include "model/entries.h"
#include "model/model_kind.h"

/* Models that compute one number f an example, from a sparse table "v", whose rows have a feature's
 * weight and factors, and a bias "b". The model's loss acts on f. A model_NAME.c gives a struct
 * factors and calls these functions. */
struct factors {
	/* f without the bias. m->scratch must stay until `spread` of the same example. */
	double (*score)(const struct model *m, const struct entries *x, const float *v);
	/* Adds delta times the gradient of f to g, which has the layout of v. */
	void (*spread)(const struct model *m, const struct entries *x, const float *v, float delta,
	    float *g);
	/* The parts of f: part[i] of entry i. A product of two entries belongs to both by halves. NULL: only
	 * other functions of the model use this struct. */
	void (*parts)(const struct model *m, const struct entries *x, const float *v, double *part);
};

/* Weights, and products of all pairs of features (Rendle, "Factorization Machines", 2010, lemma
 * 3.1), with shape.factors factors: sum_i w_i x_i + 1/2 sum_k ((sum_i v_ik x_i)^2 - sum_i v_ik^2
 * x_i^2). Scratch: a float for each factor. */
extern const struct factors factors_pairs;
/* The weights alone, in tables of any width. */
double factors_linear(const struct entries *x, size_t width, const float *v);
void factors_linear_spread(const struct entries *x, size_t width, float delta, float *g);

/* Adds tables "v" of `width` columns and, if the model has no biases of its own, "b". */
void factors_plan(struct model *m, size_t width, bool bias);
/* Accepts all shapes. */
enum err_code factors_fit(const struct model_shape *shape, struct err *e);
/* As model_grad and model_forward. */
double factors_grad(struct model *m, const struct factors *f, const struct batch *b,
    const float *const params[], float *const grads[]);
double factors_forward(struct model *m, const struct factors *f, const struct batch *b,
    const float *const params[], float *scores);
/* As model_kind.parts. */
void factors_parts(const struct factors *f, const struct model *m, const struct batch *b, size_t r,
    const float *const params[], double *part, double *base);
/* As model_learn, with factors_pairs. Scratch: 2 * shape.factors + 1 floats for an example. */
double factors_learn_pairs(struct model *m, const struct batch *b, float *const params[],
    const struct model_update *update);

/* The weights, and the products of all pairs, of table 0, as factors_pairs computes them: (N, 1). The
 * vectors of the entries, times their values, (N, K, factors), go to *vectors. */
const char *factors_graph_pairs(const struct model *m, const struct graph *g,
    const char **vectors);

/* Zeroes the gradient g of a table that has a row for each feature before it is added to. */
void factors_clear(const struct model_table *table, const struct batch *b, float *g);

/* Adds the table `name`, which has a row for each feature. Its first values are random and small,
 * so that vectors differ. */
void factors_add_vectors(struct model *m, const char *name, size_t width);

#endif

#ifndef MODEL_FACTORS_H
#define MODEL_FACTORS_H

#include "model/entries.h"
#include "model/model_kind.h"

/* Models that are one number f an example, of a sparse table "v", whose rows have a feature's weight
 * and its factors, and of a bias "b".  By the task: real targets with the loss (y - f)^2 / 2, or two
 * classes with the negative log likelihood of sigmoid(f). */
struct factors {
	/* f without the bias; m->scratch stays until the next call of the one below. */
	double (*score)(const struct model *m, const struct entries *x, const float *v);
	/* Adds its gradient times delta to g, which is laid out as v. */
	void (*spread)(const struct model *m, const struct entries *x, const float *v, float delta, float *g);
};

/* The weights, and the products of all pairs of features (Rendle, "Factorization Machines", 2010,
 * lemma 3.1), of shape.factors: sum_i w_i x_i + 1/2 sum_k ((sum_i v_ik x_i)^2 - sum_i v_ik^2 x_i^2).
 * Scratch: a float for each factor. */
extern const struct factors factors_pairs;
/* The weights alone, of tables of any width. */
double factors_linear(const struct entries *x, size_t width, const float *v);
void factors_linear_spread(const struct entries *x, size_t width, float delta, float *g);

/* Tables "v" of `width` columns, and "b" unless the model has biases of its own; one output. */
void factors_plan(struct model *m, size_t width, bool bias);
/* ERR_CONFIG unless the data have what the task wants. */
enum err_code factors_fit(const struct model_shape *shape, const char *model, bool two, struct err *e);
double factors_grad(struct model *m, const struct factors *f, const struct batch *b, const float *const params[],
                    float *const grads[]);
double factors_forward(struct model *m, const struct factors *f, const struct batch *b, const float *const params[],
                       float *scores);

/* By the task, of f: an example's loss, d loss / d f, and the score that is shown. */
double factors_loss(const struct model *m, double f, double y);
double factors_slope(const struct model *m, double f, double y);
float factors_shown(const struct model *m, double f);
/* "v" of grads is written whole: with zeroes first. */
void factors_clear(const struct model *m, const struct batch *b, float *g);

#endif

/* SPDX-License-Identifier: ISC */
#ifndef OPTIM_OPTIM_H
#define OPTIM_OPTIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Update rules: how a gradient changes the parameters. optim.def lists them. Below, g is the
 * batch's mean gradient (struct optim_gradient) and, where decay applies, after adding l2 * w[i];
 * adamw and ftrl use l2 in their own way. Every operation rounds once, in a fixed order, so that
 * replicas of a partition stay bit-identical on different machines. No state here: the caller owns
 * parameters and optimizer state ("vectors").
 *
 * The constants of adagrad, rowwise_adagrad, dog and ftrl are meant for one example at a time, so
 * they take the sum of the examples' gradients, which is `examples` times the mean: then the same
 * constants mean the same for every batch. The sum of their squares is not known of a batch; the
 * square of the sum stands for it. The two are equal for a parameter that one example of the batch
 * touches, and in expectation where the gradients have mean 0. Where they have not, the square of
 * the sum is what the examples of a batch should count for, because all were computed at the same
 * parameters: H. B. McMahan and M. Streeter, Delay-Tolerant Algorithms for Asynchronous Distributed
 * Online Learning, NIPS 2014, section 3, adds 2 g g' to the sum of squares for each pair of
 * gradients of which neither has seen the other. */
enum { OPTIM_VECTORS_MAX = 3 };

enum optim_id {
#define RULE(name, number) OPTIM_ID_##name = number,
#include "optim/optim.def"
#undef RULE
};

struct optim_hyper {
	float lr; /* already multiplied by the schedule's factor; ftrl's alpha */
	float momentum;
	float beta1, beta2;
	float eps;     /* above 0 for the rules that use it */
	float initial; /* initial accumulator of adagrad and rowwise_adagrad */
	float rho;     /* rmsprop's decay of the mean square */
	float ftrl_beta;
	float l1, l2; /* l2 is adamw's weight decay */
};

/* Fields of optim_hyper that a rule reads, besides lr and l2, which all use. */
enum optim_uses {
	OPTIM_USES_MOMENTUM = 1,
	OPTIM_USES_BETA1 = 2,
	OPTIM_USES_BETA2 = 4,
	OPTIM_USES_EPS = 8,
	OPTIM_USES_RHO = 16,
	OPTIM_USES_FTRL_BETA = 32,
	OPTIM_USES_L1 = 64,
	OPTIM_USES_INITIAL = 128,
};

/* A gradient and the batch that it comes from: values[i] * scale is the mean over the batch of the
 * examples' gradients. `examples` is the batch's size, at least 1, which rules with constants for
 * each example need: the sum of the gradients is `examples` times the mean. `touching` is the
 * number of these examples that use the row, where the parameters are one; 0: all of them, or
 * unknown. l2 belongs to the loss of those examples alone. `width` is the length of the rows of a
 * sparse table, which stand one after the other; 0 for dense tables, of which each value counts as
 * a row of its own, because their partitions are not cut by rows. For a rule of whole tables a
 * dense table is one row. */
struct optim_gradient {
	const float *values;
	float scale;
	uint64_t examples;
	uint64_t touching;
	uint32_t width;
};

struct optim_rule {
	const char *name;
	int id;
	const char *help; /* one line, with the paper */
	const char *when; /* one line: when to choose it */
	unsigned uses;    /* of enum optim_uses */
	unsigned nvectors;
	const char *vector_name[OPTIM_VECTORS_MAX];
	float vector_init[OPTIM_VECTORS_MAX]; /* what a new vector is filled with */
	/* Raised when the same vectors get another meaning, so that state which was saved before is
	 * not taken for state of now. */
	unsigned state_version;
	/* The vector has one value for each row, not for each parameter. When a job changes its
	 * rule, a vector is kept if the new rule has one of the same name, so vectors of one name
	 * must have the same meaning and the same vector_by_row. */
	bool vector_by_row[OPTIM_VECTORS_MAX];
	/* True: without l2, an element whose gradient is 0 keeps its parameter and its vectors bit
	 * for bit, so that a sparse gradient changes few elements. The planner expects short pulls
	 * of changed values then. */
	bool keeps_untouched;
	/* l2 acts once for each example that touches a row, so workers count them. */
	bool counts_touching;
	/* It finds its own step sizes: lr is a factor of them, and no learning rate. */
	bool finds_rate;
	/* The step of a parameter depends on all the others of its dense table, so `step` gets such
	 * a table as a whole, and the layout does not cut it. */
	bool whole_tables;
	/* Fills h with the values of the rule's paper; l1 and l2 are 0. */
	void (*defaults)(struct optim_hyper *h);
	/* One fused pass over n elements, which are whole rows: parameters w and vectors
	 * s[0..nvectors-1] of optim_vector_floats(rule, k, n, g->width) floats each are updated
	 * from the n values of g, which are scaled on the fly. No two arrays overlap. t is the
	 * partition's update count, from 1. decay false: no l1 and no l2 (biases). g must be
	 * finite. Called with the partition's lock held: neither allocates nor blocks. */
	void (*step)(const struct optim_hyper *h, uint64_t t, bool decay, size_t n,
	    float *restrict w, float *const s[], const struct optim_gradient *g);
};

/* Floats of vector k for n parameters in rows of this width (0 or 1: each is a row). */
static inline size_t optim_vector_floats(const struct optim_rule *rule, unsigned k, size_t n,
    size_t width)
{
	return rule->vector_by_row[k] && width > 1 ? n / width : n;
}

/* Floats of all vectors of the rule, for n parameters in rows of this width. */
static inline size_t optim_state_floats(const struct optim_rule *rule, size_t n, size_t width)
{
	size_t floats = 0;

	for (unsigned k = 0; k < rule->nvectors; k++)
		floats += optim_vector_floats(rule, k, n, width);
	return floats;
}

/* The factor that makes of g->values the sum over the batch. */
static inline float optim_sum_scale(const struct optim_gradient *g)
{
	return g->scale * (float)g->examples;
}

/* l2 where the rule takes the mean, and where it takes the sum. */
static inline float optim_mean_l2(const struct optim_hyper *h, bool decay,
    const struct optim_gradient *g)
{
	float share = g->touching ? (float)g->touching / (float)g->examples : 1;

	return decay ? h->l2 * share : 0;
}

static inline float optim_sum_l2(const struct optim_hyper *h, bool decay,
    const struct optim_gradient *g)
{
	return decay ? h->l2 * (float)(g->touching ? g->touching : g->examples) : 0;
}

/* A sum of gradients beyond this counts as this: its square and the sum of many such squares are
 * finite. */
#define OPTIM_SUM_MOST 0x1p56f

static inline float optim_bounded_sum(float g)
{
	g = g > OPTIM_SUM_MOST ? OPTIM_SUM_MOST : g;
	return g < -OPTIM_SUM_MOST ? -OPTIM_SUM_MOST : g;
}

/* The gradient of one example, or a mean of which only the direction and length matter. */
static inline struct optim_gradient optim_gradient_of_one(const float *values)
{
	return (struct optim_gradient){ values, 1, 1, 0, 0 };
}

#define RULE(name, number) extern const struct optim_rule optim_rule_##name;
#include "optim/optim.def"
#undef RULE

/* Find a rule by name or position; NULL when there is none. */
const struct optim_rule *optim_find(const char *name);
const struct optim_rule *optim_at(size_t i);

/* Update rules of single tables, beside the one of the job: a list of patterns of table names, each
 * with a rule and its constants. Plain values without pointers to memory, so that a struct
 * assignment copies a list. Pure: no state, no threads. */
enum { TABLE_RULES_MAX = 16, TABLE_RULES_PATTERN = 64 };

struct table_rule {
	char pattern[TABLE_RULES_PATTERN]; /* '*' stands for any text, '?' for one character */
	const struct optim_rule *rule;
	struct optim_hyper hyper; /* lr before the schedule */
	/* Each push is an update of its own, also where the pushes of a step are summed for other
	 * tables. */
	bool on_arrival;
};

struct table_rules {
	unsigned n;
	struct table_rule of[TABLE_RULES_MAX];
};

/* The rule of one table and its constants, borrowed from a list or from the job's. */
struct table_rules_choice {
	const struct optim_rule *rule;
	const struct optim_hyper *hyper; /* lr before the schedule */
	bool on_arrival;
};

/* Does the pattern match the name of a table? */
bool table_rules_match(const char *pattern, const char *table);
/* The rule of the first pattern that matches the table, else the job's rule and constants. */
struct table_rules_choice table_rules_choose(const struct table_rules *list, const char *table,
    const struct optim_rule *rule, const struct optim_hyper *hyper);

#endif

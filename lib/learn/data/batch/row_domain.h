/* SPDX-License-Identifier: ISC */
#ifndef DATA_ROW_DOMAIN_H
#define DATA_ROW_DOMAIN_H

#include "data/batch/batch_slice.h"
#include "data/data.h"

/* The domain of a sparse table says what its row ids stand for, such as features of the data or
 * classes of the labels, and so which rows a batch uses. Each sparse table of a model has one (struct
 * model_table). Code that handles rows asks the domain of the table and has no case for any of them.
 *
 * All functions are pure, except the functions of samplers. */

/* Chooses for training batches the rows of a domain that they use beside the rows of their
 * examples. One thread. */
struct row_sampler {
	/* Chooses the rows for b, and adds all that the domain's `of_batch` will list. They are valid
	 * until the next call. ERR_NOMEM. */
	enum err_code (*sample)(struct row_sampler *s, struct batch *b, struct err *e);
	void (*free)(struct row_sampler *s);
};
/* NULL is fine: there is nothing to choose. */
enum err_code row_sampler_sample(struct row_sampler *s, struct batch *b, struct err *e);
void row_sampler_free(struct row_sampler *s);

struct row_domain {
	/* The ids that the data can have are below this number, as far as the data tell; 0:
	 * unknown. */
	size_t (*rows)(const struct dataset *d);
	/* Rows that all batches of the data together use. */
	size_t (*used)(const struct dataset *d);
	/* The rows that a batch uses: returns their number, *id their ids, which ascend. */
	size_t (*of_batch)(const struct batch *b, const uint64_t **id);
	/* The places of the rows that a slice uses among the rows of its large batch. NULL: a slice
	 * uses all of these. */
	const uint32_t *(*of_slice)(const struct batch_slice *s);
	/* As batch_count_touching, of the rows of the batch. NULL: each example touches all of
	 * them. */
	void (*count_touching)(const struct batch *b, uint32_t *touching, uint32_t *last);
	/* The scores of any batch use the rows 0 .. n-1, and this returns n. NULL: scores use the
	 * rows of their batch. */
	size_t (*scored)(const struct dataset *d);
	/* A sampler for training on d, borrowed, of which only the n examples `row`, borrowed,
	 * count, or the first n if row is NULL. draws: random choices for each batch. NULL: the
	 * examples alone say which rows a batch uses. */
	struct row_sampler *(*sampler_new)(const struct dataset *d, const uint32_t *row, size_t n,
	    size_t draws, uint64_t seed);
};

/* Rows are features of sparse data. (row_domain_classes is in data_classes.h.) */
extern const struct row_domain row_domain_features;

/* The number of examples of a batch that touch each of its rows, counted at most once for all tables
 * of one domain. A struct of zeroes is ready for use. One thread. */
struct row_counts {
	const struct row_domain
	    *domain; /* of the last count; NULL: the batch has not been counted */
	uint32_t *touching, *last;
	size_t room;
};
/* The next counts are of another batch. */
void row_counts_begin(struct row_counts *c);
/* touching[k]: how many examples of b touch row k of the domain, which counts them. Valid until
 * row_counts_begin, or until the counts of another domain are wanted. */
const uint32_t *row_counts_of(struct row_counts *c, const struct row_domain *domain,
    const struct batch *b);
void row_counts_release(struct row_counts *c);

#endif

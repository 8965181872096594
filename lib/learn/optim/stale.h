/* SPDX-License-Identifier: ISC */
#ifndef OPTIM_STALE_H
#define OPTIM_STALE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Compensations of staleness: what a server does with a gradient that was computed from parameters
 * which have had other updates since. stale.def lists them. Its staleness is the number of these
 * updates. Pure: the caller owns all arrays. */
struct stale_ops {
	const char *name;
	const char *help; /* one line, with the paper */
	/* The constant lambda that the paper uses; 0: the compensation has none. */
	float lambda;
	/* Returns the divisor, at least 1, of the learning rate. NULL: the rate stays as it is. */
	uint64_t (*rate_divisor)(uint64_t staleness);
	/* Changes the gradient g of n parameters, whose values are `now` and were `then` when g was
	 * computed. square: a state of n floats, which begin with 0; NULL unless has_square. No two
	 * arrays that are written overlap; now and then may be the same. NULL: g stays as it is. */
	void (*compensate)(size_t n, float lambda, const float *now, const float *then,
	    float *restrict square, float *restrict g);
	bool has_square;
};

#define STALE(name) extern const struct stale_ops stale_##name;
#include "optim/stale.def"
#undef STALE

/* A compensation with its constant. ops NULL: none. */
struct stale {
	const struct stale_ops *ops;
	float lambda;
};
#define STALE_LAMBDA_MAX 1e6
#define STALE_FORMS      "scaled, dc, dc:L, dca or dca:L"
enum { STALE_TEXT = 20 };

/* Parses a name, or a name with a constant above 0, as "dc:0.04". False: it is none. */
bool stale_parse(const char *text, struct stale *out);
/* Writes ":" and the text that stale_parse reads; nothing where there is no compensation. */
void stale_format(const struct stale *s, char out[static STALE_TEXT]);

/* Does it need the values from which a gradient was computed? */
static inline bool stale_needs_values(const struct stale *s)
{
	return s->ops && s->ops->compensate;
}

#endif

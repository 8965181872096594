/* Speed of the float kernels and update rules on one partition (256 KiB).
 * Bytes are those that the loop reads and writes. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "kern/vec.h"
#include "optim/optim.h"

enum { N = 65536 };

struct arrays {
	float *w, *g, *s[OPTIM_MAX_SLOTS];
	const struct optim_rule *rule;
	struct optim_hyper h;
	uint64_t t;
	double sink;            /* keeps results alive */
};

static void axpy(struct arrays *a)
{
	vec_axpy(N, 1e-6f, a->g, a->w);
}

static void add(struct arrays *a)
{
	vec_add(N, a->g, a->s[0]);
}

static void finite(struct arrays *a)
{
	a->sink += vec_all_finite(N, a->g);
}

static void sumsq(struct arrays *a)
{
	a->sink += vec_sumsq(N, a->g);
}

static void step(struct arrays *a)
{
	a->rule->step(&a->h, ++a->t, true, N, a->w, a->s, a->g, 1);
}

static void measure(const char *name, struct arrays *a, void (*fn)(struct arrays *), double bytes)
{
	int64_t best = INT64_MAX;
	const int calls = 200;

	for (int round = 0; round < 10; round++) {
		int64_t from = clock_now(), took;

		for (int i = 0; i < calls; i++)
			fn(a);
		took = clock_now() - from;
		best = took < best ? took : best;
	}
	printf("%-16s %7.1f GB/s %7.1f us\n", name, bytes * N * calls / (double)best,
	       (double)best / calls / 1e3);
}

int main(void)
{
	struct arrays a = { .w = mem_try_array(N, sizeof(float)),
	                   .g = mem_try_array(N, sizeof(float)) };

	for (size_t k = 0; k < OPTIM_MAX_SLOTS; k++)
		a.s[k] = mem_try_array(N, sizeof(float));
	for (size_t i = 0; i < N; i++)
		a.g[i] = (float)(i % 97) * 0.01f - 0.4f;
	measure("vec_axpy", &a, axpy, 12);
	measure("vec_add", &a, add, 12);
	measure("vec_all_finite", &a, finite, 4);
	measure("vec_sumsq", &a, sumsq, 4);
	for (size_t i = 0; (a.rule = optim_at(i)) != NULL; i++) {
		a.rule->defaults(&a.h);
		for (size_t k = 0; k < OPTIM_MAX_SLOTS; k++)
			for (size_t j = 0; j < N; j++)
				a.s[k][j] = 0;
		measure(a.rule->name, &a, step, 12 + 8.0 * a.rule->nslots);
	}
	free(a.w);
	free(a.g);
	for (size_t k = 0; k < OPTIM_MAX_SLOTS; k++)
		free(a.s[k]);
	return a.sink < 0;
}

/* SPDX-License-Identifier: ISC */
/* Speed of the float kernels and update rules, one thread: on one partition (256 KiB), which
 * stays in the second cache, and over many, which do not.  GB/s are of the bytes that the loop
 * itself reads and writes, counted the same way for all: 4 for each array that it reads and 4 for
 * each that it writes, a value; what the processor fetches before it writes is not counted.  The
 * triad is vec_join, out = y + a x, as in McCalpin's STREAM; rules write where they have read, as
 * vec_axpy does, which therefore stands beside it.  Medians. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/clock.h"
#include "core/mem.h"
#include "math/vec.h"
#include "optim/optim.h"

enum { N = 65536, PARTS = 256, CALLS = 20, ROUNDS = 41, FAR_ROUNDS = 11, RULES_MAX = 16 };

struct part {
	float *w, *g, *s[OPTIM_VECTORS_MAX];
};

struct work {
	struct part part[PARTS], *p; /* p: the one that it is on */
	const struct optim_rule *rule;
	struct optim_hyper h;
	uint64_t t;
	double sink; /* keeps results alive */
};

static void axpy(struct work *a)
{
	vec_axpy(N, 1e-6f, a->p->g, a->p->s[0]);
}

static void axpy_first(struct work *a)
{
	vec_axpy_first(N, 1e-6f, a->p->g, a->p->s[0]);
}

static void add(struct work *a)
{
	vec_add(N, a->p->g, a->p->s[0]);
}

static void triad(struct work *a)
{
	vec_join(N, 1e-6f, a->p->g, a->p->s[0], 1, a->p->s[1]);
}

static void finite(struct work *a)
{
	a->sink += vec_all_finite(N, a->p->g);
}

static void largest(struct work *a)
{
	a->sink += (double)vec_max_abs(N, a->p->g);
}

static void sumsq(struct work *a)
{
	a->sink += vec_sumsq(N, a->p->g);
}

static void step(struct work *a)
{
	struct optim_gradient g = optim_gradient_of_one(a->p->g);

	a->rule->step(&a->h, a->t, true, N, a->p->w, a->p->s, &g);
}

static int by_value(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static double median(double *v, size_t n)
{
	qsort(v, n, sizeof *v, by_value);
	return v[n / 2];
}

/* Nanoseconds for a call, again and again on the first partition. */
static double near(struct work *a, void (*fn)(struct work *))
{
	double took[ROUNDS];

	a->p = a->part;
	fn(a);
	for (int round = 0; round < ROUNDS; round++) {
		int64_t from = clock_now();

		for (int i = 0; i < CALLS; i++, a->t++)
			fn(a);
		took[round] = (double)(clock_now() - from) / CALLS;
	}
	return median(took, ROUNDS);
}

/* The same for each partition in turn. */
static double far(struct work *a, void (*fn)(struct work *))
{
	int64_t from = clock_now();

	for (a->p = a->part; a->p < a->part + PARTS; a->p++)
		fn(a);
	a->t++;
	return (double)(clock_now() - from) / PARTS;
}

static void use(struct work *a, const struct optim_rule *rule)
{
	a->rule = rule;
	a->t = 1000; /* beyond what adam corrects m for */
	rule->defaults(&a->h);
	for (size_t i = 0; i < PARTS; i++)
		for (unsigned k = 0; k < rule->nvectors; k++)
			for (size_t j = 0; j < N; j++)
				a->part[i].s[k][j] = rule->vector_init[k];
}

static void kernels(struct work *a)
{
	static const struct {
		const char *name;
		void (*fn)(struct work *);
		double bytes;
	} all[] = {
		{ "vec_axpy", axpy, 12 },
		{ "vec_axpy_first", axpy_first, 8 },
		{ "vec_add", add, 12 },
		{ "vec_join", triad, 12 },
		{ "vec_all_finite", finite, 4 },
		{ "vec_max_abs", largest, 4 },
		{ "vec_sumsq", sumsq, 4 },
	};

	printf("one partition of %d values, medians of %d\n", N, ROUNDS);
	printf("%-16s %8s %8s %8s\n", "kernel", "B/value", "us", "GB/s");
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		double ns = near(a, all[i].fn);

		printf("%-16s %8.0f %8.1f %8.1f\n", all[i].name, all[i].bytes, ns / 1e3,
		    all[i].bytes * N / ns);
	}
}

/* By turns, so that what else the machine does meets all alike. */
static void rules(struct work *a)
{
	double took[RULES_MAX][FAR_ROUNDS], plain[FAR_ROUNDS], in_place[FAR_ROUNDS], memory, ns;

	for (int round = 0; round < FAR_ROUNDS; round++) {
		for (size_t i = 0; i < RULES_MAX && optim_at(i); i++) {
			use(a, optim_at(i));
			far(a, step);
			took[i][round] = far(a, step);
		}
		far(a, triad);
		plain[round] = far(a, triad);
		far(a, axpy);
		in_place[round] = far(a, axpy);
	}
	ns = median(plain, FAR_ROUNDS);
	memory = 12.0 * N / ns;
	printf("\n%d partitions, %d M values, by turns, medians of %d; near: one partition\n",
	    PARTS, PARTS * N >> 20, FAR_ROUNDS);
	printf("%-16s %8s %8s %8s %8s %8s\n", "rule", "B/value", "us", "GB/s", "of triad", "near");
	printf("%-16s %8d %8.1f %8.1f %8.2f %8.1f\n", "triad", 12, ns / 1e3, memory, 1.0,
	    12.0 * N / near(a, triad));
	ns = median(in_place, FAR_ROUNDS);
	printf("%-16s %8d %8.1f %8.1f %8.2f %8.1f\n", "vec_axpy", 12, ns / 1e3, 12.0 * N / ns,
	    12.0 * N / ns / memory, 12.0 * N / near(a, axpy));
	for (size_t i = 0; i < RULES_MAX && optim_at(i); i++) {
		/* The gradient is read, the parameters and each rank are read and written. */
		double bytes = 12 + 8.0 * optim_at(i)->nvectors;

		ns = median(took[i], FAR_ROUNDS);
		use(a, optim_at(i));
		printf("%-16s %8.0f %8.1f %8.1f %8.2f %8.1f\n", optim_at(i)->name, bytes, ns / 1e3,
		    bytes * N / ns, bytes * N / ns / memory, bytes * N / near(a, step));
	}
}

static float *room(void)
{
	float *x = mem_try_array(N, sizeof *x);

	if (!x)
		exit(1);
	return x;
}

int main(void)
{
	struct work *a = mem_alloc(sizeof *a);

	for (size_t i = 0; i < PARTS; i++) {
		struct part *p = &a->part[i];

		p->w = room();
		p->g = room();
		for (size_t k = 0; k < OPTIM_VECTORS_MAX; k++)
			p->s[k] = room();
		for (size_t j = 0; j < N; j++)
			p->g[j] = (float)(j % 97) * 0.01f - 0.4f;
	}
	kernels(a);
	rules(a);
	for (size_t i = 0; i < PARTS; i++) {
		free(a->part[i].w);
		free(a->part[i].g);
		for (size_t k = 0; k < OPTIM_VECTORS_MAX; k++)
			free(a->part[i].s[k]);
	}
	free(a);
	return 0;
}

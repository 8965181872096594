/* SPDX-License-Identifier: ISC */
#include "lab/gauge_inside.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "conf/conf_rule.h"
#include "core/mem.h"
#include "layout/layout.h"
#include "math/vec.h"

#define VALUES_MAX ((size_t)1 << 20)

double gauge_clock(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

void gauge_sweep(void)
{
	long own = sysconf(_SC_LEVEL2_CACHE_SIZE);
	size_t n = own > 0 ? 2 * (size_t)own : 4u << 20;
	volatile uint8_t *room = mem_array(1, n);

	for (int pass = 0; pass < 2; pass++)
		for (size_t i = 0; i < n; i += 64)
			room[i]++;
	free((void *)room);
}

void gauge_pin(unsigned i)
{
	cpu_set_t may, one;
	int n;

	if (pthread_getaffinity_np(pthread_self(), sizeof may, &may) || (n = CPU_COUNT(&may)) < 2)
		return;
	for (int cpu = 0, at = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &may) && at++ == (int)i % n) {
			CPU_ZERO(&one);
			CPU_SET(cpu, &one);
			pthread_setaffinity_np(pthread_self(), sizeof one, &one);
			return;
		}
}

static int compare_samples(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double gauge_median(double *v, size_t n)
{
	qsort(v, n, sizeof *v, compare_samples);
	return n ? v[n / 2] : 0;
}

size_t gauge_tried(size_t n)
{
	return n < VALUES_MAX ? n ? n : 1 : VALUES_MAX;
}

float *gauge_noise(size_t n, uint64_t seed, float size)
{
	float *x = mem_array(n, sizeof *x);
	struct rng rng;

	rng_init(&rng, seed);
	for (size_t i = 0; i < n; i++)
		x[i] = size * (float)(rng_unit(&rng) + rng_unit(&rng) + rng_unit(&rng) - 1.5);
	return x;
}

/* ---- codecs ---- */

bool gauge_is_raw(const struct codec *c)
{
	return !c || !c->lossy;
}

/* One pass over all partitions, as client_encode_push does. */
static void encode_once(const struct codec_spec *spec, struct rng *rng, const float *g, float *left,
    size_t n, uint8_t *out)
{
	for (size_t at = 0; at < n; at += PART_ELEMENTS) {
		size_t k = n - at < PART_ELEMENTS ? n - at : PART_ELEMENTS, len;
		const float *x = g + at;

		if (!vec_all_finite(k, x))
			abort();
		if (left) {
			vec_add(k, x, left + at);
			x = left + at;
		}
		len = spec->codec->encode(spec->arg, rng, x, k, out);
		if (left)
			spec->codec->add(out, len, k, -1, left + at);
	}
}

/* Returns 0 for raw. The try number -1 warms up and does not count. */
double gauge_encode(const struct codec_spec *spec, bool feedback, size_t n)
{
	float *g, *left;
	double took[GAUGE_REPEATS];
	struct rng rng;
	uint8_t *out;

	if (gauge_is_raw(spec->codec))
		return 0;
	n = gauge_tried(n);
	g = gauge_noise(n, 1, 1e-3f);
	left = feedback ? gauge_noise(n, 2, 1e-3f) : NULL;
	out = mem_array(1, spec->codec->bound(spec->arg, PART_ELEMENTS));
	rng_init(&rng, 1);
	for (int i = -1; i < GAUGE_REPEATS; i++) {
		double begin;

		gauge_sweep();
		begin = gauge_clock();
		encode_once(spec, &rng, g, left, n, out);
		if (i >= 0)
			took[i] = (gauge_clock() - begin) / (double)n;
	}
	free(g);
	free(left);
	free(out);
	return gauge_median(took, GAUGE_REPEATS);
}

/* Decoding includes the check and the clearing of the result. The caches are swept between encoding
 * and decoding, which two processes do. *bytes is of one value, headers included. */
void gauge_pull(const struct codec *codec, size_t n, double *encode, double *decode, double *bytes)
{
	double out[GAUGE_REPEATS], back[GAUGE_REPEATS];
	size_t len = 0;
	float *w, *to;
	uint8_t *body;

	*encode = *decode = 0;
	*bytes = 4;
	if (gauge_is_raw(codec))
		return;
	n = gauge_tried(n);
	w = gauge_noise(n, 3, 0.1f);
	to = mem_array(n, sizeof *to);
	body = mem_array(1, codec->bound(0, n) + 64 * (n / PART_ELEMENTS + 1));
	for (int i = -1; i < GAUGE_REPEATS; i++) {
		double begin, middle;

		gauge_sweep();
		begin = gauge_clock();
		len = codec->encode(0, NULL, w, n, body);
		middle = gauge_clock();
		gauge_sweep();
		out[i < 0 ? 0 : i] = (middle - begin) / (double)n;
		begin = gauge_clock();
		codec->check(body, len, n);
		memset(to, 0, n * sizeof *to);
		codec->add(body, len, n, 1, to);
		back[i < 0 ? 0 : i] = (gauge_clock() - begin) / (double)n;
	}
	*encode = gauge_median(out, GAUGE_REPEATS);
	*decode = gauge_median(back, GAUGE_REPEATS);
	*bytes = (double)len / (double)n;
	free(w);
	free(to);
	free(body);
}

/* Returns 0 when the configuration has no valid rule. The update count t starts at 1 with the
 * warm-up, as rules that divide by 1 - beta^t need it. */
double gauge_rule(const struct conf *c, size_t n)
{
	struct conf_rule rule;
	float *w, *g, *state, *vector[OPTIM_VECTORS_MAX];
	double took[GAUGE_REPEATS];
	struct optim_gradient one;

	if (conf_job_rule(c, &rule, NULL))
		return 0;
	n = gauge_tried(n);
	w = gauge_noise(n, 4, 0.1f);
	g = gauge_noise(n, 5, 1e-3f);
	one = optim_gradient_of_one(g);
	state = mem_array(n * (rule.rule->nvectors + 1), sizeof *state);
	for (unsigned k = 0; k < rule.rule->nvectors; k++) {
		vector[k] = state + k * n;
		for (size_t i = 0; i < n; i++)
			vector[k][i] = rule.rule->vector_init[k];
	}
	for (int i = -1; i < GAUGE_REPEATS; i++) {
		double begin;

		gauge_sweep();
		begin = gauge_clock();
		rule.rule->step(&rule.hyper, (uint64_t)(i + 2), true, n, w, vector, &one);
		if (i >= 0)
			took[i] = (gauge_clock() - begin) / (double)n;
	}
	free(w);
	free(g);
	free(state);
	return gauge_median(took, GAUGE_REPEATS);
}

/* Measures a read of one vector and an update of another; memory bandwidth decides it. */
double gauge_copy(size_t n)
{
	float *from, *to;
	double took[GAUGE_REPEATS];

	n = gauge_tried(n);
	from = gauge_noise(n, 6, 1);
	to = mem_array(n, sizeof *to);
	for (int i = -1; i < GAUGE_REPEATS; i++) {
		double begin;

		gauge_sweep();
		begin = gauge_clock();
		vec_axpy(n, 1, from, to);
		if (i >= 0)
			took[i] = (gauge_clock() - begin) / (double)n;
	}
	free(from);
	free(to);
	return gauge_median(took, GAUGE_REPEATS);
}

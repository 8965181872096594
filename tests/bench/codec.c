/* SPDX-License-Identifier: ISC */
/* Speed of the codecs on one partition (65536 values), one thread.  GB/s are of the
 * float32 values that are encoded or decoded, 4 bytes each, whatever travels: medians.
 * take: check and add, which is what a server does with a push; send: what a worker does with
 * feedback before a push, all of it (client_encode_push), with other gradients each time. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/mem.h"
#include "client/client_state.h"
#include "codec/codec.h"

enum { N = 65536, ROUNDS = 41, CALLS = 10, GRADIENTS = 4 };

struct desk {
	struct codec_spec spec;
	float *g[GRADIENTS], *sum;
	uint8_t *body;
	size_t len;
	struct rng rng;
	struct client client;
	unsigned sent, bad;
};

static void encode(struct desk *d)
{
	d->len = d->spec.codec->encode(d->spec.arg, &d->rng, d->g[0], N, d->body);
}

static void check(struct desk *d)
{
	d->bad += d->spec.codec->check(d->body, d->len, N) != CODEC_GOOD;
}

static void add(struct desk *d)
{
	d->spec.codec->add(d->body, d->len, N, 64, d->sum);
}

static void take(struct desk *d)
{
	check(d);
	add(d);
}

static void send(struct desk *d)
{
	const struct table table = { .rows = 1, .cols = N, .nparts = 1 };
	struct request push = { .client = &d->client,
		.table = &table,
		.n = N,
		.step = 1000,
		.push.g = d->g[d->sent++ % GRADIENTS] };

	client_encode_push(&push);
	free(push.push.body);
}

static int by_value(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static double speed(struct desk *d, void (*fn)(struct desk *))
{
	double took[ROUNDS];

	fn(d);
	for (int round = 0; round < ROUNDS; round++) {
		int64_t from = clock_now();

		for (int i = 0; i < CALLS; i++)
			fn(d);
		took[round] = (double)(clock_now() - from);
	}
	qsort(took, ROUNDS, sizeof *took, by_value);
	return 4.0 * N * CALLS / took[ROUNDS / 2];
}

static void measure(struct desk *d, const char *text)
{
	double s[5];
	struct err e;

	if (codec_parse(text, &d->spec, &e)) {
		fprintf(stderr, "%s\n", e.msg);
		exit(2);
	}
	d->body = mem_try_array(1, d->spec.codec->bound(d->spec.arg, N));
	memset(&d->client, 0, sizeof d->client);
	d->client.cfg.coding = (struct client_coding){ .codec = d->spec,
		.feedback = true,
		.momentum = 0.9f };
	rng_init(&d->client.rng, 1);
	s[0] = speed(d, encode);
	s[1] = speed(d, check);
	s[2] = speed(d, add);
	s[3] = speed(d, take);
	s[4] = speed(d, send);
	printf("%-14s %8.3f %8.2f %8.2f %8.2f %8.2f", text, (double)d->len / N, s[0], s[1], s[2],
	    s[3]);
	if (d->spec.codec->lossy)
		printf(" %8.2f", s[4]);
	putchar('\n');
	client_encode_free_residuals(&d->client);
	free(d->body);
}

int main(int argc, char **argv)
{
	static const char *const specs[] = { "raw", "f16", "bf16", "int8", "qsgd:1", "qsgd:16",
		"qsgd:127", "onebit", "topk:0.001", "topk:0.01", "topk:0.1", "randomk:0.01",
		"randomk:0.05", "dgc:0.01" };
	struct desk d = { .sum = mem_try_array(N, sizeof *d.sum) };

	rng_init(&d.rng, 1);
	for (unsigned k = 0; k < GRADIENTS; k++) {
		d.g[k] = mem_try_array(N, sizeof *d.g[k]);
		for (size_t i = 0; i < N; i++)
			d.g[k][i] = (float)(rng_normal(&d.rng) * 1e-3);
	}
	printf("GB/s of %d float32 values, medians of %d\n", N, ROUNDS);
	printf("%-14s %8s %8s %8s %8s %8s %8s\n", "codec", "B/value", "encode", "check", "add",
	    "take", "send");
	for (int i = 1; i < argc; i++)
		measure(&d, argv[i]);
	for (size_t i = 0; argc < 2 && i < sizeof specs / sizeof *specs; i++)
		measure(&d, specs[i]);
	for (unsigned k = 0; k < GRADIENTS; k++)
		free(d.g[k]);
	free(d.sum);
	return d.bad > 0;
}

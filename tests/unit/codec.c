/* SPDX-License-Identifier: ISC */
/* Every codec: what comes back, how large it is, what is refused, and that with
 * feedback nothing is lost for good. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "codec/codec.h"
#include "math/vec.h"
#include "tap.h"

enum { N = 5000 };

static struct rng rng;

/* The spec of a text; each codec once, with an argument that suits. */
static const char *const specs[] = { "raw", "f16", "bf16", "int8", "qsgd:1", "qsgd:16", "qsgd:127",
	"onebit", "topk:0.01", "topk:1", "randomk:0.05", "randomk:1", "dgc:0.02" };
#define SPECS (sizeof specs / sizeof *specs)

static struct codec_spec spec_of(const char *text)
{
	struct codec_spec s;
	struct err e;

	if (codec_parse(text, &s, &e)) {
		printf("# %s\n", e.msg);
		abort();
	}
	return s;
}

static void values(float *x, size_t n, double scale)
{
	for (size_t i = 0; i < n; i++)
		x[i] = (float)(rng_normal(&rng) * scale);
}

static size_t encode(const struct codec_spec *s, const float *x, size_t n, uint8_t **out)
{
	*out = malloc(s->codec->bound(s->arg, n) + 1);
	if (!*out)
		abort();
	return s->codec->encode(s->arg, &rng, x, n, *out);
}

static void decode(const struct codec_spec *s, const uint8_t *p, size_t len, size_t n, float *y)
{
	static float room[N];

	memcpy(y, codec_decode(s->codec, p, len, n, room), n * sizeof *y);
}

/* ---- names ---- */

static void names(void)
{
	static const char *const wrong[] = { "", "f32", "raw:1", "f16:", "topk", "topk:", "topk:0",
		"topk:1.1", "topk:x", "topk:nan", "qsgd:0", "qsgd:128", "qsgd:1.5", "qsgd",
		"TOPK:0.1", "top:0.1" };
	struct codec_spec s;
	struct err e;
	unsigned bad = 0;

	for (size_t i = 0; i < SPECS; i++)
		bad += codec_parse(specs[i], &s, &e) != ERR_OK ||
		    codec_by_id(s.codec->id) != s.codec;
	ok(bad == 0, "names and numbers");
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
		ok(codec_parse(wrong[i], &s, &e) != ERR_OK, "refused: \"%s\": %s", wrong[i], e.msg);
	for (size_t i = 0; codec_at(i); i++)
		for (size_t k = 0; k < i; k++)
			bad += codec_at(i)->id == codec_at(k)->id;
	ok(bad == 0 && !codec_by_id(999), "no number twice");
}

/* ---- there and back ---- */

/* The most that one value may be off, for values of this kind. */
static double tolerance(const char *text, double scale)
{
	if (strcmp(text, "f16") == 0)
		return scale * 5 * 0x1p-11 + 0x1p-24;
	if (strcmp(text, "bf16") == 0)
		return scale * 5 * 0x1p-8;
	if (strcmp(text, "int8") == 0)
		return scale * 5 / 254;
	if (strcmp(text, "qsgd:16") == 0)
		return scale * 5 / 16;
	if (strcmp(text, "qsgd:127") == 0)
		return scale * 5 / 127;
	if (strcmp(text, "raw") == 0 || strcmp(text, "topk:1") == 0)
		return 0;
	return INFINITY;
}

static void there_and_back(void)
{
	static const size_t sizes[] = { 0, 1, 2, 7, 255, 256, 257, 513, 2047, 2049, N };
	static const double scales[] = { 1, 1e-3, 1e4 };
	float x[N], y[N], z[N];

	for (size_t i = 0; i < SPECS; i++) {
		struct codec_spec s = spec_of(specs[i]);
		unsigned large = 0, bad = 0, off = 0, sums = 0;

		for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
			for (size_t m = 0; m < 3; m++) {
				size_t n = sizes[k], len;
				uint8_t *p;

				values(x, n, scales[m]);
				len = encode(&s, x, n, &p);
				large += len > s.codec->bound(s.arg, n);
				bad += s.codec->check(p, len, n) != CODEC_GOOD;
				decode(&s, p, len, n, y);
				for (size_t j = 0; j < n; j++)
					off += fabs((double)x[j] - (double)y[j]) >
					    tolerance(specs[i], scales[m]);
				for (size_t j = 0; j < n; j++)
					z[j] = 3;
				s.codec->add(p, len, n, -2, z);
				for (size_t j = 0; j < n; j++)
					sums += fabs((double)z[j] - (3 - 2 * (double)y[j])) >
					    1e-5 * (1 + fabs((double)y[j]));
				free(p);
			}
		ok(!large && !bad && !off && !sums,
		    "%s: there and back (%u too large, %u refused, %u off, %u sums)", specs[i],
		    large, bad, off, sums);
	}
}

/* Of f16 and bf16 every number that there is comes back as itself. */
static void exact_numbers(void)
{
	static const char *const half[] = { "f16", "bf16" };

	for (unsigned k = 0; k < 2; k++) {
		struct codec_spec s = spec_of(half[k]);
		unsigned other = 0, kept = 0;

		for (uint32_t h = 0; h < 65536; h++) {
			uint8_t in[2] = { (uint8_t)h, (uint8_t)(h >> 8) }, out[2];
			float x;

			if (s.codec->check(in, 2, 1) != CODEC_GOOD)
				continue;
			decode(&s, in, 2, 1, &x);
			s.codec->encode(0, &rng, &x, 1, out);
			/* -0 is added to 0 by who decodes. */
			other += memcmp(in, out, 2) != 0 && (h & 0x7fff) != 0;
			kept++;
		}
		ok(other == 0 && kept > 50000, "%s: %u numbers are what they are (%u not)", half[k],
		    kept, other);
	}
	{
		struct codec_spec s = spec_of("f16");
		const float x[] = { 1 + 0x1p-11f, 1 + 3 * 0x1p-11f, 65519, 65520, 1e30f, -1e30f,
			0x1p-25f, 0x1.8p-25f };
		const float want[] = { 1, 1 + 0x1p-9f, 65504, 65504, 65504, -65504, 0, 0x1p-24f };
		uint8_t p[16];
		float y[8];

		s.codec->encode(0, &rng, x, 8, p);
		decode(&s, p, 16, 8, y);
		ok(memcmp(y, want, sizeof want) == 0,
		    "f16: ties to even, the largest for what is larger");
	}
}

/* ---- the bytes ---- */

/* Fowler, Noll and Vo's hash, 1a. */
static uint64_t hash(const void *p, size_t n)
{
	const uint8_t *at = p;
	uint64_t h = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i < n; i++)
		h = (h ^ at[i]) * UINT64_C(0x100000001b3);
	return h;
}

/* Values that are the same on every machine, some of them alike. */
static void golden_values(float *x, size_t n)
{
	struct rng r;

	rng_init(&r, 99);
	for (size_t i = 0; i < n; i++) {
		x[i] = (float)(rng_unit(&r) + rng_unit(&r) + rng_unit(&r) - 1.5);
		if (i % 3 == 0)
			x[i] = (float)(int)(x[i] * 8) / 8;
	}
}

/* What a peer of another day has written and will read. */
static void golden(void)
{
	static const uint64_t want[SPECS] = { UINT64_C(0x2e109fb25eab0f44),
		UINT64_C(0x1377f12a3076a009), UINT64_C(0x95e2ad3e7ab3837d),
		UINT64_C(0xe0b65177325f9970), UINT64_C(0xd675c94dbb929769),
		UINT64_C(0x5f4bc7a241b46058), UINT64_C(0x11f61a98f8d31629),
		UINT64_C(0xe443c91ca1378050), UINT64_C(0x3ae29e18bf5ca553),
		UINT64_C(0x027a0817af22d859), UINT64_C(0x54ca5d09c50a2a41),
		UINT64_C(0x3f9b8f1abbfd32d6), UINT64_C(0xf82b645a4513c5eb) };
	float x[N];

	golden_values(x, N);
	for (size_t i = 0; i < SPECS; i++) {
		struct codec_spec s = spec_of(specs[i]);
		uint8_t *p = malloc(s.codec->bound(s.arg, N));
		struct rng r;
		size_t len;

		if (!p)
			abort();
		rng_init(&r, 5);
		len = s.codec->encode(s.arg, &r, x, N, p);
		ok(hash(p, len) == want[i], "%s: the bytes are what they were (0x%016llx)",
		    specs[i], (unsigned long long)hash(p, len));
		free(p);
	}
}

struct ranked {
	float x;
	size_t place;
};

static int by_size(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;
	uint32_t u, v;

	memcpy(&u, &x->x, sizeof u);
	memcpy(&v, &y->x, sizeof v);
	u &= 0x7fffffff;
	v &= 0x7fffffff;
	return u != v ? (u < v ? 1 : -1) : (x->place > y->place) - (x->place < y->place);
}

/* Values of which a look at some tells little: as they come; all alike; zeroes but for a few;
 * large in one stretch; large in few columns; two sizes; what is not finite; as many bits as there are. */
static void odd_values(unsigned kind, float *x, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		float v = (float)rng_normal(&rng);
		uint32_t u = (uint32_t)rng_next(&rng);

		switch (kind) {
		case 0:
			x[i] = v;
			break;
		case 1:
			x[i] = i % 2 ? 2 : -2;
			break;
		case 2:
			x[i] = u % 4096 ? 0 : v;
			break;
		case 3:
			x[i] = i >= n / 3 && i < n / 3 + n / 50 ? 100 * v : v;
			break;
		case 4:
			x[i] = i % 256 == 77 ? 100 * v : v * 1e-3f;
			break;
		case 5:
			x[i] = u % 64 ? 1 : -3;
			break;
		case 6:
			x[i] = u % 1000 ? v : u % 3000 ? INFINITY : NAN;
			break;
		default:
			memcpy(&x[i], &u, sizeof u);
		}
	}
}

/* Those that sorting chooses: the largest, of those that are alike the first. */
static void largest_exactly(void)
{
	static const double fractions[] = { 1e-6, 0.001, 0.01, 0.05, 0.3, 1 };
	static const size_t sizes[] = { 1, 100, 4097, 65536 };
	static struct ranked r[65536];
	static float x[65536], y[65536];
	const struct codec *c = codec_by_name("topk");

	for (unsigned kind = 0; kind < 8; kind++) {
		unsigned other = 0;

		for (size_t i = 0; i < 4 * 6; i++) {
			size_t n = sizes[i / 6], k = (size_t)ceil(fractions[i % 6] * (double)n),
			       len;
			uint8_t *p = malloc(c->bound(fractions[i % 6], n));

			if (!p)
				abort();
			odd_values(kind, x, n);
			for (size_t j = 0; j < n; j++)
				r[j] = (struct ranked){ x[j], j };
			qsort(r, n, sizeof *r, by_size);
			len = c->encode(fractions[i % 6], &rng, x, n, p);
			memset(y, 0, sizeof y);
			/* What is not finite is added all the same. */
			c->add(p, len, n, 1, y);
			for (size_t j = 0; j < k; j++) {
				float v = 0.0f + r[j].x;

				other += memcmp(&y[r[j].place], &v, sizeof v) != 0 && !isnan(v);
				y[r[j].place] = 0;
			}
			for (size_t j = 0; j < n; j++)
				other += !(y[j] == 0);
			free(p);
		}
		ok(other == 0, "topk: the same as by sorting, values of kind %u (%u not)", kind,
		    other);
	}
}

/* Places by the definition: of n values stretch i of k begins at n * i / k. */
static void places_of_randomk(void)
{
	static const size_t sizes[] = { 1, 2, 10, 255, 4096, 5000 };
	const struct codec *c = codec_by_name("randomk");
	unsigned other = 0;
	float x[N];
	uint8_t p[12 + 4 * N];

	for (size_t i = 0; i < N; i++)
		x[i] = (float)i;
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
		for (unsigned percent = 1; percent <= 100; percent += 11) {
			size_t n = sizes[i], len = c->encode(percent / 100.0, &rng, x, n, p),
			       k = (len - 12) / 4;
			struct rng r;
			uint64_t seed;

			memcpy(&seed, p, sizeof seed);
			rng_init(&r, seed);
			for (size_t j = 0; j < k; j++) {
				size_t begin = n * j / k,
				       place = begin +
				    (size_t)rng_below(&r, n * (j + 1) / k - begin);

				other += memcmp(p + 12 + 4 * j, &x[place], 4) != 0;
			}
		}
	ok(other == 0, "randomk: the places that the seed says (%u not)", other);
}

/* ---- what is not finite, what is malformed ---- */

static void not_finite(void)
{
	static const float bad[] = { NAN, INFINITY, -INFINITY };
	float x[N];

	for (size_t i = 0; i < SPECS; i++) {
		struct codec_spec s = spec_of(specs[i]);
		unsigned taken = 0;

		/* randomk looks at few. */
		for (unsigned k = 0; k < 3 && strcmp(specs[i], "randomk:0.05") != 0; k++)
			for (size_t at = 0; at < N; at += 499) {
				uint8_t *p;
				size_t len;

				values(x, N, 1);
				x[at] = bad[k];
				len = encode(&s, x, N, &p);
				taken += s.codec->check(p, len, N) != CODEC_BAD_VALUE;
				free(p);
			}
		ok(taken == 0, "%s: what is not finite is told", specs[i]);
	}
}

/* Bytes of any kind: refused, or decoded within their bounds (the sanitizers see). */
static void mutated(void)
{
	float x[600], y[600];

	for (size_t i = 0; i < SPECS; i++) {
		struct codec_spec s = spec_of(specs[i]);
		unsigned good = 0, bad = 0;

		for (unsigned round = 0; round < 4000; round++) {
			size_t n = 1 + (size_t)rng_below(&rng, 600), len, was;
			uint8_t *p, *q;

			values(x, n, 1);
			was = len = encode(&s, x, n, &p);
			if (round % 4 == 0)
				len = (size_t)rng_below(&rng, len + 1);
			for (uint64_t k = rng_below(&rng, 6); k > 0 && len; k--)
				p[rng_below(&rng, len)] ^= (uint8_t)(1u << rng_below(&rng, 8));
			/* Exactly as long as it says, so that a step beyond is seen. */
			q = malloc(len ? len : 1);
			if (!q)
				abort();
			memcpy(q, p, len);
			if (s.codec->check(q, len, n) == CODEC_GOOD) {
				memset(y, 0, sizeof y);
				s.codec->add(q, len, n, 4294967295.0f, y);
				bad += !vec_all_finite(n, y);
				good++;
			}
			(void)was;
			free(q);
			free(p);
		}
		ok(bad == 0, "%s: %u of 4000 broken ones are well-formed, and all of those finite",
		    specs[i], good);
	}
}

/* ---- statistics ---- */

static void right_in_the_mean(void)
{
	struct codec_spec s = spec_of("qsgd:4");
	float x[64], sum[64] = { 0 };
	double worst = 0;

	values(x, 64, 1);
	for (unsigned i = 0; i < 20000; i++) {
		uint8_t *p;
		size_t len = encode(&s, x, 64, &p);

		s.codec->add(p, len, 64, 1, sum);
		free(p);
	}
	for (unsigned i = 0; i < 64; i++)
		worst = fmax(worst, fabs((double)sum[i] / 20000 - (double)x[i]));
	ok(worst < 0.03, "qsgd: right in the mean (off by %.4f at most)", worst);
}

/* What the encoding leaves out is added to the next: the sum of what has come is never
 * far from the sum of what was meant. */
static void feedback(void)
{
	enum { ROUNDS = 400 };

	for (size_t i = 0; i < SPECS; i++) {
		struct codec_spec s = spec_of(specs[i]);
		float x[N], left[N] = { 0 }, got[N] = { 0 };
		double meant[N] = { 0 }, missing = 0, all = 0;

		values(x, N, 1);
		for (unsigned round = 0; round < ROUNDS; round++) {
			uint8_t *p;
			size_t len;

			for (unsigned k = 0; k < N; k++)
				meant[k] += (double)x[k];
			vec_add(N, x, left);
			len = encode(&s, left, N, &p);
			s.codec->add(p, len, N, -1, left);
			s.codec->add(p, len, N, 1, got);
			free(p);
		}
		for (unsigned k = 0; k < N; k++) {
			missing += pow(meant[k] - (double)got[k], 2);
			all += pow(meant[k], 2);
		}
		ok(sqrt(missing / all) < 0.35,
		    "%s: with feedback %.1f %% are missing after %d rounds", specs[i],
		    100 * sqrt(missing / all), ROUNDS);
	}
}

static void sizes(void)
{
	static const double most[SPECS] = { 32, 16, 16, 8.2, 2.2, 6.2, 8.2, 1.1, 0.5, 40.1, 1.7,
		32.1, 0.9 };
	float x[N];

	values(x, N, 1);
	for (size_t i = 0; i < SPECS; i++) {
		struct codec_spec s = spec_of(specs[i]);
		uint8_t *p;
		double bits = (double)encode(&s, x, N, &p) * 8 / N;

		ok(bits <= most[i], "%s: %.2f bits a value", specs[i], bits);
		free(p);
	}
}

int main(void)
{
	rng_init(&rng, 7);
	names();
	there_and_back();
	exact_numbers();
	golden();
	largest_exactly();
	places_of_randomk();
	not_finite();
	mutated();
	right_in_the_mean();
	feedback();
	sizes();
	return tap_done();
}

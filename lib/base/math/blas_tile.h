/* SPDX-License-Identifier: ISC */
/* The kernels of blas_skip.c for one kind of vector, which includes this for each kind with these
 * macros:
 *
 *   NAME(x)  the kind's name for x      TARGET  function attributes for the kind
 *   VEC, WIDTH      a vector, and its number of floats
 *   ROWS, VECS      rows and vectors of a tile, whose sums stay in registers
 *   FMA(a, b, c)    a b + c, rounded once     SET(x)  x in every lane
 *   LOAD(p, n), STORE(p, n, v)                the first n lanes at p; other lanes are zero
 *   ANY(p, n)       is one of the first n floats at p, at most ROWS, not 0? */

/* c (rows, vecs vectors; the last one has `last` lanes) = [c +] the products over the listed terms,
 * in their order. */
TARGET __attribute__((always_inline)) static inline void NAME(tile)(size_t rows, size_t vecs,
    size_t last, const struct product *x, const float *a, const float *b, float *c,
    const uint32_t *term, size_t nterms, bool add)
{
	VEC sum[ROWS][VECS];

#pragma GCC unroll 8
	for (size_t i = 0; i < rows; i++)
#pragma GCC unroll 8
		for (size_t v = 0; v < vecs; v++)
			sum[i][v] = SET(0.0f);
	for (size_t k = 0; k < nterms; k++) {
		const float *bk = b + term[k] * x->n, *ak = a + term[k] * x->term;
		VEC y[VECS];

#pragma GCC unroll 8
		for (size_t v = 0; v < vecs; v++)
			y[v] = LOAD(bk + v * WIDTH, v + 1 < vecs ? WIDTH : last);
#pragma GCC unroll 8
		for (size_t i = 0; i < rows; i++) {
			VEC one = SET(ak[i * x->row]);

#pragma GCC unroll 8
			for (size_t v = 0; v < vecs; v++)
				sum[i][v] = FMA(one, y[v], sum[i][v]);
		}
	}
#pragma GCC unroll 8
	for (size_t i = 0; i < rows; i++)
#pragma GCC unroll 8
		for (size_t v = 0; v < vecs; v++) {
			float *to = c + i * x->n + v * WIDTH;
			size_t lanes = v + 1 < vecs ? WIDTH : last;

			if (add)
				sum[i][v] += LOAD(to, lanes);
			STORE(to, lanes, sum[i][v]);
		}
}

/* With constant sizes the loops are unrolled, and sums stay in registers. */
#define CASE(n) \
	case n: \
		if (whole) \
			NAME(tile)(n, VECS, WIDTH, x, a, b, c, term, nterms, add); \
		else \
			NAME(tile)(n, 1, lanes, x, a, b, c, term, nterms, add); \
		break;

TARGET static void NAME(some)(const struct product *x, size_t rows, bool whole, size_t lanes,
    const float *a, const float *b, float *c, const uint32_t *term, size_t nterms, bool add)
{
	switch (rows) {
		CASE(1)
		CASE(2)
		CASE(3)
		CASE(4)
#if ROWS > 4
		CASE(5)
		CASE(6)
#endif
	}
}
#undef CASE

/* Lists the terms of from..to-1 that have a nonzero factor in `rows` rows of a. */
TARGET static size_t NAME(terms)(const struct product *x, size_t rows, const float *a, size_t from,
    size_t to, uint32_t *term)
{
	uint32_t any[PART] = { 0 };
	size_t n = 0;

	if (x->row == 1)
		for (size_t k = from; k < to; k++)
			any[k - from] = ANY(a + k * x->term, rows);
	else
		for (size_t i = 0; i < rows; i++)
			for (size_t k = from; k < to; k++)
				any[k - from] |= float_bits(a + i * x->row + k) << 1;
	for (size_t k = from; k < to; k++) {
		term[n] = (uint32_t)k;
		n += any[k - from] != 0;
	}
	return n;
}

/* Adds the terms from..to-1, at most PART of them. */
TARGET static void NAME(part)(const struct product *x, size_t from, size_t to, bool add)
{
	uint32_t term[PART];

	for (size_t j0 = 0; j0 < x->n; j0 += COLUMNS) {
		size_t end = x->n - j0 < COLUMNS ? x->n : j0 + COLUMNS;

		for (size_t i = 0; i < x->m; i += ROWS) {
			size_t rows = x->m - i < ROWS ? x->m - i : ROWS, step;
			size_t n = NAME(terms)(x, rows, x->a + i * x->row, from, to, term);

			for (size_t j = j0; j < end; j += step) {
				bool whole = end - j >= VECS * WIDTH;
				size_t lanes = end - j < WIDTH ? end - j : WIDTH;

				step = whole ? VECS * WIDTH : lanes;
				NAME(some)
				(x, rows, whole, lanes, x->a + i * x->row, x->b + j,
				    x->c + i * x->n + j, term, n, add);
			}
		}
	}
}

#undef NAME
#undef TARGET
#undef VEC
#undef WIDTH
#undef ROWS
#undef VECS
#undef FMA
#undef SET
#undef LOAD
#undef STORE
#undef ANY

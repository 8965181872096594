/* SPDX-License-Identifier: ISC */
#include "tap.h"

#include <math.h>

#include "core/buf.h"
#include "core/mem.h"
#include "core/rng.h"
#include "data/data.h"
#include "data/reader/data_num.h"
#include "data/batch/data_order.h"
#include "data/source/data_uri.h"

static const struct data_want classes = { .classes = true }, two = { .two = true };

static struct dataset *load_text(const char *text, const char *format, const struct data_want *want,
    struct err *e)
{
	struct data_options o = DATA_OPTIONS_INIT;
	struct dataset *d = NULL;
	struct stream *s;

	o.format = (char *)(uintptr_t)format;
	*e = (struct err){ 0 };
	if (stream_memory(text, strlen(text), "text", &s, e) == ERR_OK)
		data_load_stream(s, &o, want, NULL, &d, e);
	stream_close(s);
	return d;
}

static void test_numbers(void)
{
	static const char *const good[] = {
		"0",
		"-0",
		"1",
		"+1",
		"-12.5",
		".5",
		"5.",
		"1e3",
		"1E-3",
		"1e+22",
		"1e23",
		"0.1",
		"3.14159265358979",
		"123456789012345678901234567890",
		"9007199254740993",
		"2.2250738585072011e-308",
		"1e-400",
		"0e999",
		"0.000000000000000000000000000000001",
		"179769313486231580000000000000000000e273",
	};
	static const char *const bad[] = { "", "-", "+", ".", "e5", "x", "-.", "inf", "nan",
		"--1" };
	struct rng r;
	char text[64];
	bool all = true;
	double v = 0;

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		all = all && data_num(good[i], &v) == good[i] + strlen(good[i]) &&
		    v == strtod(good[i], NULL) && signbit(v) == signbit(strtod(good[i], NULL));
	ok(all, "numbers as strtod reads them");
	all = true;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		all = all && !data_num(bad[i], &v) && !data_num_all(bad[i], &v);
	ok(all, "what is no number");
	ok(*data_num("1e", &v) == 'e' && *data_num("0x10", &v) == 'x' &&
	        *data_num("1.5.2", &v) == '.',
	    "a number ends where its grammar ends");
	ok(!data_num_all("1e999", &v) && !data_num_all("1 ", &v), "the whole text, finite");
	rng_init(&r, 7);
	all = true;
	for (int i = 0; i < 200000; i++) {
		uint64_t bits = rng_next(&r);

		memcpy(&v, &bits, sizeof(v));
		if (!isfinite(v))
			continue;
		snprintf(text, sizeof(text), "%.*g", (int)(1 + bits % 18),
		    i % 2 ? v : rng_normal(&r) * 100);
		all = all && data_num_all(text, &v) == (bool)isfinite(strtod(text, NULL)) &&
		    (!isfinite(strtod(text, NULL)) || v == strtod(text, NULL));
	}
	ok(all, "and 200000 random ones");
}

/* Padded with bytes that must not count. */
static bool padded_is(const char *text, double want)
{
	char padded[96];
	const char *end;
	double v = 0;
	float f = 0;

	memset(padded, '7', sizeof(padded));
	memcpy(padded, text, strlen(text) + 1);
	end = padded + strlen(text);
	return data_num_padded(padded, &v) == end && memcmp(&v, &want, sizeof(v)) == 0 &&
	    data_num_float(padded, &f) == end &&
	    memcmp(&f, &(float){ (float)want }, sizeof(f)) == 0;
}

/* The double half way between two floats, its neighbours, and what is nearer to it than
 * to any other double: where a float would come out wrong first. */
static bool half_ways(struct rng *r)
{
	char text[80];
	bool all = true;
	double v;
	float f;

	for (int i = 0; i < 200000; i++) {
		uint32_t bits = (uint32_t)rng_next(r);

		if (i % 2)
			bits = (bits & 0x807fffff) | (uint32_t)(127 - 20 + rng_below(r, 40)) << 23;
		memcpy(&f, &bits, sizeof(f));
		if (!isfinite(f) || !isfinite(nextafterf(f, INFINITY)))
			continue;
		v = ((double)f + (double)nextafterf(f, INFINITY)) / 2;
		v = i % 3 ? nextafter(v, i % 3 == 1 ? INFINITY : -INFINITY) : v;
		snprintf(text, sizeof(text), "%.*g", (int)(16 + rng_below(r, 7)), v);
		all = all && padded_is(text, strtod(text, NULL));
		snprintf(text, sizeof(text), "%.*f", (int)rng_below(r, 22), v);
		all = all && (strlen(text) > 60 || padded_is(text, strtod(text, NULL)));
	}
	return all;
}

static bool random_texts(struct rng *r)
{
	static const char alphabet[] = "0000123456789.+-eE: ,";
	char text[40], padded[64];
	const char *end;
	bool all = true;
	double v, want;
	float f;

	for (int i = 0; i < 400000; i++) {
		size_t n = rng_below(r, 30);

		for (size_t k = 0; k < n; k++)
			text[k] = alphabet[rng_below(r, i % 2 ? sizeof(alphabet) - 1 : 14)];
		text[n] = '\0';
		memset(padded, '3', sizeof(padded));
		memcpy(padded, text, n + 1);
		end = data_num(padded, &want);
		all = all && data_num_padded(padded, &v) == end &&
		    data_num_float(padded, &f) == end;
		if (end) {
			all = all && memcmp(&v, &want, sizeof(v)) == 0 &&
			    memcmp(&f, &(float){ (float)want }, sizeof(f)) == 0;
			/* What the grammar takes, and no more, as strtod has it. */
			padded[end - padded] = '\0';
			all = all && want == strtod(padded, NULL);
		}
	}
	return all;
}

static void test_padded(void)
{
	static const char *const texts[] = {
		"0",
		"-0",
		"+1",
		".5",
		"5.",
		"-.25",
		"1234567",
		"12345678",
		"1234567.12345678",
		"123456.123456789",
		"0.1234567",
		"0.12345678",
		"0.123456789",
		"0.12345678901234",
		"0.123456789012345",
		"0.1234567890123456",
		"0.12345678901234567",
		"-0.00000000000000000012345678901234567",
		"1e5",
		"1.5e-7",
		"9999999.99999999",
		"16777217",
		"3.4028235677973366e38",
		"3.5e38",
		"1e-50",
		"-1e-50",
		"0.0000000000000000000000",
		"-0.00000000000000000",
		"340282356779733661637539395458142568448",
		"18446744073709551615",
		"9999999999999999999",
		"0.000000000000000000000000000000000000000000000700649232162408613",
	};
	struct rng r;
	bool all = true;

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (!padded_is(texts[i], strtod(texts[i], NULL))) {
			printf("# %s\n", texts[i]);
			all = false;
		}
	ok(all, "padded numbers, as doubles and as floats");
	rng_init(&r, 9);
	ok(half_ways(&r), "floats that are hard to round");
	ok(random_texts(&r), "any text: one grammar, one value");
}

static void test_uri(void)
{
	struct data_options o;
	struct err e = { 0 };
	char *file;

	ok(data_uri_parse("a?b/c.csv?label=the%20price%3f&index_base=1&format=csv", &file, &o,
	       &e) == ERR_OK &&
	        strcmp(file, "a?b/c.csv") == 0 && strcmp(o.label, "the price?") == 0 &&
	        o.index_base == 1 && strcmp(o.format, "csv") == 0,
	    "path and options %s", e.msg);
	free(file);
	data_uri_release(&o);
	ok(data_uri_parse("part-?.csv", &file, &o, &e) == ERR_OK &&
	        strcmp(file, "part-?.csv") == 0 && o.index_base == -1 && !o.label,
	    "a glob's ? stays");
	free(file);
	data_uri_release(&o);
	ok(data_uri_parse("x?lable=1", &file, &o, &e) == ERR_CONFIG &&
	        strstr(e.msg, "did you mean \"label\"?"),
	    "%s", e.msg);
	ok(data_uri_parse("x?format=libsvn", &file, &o, &e) == ERR_CONFIG &&
	        strstr(e.msg, "\"libsvm\"?"),
	    "%s", e.msg);
	ok(data_uri_parse("x?format=parquet", &file, &o, &e) == ERR_CONFIG &&
	        strstr(e.msg, "idx, npy"),
	    "%s", e.msg);
	ok(data_uri_parse("x?index_base=2", &file, &o, &e) == ERR_CONFIG, "%s", e.msg);
	ok(data_uri_parse("x?label=1&&", &file, &o, &e) == ERR_CONFIG, "%s", e.msg);
	ok(data_uri_parse("x?label=", &file, &o, &e) == ERR_CONFIG, "%s", e.msg);
	ok(data_uri_parse("?label=1", &file, &o, &e) == ERR_CONFIG && !file, "%s", e.msg);
}

/* A batch says the same as the rows that it was made of. */
static bool batch_is(const struct dataset *d, const uint32_t *index, size_t n,
    const struct batch *b)
{
	bool good = b->rows == n && b->cols == d->cols && b->sparse == d->sparse;

	for (size_t i = 0; good && i < n; i++) {
		size_t r = index[i];
		uint64_t len = d->sparse ? d->start[r + 1] - d->start[r] : 0;

		good = (!d->y || b->y[i] == d->y[r]) && (!d->label || b->label[i] == d->label[r]);
		for (size_t c = 0; good && !d->sparse && c < d->cols; c++)
			good = b->x[i * d->cols + c] ==
			    (d->x ? d->x[r * d->cols + c]
			          : (float)d->x8[r * d->cols + c] * d->scale);
		good = good && (!d->sparse || b->start[i + 1] - b->start[i] == len);
		for (uint64_t k = 0; good && k < len; k++) {
			uint32_t at = b->start[i] + (uint32_t)k;

			good = b->col[at] < b->nids &&
			    b->id[b->col[at]] == d->id[d->col[d->start[r] + k]] &&
			    b->val[at] == d->val[d->start[r] + k];
		}
	}
	for (size_t i = 1; good && d->sparse && i < b->nids; i++)
		good = b->id[i - 1] < b->id[i];
	return good;
}

/* No id that no entry has: nids is the number of distinct ones. */
static bool all_used(const struct batch *b)
{
	uint8_t *used = mem_alloc(b->nids + 1);
	size_t n = 0;

	for (uint32_t k = 0; k < b->start[b->rows]; k++) {
		n += !used[b->col[k]];
		used[b->col[k]] = 1;
	}
	free(used);
	return n == b->nids;
}

static void test_gather_sparse(uint64_t ids)
{
	struct buf text = BUF_INIT;
	struct batch b = { 0 };
	uint32_t index[300];
	struct dataset *d;
	bool all = true;
	struct err e;
	struct rng r;

	rng_init(&r, ids);
	for (int i = 0; i < 500; i++) {
		buf_printf(&text, "%d", i % 2);
		for (uint64_t k = rng_below(&r, 40), at = 1; k > 0;
		     k--, at += 1 + rng_below(&r, ids / 40))
			buf_printf(&text, " %llu:%llu", (unsigned long long)at,
			    (unsigned long long)rng_below(&r, 9));
		buf_puts(&text, "\n");
	}
	d = load_text((char *)text.data, "libsvm", &two, &e);
	for (int turn = 0; d && turn < 60; turn++) {
		size_t n = rng_below(&r, turn % 3 ? 300 : 2); /* few of many ids are sorted */

		for (size_t i = 0; i < n; i++)
			index[i] = (uint32_t)rng_below(&r, d->rows);
		all = all && data_gather(d, index, n, &b, &e) == ERR_OK &&
		    batch_is(d, index, n, &b) && all_used(&b);
	}
	ok(d && all, "gather: sparse rows among %llu ids %s", (unsigned long long)ids, e.msg);
	batch_release(&b);
	dataset_free(d);
	buf_release(&text);
}

static void test_gather_dense(void)
{
	static const uint32_t index[] = { 2, 0, 1, 2, 2 };
	struct dataset *csv, bytes = { .rows = 3, .cols = 37, .scale = 1.f / 255 };
	struct batch b = { 0 };
	uint8_t x8[3 * 37];
	float y[3] = { 1, 2, 3 };
	const float *x;
	struct err e;
	size_t room;

	csv = load_text("1,2,3,0\n4,5,6,1\n7,8,9,2\n", "csv", &classes, &e);
	if (!ok(csv, "gather: loaded %s", e.msg))
		return;
	ok(data_gather(csv, index, 5, &b, &e) == ERR_OK && batch_is(csv, index, 5, &b) &&
	        b.x[0] == 7 && b.label[1] == 0,
	    "gather: dense rows");
	for (size_t i = 0; i < sizeof(x8); i++)
		x8[i] = (uint8_t)(255 - i * 3);
	bytes.x8 = x8;
	bytes.y = y;
	bytes.targets = 1;
	ok(data_gather(&bytes, index, 5, &b, &e) == ERR_OK && batch_is(&bytes, index, 5, &b) &&
	        b.y[2] == 2,
	    "gather: bytes");
	ok(fabsf(b.x[37] - 1) < 1e-6f, "gather: byte 255 is 1");
	x = b.x;
	room = b.room.x;
	ok(room >= sizeof *x * 5 * 37 && data_gather(&bytes, index, 4, &b, &e) == ERR_OK &&
	        b.x == x && b.room.x == room,
	    "gather: a smaller batch uses the same memory");
	ok(data_gather(&bytes, index, 0, &b, &e) == ERR_OK && b.rows == 0, "gather: no rows");
	batch_release(&b);
	dataset_free(csv);
}

static bool is_permutation(const uint32_t *order, uint32_t n)
{
	uint8_t *seen = mem_array(n, 1);
	bool good = true;

	for (uint32_t i = 0; i < n; i++)
		good = good && order[i] < n && !seen[order[i]]++;
	free(seen);
	return good;
}

/* How much more the batches differ in the number of examples of each tenth of the data than random
 * samples without replacement do: the mean of chi squared for each degree of freedom. */
static double batch_dispersion(uint32_t n, uint32_t batch, uint64_t epochs)
{
	uint32_t *order = mem_array(n, sizeof *order);
	double sum = 0, expected = batch / 10.0;
	uint64_t batches = 0;

	for (uint64_t epoch = 0; epoch < epochs; epoch++) {
		data_order(7, epoch, n, 0, n, order);
		for (uint32_t at = 0; at + batch <= n; at += batch) {
			unsigned count[10] = { 0 };

			for (uint32_t i = at; i < at + batch; i++)
				count[(uint64_t)order[i] * 10 / n]++;
			for (int k = 0; k < 10; k++)
				sum += (count[k] - expected) * (count[k] - expected) / expected;
			batches++;
		}
	}
	free(order);
	return sum / 9 / (double)batches * (n - 1) / (n - batch);
}

/* The mean of chi squared, for each degree of freedom, of the tenths in which neighbours in the order
 * lie. */
static double pair_dispersion(uint32_t n, uint64_t epochs)
{
	uint32_t *order = mem_array(n, sizeof *order);
	double sum = 0, expected = (n - 1) / 100.0;

	for (uint64_t epoch = 0; epoch < epochs; epoch++) {
		unsigned count[10][10] = { 0 };

		data_order(9, epoch, n, 0, n, order);
		for (uint32_t i = 0; i + 1 < n; i++)
			count[(uint64_t)order[i] * 10 / n][(uint64_t)order[i + 1] * 10 / n]++;
		for (int k = 0; k < 100; k++)
			sum += (count[k / 10][k % 10] - expected) *
			    (count[k / 10][k % 10] - expected) / expected;
	}
	free(order);
	return sum / 81 / (double)epochs;
}

/* How often each position of few examples has each of them: the greatest difference to the mean, as
 * a part of it. */
static double place_bias(uint32_t n, uint64_t epochs)
{
	uint32_t *count = mem_array((size_t)n * n, sizeof *count), order[16];
	double mean = (double)epochs / n, worst = 0;

	for (uint64_t epoch = 0; epoch < epochs; epoch++) {
		data_order(3, epoch, n, 0, n, order);
		for (uint32_t i = 0; i < n; i++)
			count[i * n + order[i]]++;
	}
	for (uint32_t i = 0; i < n * n; i++)
		worst = fmax(worst, fabs(count[i] / mean - 1));
	free(count);
	return worst;
}

static void test_order(void)
{
	/* The first numbers of the orders of 7 and 1500 examples in epoch 2 with seed 1, computed by
	 * another program from the description in ps-consistency(7). */
	static const uint32_t few[7] = { 3, 2, 1, 5, 0, 6, 4 },
	                      many[7] = { 1261, 869, 367, 1201, 507, 175, 1301 };
	static const uint32_t sizes[] = { 1, 2, 3, 1023, 1024, 1025, 60000, 65536, 65537 };
	uint32_t a[1500], b[1500], *order = mem_array(65537, sizeof *order);
	bool all = true;

	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		data_order(1, i, sizes[i], 0, sizes[i], order);
		all = all && is_permutation(order, sizes[i]);
	}
	free(order);
	ok(all, "order: a permutation");
	data_order(1, 2, 7, 0, 7, b);
	data_order(1, 2, 1500, 0, 1500, a);
	ok(memcmp(b, few, sizeof few) == 0 && memcmp(a, many, sizeof many) == 0,
	    "order: as the manual describes it");
	data_order(1, 2, 1500, 700, 1500, b);
	all = memcmp(a + 700, b, 800 * sizeof *b) == 0;
	data_order(1, 2, 1500, 0, 700, b);
	ok(all && memcmp(a, b, 700 * sizeof *b) == 0, "order: the same in parts");
	data_order(2, 1, 1500, 0, 1500, b);
	ok(memcmp(a, b, sizeof a) != 0, "order: seed and epoch are not exchanged");
	data_order(1, 3, 1500, 0, 1500, b);
	ok(memcmp(a, b, sizeof a) != 0, "order: another one each epoch");
	ok(fabs(batch_dispersion(60000, 64, 20) - 1) < 0.03 &&
	        fabs(batch_dispersion(5000, 64, 200) - 1) < 0.03,
	    "order: batches are random samples of the data");
	ok(fabs(pair_dispersion(60000, 100) - 1) < 0.06, "order: neighbours are independent");
	ok(place_bias(3, 20000) < 0.05 && place_bias(10, 40000) < 0.07,
	    "order: few examples are at each place equally often");
}

int main(void)
{
	test_numbers();
	test_padded();
	test_uri();
	test_gather_sparse(50);
	test_gather_sparse(30000);
	test_gather_sparse(UINT64_C(1) << 40);
	test_gather_dense();
	test_order();
	return tap_done();
}

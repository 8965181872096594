/* SPDX-License-Identifier: ISC */
#include <malloc.h>

#include "core/buf.h"
#include "core/clock.h"
#include "core/mem.h"
#include "core/rng.h"
#include "data/data.h"
#include "data/batch/data_order.h"

/* How fast examples are read and dealt: of the files named, each perhaps with
 * ?options, else of texts made up here. */

#define BATCH 64

static double seconds_since(int64_t start)
{
	return (double)(clock_now() - start) / (double)NSEC_PER_SEC;
}

static void gather(const struct dataset *d)
{
	uint32_t *order = mem_array(d->rows, sizeof(*order));
	struct batch b = { 0 };
	uint64_t values = 0;
	size_t rows = 0;
	int64_t start;
	double t;

	data_order(1, 0, (uint32_t)d->rows, 0, (uint32_t)d->rows, order);
	start = clock_now();
	for (int epoch = 0; epoch < 3; epoch++) {
		for (size_t i = 0; i + BATCH <= d->rows; i += BATCH) {
			data_gather(d, order + i, BATCH, &b, NULL);
			values += d->sparse ? b.start[BATCH] : BATCH * d->cols;
			rows += BATCH;
		}
	}
	t = seconds_since(start);
	printf("  gather, %d rows a batch: %.2f M rows/s, %.0f M values/s, %.1f us a batch\n",
	    BATCH, (double)rows / t / 1e6, (double)values / t / 1e6,
	    t / (double)(rows / BATCH) * 1e6);
	batch_release(&b);
	free(order);
}

#define TURNS 5

static int by_time(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* What was loaded last, the time of each turn, and the bytes of text; frees d. */
static void report(struct dataset *d, double *t, size_t bytes)
{
	char line[DATA_DESCRIPTION];

	qsort(t, TURNS, sizeof(*t), by_time);
	data_describe(d, line);
	printf("%s\n  read in %.3f s", line, t[TURNS / 2]);
	if (bytes)
		printf(", %.0f MB/s", (double)bytes / t[TURNS / 2] / 1e6);
	printf(" (median of %d, the best %.3f s)\n", TURNS, t[0]);
	gather(d);
	dataset_free(d);
}

static enum err_code load_text(const char *name, const struct buf *b, struct dataset **out,
    struct err *e)
{
	struct data_options o = DATA_OPTIONS_INIT;
	struct data_want want = { .two = true };
	struct stream *s;
	enum err_code rc;

	rc = stream_memory(b->data, b->len, name, &s, e);
	if (rc == ERR_OK)
		rc = data_load_stream(s, &o, &want, NULL, out, e);
	stream_close(s);
	return rc;
}

static enum err_code load_file(const char *path, struct dataset **out, struct err *e)
{
	struct data_want want = { .classes = true };

	return data_load(&path, 1, NULL, &want, NULL, out, e);
}

/* From memory, or (b NULL) from the file of that name. */
static int measure(const char *name, const struct buf *b)
{
	struct dataset *d = NULL;
	struct err e = { 0 };
	double t[TURNS];
	int64_t start;

	for (int i = 0; i < TURNS; i++) {
		dataset_free(d);
		start = clock_now();
		if (b ? load_text(name, b, &d, &e) : load_file(name, &d, &e)) {
			fprintf(stderr, "%s\n", e.msg);
			return 1;
		}
		t[i] = seconds_since(start);
	}
	report(d, t, b ? b->len : 0);
	return 0;
}

static int made_up(void)
{
	struct buf b = BUF_INIT;
	struct rng r;
	int rc;

	rng_init(&r, 1);
	for (int i = 0; i < 200000; i++) {
		buf_puts(&b, i % 2 ? "+1" : "-1");
		for (uint64_t id = 1 + rng_below(&r, 20); id < 124; id += 1 + rng_below(&r, 16))
			buf_printf(&b, " %d:1", (int)id);
		buf_puts(&b, "\n");
	}
	rc = measure("binary features", &b);
	buf_clear(&b);
	for (int i = 0; i < 100000; i++) {
		buf_puts(&b, i % 2 ? "+1" : "-1");
		for (int k = 0; k < 39; k++)
			buf_printf(&b, " %d:%.6g", (int)(k * 25000 + (int)rng_below(&r, 25000) + 1),
			    rng_unit(&r));
		buf_puts(&b, "\n");
	}
	rc |= measure("a million features", &b);
	buf_clear(&b);
	for (int i = 0; i < 100000; i++) {
		for (int k = 0; k < 39; k++)
			buf_printf(&b, "%.6g,", rng_normal(&r));
		buf_printf(&b, "%d\n", i % 2);
	}
	rc |= measure("columns", &b);
	buf_clear(&b);
	for (int i = 0; i < 100000; i++) {
		for (int k = 0; k < 20; k++)
			buf_printf(&b, "%.17g,%.9g,", rng_normal(&r), rng_normal(&r));
		buf_printf(&b, "%d\n", i % 2);
	}
	rc |= measure("columns of doubles and floats, all their digits", &b);
	buf_release(&b);
	return rc;
}

int main(int argc, char **argv)
{
	int rc = 0;

	/* Memory comes fresh from the kernel each turn, as it does to a worker that starts. */
	mallopt(M_MMAP_THRESHOLD, 128 << 10);
	if (argc < 2)
		return made_up();
	for (int i = 1; i < argc; i++)
		rc |= measure(argv[i], NULL);
	return rc;
}

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "data/data.h"
#include "data/data_order.h"

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

	data_order(1, 0, (uint32_t)d->rows, order);
	start = clock_now();
	for (int epoch = 0; epoch < 3; epoch++) {
		for (size_t i = 0; i + BATCH <= d->rows; i += BATCH) {
			data_gather(d, order + i, BATCH, &b, NULL);
			values += d->sparse ? b.start[BATCH] : BATCH * d->cols;
			rows += BATCH;
		}
	}
	t = seconds_since(start);
	printf("  gather, %d rows a batch: %.2f M rows/s, %.0f M values/s, %.1f us a batch\n", BATCH,
	       (double)rows / t / 1e6, (double)values / t / 1e6, t / (double)(rows / BATCH) * 1e6);
	batch_release(&b);
	free(order);
}

static void report(struct dataset *d, double t, size_t bytes)
{
	char text[256];

	data_describe(d, text);
	printf("%s\n  read in %.3f s", text, t);
	if (bytes)
		printf(", %.0f MB/s", (double)bytes / t / 1e6);
	printf("\n");
	gather(d);
	dataset_free(d);
}

static int text(const char *name, const struct buf *b)
{
	struct data_options o = { .index_base = -1 };
	struct data_want want = { .two = true };
	int64_t start = clock_now();
	struct dataset *d = NULL;
	struct stream *s;
	struct err e = { 0 };
	enum err_code rc;

	rc = stream_memory(b->data, b->len, name, &s, &e);
	if (rc == ERR_OK)
		rc = data_load_stream(s, &o, &want, NULL, &d, &e);
	stream_close(s);
	if (rc != ERR_OK) {
		fprintf(stderr, "%s\n", e.msg);
		return 1;
	}
	report(d, seconds_since(start), b->len);
	return 0;
}

static int file(const char *path)
{
	struct data_want want = { .classes = true };
	int64_t start = clock_now();
	struct dataset *d;
	struct err e = { 0 };

	if (data_load(&path, 1, NULL, &want, NULL, &d, &e) != ERR_OK) {
		fprintf(stderr, "%s\n", e.msg);
		return 1;
	}
	report(d, seconds_since(start), 0);
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
	rc = text("binary features", &b);
	buf_clear(&b);
	for (int i = 0; i < 100000; i++) {
		buf_puts(&b, i % 2 ? "+1" : "-1");
		for (int k = 0; k < 39; k++)
			buf_printf(&b, " %d:%.6g", (int)(k * 25000 + (int)rng_below(&r, 25000) + 1), rng_unit(&r));
		buf_puts(&b, "\n");
	}
	rc |= text("a million features", &b);
	buf_clear(&b);
	for (int i = 0; i < 100000; i++) {
		for (int k = 0; k < 39; k++)
			buf_printf(&b, "%.6g,", rng_normal(&r));
		buf_printf(&b, "%d\n", i % 2);
	}
	rc |= text("columns", &b);
	buf_release(&b);
	return rc;
}

int main(int argc, char **argv)
{
	int rc = 0;

	if (argc < 2)
		return made_up();
	for (int i = 1; i < argc; i++)
		rc |= file(argv[i]);
	return rc;
}

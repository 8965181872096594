/* SPDX-License-Identifier: ISC */
#include "tap.h"

#include <unistd.h>

#include "core/clock.h"
#include "data/data.h"

#define ROOT    "../shared/data"
#define FASHION "/usr/share/datasets/fashion-mnist"

static const struct data_want real, classes = { .classes = true }, two = { .two = true };

static struct dataset *load(const char *dir, const char *path, const struct data_want *want,
    const struct dataset *like)
{
	struct dataset *d;
	struct err e = { 0 };
	char text[DATA_DESCRIPTION];
	int64_t start = clock_now();

	if (data_load(&path, 1, dir, want, like, &d, &e) != ERR_OK) {
		ok(false, "%s", e.msg);
		return NULL;
	}
	data_describe(d, text);
	ok(true, "%s", text);
	printf("# %.0f ms\n", (double)(clock_now() - start) / (double)NSEC_PER_MSEC);
	return d;
}

static bool shape(const struct dataset *d, size_t rows, size_t cols, size_t n)
{
	return d && d->rows == rows && d->cols == cols && d->classes == n;
}

static void test_sparse(void)
{
	struct dataset *d = load(ROOT, "a9a/a9a.gz", &two, NULL), *t;
	double positive = 0;

	ok(shape(d, 32561, 123, 2) && d->index_base == 1, "a9a");
	for (size_t i = 0; d && i < d->rows; i++)
		positive += d->y[i];
	ok(positive == 7841, "a9a has 7841 positive examples");
	t = load(ROOT, "a9a/a9a.t.gz", &two, d);
	ok(shape(t, 16281, 123, 2), "a9a.t: as wide as the training data");
	dataset_free(t);
	dataset_free(d);
	d = load(ROOT, "angel/dna.scale.gz", &classes, NULL);
	ok(shape(d, 2000, 180, 3), "dna");
	t = load(ROOT, "angel/dna.scale.t.gz", &classes, d);
	ok(shape(t, 1186, 180, 3), "dna test");
	dataset_free(t);
	dataset_free(d);
	d = load(ROOT, "angel/abalone_8d_train.libsvm.gz", &real, NULL);
	ok(shape(d, 4177, 8, 0) && d->y[0] == 15, "abalone");
	dataset_free(d);
	d = load(ROOT, "angel/census_148d_train.libsvm.gz", &two, NULL);
	ok(d && d->rows == 22792, "census");
	dataset_free(d);
}

static void test_dense(void)
{
	struct dataset *d = load(ROOT, "digits8x8/digits.csv.gz", &classes, NULL);

	ok(shape(d, 1797, 64, 10) && d->x[2] == 5 && d->label[1] == 1, "digits");
	dataset_free(d);
	d = load(ROOT, "mnist/train-images-idx3-ubyte.gz", &classes, NULL);
	ok(shape(d, 60000, 784, 10) && d->label[0] == 5 && d->label[59999] == 8, "MNIST");
	dataset_free(d);
}

int main(void)
{
	struct dataset *d, *t;

	if (access(ROOT, R_OK) != 0)
		return skip_all("no " ROOT);
	test_sparse();
	test_dense();
	if (access(FASHION, R_OK) == 0) {
		d = load(FASHION, "train-images-idx3-ubyte.gz", &classes, NULL);
		t = load(FASHION, "t10k-images-idx3-ubyte.gz", &classes, d);
		ok(shape(d, 60000, 784, 10) && shape(t, 10000, 784, 10), "Fashion-MNIST");
		dataset_free(t);
		dataset_free(d);
	}
	return tap_done();
}

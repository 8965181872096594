/* SPDX-License-Identifier: ISC */
/* Sources of training examples: every example once an epoch, in a sequence that the range alone
 * determines, whatever the size of chunks and batches. */
#include "tap.h"

#include <stdlib.h>
#include <unistd.h>

#include "core/buf.h"
#include "core/mem.h"
#include "data/data_sequence.h"
#include "worker/range_source.h"

enum { ROWS = 500 };

static const struct data_want real;
static char dir[] = "/tmp/pskit-source-XXXXXX";

/* ROWS examples labelled 1 .. ROWS. The row of label i has the value i in each column that it has. */
static char *write_data(const char *name, bool sparse)
{
	char *path = mem_printf("%s/%s", dir, name);
	FILE *f = fopen(path, "w");

	if (!f)
		abort();
	for (int i = 1; i <= ROWS; i++)
		sparse ? fprintf(f, "%d %d:%d %d:%d\n", i, i % 7 + 1, i, i + 10, i)
		       : fprintf(f, "%d,%d,%d\n", i, i, i);
	if (fclose(f))
		abort();
	return path;
}

/* Is each value of the batch the label of its row, and are its ids ascending? */
static bool is_whole(const struct batch *b)
{
	bool good = true;

	for (size_t r = 0; r < b->rows; r++) {
		if (b->sparse) {
			good = good && b->start[r + 1] - b->start[r] == 2;
			for (uint32_t k = b->start[r]; k < b->start[r + 1]; k++) {
				uint64_t id = b->id[b->col[k]], i = (uint64_t)b->y[r];

				good = good && b->val[k] == b->y[r] && b->col[k] < b->nids &&
				    (id == i % 7 || id == i + 9);
			}
		} else {
			for (size_t c = 0; c < b->cols; c++)
				good = good && b->x[r * b->cols + c] == b->y[r];
		}
	}
	for (size_t k = 1; b->sparse && k < b->nids; k++)
		good = good && b->id[k - 1] < b->id[k];
	return good;
}

/* Takes the examples of a range from `from` on in batches of n, and appends their labels to `out`. False: a
 * batch is wrong. The range after it is prepared meanwhile. */
static bool take_range(struct range_source *s, const struct source_range *r,
    const struct source_range *after, uint64_t from, uint64_t n, struct buf *out)
{
	struct batch b = { 0 };
	struct err e = { 0 };
	uint64_t at = from, have = 1;
	bool good = !s->ops->open(s, r, &e);

	while (good && have) {
		good = !s->ops->ready(s, at, n, &have, &e);
		if (good && at == from && after)
			good = !s->ops->prepare(s, after, &e);
		if (!good || !have)
			break;
		good = have == n || s->ops->left(s, at) == have;
		good = good && !s->ops->load(s, at, have, &b, &e) && b.rows == have && is_whole(&b);
		for (size_t i = 0; good && i < b.rows; i++)
			buf_append(out, &b.y[i], sizeof b.y[i]);
		at += have;
	}
	if (!good)
		printf("# at %llu: %s\n", (unsigned long long)at, e.msg);
	good = good && s->ops->left(s, at) == 0;
	s->ops->close(s);
	batch_release(&b);
	return good;
}

/* An epoch in ranges of `per_range` units. */
static bool take_epoch(struct range_source *s, uint64_t epoch, uint64_t per_range, uint64_t n,
    struct buf *out)
{
	bool good = true;

	for (uint64_t i = 0; good && i < s->units; i += per_range) {
		uint64_t end = i + per_range < s->units ? i + per_range : s->units;
		uint64_t last = end + per_range < s->units ? end + per_range : s->units;
		struct source_range r = { i + 1, epoch, i, end },
		                    after = { end + 1, epoch, end, last };

		good = take_range(s, &r, end < s->units ? &after : NULL, 0, n, out);
	}
	return good;
}

static int compare_labels(const void *a, const void *b)
{
	float x, y;

	memcpy(&x, a, sizeof x);
	memcpy(&y, b, sizeof y);
	return (x > y) - (x < y);
}

/* Are these the labels 1 .. ROWS, in another order? */
static bool is_epoch(struct buf *labels)
{
	float *y = mem_array(ROWS, sizeof *y);
	bool good = labels->len == ROWS * sizeof *y, shuffled = false;

	if (good)
		memcpy(y, labels->data, labels->len);
	for (int i = 0; i < ROWS; i++)
		shuffled = shuffled || y[i] != (float)(i + 1);
	qsort(y, ROWS, sizeof *y, compare_labels);
	for (int i = 0; i < ROWS; i++)
		good = good && y[i] == (float)(i + 1);
	free(y);
	return good && shuffled;
}

static bool same_bytes(const struct buf *a, const struct buf *b)
{
	return a->len == b->len && memcmp(a->data, b->data, a->len) == 0;
}

/* The epoch by several sizes of batches: the same sequence; another epoch: another one. */
static void check_source(struct range_source *s, const char *title)
{
	struct buf first = BUF_INIT, labels = BUF_INIT;
	uint64_t per_range = s->per_range ? s->per_range : 90;
	bool good = take_epoch(s, 0, per_range, 1, &first), same = good;

	for (uint64_t n = 7; n < 700; n = n * 3 + 1) {
		buf_clear(&labels);
		same = same && take_epoch(s, 0, per_range, n, &labels) &&
		    same_bytes(&first, &labels);
	}
	ok(good && is_epoch(&first), "%s: every example once an epoch, shuffled", title);
	ok(same, "%s: one sequence, whatever the size of a batch", title);
	buf_clear(&labels);
	ok(take_epoch(s, 1, per_range, 7, &labels) && !same_bytes(&first, &labels) &&
	        is_epoch(&labels),
	    "%s: another order in another epoch", title);
	buf_release(&first);
	buf_release(&labels);
}

/* A range that is gone on with from its middle, as after the loss of a worker. */
static void check_middle(struct range_source *s, const char *title)
{
	struct source_range r = { 1, 3, 0, s->units }, other = { 2, 3, 0, 1 };
	struct buf whole = BUF_INIT, rest = BUF_INIT;
	bool good = take_range(s, &r, NULL, 0, 9, &whole);

	for (uint64_t from = 1; good && from <= ROWS; from += 83) {
		buf_clear(&rest);
		good = take_range(s, &r, &other, from, 9, &rest) &&
		    rest.len == whole.len - from * sizeof(float) &&
		    (rest.len == 0 ||
		        memcmp(rest.data, whole.data + from * sizeof(float), rest.len) == 0);
	}
	ok(good, "%s: the rest of a range is the same from any example on", title);
	buf_clear(&rest);
	ok(take_range(s, &r, NULL, ROWS + 10, 9, &rest) && rest.len == 0,
	    "%s: nothing follows the end of a range", title);
	buf_release(&whole);
	buf_release(&rest);
}

static void in_memory(const char *path)
{
	struct dataset *d = NULL;
	struct err e = { 0 };
	struct range_source *s;
	struct batch b = { 0 };

	if (data_load(&path, 1, NULL, &real, NULL, &d, &e)) {
		ok(false, "%s", e.msg);
		return;
	}
	s = source_memory_new(d, NULL, 5);
	check_source(s, "memory");
	check_middle(s, "memory");
	ok(s->examples == ROWS && s->per_range == 0 && !s->ops->deal(s, 0, 10, 20, &b, &e) &&
	        b.rows == 10 && is_whole(&b) && !s->ops->deal(s, 0, 20, 20, &b, &e) && b.rows == 0,
	    "memory: examples are dealt, also none");
	range_source_free(s);
	batch_release(&b);
	dataset_free(d);
}

static void in_blocks(const char *path, const char *title, uint64_t block, uint64_t per_range,
    uint64_t memory)
{
	struct data_blocks *blocks = NULL;
	struct err e = { 0 };
	struct range_source *s;

	if (data_blocks_open(&path, 1, NULL, &real, 1, block, &blocks, &e) || !blocks) {
		ok(false, "%s", e.msg);
		return;
	}
	s = source_blocks_new(blocks, NULL, 5, per_range, 2, memory);
	check_source(s, title);
	check_middle(s, title);
	/* A range is open, and the next one is being read, when the source is freed. */
	ok(!s->ops->open(s, &(struct source_range){ 9, 0, 0, 1 }, &e) &&
	        !s->ops->prepare(s, &(struct source_range){ 10, 0, 1, s->units }, &e),
	    "%s: freed while a thread reads", title);
	range_source_free(s);
	data_blocks_free(blocks);
}

/* Appends the labels of a sequence of held-out examples. */
static bool take_held_out(struct data_sequence *s, struct buf *out)
{
	const struct dataset *piece;
	struct err e = { 0 };
	size_t n = 0;

	while (!data_sequence_next(s, &piece, &e) && piece) {
		const uint32_t *row = data_sequence_rows(s, &n);

		for (size_t i = 0; i < (row ? n : piece->rows); i++)
			buf_append(out, &piece->y[row ? row[i] : i], sizeof *piece->y);
	}
	return !e.code;
}

/* An epoch of the training part and the held-out part are all examples together, each once. */
static void check_split(struct range_source *s, struct data_sequence *held, const char *title)
{
	struct buf all = BUF_INIT, once = BUF_INIT, twice = BUF_INIT;
	bool good = take_held_out(held, &once) && take_held_out(held, &twice);
	size_t n = once.len / sizeof(float);

	ok(good && n > 0 && n < ROWS && same_bytes(&once, &twice),
	    "%s: %zu examples held out, the same ones again", title, n);
	buf_append(&all, once.data, once.len);
	ok(good && take_epoch(s, 0, s->per_range ? s->per_range : 90, 7, &all) && is_epoch(&all),
	    "%s: and no other is missing in an epoch", title);
	data_sequence_free(held);
	range_source_free(s);
	buf_release(&all);
	buf_release(&once);
	buf_release(&twice);
}

static void held_out(const char *path)
{
	struct dataset *d = NULL;
	struct data_blocks *blocks = NULL;
	struct data_split split, other, none;
	struct err e = { 0 };

	if (data_load(&path, 1, NULL, &real, NULL, &d, &e) ||
	    data_blocks_open(&path, 1, NULL, &real, 1, 300, &blocks, &e) || !blocks ||
	    data_split_make(5, 0.2, ROWS, &split, &e) ||
	    data_split_make(6, 0.2, ROWS, &other, &e)) {
		ok(false, "%s", e.msg);
		return;
	}
	/* 500 draws of 1/5 have the standard deviation 9. */
	ok(split.nheld_out > 100 - 45 && split.nheld_out < 100 + 45 &&
	        split.ntrain + split.nheld_out == ROWS &&
	        memcmp(split.held_out, other.held_out, 20 * sizeof *split.held_out) != 0,
	    "about a fifth is held out, %u of %d, by the seed", split.nheld_out, ROWS);
	check_split(source_memory_new(d, &split, 5),
	    data_sequence_of_rows(d, split.held_out, split.nheld_out), "memory");
	data_split_release(&split);
	data_split_release(&other);
	if (data_split_make(5, 0.2, (uint32_t)data_blocks_count(blocks), &split, &e))
		ok(false, "%s", e.msg);
	check_split(source_blocks_new(blocks, &split, 5, 4, 2, 1 << 20),
	    data_sequence_of_blocks(blocks, split.held_out, split.nheld_out, 700), "blocks");
	data_split_release(&split);
	ok(!data_split_make(5, 1e-9, 2, &split, &e) && split.nheld_out == 1 && split.ntrain == 1 &&
	        !data_split_make(5, 0.999999, 3, &other, &e) && other.ntrain == 1 &&
	        data_split_make(5, 0.5, 1, &none, &e) == ERR_CONFIG,
	    "no part is empty");
	data_split_release(&split);
	data_split_release(&other);
	data_blocks_free(blocks);
	dataset_free(d);
}

static void numbered(void)
{
	struct dataset *d = dataset_numbered(100);
	struct range_source *s = source_memory_new(d, NULL, 5);
	struct batch b = { 0 };
	struct err e = { 0 };
	uint64_t have = 0;

	ok(!s->ops->open(s, &(struct source_range){ 1, 2, 50, 60 }, &e) &&
	        !s->ops->ready(s, 4, 100, &have, &e) && have == 6 && s->ops->left(s, 4) == 6 &&
	        s->ops->units_before(s, 4) == 54 && !s->ops->load(s, 4, 6, &b, &e) && b.rows == 6 &&
	        b.first == 54 && b.epoch == 2,
	    "numbered examples are in their own order");
	range_source_free(s);
	dataset_free(d);
}

int main(void)
{
	char *dense, *sparse;

	if (!mkdtemp(dir))
		return 1;
	dense = write_data("d.csv", false);
	sparse = write_data("s.svm", true);
	in_memory(dense);
	in_blocks(dense, "dense blocks", 300, 4, 1 << 20);
	in_blocks(dense, "dense blocks in chunks", 300, 12, 700);
	in_blocks(sparse, "sparse blocks", 400, 3, 1 << 20);
	in_blocks(sparse, "sparse blocks in chunks", 200, 20, 600);
	in_blocks(sparse, "blocks without a line", 3, 5, 600);
	numbered();
	held_out(dense);
	unlink(dense);
	unlink(sparse);
	rmdir(dir);
	free(dense);
	free(sparse);
	return tap_done();
}

/* SPDX-License-Identifier: ISC */
/* Observations of data in blocks: the same examples, draws and ranked sets as of data in memory. */
#include "tap.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/mem.h"
#include "core/rng.h"
#include "data/batch/data_observations.h"

#define USERS 300u
#define ITEMS 400u
#define ROWS  20000u

static const struct data_want pairs = { .pairs = 1 }, real;
static const struct data_pairs_share all = { 0 }, fifth = { .seed = 7, .share = 0.2 };
static char dir[] = "/tmp/pskit-observations-XXXXXX";

/* Writes observations in the order of their users, some of which come twice. */
static char *write_observations(void)
{
	char *path = mem_printf("%s/seen.tsv", dir);
	FILE *f = fopen(path, "w");
	struct rng r;

	rng_init(&r, 3);
	for (uint64_t i = 0; f && i < ROWS; i++)
		fprintf(f, "%llu\t%llu\t1\n", (unsigned long long)(i * USERS / ROWS),
		    (unsigned long long)rng_below(&r, ITEMS));
	if (!f || fclose(f) != 0)
		abort();
	return path;
}

/* The data in memory and in blocks. `split` and `ranked` are of the share that is held out. */
struct both {
	struct dataset *whole, *ranked;
	struct data_split split;
	struct data_blocks *blocks;
	struct data_observations *observations;
};

/* path: with options. memory: for the observations. */
static enum err_code open_both(const char *path, const struct data_pairs_share *share,
    uint64_t memory, struct both *b, struct err *e)
{
	enum err_code rc;

	*b = (struct both){ 0 };
	rc = data_load_cached(&(struct data_cache){ 0 }, &path, 1, NULL, &pairs, NULL, &b->whole,
	    e);
	if (!rc && share->share > 0)
		rc = data_pairs_hold_out(b->whole, share, &b->split, &b->ranked, e);
	if (!rc)
		rc = data_blocks_open(&path, 1, NULL, &pairs, 1, 5000, &b->blocks, e);
	if (!rc)
		rc = data_observations_read(b->blocks, share, 1, memory, &b->observations, e);
	if (!rc)
		data_blocks_finish_by(b->blocks, data_observations_finish, b->observations);
	return rc;
}

static void close_both(struct both *b)
{
	dataset_free(b->whole);
	dataset_free(b->ranked);
	data_split_release(&b->split);
	if (b->blocks)
		data_blocks_free(b->blocks);
	data_observations_free(b->observations);
	*b = (struct both){ 0 };
}

/* An example of a batch as a number that tells its user, its item and the drawn item. */
static uint64_t example_of(const struct batch *b, size_t r)
{
	uint64_t at = b->start[r], drawn = b->start[r + 1] - at > 2 ? b->id[b->col[at + 2]] : 0;

	return (b->id[b->col[at]] * 1000 + b->id[b->col[at + 1]]) * 1000 + drawn;
}

static int compare_examples(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* Appends the examples of these rows of d, or all, in pass 4. */
static size_t append_examples(const struct dataset *d, const uint32_t *row, size_t n, uint64_t *to)
{
	struct batch b = { .epoch = 4 };
	uint32_t *index = mem_array(n + 1, sizeof *index);
	struct err e = { 0 };

	for (size_t i = 0; i < n; i++)
		index[i] = row ? row[i] : (uint32_t)i;
	if (data_gather(d, index, n, &b, &e) == ERR_OK && b.fields == DATA_PAIRS_DRAWN + 1)
		for (size_t i = 0; i < n; i++)
			to[i] = example_of(&b, i);
	batch_release(&b);
	free(index);
	return n;
}

/* Reads all examples of the blocks, sorted. *chunks: how many there were. */
static size_t read_examples(const struct data_blocks *b, uint64_t *to, size_t *chunks,
    struct err *e)
{
	size_t n = 0, count = data_blocks_count(b);
	uint32_t *number = mem_array(count + 1, sizeof *number);
	struct data_walk *c;
	struct dataset *d;
	bool last = false;

	for (size_t i = 0; i < count; i++)
		number[i] = (uint32_t)i;
	c = data_blocks_walk(b, number, count, 20000, 20000);
	for (*chunks = 0; !last && data_walk_next(c, &d, &last, e) == ERR_OK;) {
		*chunks += d != NULL;
		if (d)
			n += append_examples(d, NULL, d->rows, to + n);
		data_walk_reuse(c, d);
	}
	data_walk_free(c);
	free(number);
	qsort(to, n, sizeof *to, compare_examples);
	return n;
}

static void test_same_examples(const char *path, const struct data_pairs_share *share,
    const char *what)
{
	uint64_t *in_memory = mem_array(ROWS, sizeof *in_memory),
	         *in_blocks = mem_array(ROWS, sizeof *in_blocks);
	size_t n, m, chunks = 0;
	struct err e = { 0 };
	struct both b;

	if (open_both(path, share, 1 << 20, &b, &e)) {
		ok(false, "%s: %s", what, e.msg);
		return;
	}
	n = append_examples(b.whole, b.split.train, share->share > 0 ? b.split.ntrain : ROWS,
	    in_memory);
	qsort(in_memory, n, sizeof *in_memory, compare_examples);
	m = read_examples(b.blocks, in_blocks, &chunks, &e);
	ok(n == m && chunks > 5 && memcmp(in_memory, in_blocks, n * sizeof *in_memory) == 0,
	    "%s: %zu examples in %zu chunks, with the items that are drawn in memory: %s", what, m,
	    chunks, e.msg);
	close_both(&b);
	free(in_memory);
	free(in_blocks);
}

static void test_held_out(const char *path)
{
	struct dataset *ranked = NULL, *head = NULL;
	const struct data_pair *held;
	size_t n, right = 0;
	struct err e = { 0 };
	struct both b;

	if (open_both(path, &fifth, 1 << 20, &b, &e)) {
		ok(false, "%s", e.msg);
		return;
	}
	for (uint32_t i = 0; i < b.split.nheld_out; i++)
		right += data_pairs_is_held_out(&fifth,
		    data_pairs_of(b.whole, b.split.held_out[i]));
	ok(right == b.split.nheld_out && b.split.ntrain + b.split.nheld_out == ROWS &&
	        right > ROWS / 5 - 300 && right < ROWS / 5 + 300,
	    "a fifth of the observations is held out: %zu of %u", right, ROWS);
	head = data_blocks_own_head(b.blocks);
	held = data_observations_held_out(b.observations, &n);
	ok(data_pairs_join(head, b.observations, 1, &e) == ERR_OK &&
	        data_pairs_rank(held, n, head, &ranked, &e) == ERR_OK,
	    "they can be ranked: %s", e.msg);
	right = 0;
	for (size_t r = 0; ranked && r < ranked->rows && r < b.ranked->rows; r++) {
		struct data_pair x = data_pairs_of(ranked, r), y = data_pairs_of(b.ranked, r);

		right += x.user == y.user && x.item == y.item && ranked->y[r] == b.ranked->y[r];
	}
	ok(ranked && right == ranked->rows && right == b.ranked->rows,
	    "the ranked set is that of data in memory: %zu examples", right);
	dataset_free(ranked);
	close_both(&b);
}

/* A filter with as many observations as it may have, and one that is smaller. */
static void test_bounds(const char *path)
{
	static const struct data_pairs_share most = { .seed = 1, .share = 0.99999999 };
	size_t found = 0, others = 0, wrong = 0;
	struct err e = { 0 };
	struct both b;

	if (open_both(path, &all, 1 << 20, &b, &e)) {
		ok(false, "%s", e.msg);
		return;
	}
	for (size_t r = 0; r < ROWS; r++)
		found += data_observations_have(b.observations, data_pairs_of(b.whole, r));
	ok(found == ROWS, "each observation is found");
	close_both(&b);
	/* The rows are 18,4xx different observations, and 290 lines of the filter are enough for 18,560. */
	if (open_both(path, &all, UINT64_C(290) * 64 * 4, &b, &e)) {
		ok(false, "%s", e.msg);
		return;
	}
	for (uint64_t user = 1000; user < 1400; user++)
		for (uint64_t item = 0; item < 400; item++, others++)
			wrong += data_observations_have(b.observations,
			    (struct data_pair){ 2 * user, 2 * item + 1 });
	ok(wrong * 30 <= others && wrong > 0, "one of 30 others is found by mistake: %zu of %zu",
	    wrong, others);
	close_both(&b);
	e = (struct err){ 0 };
	ok(open_both(path, &all, 64400, &b, &e) == ERR_CONFIG &&
	        strstr(e.msg,
	            "job.data_memory: the data have more than 16064 observations; raise it"),
	    "%s", e.msg);
	close_both(&b);
	e = (struct err){ 0 };
	ok(open_both(path, &all, 25600, &b, &e) == ERR_CONFIG &&
	        strstr(e.msg, "job.data_memory: the data have more than 160 items; raise it"),
	    "%s", e.msg);
	close_both(&b);
	e = (struct err){ 0 };
	ok(data_load_cached(&(struct data_cache){ 0 }, &path, 1, NULL, &pairs, NULL, &b.whole,
	       &e) == ERR_OK &&
	        data_pairs_hold_out(b.whole, &most, &b.split, &b.ranked, &e) == ERR_CONFIG &&
	        strstr(e.msg, "all of the 20000 observations are held out"),
	    "%s", e.msg);
	close_both(&b);
}

static void test_refused(void)
{
	char *path = mem_printf("%s/a.svm", dir);
	const char *name = path;
	struct data_blocks *blocks = NULL;
	struct data_observations *o = NULL;
	struct err e = { 0 };
	FILE *f = fopen(path, "w");

	for (int i = 0; f && i < 2000; i++)
		fprintf(f, "%d %d:1\n", i % 2, i % 50 + 1);
	if (!f || fclose(f) != 0)
		abort();
	ok(data_blocks_open(&name, 1, NULL, &real, 1, 500, &blocks, &e) == ERR_OK && blocks &&
	        data_observations_read(blocks, &all, 1, 1 << 20, &o, &e) == ERR_CONFIG &&
	        strstr(e.msg, "is libsvm, but the model ranks the items of users"),
	    "%s", e.msg);
	data_blocks_free(blocks);
	unlink(path);
	free(path);
}

int main(void)
{
	char *file, *path;

	if (!mkdtemp(dir))
		abort();
	file = write_observations();
	path = mem_printf("%s?format=ratings", file);
	test_same_examples(path, &all, "all observations");
	test_same_examples(path, &fifth, "without those held out");
	test_held_out(path);
	test_bounds(path);
	test_refused();
	unlink(file);
	rmdir(dir);
	free(file);
	free(path);
	return tap_done();
}

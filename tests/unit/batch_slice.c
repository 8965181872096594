/* SPDX-License-Identifier: ISC */
/* Slices of a sparse batch: each has the entries of its examples, and lists only their features. */
#include <string.h>

#include "data/batch/batch_slice.h"
#include "tap.h"

enum { ROWS = 200, FEATURES = 150, ENTRIES = 5 * ROWS };

/* A batch in which example r has r % 6 entries, some of them of one feature. */
static uint32_t start[ROWS + 1], col[ENTRIES];
static float val[ENTRIES], y[ROWS], weight[ROWS];
static uint16_t field[ENTRIES];
static uint64_t id[FEATURES];

static struct batch make_batch(void)
{
	uint32_t n = 0;

	for (uint32_t r = 0; r < ROWS; r++) {
		start[r] = n;
		y[r] = (float)r;
		weight[r] = 1 + (float)r;
		for (uint32_t k = 0; k < r % 6; k++, n++) {
			col[n] = (r * 37 + k / 2 * 53) % FEATURES;
			val[n] = (float)n;
			field[n] = (uint16_t)(k % 3);
		}
	}
	start[ROWS] = n;
	for (uint32_t i = 0; i < FEATURES; i++)
		id[i] = 1000 + (uint64_t)i * i;
	return (struct batch){ .rows = ROWS,
		.cols = 1 << 20,
		.sparse = true,
		.start = start,
		.col = col,
		.val = val,
		.field = field,
		.fields = 3,
		.id = id,
		.nids = FEATURES,
		.weight = weight,
		.y = y,
		.targets = 1,
		.first = 7 };
}

/* Do the slice and the batch have the same entries, by id? */
static bool same_entries(const struct batch *all, size_t first, const struct batch *s)
{
	bool good = true;

	for (size_t r = 0; r < s->rows; r++) {
		uint32_t a = all->start[first + r], b = s->start[r], n = s->start[r + 1] - b;

		good &= n == all->start[first + r + 1] - a && s->y[r] == all->y[first + r] &&
		    batch_weight(s, r) == batch_weight(all, first + r);
		for (uint32_t k = 0; good && k < n; k++)
			good = s->id[s->col[b + k]] == all->id[all->col[a + k]] &&
			    s->val[b + k] == all->val[a + k] &&
			    s->field[b + k] == all->field[a + k];
	}
	return good;
}

/* Does the slice list, in ascending order, only features that it uses? */
static bool lists_used_features(const struct batch_slice *s)
{
	bool used[FEATURES] = { false }, good = s->b.nids <= FEATURES;

	for (uint32_t k = 0; k < s->b.start[s->b.rows]; k++)
		used[s->b.col[k]] = true;
	for (size_t i = 0; good && i < s->b.nids; i++)
		good = used[i] && id[s->row[i]] == s->b.id[i] &&
		    (!i || s->b.id[i] > s->b.id[i - 1]);
	return good;
}

int main(void)
{
	static const size_t sizes[] = { 1, 3, 64, ROWS };
	struct batch all = make_batch();
	struct batch_slice s = { .b = { 0 } };
	uint32_t touching[FEATURES], last[FEATURES], sum = 0, ones = 0;
	struct err e;

	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		bool good = true;

		for (size_t at = 0; good && at < ROWS; at += sizes[i]) {
			size_t n = ROWS - at < sizes[i] ? ROWS - at : sizes[i];

			good = !batch_slice_cut(&s, &all, at, n, &e) && s.b.rows == n &&
			    s.b.first == 7 + at && same_entries(&all, at, &s.b) &&
			    lists_used_features(&s);
		}
		ok(good, "slices of %zu examples", sizes[i]);
	}
	ok(!batch_slice_cut(&s, &all, 0, 1, &e) && s.b.nids == 0, "an example without entries");

	/* Example 5 has five entries of three features. */
	ok(!batch_slice_cut(&s, &all, 5, 1, &e) && s.b.nids == 3, "entries of one feature");
	batch_count_touching(&s.b, touching, last);
	ok(touching[0] == 1 && touching[1] == 1 && touching[2] == 1,
	    "an example that has a feature twice touches it once");
	batch_count_touching(&all, touching, last);
	for (uint32_t i = 0; i < FEATURES; i++)
		sum += touching[i];
	for (uint32_t r = 0; r < ROWS; r++)
		ones += (r % 6 + 1) / 2;
	ok(sum == ones, "examples that touch a feature: %u, not %u", sum, ones);
	batch_slice_release(&s);
	return tap_done();
}

/* SPDX-License-Identifier: ISC */
/* Lists of row ids as blocks: what comes back, what is refused, and that two ends that
 * see the same lists keep the same. */
#include <stdlib.h>
#include <string.h>

#include "core/rng.h"
#include "codec/row_ids_cache.h"
#include "tap.h"

static struct rng rng;
static struct zip *zip;

/* n ids that ascend, of about so many bits. */
static uint64_t *list(size_t n, unsigned bits)
{
	uint64_t *ids = calloc(n + 1, sizeof *ids), at = 0,
	         step = (bits == 64 ? UINT64_MAX : UINT64_C(1) << bits) / (n + 1);

	for (size_t i = 0; i < n; i++) {
		ids[i] = at + (step > 1 ? rng_below(&rng, step) : 0);
		at = ids[i] + 1;
	}
	return ids;
}

static void there_and_back(void)
{
	static const unsigned bits[] = { 1, 20, 40, 64 };
	unsigned bad = 0, large = 0, zipped = 0;

	for (size_t i = 0; i < 4; i++)
		for (size_t n = 0; n < 70000; n = n * 3 + 1) {
			uint64_t *ids = list(n, bits[i]), *back = calloc(n + 1, sizeof *back);
			uint8_t *p = malloc(row_ids_bound(n));
			size_t len = row_ids_put(zip, ids, n, n % 2, p);
			struct row_ids_block b;

			large += len > row_ids_bound(n) || len % 8;
			bad += !row_ids_ascend(ids, n) || !row_ids_parse(p, len, &b) || b.n != n ||
			    b.whole != len || b.keep != n % 2 || !row_ids_get(zip, &b, back) ||
			    memcmp(ids, back, n * sizeof *ids) != 0;
			zipped += b.form == ROW_IDS_ZIPPED;
			for (size_t cut = 1; cut <= 9 && cut <= len; cut++)
				bad += row_ids_parse(p, len - cut, &b);
			free(p);
			free(ids);
			free(back);
		}
	ok(bad == 0 && large == 0 && zipped >= 4, "ids of all sizes come back, %u lists zipped",
	    zipped);
	ok(row_ids_ascend((const uint64_t[]){ 0, 1, UINT64_MAX }, 3) &&
	        !row_ids_ascend((const uint64_t[]){ 3, 3 }, 2) &&
	        !row_ids_ascend((const uint64_t[]){ 3, 2 }, 2),
	    "what does not ascend is none");
}

static void ends(void)
{
	uint64_t ids[3] = { 0, 5, UINT64_MAX }, back[4];
	uint8_t p[128];
	struct row_ids_block b;
	size_t len = row_ids_put(NULL, ids, 3, false, p);

	ok(row_ids_parse(p, len, &b) && row_ids_get(zip, &b, back) && back[2] == UINT64_MAX,
	    "the largest id");
	/* One more behind it: the gap 0 once more. */
	p[0] = 4;
	p[8]++;
	ok(!row_ids_parse(p, len, &b) || !row_ids_get(zip, &b, back), "and none behind that");
	row_ids_put(NULL, ids, 2, false, p);
	p[5] = 2;
	ok(!row_ids_parse(p, 24, &b), "keep is yes or no");
	p[5] = 0;
	p[4] = 4;
	ok(!row_ids_parse(p, 24, &b), "no such form");
	p[4] = ROW_IDS_PACKED;
	p[8] = 255;
	ok(!row_ids_parse(p, 24, &b), "nor more bytes than there are");
}

static void mutated(void)
{
	unsigned good = 0, bad = 0;

	for (unsigned round = 0; round < 20000; round++) {
		size_t n = 1 + (size_t)rng_below(&rng, round % 16 ? 60 : 2000), len;
		uint64_t *ids = list(n, 30), *back;
		uint8_t *p = malloc(row_ids_bound(n)), *q;
		struct row_ids_block b;

		len = row_ids_put(zip, ids, n, false, p);
		for (uint64_t k = rng_below(&rng, 4); k > 0; k--)
			p[rng_below(&rng, len)] ^= (uint8_t)(1u << rng_below(&rng, 8));
		q = malloc(len);
		memcpy(q, p, len);
		if (row_ids_parse(q, len, &b) && b.form != ROW_IDS_NAMED && b.n < 100000) {
			back = malloc(b.n * sizeof *back + 1);
			if (row_ids_get(zip, &b, back)) {
				good++;
				bad += !row_ids_ascend(back, b.n);
			}
			free(back);
		}
		free(q);
		free(p);
		free(ids);
	}
	ok(bad == 0 && good > 2000 && good < 19000,
	    "%u of 20000 broken ones are well-formed, and ascend", good);
}

/* ---- what is kept ---- */

/* A sender and a receiver; lists of different lengths come again by chance. */
static void both_ends(void)
{
	enum { LISTS = 160 };
	struct row_ids_cache *here = row_ids_cache_new(), *there = row_ids_cache_new();
	uint64_t *ids[LISTS];
	const uint64_t *got;
	size_t n[LISTS];
	uint8_t name[ROW_IDS_NAME];
	unsigned named = 0, missed = 0, wrong = 0;

	for (int i = 0; i < LISTS; i++) {
		n[i] = (size_t)rng_below(&rng, ROW_IDS_KEEP_MAX);
		ids[i] = list(n[i], 40);
	}
	for (int round = 0; round < 4000; round++) {
		int i = (int)rng_below(&rng, round % 3 ? LISTS : 5);

		row_ids_name(ids[i], n[i], name);
		if (row_ids_cache_find(here, name, n[i], &got)) {
			named++;
			if (!row_ids_cache_find(there, name, n[i], &got))
				missed++;
			else
				wrong += memcmp(got, ids[i], n[i] * sizeof *got) != 0;
		} else {
			uint64_t *copy = malloc(n[i] * sizeof *copy + 1);

			memcpy(copy, ids[i], n[i] * sizeof *copy);
			row_ids_cache_put(here, name, n[i], NULL);
			row_ids_cache_put(there, name, n[i], copy);
		}
	}
	ok(missed == 0 && wrong == 0 && named > 500 && named < 3900,
	    "%u of 4000 lists are named, and all are known", named);
	row_ids_name(ids[0], n[0], name);
	row_ids_cache_put(there, name, n[0], NULL);
	ok(!row_ids_cache_find(there, name, n[0] + 1, &got), "a name is of so many ids");
	row_ids_cache_forget(there, name);
	row_ids_cache_forget(there, name);
	ok(!row_ids_cache_find(there, name, n[0], &got), "what is forgotten is not there");
	for (int i = 0; i < LISTS; i++)
		free(ids[i]);
	row_ids_cache_free(here);
	row_ids_cache_free(there);
	row_ids_cache_free(NULL);
}

int main(void)
{
	rng_init(&rng, 5);
	zip = zip_new();
	there_and_back();
	ends();
	mutated();
	both_ends();
	zip_free(zip);
	return tap_done();
}

/* SPDX-License-Identifier: ISC */
#include <string.h>

#include "conf/tune.h"
#include "tap.h"

/* Two looks at the same: what is found then. */
static bool twice(struct tune *t, const struct tune_settings *now, const struct tune_worker *w,
    unsigned n, struct tune_advice *out)
{
	ok(!tune_advise(t, now, w, n, out), "one look changes nothing");
	return tune_advise(t, now, w, n, out);
}

static void stragglers(void)
{
	struct tune_worker w[4] = { { 0.1, 0.01, 0.7 }, { 0.1, 0.01, 0.7 }, { 0.1, 0.01, 0.7 },
		{ 0.8, 0.01, 0 } };
	struct tune_settings now = { .keys = TUNE_BACKUP,
		.sync = { .ops = &sync_bsp },
		.codec = "raw",
		.batch = 64,
		.first_batch = 64 };
	struct tune t = { 0 };
	struct tune_advice a;

	ok(twice(&t, &now, w, 4, &a) && strcmp(a.set, "backup") == 0 && strcmp(a.value, "1") == 0,
	    "one straggler: backup 1");
	now.backup = 1;
	ok(!twice(&t, &now, w, 4, &a), "and it stays");
	w[3].alone = 0.1;
	ok(twice(&t, &now, w, 4, &a) && strcmp(a.value, "0") == 0,
	    "none is slow any more: backup 0");
	now.backup = 0;
	w[3].alone = 0.11;
	ok(!twice(&t, &now, w, 4, &a), "a little slower is not worth it");
	w[3].alone = 0.8;
	now.keys = TUNE_CODEC;
	ok(!twice(&t, &now, w, 4, &a), "what may not be adapted is not");
	now.keys = TUNE_BACKUP;
	now.sync.ops = &sync_asp;
	ok(!twice(&t, &now, w, 4, &a), "nor where there are no steps of all");
}

static void changes_of_mind(void)
{
	struct tune_worker slow[2] = { { 1, 0, 0 }, { 0.1, 0, 0.9 } },
	                   even[2] = { { 0.1, 0, 0 }, { 0.1, 0, 0 } };
	struct tune_settings now = { .keys = TUNE_BACKUP,
		.sync = { .ops = &sync_bsp },
		.codec = "raw" };
	struct tune t = { 0 };
	struct tune_advice a;

	for (int i = 0; i < 3; i++) {
		ok(!tune_advise(&t, &now, slow, 2, &a), "one look at a slow worker");
		ok(!tune_advise(&t, &now, even, 2, &a), "that is not slow at the next");
	}
	ok(!tune_advise(&t, &now, NULL, 0, &a), "nobody was measured");
}

static void others(void)
{
	struct tune_worker waits[2] = { { 0.5, 0.1, 0.4 }, { 0.5, 0.1, 0.4 } },
	                   wire[2] = { { 0.1, 0.9, 0 }, { 0.1, 0.9, 0 } };
	struct tune_worker alone[2] = { { 1, 0.01, 0 }, { 1, 0.01, 0 } };
	struct tune_settings now = { .keys = TUNE_STALENESS | TUNE_CODEC,
		.sync = { .ops = &sync_ssp, .staleness = 3 },
		.codec = "raw",
		.batch = 64,
		.first_batch = 64 };
	struct tune t = { 0 };
	struct tune_advice a;

	ok(twice(&t, &now, waits, 2, &a) && strcmp(a.set, "sync") == 0 &&
	        strcmp(a.value, "ssp:6") == 0,
	    "much waiting: more staleness");
	ok(twice(&t, &now, alone, 2, &a) && strcmp(a.value, "ssp:1") == 0, "none: less");
	now.sync.staleness = 1;
	ok(twice(&t, &now, wire, 2, &a) && strcmp(a.set, "codec") == 0 &&
	        strcmp(a.value, "int8") == 0,
	    "a slow wire: fewer bits");
	now.codec = "topk:0.01";
	ok(!twice(&t, &now, wire, 2, &a), "what somebody chose stays");
	now.codec = "int8";
	ok(twice(&t, &now, alone, 2, &a) && strcmp(a.value, "raw") == 0, "a fast one: all of them");
	now = (struct tune_settings){ .keys = TUNE_BATCH,
		.sync = { .ops = &sync_bsp },
		.codec = "raw",
		.batch = 256,
		.first_batch = 64 };
	ok(twice(&t, &now, wire, 2, &a) && strcmp(a.set, "job.batch") == 0 &&
	        strcmp(a.value, "512") == 0,
	    "a slow wire: a greater batch");
	now.batch = 512;
	ok(!twice(&t, &now, wire, 2, &a), "up to eight times the first");
	ok(twice(&t, &now, alone, 2, &a) && strcmp(a.value, "256") == 0, "and back");
}

int main(void)
{
	stragglers();
	changes_of_mind();
	others();
	return tap_done();
}

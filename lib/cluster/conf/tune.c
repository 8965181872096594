/* SPDX-License-Identifier: ISC */
#include "conf/tune.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"

/* A change must make the job faster by this factor. */
#define WORTH 1.15
/* Shares of a step's time at which another staleness, codec or batch size is tried. */
#define MUCH_WAIT     0.20
#define LITTLE_WAIT   0.02
#define MUCH_WIRE     0.50
#define LITTLE_WIRE   0.10
#define STALENESS_MAX 64u
#define BATCH_TIMES   8

static int compare_descending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x < y) - (x > y);
}

/* Gradients a second that count if a step does not wait for the b slowest of n workers. t: seconds
 * that each worker needs for a step, the slowest first. */
static double useful_gradient_rate(const double *t, unsigned n, unsigned b)
{
	return t[b] > 0 ? (double)(n - b) / t[b] : 0;
}

/* Looks for the number of backup workers, at most half of n, with the highest
 * useful_gradient_rate. A worker's step is its own work and its transfers here; time that it waits
 * for others does not count, because that is what backup workers change. Gives no advice when the
 * gain is less than WORTH. */
static bool advise_backup(const struct tune_settings *now, const struct tune_worker *w, unsigned n,
    struct tune_advice *out)
{
	double *t = mem_array(n, sizeof *t), slowest, gain;
	unsigned best = 0, at = now->backup < n ? now->backup : n - 1;

	for (unsigned i = 0; i < n; i++)
		t[i] = w[i].alone + w[i].wire;
	qsort(t, n, sizeof *t, compare_descending);
	for (unsigned b = 1; b < n && 2 * b <= n; b++)
		if (useful_gradient_rate(t, n, b) > useful_gradient_rate(t, n, best))
			best = b;
	slowest = t[0];
	gain = useful_gradient_rate(t, n, at) > 0
	    ? useful_gradient_rate(t, n, best) / useful_gradient_rate(t, n, at)
	    : 0;
	if (best == now->backup || gain < WORTH) {
		free(t);
		return false;
	}
	out->key = TUNE_BACKUP;
	snprintf(out->set, sizeof out->set, "backup");
	snprintf(out->value, sizeof out->value, "%u", best);
	snprintf(out->why, sizeof out->why,
	    "the slowest of %u workers needs %.3g s for a step, the median worker %.3g s; if a "
	    "step waits for only %u of them, %.2f times as many gradients per second count",
	    n, slowest, t[n / 2], n - best, gain);
	free(t);
	return true;
}

/* Parts of the summed time of all workers, each from 0 to 1. */
struct shares {
	double wire, wait;
};

/* Returns zeros when no worker has reported any time. */
static struct shares shares_of(const struct tune_worker *w, unsigned n)
{
	double alone = 0, wire = 0, wait = 0, all;

	for (unsigned i = 0; i < n; i++) {
		alone += w[i].alone;
		wire += w[i].wire;
		wait += w[i].wait;
	}
	all = alone + wire + wait;
	return all > 0 ? (struct shares){ wire / all, wait / all } : (struct shares){ 0, 0 };
}

/* Doubles the staleness when workers wait much, and halves it when they hardly wait. Halving
 * stops at 1, so this never leads back to staleness 0. Doubling starts only below STALENESS_MAX,
 * and its result may be above it. */
static bool advise_staleness(const struct tune_settings *now, struct shares s,
    struct tune_advice *out)
{
	uint64_t to = now->sync.staleness;

	if (s.wait > MUCH_WAIT && now->sync.staleness < STALENESS_MAX)
		to = now->sync.staleness ? now->sync.staleness * 2 : 1;
	else if (s.wait < LITTLE_WAIT && now->sync.staleness > 1)
		to = now->sync.staleness / 2;
	if (to == now->sync.staleness)
		return false;
	out->key = TUNE_STALENESS;
	snprintf(out->set, sizeof out->set, "sync");
	sync_format(&(struct sync_mode){ .ops = now->sync.ops,
	                .staleness = to,
	                .stale = now->sync.stale },
	    out->value);
	snprintf(out->why, sizeof out->why,
	    "workers spend %.0f %% of their time waiting for other workers", 100 * s.wait);
	return true;
}

/* Switches only between raw and int8. The share at which it returns to raw is far below the one
 * at which it leaves raw, because int8 itself makes the transfers shorter. */
static bool advise_codec(const struct tune_settings *now, struct shares s, struct tune_advice *out)
{
	bool raw = strcmp(now->codec, "raw") == 0, int8 = strcmp(now->codec, "int8") == 0;

	/* Any other codec was chosen by a person, and stays. */
	if (!(raw && s.wire > MUCH_WIRE) && !(int8 && s.wire < LITTLE_WIRE / 4))
		return false;
	out->key = TUNE_CODEC;
	snprintf(out->set, sizeof out->set, "codec");
	snprintf(out->value, sizeof out->value, raw ? "int8" : "raw");
	snprintf(out->why, sizeof out->why,
	    "workers spend %.0f %% of their time on pushes and pulls", 100 * s.wire);
	return true;
}

/* Doubles the batch up to BATCH_TIMES the first one, and halves it again while it is larger than
 * the first one. */
static bool advise_batch(const struct tune_settings *now, struct shares s, struct tune_advice *out)
{
	int64_t to = now->batch;

	if (s.wire > MUCH_WIRE && now->batch * 2 <= now->first_batch * BATCH_TIMES)
		to = now->batch * 2;
	else if (s.wire < LITTLE_WIRE && now->batch > now->first_batch)
		to = now->batch / 2;
	if (to == now->batch)
		return false;
	out->key = TUNE_BATCH;
	snprintf(out->set, sizeof out->set, "job.batch");
	snprintf(out->value, sizeof out->value, "%lld", (long long)to);
	snprintf(out->why, sizeof out->why,
	    "workers spend %.0f %% of their time on pushes and pulls", 100 * s.wire);
	return true;
}

/* Puts the first advice that applies into out, in the order backup, staleness, codec, batch. A
 * key counts only when now->keys allows it. A single worker waits for nobody, so only codec and
 * batch are tried for it. */
static bool advise_change(const struct tune_settings *now, const struct tune_worker *w, unsigned n,
    struct tune_advice *out)
{
	struct shares s = shares_of(w, n);

	if (n < 2)
		return (now->keys & TUNE_CODEC && advise_codec(now, s, out)) ||
		    (now->keys & TUNE_BATCH && advise_batch(now, s, out));
	return (now->keys & TUNE_BACKUP && sync_sums_steps(&now->sync) &&
	           advise_backup(now, w, n, out)) ||
	    (now->keys & TUNE_STALENESS && sync_bounds_staleness(&now->sync) &&
	        advise_staleness(now, s, out)) ||
	    (now->keys & TUNE_CODEC && advise_codec(now, s, out)) ||
	    (now->keys & TUNE_BATCH && advise_batch(now, s, out));
}

bool tune_advise(struct tune *t, const struct tune_settings *now, const struct tune_worker *w,
    unsigned n, struct tune_advice *out)
{
	char found[96] = "";

	if (n && advise_change(now, w, n, out))
		snprintf(found, sizeof found, "%s=%s", out->set, out->value);
	t->times = found[0] && strcmp(found, t->last) == 0 ? t->times + 1 : 1;
	memcpy(t->last, found, sizeof found);
	if (!found[0] || t->times < 2)
		return false;
	*t = (struct tune){ 0 };
	return true;
}

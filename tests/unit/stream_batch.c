/* SPDX-License-Identifier: ISC */
/* Batches of a topic whose events are compacted away (worker/stream_batch.h): workers are lost at any moment,
 * events before and after the position vanish, and no event that is there is skipped or counts twice. */
#include <string.h>

#include "coord/leases.h"
#include "core/mem.h"
#include "core/rng.h"
#include "data/source/data_log_state.h"
#include "tap.h"
#include "worker/stream_batch.h"

enum { EVENTS = 600, PARTS = 3, BATCH = 8, WINDOW = 40, FIRST = 1000 };

struct world {
	struct rng rng;
	struct leases *t;
	struct data_log log;
	struct log_partition partition;
	struct leased_range range;
	uint64_t skip, step, last[PARTS];
	bool gone[EVENTS];
	unsigned pushed[EVENTS][PARTS];
	unsigned longest; /* batch */
	unsigned announced, batches;
};

static void ignore_skip(struct data_log *l, size_t partition, size_t n)
{
	(void)l;
	(void)partition;
	(void)n;
}

static const struct log_ops topic = { .numbered = true, .skipped = ignore_skip };

/* Lets some events arrive, as a topic sends them: those that are gone are passed over without a word. */
static void let_arrive(struct world *w)
{
	struct log_partition *p = &w->partition;

	while (data_log_ready(&w->log, 0) < WINDOW && p->next < FIRST + EVENTS) {
		int64_t place = p->next;

		if (w->gone[place - FIRST])
			data_log_add(&w->log, 0, NULL, 0, place, place + 1);
		else
			data_log_add(&w->log, 0, "x", 1, place, place + 1);
	}
}

/* Leases the partition to the next worker, which reads from its position on. */
static void begin_worker(struct world *w)
{
	const struct lease *k = leases_give(w->t, 0, w->step, 0);
	json_t *earlier = json_array();
	struct answer_task task = { .from = (int64_t)k->attempt.from,
		.placed = (int64_t)k->placed,
		.place = k->place,
		.earlier = earlier };
	struct err e;
	int64_t place;

	for (size_t i = 0; i < k->n_earlier; i++)
		json_array_append_new(earlier,
		    json_pack("[IIIo]", (json_int_t)k->earlier[i].from,
		        (json_int_t)k->earlier[i].step, (json_int_t)k->earlier[i].batch,
		        taken_to_json(&k->earlier[i].taken)));
	if (leased_range_decode(&task, w->step, &w->range, &e))
		abort();
	json_decref(earlier);
	buf_clear(&w->partition.text);
	w->partition.first = w->partition.n = 0;
	w->skip = stream_batch_skipped(&w->log, &w->range);
	place = stream_batch_place(&w->log, &w->range);
	w->partition.next = place < 0 ? FIRST : place;
	let_arrive(w);
	if (w->range.place < 0)
		stream_batch_note_place(&w->log, &w->range);
}

static void lose_worker(struct world *w)
{
	struct taken taken = { 0 };

	for (uint32_t p = 0; p < PARTS; p++)
		if (w->last[p])
			taken_add(&taken, 0, p, w->last[p]);
	leases_take_back(w->t, 0, rng_below(&w->rng, 2) ? w->step : w->step / 2, &taken);
	taken_release(&taken);
	leased_range_release(&w->range);
	w->step += 1 + rng_below(&w->rng, 3);
}

/* Compaction removes some events, anywhere. */
static void compact(struct world *w)
{
	uint64_t begin = rng_below(&w->rng, EVENTS), n = rng_below(&w->rng, 60);

	for (uint64_t i = begin; i < begin + n && i < EVENTS; i++)
		if (rng_below(&w->rng, 4))
			w->gone[i] = true;
}

/* Announces the batch, unless it follows on the one before. */
static void announce(struct world *w, uint64_t span)
{
	struct leased_range *r = &w->range;

	if (r->own.batch == span && w->step == r->own.step + (r->used - r->own.from) / span)
		return;
	r->own = (struct attempt){ .from = r->used, .step = w->step, .batch = span };
	if (!w->skip)
		stream_batch_note_place(&w->log, r);
	leases_advance(w->t, 0, 0, r->used, w->step, span, r->place);
	w->announced++;
}

/* Trains on one batch. False: there is none. */
static bool train_batch(struct world *w, bool may_die)
{
	const struct log_partition *p = &w->partition;
	struct stream_batch b;
	bool dies = may_die && rng_below(&w->rng, 10) == 0;
	uint32_t parts = dies ? (uint32_t)rng_below(&w->rng, PARTS + 1) : PARTS;
	size_t gone = data_log_ready(&w->log, 0);

	gone = w->skip < gone ? (size_t)w->skip : gone;
	data_log_skip(&w->log, 0, gone);
	w->skip -= gone;
	let_arrive(w);
	b = stream_batch_whole(&w->log, &w->range, BATCH, w->step);
	if (!b.span && !leased_range_repeats(&w->range))
		b = stream_batch_rest(&w->log, &w->range);
	if (!b.span)
		return false;
	announce(w, b.span);
	w->batches++;
	w->longest = b.events > w->longest ? (unsigned)b.events : w->longest;
	for (uint32_t part = 0; part < parts; part++) {
		if (!leased_range_is_taken(&w->range, 0, part))
			for (size_t i = 0; i < b.events; i++)
				w->pushed[p->place[p->first + i] - FIRST][part]++;
		w->last[part] = w->step + 1;
	}
	if (dies) {
		lose_worker(w);
		if (rng_below(&w->rng, 2))
			compact(w);
		begin_worker(w);
		return true;
	}
	w->range.used += b.span;
	data_log_skip(&w->log, 0, b.events);
	w->step++;
	return true;
}

static void begin_world(struct world *w, uint64_t seed)
{
	*w = (struct world){ .log = { .ops = &topic, .n = 1 } };
	w->log.partition = &w->partition;
	rng_init(&w->rng, seed);
	w->t = leases_new_stream(1);
	for (unsigned i = 0; i < seed % 4; i++)
		compact(w);
	begin_worker(w);
}

static void end_world(struct world *w)
{
	leased_range_release(&w->range);
	leases_free(w->t);
	buf_release(&w->partition.text);
	free(w->partition.end);
	free(w->partition.place);
}

/* The events that are there and count too rarely or too often. */
static unsigned count_wrong(const struct world *w)
{
	unsigned wrong = 0;

	for (unsigned i = 0; i < EVENTS; i++)
		for (uint32_t p = 0; p < PARTS; p++)
			wrong += w->gone[i] ? w->pushed[i][p] > 1 : w->pushed[i][p] != 1;
	return wrong;
}

static void compacted_while_lost(void)
{
	static struct world w;
	unsigned wrong = 0, longest = 0;

	for (uint64_t seed = 1; seed <= 300; seed++) {
		begin_world(&w, seed);
		for (unsigned turn = 0; turn < 4000 && train_batch(&w, turn < 400); turn++)
			;
		wrong += count_wrong(&w);
		longest = w.longest > longest ? w.longest : longest;
		end_world(&w);
	}
	ok(wrong == 0, "events that are there count once in each partition (%u do not)", wrong);
	ok(longest == BATCH, "and no batch has more than job.batch events (%u)", longest);
}

/* Gaps that are no more than a quarter of a batch need no word to the coordinator. */
static void few_announcements(void)
{
	static struct world w;

	begin_world(&w, 0);
	for (unsigned i = 8; i < EVENTS; i += 9)
		w.gone[i] = true;
	w.partition.next = FIRST;
	w.partition.first = w.partition.n = 0;
	while (train_batch(&w, false))
		;
	ok(count_wrong(&w) == 0 && w.batches > 60 && w.announced < 5,
	    "small gaps cost no announcements (%u of %u batches)", w.announced, w.batches);
	end_world(&w);
}

int main(void)
{
	compacted_while_lost();
	few_announcements();
	return tap_done();
}

/* SPDX-License-Identifier: ISC */
/* A worker skips steps in the middle of a range (role/worker/lease_ranges.c), and is lost after its
 * CLOCK: what it has not trained on is leased again. The worker leases against the coordinator's
 * leases; functions of this file do the part of batches.c and of the session. */
#include <stdlib.h>

#include "coord/leases.h"
#include "core/mem.h"
#include "msg/answer.h"
#include "tap.h"
#include "worker/batches_state.h"

enum { UNITS = 40, RANGE = 20, BATCH = 2 };

static struct leases *leases;

struct agent *cluster_view_agent(struct cluster_view *c)
{
	(void)c;
	return NULL;
}

bool agent_is_up(struct agent *a)
{
	(void)a;
	return true;
}

enum err_code cluster_view_await_change(struct cluster_view *c, int64_t ns, struct err *e)
{
	(void)c;
	(void)ns;
	(void)e;
	return ERR_OK;
}

uint64_t batches_size_at(const struct batches *f, uint64_t step)
{
	(void)f;
	(void)step;
	return BATCH;
}

static uint64_t item(const json_t *list, size_t i)
{
	return (uint64_t)json_integer_value(json_array_get(list, i));
}

/* As coord_on_lease. */
enum err_code batches_request_lease(struct batches *f, const struct message_lease *m, json_t *done,
    json_t *holds, struct answer_lease *out, json_t **answer, struct err *e)
{
	const struct lease *t;
	const json_t *range;
	size_t i;

	(void)e;
	json_array_foreach(done, i, range)
		leases_note_done(leases, f->rank, item(range, 0), item(range, 1));
	json_array_foreach(holds, i, range)
		leases_advance(leases, f->rank, item(range, 0), item(range, 1), item(range, 2),
		    item(range, 3), 0);
	t = m->more ? leases_give(leases, f->rank, (uint64_t)m->step, (uint64_t)m->batch) : NULL;
	*out = (struct answer_lease){ .finished = !t && leases_finished(leases) };
	*answer = NULL;
	if (t) {
		struct answer_task *task = mem_alloc(sizeof *task);

		*task = (struct answer_task){ .id = (int64_t)t->id,
			.epoch = (int64_t)t->epoch,
			.begin = (int64_t)t->begin,
			.end = (int64_t)t->end,
			.from = (int64_t)t->attempt.from,
			.step = (int64_t)t->attempt.step,
			.batch = (int64_t)t->attempt.batch };
		out->task = task;
	}
	json_decref(done);
	json_decref(holds);
	return ERR_OK;
}

/* ---- a source of ranges of RANGE examples ---- */

static enum err_code open_range(struct range_source *s, const struct source_range *r, struct err *e)
{
	(void)s;
	(void)r;
	(void)e;
	return ERR_OK;
}

static enum err_code ready_examples(struct range_source *s, uint64_t at, uint64_t n, uint64_t *have,
    struct err *e)
{
	(void)s;
	(void)e;
	*have = at + n <= RANGE ? n : RANGE - at;
	return ERR_OK;
}

static uint64_t count_left(const struct range_source *s, uint64_t at)
{
	(void)s;
	return RANGE - at;
}

static uint64_t units_before(const struct range_source *s, uint64_t at)
{
	(void)s;
	return at;
}

static enum err_code load_examples(struct range_source *s, uint64_t at, uint64_t n, struct batch *b,
    struct err *e)
{
	(void)s;
	(void)e;
	b->first = at;
	b->rows = n;
	return ERR_OK;
}

static void close_range(struct range_source *s)
{
	(void)s;
}

/* As a source in memory: the first example of the epoch's order. */
static enum err_code deal_examples(struct range_source *s, uint64_t epoch, uint64_t begin,
    uint64_t end, struct batch *b, struct err *e)
{
	(void)epoch;
	return load_examples(s, begin % RANGE, end - begin, b, e);
}

static const struct range_source_ops source_ops = {
	.prepare = open_range,
	.open = open_range,
	.ready = ready_examples,
	.left = count_left,
	.units_before = units_before,
	.load = load_examples,
	.close = close_range,
};

static enum err_code await_nothing(void *ctx, struct err *e)
{
	(void)ctx;
	(void)e;
	return ERR_OK;
}

/* ---- the worker ---- */

static bool take_step(struct batches *f, uint64_t step)
{
	struct batch b = { 0 };
	bool over = false;
	struct err e;

	f->step = step;
	if (f->leases->choose(f, &b, &over, &e) || over || b.rows != BATCH ||
	    f->leases->ahead(f, &e))
		return false;
	f->leases->used(f);
	return true;
}

/* In step `step`: is the batch that is k steps later the one from example `first` of its range on? */
static bool sees_ahead(struct batches *f, uint64_t step, uint64_t k, uint64_t first, bool is_known)
{
	struct batch b = { 0 }, later = { 0 };
	bool over = false, known = false;
	struct err e;

	f->step = step;
	return !f->leases->choose(f, &b, &over, &e) && !f->leases->peek(f, k, &later, &known, &e) &&
	    known == is_known && (!known || (later.first == first && later.rows == BATCH));
}

/* The example from which on the range that is leased next is trained on. */
static uint64_t first_left(uint32_t worker)
{
	const struct lease *t = leases_give(leases, worker, 100, BATCH);

	return t ? t->attempt.from : RANGE;
}

/* Batches ahead are those that are chosen later, in the present range and in the next one. */
static void look_ahead(struct batches *f)
{
	struct range_source_ops in_memory = source_ops;
	uint64_t last = RANGE / BATCH - 1;
	bool good;

	leases = leases_new(UNITS, RANGE, 1);
	f->leases->begin(f);
	ok(sees_ahead(f, 0, 1, BATCH, true) && sees_ahead(f, 0, 3, 3 * BATCH, true),
	    "the next batch and a later one are known, and the present one stays");
	good = take_step(f, 0) && take_step(f, 1) && take_step(f, 2);
	ok(good && sees_ahead(f, 3, last - 3, last * BATCH, true),
	    "the last batch of the range is known");
	ok(sees_ahead(f, 3, last - 2, 0, false),
	    "the first batch of a range that is not open is not known");
	in_memory.deal = deal_examples;
	f->source->ops = &in_memory;
	ok(sees_ahead(f, 3, last - 2, 0, true) && sees_ahead(f, 3, last - 1, BATCH, true),
	    "but it is if the examples are in memory");
	ok(sees_ahead(f, 3, 2 * (last + 1), 0, false), "no batch after both ranges is known");
	f->source->ops = &source_ops;
	f->leases->end(f);
	leases_free(leases);
}

int main(void)
{
	struct range_source source = { .ops = &source_ops, .units = UNITS };
	struct batches f = { .source = &source,
		.batch = BATCH,
		.hooks = { .await_receipts = await_nothing },
		.leases = &leases_of_ranges };
	struct err e;

	leases = leases_new(UNITS, RANGE, 1);
	f.leases->begin(&f);
	ok(take_step(&f, 0) && take_step(&f, 1) && take_step(&f, 2), "three steps are made");
	/* As batches_skip, before the CLOCK of step 29. */
	f.step = 30;
	ok(f.leases->finish(&f, &e) == ERR_OK, "the steps up to 29 are skipped");
	leases_take_back(leases, 0, 30, NULL);
	ok(first_left(1) == 3 * BATCH, "after a loss, the range goes on after the third batch");
	ok(first_left(1) == 0, "and nothing of the range that was leased ahead counts");
	f.leases->end(&f);
	leases_free(leases);
	look_ahead(&f);
	return tap_done();
}

/* SPDX-License-Identifier: ISC */
#include "worker/batches_state.h"

#include "core/mem.h"
#include "core/rng.h"
#include "data/batch/data_order.h"
#include "worker/block_reader.h"

/* Blocks of files. The datasets of a range are read one after another by the reader's thread: the next one
 * while the worker trains on the present one, and after the last one the first dataset of the range that was
 * prepared. The examples of a dataset are in a shuffled order. The reader rests while two datasets are held,
 * as for a batch that begins in one and ends in the other. */

/* An early range begins with a dataset of this part of the others' size. */
#define EARLY_PART 32u

/* A dataset of the open range. */
struct loaded {
	struct dataset *examples;
	uint32_t *order; /* shuffled */
	uint64_t begin;  /* number of its first example in the range */
};

/* A range that is being read; none: walk is NULL. */
struct reading {
	struct source_range range;
	struct data_walk *walk;
	bool asked; /* the reader has been told to read its next dataset */
	bool ended; /* its last dataset has been taken */
	uint64_t left,
	    bytes; /* blocks that are in no dataset that was taken, and bytes of those that are */
};

struct blocks_source {
	struct range_source base;
	const struct data_blocks *blocks;
	const struct data_split *split; /* NULL: all blocks are units */
	uint64_t seed, early, memory;
	struct block_reader *reader; /* NULL: nothing was read yet */
	struct reading now, next;    /* the open range, and the prepared one */
	struct loaded *loaded;       /* those that are held, in order */
	size_t nloaded;
	struct dataset *used;  /* the dataset that was dropped last, for its memory; NULL: none */
	uint64_t read;         /* bytes of all datasets that were taken */
	uint64_t taken, known; /* datasets of the open range that were taken, and their examples */
	struct batch rest; /* the part of a batch that lies in another dataset than its beginning */
};

static struct blocks_source *blocks_of(struct range_source *s)
{
	return (struct blocks_source *)s;
}

/* ---- reading ---- */

/* Has the reader read the next dataset of a range. */
static enum err_code ask_reader(struct blocks_source *b, struct reading *r, struct err *e)
{
	enum err_code rc = b->reader ? ERR_OK : block_reader_new(&b->reader, e);

	if (!rc) {
		if (b->used)
			data_walk_reuse(r->walk, b->used);
		b->used = NULL;
		block_reader_begin(b->reader, r->walk);
		r->asked = true;
	}
	return rc;
}

/* Has the reader read what will be needed next, when it is idle and there is room. */
static enum err_code read_ahead(struct blocks_source *b, struct err *e)
{
	if (b->now.asked || b->next.asked || b->nloaded > 1)
		return ERR_OK;
	if (b->now.walk && !b->now.ended)
		return ask_reader(b, &b->now, e);
	return b->next.walk ? ask_reader(b, &b->next, e) : ERR_OK;
}

static void begin_reading_range(struct blocks_source *b, const struct source_range *r,
    struct reading *out)
{
	bool early = r->epoch == 0 && r->begin < b->early * b->base.per_range;
	size_t n = (size_t)(r->end - r->begin);
	uint32_t *block = mem_array(n + 1, sizeof *block);

	data_order(b->seed, r->epoch, (uint32_t)b->base.units, (uint32_t)r->begin, (uint32_t)r->end,
	    block);
	for (size_t i = 0; b->split && i < n; i++)
		block[i] = b->split->train[block[i]];
	*out = (struct reading){ .range = *r,
		.left = r->end - r->begin,
		.walk = data_blocks_walk(b->blocks, block, n,
		    early ? b->memory / EARLY_PART : b->memory, b->memory) };
	free(block);
}

/* Ends the reading of a range; a dataset that is being read is dropped. */
static void stop_reading(struct blocks_source *b, struct reading *r)
{
	struct dataset *d = NULL;
	bool last;

	if (r->asked)
		block_reader_take(b->reader, &d, &last, NULL);
	dataset_free(d);
	data_walk_free(r->walk);
	*r = (struct reading){ 0 };
}

static void drop_loaded(struct blocks_source *b, struct loaded *c)
{
	dataset_free(b->used);
	b->used = c->examples;
	free(c->order);
}

static uint64_t loaded_end(const struct loaded *c)
{
	return c->begin + c->examples->rows;
}

/* Drops the datasets that lie before this example. */
static void drop_before(struct blocks_source *b, uint64_t at)
{
	size_t n = 0;

	while (n < b->nloaded && loaded_end(&b->loaded[n]) <= at)
		drop_loaded(b, &b->loaded[n++]);
	b->nloaded -= n;
	if (n)
		memmove(b->loaded, b->loaded + n, b->nloaded * sizeof *b->loaded);
}

/* Counts what a dataset has taken, while the reader is idle. */
static void count_read(struct blocks_source *b, struct reading *r)
{
	uint64_t bytes = data_blocks_walked(r->walk, &r->left);

	b->read += bytes - r->bytes;
	r->bytes = bytes;
}

/* Waits for the next dataset of the open range. */
static enum err_code take_dataset(struct blocks_source *b, struct err *e)
{
	struct reading *r = &b->now;
	struct loaded c = { .begin = b->known };
	/* The reader may be at the first dataset of the prepared range only when the open one has ended. */
	enum err_code rc = r->asked ? ERR_OK : ask_reader(b, r, e);

	if (!rc) {
		rc = block_reader_take(b->reader, &c.examples, &r->ended, e);
		r->asked = false;
		count_read(b, r);
	}
	if (rc || !c.examples)
		return rc;
	c.order = mem_array(c.examples->rows, sizeof *c.order);
	data_order(rng_mix(b->seed ^ r->range.id) + b->taken, r->range.epoch,
	    (uint32_t)c.examples->rows, 0, (uint32_t)c.examples->rows, c.order);
	b->taken++;
	b->known += c.examples->rows;
	b->loaded = mem_regrow(b->loaded, b->nloaded + 1, sizeof *b->loaded);
	b->loaded[b->nloaded++] = c;
	return ERR_OK;
}

/* ---- the source ---- */

static void close_range_of_blocks(struct range_source *s)
{
	struct blocks_source *b = blocks_of(s);

	drop_before(b, UINT64_MAX);
	stop_reading(b, &b->now);
	b->taken = b->known = 0;
}

static enum err_code prepare_range_of_blocks(struct range_source *s, const struct source_range *r,
    struct err *e)
{
	struct blocks_source *b = blocks_of(s);

	stop_reading(b, &b->next);
	begin_reading_range(b, r, &b->next);
	return read_ahead(b, e);
}

static enum err_code open_range_of_blocks(struct range_source *s, const struct source_range *r,
    struct err *e)
{
	struct blocks_source *b = blocks_of(s);

	(void)e;
	if (b->next.walk && b->next.range.id == r->id) {
		b->now = b->next;
		b->next = (struct reading){ 0 };
	} else {
		stop_reading(b, &b->next);
		begin_reading_range(b, r, &b->now);
	}
	return ERR_OK;
}

static uint64_t count_left_in_blocks(const struct range_source *s, uint64_t at)
{
	const struct blocks_source *b = (const struct blocks_source *)s;

	if (!b->now.ended)
		return SOURCE_LEFT_UNKNOWN;
	return b->known > at ? b->known - at : 0;
}

static enum err_code ready_examples_of_blocks(struct range_source *s, uint64_t at, uint64_t n,
    uint64_t *have, struct err *e)
{
	struct blocks_source *b = blocks_of(s);
	enum err_code rc = ERR_OK;

	drop_before(b, at);
	while (!rc && b->known < at + n && !b->now.ended) {
		rc = take_dataset(b, e);
		drop_before(b, at);
	}
	*have = b->known < at ? 0 : b->known < at + n ? b->known - at : n;
	return rc ? rc : read_ahead(b, e);
}

static uint64_t blocks_before(const struct range_source *s, uint64_t at)
{
	(void)at;
	return ((const struct blocks_source *)s)->now.range.begin;
}

static enum err_code load_examples_of_blocks(struct range_source *s, uint64_t at, uint64_t n,
    struct batch *out, struct err *e)
{
	struct blocks_source *b = blocks_of(s);
	uint64_t end = at + n;
	bool first = true;
	enum err_code rc = ERR_OK;

	out->epoch = b->rest.epoch = b->now.range.epoch;
	for (size_t i = 0; !rc && i < b->nloaded && b->loaded[i].begin < end; i++) {
		const struct loaded *c = &b->loaded[i];
		uint64_t stop = loaded_end(c) < end ? loaded_end(c) : end;

		/* A dataset whose examples are used before those that are peeked at. */
		if (stop <= at)
			continue;
		rc = data_gather(c->examples, c->order + (at - c->begin), (size_t)(stop - at),
		    first ? out : &b->rest, e);
		if (!rc && !first)
			rc = batch_append(out, &b->rest, e);
		first = false;
		at = stop;
	}
	return rc;
}

static void tell_reading(const struct range_source *s, struct source_reading *out)
{
	const struct blocks_source *b = (const struct blocks_source *)s;

	out->epoch_bytes = data_blocks_bytes(b->blocks);
	out->read_bytes = b->read;
	out->blocks_left = b->now.left + b->next.left;
}

static void free_source_of_blocks(struct range_source *s)
{
	struct blocks_source *b = blocks_of(s);

	close_range_of_blocks(s);
	stop_reading(b, &b->next);
	block_reader_free(b->reader);
	dataset_free(b->used);
	batch_release(&b->rest);
	free(b->loaded);
	free(b);
}

static const struct range_source_ops blocks_ops = {
	.prepare = prepare_range_of_blocks,
	.open = open_range_of_blocks,
	.ready = ready_examples_of_blocks,
	.left = count_left_in_blocks,
	.units_before = blocks_before,
	.load = load_examples_of_blocks,
	.reading = tell_reading,
	.close = close_range_of_blocks,
	.free = free_source_of_blocks,
};

struct range_source *source_blocks_new(const struct data_blocks *blocks,
    const struct data_split *split, uint64_t seed, uint64_t per_range, uint64_t early,
    uint64_t memory)
{
	struct blocks_source *b = mem_alloc(sizeof *b);

	b->base = (struct range_source){ .ops = &blocks_ops,
		.units = split ? split->ntrain : data_blocks_count(blocks),
		.leases = &leases_of_ranges,
		.per_range = per_range };
	b->blocks = blocks;
	b->split = split;
	b->seed = seed;
	b->early = early;
	b->memory = memory;
	return &b->base;
}

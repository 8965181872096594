/* SPDX-License-Identifier: ISC */
#include "worker/batches_state.h"

#include "core/mem.h"
#include "data/batch/data_order.h"

/* Examples in memory. The order of an epoch is a permutation of all of them, and a range is a part of it.
 * Numbered examples, which only a program can read, are in their own order. */
struct memory_source {
	struct range_source base;
	const struct dataset *data;
	uint64_t seed;                  /* of the order */
	struct source_range range;      /* the open one */
	const struct data_split *split; /* NULL: all examples are units */
	uint32_t *row;                  /* examples of a batch */
};

static struct memory_source *memory_of(struct range_source *s)
{
	return (struct memory_source *)s;
}

static const struct source_range *range_in_memory(const struct range_source *s)
{
	return &((const struct memory_source *)s)->range;
}

static enum err_code prepare_range_in_memory(struct range_source *s, const struct source_range *r,
    struct err *e)
{
	(void)s, (void)r, (void)e;
	return ERR_OK;
}

static enum err_code open_range_in_memory(struct range_source *s, const struct source_range *r,
    struct err *e)
{
	(void)e;
	memory_of(s)->range = *r;
	return ERR_OK;
}

static uint64_t count_left_in_memory(const struct range_source *s, uint64_t at)
{
	uint64_t n = range_in_memory(s)->end - range_in_memory(s)->begin;

	return at < n ? n - at : 0;
}

static enum err_code ready_examples_in_memory(struct range_source *s, uint64_t at, uint64_t n,
    uint64_t *have, struct err *e)
{
	uint64_t left = count_left_in_memory(s, at);

	(void)e;
	*have = n < left ? n : left;
	return ERR_OK;
}

static uint64_t examples_before(const struct range_source *s, uint64_t at)
{
	return range_in_memory(s)->begin + at;
}

static enum err_code deal_examples(struct range_source *s, uint64_t epoch, uint64_t begin,
    uint64_t end, struct batch *b, struct err *e)
{
	struct memory_source *m = memory_of(s);

	m->row = mem_regrow(m->row, end - begin, sizeof *m->row);
	data_order(m->seed, epoch, (uint32_t)s->units, (uint32_t)begin, (uint32_t)end, m->row);
	for (uint64_t i = 0; m->split && i < end - begin; i++)
		m->row[i] = m->split->train[m->row[i]];
	b->epoch = epoch;
	return data_gather(m->data, m->row, end - begin, b, e);
}

static enum err_code deal_numbers(struct range_source *s, uint64_t epoch, uint64_t begin,
    uint64_t end, struct batch *b, struct err *e)
{
	(void)s, (void)e;
	data_range(epoch, begin, end, b);
	return ERR_OK;
}

static enum err_code load_examples_in_memory(struct range_source *s, uint64_t at, uint64_t n,
    struct batch *b, struct err *e)
{
	const struct source_range *r = range_in_memory(s);

	return s->ops->deal(s, r->epoch, r->begin + at, r->begin + at + n, b, e);
}

static void close_range_in_memory(struct range_source *s)
{
	memory_of(s)->range = (struct source_range){ 0 };
}

static void free_source_in_memory(struct range_source *s)
{
	free(memory_of(s)->row);
	free(s);
}

static const struct range_source_ops memory_ops = {
	.prepare = prepare_range_in_memory,
	.open = open_range_in_memory,
	.ready = ready_examples_in_memory,
	.left = count_left_in_memory,
	.units_before = examples_before,
	.load = load_examples_in_memory,
	.deal = deal_examples,
	.close = close_range_in_memory,
	.free = free_source_in_memory,
};

static const struct range_source_ops number_ops = {
	.prepare = prepare_range_in_memory,
	.open = open_range_in_memory,
	.ready = ready_examples_in_memory,
	.left = count_left_in_memory,
	.units_before = examples_before,
	.load = load_examples_in_memory,
	.deal = deal_numbers,
	.close = close_range_in_memory,
	.free = free_source_in_memory,
};

struct range_source *source_memory_new(const struct dataset *d, const struct data_split *split,
    uint64_t seed)
{
	struct memory_source *m = mem_alloc(sizeof *m);
	size_t units = split ? split->ntrain : d->rows;

	m->base = (struct range_source){ .ops = d->numbered ? &number_ops : &memory_ops,
		.units = units,
		.examples = units,
		.leases = &leases_of_ranges };
	m->data = d;
	m->split = split;
	m->seed = seed;
	return &m->base;
}

void range_source_free(struct range_source *s)
{
	if (s)
		s->ops->free(s);
}

/* SPDX-License-Identifier: ISC */
#include "server/partition_load.h"

/* A partition joins the row of its neighbours if its load differs from their mean by at most this
 * part of it. */
#define ALIKE 0.25

/* The list under way, and the row that is not in it yet. */
struct rows {
	json_t *list;
	/* The sum of the loads in the present row, whose place is in the members below. */
	double sum;
	uint16_t table;
	uint32_t first, count;
};

/* Appends the present row with its mean load, if it has any partition. */
static void end_load_row(struct rows *r)
{
	if (r->count)
		json_array_append_new(r->list,
		    json_pack("[i, I, I, f]", r->table, (json_int_t)r->first, (json_int_t)r->count,
		        r->sum / r->count));
	r->count = 0;
}

/* Does the next partition continue the row? The last place of the list takes all neighbours,
 * whatever their load. */
static bool joins_load_row(const struct rows *r, uint16_t table, uint32_t part, double rate)
{
	double mean = r->count ? r->sum / r->count : 0;

	if (!r->count || table != r->table || part != r->first + r->count)
		return false;
	return json_array_size(r->list) >= HEAT_ROWS - 1 ||
	    (rate <= mean * (1 + ALIKE) && rate >= mean * (1 - ALIKE));
}

/* For shard_part_load: called with the partition's lock held, in ascending order. Partitions
 * beyond HEAT_ROWS rows are left out. */
static void add_partition_load(void *ctx, uint16_t table, uint32_t part, double rate)
{
	struct rows *r = ctx;

	if (!joins_load_row(r, table, part, rate)) {
		end_load_row(r);
		if (json_array_size(r->list) >= HEAT_ROWS)
			return;
		r->table = table;
		r->first = part;
		r->sum = 0;
	}
	r->sum += rate;
	r->count++;
}

json_t *partition_load_json(struct shard *s, double seconds, uint64_t steps)
{
	struct rows r = { .list = json_array() };

	shard_part_load(s, seconds, steps, add_partition_load, &r);
	end_load_row(&r);
	return r.list;
}

#include "server/heat.h"

/* Neighbours are alike when they differ by no more than this part. */
#define ALIKE 0.25

struct rows {
	json_t *list;
	double sum;                     /* of the row that is open */
	uint16_t table;
	uint32_t first, count;
};

static void end_row(struct rows *r)
{
	if (r->count)
		json_array_append_new(r->list, json_pack("[i, I, I, f]", r->table, (json_int_t)r->first, (json_int_t)r->count,
		    r->sum / r->count));
	r->count = 0;
}

static bool fits(const struct rows *r, uint16_t table, uint32_t part, double rate)
{
	double mean = r->count ? r->sum / r->count : 0;

	if (!r->count || table != r->table || part != r->first + r->count)
		return false;
	return json_array_size(r->list) >= HEAT_ROWS - 1 || (rate <= mean * (1 + ALIKE) && rate >= mean * (1 - ALIKE));
}

static void add(void *ctx, uint16_t table, uint32_t part, double rate)
{
	struct rows *r = ctx;

	if (!fits(r, table, part, rate)) {
		end_row(r);
		if (json_array_size(r->list) >= HEAT_ROWS)
			return;
		r->table = table;
		r->first = part;
		r->sum = 0;
	}
	r->sum += rate;
	r->count++;
}

json_t *heat_rows(struct shard *s, double seconds, uint64_t steps)
{
	struct rows r = { .list = json_array() };

	shard_heat(s, seconds, steps, add, &r);
	end_row(&r);
	return r.list;
}

/* SPDX-License-Identifier: ISC */
#include "layout/taken.h"

#include "core/mem.h"
#include "core/steps.h"

/* A longer list is malformed: there are at most this many partitions. */
#define RUNS_MAX (1u << 22)

void taken_release(struct taken *t)
{
	free(t->run);
	*t = (struct taken){ 0 };
}

struct taken taken_copy(const struct taken *t)
{
	struct taken copy = { 0 };

	taken_merge(&copy, t);
	return copy;
}

static void append_run(struct taken *t, const struct taken_run *r)
{
	/* The array has room for a power of two. */
	if ((t->n & (t->n - 1)) == 0)
		t->run = mem_regrow(t->run, t->n ? 2 * t->n : 1, sizeof *t->run);
	t->run[t->n++] = *r;
}

void taken_add(struct taken *t, uint16_t table, uint32_t part, uint64_t end)
{
	struct taken_run *last = t->n ? &t->run[t->n - 1] : NULL;

	if (last && last->table == table && last->first + last->count == part && last->end == end)
		last->count++;
	else
		append_run(t, &(struct taken_run){ table, part, 1, end });
}

void taken_merge(struct taken *t, const struct taken *more)
{
	for (size_t i = 0; i < more->n; i++)
		append_run(t, &more->run[i]);
}

void taken_drop_before(struct taken *t, uint64_t step)
{
	struct taken rest = { 0 };

	for (size_t i = 0; i < t->n; i++)
		if (t->run[i].end > step)
			append_run(&rest, &t->run[i]);
	taken_release(t);
	*t = rest;
}

uint64_t taken_of(const struct taken *t, uint16_t table, uint32_t part)
{
	uint64_t end = 0;

	for (size_t i = 0; i < t->n; i++) {
		const struct taken_run *r = &t->run[i];

		if (r->table == table && part >= r->first && part - r->first < r->count &&
		    r->end > end)
			end = r->end;
	}
	return end;
}

bool taken_has(const struct taken *t, uint16_t table, uint32_t part, uint64_t step)
{
	return taken_of(t, table, part) > step;
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

void taken_limit(struct taken *t, const struct taken *most, uint64_t until)
{
	struct taken limited = { 0 };

	for (size_t i = 0; i < t->n; i++) {
		const struct taken_run *r = &t->run[i];

		for (uint32_t p = r->first; p < r->first + r->count; p++)
			taken_add(&limited, r->table, p,
			    least(least(r->end, until), taken_of(most, r->table, p)));
	}
	taken_release(t);
	*t = limited;
}

uint64_t taken_least(const struct taken *t, uint16_t table, uint32_t parts)
{
	uint64_t *end = mem_array((size_t)parts + 1, sizeof *end), min = UINT64_MAX;

	for (size_t i = 0; i < t->n; i++) {
		const struct taken_run *r = &t->run[i];

		for (uint32_t p = r->first;
		     r->table == table && p - r->first < r->count && p < parts; p++)
			end[p] = r->end > end[p] ? r->end : end[p];
	}
	for (uint32_t p = 0; p < parts; p++)
		min = least(min, end[p]);
	free(end);
	return min;
}

uint64_t taken_end(const struct taken *t)
{
	uint64_t end = 0;

	for (size_t i = 0; i < t->n; i++)
		if (t->run[i].end > end)
			end = t->run[i].end;
	return end;
}

json_t *taken_to_json(const struct taken *t)
{
	json_t *list = json_array();

	for (size_t i = 0; i < t->n; i++) {
		const struct taken_run *r = &t->run[i];

		json_array_append_new(list,
		    json_pack("[iIII]", (int)r->table, (json_int_t)r->first, (json_int_t)r->count,
		        (json_int_t)r->end));
	}
	return list;
}

/* A run from its four numbers. False: they are out of bounds. */
static bool make_run(int64_t table, int64_t first, int64_t count, int64_t end,
    struct taken_run *out)
{
	*out = (struct taken_run){ (uint16_t)table, (uint32_t)first, (uint32_t)count,
		(uint64_t)end };
	return table >= 0 && table <= UINT16_MAX && first >= 0 && first <= UINT32_MAX &&
	    count > 0 && count <= UINT32_MAX - first && end >= 0 && end <= STEPS_MOST;
}

enum err_code taken_from_json(const json_t *json, struct taken *out, struct err *e)
{
	const json_t *item;
	size_t i;

	*out = (struct taken){ 0 };
	if (json_is_null(json) || !json)
		return ERR_OK;
	if (!json_is_array(json) || json_array_size(json) > RUNS_MAX)
		return err_set(e, ERR_PROTO, "the list of accepted pushes is malformed");
	json_array_foreach(json, i, item) {
		json_int_t v[4] = { 0 };
		struct taken_run r;

		for (size_t k = 0; k < 4; k++)
			v[k] = json_is_integer(json_array_get(item, k))
			    ? json_integer_value(json_array_get(item, k))
			    : -1;
		if (json_array_size(item) != 4 || !make_run(v[0], v[1], v[2], v[3], &r)) {
			taken_release(out);
			return err_set(e, ERR_PROTO, "the list of accepted pushes is malformed");
		}
		append_run(out, &r);
	}
	return ERR_OK;
}

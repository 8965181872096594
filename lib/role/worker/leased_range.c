/* SPDX-License-Identifier: ISC */
#include "worker/leased_range.h"

#include "core/mem.h"

/* Takes the attempts of lost workers from an array of [from, step, batch, taken]. */
static enum err_code decode_earlier(const json_t *list, struct leased_range *r, struct err *e)
{
	enum err_code rc = ERR_OK;
	const json_t *item;
	size_t i;

	r->earlier = mem_array(json_array_size(list) + 1, sizeof *r->earlier);
	json_array_foreach(list, i, item) {
		struct attempt *a = &r->earlier[r->n_earlier];

		a->from = (uint64_t)json_integer_value(json_array_get(item, 0));
		a->step = (uint64_t)json_integer_value(json_array_get(item, 1));
		a->batch = (uint64_t)json_integer_value(json_array_get(item, 2));
		rc = taken_from_json(json_array_get(item, 3), &a->taken, e);
		if (!rc && !a->batch)
			rc = err_set(e, ERR_PROTO,
			    "the coordinator leased a range without a batch size");
		if (rc)
			return rc;
		r->n_earlier++;
	}
	return ERR_OK;
}

enum err_code leased_range_decode(const struct answer_task *t, uint64_t step,
    struct leased_range *out, struct err *e)
{
	enum err_code rc;

	*out = (struct leased_range){ .have = true,
		.units = { (uint64_t)t->id, (uint64_t)t->epoch, (uint64_t)t->begin,
		    (uint64_t)t->end },
		.own = { (uint64_t)t->from, step, (uint64_t)t->batch, { 0 } },
		.used = (uint64_t)t->from,
		.placed = (uint64_t)t->placed,
		.place = t->place };
	rc = decode_earlier(t->earlier, out, e);
	if (rc)
		leased_range_release(out);
	return rc;
}

void leased_range_release(struct leased_range *r)
{
	for (size_t i = 0; i < r->n_earlier; i++)
		taken_release(&r->earlier[i].taken);
	free(r->earlier);
	*r = (struct leased_range){ 0 };
}

json_t *leased_range_to_json(const struct leased_range *r)
{
	return json_pack("[IIIII]", (json_int_t)r->units.id, (json_int_t)r->own.from,
	    (json_int_t)r->own.step, (json_int_t)r->own.batch, (json_int_t)r->place);
}

/* The end of the examples that a lost worker may have pushed. */
static uint64_t lost_attempt_end(const struct attempt *a)
{
	uint64_t end = taken_end(&a->taken);

	return a->from + (end > a->step ? end - a->step : 0) * a->batch;
}

/* The range's first example that no lost worker has pushed. */
static uint64_t repeated_until(const struct leased_range *r)
{
	uint64_t end = 0;

	for (size_t i = 0; i < r->n_earlier; i++)
		if (lost_attempt_end(&r->earlier[i]) > end)
			end = lost_attempt_end(&r->earlier[i]);
	return end;
}

enum err_code leased_range_peek(const struct leased_range *r, struct range_source *s, uint64_t at,
    uint64_t n, struct batch *b, bool *known, struct err *e)
{
	uint64_t before = at - r->used, have = 0;
	enum err_code rc = s->ops->ready(s, r->used, before + n, &have, e);

	*known = !rc && have > before;
	return *known ? s->ops->load(s, at, have - before, b, e) : rc;
}

bool leased_range_repeats(const struct leased_range *r)
{
	return r->have && r->used < repeated_until(r);
}

/* The place of the last attempt that began before, and at most what is left to the next one. */
uint64_t leased_range_repeated_batch(const struct leased_range *r)
{
	uint64_t batch = r->own.batch, from = 0, most = UINT64_MAX;

	for (size_t i = 0; i < r->n_earlier; i++) {
		const struct attempt *a = &r->earlier[i];

		if (a->from > r->used) {
			most = a->from - r->used < most ? a->from - r->used : most;
		} else if (a->from >= from) {
			from = a->from;
			batch = a->batch;
		}
	}
	return batch < most ? batch : most;
}

bool leased_range_is_taken(const struct leased_range *r, uint16_t table, uint32_t part)
{
	for (size_t i = 0; r->have && i < r->n_earlier; i++) {
		const struct attempt *a = &r->earlier[i];

		if (r->used >= a->from &&
		    taken_has(&a->taken, table, part, a->step + (r->used - a->from) / a->batch))
			return true;
	}
	return false;
}

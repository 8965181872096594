/* SPDX-License-Identifier: ISC */
#include "data/table/data_tfidf.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"

struct data_tfidf *data_tfidf_new(size_t places)
{
	struct data_tfidf *t = mem_alloc(sizeof *t);

	*t = (struct data_tfidf){ .places = places,
		.frequency = mem_array(places, sizeof *t->frequency),
		.last = mem_array(places, sizeof *t->last) };
	return t;
}

struct data_tfidf *data_tfidf_copy(const struct data_tfidf *t)
{
	struct data_tfidf *copy = t ? data_tfidf_new(t->places) : NULL;

	if (!copy)
		return NULL;
	memcpy(copy->frequency, t->frequency, t->places * sizeof *t->frequency);
	data_tfidf_end(copy, t->rows);
	return copy;
}

void data_tfidf_free(struct data_tfidf *t)
{
	if (!t)
		return;
	free(t->frequency);
	free(t->last);
	free(t);
}

void data_tfidf_count(struct data_tfidf *t, size_t row, size_t first, size_t n, const uint32_t *id)
{
	for (size_t i = 0; i < n; i++) {
		size_t place = id[i] - first;

		/* Another text of this row may have a term of the same place. */
		t->frequency[place] += t->last[place] != (uint32_t)row + 1;
		t->last[place] = (uint32_t)row + 1;
	}
}

void data_tfidf_end(struct data_tfidf *t, size_t rows)
{
	t->rows = rows;
	free(t->last);
	t->last = NULL;
}

void data_tfidf_weigh(const struct data_tfidf *t, size_t first, size_t n, const uint32_t *id,
    float *val)
{
	double squares = 0, length;

	for (size_t i = 0; i < n; i++) {
		double frequency = (double)t->frequency[id[i] - first];
		double weight = (double)val[i] * (log((1 + (double)t->rows) / (1 + frequency)) + 1);

		val[i] = (float)weight;
		squares += weight * weight;
	}
	length = sqrt(squares);
	for (size_t i = 0; i < n; i++)
		val[i] = (float)((double)val[i] / length);
}

/* ---- as JSON ---- */

json_t *data_tfidf_to_json(const struct data_tfidf *t)
{
	json_t *o = json_array();
	size_t before = 0;

	for (size_t place = 0; place < t->places; place++) {
		if (!t->frequency[place])
			continue;
		json_array_append_new(o, json_integer((json_int_t)(place - before)));
		json_array_append_new(o, json_integer(t->frequency[place]));
		before = place;
	}
	return o;
}

/* Takes the frequencies over. False: they do not ascend, or a number is out of its bounds. */
static bool fill_frequencies(struct data_tfidf *t, const json_t *o)
{
	uint64_t place = 0;

	for (size_t i = 0; i < json_array_size(o); i += 2) {
		const json_t *step = json_array_get(o, i), *n = json_array_get(o, i + 1);

		if (!json_is_integer(step) || json_integer_value(step) < (i > 0) ||
		    (uint64_t)json_integer_value(step) >= t->places - place ||
		    !json_is_integer(n) || json_integer_value(n) < 1 ||
		    (uint64_t)json_integer_value(n) > t->rows)
			return false;
		place += (uint64_t)json_integer_value(step);
		t->frequency[place] = (uint32_t)json_integer_value(n);
	}
	return true;
}

struct data_tfidf *data_tfidf_from_json(const json_t *o, uint64_t rows, size_t places)
{
	struct data_tfidf *t;

	if (!json_is_array(o) || rows < 1 || rows > UINT32_MAX || places < 1)
		return NULL;
	t = data_tfidf_new(places);
	t->rows = rows;
	if (!fill_frequencies(t, o)) {
		data_tfidf_free(t);
		return NULL;
	}
	data_tfidf_end(t, rows);
	return t;
}

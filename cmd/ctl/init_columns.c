/* SPDX-License-Identifier: ISC */
#include "init_columns.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "data/table/data_form.h"

/* A column has this share of cells of a kind to be of it. */
#define MOST 0.9
/* The mean number of words of a text, and the share of rows in which texts differ, at least. */
#define TEXT_WORDS 3.0
#define TEXT_SHARE 0.3
/* Lists have parts in this share of the cells. */
#define LIST_SHARE 0.2

static const char signs[] = "|;,";

/* FNV-1a; 0 stands for an empty place of the table. */
static uint64_t hash_text(const char *text)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325);

	for (; *text; text++)
		h = (h ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
	h ^= h >> 29;
	return h ? h : 1;
}

/* Finds the place of a hash in the table, or the empty one where it belongs. */
static size_t find_place(const uint64_t *seen, size_t room, uint64_t h)
{
	size_t at = (size_t)h & (room - 1);

	while (seen[at] && seen[at] != h)
		at = (at + 1) & (room - 1);
	return at;
}

static void grow_table(struct column_stats *c)
{
	size_t room = c->room ? 2 * c->room : 64;
	uint64_t *seen = mem_array(room, sizeof *seen);

	for (size_t i = 0; i < c->room; i++)
		if (c->seen[i])
			seen[find_place(seen, room, c->seen[i])] = c->seen[i];
	free(c->seen);
	c->seen = seen;
	c->room = room;
}

static void count_distinct(struct column_stats *c, const char *text)
{
	uint64_t h = hash_text(text);
	size_t at;

	if (c->distinct == COLUMN_DISTINCT_MOST)
		return;
	if (2 * c->distinct >= c->room)
		grow_table(c);
	at = find_place(c->seen, c->room, h);
	if (!c->seen[at]) {
		c->seen[at] = h;
		c->distinct++;
	}
}

static void count_number(struct column_stats *c, const char *text, double v)
{
	const char *digits = text + (*text == '-' || *text == '+');

	c->low = c->numbers && c->low < v ? c->low : v;
	c->high = c->numbers && c->high > v ? c->high : v;
	c->numbers++;
	c->integers += v == floor(v);
	c->zero_led += digits == text && *text == '0' && text[1] &&
	    strspn(text, "0123456789") == strlen(text);
}

static void count_text(struct column_stats *c, const char *text)
{
	size_t words = 0;

	for (const char *p = text; *(p += strspn(p, " \t\n")); words++)
		p += strcspn(p, " \t\n");
	c->words += words;
	c->spaced += words > 1;
	for (int i = 0; i < 3; i++)
		c->parted[i] += strchr(text, signs[i]) != NULL;
}

static void watch_cell(void *ctx, size_t column, const char *text)
{
	struct column_looks *l = ctx;
	struct column_stats *c;
	double v;

	if (column >= l->n) {
		l->of = mem_regrow(l->of, column + 1, sizeof *l->of);
		memset(l->of + l->n, 0, (column + 1 - l->n) * sizeof *l->of);
		l->n = column + 1;
	}
	c = &l->of[column];
	c->cells++;
	if (data_form_is_missing(text)) {
		c->missing++;
		return;
	}
	count_distinct(c, text);
	if (data_form_number(DATA_PLAIN, NULL, text, &v))
		count_number(c, text, v);
	else
		count_text(c, text);
}

void column_looks_release(struct column_looks *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->of[i].seen);
	free(l->of);
	*l = (struct column_looks){ 0 };
}

const struct data_watch *column_looks_watch(struct column_looks *l)
{
	l->watch = (struct data_watch){ l, watch_cell };
	return &l->watch;
}

const struct column_stats *column_looks_at(const struct column_looks *l, size_t i)
{
	static const struct column_stats none;

	return i < l->n ? &l->of[i] : &none;
}

bool column_look_is_code(const struct column_stats *c)
{
	size_t there = c->cells - c->missing;

	return c->zero_led && c->integers == there;
}

char column_look_list(const struct column_stats *c)
{
	size_t texts = c->cells - c->missing - c->numbers;

	/* A comma is part of many texts, so it counts only where words do not stand between. */
	for (int i = 0; texts && i < 3; i++)
		if ((double)c->parted[i] > LIST_SHARE * (double)texts &&
		    (signs[i] == '|' || (double)c->words < 2 * TEXT_WORDS * (double)texts))
			return signs[i];
	return 0;
}

bool column_look_is_text(const struct column_stats *c)
{
	size_t texts = c->cells - c->missing - c->numbers;

	return texts && (double)texts > MOST * (double)(c->cells - c->missing) &&
	    (double)c->words >= TEXT_WORDS * (double)texts &&
	    (double)c->distinct > TEXT_SHARE * (double)texts;
}

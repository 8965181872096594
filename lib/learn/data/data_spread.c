/* SPDX-License-Identifier: ISC */
#include "data/data_spread.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/keyed_hash.h"
#include "core/mem.h"

/* Values whose range is less than this share of them are the same but for rounding. */
#define ROUNDING 0x1p-40
/* Fewer steps of float32 than this in the range are a loss. */
#define STEPS 32
/* Features below this are found without hashing. */
#define SMALL 65536u

static void add_exact(struct data_spread *s, double v)
{
	if (!s->begun || v < s->least)
		s->least = v;
	if (!s->begun || v > s->most)
		s->most = v;
	s->begun = true;
}

void data_spread_add(struct data_spread *s, double v)
{
	double error = fabs(v - (double)(float)v);

	if (error > s->error)
		s->error = error;
	add_exact(s, v);
}

/* Rounding keeps the order, so the rounded values lie between the rounded bounds. */
void data_spread_widen(struct data_spread *s, float v)
{
	if (!s->begun || v < (float)s->least || v > (float)s->most)
		add_exact(s, (double)v);
}

bool data_spread_is_lost(const struct data_spread *s)
{
	double range = s->most - s->least, size = fmax(fabs(s->most), fabs(s->least));

	return s->begun && range > size * ROUNDING && 2 * s->error * STEPS > range;
}

/* The place of a small feature. */
static uint32_t *find_small(struct data_spreads *s, uint64_t feature)
{
	size_t room = s->nsmall ? s->nsmall : 64;

	while (room <= feature)
		room *= 2;
	if (room > s->nsmall) {
		s->small = mem_regrow(s->small, room, sizeof *s->small);
		memset(s->small + s->nsmall, 0, (room - s->nsmall) * sizeof *s->small);
		s->nsmall = room;
	}
	return &s->small[feature];
}

/* The slot of a feature in the hash table, or the free one where it belongs. */
static uint32_t *find_spread_slot(const struct data_spreads *s, uint64_t feature)
{
	size_t at = keyed_hash(feature) & (s->slots - 1);

	while (s->slot[at] && s->of[s->slot[at] - 1].feature != feature)
		at = (at + 1) & (s->slots - 1);
	return &s->slot[at];
}

/* Doubles the table, of which at most half of the slots are used. */
static void grow_slots(struct data_spreads *s)
{
	keyed_hash_begin();
	free(s->slot);
	s->slots = s->slots ? 2 * s->slots : 1024;
	s->slot = mem_array(s->slots, sizeof *s->slot);
	for (size_t i = 0; i < s->n; i++)
		if (s->of[i].feature >= SMALL)
			*find_spread_slot(s, s->of[i].feature) = (uint32_t)i + 1;
}

static uint32_t *find_large(struct data_spreads *s, uint64_t feature)
{
	if (2 * (s->used + 1) > s->slots)
		grow_slots(s);
	return find_spread_slot(s, feature);
}

void data_spreads_add(struct data_spreads *s, uint64_t feature, double v)
{
	uint32_t *place;

	if (!isfinite(v))
		return;
	place = feature < SMALL ? find_small(s, feature) : find_large(s, feature);
	if (!*place) {
		if (s->n == (s->limit ? s->limit : DATA_SPREADS)) {
			s->unwatched++;
			return;
		}
		if (s->n == s->room) {
			s->room = s->room ? 2 * s->room : 64;
			s->of = mem_regrow(s->of, s->room, sizeof *s->of);
		}
		s->of[s->n++] = (struct data_spread_of){ .feature = feature };
		s->used += feature >= SMALL;
		*place = (uint32_t)s->n;
	}
	data_spread_add(&s->of[*place - 1].spread, v);
}

void data_spreads_release(struct data_spreads *s)
{
	free(s->of);
	free(s->small);
	free(s->slot);
	*s = (struct data_spreads){ 0 };
}

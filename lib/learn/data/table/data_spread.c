/* SPDX-License-Identifier: ISC */
#include "data/table/data_spread.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/keyed_hash.h"
#include "core/mem.h"
#include "data/data_build.h"

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
		s->of = mem_grow(s->of, &s->room, s->n + 1, sizeof *s->of);
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

/* ---- the check of a build ---- */

/* Refuses numbers that float32 does not tell apart. While the data are read, data_build_spread
 * notes the numbers that float32 rounds. When all are read, the features of which these alone
 * would be lost are looked at with all their numbers, as float32: those that were exact, and 0
 * where a sparse row lacks the feature. */

/* A feature that may be lost, and the row of its last number. */
struct suspect {
	const struct data_spread_of *of;
	struct data_spread spread;
	size_t rows, last; /* rows that have it; the last of them, plus 1 */
};

struct suspects {
	struct suspect *s;
	size_t n;
	uint32_t *by_column; /* the place in s, plus 1; 0: none */
	size_t columns;
};

/* The column in the dataset that has a feature of the file; SIZE_MAX: none. The ids of sparse
 * data ascend. */
static size_t find_column(const struct dataset *d, uint64_t feature)
{
	size_t low = 0, high = d->nids, middle;

	if (!d->sparse)
		return feature < d->cols ? (size_t)feature : SIZE_MAX;
	feature -= (uint64_t)d->index_base;
	if (!d->id)
		return feature < d->nids ? (size_t)feature : SIZE_MAX;
	while (low < high) {
		middle = low + (high - low) / 2;
		if (d->id[middle] < feature)
			low = middle + 1;
		else
			high = middle;
	}
	return low < d->nids && d->id[low] == feature ? low : SIZE_MAX;
}

/* Lists the features that would be lost by the numbers that were noted alone. False: no memory. */
static bool list_suspects(const struct data_build *b, struct suspects *out)
{
	const struct dataset *d = b->d;
	size_t column;

	out->columns = d->sparse ? d->nids : d->cols;
	for (size_t i = 0; i < b->spreads.n; i++) {
		const struct data_spread_of *of = &b->spreads.of[i];

		if (!data_spread_is_lost(&of->spread))
			continue;
		column = find_column(d, of->feature);
		if (column == SIZE_MAX)
			continue;
		if (!out->s) {
			out->s = mem_try_array(b->spreads.n, sizeof *out->s);
			out->by_column = mem_try_array(out->columns, sizeof *out->by_column);
			if (!out->s || !out->by_column)
				return false;
		}
		out->s[out->n++] = (struct suspect){ of, of->spread, 0, 0 };
		out->by_column[column] = (uint32_t)out->n;
	}
	return true;
}

static void widen_suspect(const struct suspects *x, size_t row, size_t column, float v)
{
	struct suspect *s = x->by_column[column] ? &x->s[x->by_column[column] - 1] : NULL;

	if (!s)
		return;
	data_spread_widen(&s->spread, v);
	s->rows += s->last != row + 1;
	s->last = row + 1;
}

/* Adds all numbers of the suspects. */
static void widen_suspects(const struct dataset *d, const struct suspects *x)
{
	for (size_t r = 0; d->x && r < d->rows; r++)
		for (size_t i = 0; i < d->cols; i++)
			widen_suspect(x, r, i, d->x[r * d->cols + i]);
	for (size_t r = 0; d->sparse && r < d->rows; r++)
		for (uint64_t k = d->start[r]; k < d->start[r + 1]; k++)
			widen_suspect(x, r, d->col[k], d->val[k]);
	for (size_t i = 0; i < x->n; i++)
		if (x->s[i].rows < d->rows)
			data_spread_widen(&x->s[i].spread, 0);
}

/* Refuses numbers of which few or one are left. column: what they are. */
static enum err_code refuse_spread(const struct data_build *b, const struct data_spread *s,
    const char *column, struct err *e)
{
	bool table = b->reader == &data_reader_csv || b->reader == &data_reader_jsonl;

	return err_set(e, ERR_FORMAT,
	    "%s: %s between %.15g and %.15g, which float32 hardly tells apart: %s", b->first,
	    column, s->least, s->most,
	    table ? "add ?scale=standard to the path, so that the mean is subtracted first"
	          : "subtract the mean first (numpy: x - x.mean(0))");
}

/* Names a feature of sparse data by its number in the file, and others by their place, from 1. */
static enum err_code refuse_feature(const struct data_build *b, const struct suspect *s,
    struct err *e)
{
	const struct dataset *d = b->d;
	uint64_t feature = s->of->feature - (d->sparse ? (uint64_t)d->index_base : 0),
	         number = d->sparse && !d->schema ? s->of->feature : feature + 1;
	char *name = data_feature_name(d, feature),
	     *text = mem_printf("feature %llu%s%.60s%s lies", (unsigned long long)number,
	         name ? " (" : "", name ? name : "", name ? ")" : "");
	enum err_code rc = refuse_spread(b, &s->spread, text, e);

	free(text);
	free(name);
	return rc;
}

static enum err_code check_features(const struct data_build *b, struct err *e)
{
	struct suspects x = { 0 };
	enum err_code rc = ERR_OK;

	if (!list_suspects(b, &x))
		rc = err_set(e, ERR_NOMEM, "no memory for the features of %s", b->first);
	if (!rc && x.n)
		widen_suspects(b->d, &x);
	for (size_t i = 0; !rc && i < x.n; i++)
		if (data_spread_is_lost(&x.s[i].spread))
			rc = refuse_feature(b, &x.s[i], e);
	free(x.s);
	free(x.by_column);
	return rc;
}

/* Targets that have an origin are kept relative to it. */
static enum err_code check_targets(const struct data_build *b, struct err *e)
{
	const struct dataset *d = b->d;

	if (b->like || !d->y || d->classes)
		return ERR_OK;
	for (size_t k = 0; k < d->targets; k++) {
		const struct data_spread *s = data_label_spread(b->label, k);
		char text[64] = "the labels lie";

		if (d->targets > 1)
			snprintf(text, sizeof text, "the labels of target %zu lie", k + 1);
		if (dataset_target_origin(d, k) == 0 && s && data_spread_is_lost(s))
			return refuse_spread(b, s, text, e);
	}
	return ERR_OK;
}

enum err_code data_spreads_check(const struct data_build *b, struct err *e)
{
	enum err_code rc = check_targets(b, e);

	b->d->reading.unwatched = b->spreads.unwatched;
	return rc ? rc : check_features(b, e);
}

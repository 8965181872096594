#include "base/clock.h"
#include "base/mem.h"
#include "mirror/mirror_state.h"

/* A look at the source: what has changed there is put where pulls find it. */

/* Where it is not known what has changed all rows are fetched, and that takes at most so many parts of the time. */
#define SHARE 5

/* As it is there now; NULL: it has become another one. */
static const struct table *source_of(struct mirror *m, struct mirrored *x)
{
	const struct table *t = layout_find(client_layout(m->tool.client), x->name);
	bool same = t && !t->dropped && t->sparse == x->sparse && t->cols == x->cols && t->nparts == x->nparts &&
	    (t->sparse || t->rows == x->rows);

	if (!same && !x->changed)
		log_warn(m->log, "table \"%s\" %s there: what is here of it stays as it is; begin anew to have the other", x->name,
		    t ? "has another shape" : "is no more");
	x->changed = !same;
	return same ? t : NULL;
}

static bool find_here(struct shard *shard, struct mirrored *x)
{
	const struct table *t;

	for (uint16_t i = 0; x->here < 0 && (t = shard_table(shard, i)); i++)
		if (!t->dropped && strcmp(t->name, x->name) == 0)
			x->here = i;
	return x->here >= 0;
}

/* ---- dense -------------------------------------------------------------------------------- */

/* All that has come is in w; the partitions of another version go on. */
static void give_dense(struct mirror *m, struct shard *shard, struct mirrored *x, const struct table *t)
{
	for (uint32_t p = 0; p < x->nparts; p++) {
		uint64_t version = client_version(m->tool.client, t, p);

		if (version != x->version[p] && shard_assign(shard, (uint16_t)x->here, p, x->w + table_part_begin(t, p)) == SHARD_OK)
			x->version[p] = version;
	}
}

static enum err_code take_dense(struct mirror *m, struct shard *shard, struct err *e)
{
	struct client *c = m->tool.client;
	enum err_code rc = ERR_OK;
	const struct table *t;

	for (size_t i = 0; !rc && i < m->ntables; i++) {
		struct mirrored *x = &m->table[i];

		if (!x->sparse && (t = source_of(m, x)))
			rc = client_want(c, t, CLIENT_NOW, x->based ? x->w : NULL, x->w, e);
	}
	if (!rc)
		rc = client_wait(c, CLIENT_NOW, e);
	for (size_t i = 0; !rc && i < m->ntables; i++) {
		struct mirrored *x = &m->table[i];

		if (x->sparse || x->changed)
			continue;
		x->based = true;
		give_dense(m, shard, x, layout_find(client_layout(c), x->name));
	}
	return rc;
}

/* ---- sparse --------------------------------------------------------------------------------- */

struct taking {
	struct mirror *m;
	struct shard *shard;
	struct mirrored *x;
	const struct table *t;
	uint32_t first, end;            /* the partitions */
	bool whole, given;              /* what comes is all that there is; something has come */
};

/* There are no others there than these. */
static void keep_rows(const struct taking *k, const struct parted *by)
{
	for (uint32_t p = k->first; p < k->end; p++)
		shard_keep_rows(k->shard, (uint16_t)k->x->here, p, by->ids + by->first[p], by->first[p + 1] - by->first[p]);
}

static enum err_code give_rows(void *ctx, const uint64_t *ids, const float *rows, size_t n, struct err *e)
{
	struct taking *k = ctx;
	struct parted by;
	enum err_code rc = parted_make(k->t, ids, rows, n, &by, e);

	for (uint32_t p = k->first; !rc && p < k->end; p++) {
		size_t at = by.first[p], count = by.first[p + 1] - at;

		if (count && shard_assign_rows(k->shard, (uint16_t)k->x->here, p, (const uint8_t *)(by.ids + at), (uint32_t)count,
		                               by.rows + at * k->t->cols) != SHARD_OK)
			rc = err_set(e, ERR_NOMEM, "there is no room here for more rows of table \"%s\" (mem_limit)", k->t->name);
	}
	if (!rc && k->whole)
		keep_rows(k, &by);
	k->given = true;
	parted_release(&by);
	return rc;
}

static enum err_code keep_only(const struct taking *k, const uint64_t *ids, size_t n, struct err *e)
{
	struct parted by;
	enum err_code rc = parted_make(k->t, ids, NULL, n, &by, e);

	if (!rc)
		keep_rows(k, &by);
	parted_release(&by);
	return rc;
}

/* *step: what has not come yet is of this one or later. */
static enum err_code take_group(struct taking *k, uint64_t since, uint64_t *step, struct err *e)
{
	struct client_changes changes;
	enum err_code rc = client_scan_parts(k->m->tool.client, k->t, k->first, k->end - k->first, since, give_rows, k, &changes, e);

	if (!rc && (changes.gone || (k->whole && !k->given)))
		rc = keep_only(k, changes.live, changes.nlive, e);
	*step = changes.step < *step ? changes.step : *step;
	free(changes.live);
	return rc;
}

static enum err_code take_rows(struct mirror *m, struct shard *shard, struct mirrored *x, const struct table *t, struct err *e)
{
	struct taking k = { .m = m, .shard = shard, .x = x, .t = t, .whole = x->since == CLIENT_ALL };
	uint64_t since = policy_dates(&t->policy) ? x->since : CLIENT_ALL, step = UINT64_MAX;
	int64_t begin = clock_now();
	enum err_code rc = ERR_OK;

	if (since == CLIENT_ALL && begin < x->due && !k.whole)
		return ERR_OK;
	for (; !rc && k.end < t->nparts; k.first = k.end) {
		k.end = t->nparts - k.first < MIRROR_GROUP ? t->nparts : k.first + MIRROR_GROUP;
		k.given = false;
		rc = take_group(&k, since, &step, e);
	}
	if (!rc)
		x->since = step;
	x->due = clock_now() + (SHARE - 1) * (clock_now() - begin);
	return rc;
}

/* ---- all ---------------------------------------------------------------------------------------- */

/* What is known of versions and steps is of another life of the source. */
static void forget(struct mirror *m)
{
	for (size_t i = 0; i < m->ntables; i++) {
		struct mirrored *x = &m->table[i];

		x->since = CLIENT_ALL;
		for (uint32_t p = 0; !x->sparse && p < x->nparts; p++)
			x->version[p] = UNKNOWN;
	}
}

bool mirror_finds(struct mirror *m, struct shard *shard)
{
	bool found = true;

	for (size_t i = 0; i < m->ntables; i++)
		found &= find_here(shard, &m->table[i]);
	return found;
}

enum err_code mirror_take(struct mirror *m, struct shard *shard, struct err *e)
{
	uint32_t generation = client_layout(m->tool.client)->generation;
	enum err_code rc = ERR_OK;
	const struct table *t;

	/* It has gone back to a checkpoint: other updates may have the same numbers. */
	if (generation != m->generation)
		forget(m);
	m->generation = generation;
	rc = take_dense(m, shard, e);
	for (size_t i = 0; !rc && i < m->ntables; i++) {
		struct mirrored *x = &m->table[i];

		if (x->sparse && (t = source_of(m, x)))
			rc = take_rows(m, shard, x, t, e);
	}
	/* It changed under way: what came may be of both. */
	if (client_layout(m->tool.client)->generation != m->generation)
		forget(m);
	return rc;
}

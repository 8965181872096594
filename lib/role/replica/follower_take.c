/* SPDX-License-Identifier: ISC */
#include "core/clock.h"
#include "layout/parted.h"
#include "replica/follower_state.h"

/* One turn of the follower: pull what has changed in the source, and assign it to the shard. */

/* If the source does not know what has changed in a sparse table, all rows are pulled. That may
 * take 1/SHARE of the time. */
#define SHARE 5

/* The source's table; NULL: it has been dropped, or has another shape than at first. */
static const struct table *find_source_table(struct follower *m, struct follower_table *x)
{
	const struct table *t = layout_find(client_layout(m->tool.client), x->name);
	bool same = t && !t->dropped && t->sparse == x->sparse && t->cols == x->cols &&
	    t->nparts == x->nparts && (t->sparse || t->rows == x->rows);

	if (!same && !x->changed)
		log_warn(m->log,
		    "table \"%s\" %s in the source: this replica keeps its old copy; restart it "
		    "to read the new one",
		    x->name, t ? "has another shape" : "no longer exists");
	x->changed = !same;
	return same ? t : NULL;
}

static bool find_table_here(struct shard *shard, struct follower_table *x)
{
	const struct table *t;

	for (uint16_t i = 0; x->here < 0 && (t = shard_table(shard, i)); i++)
		if (!t->dropped && strcmp(t->name, x->name) == 0)
			x->here = i;
	return x->here >= 0;
}

/* ---- dense ---- */

/* x->w has the present values: assign the partitions whose version has changed. */
static void assign_dense(struct follower *m, struct shard *shard, struct follower_table *x,
    const struct table *t)
{
	for (uint32_t p = 0; p < x->nparts; p++) {
		uint64_t version = client_version(m->tool.client, t, p);

		if (version != x->version[p] &&
		    shard_assign(shard, (uint16_t)x->here, p, x->w + table_part_begin(t, p)) ==
		        SHARD_OK)
			x->version[p] = version;
	}
}

static enum err_code update_dense_tables(struct follower *m, struct shard *shard, struct err *e)
{
	struct client *c = m->tool.client;
	enum err_code rc = ERR_OK;
	const struct table *t;

	for (size_t i = 0; !rc && i < m->ntables; i++) {
		struct follower_table *x = &m->table[i];

		x->asked = !x->sparse && (t = find_source_table(m, x));
		if (x->asked)
			rc = client_want(c, t, CLIENT_NOW, x->based ? x->w : NULL, x->w, e);
	}
	if (!rc)
		rc = client_wait(c, CLIENT_NOW, e);
	for (size_t i = 0; !rc && i < m->ntables; i++) {
		struct follower_table *x = &m->table[i];

		/* A newer view may have come in the wait, and the source may have begun again. */
		if (!x->asked || !(t = find_source_table(m, x)))
			continue;
		x->based = true;
		assign_dense(m, shard, x, t);
	}
	return rc;
}

/* ---- sparse ---- */

struct taking {
	struct follower *m;
	struct shard *shard;
	struct follower_table *x;
	const struct table *t;
	uint32_t first, end; /* the partitions */
	/* All rows are pulled, not only changes; assign_rows was called. */
	bool whole, given;
};

/* A function that drops rows of a partition by a list of ids: shard_retain_rows or
 * shard_remove_rows. */
typedef enum shard_answer drop_fn(struct shard *s, uint16_t table, uint32_t part,
    const uint64_t *ids, size_t n);

static void drop_parted_rows(const struct taking *k, const struct parted *by, drop_fn *drop)
{
	for (uint32_t p = k->first; p < k->end; p++)
		drop(k->shard, (uint16_t)k->x->here, p, by->ids + by->first[p],
		    by->first[p + 1] - by->first[p]);
}

static enum err_code assign_rows(void *ctx, const uint64_t *ids, const float *rows, size_t n,
    struct err *e)
{
	struct taking *k = ctx;
	struct parted by;
	enum err_code rc = parted_make(k->t, ids, rows, n, &by, e);

	for (uint32_t p = k->first; !rc && p < k->end; p++) {
		size_t at = by.first[p], count = by.first[p + 1] - at;

		enum shard_answer a = count ? shard_assign_rows(k->shard, (uint16_t)k->x->here, p,
		                                  (const uint8_t *)(by.ids + at), (uint32_t)count,
		                                  by.rows + at * k->t->cols)
		                            : SHARD_OK;

		if (a == SHARD_WAIT)
			rc = err_set(e, ERR_NOTREADY, "rows of table \"%s\" are being read",
			    k->t->name);
		else if (a != SHARD_OK)
			rc = err_because(e, ERR_NOMEM, CAUSE_MEM_LIMIT,
			    "no memory for more rows of table \"%s\" (mem_limit)", k->t->name);
	}
	if (!rc && k->whole)
		drop_parted_rows(k, &by, shard_retain_rows);
	k->given = true;
	parted_release(&by);
	return rc;
}

static enum err_code drop_rows(const struct taking *k, const uint64_t *ids, size_t n, drop_fn *drop,
    struct err *e)
{
	struct parted by;
	enum err_code rc = parted_make(k->t, ids, NULL, n, &by, e);

	if (!rc)
		drop_parted_rows(k, &by, drop);
	parted_release(&by);
	return rc;
}

/* Rows of the group were removed in the source. Drops them here, by the list of removed ids, or if
 * the source no longer knows that by the list of ids that are left. */
static enum err_code drop_removed_rows(const struct taking *k, uint64_t since, struct err *e)
{
	struct client *c = k->m->tool.client;
	uint64_t *ids = NULL;
	bool known = false;
	size_t n = 0;
	enum err_code rc = ERR_OK;

	if (!k->whole)
		rc = client_scan_removed(c, k->t, k->first, k->end - k->first, since, &ids, &n,
		    &known, e);
	if (!rc && !known) {
		free(ids);
		rc = client_scan_live(c, k->t, k->first, k->end - k->first, &ids, &n, e);
	}
	if (!rc)
		rc = drop_rows(k, ids, n, known ? shard_remove_rows : shard_retain_rows, e);
	free(ids);
	return rc;
}

/* Update a group of partitions. *step becomes the first step whose updates may be missing, if that
 * is lower. */
static enum err_code update_group(struct taking *k, uint64_t since, uint64_t *step, struct err *e)
{
	struct client_changes changes;
	enum err_code rc = client_scan_parts(k->m->tool.client, k->t, k->first, k->end - k->first,
	    since, assign_rows, k, &changes, e);

	if (!rc && k->whole && !k->given)
		rc = drop_rows(k, NULL, 0, shard_retain_rows, e);
	else if (!rc && changes.gone)
		rc = drop_removed_rows(k, since, e);
	*step = changes.step < *step ? changes.step : *step;
	return rc;
}

static enum err_code update_sparse(struct follower *m, struct shard *shard,
    struct follower_table *x, const struct table *t, struct err *e)
{
	struct taking k = { .m = m,
		.shard = shard,
		.x = x,
		.t = t,
		.whole = x->since == CLIENT_ALL };
	uint64_t since = row_policy_dates(&t->policy) ? x->since : CLIENT_ALL, step = UINT64_MAX;
	int64_t begin = clock_now();
	enum err_code rc = ERR_OK;

	if (since == CLIENT_ALL && begin < x->due && !k.whole)
		return ERR_OK;
	for (; !rc && k.end < t->nparts; k.first = k.end) {
		k.end = t->nparts - k.first < FOLLOWER_GROUP ? t->nparts : k.first + FOLLOWER_GROUP;
		k.given = false;
		rc = update_group(&k, since, &step, e);
	}
	if (!rc)
		x->since = step;
	x->due = clock_now() + (SHARE - 1) * (clock_now() - begin);
	return rc;
}

/* ---- all ---- */

/* The known versions and steps belong to another generation of the source: pull everything
 * again. */
static void forget_source_versions(struct follower *m)
{
	for (size_t i = 0; i < m->ntables; i++) {
		struct follower_table *x = &m->table[i];

		x->since = CLIENT_ALL;
		x->based = false;
		for (uint32_t p = 0; !x->sparse && p < x->nparts; p++)
			x->version[p] = UNKNOWN;
	}
}

bool follower_has_tables(struct follower *m, struct shard *shard)
{
	bool found = true;

	for (size_t i = 0; i < m->ntables; i++)
		found &= find_table_here(shard, &m->table[i]);
	return found;
}

enum err_code follower_update(struct follower *m, struct shard *shard, struct err *e)
{
	uint32_t generation = client_layout(m->tool.client)->generation;
	enum err_code rc = ERR_OK;
	const struct table *t;

	/* The source was rolled back to a checkpoint: other updates may have the same versions. */
	if (generation != m->generation)
		forget_source_versions(m);
	m->generation = generation;
	rc = update_dense_tables(m, shard, e);
	for (size_t i = 0; !rc && i < m->ntables; i++) {
		struct follower_table *x = &m->table[i];

		if (x->sparse && (t = find_source_table(m, x)))
			rc = update_sparse(m, shard, x, t, e);
	}
	/* The source was rolled back meanwhile, so the pulled values may be of both generations. */
	if (client_layout(m->tool.client)->generation != m->generation)
		forget_source_versions(m);
	return rc;
}

/* SPDX-License-Identifier: ISC */
#include "conf/conf.h"
#include "core/json.h"
#include "core/mem.h"
#include "layout/layout.h"
#include "layout/parted.h"
#include "msg/manifest.h"
#include "replica/follower_state.h"
#include "saved/saved_model.h"

/* The checkpoint that a read replica begins with. A file is written when the partitions for it
 * have reached FILE_BYTES, so that the whole model need not be in memory. */

#define FILE_BYTES (UINT64_C(64) << 20)

struct saving {
	struct follower *m;
	struct ckpt *ckpt;
	unsigned files;
	struct ckpt_part *part; /* the partitions for the next file, and.. */
	size_t nparts, cap;
	uint64_t bytes;      /* ..the size of their values */
	struct parted *rows; /* the memory that sparse ones in `part` point to */
	size_t nrows, rows_cap;
	/* The group of partitions that is being read: first .. end - 1 of table t. */
	const struct follower_table *x;
	const struct table *t;
	uint32_t first, end;
	bool given; /* hold_rows has been called for the group */
};

static enum err_code write_part_file(struct saving *s, struct err *e)
{
	json_t *description = NULL;
	enum err_code rc = s->nparts
	    ? ckpt_write_server(ckpt_tmp(s->ckpt), s->files, s->part, s->nparts, &description, e)
	    : ERR_OK;

	if (!rc && s->nparts) {
		rc = ckpt_add(s->ckpt, description, e);
		s->files++;
	}
	json_decref(description);
	for (size_t i = 0; i < s->nrows; i++)
		parted_release(&s->rows[i]);
	s->nrows = s->nparts = 0;
	s->bytes = 0;
	return rc;
}

static struct ckpt_part *add_saved_part(struct saving *s, const struct follower_table *x,
    uint32_t part)
{
	struct ckpt_part *p;

	s->part = mem_grow(s->part, &s->cap, s->nparts + 1, sizeof *s->part);
	p = &s->part[s->nparts++];
	*p = (struct ckpt_part){ .table = x->name,
		.sparse = x->sparse,
		.part = part,
		.cols = x->sparse ? x->cols : 0 };
	return p;
}

/* ---- dense ---- */

static enum err_code save_dense(struct saving *s, struct follower_table *x, const struct table *t,
    struct err *e)
{
	struct client *c = s->m->tool.client;
	enum err_code rc = client_want(c, t, CLIENT_NOW, NULL, x->w, e);

	if (!rc)
		rc = client_wait(c, CLIENT_NOW, e);
	for (uint32_t i = 0; !rc && i < x->nparts; i++) {
		struct ckpt_part *p = add_saved_part(s, x, i);

		x->version[i] = client_version(c, t, i);
		p->n = table_part_elements(t, i);
		p->w = x->w + table_part_begin(t, i);
		s->bytes += p->n * sizeof *p->w;
	}
	return rc || s->bytes < FILE_BYTES ? rc : write_part_file(s, e);
}

/* ---- sparse ---- */

static struct parted *add_parted_rows(struct saving *s)
{
	s->rows = mem_grow(s->rows, &s->rows_cap, s->nrows + 1, sizeof *s->rows);
	return &s->rows[s->nrows++];
}

/* Describe partition i of the held rows for ckpt_write_server. */
static void describe_saved_rows(const struct saving *s, const struct parted *by, uint32_t i,
    struct ckpt_part *p)
{
	size_t at = by->first[i];

	p->n = by->first[i + 1] - at;
	p->ids = by->ids + at;
	p->w = by->rows + at * s->x->cols;
	p->values = s->t->policy.values;
}

static enum err_code hold_rows(void *ctx, const uint64_t *ids, const float *rows, size_t n,
    struct err *e)
{
	struct saving *s = ctx;
	struct parted *by = add_parted_rows(s);
	enum err_code rc = parted_make(s->t, ids, rows, n, by, e);

	for (uint32_t i = s->first; !rc && i < s->end; i++)
		describe_saved_rows(s, by, i, add_saved_part(s, s->x, i));
	s->given = true;
	s->bytes += n * (8 + s->x->cols * sizeof *rows);
	return rc;
}

static enum err_code save_partition_group(struct saving *s, uint64_t *step, struct err *e)
{
	struct client_changes changes;
	enum err_code rc;

	s->given = false;
	rc = client_scan_parts(s->m->tool.client, s->t, s->first, s->end - s->first, CLIENT_ALL,
	    hold_rows, s, &changes, e);
	if (!rc && !s->given)
		rc = hold_rows(s, NULL, NULL, 0, e);
	*step = changes.step < *step ? changes.step : *step;
	return rc || s->bytes < FILE_BYTES ? rc : write_part_file(s, e);
}

static enum err_code save_sparse(struct saving *s, struct follower_table *x, const struct table *t,
    struct err *e)
{
	uint64_t step = UINT64_MAX;
	enum err_code rc = ERR_OK;

	s->x = x;
	s->t = t;
	for (s->first = s->end = 0; !rc && s->end < t->nparts; s->first = s->end) {
		s->end = t->nparts - s->first < FOLLOWER_GROUP ? t->nparts
		                                               : s->first + FOLLOWER_GROUP;
		rc = save_partition_group(s, &step, e);
	}
	x->since = step;
	return rc;
}

/* ---- the checkpoint ---- */

/* Commit or abort the checkpoint. Its data includes facts about the training data, which scoring
 * needs. */
static enum err_code commit_copy(struct follower *m, struct ckpt *c, char **path, struct err *e)
{
	const struct view *v = m->tool.view;
	struct manifest_data data = { .examples = v->examples };
	json_t *facts;
	enum err_code rc = tool_facts(&m->tool, &facts, e);

	if (rc) {
		ckpt_abort(c);
		return rc;
	}
	data.facts = facts;
	rc = saved_commit(c, client_layout(m->tool.client), v->name, v->config, &data, path, e);
	json_decref(facts);
	return rc;
}

static enum err_code save_followed_tables(struct saving *s, struct err *e)
{
	enum err_code rc = ERR_OK;

	for (size_t i = 0; !rc && i < s->m->ntables; i++) {
		struct follower_table *x = &s->m->table[i];
		const struct table *t = layout_find(client_layout(s->m->tool.client), x->name);

		if (!t || t->dropped || t->nparts != x->nparts)
			rc = err_set(e, ERR_STALE,
			    "table \"%s\" has changed during the copy; try again", x->name);
		else
			rc = x->sparse ? save_sparse(s, x, t, e) : save_dense(s, x, t, e);
	}
	return rc ? rc : write_part_file(s, e);
}

enum err_code follower_save(struct follower *m, const char *checkpoints, char **path, struct err *e)
{
	struct saving s = { .m = m };
	enum err_code rc = ckpt_begin(checkpoints, 0, &s.ckpt, e);

	if (rc)
		return rc;
	rc = save_followed_tables(&s, e);
	if (rc)
		ckpt_abort(s.ckpt);
	else
		rc = commit_copy(m, s.ckpt, path, e);
	for (size_t i = 0; i < s.nrows; i++)
		parted_release(&s.rows[i]);
	free(s.rows);
	free(s.part);
	return rc;
}

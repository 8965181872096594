/* SPDX-License-Identifier: ISC */
#include <stdlib.h>

#include "ckpt/names.h"
#include "ckpt/read.h"
#include "core/mem.h"
#include "saved/saved_kind.h"

/* A checkpoint as a saved model. */

struct saved_checkpoint {
	struct saved_model model; /* must be first */
	struct ckpt_reader *reader;
	struct ckpt_check *check; /* NULL: its bytes have been compared */
	json_t *facts;            /* owns what `about` borrows */
};

static enum err_code read_checkpoint_part(struct saved_model *m, const struct table *t,
    uint32_t part, bool state, struct saved_part *out, struct err *e)
{
	struct saved_checkpoint *c = (struct saved_checkpoint *)m;
	const struct ckpt_table *from = ckpt_table_find(c->reader, t->name);
	struct ckpt_info info = ckpt_part_info(c->reader, from, part);
	unsigned nvectors = state ? info.nvectors : 0;
	enum err_code rc = saved_part_alloc(t, info.n, nvectors, out, e);

	memcpy(out->vector_cols, info.vector_cols, sizeof out->vector_cols);
	out->version = info.version;
	out->born = info.born;
	return rc ? rc
	          : ckpt_read_part(c->reader, from, part, 0, info.n, out->ids, out->w, out->vector,
	                nvectors, e);
}

static enum err_code map_checkpoint(struct saved_model *m, const struct table *t,
    struct saved_extent **out, size_t *n, struct err *e)
{
	struct saved_checkpoint *c = (struct saved_checkpoint *)m;
	const struct ckpt_table *from = ckpt_table_find(c->reader, t->name);
	struct saved_extent *x = mem_array(t->nparts, sizeof *x);
	enum err_code rc = ERR_OK;

	*n = t->nparts;
	for (uint32_t k = 0; !rc && k < t->nparts; k++) {
		x[k].n = ckpt_part_info(c->reader, from, k).n;
		rc = ckpt_map_part(c->reader, from, k, &x[k].ids, &x[k].w.at, &x[k].w.type, e);
	}
	*out = x;
	return rc;
}

static enum err_code check_checkpoint(struct saved_model *m, uint64_t most, struct err *e)
{
	struct saved_checkpoint *c = (struct saved_checkpoint *)m;

	return c->check ? ckpt_check_some(c->check, most, e) : ERR_OK;
}

static void free_checkpoint(struct saved_model *m)
{
	struct saved_checkpoint *c = (struct saved_checkpoint *)m;

	ckpt_check_free(c->check);
	ckpt_close(c->reader);
	json_decref(c->facts);
	free((char *)(uintptr_t)c->model.about.path);
	free(c);
}

static const struct saved_model_ops checkpoint_ops = {
	.read = read_checkpoint_part,
	.map = map_checkpoint,
	.check = check_checkpoint,
	.rows_ascend = true,
	.free = free_checkpoint,
};

/* The partitions that the layout counts must be those that the files have. */
static enum err_code check_partitions(const struct saved_checkpoint *c, struct err *e)
{
	const struct layout *l = &c->model.layout;

	for (size_t i = 0; i < l->ntables; i++) {
		const struct ckpt_table *t = ckpt_table_find(c->reader, l->table[i].name);

		if (!t || t->parts != l->table[i].nparts || t->sparse != l->table[i].sparse)
			return err_set(e, ERR_FORMAT,
			    "%s is damaged: table \"%s\" has another shape in its files",
			    c->model.about.path, l->table[i].name);
	}
	return ERR_OK;
}

/* Does some partition have optimizer state? */
static bool has_state(const struct ckpt_reader *r)
{
	for (size_t i = 0; i < ckpt_tables(r); i++)
		if (ckpt_part_info(r, ckpt_table_at(r, i), 0).nvectors)
			return true;
	return false;
}

static void describe_checkpoint(struct saved_checkpoint *c)
{
	const struct manifest *m = ckpt_manifest(c->reader);
	struct saved_about *about = &c->model.about;

	about->config = m->config;
	about->facts = c->facts;
	about->foreign = has_state(c->reader) && ckpt_state_check(m, about->path, NULL);
	about->optimizer = has_state(c->reader) && !about->foreign ? m->optimizer : NULL;
}

/* Reads the description and the shapes of the tables. */
static enum err_code read_head(struct saved_checkpoint *c, const char *path, struct err *e)
{
	const struct manifest *m = ckpt_manifest(c->reader);
	enum err_code rc = ckpt_facts_read(m, path, &c->facts, e);

	if (!rc) {
		describe_checkpoint(c);
		rc = saved_layout_fill(manifest_tables(m), &c->model.layout, e);
	}
	return rc ? rc : check_partitions(c, e);
}

enum err_code saved_checkpoint_open(const char *path, bool verified, struct saved_model **out,
    struct err *e)
{
	struct saved_checkpoint *c = mem_alloc(sizeof *c);
	enum err_code rc = ckpt_open(path, &c->reader, e), other;

	c->model.ops = &checkpoint_ops;
	c->model.about.path = mem_strdup(path);
	if (!rc && !verified)
		rc = ckpt_check_begin(c->reader, NULL, &c->check, e);
	if (!rc) {
		rc = read_head(c, path, e);
		/* If a file is damaged, that is the reason. */
		other = rc ? check_checkpoint(&c->model, UINT64_MAX, e) : ERR_OK;
		rc = other ? other : rc;
	}
	if (rc)
		saved_model_close(&c->model);
	else
		*out = &c->model;
	return rc;
}

enum err_code saved_checkpoint_open_copy(const char *path, const char *name,
    struct saved_model **out, struct err *e)
{
	enum err_code rc = saved_checkpoint_open(path, false, out, e);
	struct saved_about *about;

	if (rc)
		return rc;
	about = &(*out)->about;
	free((char *)(uintptr_t)about->path);
	about->path = mem_strdup(name);
	return ERR_OK;
}

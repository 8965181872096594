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
	json_t *facts; /* owns what `about` borrows */
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
		rc = ckpt_map_part(c->reader, from, k, &x[k].ids, &x[k].w, e);
	}
	*out = x;
	return rc;
}

static void free_checkpoint(struct saved_model *m)
{
	struct saved_checkpoint *c = (struct saved_checkpoint *)m;

	ckpt_close(c->reader);
	json_decref(c->facts);
	free((char *)(uintptr_t)c->model.about.path);
	free(c);
}

static const struct saved_model_ops checkpoint_ops = {
	.read = read_checkpoint_part,
	.map = map_checkpoint,
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

	about->checkpoint = about->path;
	about->config = m->config;
	about->facts = c->facts;
	about->foreign = has_state(c->reader) && ckpt_state_check(m, about->path, NULL);
	about->optimizer = has_state(c->reader) && !about->foreign ? m->optimizer : NULL;
}

enum err_code saved_checkpoint_open(const char *path, struct saved_model **out, struct err *e)
{
	struct saved_checkpoint *c = mem_alloc(sizeof *c);
	enum err_code rc = ckpt_verify(path, e);

	c->model.ops = &checkpoint_ops;
	c->model.about.path = mem_strdup(path);
	if (!rc)
		rc = ckpt_open(path, &c->reader, e);
	if (!rc)
		rc = ckpt_facts_read(ckpt_manifest(c->reader), path, &c->facts, e);
	if (!rc) {
		describe_checkpoint(c);
		rc = saved_layout_fill(manifest_tables(ckpt_manifest(c->reader)), &c->model.layout,
		    e);
	}
	if (!rc)
		rc = check_partitions(c, e);
	if (rc)
		saved_model_close(&c->model);
	else
		*out = &c->model;
	return rc;
}

enum err_code saved_checkpoint_open_copy(const char *path, const char *name,
    struct saved_model **out, struct err *e)
{
	enum err_code rc = saved_checkpoint_open(path, out, e);
	struct saved_about *about;

	if (rc)
		return rc;
	about = &(*out)->about;
	free((char *)(uintptr_t)about->path);
	about->path = mem_strdup(name);
	about->checkpoint = NULL;
	return ERR_OK;
}

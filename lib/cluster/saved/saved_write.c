/* SPDX-License-Identifier: ISC */
#include <stdlib.h>
#include <string.h>

#include "conf/conf_rule.h"
#include "core/mem.h"
#include "layout/values.h"
#include "msg/large_description.h"
#include "optim/optim.h"
#include "saved/saved_model.h"
#include "sync/sync.h"

/* Writes a saved model as a checkpoint. A file is written when the partitions for it have reached
 * FILE_BYTES, so that the whole model need not be in memory. */

#define FILE_BYTES (UINT64_C(64) << 20)

struct copying {
	struct saved_model *from;
	struct ckpt *to;
	bool trains;           /* optimizer state is written, that of `rule` */
	bool has;              /* the model has state, that of `had` */
	struct conf_rule rule; /* the servers' rules, by tables */
	struct conf_rule had;
	unsigned files;
	/* The partitions for the next file, their arrays, and the size of these. */
	struct ckpt_part *part;
	struct saved_part *held;
	size_t n, room;
	uint64_t bytes;
};

static enum err_code write_held_parts(struct copying *c, struct err *e)
{
	json_t *description = NULL;
	enum err_code rc = c->n
	    ? ckpt_write_server(ckpt_tmp(c->to), c->files, c->part, c->n, &description, e)
	    : ERR_OK;

	if (!rc && c->n) {
		rc = ckpt_add(c->to, description, e);
		c->files++;
	}
	json_decref(description);
	for (size_t i = 0; i < c->n; i++)
		saved_part_release(&c->held[i]);
	c->n = 0;
	c->bytes = 0;
	return rc;
}

/* Gives a partition the state with which the rule begins. */
static enum err_code begin_state(const struct optim_rule *rule, struct saved_part *p,
    const struct table *t, struct err *e)
{
	size_t cols = t->sparse ? t->cols : 1;

	for (unsigned k = 0; k < rule->nvectors; k++) {
		size_t width = optim_vector_floats(rule, k, cols, cols),
		       floats = (size_t)p->n * width;

		p->vector_cols[k] = (uint32_t)width;
		p->vector[k] = mem_try_array(floats + 1, sizeof *p->vector[k]);
		if (!p->vector[k])
			return err_set(e, ERR_NOMEM, "no memory for table \"%s\"", t->name);
		for (size_t i = 0; i < floats; i++)
			p->vector[k][i] = rule->vector_init[k];
	}
	p->nvectors = rule->nvectors;
	p->version = p->born = 0;
	return ERR_OK;
}

static void reserve_part(struct copying *c)
{
	if (c->n < c->room)
		return;
	c->part = mem_grow(c->part, &c->room, c->n + 1, sizeof *c->part);
	c->held = mem_regrow(c->held, c->room, sizeof *c->held);
}

static enum err_code copy_part(struct copying *c, const struct table *t, uint32_t index,
    struct err *e)
{
	const struct optim_rule *rule = NULL;
	struct saved_part *p;
	size_t floats;
	bool keeps;
	enum err_code rc;

	if (c->trains)
		rule = conf_rule_of_table(&c->rule, t->name).rule;
	keeps = rule && c->has && conf_rule_of_table(&c->had, t->name).rule == rule;
	reserve_part(c);
	p = &c->held[c->n];
	rc = saved_model_read(c->from, t, index, keeps, p, e);
	/* Rows of sparse tables are checked when they are used: most of them never are. */
	if (!rc && !t->sparse &&
	    values_check_dense(t->name, t->cols, table_part_begin(t, index), p->w, p->n, e))
		rc = err_prefix(e, "the model %.200s is damaged", saved_model_about(c->from).path);
	floats = (size_t)p->n * (t->sparse ? t->cols : 1);
	if (!rc && rule && !keeps)
		rc = begin_state(rule, p, t, e);
	c->part[c->n] = (struct ckpt_part){ .table = t->name,
		.sparse = t->sparse,
		.part = index,
		.cols = t->sparse ? t->cols : 0,
		.values = t->policy.values,
		.n = p->n,
		.ids = p->ids,
		.w = p->w,
		.nvectors = p->nvectors,
		.version = p->version,
		.born = p->born };
	for (unsigned k = 0; k < p->nvectors; k++)
		c->part[c->n].vector[k] = p->vector[k];
	memcpy(c->part[c->n].vector_cols, p->vector_cols, sizeof p->vector_cols);
	c->n++;
	c->bytes += (floats * (1 + p->nvectors)) * sizeof *p->w;
	return rc || c->bytes < FILE_BYTES ? rc : write_held_parts(c, e);
}

static enum err_code copy_tables(struct copying *c, struct err *e)
{
	const struct layout *l = saved_model_about(c->from).layout;
	enum err_code rc = ERR_OK;

	for (size_t i = 0; !rc && i < l->ntables; i++)
		for (uint32_t p = 0; !rc && !l->table[i].dropped && p < l->table[i].nparts; p++)
			rc = copy_part(c, &l->table[i], p, e);
	return rc ? rc : write_held_parts(c, e);
}

/* Decides which state is written, and reads from the model's configuration which state it has. */
static enum err_code choose_state(struct copying *c, const json_t *config, struct err *e)
{
	struct saved_about about = saved_model_about(c->from);
	struct conf conf, before;
	enum err_code rc = conf_from_json(config, &conf, e);

	if (rc)
		return rc;
	c->trains = conf_trains(&conf);
	if (c->trains)
		rc = conf_server_rule(&conf, &c->rule, e);
	conf_release(&conf);
	if (!rc && about.optimizer && !conf_from_json(about.config, &before, NULL)) {
		c->has = !conf_server_rule(&before, &c->had, NULL);
		conf_release(&before);
	}
	return rc;
}

enum err_code saved_model_write(struct saved_model *m, const json_t *config,
    const char *checkpoints, char **path, struct err *e)
{
	struct saved_about about = saved_model_about(m);
	struct copying c = { .from = m };
	enum err_code rc = choose_state(&c, config, e);

	if (!rc)
		rc = ckpt_begin(checkpoints, 0, &c.to, e);
	if (rc)
		return rc;
	rc = copy_tables(&c, e);
	for (size_t i = 0; i < c.n; i++)
		saved_part_release(&c.held[i]);
	free(c.part);
	free(c.held);
	if (rc) {
		ckpt_abort(c.to);
		return rc;
	}
	return saved_commit(c.to, about.layout, NULL, config,
	    &(struct manifest_data){ .facts = about.facts, .given = true }, path, e);
}

enum err_code saved_commit(struct ckpt *c, const struct layout *l, const char *name,
    const json_t *config, const struct manifest_data *data, char **path, struct err *e)
{
	struct manifest_head head = { .generation = l->generation,
		.epoch = l->epoch,
		.name = name,
		.config = config };
	json_t *tables, *about, *ranks;
	struct manifest_data now = *data;
	struct large_description *large = NULL;
	json_t *reference = NULL;
	struct conf conf;
	char mode[32];
	enum err_code rc = conf_from_json(config, &conf, e);

	if (rc) {
		ckpt_abort(c);
		return rc;
	}
	rc = large_description_of(data->facts, &large, e);
	if (!rc && large) {
		now.facts = reference = large_description_refer(large);
		rc = ckpt_describe(c, large, e);
	}
	large_description_release(large);
	if (rc) {
		json_decref(reference);
		conf_release(&conf);
		ckpt_abort(c);
		return rc;
	}
	if (!name)
		head.name = conf.name ? conf.name : "";
	sync_format(&conf.sync, mode);
	head.optimizer = conf.job.optimizer;
	head.mode = mode;
	head.tables = tables = layout_tables(l);
	head.data = about = manifest_data_encode(&now);
	head.ranks = ranks = json_array();
	rc = ckpt_commit(c, &head, path, e);
	json_decref(ranks);
	json_decref(about);
	json_decref(reference);
	json_decref(tables);
	conf_release(&conf);
	return rc;
}

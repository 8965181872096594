/* SPDX-License-Identifier: ISC */
#include <unistd.h>

#include "ckpt/dirs.h"
#include "core/file.h"
#include "core/json.h"
#include "core/mem.h"
#include "format/safetensors.h"
#include "msg/manifest.h"
#include "msg/state.h"
#include "replica/mirror_state.h"
#include "rundir/readonly.h"
#include "rundir/rundir.h"

/* The model of a run that has ended, as a checkpoint that a read-only server begins with.  A checkpoint holds the
 * tables cut into partitions, and the model file holds them whole: RUN/state.json has the shapes and what is known of
 * the training data, RUN/cluster.json the configuration. */

#define JSON_MAX (64u << 20)

struct ended_run {
	json_t *config, *document;
	struct state state; /* decoded from the document */
	struct layout layout;
	struct safetensors *model;
	char *name; /* path of the model file, for messages */
};

static json_t *read_run_json(const char *dir, const char *name, struct err *e)
{
	char *path = rundir_path(dir, name);
	json_t *j = json_parse_file(path, JSON_MAX, e);

	free(path);
	return j;
}

static enum err_code open_ended_run(const char *dir, struct ended_run *r, struct err *e)
{
	*r = (struct ended_run){ .name = rundir_path(dir, "model.safetensors") };
	r->config = read_run_json(dir, "cluster.json", e);
	r->document = r->config ? read_run_json(dir, "state.json", e) : NULL;
	if (!r->document || state_decode(r->document, &r->state, e) ||
	    layout_from_json(r->state.layout, &r->layout, e))
		return e->code;
	return safetensors_open(r->name, &r->model, e);
}

static void close_ended_run(struct ended_run *r)
{
	json_decref(r->config);
	state_release(&r->state);
	json_decref(r->document);
	layout_release(&r->layout);
	safetensors_close(r->model);
	free(r->name);
}

/* Read the *rows rows of a table from the model file, and for a sparse table their ids.  The caller
 * frees *ids and *w.  ERR_FORMAT, ERR_NOMEM. */
static enum err_code read_model_table(const struct ended_run *r, const struct table *t,
    uint64_t **ids, float **w, uint64_t *rows, struct err *e)
{
	char *name = mem_printf("%s.ids", t->name);
	const struct safetensors_tensor *values = safetensors_find(r->model, t->name),
	                                *id = safetensors_find(r->model, name);
	enum err_code rc = ERR_OK;

	free(name);
	*ids = NULL;
	*w = NULL;
	*rows = values ? values->shape[0] : 0;
	if (!values || values->rank != 2 || values->shape[1] != t->cols ||
	    (t->sparse ? !id || id->count != *rows : *rows != t->rows))
		return err_set(e, ERR_FORMAT,
		    "%s does not fit the run: table \"%s\" is missing or has another shape",
		    r->name, t->name);
	*w = mem_try_array(values->count + 1, sizeof **w);
	*ids = t->sparse ? mem_try_array(*rows + 1, sizeof **ids) : NULL;
	if (!*w || (t->sparse && !*ids))
		return err_set(e, ERR_NOMEM, "no memory for table \"%s\"", t->name);
	rc = safetensors_read(r->model, values, 0, values->count, *w, e);
	return rc || !t->sparse ? rc : safetensors_read_ids(r->model, id, 0, *rows, *ids, e);
}

static void describe_model_rows(const struct table *t, const struct parted *by, uint32_t i,
    struct ckpt_part *p)
{
	size_t at = by->first[i];

	p->n = by->first[i + 1] - at;
	p->ids = by->ids + at;
	p->w = by->rows + at * t->cols;
}

/* Write one table to a file of its own in the checkpoint. */
static enum err_code write_model_table(struct ckpt *c, unsigned file, const struct table *t,
    const uint64_t *ids, const float *w, uint64_t rows, struct err *e)
{
	struct ckpt_part *part = mem_array(t->nparts, sizeof *part);
	struct parted by = { 0 };
	json_t *description = NULL;
	enum err_code rc = t->sparse ? mirror_parted_make(t, ids, w, rows, &by, e) : ERR_OK;

	for (uint32_t i = 0; !rc && i < t->nparts; i++) {
		part[i] = (struct ckpt_part){ .table = t->name,
			.sparse = t->sparse,
			.part = i,
			.cols = t->sparse ? t->cols : 0 };
		if (t->sparse) {
			describe_model_rows(t, &by, i, &part[i]);
		} else {
			part[i].n = table_part_elements(t, i);
			part[i].w = w + table_part_begin(t, i);
		}
	}
	if (!rc)
		rc = ckpt_write_server(ckpt_tmp(c), file, part, t->nparts, &description, e);
	if (!rc)
		rc = ckpt_add(c, description, e);
	json_decref(description);
	mirror_parted_release(&by);
	free(part);
	return rc;
}

static enum err_code write_model_tables(const struct ended_run *r, struct ckpt *c, struct err *e)
{
	enum err_code rc = ERR_OK;

	for (size_t i = 0; !rc && i < r->layout.ntables; i++) {
		const struct table *t = &r->layout.table[i];
		uint64_t *ids, rows;
		float *w;

		if (t->dropped)
			continue;
		rc = read_model_table(r, t, &ids, &w, &rows, e);
		if (!rc)
			rc = write_model_table(c, (unsigned)i, t, ids, w, rows, e);
		free(ids);
		free(w);
	}
	return rc;
}

/* Make the checkpoint in the directory `checkpoints`.  The caller frees *path. */
static enum err_code save_model_checkpoint(const struct ended_run *r, const char *checkpoints,
    char **path, struct err *e)
{
	struct ckpt *c = NULL;
	enum err_code rc = ckpt_begin(checkpoints, 0, &c, e);

	if (rc)
		return rc;
	rc = write_model_tables(r, c, e);
	if (rc) {
		ckpt_abort(c);
		return rc;
	}
	return mirror_commit(c, &r->layout, NULL, r->config,
	    &(struct manifest_data){ .examples = (int64_t)r->state.examples,
	        .facts = r->state.facts },
	    path, e);
}

static enum err_code prepare_from_model(const char *run_dir, const char *const *sets, size_t nsets,
    struct conf *conf, char **dir, int *lock, char **from, struct err *e)
{
	struct ended_run r;
	enum err_code rc = open_ended_run(run_dir, &r, e);
	char *under = NULL, *checkpoints = NULL;

	if (!rc)
		rc = readonly_prepare_from_config(r.config, sets, nsets, conf, dir, lock, e);
	if (!rc) {
		under = path_absolute(*dir);
		checkpoints = rundir_path(under, "checkpoints");
		rc = save_model_checkpoint(&r, checkpoints, from, e);
	}
	free(checkpoints);
	free(under);
	close_ended_run(&r);
	return rc;
}

enum err_code mirror_model_prepare(const char *where, const char *const *sets, size_t nsets,
    struct conf *conf, char **dir, int *lock, char **from, struct err *e)
{
	char *model = rundir_path(where, "model.safetensors"),
	     *checkpoints = rundir_path(where, "checkpoints"), *newest = NULL;
	enum err_code rc;

	*conf = (struct conf){ 0 };
	if (access(where, F_OK) != 0) {
		rc = err_sys(e, ERR_NOTFOUND, "--read-only %s", where);
	} else if (ckpt_is_there(where)) {
		rc = readonly_prepare(where, sets, nsets, conf, dir, lock, from, e);
	} else if (access(model, F_OK) == 0) {
		rc = prepare_from_model(where, sets, nsets, conf, dir, lock, from, e);
	} else {
		rc = ckpt_newest(checkpoints, NULL, NULL, &newest, e);
		if (rc == ERR_NOTFOUND)
			err_set(e, rc, "%s has neither model.safetensors nor a whole checkpoint",
			    where);
		if (!rc)
			rc = readonly_prepare(newest, sets, nsets, conf, dir, lock, from, e);
	}
	free(newest);
	free(checkpoints);
	free(model);
	return rc;
}

/* SPDX-License-Identifier: ISC */
#include "saved/saved_model.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ckpt/dirs.h"
#include "ckpt/names.h"
#include "core/file.h"
#include "core/mem.h"
#include "format/uri.h"
#include "msg/manifest.h"
#include "msg/run_result.h"
#include "saved/saved_kind.h"

#define MODEL       "model.safetensors"
#define CHECKPOINTS "checkpoints"
#define JSON_MAX    (64u << 20)

static bool has_entry(const char *dir, const char *name)
{
	char *path = path_join(dir, name);
	bool has = access(path, F_OK) == 0;

	free(path);
	return has;
}

static bool is_directory(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

bool saved_model_is_named(const char *path)
{
	static const char suffix[] = ".safetensors";
	size_t n = uri_is(path) ? strcspn(path, "?") : strlen(path), m = sizeof suffix - 1;

	if (is_directory(path))
		return ckpt_is_there(path) || has_entry(path, MODEL) ||
		    has_entry(path, CHECKPOINTS) || has_entry(path, "cluster.json");
	return (n > m && memcmp(path + n - m, suffix, m) == 0) || saved_remote_is_checkpoint(path);
}

/* ---- a run that has ended ---- */

/* The step of a checkpoint; -1: its manifest cannot be read. */
static int64_t read_checkpoint_step(const char *path)
{
	struct manifest *m = ckpt_manifest_read(path, NULL);
	int64_t step = m ? m->step : -1;

	manifest_free(m);
	return step;
}

/* Does the run's newest checkpoint have the values with which it ended? A run that was stopped
 * wrote its model from that checkpoint. */
static bool has_last_values(const char *run, const char *checkpoint)
{
	char *path = path_join(run, "result.json");
	json_t *json = json_parse_file(path, JSON_MAX, NULL);
	struct run_result result;
	bool last;

	run_result_decode(json, &result);
	last = result.state == PHASE_STOPPED ||
	    (result.state == PHASE_DONE && read_checkpoint_step(checkpoint) == result.steps);
	json_decref(json);
	free(path);
	return last;
}

static enum err_code open_run(const char *run, struct saved_model **out, struct err *e)
{
	char *file = path_join(run, MODEL), *checkpoints = path_join(run, CHECKPOINTS),
	     *newest = NULL;
	bool has_file = access(file, F_OK) == 0;
	enum err_code rc = ckpt_newest(checkpoints, NULL, NULL, &newest, e);

	if (has_file && (rc || !has_last_values(run, newest)))
		rc = saved_file_open(file, run, out, e);
	else if (!rc)
		rc = saved_checkpoint_open(newest, true, out, e);
	else if (rc == ERR_NOTFOUND)
		rc = err_set(e, rc, "%s has neither " MODEL " nor a whole checkpoint", run);
	free(newest);
	free(checkpoints);
	free(file);
	return rc;
}

/* ---- all kinds ---- */

enum err_code saved_model_open_unchecked(const char *path, struct saved_model **out, struct err *e)
{
	enum err_code rc;

	*out = NULL;
	if (!uri_is(path) && access(path, F_OK) != 0)
		return err_sys(e, ERR_NOTFOUND, "cannot read the model \"%s\"", path);
	rc = uri_is(path)         ? saved_remote_open(path, out, e)
	    : ckpt_is_there(path) ? saved_checkpoint_open(path, false, out, e)
	    : is_directory(path)  ? open_run(path, out, e)
	                          : saved_file_open(path, NULL, out, e);
	if (!rc)
		(*out)->about.layout = &(*out)->layout;
	return rc;
}

enum err_code saved_model_check(struct saved_model *m, uint64_t most, struct err *e)
{
	return m->ops->check ? m->ops->check(m, most, e) : ERR_OK;
}

enum err_code saved_model_open(const char *path, struct saved_model **out, struct err *e)
{
	enum err_code rc = saved_model_open_unchecked(path, out, e);

	if (!rc)
		rc = saved_model_check(*out, UINT64_MAX, e);
	if (rc) {
		saved_model_close(*out);
		*out = NULL;
	}
	return rc;
}

void saved_model_close(struct saved_model *m)
{
	if (!m)
		return;
	layout_release(&m->layout);
	m->ops->free(m);
}

struct saved_about saved_model_about(const struct saved_model *m)
{
	return m->about;
}

enum err_code saved_model_read(struct saved_model *m, const struct table *t, uint32_t part,
    bool state, struct saved_part *out, struct err *e)
{
	*out = (struct saved_part){ 0 };
	return m->ops->read(m, t, part, state, out, e);
}

void saved_part_release(struct saved_part *p)
{
	free(p->ids);
	free(p->w);
	for (unsigned k = 0; k < CKPT_VECTORS_MAX; k++)
		free(p->vector[k]);
	*p = (struct saved_part){ 0 };
}

enum err_code saved_part_alloc(const struct table *t, uint64_t n, unsigned nvectors,
    struct saved_part *out, struct err *e)
{
	size_t floats = (size_t)n * (t->sparse ? t->cols : 1) + 1;
	bool good;

	out->n = n;
	out->nvectors = nvectors;
	out->w = mem_try_array(floats, sizeof *out->w);
	out->ids = t->sparse ? mem_try_array((size_t)n + 1, sizeof *out->ids) : NULL;
	good = out->w && (out->ids || !t->sparse);
	for (unsigned k = 0; good && k < nvectors; k++) {
		out->vector[k] = mem_try_array(floats, sizeof *out->vector[k]);
		good = out->vector[k];
	}
	return good ? ERR_OK : err_set(e, ERR_NOMEM, "no memory for table \"%s\"", t->name);
}

enum err_code saved_layout_fill(const json_t *tables, struct layout *out, struct err *e)
{
	const json_t *item;
	enum err_code rc = ERR_OK;
	size_t i;

	json_array_foreach(tables, i, item) {
		struct table shape, *t;

		rc = table_from_json(item, &shape, e);
		if (!rc)
			rc = table_past_from_json(item, &shape, e);
		if (!rc)
			rc = layout_add(out, &shape, &t, e);
		if (rc)
			break;
	}
	return rc;
}

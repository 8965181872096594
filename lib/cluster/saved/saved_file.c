/* SPDX-License-Identifier: ISC */
#include <stdlib.h>
#include <string.h>

#include "core/file.h"
#include "core/mem.h"
#include "format/safetensors.h"
#include "msg/large_description.h"
#include "msg/model_metadata.h"
#include "msg/state.h"
#include "saved/saved_kind.h"
#include "saved/saved_state.h"

/* A safetensors file as a saved model. A sparse table T is the tensors T and T.ids, whose rows may
 * be in any order; they are found by partition through an index, which is made when the first
 * partition of a table is read, and holds until another sparse table is. */

#define JSON_MAX (64u << 20)
#define IDS_READ 65536u /* ids read at a time */

/* The rows of partition p are order[first[p]] .. order[first[p + 1] - 1], with ascending ids. */
struct row_index {
	const struct table *of; /* NULL: there is no index */
	uint64_t *ids;          /* of all rows, in the order of the file */
	uint32_t *order;
	size_t *first;
};

struct saved_file {
	struct saved_model model; /* must be first */
	struct safetensors *file;
	struct row_index index;
	/* Own what `about` borrows. */
	json_t *document, *config;
	struct state state; /* decoded from `document`, of a file without a description */
};

/* ---- tables ---- */

static const struct safetensors_tensor *find_ids(const struct saved_file *f, const struct table *t)
{
	char *name = mem_printf("%s.ids", t->name);
	const struct safetensors_tensor *ids = safetensors_find(f->file, name);

	free(name);
	return ids;
}

/* Does the file have the table in its shape? */
static bool has_table(const struct saved_file *f, const struct table *t)
{
	const struct safetensors_tensor *w = safetensors_find(f->file, t->name),
	                                *ids = find_ids(f, t);

	if (!w || !safetensors_is_parameters(w) || w->rank != 2 || w->shape[1] != t->cols)
		return false;
	return t->sparse ? ids && ids->type == SAFETENSORS_U64 && ids->count == w->shape[0]
	                 : w->shape[0] == t->rows;
}

static enum err_code check_tables(const struct saved_file *f, struct err *e)
{
	const struct layout *l = &f->model.layout;

	for (size_t i = 0; i < l->ntables; i++)
		if (!l->table[i].dropped && !has_table(f, &l->table[i]))
			return err_set(e, ERR_FORMAT,
			    "%s is not a complete model: table \"%s\" is missing or its shape "
			    "differs from the description",
			    f->model.about.path, l->table[i].name);
	return ERR_OK;
}

/* ---- the index ---- */

static void release_index(struct row_index *x)
{
	free(x->ids);
	free(x->order);
	free(x->first);
	*x = (struct row_index){ 0 };
}

static enum err_code read_ids(const struct saved_file *f, const struct table *t, uint64_t n,
    struct row_index *x, struct err *e)
{
	x->ids = mem_try_array((size_t)n + 1, sizeof *x->ids);
	x->order = mem_try_array((size_t)n + 1, sizeof *x->order);
	x->first = mem_try_array((size_t)t->nparts + 2, sizeof *x->first);
	if (!x->ids || !x->order || !x->first)
		return err_set(e, ERR_NOMEM, "no memory for the ids of table \"%s\"", t->name);
	if (n > UINT32_MAX)
		return err_set(e, ERR_LIMIT, "%s: table \"%s\" has more than %u rows",
		    f->model.about.path, t->name, UINT32_MAX);
	return safetensors_read_ids(f->file, find_ids(f, t), 0, n, x->ids, e);
}

/* Sorts the rows by partition, keeping their order, by counting. at[p] first counts the rows of
 * partition p - 1, then is the place for the next row of partition p, and at the end is the end of
 * partition p, which is first[p + 1]. */
static void order_rows(const struct table *t, uint64_t n, struct row_index *x)
{
	uint16_t *part = mem_array(IDS_READ, sizeof *part);
	size_t *at = x->first + 1;

	for (int pass = 0; pass < 2; pass++) {
		for (size_t from = 0, m; from < n; from += m) {
			m = n - from < IDS_READ ? (size_t)n - from : IDS_READ;
			table_parts_of(t, x->ids + from, m, part);
			for (size_t i = 0; i < m; i++)
				if (pass == 0)
					at[part[i] + 1]++;
				else
					x->order[at[part[i]]++] = (uint32_t)(from + i);
		}
		for (uint32_t p = 0; pass == 0 && p < t->nparts; p++)
			at[p + 1] += at[p];
	}
	free(part);
}

static int by_id(const void *a, const void *b, void *ids)
{
	uint64_t x = ((const uint64_t *)ids)[*(const uint32_t *)a],
	         y = ((const uint64_t *)ids)[*(const uint32_t *)b];

	return (x > y) - (x < y);
}

/* Exported rows ascend already; rows of other writers are sorted. ERR_FORMAT: an id is twice. */
static enum err_code sort_partitions(const struct saved_file *f, const struct table *t,
    struct row_index *x, struct err *e)
{
	for (uint32_t p = 0; p < t->nparts; p++) {
		bool ascend = true;

		for (size_t i = x->first[p] + 1; i < x->first[p + 1]; i++)
			ascend &= x->ids[x->order[i - 1]] < x->ids[x->order[i]];
		if (ascend)
			continue;
		qsort_r(x->order + x->first[p], x->first[p + 1] - x->first[p], sizeof *x->order,
		    by_id, x->ids);
		for (size_t i = x->first[p] + 1; i < x->first[p + 1]; i++)
			if (x->ids[x->order[i - 1]] == x->ids[x->order[i]])
				return err_set(e, ERR_FORMAT, "%s: table \"%s\" has row %llu twice",
				    f->model.about.path, t->name,
				    (unsigned long long)x->ids[x->order[i]]);
	}
	return ERR_OK;
}

static enum err_code make_index(struct saved_file *f, const struct table *t, struct err *e)
{
	uint64_t n = find_ids(f, t)->count;
	enum err_code rc;

	release_index(&f->index);
	rc = read_ids(f, t, n, &f->index, e);
	if (!rc) {
		order_rows(t, n, &f->index);
		rc = sort_partitions(f, t, &f->index, e);
	}
	if (!rc)
		f->index.of = t;
	return rc;
}

/* ---- partitions ---- */

/* The rows of a partition lie all over the file. */
static enum err_code read_rows(const struct saved_file *f, const struct table *t,
    const uint32_t *order, struct saved_part *out, struct err *e)
{
	enum err_code rc = safetensors_map(f->file, e);

	if (!rc)
		rc = safetensors_gather(f->file, safetensors_find(f->file, t->name), t->cols, order,
		    out->n, out->w, e);
	for (uint64_t i = 0; !rc && i < out->n; i++)
		out->ids[i] = f->index.ids[order[i]];
	return rc;
}

static enum err_code read_file_part(struct saved_model *m, const struct table *t, uint32_t part,
    bool state, struct saved_part *out, struct err *e)
{
	struct saved_file *f = (struct saved_file *)m;
	const size_t *first;
	enum err_code rc = t->sparse && f->index.of != t ? make_index(f, t, e) : ERR_OK;

	(void)state; /* there is none */
	if (rc)
		return rc;
	if (!t->sparse) {
		rc = saved_part_alloc(t, table_part_elements(t, part), 0, out, e);
		return rc ? rc
		          : safetensors_read(f->file, safetensors_find(f->file, t->name),
		                table_part_begin(t, part), out->n, out->w, e);
	}
	first = f->index.first + part;
	rc = saved_part_alloc(t, first[1] - first[0], 0, out, e);
	return rc ? rc : read_rows(f, t, f->index.order + first[0], out, e);
}

static enum err_code map_file(struct saved_model *m, const struct table *t,
    struct saved_extent **out, size_t *n, struct err *e)
{
	struct saved_file *f = (struct saved_file *)m;
	const struct safetensors_tensor *w = safetensors_find(f->file, t->name);
	struct saved_extent *x = mem_array(1, sizeof *x);
	enum err_code rc = safetensors_map(f->file, e);

	*out = x;
	*n = 1;
	if (rc)
		return rc;
	x->w = safetensors_rows(f->file, w);
	x->n = t->sparse ? w->shape[0] : w->count;
	x->ids = t->sparse ? safetensors_bytes(f->file, find_ids(f, t)) : NULL;
	return ERR_OK;
}

/* ---- opening ---- */

static void free_file(struct saved_model *m)
{
	struct saved_file *f = (struct saved_file *)m;

	release_index(&f->index);
	safetensors_close(f->file);
	state_release(&f->state);
	json_decref(f->document);
	json_decref(f->config);
	free((char *)(uintptr_t)f->model.about.path);
	free(f);
}

static const struct saved_model_ops file_ops = {
	.read = read_file_part,
	.map = map_file,
	.free = free_file,
};

static enum err_code take_description(struct saved_file *f, struct err *e)
{
	struct model_metadata d;
	enum err_code rc = model_metadata_read(f->file, f->model.about.path, &d, &f->document, e);

	if (rc)
		return rc;
	f->model.about.config = d.config;
	f->model.about.facts = json_is_object(d.facts) ? d.facts : NULL;
	rc = saved_layout_fill(d.tables, &f->model.layout, e);
	return rc ? err_prefix(e, "\"%s\": the description of its model", f->model.about.path) : rc;
}

static json_t *read_run_json(const char *run, const char *name, struct err *e)
{
	char *path = path_join(run, name);
	json_t *j = json_parse_file(path, JSON_MAX, e);

	free(path);
	return j;
}

/* The state of the run has the shapes and what is known of the training data. */
static enum err_code take_run_state(struct saved_file *f, const char *run, struct err *e)
{
	struct large_description *large = NULL;
	struct description_reference r;
	struct saved_state saved;
	enum err_code rc = saved_state_read(run, ~0u, &saved, e);

	if (!rc)
		rc = state_join(saved.part, &f->document, &large, e);
	saved_state_release(&saved);
	large_description_release(large);
	if (!rc)
		rc = state_decode(f->document, &f->state, e);
	if (!rc)
		rc = layout_from_json(f->state.layout, &f->model.layout, e);
	if (rc)
		return rc;
	/* A file of a pskit that had large descriptions beside its state describes its model
	 * itself. */
	f->model.about.facts = large_description_is_reference(f->state.facts, &r) ? NULL
	                                                                          : f->state.facts;
	return ERR_OK;
}

/* The configuration of the run names data, too, which the file does not. */
static enum err_code take_run_config(struct saved_file *f, const char *run, struct err *e)
{
	f->config = read_run_json(run, "cluster.json", e);
	f->model.about.config = f->config;
	return f->config ? ERR_OK : e->code;
}

/* rc: how opening the file of f has ended. */
static enum err_code open_model(struct saved_file *f, const char *run, enum err_code rc,
    struct saved_model **out, struct err *e)
{
	if (!rc) {
		rc = take_description(f, e);
		if (rc == ERR_NOTFOUND)
			rc = run ? take_run_state(f, run, e) : (e->code = ERR_FORMAT);
	}
	if (!rc && run)
		rc = take_run_config(f, run, e);
	if (!rc)
		rc = check_tables(f, e);
	if (rc)
		saved_model_close(&f->model);
	else
		*out = &f->model;
	return rc;
}

static struct saved_file *new_file(const char *name)
{
	struct saved_file *f = mem_alloc(sizeof *f);

	f->model.ops = &file_ops;
	f->model.about.path = mem_strdup(name);
	return f;
}

enum err_code saved_file_open(const char *path, const char *run, struct saved_model **out,
    struct err *e)
{
	struct saved_file *f = new_file(path);

	return open_model(f, run, safetensors_open(path, &f->file, e), out, e);
}

enum err_code saved_file_open_fd(int fd, const char *name, struct saved_model **out, struct err *e)
{
	struct saved_file *f = new_file(name);

	return open_model(f, NULL, safetensors_open_fd(fd, name, &f->file, e), out, e);
}

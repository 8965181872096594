/* SPDX-License-Identifier: ISC */
#include "tool/export.h"

#include "core/clock.h"
#include "core/file.h"
#include "core/mem.h"
#include "format/npy.h"
#include "format/safetensors.h"
#include "layout/values.h"
#include "saved/saved_metadata.h"
#include "tool/dense_table.h"
#include "tool/row_text.h"
#include "tool/tool.h"

/* A table in the shape that it had when the export began: tables may be added or grow meanwhile. */
struct pick {
	const struct table *t;
	uint64_t rows;
};

struct writer {
	struct admin_client *tool;
	int fd;
	const struct table *only; /* NULL: all */
	struct pick *pick;
	size_t npicks;
	/* export only changes since `since`; step: least step as of which the tables are */
	bool changed;
	uint64_t since, step;
};

static void pick_tables(struct writer *x)
{
	const struct layout *l = client_layout(x->tool->client);

	x->pick = mem_array(l->ntables + 1, sizeof *x->pick);
	for (size_t i = 0; i < l->ntables; i++)
		if (!l->table[i].dropped && (!x->only || x->only == &l->table[i]))
			x->pick[x->npicks++] = (struct pick){ &l->table[i], l->table[i].rows };
}

/* ---- text ---- */

struct text {
	int fd;
	const struct table *t;
	struct row_text *names;
};

/* Writes one line for each value. It is a callback of client_scan, and it collects about 1 MiB
 * of text before each write. */
static enum err_code write_text_rows(void *ctx, const uint64_t *ids, const float *rows, size_t n,
    struct err *e)
{
	struct text *x = ctx;
	struct buf out = BUF_INIT;
	enum err_code rc = ERR_OK;

	for (size_t i = 0; !rc && i < n; i++) {
		for (uint32_t k = 0; k < x->t->cols; k++)
			row_text_put(x->names, x->t->name, ids[i], k, rows[i * x->t->cols + k],
			    &out);
		if (out.len > 1 << 20 || i + 1 == n) {
			rc = file_write_all(x->fd, out.data, out.len, e);
			buf_clear(&out);
		}
	}
	buf_release(&out);
	return rc;
}

/* Writes one line for each value of a dense table. It is a callback of dense_table_read. */
static enum err_code write_text_values(void *ctx, uint64_t first, const float *w, size_t n,
    struct err *e)
{
	struct text *x = ctx;
	struct buf out = BUF_INIT;
	enum err_code rc = ERR_OK;

	for (size_t i = 0; !rc && i < n; i++) {
		row_text_put(x->names, x->t->name, (first + i) / x->t->cols,
		    (uint32_t)((first + i) % x->t->cols), w[i], &out);
		if (out.len > 1 << 20 || i + 1 == n) {
			rc = file_write_all(x->fd, out.data, out.len, e);
			buf_clear(&out);
		}
	}
	buf_release(&out);
	return rc;
}

/* Writes a table as text, in a stream. */
static enum err_code write_text_table(struct writer *x, const struct pick *k,
    struct row_text *names, struct err *e)
{
	const struct table *t = k->t;
	struct text ctx = { x->fd, t, names };

	return t->sparse
	    ? client_scan(x->tool->client, t, 0, t->nparts, write_text_rows, &ctx, e)
	    : dense_table_read(x->tool->client, t, k->rows, write_text_values, &ctx, e);
}

static enum err_code write_table_as_text(struct writer *x, struct err *e)
{
	struct row_text *names;
	json_t *facts;
	enum err_code rc = tool_facts(x->tool, &facts, e);

	if (rc)
		return rc;
	names = row_text_new(x->tool->view->config, facts);
	for (size_t i = 0; !rc && i < x->npicks; i++)
		rc = write_text_table(x, &x->pick[i], names, e);
	row_text_free(names);
	json_decref(facts);
	return rc;
}

/* ---- safetensors ---- */

/* A sparse table becomes two tensors: NAME.ids and NAME, row by row. The header comes first and
 * needs their number, so the ids are held in memory. The rows are streamed, except for those of an export of
 * changes. */
struct kept {
	uint64_t *ids;
	float *rows; /* NULL: they are to be streamed */
	size_t n;
	uint32_t cols;
	struct client_changes changes;
};

/* Stores the rows that have changed; the client calls it once with all of them. */
static enum err_code store_scanned_rows(void *ctx, const uint64_t *ids, const float *rows, size_t n,
    struct err *e)
{
	struct kept *k = ctx;

	k->ids = mem_try_array(n, sizeof *ids);
	k->rows = mem_try_array(n * k->cols, sizeof *rows);
	if (!k->ids || !k->rows)
		return err_set(e, ERR_NOMEM, "no memory for %zu rows", n);
	memcpy(k->ids, ids, n * sizeof *ids);
	memcpy(k->rows, rows, n * k->cols * sizeof *rows);
	k->n = n;
	return ERR_OK;
}

/* Describes the model in the metadata, if the export has all of it. */
static enum err_code describe_model(struct writer *x, struct safetensors_writer *w, struct err *e)
{
	const struct view *view = x->tool->view;
	json_t *tables, *facts;
	enum err_code rc;

	if (x->only || x->since) {
		safetensors_add_meta(w, "format", "pskit");
		return ERR_OK;
	}
	tables = layout_tables(client_layout(x->tool->client));
	rc = tool_facts(x->tool, &facts, e);
	if (!rc)
		rc = saved_metadata_add(w, view->config, tables, facts, e);
	json_decref(facts);
	json_decref(tables);
	return rc;
}

/* Are the table's values of 16 bits? Their tensors come last, because they need the smallest
 * alignment. */
static bool has_narrow_values(const struct table *t)
{
	return t->policy.values != ELEMENT_f32;
}

/* Adds all tensors to the header, and the steps of an export of changes. */
static enum err_code declare_all_tensors(struct writer *x, struct safetensors_writer *w,
    struct kept *kept, struct err *e)
{
	enum err_code rc = ERR_OK;
	char name[TABLE_NAME + 8], step[24];

	snprintf(step, sizeof step, "%llu", (unsigned long long)x->since);
	if (x->changed)
		safetensors_add_meta(w, "since", step);
	snprintf(step, sizeof step, "%llu", (unsigned long long)x->step);
	if (x->changed && x->step != UINT64_MAX)
		safetensors_add_meta(w, "step", step);
	/* All ids come first, because they need the largest alignment. */
	for (size_t i = 0; !rc && i < x->npicks; i++) {
		const struct table *t = x->pick[i].t;

		snprintf(name, sizeof name, "%s.ids", t->name);
		if (t->sparse)
			rc = safetensors_add(w, name, SAFETENSORS_U64, &(uint64_t){ kept[i].n }, 1,
			    e);
		snprintf(name, sizeof name, "%s.live", t->name);
		if (!rc && kept[i].changes.gone)
			rc = safetensors_add(w, name, SAFETENSORS_U64,
			    &(uint64_t){ kept[i].changes.nlive }, 1, e);
	}
	for (int narrow = 0; narrow < 2; narrow++)
		for (size_t i = 0; !rc && i < x->npicks; i++) {
			const struct table *t = x->pick[i].t;
			uint64_t shape[2] = { t->sparse ? kept[i].n : x->pick[i].rows, t->cols };

			if (has_narrow_values(t) == narrow)
				rc = safetensors_add(w, t->name,
				    safetensors_type_of(t->policy.values), shape, 2, e);
		}
	return rc;
}

/* A callback of dense_table_read. */
static enum err_code put_values(void *ctx, uint64_t first, const float *w, size_t n, struct err *e)
{
	(void)first;
	return safetensors_put(ctx, w, n, e);
}

/* ---- rows in a stream ---- */

/* Rows are written for the ids that were listed before. */
struct listed {
	struct safetensors_writer *w;
	const struct table *t;
	const struct kept *kept;
	size_t at;  /* the next of the ids */
	float *row; /* room for one */
};

/* Writes the initial values of the listed ids below `end`: their rows have been removed since. */
static enum err_code put_missing_rows(struct listed *x, uint64_t end, bool all, struct err *e)
{
	uint64_t base = init_base(x->t);
	enum err_code rc = ERR_OK;

	for (; !rc && x->at < x->kept->n && (all || x->kept->ids[x->at] < end); x->at++) {
		init_fill_by(x->t, base, init_row_place(x->t, x->kept->ids[x->at]), x->t->cols,
		    x->row);
		rc = safetensors_put(x->w, x->row, x->t->cols, e);
	}
	return rc;
}

/* A callback of client_scan. Rows that were made since are left out. */
static enum err_code put_listed_rows(void *ctx, const uint64_t *ids, const float *rows, size_t n,
    struct err *e)
{
	struct listed *x = ctx;
	const struct kept *k = x->kept;
	enum err_code rc = ERR_OK;

	for (size_t i = 0, run; !rc && i < n; i += run ? run : 1) {
		rc = put_missing_rows(x, ids[i], false, e);
		for (run = 0;
		     i + run < n && x->at + run < k->n && ids[i + run] == k->ids[x->at + run];)
			run++;
		if (!rc && run)
			rc = safetensors_put(x->w, rows + i * k->cols, run * k->cols, e);
		x->at += run;
	}
	return rc;
}

static enum err_code stream_rows(struct writer *x, const struct table *t, const struct kept *kept,
    struct safetensors_writer *w, struct err *e)
{
	struct listed list = { .w = w,
		.t = t,
		.kept = kept,
		.row = mem_array(t->cols, sizeof *list.row) };
	enum err_code rc = client_scan(x->tool->client, t, 0, t->nparts, put_listed_rows, &list, e);

	if (!rc)
		rc = put_missing_rows(&list, 0, true, e);
	free(list.row);
	return rc;
}

/* Writes the values in the order of declare_all_tensors. All rows, and dense tables, are streamed. */
static enum err_code put_all_tensors(struct writer *x, struct safetensors_writer *w,
    const struct kept *kept, struct err *e)
{
	enum err_code rc = ERR_OK;

	for (size_t i = 0; !rc && i < x->npicks; i++)
		if (x->pick[i].t->sparse) {
			rc = safetensors_put_ids(w, kept[i].ids, kept[i].n, e);
			if (!rc && kept[i].changes.gone)
				rc = safetensors_put_ids(w, kept[i].changes.live,
				    kept[i].changes.nlive, e);
		}
	for (int narrow = 0; narrow < 2; narrow++)
		for (size_t i = 0; !rc && i < x->npicks; i++) {
			const struct table *t = x->pick[i].t;

			if (has_narrow_values(t) != narrow)
				continue;
			if (!t->sparse)
				rc = dense_table_read(x->tool->client, t, x->pick[i].rows,
				    put_values, w, e);
			else if (x->changed)
				rc = safetensors_put(w, kept[i].rows, kept[i].n * t->cols, e);
			else
				rc = stream_rows(x, t, &kept[i], w, e);
		}
	return rc;
}

/* Pulls the ids of all rows of a table, or the rows that have changed. */
static enum err_code fetch_sparse(struct writer *x, const struct table *t, struct kept *kept,
    struct err *e)
{
	enum err_code rc;

	kept->cols = t->cols;
	if (!x->changed)
		return client_scan_live(x->tool->client, t, 0, t->nparts, &kept->ids, &kept->n, e);
	rc = client_scan_changed(x->tool->client, t, x->since, store_scanned_rows, kept,
	    &kept->changes, e);
	if (kept->changes.step < x->step)
		x->step = kept->changes.step;
	return rc;
}

/* Exports as safetensors. */
static enum err_code write_safetensors(struct writer *x, struct err *e)
{
	struct safetensors_writer *w = safetensors_writer_new();
	struct kept *kept = mem_array(x->npicks + 1, sizeof *kept);
	enum err_code rc = ERR_OK;

	for (size_t i = 0; !rc && i < x->npicks; i++)
		if (x->pick[i].t->sparse)
			rc = fetch_sparse(x, x->pick[i].t, &kept[i], e);
	if (!rc)
		rc = describe_model(x, w, e);
	if (!rc)
		rc = declare_all_tensors(x, w, kept, e);
	if (!rc)
		rc = safetensors_begin(w, safetensors_to_fd, &x->fd, e);
	if (!rc)
		rc = put_all_tensors(x, w, kept, e);
	if (!rc)
		rc = safetensors_end(w, e);
	for (size_t i = 0; i < x->npicks; i++) {
		free(kept[i].ids);
		free(kept[i].rows);
		free(kept[i].changes.live);
	}
	free(kept);
	safetensors_writer_free(w);
	return rc;
}

/* ---- which ---- */

/* Connects, and exports what x selects. The format is checked after connecting. */
static enum err_code export_from(const struct identity *id, const char *table, const char *format,
    struct writer *x, struct err *e)
{
	struct admin_client tool;
	struct log log;
	enum err_code rc;

	log_init(&log, "export", 2, LOG_LEVEL_WARN);
	rc = tool_open(id, "auto", 30 * NSEC_PER_SEC, NULL, &log, &tool, e);
	if (rc)
		return rc;
	x->tool = &tool;
	if (strcmp(table, "all") != 0)
		rc = tool_table(&tool, table, &x->only, e);
	if (!rc)
		pick_tables(x);
	if (!rc && strcmp(format, "safetensors") == 0)
		rc = write_safetensors(x, e);
	else if (!rc && strcmp(format, "text") == 0)
		rc = write_table_as_text(x, e);
	else if (!rc && strcmp(format, "npy") != 0)
		rc = err_set(e, ERR_USAGE, "format: must be safetensors, npy or text, got \"%s\"",
		    format);
	else if (!rc && (!x->only || x->only->sparse))
		rc = err_set(e, ERR_USAGE,
		    "npy can only store one dense table: name it, or export safetensors or text");
	else if (!rc)
		rc = tool_pull(&tool, table, x->fd, e);
	free(x->pick);
	tool_close(&tool);
	return rc;
}

/* Exports as the identity "admin" of the run directory, which is released before it returns. */
static enum err_code export_from_run(const char *run_dir, const char *table, const char *format,
    struct writer *x, struct err *e)
{
	struct identity id;
	enum err_code rc = identity_from_run(run_dir, "admin", &id, e);

	if (rc)
		return rc;
	rc = export_from(&id, table, format, x, e);
	identity_release(&id);
	return rc;
}

enum err_code export_run(const char *run_dir, const char *table, const char *format, int fd,
    struct err *e)
{
	struct writer x = { .fd = fd };

	return export_from_run(run_dir, table, format, &x, e);
}

enum err_code export_changes(const char *run_dir, const char *table, uint64_t since, int fd,
    uint64_t *step, struct err *e)
{
	struct writer x = { .fd = fd, .changed = true, .since = since, .step = UINT64_MAX };
	enum err_code rc = export_from_run(run_dir, table, "safetensors", &x, e);

	*step = x.step;
	return rc;
}

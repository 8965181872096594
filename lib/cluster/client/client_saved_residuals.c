/* SPDX-License-Identifier: ISC */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/client_state.h"
#include "client/saved_residuals.h"
#include "core/file.h"
#include "core/mem.h"
#include "format/safetensors.h"

/* One tensor of the file, or a pair of rows and ids. */
struct item {
	const struct table *table;
	const char *what; /* residual, velocity, rows */
	float *x;         /* dense: flat */
	struct rows *rows;
};

/* The k-th residual, velocity or set of rows, in the order of tables; false past the last. */
static bool residual_item_at(const struct client *c, size_t k, struct item *out)
{
	for (size_t i = 0; i < c->layout.ntables; i++) {
		const struct item all[] = {
			{ &c->layout.table[i], "residual",
			    i < c->feedback.nresiduals ? c->feedback.residual[i] : NULL, NULL },
			{ &c->layout.table[i], "velocity",
			    i < c->feedback.nvelocities ? c->feedback.velocity[i] : NULL, NULL },
			{ &c->layout.table[i], "rows", NULL,
			    i < c->feedback.nrows ? c->feedback.rows[i] : NULL },
		};

		for (size_t j = 0; j < 3; j++)
			if ((all[j].x || (all[j].rows && rows_count(all[j].rows))) && k-- == 0) {
				*out = all[j];
				return true;
			}
	}
	return false;
}

bool client_has_residuals(const struct client *c)
{
	struct item it;

	return residual_item_at(c, 0, &it);
}

uint64_t client_checkpoint_step(const struct client *c)
{
	return c->seen.checkpoint;
}

/* The name of a table's tensor in the file: "TABLE.residual", "TABLE.velocity", "TABLE.rows" or
 * "TABLE.ids". */
static void residual_tensor_name(char out[static TABLE_NAME + 16], const struct table *t,
    const char *what)
{
	snprintf(out, TABLE_NAME + 16, "%s.%s", t->name, what);
}

/* Declare all tensors: ids first, since safetensors wants larger elements before smaller ones. */
static enum err_code declare_residual_tensors(const struct client *c, struct safetensors_writer *w,
    struct err *e)
{
	enum err_code rc = ERR_OK;
	char name[TABLE_NAME + 16];
	struct item it;

	for (int ids = 1; ids >= 0; ids--)
		for (size_t k = 0; !rc && residual_item_at(c, k, &it); k++) {
			uint64_t n = it.rows ? rows_count(it.rows) : table_elements(it.table);

			if (ids && !it.rows)
				continue;
			residual_tensor_name(name, it.table, ids ? "ids" : it.what);
			rc = safetensors_add(w, name, ids ? SAFETENSORS_U64 : SAFETENSORS_F32,
			    (const uint64_t[]){ n, it.rows && !ids ? it.table->cols : 1 },
			    ids ? 1 : 2, e);
		}
	return rc;
}

/* Writes either the ids or the values of a table's rows, in the order in which they were made, so
 * both passes agree. */
static enum err_code write_item_rows(struct safetensors_writer *w, const struct item *it, bool ids,
    struct err *e)
{
	enum err_code rc = ERR_OK;

	for (size_t i = 0; !rc && i < rows_count(it->rows); i++) {
		uint64_t id;
		const float *row = rows_at(it->rows, i, &id);

		rc = ids ? safetensors_put_ids(w, &id, 1, e)
		         : safetensors_put(w, row, it->table->cols, e);
	}
	return rc;
}

/* Write all values in the order in which declare_residual_tensors has declared them. */
static enum err_code write_residual_tensors(const struct client *c, struct safetensors_writer *w,
    struct err *e)
{
	enum err_code rc = ERR_OK;
	struct item it;

	for (int ids = 1; ids >= 0; ids--)
		for (size_t k = 0; !rc && residual_item_at(c, k, &it); k++) {
			if (it.rows)
				rc = write_item_rows(w, &it, ids, e);
			else if (!ids)
				rc = safetensors_put(w, it.x, table_elements(it.table), e);
		}
	return rc;
}

enum err_code client_save_residuals(const struct client *c, const char *path, struct err *e)
{
	struct safetensors_writer *w;
	struct file_new f;
	enum err_code rc = file_new_open(path, 0600, &f, e);

	if (rc)
		return rc;
	w = safetensors_writer_new();
	safetensors_add_meta(w, "format", "pskit");
	rc = declare_residual_tensors(c, w, e);
	if (!rc)
		rc = safetensors_begin(w, safetensors_to_fd, &f.fd, e);
	if (!rc)
		rc = write_residual_tensors(c, w, e);
	if (!rc)
		rc = safetensors_end(w, e);
	safetensors_writer_free(w);
	return file_new_close(&f, rc, e);
}

/* ---- loading ---- */

/* Reads the residuals of a sparse table, row by row, into the client's. ERR_CONFIG when the
 * file's rows do not fit the table; errors of safetensors_read. After an error some rows are set:
 * the caller forgets all residuals. */
static enum err_code load_row_residuals(struct client *c, const struct table *t,
    const struct safetensors *st, const struct safetensors_tensor *ids, struct err *e)
{
	char name[TABLE_NAME + 16];
	const struct safetensors_tensor *rows;
	float *row = mem_array(t->cols, sizeof *row);
	enum err_code rc = ERR_OK;

	residual_tensor_name(name, t, "rows");
	rows = safetensors_find(st, name);
	if (!t->sparse || !rows || rows->count != ids->count * t->cols)
		rc = err_set(e, ERR_CONFIG, "it has no rows for %s, or rows of another width",
		    ids->name);
	for (uint64_t i = 0; !rc && i < ids->count; i++) {
		uint64_t id;

		rc = safetensors_read_ids(st, ids, i, 1, &id, e);
		if (!rc)
			rc = safetensors_read(st, rows, i * t->cols, t->cols, row, e);
		if (!rc)
			memcpy(client_rows_residual(c, t, id), row, t->cols * sizeof *row);
	}
	free(row);
	return rc;
}

/* Reads the residual or velocity of a dense table. ERR_CONFIG when it has another number of
 * values. */
static enum err_code load_dense_residual(struct client *c, const struct table *t,
    const struct safetensors *st, const struct safetensors_tensor *x, bool velocity, struct err *e)
{
	if (t->sparse || x->count != table_elements(t))
		return err_set(e, ERR_CONFIG,
		    "%s has %llu values, but the table has another number", x->name,
		    (unsigned long long)x->count);
	return safetensors_read(st, x, 0, x->count, client_encode_residual(c, t, velocity), e);
}

enum err_code client_load_residuals(struct client *c, const char *path, struct err *e)
{
	struct safetensors *st;
	enum err_code rc = access(path, F_OK) && errno == ENOENT
	    ? err_set(e, ERR_NOTFOUND, "there is no %s", path)
	    : safetensors_open(path, &st, e);

	client_assert_owner(c);
	if (rc)
		return rc;
	for (size_t i = 0; !rc && i < c->layout.ntables; i++) {
		const struct table *t = &c->layout.table[i];
		const struct safetensors_tensor *x;
		char name[TABLE_NAME + 16];

		for (int velocity = 0; !rc && velocity < 2; velocity++) {
			residual_tensor_name(name, t, velocity ? "velocity" : "residual");
			x = safetensors_find(st, name);
			rc = x ? load_dense_residual(c, t, st, x, velocity, e) : ERR_OK;
		}
		residual_tensor_name(name, t, "ids");
		x = safetensors_find(st, name);
		if (!rc && x)
			rc = load_row_residuals(c, t, st, x, e);
	}
	safetensors_close(st);
	/* A part of the residuals would be worse than none. */
	if (rc) {
		client_encode_free_residuals(c);
		client_rows_free_residuals(c);
	}
	return rc;
}

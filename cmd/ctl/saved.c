/* SPDX-License-Identifier: ISC */
#include "saved.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/buf.h"
#include "core/file.h"
#include "core/mem.h"
#include "format/npy.h"
#include "format/safetensors.h"
#include "msg/model_metadata.h"
#include "tool/row_text.h"

#define PIECE 65536u /* values read at a time */

/* One table of the file: the tensor NAME and, for a sparse table, the tensor NAME.ids with its row
 * ids. */
struct saved {
	struct safetensors *file;
	const struct safetensors_tensor *values, *ids;
	struct row_text *names;
};

static bool is_id_tensor(const struct safetensors_tensor *t)
{
	return t->type == SAFETENSORS_U64;
}

/* Select the table whose values are in t, with its ids if it has matching ones. */
static void select_tensor(struct saved *s, const struct safetensors_tensor *t)
{
	char *name = mem_printf("%s.ids", t->name);
	const struct safetensors_tensor *ids = safetensors_find(s->file, name);

	free(name);
	s->values = t;
	s->ids = ids && is_id_tensor(ids) && t->rank == 2 && ids->count == t->shape[0] ? ids : NULL;
}

static uint64_t tensor_columns(const struct saved *s)
{
	return s->values->rank == 2 && s->values->shape[1] > 0 ? s->values->shape[1] : 1;
}

/* Read the values first .. first+n-1, and the ids of all rows that they belong to. */
static enum err_code read_values_and_ids(const struct saved *s, uint64_t first, uint64_t n,
    float *x, uint64_t *ids, struct err *e)
{
	uint64_t cols = tensor_columns(s), row = first / cols,
	         rows = (first + n - 1) / cols - row + 1;
	enum err_code rc = safetensors_read(s->file, s->values, first, n, x, e);

	if (rc == ERR_OK && s->ids)
		rc = safetensors_read_ids(s->file, s->ids, row, rows, ids, e);
	for (uint64_t i = 0; !s->ids && i < rows; i++)
		ids[i] = row + i;
	return rc;
}

/* Write a tensor as text (tool/row_text.h). */
static enum err_code write_tensor_text(const struct saved *s, int fd, struct err *e)
{
	float *x = mem_array(PIECE, sizeof *x);
	uint64_t *ids = mem_array(PIECE + 1, sizeof *ids), cols = tensor_columns(s);
	struct buf out = BUF_INIT;
	enum err_code rc = ERR_OK;

	for (uint64_t at = 0; rc == ERR_OK && at < s->values->count; at += PIECE) {
		uint64_t n = s->values->count - at < PIECE ? s->values->count - at : PIECE;

		rc = read_values_and_ids(s, at, n, x, ids, e);
		for (uint64_t i = 0; rc == ERR_OK && i < n; i++)
			row_text_put(s->names, s->values->name, ids[(at + i) / cols - at / cols],
			    (at + i) % cols, x[i], &out);
		if (rc == ERR_OK)
			rc = file_write_all(fd, out.data, out.len, e);
		buf_clear(&out);
	}
	buf_release(&out);
	free(ids);
	free(x);
	return rc;
}

/* Write a dense tensor in the format of NumPy. */
static enum err_code write_tensor_npy(const struct saved *s, int fd, struct err *e)
{
	float *x = mem_array(PIECE, sizeof *x);
	struct buf header = BUF_INIT;
	enum err_code rc;

	npy_put_header(&header, s->values->shape, s->values->rank);
	rc = file_write_all(fd, header.data, header.len, e);
	for (uint64_t at = 0; rc == ERR_OK && at < s->values->count; at += PIECE) {
		uint64_t n = s->values->count - at < PIECE ? s->values->count - at : PIECE;

		rc = safetensors_read(s->file, s->values, at, n, x, e);
		if (rc == ERR_OK)
			rc = file_write_all(fd, x, n * sizeof *x, e);
	}
	buf_release(&header);
	free(x);
	return rc;
}

/* Write the ids, then the values of a table, in the order in which they were declared. */
static enum err_code put_tensor_data(const struct saved *s, struct safetensors_writer *w,
    struct err *e)
{
	float *x = mem_array(PIECE, sizeof *x);
	uint64_t *ids = mem_array(PIECE, sizeof *ids);
	enum err_code rc = ERR_OK;

	for (uint64_t at = 0; s->ids && rc == ERR_OK && at < s->ids->count; at += PIECE) {
		uint64_t n = s->ids->count - at < PIECE ? s->ids->count - at : PIECE;

		rc = safetensors_read_ids(s->file, s->ids, at, n, ids, e);
		if (rc == ERR_OK)
			rc = safetensors_put_ids(w, ids, n, e);
	}
	for (uint64_t at = 0; rc == ERR_OK && at < s->values->count; at += PIECE) {
		uint64_t n = s->values->count - at < PIECE ? s->values->count - at : PIECE;

		rc = safetensors_read(s->file, s->values, at, n, x, e);
		if (rc == ERR_OK)
			rc = safetensors_put(w, x, n, e);
	}
	free(ids);
	free(x);
	return rc;
}

/* Write one table as a safetensors file. Values of 8 bits become float32. */
static enum err_code write_tensor_file(const struct saved *s, int fd, struct err *e)
{
	struct safetensors_writer *w = safetensors_writer_new();
	enum safetensors_type type = s->values->scale ? SAFETENSORS_F32 : s->values->type;
	enum err_code rc = ERR_OK;

	safetensors_add_meta(w, "format", "pskit");
	if (s->ids)
		rc = safetensors_add(w, s->ids->name, SAFETENSORS_U64, s->ids->shape, s->ids->rank,
		    e);
	if (rc == ERR_OK)
		rc = safetensors_add(w, s->values->name, type, s->values->shape, s->values->rank,
		    e);
	if (rc == ERR_OK)
		rc = safetensors_begin(w, safetensors_to_fd, &fd, e);
	if (rc == ERR_OK)
		rc = put_tensor_data(s, w, e);
	if (rc == ERR_OK)
		rc = safetensors_end(w, e);
	safetensors_writer_free(w);
	return rc;
}

/* Copy the file unchanged. */
static enum err_code copy_model_file(const char *model, int fd, struct err *e)
{
	struct buf piece = BUF_INIT;
	int from = open(model, O_RDONLY | O_CLOEXEC);
	enum err_code rc = ERR_OK;
	ssize_t n = 0;

	if (from < 0)
		return err_sys(e, ERR_IO, "cannot read %s", model);
	while (rc == ERR_OK && (n = read(from, buf_reserve(&piece, PIECE), PIECE)) > 0)
		rc = file_write_all(fd, piece.data, (size_t)n, e);
	if (n < 0)
		rc = err_sys(e, ERR_IO, "cannot read %s", model);
	close(from);
	buf_release(&piece);
	return rc;
}

static enum err_code write_all_text(struct saved *s, int fd, struct err *e)
{
	enum err_code rc = ERR_OK;

	for (size_t i = 0; rc == ERR_OK && i < safetensors_count(s->file); i++) {
		const struct safetensors_tensor *t = safetensors_at(s->file, i);

		if (!safetensors_is_parameters(t))
			continue;
		select_tensor(s, t);
		rc = write_tensor_text(s, fd, e);
	}
	return rc;
}

/* Export the table of that name in the given format. */
static enum err_code export_one_table(struct saved *s, const char *table, const char *format,
    int fd, struct err *e)
{
	const struct safetensors_tensor *t = safetensors_find(s->file, table);

	if (!t || !safetensors_is_parameters(t))
		return err_set(e, ERR_NOTFOUND, "the saved model does not have the table \"%.60s\"",
		    table);
	select_tensor(s, t);
	if (strcmp(format, "text") == 0)
		return write_tensor_text(s, fd, e);
	if (strcmp(format, "safetensors") == 0)
		return write_tensor_file(s, fd, e);
	if (s->ids)
		return err_set(e, ERR_USAGE,
		    "npy can only store a dense table, but \"%.60s\" is sparse: export "
		    "safetensors or text",
		    table);
	return write_tensor_npy(s, fd, e);
}

/* The names that the file's description gives; none where it has no description. */
static struct row_text *read_row_names(const struct safetensors *file, const char *name)
{
	struct model_metadata about = { 0 };
	json_t *document = NULL;
	struct row_text *names;
	struct err e;

	if (model_metadata_read(file, name, &about, &document, &e))
		about = (struct model_metadata){ 0 };
	names = row_text_new(about.config, about.facts);
	json_decref(document);
	return names;
}

enum err_code saved_export(const char *model, const char *table, const char *format, int fd,
    struct err *e)
{
	bool all = strcmp(table, "all") == 0;
	struct saved s = { 0 };
	enum err_code rc;

	if (access(model, F_OK) != 0)
		return err_set(e, ERR_NOTFOUND, "the run has saved no model: %s does not exist",
		    model);
	rc = safetensors_open(model, &s.file, e);
	if (rc != ERR_OK)
		return rc;
	s.names = strcmp(format, "text") == 0 ? read_row_names(s.file, model) : NULL;
	if (!all)
		rc = export_one_table(&s, table, format, fd, e);
	else if (strcmp(format, "text") == 0)
		rc = write_all_text(&s, fd, e);
	else
		rc = copy_model_file(model, fd, e);
	row_text_free(s.names);
	safetensors_close(s.file);
	return rc;
}

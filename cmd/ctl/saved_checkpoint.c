/* SPDX-License-Identifier: ISC */
#include "saved.h"

#include <stdlib.h>
#include <string.h>

#include "ckpt/read.h"
#include "core/buf.h"
#include "core/file.h"
#include "core/mem.h"
#include "format/npy.h"
#include "format/safetensors.h"
#include "msg/manifest.h"
#include "saved/saved_metadata.h"
#include "tool/row_text.h"

/* The model in a checkpoint, in the formats of export. The values are read in pieces, so that a model
 * that does not fit into memory can be exported. */

#define PIECE     65536u     /* values read at a time */
#define WRITE_MIN (1u << 20) /* bytes collected for one write */

struct source {
	struct ckpt_reader *reader;
	const struct ckpt_table *only; /* NULL: all tables */
	int fd;
	struct buf out; /* not written yet */
	struct row_text *names;
};

static bool is_table_wanted(const struct source *s, size_t i)
{
	return !s->only || s->only == ckpt_table_at(s->reader, i);
}

static uint64_t count_table_rows(const struct ckpt_reader *r, const struct ckpt_table *t)
{
	uint64_t rows = 0;

	if (!t->sparse)
		return t->rows;
	for (uint32_t part = 0; part < t->parts; part++)
		rows += ckpt_part_info(r, t, part).n;
	return rows;
}

/* Write the collected output if it exceeds `most` bytes. */
static enum err_code flush_output(struct source *s, size_t most, struct err *e)
{
	enum err_code rc = ERR_OK;

	if (s->out.len > most) {
		rc = file_write_all(s->fd, s->out.data, s->out.len, e);
		buf_clear(&s->out);
	}
	return rc;
}

static enum err_code put_output_bytes(void *ctx, const void *p, size_t n, struct err *e)
{
	struct source *s = ctx;

	buf_append(&s->out, p, n);
	return flush_output(s, WRITE_MIN, e);
}

/* ---- values, piece by piece ---- */

/* Called with n values of a dense table from index `first` on, or with the sparse row whose id is
 * `row`. */
typedef enum err_code put_values_fn(void *ctx, const struct ckpt_table *t, uint64_t first,
    uint64_t row, const float *x, uint64_t n, struct err *e);

/* Call put for all values of a dense table, in pieces. */
static enum err_code each_dense_value(const struct ckpt_reader *r, const struct ckpt_table *t,
    put_values_fn *put, void *ctx, struct err *e)
{
	float *x = mem_array(PIECE, sizeof *x);
	uint64_t count = t->rows * t->cols;
	enum err_code rc = ERR_OK;

	for (uint64_t at = 0; !rc && at < count; at += PIECE) {
		uint64_t n = count - at < PIECE ? count - at : PIECE;

		rc = ckpt_read_dense(r, t, at, n, x, e);
		if (!rc)
			rc = put(ctx, t, at, 0, x, n, e);
	}
	free(x);
	return rc;
}

/* Call put for each row of a sparse table. */
static enum err_code each_sparse_row(const struct ckpt_reader *r, const struct ckpt_table *t,
    put_values_fn *put, void *ctx, struct err *e)
{
	struct ckpt_scan *scan;
	enum err_code rc = ckpt_scan_begin(r, t, &scan, e);
	const float *row = NULL;
	uint64_t id;

	if (rc)
		return rc;
	for (rc = ckpt_scan_next(scan, &id, &row, e); !rc && row;
	     rc = ckpt_scan_next(scan, &id, &row, e)) {
		rc = put(ctx, t, 0, id, row, t->cols, e);
		if (rc)
			break;
	}
	ckpt_scan_end(scan);
	return rc;
}

static enum err_code each_table_value(const struct ckpt_reader *r, const struct ckpt_table *t,
    put_values_fn *put, void *ctx, struct err *e)
{
	return t->sparse ? each_sparse_row(r, t, put, ctx, e) : each_dense_value(r, t, put, ctx, e);
}

/* ---- text and npy ---- */

static enum err_code put_value_lines(void *ctx, const struct ckpt_table *t, uint64_t first,
    uint64_t row, const float *x, uint64_t n, struct err *e)
{
	struct source *s = ctx;

	for (uint64_t i = 0; i < n; i++)
		row_text_put(s->names, t->name, row + (first + i) / t->cols, (first + i) % t->cols,
		    x[i], &s->out);
	return flush_output(s, WRITE_MIN, e);
}

static enum err_code write_checkpoint_text(struct source *s, struct err *e)
{
	const struct manifest *m = ckpt_manifest(s->reader);
	json_t *facts;
	enum err_code rc;

	rc = ckpt_facts_read(m, ckpt_path(s->reader), &facts, e);
	if (rc)
		return rc;
	s->names = row_text_new(m->config, facts);
	json_decref(facts);
	for (size_t i = 0; !rc && i < ckpt_tables(s->reader); i++)
		if (is_table_wanted(s, i))
			rc = each_table_value(s->reader, ckpt_table_at(s->reader, i),
			    put_value_lines, s, e);
	row_text_free(s->names);
	return rc;
}

static enum err_code put_raw_values(void *ctx, const struct ckpt_table *t, uint64_t first,
    uint64_t row, const float *x, uint64_t n, struct err *e)
{
	(void)t;
	(void)first;
	(void)row;
	return put_output_bytes(ctx, x, n * sizeof *x, e);
}

static enum err_code write_checkpoint_npy(struct source *s, struct err *e)
{
	if (!s->only || s->only->sparse)
		return err_set(e, ERR_USAGE,
		    "npy can only store one dense table: name it, or export safetensors or text");
	npy_put_header(&s->out, (const uint64_t[]){ s->only->rows, s->only->cols }, 2);
	return each_dense_value(s->reader, s->only, put_raw_values, s, e);
}

/* ---- safetensors ---- */

static enum err_code put_row_id(void *ctx, const struct ckpt_table *t, uint64_t first, uint64_t row,
    const float *x, uint64_t n, struct err *e)
{
	(void)t;
	(void)first;
	(void)x;
	(void)n;
	return safetensors_put_ids(ctx, &row, 1, e);
}

static enum err_code put_tensor_values(void *ctx, const struct ckpt_table *t, uint64_t first,
    uint64_t row, const float *x, uint64_t n, struct err *e)
{
	(void)t;
	(void)first;
	(void)row;
	return safetensors_put(ctx, x, n, e);
}

/* The tensors of a table are written in these passes: its ids, and its values, with values of 16 bits
 * last. So each tensor is aligned to its type. */
enum pass { PASS_IDS, PASS_FLOATS, PASS_HALVES, PASSES };

static bool has_pass(const struct ckpt_table *t, int pass)
{
	return pass == PASS_IDS ? t->sparse : (t->values != ELEMENT_f32) == (pass == PASS_HALVES);
}

static enum err_code declare_tensors(const struct source *s, struct safetensors_writer *w,
    struct err *e)
{
	enum err_code rc = ERR_OK;

	for (int pass = 0; pass < PASSES; pass++)
		for (size_t i = 0; !rc && i < ckpt_tables(s->reader); i++) {
			const struct ckpt_table *t = ckpt_table_at(s->reader, i);
			uint64_t shape[2] = { count_table_rows(s->reader, t), t->cols };
			char *ids;

			if (!is_table_wanted(s, i) || !has_pass(t, pass))
				continue;
			ids = mem_printf("%s.ids", t->name);
			rc = pass == PASS_IDS
			    ? safetensors_add(w, ids, SAFETENSORS_U64, shape, 1, e)
			    : safetensors_add(w, t->name, safetensors_type_of(t->values), shape, 2,
			          e);
			free(ids);
		}
	return rc;
}

/* Describe the model in the metadata, if all of it is written. */
static enum err_code describe_checkpoint(const struct source *s, struct safetensors_writer *w,
    struct err *e)
{
	const struct manifest *m = ckpt_manifest(s->reader);
	json_t *facts;
	enum err_code rc;

	if (s->only || !m->config) {
		safetensors_add_meta(w, "format", "pskit");
		return ERR_OK;
	}
	rc = ckpt_facts_read(m, ckpt_path(s->reader), &facts, e);
	if (!rc)
		rc = saved_metadata_add(w, m->config, manifest_tables(m), facts, e);
	json_decref(facts);
	return rc;
}

/* Write the tables as a safetensors file. The data must follow in the order of declare_tensors():
 * pass by pass. */
static enum err_code write_checkpoint_tensors(struct source *s, struct err *e)
{
	struct safetensors_writer *w = safetensors_writer_new();
	enum err_code rc = describe_checkpoint(s, w, e);

	if (!rc)
		rc = declare_tensors(s, w, e);
	if (!rc)
		rc = safetensors_begin(w, put_output_bytes, s, e);
	for (int pass = 0; pass < PASSES; pass++)
		for (size_t i = 0; !rc && i < ckpt_tables(s->reader); i++) {
			const struct ckpt_table *t = ckpt_table_at(s->reader, i);

			if (is_table_wanted(s, i) && has_pass(t, pass))
				rc = each_table_value(s->reader, t,
				    pass == PASS_IDS ? put_row_id : put_tensor_values, w, e);
		}
	if (!rc)
		rc = safetensors_end(w, e);
	safetensors_writer_free(w);
	return rc;
}

/* ---- export ---- */

enum err_code saved_export_checkpoint(const char *path, const char *table, const char *format,
    int fd, struct err *e)
{
	struct source s = { .fd = fd, .out = BUF_INIT };
	enum err_code rc = ckpt_open(path, &s.reader, e);

	if (rc)
		return rc;
	if (strcmp(table, "all") != 0)
		s.only = ckpt_table_find(s.reader, table);
	if (strcmp(table, "all") != 0 && !s.only)
		rc = err_set(e, ERR_NOTFOUND, "the checkpoint %s does not have the table \"%.60s\"",
		    path, table);
	else if (strcmp(format, "text") == 0)
		rc = write_checkpoint_text(&s, e);
	else if (strcmp(format, "npy") == 0)
		rc = write_checkpoint_npy(&s, e);
	else
		rc = write_checkpoint_tensors(&s, e);
	if (!rc)
		rc = flush_output(&s, 0, e);
	buf_release(&s.out);
	ckpt_close(s.reader);
	return rc;
}

enum err_code saved_write_model(const char *checkpoint, const char *file, struct err *e)
{
	struct file_new f;
	enum err_code rc = file_new_open(file, 0666, &f, e);

	return rc ? rc
	          : file_new_close(&f,
	                saved_export_checkpoint(checkpoint, "all", "safetensors", f.fd, e), e);
}

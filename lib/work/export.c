#include "work/export.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "format/npy.h"
#include "format/safetensors.h"
#include "work/tool.h"

/* A table as it is when all begins: more may come, and some may grow, while we wait. */
struct pick {
	const struct table *t;
	uint64_t rows;
};

struct writer {
	struct tool *tool;
	int fd;
	const struct table *only;       /* NULL: all */
	struct pick *pick;
	size_t npicks;
};

static void pick_tables(struct writer *x)
{
	const struct layout *l = client_layout(x->tool->client);

	x->pick = mem_array(l->ntables + 1, sizeof *x->pick);
	for (size_t i = 0; i < l->ntables; i++)
		if (!l->table[i].dropped && (!x->only || x->only == &l->table[i]))
			x->pick[x->npicks++] = (struct pick){ &l->table[i], l->table[i].rows };
}

/* ---- text ---------------------------------------------------------------------------------- */

struct text {
	int fd;
	const struct table *t;
};

static enum err_code text_rows(void *ctx, const uint64_t *ids, const float *rows, size_t n, struct err *e)
{
	struct text *x = ctx;
	struct buf out = BUF_INIT;
	enum err_code rc = ERR_OK;

	for (size_t i = 0; !rc && i < n; i++) {
		for (uint32_t k = 0; k < x->t->cols; k++)
			buf_printf(&out, "%s[%llu,%u]\t%.9g\n", x->t->name, (unsigned long long)ids[i], k,
			    (double)rows[i * x->t->cols + k]);
		if (out.len > 1 << 20 || i + 1 == n) {
			rc = fd_write_all(x->fd, out.data, out.len, e);
			buf_clear(&out);
		}
	}
	buf_release(&out);
	return rc;
}

/* ---- dense tables ---------------------------------------------------------------------------- */

static enum err_code fetch_dense(struct writer *x, const struct pick *k, float **out, struct err *e)
{
	const struct table *t = k->t;
	enum err_code rc;

	*out = NULL;
	if (t->dropped || t->rows != k->rows)
		return err_set(e, ERR_STALE, "table \"%s\" has %s meanwhile: export once more", t->name, t->dropped ? "gone" : "grown");
	*out = mem_try_array(table_elements(t), sizeof **out);
	if (!*out)
		return err_set(e, ERR_NOMEM, "no memory for table \"%s\"", t->name);
	rc = client_want(x->tool->client, t, CLIENT_NOW, NULL, *out, e);
	return rc ? rc : client_wait(x->tool->client, CLIENT_NOW, e);
}

static enum err_code text_table(struct writer *x, const struct pick *k, struct err *e)
{
	const struct table *t = k->t;
	struct text ctx = { x->fd, t };
	uint64_t *ids;
	float *w;
	enum err_code rc;

	if (t->sparse)
		return client_scan(x->tool->client, t, text_rows, &ctx, e);
	ids = mem_array(k->rows, sizeof *ids);
	for (uint64_t i = 0; i < k->rows; i++)
		ids[i] = i;
	rc = fetch_dense(x, k, &w, e);
	if (!rc)
		rc = text_rows(&ctx, ids, w, k->rows, e);
	free(w);
	free(ids);
	return rc;
}

static enum err_code each_text(struct writer *x, struct err *e)
{
	enum err_code rc = ERR_OK;

	for (size_t i = 0; !rc && i < x->npicks; i++)
		rc = text_table(x, &x->pick[i], e);
	return rc;
}

/* ---- safetensors ------------------------------------------------------------------------------- */

/* A sparse table becomes two tensors: NAME.ids and NAME, row by row.  Its rows
 * must be counted before the header, so they are kept meanwhile. */
struct kept {
	uint64_t *ids;
	float *rows;
	size_t n;
	uint32_t cols;
};

static enum err_code keep_rows(void *ctx, const uint64_t *ids, const float *rows, size_t n, struct err *e)
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

static enum err_code name_tensors(struct writer *x, struct safetensors_writer *w, struct kept *kept, struct err *e)
{
	enum err_code rc = ERR_OK;
	char name[TABLE_NAME + 8];

	safetensors_add_meta(w, "format", "pskit");
	/* All ids come first: they want the larger alignment. */
	for (int pass = 0; pass < 2; pass++)
		for (size_t i = 0; !rc && i < x->npicks; i++) {
			const struct table *t = x->pick[i].t;
			uint64_t shape[2] = { t->sparse ? kept[i].n : x->pick[i].rows, t->cols };

			snprintf(name, sizeof name, pass ? "%s" : "%s.ids", t->name);
			if (pass)
				rc = safetensors_add(w, name, SAFETENSORS_F32, shape, 2, e);
			else if (t->sparse)
				rc = safetensors_add(w, name, SAFETENSORS_U64, shape, 1, e);
		}
	return rc;
}

static enum err_code put_tensors(struct writer *x, struct safetensors_writer *w, const struct kept *kept, struct err *e)
{
	enum err_code rc = ERR_OK;

	for (size_t i = 0; !rc && i < x->npicks; i++)
		if (x->pick[i].t->sparse)
			rc = safetensors_put_ids(w, kept[i].ids, kept[i].n, e);
	for (size_t i = 0; !rc && i < x->npicks; i++) {
		const struct table *t = x->pick[i].t;
		float *dense;

		if (t->sparse) {
			rc = safetensors_put(w, kept[i].rows, kept[i].n * t->cols, e);
			continue;
		}
		rc = fetch_dense(x, &x->pick[i], &dense, e);
		if (!rc)
			rc = safetensors_put(w, dense, x->pick[i].rows * t->cols, e);
		free(dense);
	}
	return rc;
}

static enum err_code each_tensor(struct writer *x, struct err *e)
{
	struct safetensors_writer *w = safetensors_writer_new();
	struct kept *kept = mem_array(x->npicks + 1, sizeof *kept);
	enum err_code rc = ERR_OK;

	for (size_t i = 0; !rc && i < x->npicks; i++)
		if (x->pick[i].t->sparse) {
			kept[i].cols = x->pick[i].t->cols;
			rc = client_scan(x->tool->client, x->pick[i].t, keep_rows, &kept[i], e);
		}
	if (!rc)
		rc = name_tensors(x, w, kept, e);
	if (!rc)
		rc = safetensors_begin(w, safetensors_to_fd, &x->fd, e);
	if (!rc)
		rc = put_tensors(x, w, kept, e);
	if (!rc)
		rc = safetensors_end(w, e);
	for (size_t i = 0; i < x->npicks; i++) {
		free(kept[i].ids);
		free(kept[i].rows);
	}
	free(kept);
	safetensors_writer_free(w);
	return rc;
}

/* ---- which ------------------------------------------------------------------------------------------ */

enum err_code model_export_from(const struct identity *id, const char *table, const char *format, int fd, struct err *e)
{
	struct writer x = { .fd = fd };
	struct tool tool;
	struct log log;
	enum err_code rc;

	log_init(&log, "export", 2, LOG_LEVEL_WARN);
	rc = tool_open(id, "auto", 30 * NSEC_PER_SEC, -1, &log, &tool, e);
	if (rc)
		return rc;
	x.tool = &tool;
	if (strcmp(table, "all") != 0)
		rc = tool_table(&tool, table, &x.only, e);
	if (!rc)
		pick_tables(&x);
	if (!rc && strcmp(format, "safetensors") == 0)
		rc = each_tensor(&x, e);
	else if (!rc && strcmp(format, "text") == 0)
		rc = each_text(&x, e);
	else if (!rc && strcmp(format, "npy") != 0)
		rc = err_set(e, ERR_USAGE, "format: must be safetensors, npy or text, got \"%s\"", format);
	else if (!rc && (!x.only || x.only->sparse))
		rc = err_set(e, ERR_USAGE, "npy holds one dense table: name it, or export safetensors or text");
	else if (!rc)
		rc = tool_pull(&tool, table, fd, e);
	free(x.pick);
	tool_close(&tool);
	return rc;
}

enum err_code model_export(const char *run_dir, const char *table, const char *format, int fd, struct err *e)
{
	struct identity id;
	enum err_code rc = identity_from_run(run_dir, "admin", &id, e);

	if (rc)
		return rc;
	rc = model_export_from(&id, table, format, fd, e);
	identity_release(&id);
	return rc;
}

/* SPDX-License-Identifier: ISC */
#include "tool/int8_export.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "format/safetensors.h"
#include "layout/values.h"
#include "math/stored_rows.h"
#include "saved/saved_metadata.h"

#define PIECE_BYTES ((size_t)1 << 20) /* written at a time, of one tensor */

/* The rows of a table, in the order in which the source gave them. */
struct kept {
	const struct table *t; /* NULL: it was dropped */
	bool small;            /* in 8 bits: `scale` and `byte`; else `wide` */
	size_t n, room;
	uint64_t *id;
	float *scale, *wide;
	int8_t *byte;
	size_t *order; /* numbers of the rows by ascending id; NULL: of a dense table */
};

struct int8_writer {
	const struct tool_model *m;
	const struct layout *layout;
	struct kept *kept; /* by the number of the table */
	struct safetensors_writer *file;
	int fd;
};

/* ---- reading ---- */

/* Makes an array longer. False: there is no memory, and the array stays. */
static bool lengthen(void **array, size_t n, size_t room, size_t bytes)
{
	void *longer = mem_try_array(room, bytes);

	if (!longer)
		return false;
	if (n)
		memcpy(longer, *array, n * bytes);
	free(*array);
	*array = longer;
	return true;
}

static bool make_room(struct kept *k, size_t more)
{
	size_t cols = k->t->cols, room = k->room + k->room / 2;

	if (more <= k->room - k->n)
		return true;
	room = room < k->n + more ? k->n + more : room;
	if (!lengthen((void **)&k->id, k->n, room, sizeof *k->id))
		return false;
	if (k->small ? !lengthen((void **)&k->scale, k->n, room, sizeof *k->scale) ||
	            !lengthen((void **)&k->byte, k->n * cols, room * cols, sizeof *k->byte)
	             : !lengthen((void **)&k->wide, k->n * cols, room * cols, sizeof *k->wide))
		return false;
	k->room = room;
	return true;
}

/* A callback of each_row. */
static enum err_code keep_rows(void *ctx, const uint64_t *ids, const float *rows, size_t n,
    struct err *e)
{
	struct kept *k = ctx;
	size_t cols = k->t->cols;
	enum err_code rc = values_check_rows(k->t->name, k->t->cols, ids, rows, n, e);

	if (rc)
		return rc;
	if (!make_room(k, n))
		return err_set(e, ERR_NOMEM, "no memory for the rows of table \"%s\"", k->t->name);
	memcpy(k->id + k->n, ids, n * sizeof *ids);
	if (!k->small)
		memcpy(k->wide + k->n * cols, rows, n * cols * sizeof *rows);
	for (size_t i = 0; k->small && i < n; i++) {
		float scale = stored_row_scale(cols, rows + i * cols);

		k->scale[k->n + i] = scale;
		stored_row_narrow(cols, rows + i * cols, scale, k->byte + (k->n + i) * cols);
	}
	k->n += n;
	return ERR_OK;
}

static int by_id(const void *a, const void *b, void *ids)
{
	uint64_t x = ((const uint64_t *)ids)[*(const size_t *)a],
	         y = ((const uint64_t *)ids)[*(const size_t *)b];

	return (x > y) - (x < y);
}

static enum err_code order_rows(struct kept *k, struct err *e)
{
	k->order = mem_try_array(k->n + 1, sizeof *k->order);
	if (!k->order)
		return err_set(e, ERR_NOMEM, "no memory for the rows of table \"%s\"", k->t->name);
	for (size_t i = 0; i < k->n; i++)
		k->order[i] = i;
	qsort_r(k->order, k->n, sizeof *k->order, by_id, k->id);
	return ERR_OK;
}

static enum err_code read_sparse(struct int8_writer *x, struct kept *k, struct err *e)
{
	struct param_source *s = x->m->source;
	enum err_code rc;

	k->small = k->t->cols >= INT8_EXPORT_COLS;
	if (!k->small)
		log_warn(x->m->log,
		    "table \"%s\" keeps its values of type %s: its rows have %u value%s, and 8 bits are for "
		    "rows of %u values or more",
		    k->t->name, element_name(k->t->policy.values), k->t->cols,
		    k->t->cols == 1 ? "" : "s", INT8_EXPORT_COLS);
	rc = s->ops->each_row(s, k->t, keep_rows, k, e);
	return rc ? rc : order_rows(k, e);
}

static enum err_code read_dense(struct int8_writer *x, struct kept *k, struct err *e)
{
	struct param_source *s = x->m->source;
	size_t n = (size_t)table_elements(k->t);
	enum err_code rc;

	k->n = (size_t)k->t->rows;
	k->wide = mem_try_array(n + 1, sizeof *k->wide);
	rc = k->wide ? s->ops->want_dense(s, k->t, NULL, k->wide, e)
	             : err_set(e, ERR_NOMEM, "no memory for table \"%s\"", k->t->name);
	if (!rc)
		rc = s->ops->wait(s, e);
	return rc ? rc : values_check_dense(k->t->name, k->t->cols, 0, k->wide, n, e);
}

static enum err_code read_tables(struct int8_writer *x, struct err *e)
{
	enum err_code rc = ERR_OK;
	unsigned small = 0;

	for (size_t i = 0; !rc && i < x->layout->ntables; i++) {
		struct kept *k = &x->kept[i];

		if (x->layout->table[i].dropped)
			continue;
		k->t = &x->layout->table[i];
		rc = k->t->sparse ? read_sparse(x, k, e) : read_dense(x, k, e);
		small += k->small;
	}
	if (!rc && !small)
		log_warn(x->m->log,
		    "nothing has become smaller: the model has no sparse table with rows of %u values or more",
		    INT8_EXPORT_COLS);
	return rc;
}

/* ---- writing ---- */

/* The type of the values of a table in the file. */
static enum safetensors_type type_of_values(const struct kept *k)
{
	return k->small    ? SAFETENSORS_I8
	    : k->t->sparse ? safetensors_type_of(k->t->policy.values)
	                   : SAFETENSORS_F32;
}

/* The tensors of a table, in the order in which all tables are written: larger alignments first. */
enum part { PART_IDS, PART_SCALES, PART_F32, PART_F16, PART_BF16, PART_INT8, PARTS };

static bool has_part(const struct kept *k, enum part part)
{
	static const enum safetensors_type type[] = { [PART_F32] = SAFETENSORS_F32,
		[PART_F16] = SAFETENSORS_F16,
		[PART_BF16] = SAFETENSORS_BF16,
		[PART_INT8] = SAFETENSORS_I8 };

	return k->t &&
	    (part == PART_IDS             ? k->t->sparse
	            : part == PART_SCALES ? k->small
	                                  : type_of_values(k) == type[part]);
}

static enum err_code declare_part(struct int8_writer *x, const struct kept *k, enum part part,
    struct err *e)
{
	uint64_t shape[2] = { k->n, k->t->cols };
	char name[TABLE_NAME + 8];

	snprintf(name, sizeof name, "%s%s", k->t->name,
	    part == PART_IDS          ? ".ids"
	        : part == PART_SCALES ? ".scale"
	                              : "");
	if (part == PART_IDS)
		return safetensors_add(x->file, name, SAFETENSORS_U64, shape, 1, e);
	if (part == PART_SCALES)
		return safetensors_add(x->file, name, SAFETENSORS_F32, shape, 1, e);
	return safetensors_add(x->file, name, type_of_values(k), shape, 2, e);
}

/* Writes an array of rows in the order of their ids. width: bytes of a row. */
static enum err_code put_in_order(struct int8_writer *x, const struct kept *k, const void *rows,
    size_t width, enum part part, struct err *e)
{
	size_t fit = PIECE_BYTES / width, most = fit ? fit : 1;
	uint8_t *piece = mem_array(most, width);
	enum err_code rc = ERR_OK;

	for (size_t at = 0, n; !rc && at < k->n; at += n) {
		n = k->n - at < most ? k->n - at : most;
		for (size_t i = 0; i < n; i++)
			memcpy(piece + i * width,
			    (const uint8_t *)rows + (k->order ? k->order[at + i] : at + i) * width,
			    width);
		if (part == PART_IDS)
			rc = safetensors_put_ids(x->file, (void *)piece, n, e);
		else if (part == PART_INT8)
			rc = safetensors_put_int8(x->file, (void *)piece, n * width, e);
		else
			rc = safetensors_put(x->file, (void *)piece, n * (width / sizeof(float)),
			    e);
	}
	free(piece);
	return rc;
}

static enum err_code put_part(struct int8_writer *x, const struct kept *k, enum part part,
    struct err *e)
{
	if (part == PART_IDS)
		return put_in_order(x, k, k->id, sizeof *k->id, part, e);
	if (part == PART_SCALES)
		return put_in_order(x, k, k->scale, sizeof *k->scale, part, e);
	if (part == PART_INT8)
		return put_in_order(x, k, k->byte, k->t->cols * sizeof *k->byte, part, e);
	return put_in_order(x, k, k->wide, k->t->cols * sizeof *k->wide, part, e);
}

typedef enum err_code part_fn(struct int8_writer *x, const struct kept *k, enum part part,
    struct err *e);

static enum err_code each_part(struct int8_writer *x, part_fn *fn, struct err *e)
{
	enum err_code rc = ERR_OK;

	for (unsigned part = 0; part < PARTS; part++)
		for (size_t i = 0; !rc && i < x->layout->ntables; i++)
			if (has_part(&x->kept[i], part))
				rc = fn(x, &x->kept[i], part, e);
	return rc;
}

static enum err_code write_file(struct int8_writer *x, struct err *e)
{
	const struct param_source *s = x->m->source;
	json_t *tables = layout_tables(x->layout);
	enum err_code rc = saved_metadata_add(x->file, s->config, tables, s->facts, e);

	json_decref(tables);
	if (!rc)
		rc = each_part(x, declare_part, e);
	if (!rc)
		rc = safetensors_begin(x->file, safetensors_to_fd, &x->fd, e);
	if (!rc)
		rc = each_part(x, put_part, e);
	return rc ? rc : safetensors_end(x->file, e);
}

enum err_code int8_export(const struct tool_model *m, int fd, struct err *e)
{
	struct int8_writer x = { .m = m, .fd = fd, .layout = m->source->ops->layout(m->source) };
	size_t n = x.layout->ntables;
	enum err_code rc;

	x.kept = mem_array(n + 1, sizeof *x.kept);
	x.file = safetensors_writer_new();
	rc = read_tables(&x, e);
	if (!rc)
		rc = write_file(&x, e);
	if (!rc)
		rc = param_source_finish(m->source, e);
	for (size_t i = 0; i < n; i++) {
		free(x.kept[i].id);
		free(x.kept[i].scale);
		free(x.kept[i].byte);
		free(x.kept[i].wide);
		free(x.kept[i].order);
	}
	free(x.kept);
	safetensors_writer_free(x.file);
	return rc;
}

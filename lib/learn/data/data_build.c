/* SPDX-License-Identifier: ISC */
#include "data/data_build.h"

#include <assert.h>
#include <math.h>
#include <sys/mman.h>

#include "core/log.h"
#include "core/mem.h"
#include "core/num.h"
#include "data/reader/data_bad_lines.h"
#include "data/reader/data_head.h"
#include "data/reader/data_parser.h"
#include "data/source/data_option.h"
#include "data/reader/data_row.h"
#include "data/shape/data_shape.h"
#include "data/table/data_schema.h"
#include "data/table/data_table.h"
#include "data/source/data_uri.h"
#include "math/vec.h"

struct data_build *data_build_new(const struct data_want *want, const struct dataset *like,
    const char *base_dir)
{
	struct data_build *b = mem_alloc(sizeof(*b));

	b->want = *want;
	b->extends = !like && want->base;
	like = like ? like : want->base;
	b->d = mem_alloc(sizeof(*b->d));
	b->options = (struct data_options)DATA_OPTIONS_INIT;
	b->d->index_base = like ? like->index_base : -1;
	b->index_base = -1;
	b->min_id = UINT64_MAX;
	b->like = like;
	b->base_dir = base_dir;
	b->label = data_label_new(want, like);
	b->spreads.limit = want->spreads;
	b->scale = like ? NULL : want->scale;
	b->scales_targets = want->scales_targets && b->scale && strcmp(b->scale, "none") != 0;
	return b;
}

static void drop_names(struct data_build *b, size_t n);

void data_build_free(struct data_build *b)
{
	if (!b)
		return;
	/* The dataset frees the names of its rows. */
	if (b->d)
		drop_names(b, b->d->rows);
	dataset_free(b->d);
	data_label_free(b->label);
	data_table_free(b->table);
	data_spreads_release(&b->spreads);
	free(b->raw);
	free(b->seen);
	free(b->first);
	data_uri_release(&b->options);
	free(b->heading);
	free(b->stream_heading);
	free(b);
}

void data_shown(char out[static DATA_SHOWN], const char *p, size_t n)
{
	if (n > 40)
		n = 40;
	log_escape(out, DATA_SHOWN - 40, p, n);
}

#define HUGE ((size_t)2 << 20)

/* Asks for large pages: handing out small ones is most of what a reader costs the kernel. */
static void advise_huge_pages(void *p, size_t bytes)
{
	uintptr_t begin = ((uintptr_t)p + HUGE - 1) / HUGE * HUGE,
	          end = ((uintptr_t)p + bytes) / HUGE * HUGE;

	if (begin < end)
		madvise((void *)begin, end - begin, MADV_HUGEPAGE);
}

bool data_build_resize(void **p, size_t n, size_t size)
{
	size_t bytes;
	void *q;

	if (__builtin_mul_overflow(n, size, &bytes))
		return false;
	q = realloc(*p, bytes ? bytes : 1);
	if (!q)
		return false;
	*p = q;
	advise_huge_pages(q, bytes);
	return true;
}

/* Number of elements to make room for when `need` are wanted: the number expected at the end of the
 * file if it goes on like this, or twice the room. Growing once gets large pages. */
static size_t predict_room(const struct stream *s, size_t room, size_t need, uint64_t before)
{
	double done = stream_progress(s), all = 0;
	size_t eighth_more = need + need / 8;

	if (done > 0)
		all = (double)before + (double)(need - before) / done * 1.02;
	if (all > (double)eighth_more && all < (double)SIZE_MAX / 2)
		return (size_t)all;
	return done > 0 ? eighth_more : need < 2 * room ? 2 * room : need;
}

void data_build_expect(struct data_build *b, size_t rows, size_t values)
{
	b->expected_rows = rows;
	b->expected_values = values;
}

size_t data_build_count(const struct data_build *b)
{
	return data_label_count(b->label);
}

double data_build_memory(const struct data_build *b)
{
	const struct dataset *like = b->like;
	double rows = (double)data_build_count(b),
	       values = like->sparse ? (double)b->nnz : rows * (double)like->cols;

	return data_shape_of(like)->bytes(like, rows, values);
}

static enum err_code no_memory_for_examples(const struct data_build *b, const struct stream *s,
    struct err *e)
{
	return err_set(e, ERR_NOMEM, "no memory for the examples of %s (%zu read so far)",
	    stream_name(s), b->d->rows);
}

/* Row numbers must fit 32 bits. */
static enum err_code check_row_count(const struct data_build *b, const struct stream *s, size_t n,
    struct err *e)
{
	if (n > UINT32_MAX - b->d->rows)
		return err_set(e, ERR_LIMIT, "%s: more than %u examples", stream_name(s),
		    UINT32_MAX);
	return ERR_OK;
}

/* Checks that the rows are of the kind and width of those before and of `like`. */
static enum err_code check_kind(struct data_build *b, const struct stream *s, bool sparse,
    size_t cols, struct err *e)
{
	struct dataset *d = b->d;

	/* A table becomes dense or sparse at its end, as the training data did. */
	if (b->table)
		return ERR_OK;
	if (b->like && b->like->sparse != sparse)
		return stream_fail(s, e, "has %s rows, but the training data (%s) has %s ones",
		    sparse ? "sparse" : "dense", b->like->source, sparse ? "dense" : "sparse");
	if (sparse)
		return ERR_OK;
	if ((d->rows > 0 || d->feature_name) && cols != d->cols)
		return stream_fail(s, e, "has %zu feature%s a row, %s has %zu", cols, NUM_S(cols),
		    b->first, d->cols);
	if (cols == 0)
		return stream_fail(s, e, "has a label, but no features");
	if (b->like && b->like->cols != cols)
		return stream_fail(s, e,
		    "has %zu feature%s per row, but the training data (%s) has %zu", cols,
		    NUM_S(cols), b->like->source, b->like->cols);
	d->cols = cols;
	return ERR_OK;
}

static enum err_code dense_room(struct data_build *b, const struct stream *s, void **x, size_t size,
    size_t n, struct err *e)
{
	enum err_code rc = check_row_count(b, s, n, e);
	size_t need, room;

	if (rc != ERR_OK)
		return rc;
	if (__builtin_mul_overflow(b->d->rows + n, b->d->cols, &need))
		return no_memory_for_examples(b, s, e);
	if (need > b->room) {
		room = need <= b->expected_values
		    ? b->expected_values
		    : predict_room(s, b->room, need, b->values_before);
		if (!data_build_resize(x, room, size) && !data_build_resize(x, room = need, size))
			return no_memory_for_examples(b, s, e);
		b->room = room;
	}
	return ERR_OK;
}

enum err_code data_build_dense(struct data_build *b, const struct stream *s, size_t cols, size_t n,
    float **x, struct err *e)
{
	struct dataset *d = b->d;
	enum err_code rc = check_kind(b, s, false, cols, e);

	if (rc == ERR_OK)
		rc = dense_room(b, s, (void **)&d->x, sizeof(*d->x), n, e);
	if (rc == ERR_OK)
		*x = d->x + d->rows * d->cols;
	return rc;
}

enum err_code data_build_bytes(struct data_build *b, const struct stream *s, size_t cols,
    float scale, size_t n, uint8_t **x8, struct err *e)
{
	struct dataset *d = b->d;
	enum err_code rc = check_kind(b, s, false, cols, e);

	if (rc == ERR_OK)
		rc = dense_room(b, s, (void **)&d->x8, sizeof(*d->x8), n, e);
	if (rc == ERR_OK)
		*x8 = d->x8 + d->rows * d->cols;
	d->scale = scale;
	return rc;
}

void data_build_rows(struct data_build *b, size_t n)
{
	b->d->rows += n;
}

static bool sparse_resize(struct data_build *b, size_t room)
{
	struct dataset *d = b->d;

	if (!(b->raw ? data_build_resize((void **)&b->raw, room, sizeof(*b->raw))
	             : data_build_resize((void **)&d->col, room, sizeof(*d->col))) ||
	    !data_build_resize((void **)&d->val, room, sizeof(*d->val)) ||
	    (d->field && !data_build_resize((void **)&d->field, room, sizeof(*d->field))))
		return false;
	b->room = room;
	return true;
}

uint8_t *data_build_mark_ids(const struct data_build *b, uint64_t ids)
{
	uint8_t *seen = calloc(ids, 1);

	for (uint64_t k = 0; seen && k < b->nnz; k++) {
		uint64_t v = b->raw ? b->raw[k] : b->d->col[k];

		if (v < ids)
			seen[v] = 1;
	}
	return seen;
}

/* Begins to mark the ids that occur, when there will be this many values. False: no memory. */
static bool mark_seen_ids(struct data_build *b, uint64_t values)
{
	if (b->seen || b->transient || values < DATA_SEEN_FROM)
		return true;
	b->seen = data_build_mark_ids(b, DATA_DIRECT);
	return b->seen;
}

/* Makes room for n more entries and one more row. */
static bool sparse_room(struct data_build *b, const struct stream *s, size_t n)
{
	struct dataset *d = b->d;
	size_t need = b->nnz + n, rows = d->rows + 2;

	if (!mark_seen_ids(b, need))
		return false;
	if (need > b->room &&
	    !sparse_resize(b,
	        need <= b->expected_values ? b->expected_values
	                                   : predict_room(s, b->room, need, b->values_before)) &&
	    !sparse_resize(b, need))
		return false;
	if (rows > b->start_room) {
		size_t room = rows <= b->expected_rows
		    ? b->expected_rows
		    : predict_room(s, b->start_room, rows, b->rows_before);

		if (!data_build_resize((void **)&d->start, room, sizeof(*d->start)))
			return false;
		b->start_room = room;
		d->start[0] = 0;
	}
	return true;
}

enum err_code data_build_sparse(struct data_build *b, const struct stream *s, size_t n,
    uint32_t **id, uint64_t **wide, float **val, struct err *e)
{
	struct dataset *d = b->d;
	enum err_code rc = check_row_count(b, s, 1, e);

	if (rc == ERR_OK && d->rows == 0)
		rc = check_kind(b, s, true, 0, e);
	if (rc != ERR_OK)
		return rc;
	d->sparse = true;
	if (!sparse_room(b, s, n))
		return no_memory_for_examples(b, s, e);
	*id = b->raw ? NULL : d->col + b->nnz;
	*wide = b->raw ? b->raw + b->nnz : NULL;
	*val = d->val + b->nnz;
	return ERR_OK;
}

enum err_code data_build_fields(struct data_build *b, const struct stream *s, uint16_t **field,
    struct err *e)
{
	struct dataset *d = b->d;

	if (!d->field && !data_build_resize((void **)&d->field, b->room, sizeof(*d->field)))
		return no_memory_for_examples(b, s, e);
	*field = d->field + b->nnz;
	return ERR_OK;
}

uint32_t data_build_base_taken_off(const struct data_build *b)
{
	int base = b->index_base >= 0 ? b->index_base : b->d->index_base;

	return b->transient && base > 0 ? (uint32_t)base : 0;
}

bool data_build_widen_ids(struct data_build *b)
{
	uint32_t base = data_build_base_taken_off(b);

	b->raw = mem_try_array(b->room, sizeof(*b->raw));
	if (!b->raw)
		return false;
	for (uint64_t k = 0; k < b->nnz; k++)
		b->raw[k] = (uint64_t)b->d->col[k] + base;
	free(b->d->col);
	b->d->col = NULL;
	return true;
}

enum err_code data_build_widen(struct data_build *b, const struct stream *s, struct err *e)
{
	return data_build_widen_ids(b) ? ERR_OK : no_memory_for_examples(b, s, e);
}

/* Takes the base off n ids, and returns the largest one as it was, or `max`. */
static uint64_t take_base_off(uint32_t *id, size_t n, uint32_t base, uint64_t max)
{
	uint32_t most = 0;

	for (size_t k = 0; k < n; k++) {
		most = id[k] > most ? id[k] : most;
		id[k] -= base;
	}
	return most > max ? most : max;
}

void data_build_row(struct data_build *b, size_t n)
{
	const uint64_t *wide = b->raw ? b->raw + b->nnz : NULL;
	uint32_t *id = b->d->col + (wide ? 0 : b->nnz);
	uint64_t max = b->max_id, min = b->min_id, v;
	uint8_t *seen = b->seen;

	if (b->transient && !wide)
		max = take_base_off(id, n, data_build_base_taken_off(b), max);
	else
		for (size_t k = 0; k < n; k++) {
			v = wide ? wide[k] : id[k];
			if (seen && v < DATA_DIRECT)
				seen[v] = 1;
			max = v > max ? v : max;
			min = v < min ? v : min;
		}
	b->max_id = max;
	b->min_id = min;
	b->nnz += n;
	b->d->rows++;
	b->d->start[b->d->rows] = b->nnz;
}

/* As many as are expected, or half as many again as there are. */
bool data_build_reserve(struct data_build *b, size_t n, size_t rows)
{
	struct dataset *d = b->d;
	size_t need = b->nnz + n, start = d->rows + rows + 1, half;

	if (!mark_seen_ids(b, need))
		return false;
	half = need < b->expected_values ? b->expected_values : need + need / 2;
	if (need > b->room && !sparse_resize(b, half) && !sparse_resize(b, need))
		return false;
	if (start > b->start_room) {
		half = start < b->expected_rows ? b->expected_rows : start + start / 2;
		if (!data_build_resize((void **)&d->start, half, sizeof *d->start))
			return false;
		b->start_room = half;
		d->start[0] = 0;
	}
	return true;
}

static bool reserve_weights(struct data_build *b, size_t n);
static bool reserve_groups(struct data_build *b, size_t n);
static bool reserve_names(struct data_build *b, size_t n);

static bool append_weights(struct data_build *b, const struct dataset *d)
{
	if (!d->weight)
		return true;
	if (!reserve_weights(b, b->d->rows + d->rows))
		return false;
	memcpy(b->d->weight + b->d->rows, d->weight, d->rows * sizeof *d->weight);
	b->weights_scaled = true;
	return true;
}

static bool append_groups(struct data_build *b, const struct dataset *d)
{
	if (!d->group)
		return true;
	if (!reserve_groups(b, b->d->rows + d->rows))
		return false;
	memcpy(b->d->group + b->d->rows, d->group, d->rows * sizeof *d->group);
	return true;
}

static bool append_names(struct data_build *b, const struct dataset *d)
{
	if (!d->name)
		return true;
	if (!reserve_names(b, b->d->rows + d->rows))
		return false;
	for (size_t i = 0; i < d->rows; i++) {
		free(b->d->name[b->d->rows + i]);
		b->d->name[b->d->rows + i] = mem_strdup(d->name[i]);
	}
	return true;
}

enum err_code data_build_append(struct data_build *b, const struct dataset *d, struct err *e)
{
	enum err_code rc;

	if (!b->first) {
		b->first = mem_strdup(d->source ? d->source : "data");
		b->d->source = mem_strdup(b->first);
		b->d->format = d->format;
		b->d->options = data_option_copy(d->options);
	}
	if (d->rows > UINT32_MAX - b->d->rows)
		return err_set(e, ERR_LIMIT, "%s: more than %u examples", b->first, UINT32_MAX);
	rc = data_shape_of(d)->append(b, d, e);
	if (!rc && !append_weights(b, d))
		rc = err_set(e, ERR_NOMEM, "no memory for the weights of %s", b->first);
	if (!rc && !append_groups(b, d))
		rc = err_set(e, ERR_NOMEM, "no memory for the groups of %s", b->first);
	if (!rc && !append_names(b, d))
		rc = err_set(e, ERR_NOMEM, "no memory for the names of %s", b->first);
	if (!rc)
		rc = data_label_append(b->label, d, e);
	if (!rc)
		b->d->rows += d->rows;
	return rc;
}

/* Drops the names that were given after the first n rows. */
static void drop_names(struct data_build *b, size_t n)
{
	while (b->names > n)
		free(b->d->name[--b->names]);
}

/* A bad line may have given a label without a row, or a row without a label. */
static void drop_unfinished_row(struct data_build *b)
{
	struct dataset *d = b->d;
	size_t labels = data_label_count(b->label);

	if (labels < d->rows) {
		d->rows = labels;
		if (d->sparse)
			b->nnz = d->start[labels];
	}
	data_label_drop(b->label, d->rows);
	if (b->weights > d->rows)
		b->weights = d->rows;
	if (b->groups > d->rows)
		b->groups = d->rows;
	drop_names(b, d->rows);
	if (b->table)
		data_table_drop(b);
}

enum err_code data_build_bad_line(struct data_build *b, const struct stream *s, enum err_code rc,
    struct err *e)
{
	if (rc == ERR_FORMAT)
		rc = data_bad_lines_skip(b->want.bad, s, e);
	if (rc == ERR_OK) {
		drop_unfinished_row(b);
		b->d->reading.skipped++;
	}
	return rc;
}

/* Makes room for the weights of n rows, and gives those that have none yet the weight 1. */
static bool reserve_weights(struct data_build *b, size_t n)
{
	struct dataset *d = b->d;
	size_t room = n <= b->weight_room ? b->weight_room : 2 * n + 1024;

	if (room > b->weight_room &&
	    !data_build_resize((void **)&d->weight, room, sizeof(*d->weight)))
		return false;
	b->weight_room = room;
	for (; b->weights < n; b->weights++)
		d->weight[b->weights] = 1;
	return true;
}

enum err_code data_build_weight(struct data_build *b, const struct stream *s, double weight,
    struct err *e)
{
	if (!reserve_weights(b, b->d->rows + 1))
		return no_memory_for_examples(b, s, e);
	b->d->weight[b->d->rows] = (float)weight;
	return ERR_OK;
}

/* Makes room for the groups of n rows; those that have none yet are in no group. */
static bool reserve_groups(struct data_build *b, size_t n)
{
	struct dataset *d = b->d;
	size_t room = n <= b->group_room ? b->group_room : 2 * n + 1024;

	if (room > b->group_room && !data_build_resize((void **)&d->group, room, sizeof(*d->group)))
		return false;
	b->group_room = room;
	for (; b->groups < n; b->groups++)
		d->group[b->groups] = 0;
	return true;
}

enum err_code data_build_group(struct data_build *b, const struct stream *s, const char *name,
    struct err *e)
{
	uint64_t group = data_hash(0, name, strlen(name));

	if (!reserve_groups(b, b->d->rows + 1))
		return no_memory_for_examples(b, s, e);
	b->d->group[b->d->rows] = group ? group : 1;
	return ERR_OK;
}

/* Makes room for the names of n rows; rows that have none yet have an empty one. */
static bool reserve_names(struct data_build *b, size_t n)
{
	struct dataset *d = b->d;
	size_t room = n <= b->name_room ? b->name_room : 2 * n + 1024;

	if (room > b->name_room && !data_build_resize((void **)&d->name, room, sizeof(*d->name)))
		return false;
	b->name_room = room;
	while (b->names < n)
		d->name[b->names++] = mem_strdup("");
	return true;
}

enum err_code data_build_name(struct data_build *b, const struct stream *s, const char *name,
    struct err *e)
{
	char **place, *joined;

	if (!b->want.names)
		return ERR_OK;
	if (!reserve_names(b, b->d->rows + 1))
		return no_memory_for_examples(b, s, e);
	place = &b->d->name[b->d->rows];
	joined = **place ? mem_printf("%s,%s", *place, name) : mem_strdup(name);
	free(*place);
	*place = joined;
	return ERR_OK;
}

/* The factor that makes the mean weight 1. */
static enum err_code measure_weights(struct data_build *b, struct err *e)
{
	struct dataset *d = b->d;
	double sum = 0;

	for (size_t r = 0; r < d->rows; r++)
		sum += (double)d->weight[r];
	d->weight_factor = (float)((double)d->rows / sum);
	return sum > 0 && isfinite(d->weight_factor)
	    ? ERR_OK
	    : err_set(e, ERR_FORMAT,
	          "%s: all weights are 0 or too small; at least one must be above 0", b->first);
}

/* Scales the weights of data without a schema as the weights of the training data: an example
 * without one has 1 before that. */
static enum err_code scale_weights(struct data_build *b, struct err *e)
{
	struct dataset *d = b->d;
	float like = b->like ? b->like->weight_factor : 0;
	enum err_code rc = ERR_OK;

	if (b->table || b->weights_scaled || (!d->weight && like == 0))
		return ERR_OK;
	if (!reserve_weights(b, d->rows))
		return err_set(e, ERR_NOMEM, "no memory for the weights of %zu examples", d->rows);
	if (like > 0 || (b->like && !b->extends))
		d->weight_factor = like > 0 ? like : 1;
	else
		rc = measure_weights(b, e);
	if (!rc)
		vec_scale(d->rows, d->weight_factor, d->weight);
	return rc;
}

static enum err_code compare_names(const struct stream *s, char *const *name, char *const *known,
    size_t cols, const char *whose, struct err *e)
{
	char a[DATA_SHOWN], b[DATA_SHOWN];

	for (size_t i = 0; known && i < cols; i++) {
		if (strcmp(name[i], known[i]) == 0)
			continue;
		data_shown(a, name[i], strlen(name[i]));
		data_shown(b, known[i], strlen(known[i]));
		return stream_fail(s, e, "feature %zu is named \"%s\", but \"%s\" in %s", i + 1, a,
		    b, whose);
	}
	return ERR_OK;
}

enum err_code data_build_names(struct data_build *b, const struct stream *s, char *const *name,
    size_t cols, struct err *e)
{
	struct dataset *d = b->d;
	enum err_code rc = ERR_OK;

	if (b->like && b->like->cols == cols)
		rc = compare_names(s, name, b->like->feature_name, cols, b->like->source, e);
	if (rc == ERR_OK && d->rows > 0 && d->cols == cols)
		rc = compare_names(s, name, d->feature_name, cols, b->first, e);
	if (rc != ERR_OK || d->feature_name || d->rows > 0)
		return rc;
	/* From here on every row must have this width. */
	d->cols = cols;
	d->feature_name = mem_array(cols, sizeof(*d->feature_name));
	for (size_t i = 0; i < cols; i++)
		d->feature_name[i] = mem_strdup(name[i]);
	return ERR_OK;
}

enum err_code data_build_norm(struct data_build *b, const struct stream *s, struct err *e)
{
	struct dataset *d = b->d;
	const struct data_shape *shape = data_shape_of(d);

	if (d->x8 || !shape->row)
		return err_set(e, ERR_CONFIG,
		    "%s: norm=l2 requires rows of numbers, and this is %s", stream_name(s),
		    d->format);
	for (size_t r = b->rows_before; r < d->rows; r++) {
		size_t n;
		float *row = shape->row(d, r, &n);
		double length = vec_norm2(n, row);

		/* The inverse of a very small length is not a float. */
		if (length > 0 && isfinite((float)(1 / length)))
			vec_scale(n, (float)(1 / length), row);
		else if (length > 0)
			for (size_t k = 0; k < n; k++)
				row[k] = (float)((double)row[k] / length);
	}
	return ERR_OK;
}

/* ---- memory that is used again ---- */

/* Do the rows end in the arrays in which they are built? Those of tables with categories do not. */
static bool ends_in_place(const struct data_build *b)
{
	const struct data_schema *s = b->table ? data_table_schema(b)
	    : b->like                          ? b->like->schema
	                                       : NULL;

	return !s || data_schema_is_numeric(s);
}

void data_build_reuse(struct data_build *b, struct dataset *old)
{
	struct dataset *d = b->d;

	if (old && !old->memory.map && !data_shape_of(old)->own_targets && ends_in_place(b)) {
		d->x = old->x;
		d->x8 = old->x8;
		d->start = old->start;
		d->col = old->col;
		d->val = old->val;
		d->field = old->field;
		old->x = NULL;
		old->x8 = NULL;
		old->start = NULL;
		old->col = NULL;
		old->val = NULL;
		old->field = NULL;
		data_label_reuse(b->label, old);
		b->room = old->memory.value_room;
		b->start_room = old->memory.start_room;
		if (b->start_room)
			d->start[0] = 0;
	}
	dataset_free(old);
}

/* Shrinks an array to n elements, if realloc can. */
static void trim_array(void **p, size_t n, size_t size)
{
	void *q = *p && n > 0 ? realloc(*p, n * size) : NULL;

	if (q)
		*p = q;
}

static void trim_arrays(struct data_build *b)
{
	struct dataset *d = b->d;

	trim_array((void **)&d->x, d->rows * d->cols, sizeof(*d->x));
	trim_array((void **)&d->x8, d->rows * d->cols, sizeof(*d->x8));
	trim_array((void **)&d->weight, d->rows, sizeof(*d->weight));
	trim_array((void **)&d->group, d->rows, sizeof(*d->group));
	trim_array((void **)&d->val, b->nnz, sizeof(*d->val));
	trim_array((void **)&d->col, b->nnz, sizeof(*d->col));
	trim_array((void **)&d->field, b->nnz, sizeof(*d->field));
	trim_array((void **)&d->start, d->rows + 1, sizeof(*d->start));
}

static void count_fields(struct data_build *b)
{
	struct dataset *d = b->d;
	uint16_t most = 0;

	for (uint64_t k = 0; k < b->nnz; k++)
		most = d->field[k] > most ? d->field[k] : most;
	d->fields = (size_t)most + 1;
	if (b->like && b->like->fields > d->fields)
		d->fields = b->like->fields;
}

static enum err_code fail_empty(const struct data_build *b, struct err *e)
{
	return err_set(e, ERR_FORMAT,
	    b->d->reading.unlabelled
	        ? "%s: no row has a label, because the column is empty; name another one by ?label="
	        : b->d->reading.heading ? "%s: has no examples below its header"
	                                : "%s: has no examples",
	    b->first);
}

/* Makes models fit targets with the mean 0 and the variance 1, unless all targets are equal. A schema
 * says by itself how its targets are fitted. */
static void standardize_targets(struct dataset *d)
{
	double sum = 0, squares = 0, mean, factor;

	if (d->schema || !d->y || d->classes)
		return;
	for (size_t i = 0; i < d->rows; i++)
		sum += (double)d->y[i];
	mean = sum / (double)d->rows;
	for (size_t i = 0; i < d->rows; i++)
		squares += ((double)d->y[i] - mean) * ((double)d->y[i] - mean);
	factor = 1 / sqrt(squares / (double)d->rows);
	if (!isfinite(mean) || !isfinite(factor) || factor <= 0)
		return;
	d->target_shift = mean;
	d->target_factor = factor;
}

/* Decides how models fit the targets: as before, where the data extend others. */
static void choose_target_scaling(struct data_build *b)
{
	if (b->extends) {
		b->d->target_shift = b->like->target_shift;
		b->d->target_factor = b->like->target_factor;
	} else if (b->scales_targets) {
		standardize_targets(b->d);
	}
}

enum err_code data_build_finish(struct data_build *b, struct dataset **out, struct err *e)
{
	struct dataset *d = b->d;
	const struct data_shape *shape = data_shape_of(d);
	enum err_code rc;

	*out = NULL;
	if (shape->own_targets) {
		rc = shape->finish(b, e);
		*out = rc ? NULL : d;
		b->d = rc ? d : NULL;
		return rc;
	}
	if (d->rows == 0)
		return fail_empty(b, e);
	if (d->weight && !reserve_weights(b, d->rows))
		return err_set(e, ERR_NOMEM, "no memory for the weights of %zu examples", d->rows);
	if ((rc = scale_weights(b, e)) != ERR_OK)
		return rc;
	if (d->group && !reserve_groups(b, d->rows))
		return err_set(e, ERR_NOMEM, "no memory for the groups of %zu examples", d->rows);
	drop_names(b, d->rows);
	if (d->name && !reserve_names(b, d->rows))
		return err_set(e, ERR_NOMEM, "no memory for the names of %zu examples", d->rows);
	assert(data_label_count(b->label) == d->rows);
	rc = data_label_finish(b->label, d, e);
	if (rc == ERR_OK && b->table)
		rc = data_table_finish(b, e);
	else if (rc == ERR_OK && shape->finish)
		rc = shape->finish(b, e);
	if (rc == ERR_OK)
		rc = data_spreads_check(b, e);
	if (rc != ERR_OK)
		return rc;
	choose_target_scaling(b);
	if (d->field)
		count_fields(b);
	if (!b->transient)
		trim_arrays(b);
	d->memory.value_room = b->transient && ends_in_place(b) ? b->room : 0;
	d->memory.start_room = b->transient && ends_in_place(b) ? b->start_room : 0;
	*out = d;
	b->d = NULL;
	return ERR_OK;
}

/* ---- streams ---- */

/* Checks the options of the stream, which is in this format, and completes them by the options of the
 * data that it is read like. Notes the options of the first stream. */
static enum err_code settle_options(struct data_build *b, size_t format, const char *name,
    struct err *e)
{
	struct data_options *o = &b->options;
	const char *scale = b->like && b->like->options ? b->like->options->scale : b->scale;
	enum err_code rc = data_option_check(o, format, name, e);

	if (!rc)
		rc = data_option_take(o, b->like, format, !data_label_is_ignored(b->label), name,
		    e);
	if (rc)
		return rc;
	data_option_complete(o, name);
	if (!o->bits)
		o->bits = data_readers[format]->bits;
	if (b->d->options)
		return data_option_agree(o, b->d->options, format, name, e);
	b->d->options = data_option_note(o, format, scale);
	return ERR_OK;
}

enum err_code data_build_begin(struct data_build *b, struct stream *s, const struct data_options *o,
    struct err *e)
{
	const struct data_reader *reader = &data_reader_text;
	const char *title;
	enum err_code rc = stream_skip_mark(s, e);

	data_uri_release(&b->options);
	b->options = data_uri_copy(o);
	data_option_take_format(&b->options, b->like);
	if (!rc && (!b->want.words || b->options.format))
		rc = data_guess_reader(s, &b->options, &b->want, b->reader, b->like, &reader, e);
	if (!rc && reader->text && reader->text->line)
		rc = data_head_begin(s, e);
	if (rc != ERR_OK)
		return rc;
	title = data_formats()[data_reader_number(reader)].title;
	if (b->want.words && reader != &data_reader_text)
		return err_set(e, ERR_CONFIG, "%s: is %s, but the model needs plain text",
		    stream_name(s), title);
	if (!b->first) {
		b->first = mem_strdup(stream_name(s));
		b->d->source = mem_strdup(b->first);
		b->d->format = title;
		b->reader = reader;
	} else if (b->reader != reader) {
		return err_set(e, ERR_FORMAT,
		    "%s is %s but %s is %s; all files must have the same format", stream_name(s),
		    title, b->first, b->d->format);
	}
	rc = settle_options(b, data_reader_number(reader), stream_name(s), e);
	if (rc)
		return rc;
	b->values_before = b->d->sparse ? b->nnz : b->d->rows * b->d->cols;
	b->rows_before = b->d->rows;
	b->d->reading.heading = 0;
	b->d->reading.separator = 0;
	free(b->stream_heading);
	b->stream_heading = NULL;
	return ERR_OK;
}

/* Feeds the rest of the stream, which has begun, to the parser of its format. */
static enum err_code parse_stream(struct data_build *b, struct stream *s, struct err *e)
{
	struct data_parser *p = data_parser_new(stream_name(s), &b->options);
	enum err_code rc;
	double fed = 0;
	size_t n;
	char *bytes;

	data_parser_skip_lines(p, stream_lineno(s));
	data_parser_begin_chosen(p, b);
	do {
		double share;

		rc = stream_take(s, &bytes, &n, e);
		share = stream_progress(s);
		fed += (double)n;
		data_parser_expect(p, share > 0 ? fed / share : 0);
		if (!rc)
			rc = data_parser_feed(p, bytes, n, e);
	} while (!rc && n);
	if (!rc)
		rc = data_parser_end(p, true, e);
	data_parser_free(p);
	return rc;
}

enum err_code data_build_read(struct data_build *b, struct stream *s, const struct data_options *o,
    struct err *e)
{
	enum err_code rc = data_build_begin(b, s, o, e);

	if (rc)
		return rc;
	if (b->reader->text)
		return parse_stream(b, s, e);
	rc = b->reader->read(b, s, &b->options, e);
	return rc || !b->options.norm ? rc : data_build_norm(b, s, e);
}

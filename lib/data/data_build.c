#include "data/data_build.h"

#include <assert.h>
#include <math.h>

#include "base/log.h"
#include "base/mem.h"
#include "data/data_compact.h"

struct data_build *data_build_new(const struct data_want *want, const struct dataset *like,
                                  const char *base_dir)
{
	struct data_build *b = mem_alloc(sizeof(*b));

	b->d = mem_alloc(sizeof(*b->d));
	b->d->index_base = like ? like->index_base : -1;
	b->index_base = -1;
	b->like = like;
	b->base_dir = base_dir;
	b->label = data_label_new(want, like);
	return b;
}

void data_build_free(struct data_build *b)
{
	if (!b)
		return;
	dataset_free(b->d);
	data_label_free(b->label);
	free(b->raw);
	free(b->first);
	free(b);
}

void data_shown(char out[static DATA_SHOWN], const char *p, size_t n)
{
	if (n > 40)
		n = 40;
	log_escape(out, DATA_SHOWN - 40, p, n);
}

/* Memory for `need` elements, at least doubled when it has to grow. */
static bool grow(void **p, size_t room, size_t need, size_t size)
{
	size_t bytes;
	void *q;

	if (need < 2 * room)
		need = 2 * room;
	if (__builtin_mul_overflow(need, size, &bytes))
		return false;
	q = realloc(*p, bytes ? bytes : 1);
	if (q)
		*p = q;
	return q != NULL;
}

static enum err_code no_memory(const struct data_build *b, const struct stream *s, struct err *e)
{
	return err_set(e, ERR_NOMEM, "no memory for the examples of %s (%zu read so far)", stream_name(s),
	               b->d->rows);
}

/* Every row that is begun must have a number of 32 bits. */
static enum err_code check_rows(const struct data_build *b, const struct stream *s, size_t n,
                                struct err *e)
{
	if (n > UINT32_MAX - b->d->rows)
		return err_set(e, ERR_LIMIT, "%s: more than %u examples", stream_name(s), UINT32_MAX);
	return ERR_OK;
}

static enum err_code check_kind(struct data_build *b, const struct stream *s, bool sparse, size_t cols,
                                struct err *e)
{
	struct dataset *d = b->d;

	if (b->like && b->like->sparse != sparse)
		return stream_fail(s, e, "has %s rows but the training data (%s) has %s ones",
		                   sparse ? "sparse" : "dense", b->like->source, sparse ? "dense" : "sparse");
	if (sparse)
		return ERR_OK;
	if ((d->rows > 0 || d->feature_name) && cols != d->cols)
		return stream_fail(s, e, "has %zu features a row, %s has %zu", cols, b->first, d->cols);
	if (cols == 0)
		return stream_fail(s, e, "has a label but no features");
	if (b->like && b->like->cols != cols)
		return stream_fail(s, e, "has %zu features a row, the training data (%s) has %zu", cols,
		                   b->like->source, b->like->cols);
	d->cols = cols;
	return ERR_OK;
}

static enum err_code dense_room(struct data_build *b, const struct stream *s, void **x, size_t size,
                                size_t n, struct err *e)
{
	enum err_code rc = check_rows(b, s, n, e);
	size_t need;

	if (rc != ERR_OK)
		return rc;
	if (__builtin_mul_overflow(b->d->rows + n, b->d->cols, &need))
		return no_memory(b, s, e);
	if (need > b->room) {
		if (!grow(x, b->room, need, size))
			return no_memory(b, s, e);
		b->room = need < 2 * b->room ? 2 * b->room : need;
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

enum err_code data_build_bytes(struct data_build *b, const struct stream *s, size_t cols, float scale,
                               size_t n, uint8_t **x8, struct err *e)
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

enum err_code data_build_sparse(struct data_build *b, const struct stream *s, size_t n, uint64_t **id,
                                float **val, struct err *e)
{
	struct dataset *d = b->d;
	enum err_code rc = check_rows(b, s, 1, e);
	size_t need = b->nnz + n;

	if (rc == ERR_OK && d->rows == 0)
		rc = check_kind(b, s, true, 0, e);
	if (rc != ERR_OK)
		return rc;
	d->sparse = true;
	if (need > b->room) {
		if (!grow((void **)&b->raw, b->room, need, sizeof(*b->raw)) ||
		    !grow((void **)&d->val, b->room, need, sizeof(*d->val)))
			return no_memory(b, s, e);
		b->room = need < 2 * b->room ? 2 * b->room : need;
	}
	if (d->rows + 2 > b->start_room) {
		if (!grow((void **)&d->start, b->start_room, d->rows + 2, sizeof(*d->start)))
			return no_memory(b, s, e);
		b->start_room = d->rows + 2 < 2 * b->start_room ? 2 * b->start_room : d->rows + 2;
		d->start[0] = 0;
	}
	*id = b->raw + b->nnz;
	*val = d->val + b->nnz;
	return ERR_OK;
}

void data_build_row(struct data_build *b, size_t n)
{
	b->nnz += n;
	b->d->rows++;
	b->d->start[b->d->rows] = b->nnz;
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
		return stream_fail(s, e, "feature %zu is named \"%s\", but \"%s\" in %s", i + 1, a, b, whose);
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

static void fit(void **p, size_t n, size_t size)
{
	void *q = *p && n > 0 ? realloc(*p, n * size) : NULL;

	if (q)
		*p = q;
}

enum err_code data_build_finish(struct data_build *b, struct dataset **out, struct err *e)
{
	struct dataset *d = b->d;
	enum err_code rc;

	*out = NULL;
	if (d->rows == 0)
		return err_set(e, ERR_FORMAT, "%s: holds no examples", b->first);
	assert(data_label_count(b->label) == d->rows);
	rc = data_label_finish(b->label, d, e);
	if (rc == ERR_OK && d->sparse)
		rc = data_compact(b, e);
	if (rc != ERR_OK)
		return rc;
	fit((void **)&d->x, d->rows * d->cols, sizeof(*d->x));
	fit((void **)&d->x8, d->rows * d->cols, sizeof(*d->x8));
	fit((void **)&d->val, b->nnz, sizeof(*d->val));
	fit((void **)&d->start, d->rows + 1, sizeof(*d->start));
	*out = d;
	b->d = NULL;
	return ERR_OK;
}

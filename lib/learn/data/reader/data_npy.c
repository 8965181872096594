/* SPDX-License-Identifier: ISC */
#include <math.h>

#include "core/file.h"
#include "core/mem.h"
#include "core/num.h"
#include "data/data_build.h"
#include "data/reader/data_rows.h"
#include "format/npy.h"

/* A two-dimensional array with a row an example. The labels are one of its columns (?label=NUMBER
 * from 1, or last, the default), or a one-dimensional array in another file (?labels=FILE). */

#define COLS_MAX (1u << 24)

struct layout {
	size_t width, cols; /* values in a row of the file; features among them */
	size_t label;       /* column of the label; width: none */
	bool unlabelled;    /* neither a column nor another file has labels */
};

/* Finds the label column by ?label=. Where labels are ignored, an array that is as wide as the training
 * data, `like`, has no label column. */
static enum err_code find_label_column(bool ignored, const struct dataset *like, const char *file,
    const struct data_options *o, struct layout *l, struct err *e)
{
	int64_t number;

	l->label = l->width;
	l->cols = l->width;
	if (o->labels) {
		if (o->label)
			return err_set(e, ERR_FORMAT, "%s: give label= or labels=, not both", file);
		return ERR_OK;
	}
	if (ignored && like && like->cols == l->width)
		return ERR_OK;
	l->cols = l->width - 1;
	l->label = l->width - 1;
	if (!o->label || strcmp(o->label, "last") == 0)
		return ERR_OK;
	if (!num_int(o->label, 1, (int64_t)l->width, &number))
		return err_set(e, ERR_FORMAT,
		    "%s: label= must be a column from 1 to %zu, or last, not \"%.60s\"", file,
		    l->width, o->label);
	l->label = (size_t)number - 1;
	return ERR_OK;
}

/* Appends one row of `width` numbers; the column l->label, if below width, is its label and the
 * others its features. `number` counts rows from 0, messages count from 1. */
static enum err_code add_npy_row(struct data_build *b, struct stream *s, const struct layout *l,
    const double *row, size_t number, struct err *e)
{
	enum err_code rc;
	size_t at = 0;
	float *x;

	for (size_t c = 0; c < l->width; c++)
		if (!isfinite((float)row[c]))
			return stream_fail(s, e,
			    "row %zu, column %zu is not a finite float32 number", number + 1,
			    c + 1);
	rc = data_build_dense(b, s, l->cols, 1, &x, e);
	if (rc != ERR_OK)
		return rc;
	for (size_t c = 0; c < l->width; c++)
		if (c != l->label) {
			data_build_spread(b, at, row[c]);
			x[at++] = (float)row[c];
		}
	data_build_rows(b, 1);
	if (l->label == l->width && !l->unlabelled)
		return ERR_OK;
	return data_label_number(b->label, s, l->unlabelled ? 0 : row[l->label], e);
}

struct npy_file {
	struct data_rows base;
	struct npy features, labels;
	struct layout layout;
};

/* Appends rows (struct data_rows). */
static enum err_code append_npy_rows(const struct data_rows *r, struct stream *s,
    struct stream *labels, uint64_t first, size_t n, struct data_build *b, struct err *e)
{
	const struct npy_file *f = (const struct npy_file *)r;
	double *row = mem_try_array(f->layout.width, sizeof *row),
	       *y = labels ? mem_try_array(n, sizeof *y) : NULL;
	enum err_code rc = ERR_OK;

	if (!row || (labels && !y))
		rc = err_set(e, ERR_NOMEM, "no memory for %zu row%s of %s", n, NUM_S(n),
		    stream_name(s));
	for (size_t i = 0; !rc && i < n; i++) {
		rc = npy_read_exact(s, &f->features, row, f->layout.width, e);
		if (!rc)
			rc = add_npy_row(b, s, &f->layout, row, (size_t)first + i, e);
	}
	if (!rc && labels)
		rc = npy_read_exact(labels, &f->labels, y, n, e);
	for (size_t i = 0; !rc && labels && i < n; i++)
		rc = data_label_number(b->label, labels, y[i], e);
	free(row);
	free(y);
	return rc;
}

/* Describes an array of features, whose header was read, and finds the label column. */
static enum err_code describe_array(struct npy_file *x, const char *name,
    const struct data_options *o, bool ignored, const struct dataset *like, struct err *e)
{
	const struct npy *h = &x->features;
	enum err_code rc;

	x->base.append = append_npy_rows;
	x->base.rows = h->shape[0];
	x->base.head = h->head;
	x->base.width = h->shape[1] * npy_value_size(h);
	x->layout.width = (size_t)h->shape[1];
	rc = find_label_column(ignored, like, name, o, &x->layout, e);
	x->layout.unlabelled = x->layout.label == x->layout.width && !o->labels;
	return rc;
}

/* Opens the labels of a separate file, one float a row of the features. The name is relative to the
 * base directory of the data path and not to the file of features. */
static enum err_code open_labels(struct npy_file *x, const struct data_build *b, const char *name,
    const struct stream *features, struct stream **out, struct err *e)
{
	char *path = b->base_dir ? path_join(b->base_dir, name) : mem_strdup(name);
	const struct npy *h = &x->labels;
	uint64_t rows = x->base.rows;
	enum err_code rc = stream_open(path, out, e);

	if (rc == ERR_OK)
		rc = npy_read_header(*out, &x->labels, e);
	if (rc == ERR_OK && (h->rank != 1 || h->count != rows))
		rc = stream_fail(*out, e,
		    "must be a one-dimensional array of %llu label%s, one for each row of %s",
		    (unsigned long long)rows, NUM_S(rows), stream_name(features));
	free(path);
	return rc;
}

static enum err_code read_array(struct data_build *b, struct stream *s,
    const struct data_options *o, struct err *e)
{
	struct npy_file x = { 0 };
	const struct npy *h = &x.features;
	struct stream *labels = NULL;
	enum err_code rc = npy_read_header(s, &x.features, e);

	if (rc != ERR_OK)
		return rc;
	if (h->rank != 2)
		return stream_fail(s, e,
		    "has %zu dimension%s, expected two, with a row for each example (numpy: "
		    "x.reshape(len(x), -1))",
		    h->rank, NUM_S(h->rank));
	if (h->shape[1] == 0 || h->shape[1] > COLS_MAX)
		return stream_fail(s, e, "has rows with no values or more than %u", COLS_MAX);
	rc = describe_array(&x, stream_name(s), o, data_label_is_ignored(b->label), b->like, e);
	if (rc == ERR_OK && o->labels)
		rc = open_labels(&x, b, o->labels, s, &labels, e);
	if (rc == ERR_OK)
		rc = data_rows_read_all(&x.base, s, labels, b, e);
	stream_close(labels);
	return rc;
}

/* ---- parts ---- */

static enum err_code read_npy_header(const struct data_file *f, struct npy *h, struct err *e)
{
	struct stream *s;
	enum err_code rc = data_file_part(f, 0, data_file_cut(f, DATA_PROBE), &s, e);

	if (!rc)
		rc = npy_read_header(s, h, e);
	stream_close(s);
	return rc;
}

/* Opens the file of labels. */
static enum err_code open_npy_labels(struct npy_file *x, const char *name, const char *base_dir,
    bool *fit, struct err *e)
{
	char *path = base_dir ? path_join(base_dir, name) : mem_strdup(name);
	struct npy *h = &x->labels;
	enum err_code rc = data_file_open(path, NULL, &x->base.labels, fit, e);

	free(path);
	if (!rc && *fit)
		rc = read_npy_header(&x->base.labels, h, e);
	if (rc || !*fit)
		return rc;
	*fit = h->rank == 1 && h->count == x->base.rows;
	x->base.label_head = h->head;
	x->base.label_width = npy_value_size(h);
	return ERR_OK;
}

/* Faults of the arrays are left to read_array, which reports them. */
static enum err_code cut_npy(struct data_file *f, const char *base_dir,
    const struct data_want *want, const struct dataset *like, uint64_t bytes,
    struct data_part **out, size_t *n, struct err *e)
{
	struct npy_file *x = mem_alloc(sizeof *x);
	struct npy *h = &x->features;
	bool fit = false;
	enum err_code rc = read_npy_header(f, h, e);

	*out = NULL;
	*n = 0;
	f->own = x;
	if (rc || h->rank != 2 || h->shape[1] == 0 || h->shape[1] > COLS_MAX)
		return rc;
	rc = describe_array(x, f->name, &f->options, want->any, like, e);
	fit = !rc;
	if (!rc && f->options.labels)
		rc = open_npy_labels(x, f->options.labels, base_dir, &fit, e);
	if (!rc && fit)
		data_rows_cut(f, bytes, out, n);
	return rc;
}

static const struct data_parts parts_npy = { cut_npy, data_rows_release, data_rows_open,
	data_rows_read, data_rows_close, data_rows_width };

static int score_npy(const struct data_sample *s)
{
	const uint8_t *p = s->bytes;
	size_t n = s->n;

	return n >= 6 && memcmp(p, "\x93NUMPY", 6) == 0 ? DATA_SCORE_SURE : DATA_SCORE_NONE;
}

const struct data_reader data_reader_npy = { .score = score_npy,
	.read = read_array,
	.parts = &parts_npy,
	.to_ratings = "write them as lines of text" };

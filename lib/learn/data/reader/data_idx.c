/* SPDX-License-Identifier: ISC */
#include <unistd.h>

#include "core/buf.h"
#include "core/file.h"
#include "core/mem.h"
#include "core/num.h"
#include "data/data_build.h"
#include "data/source/data_object.h"
#include "data/reader/data_rows.h"
#include "format/uri.h"

/* The IDX format of the MNIST files (LeCun, Cortes, Burges): two zero bytes, a type, the number of
 * dimensions, the dimensions as big-endian 32-bit numbers, then the values. Images are unsigned
 * bytes; they are stored as such and count 1/255 each. */

#define TYPE_BYTE 0x08
#define COLS_MAX  (1u << 28)

struct idx {
	unsigned type, rank;
	size_t rows, cols; /* first dimension; product of the others */
};

static enum err_code read_idx_bytes(struct stream *s, uint8_t *p, size_t n, struct err *e)
{
	size_t got;
	enum err_code rc = stream_read(s, p, n, &got, e);

	if (rc == ERR_OK && got < n)
		return stream_fail(s, e, "is cut off within its IDX header");
	return rc;
}

/* The header (Y. LeCun's MNIST page): two zero bytes, the type of the values, the number of
 * dimensions, then each dimension as a big-endian u32. The first dimension is the number of rows;
 * the product of the others becomes cols, so an image is one flat row. */
static enum err_code read_idx_header(struct stream *s, struct idx *h, struct err *e)
{
	uint8_t head[4], dim[4];
	enum err_code rc = read_idx_bytes(s, head, 4, e);
	uint32_t v;

	if (rc != ERR_OK)
		return rc;
	if (head[0] || head[1] || !head[3])
		return stream_fail(s, e, "is not an IDX file");
	*h = (struct idx){ .type = head[2], .rank = head[3], .cols = 1 };
	for (unsigned i = 0; i < h->rank; i++) {
		rc = read_idx_bytes(s, dim, 4, e);
		if (rc != ERR_OK)
			return rc;
		v = (uint32_t)dim[0] << 24 | (uint32_t)dim[1] << 16 | (uint32_t)dim[2] << 8 |
		    dim[3];
		if (i == 0)
			h->rows = v;
		else if (v == 0 || v > COLS_MAX / h->cols)
			return stream_fail(s, e, "has examples with no values or more than %u",
			    COLS_MAX);
		else
			h->cols *= v;
	}
	if (h->type != TYPE_BYTE)
		return stream_fail(s, e,
		    "has IDX values of type 0x%02x; only unsigned bytes (0x08) can be read",
		    h->type);
	return ERR_OK;
}

/* Appends rows (struct data_rows). Bytes stay bytes in memory (x8), count 1/255 each, and are read
 * straight into the dataset. */
static enum err_code append_idx_rows(const struct data_rows *r, struct stream *s,
    struct stream *labels, uint64_t first, size_t n, struct data_build *b, struct err *e)
{
	uint8_t block[4096], *x;
	size_t got = 0;
	enum err_code rc = data_build_bytes(b, s, (size_t)r->width, 1.0f / 255.0f, n, &x, e);

	if (!rc)
		rc = stream_read(s, x, n * (size_t)r->width, &got, e);
	if (!rc && got < n * r->width)
		rc = stream_fail(s, e, "is cut off: it ends after %llu of %llu example%s",
		    (unsigned long long)(first + got / r->width), (unsigned long long)r->rows,
		    NUM_S(r->rows));
	if (!rc)
		data_build_rows(b, n);
	for (size_t i = 0; !rc && !labels && i < n; i++)
		rc = data_label_number(b->label, s, 0, e);
	for (size_t done = 0; !rc && labels && done < n; done += got) {
		rc = stream_read(labels, block, n - done < sizeof block ? n - done : sizeof block,
		    &got, e);
		if (!rc && got == 0)
			rc = stream_fail(labels, e,
			    "is cut off: it ends after %llu of %llu label%s",
			    (unsigned long long)(first + done), (unsigned long long)r->rows,
			    NUM_S(r->rows));
		for (size_t i = 0; !rc && i < got; i++)
			rc = data_label_number(b->label, labels, block[i], e);
	}
	return rc;
}

/* Describes the place of the rows of these images in their file. */
static struct data_rows describe_rows(const struct idx *images)
{
	return (struct data_rows){ .rows = images->rows,
		.head = 4 + 4 * images->rank,
		.width = images->cols,
		.label_head = 8,
		.label_width = 1,
		.append = append_idx_rows };
}

/* Opens an IDX file of labels, and reads its header. */
static enum err_code open_idx_labels(const char *path, const struct stream *images, size_t rows,
    struct stream **out, struct err *e)
{
	struct idx h = { 0 };
	enum err_code rc = data_open(path, out, e);

	if (rc != ERR_OK)
		return rc;
	rc = read_idx_header(*out, &h, e);
	if (rc == ERR_OK && h.rank != 1)
		rc = stream_fail(*out, e, "has %u dimension%s; a file of IDX labels has one",
		    h.rank, NUM_S(h.rank));
	if (rc == ERR_OK && h.rows != rows)
		rc = stream_fail(*out, e, "has %zu label%s, but %s has %zu example%s", h.rows,
		    NUM_S(h.rows), stream_name(images), rows, NUM_S(rows));
	return rc;
}

const char *const data_label_suffix[3] = { "", ".gz", ".zst" };

/* "train-images-idx3-ubyte.gz" -> "train-labels-idx1-ubyte", without .gz or
 * .zst, in a fresh string; NULL when the name does not say "images". */
char *data_label_stem(const char *images)
{
	const char *base = path_basename(images), *at = strstr(base, "images");
	struct buf b = BUF_INIT;
	char *p;

	if (!at)
		return NULL;
	buf_append(&b, images, (size_t)(at - images));
	buf_puts(&b, "labels");
	buf_puts(&b, at + strlen("images"));
	p = strstr((char *)b.data + (at - images), "idx");
	if (p && p[3] >= '1' && p[3] <= '9')
		p[3] = '1';
	if (b.len > 3 && strcmp((char *)b.data + b.len - 3, ".gz") == 0)
		b.data[b.len - 3] = '\0';
	else if (b.len > 4 && strcmp((char *)b.data + b.len - 4, ".zst") == 0)
		b.data[b.len - 4] = '\0';
	return (char *)b.data;
}

static const char *packed_suffix(const char *name)
{
	for (size_t k = 1; k < 3; k++) {
		size_t n = strlen(data_label_suffix[k]);

		if (strlen(name) > n && strcmp(name + strlen(name) - n, data_label_suffix[k]) == 0)
			return data_label_suffix[k];
	}
	return "";
}

/* Finds the label file: the one of ?labels=, or one beside the images with a known suffix. */
static enum err_code find_labels(const char *base_dir, const char *images,
    const struct data_options *o, char **path, struct err *e)
{
	char *stem;

	*path = NULL;
	if (o->labels) {
		*path = base_dir ? path_join(base_dir, o->labels) : mem_strdup(o->labels);
		return ERR_OK;
	}
	stem = data_label_stem(images);
	/* In an object store, assume that the labels are compressed like the images: searching
	 * would be one more way to fail. */
	if (stem && uri_is(stem)) {
		*path = mem_printf("%s%s", stem, packed_suffix(images));
		free(stem);
		return ERR_OK;
	}
	for (size_t i = 0; stem && !*path && i < 3; i++) {
		*path = mem_printf("%s%s", stem, data_label_suffix[i]);
		if (access(*path, F_OK) != 0) {
			free(*path);
			*path = NULL;
		}
	}
	if (!*path)
		stem
		    ? err_set(e, ERR_IO,
		          "no labels for \"%s\": there is no \"%s\" (nor with .gz or .zst); name "
		          "the file by ?labels=FILE",
		          images, stem)
		    : err_set(e, ERR_IO,
		          "no labels for \"%s\": its name does not say \"images\"; name the file by "
		          "?labels=FILE",
		          images);
	free(stem);
	return *path ? ERR_OK : ERR_IO;
}

/* The file of labels is that of the option, else the one whose name belongs to the images. A file
 * of labels alone is refused with a hint, as its name is easily confused. */
static enum err_code read_pair(struct data_build *b, struct stream *s, const struct data_options *o,
    struct err *e)
{
	struct idx h;
	enum err_code rc = read_idx_header(s, &h, e);
	bool labelled = o->labels || !data_label_is_ignored(b->label);
	struct stream *labels = NULL;
	struct data_rows r;
	char *path = NULL;

	if (rc != ERR_OK)
		return rc;
	if (h.rank < 2)
		return stream_fail(s, e, "has IDX labels (one dimension); name the file of images");
	r = describe_rows(&h);
	rc = labelled ? find_labels(b->base_dir, stream_name(s), o, &path, e) : ERR_OK;
	if (rc == ERR_OK && labelled)
		rc = open_idx_labels(path, s, h.rows, &labels, e);
	if (rc == ERR_OK)
		rc = data_rows_read_all(&r, s, labels, b, e);
	stream_close(labels);
	free(path);
	return rc;
}

/* ---- parts ---- */

static enum err_code read_idx_part_header(const struct data_file *f, struct idx *h, struct err *e)
{
	struct stream *s;
	enum err_code rc = data_file_part(f, 0, data_file_cut(f, DATA_PROBE), &s, e);

	if (!rc)
		rc = read_idx_header(s, h, e);
	stream_close(s);
	return rc;
}

/* Faults of the files are left to read_pair, which reports them. */
static enum err_code cut_idx(struct data_file *f, const char *base_dir,
    const struct data_want *want, const struct dataset *like, uint64_t bytes,
    struct data_part **out, size_t *n, struct err *e)
{
	struct data_rows *r = mem_alloc(sizeof *r);
	struct idx images = { 0 }, labels = { 0 };
	bool fit = false, labelled = f->options.labels || !want->any;
	char *path = NULL;
	enum err_code rc = read_idx_part_header(f, &images, e);

	(void)like;
	*out = NULL;
	*n = 0;
	f->own = r;
	if (rc || images.rank < 2)
		return rc;
	*r = describe_rows(&images);
	if (!labelled) {
		data_rows_cut(f, bytes, out, n);
		return ERR_OK;
	}
	rc = find_labels(base_dir, f->name, &f->options, &path, e);
	if (!rc)
		rc = data_file_open(path, NULL, &r->labels, &fit, e);
	if (!rc && fit)
		rc = read_idx_part_header(&r->labels, &labels, e);
	if (!rc && fit && labels.rank == 1 && labels.rows == images.rows)
		data_rows_cut(f, bytes, out, n);
	free(path);
	return rc;
}

static const struct data_parts parts_idx = { cut_idx, data_rows_release, data_rows_open,
	data_rows_read, data_rows_close, data_rows_width };

static int score_idx(const struct data_sample *s)
{
	const uint8_t *p = s->bytes;
	size_t n = s->n;

	return n >= 8 && !p[0] && !p[1] && p[2] >= 0x08 && p[2] <= 0x0e && p[3] >= 1 && p[3] <= 8
	    ? DATA_SCORE_SURE
	    : DATA_SCORE_NONE;
}

const struct data_reader data_reader_idx = { .score = score_idx,
	.read = read_pair,
	.parts = &parts_idx,
	.to_ratings = "write them as lines of text" };

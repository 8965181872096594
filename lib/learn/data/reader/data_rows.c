/* SPDX-License-Identifier: ISC */
#include "data/reader/data_rows.h"

#include "core/mem.h"

/* Bytes of a whole file that are appended at a time. */
#define STEP (1u << 20)

struct rows_cursor {
	struct data_cursor base;
	const struct data_file *file;
	const struct data_part *part;
	struct stream *stream, *labels; /* at row `next` */
	uint64_t next;
};

static const struct data_rows *rows_of(const struct data_file *f)
{
	return f->own;
}

uint64_t data_rows_width(const struct data_file *f)
{
	return rows_of(f)->width;
}

static bool has_labels(const struct data_rows *r)
{
	return r->labels.name;
}

/* Can any row be reached without those before it? */
static bool is_seekable(const struct data_file *f)
{
	return f->plain && (!has_labels(rows_of(f)) || rows_of(f)->labels.plain);
}

static bool is_size(const struct data_file *f, uint64_t head, uint64_t rows, uint64_t width)
{
	return !f->plain ||
	    (f->size >= head && (f->size - head) / width == rows && (f->size - head) % width == 0);
}

void data_rows_cut(struct data_file *f, uint64_t bytes, struct data_part **out, size_t *n)
{
	const struct data_rows *r = rows_of(f);
	uint64_t step = bytes > r->width ? bytes / r->width : 1;

	*out = NULL;
	*n = 0;
	if (r->rows == 0 || !is_size(f, r->head, r->rows, r->width) ||
	    (has_labels(r) && !is_size(&r->labels, r->label_head, r->rows, r->label_width)))
		return;
	if (!is_seekable(f))
		step = r->rows;
	*out = mem_array((size_t)((r->rows + step - 1) / step), sizeof **out);
	for (uint64_t at = 0, end; at < r->rows; at = end) {
		end = r->rows - at > step ? at + step : r->rows;
		(*out)[(*n)++] = (struct data_part){ at, end,
			is_seekable(f) ? (end - at) * r->width : f->size };
	}
}

void data_rows_release(struct data_file *f)
{
	struct data_rows *r = f->own;

	if (r)
		data_file_release(&r->labels);
	free(r);
	f->own = NULL;
}

/* Opens the rows [begin, end) of a file, or, where rows cannot be reached, all of it. */
static enum err_code open_rows(const struct data_file *f, bool seekable, uint64_t head,
    uint64_t width, const struct data_part *p, struct stream **out, struct err *e)
{
	uint8_t skipped[512];
	size_t got = 0;
	enum err_code rc = seekable
	    ? data_file_part(f, head + p->begin * width, head + p->end * width, out, e)
	    : data_file_part(f, 0, f->size, out, e);

	for (uint64_t at = 0; !rc && !seekable && at < head; at += got) {
		rc = stream_read(*out, skipped,
		    head - at < sizeof skipped ? (size_t)(head - at) : sizeof skipped, &got, e);
		if (!rc && got == 0)
			rc = stream_fail(*out, e, "is cut off within its header");
	}
	return rc;
}

enum err_code data_rows_open(const struct data_file *f, const struct data_part *p, struct buf *text,
    struct data_cursor **out, struct err *e)
{
	const struct data_rows *r = rows_of(f);
	struct rows_cursor *c = mem_alloc(sizeof *c);
	bool seekable = is_seekable(f);
	enum err_code rc;

	(void)text;
	*c = (struct rows_cursor){ .base.parts = f->parts, .file = f, .part = p, .next = p->begin };
	rc = open_rows(f, seekable, r->head, r->width, p, &c->stream, e);
	if (!rc && has_labels(r))
		rc = open_rows(&r->labels, seekable, r->label_head, r->label_width, p, &c->labels,
		    e);
	*out = rc ? NULL : &c->base;
	if (rc)
		data_rows_close(&c->base);
	return rc;
}

static enum err_code check_rows_end(struct stream *s, struct err *e)
{
	uint8_t one;
	size_t got;
	enum err_code rc = s ? stream_read(s, &one, 1, &got, e) : ERR_OK;

	if (s && !rc && got)
		return stream_fail(s, e, "has more bytes than its header announces");
	return rc;
}

enum err_code data_rows_read_all(const struct data_rows *r, struct stream *s, struct stream *labels,
    struct data_build *b, struct err *e)
{
	uint64_t step = r->width < STEP ? STEP / r->width : 1, n;
	enum err_code rc = ERR_OK;

	for (uint64_t at = 0; !rc && at < r->rows; at += n) {
		n = r->rows - at < step ? r->rows - at : step;
		rc = r->append(r, s, labels, at, (size_t)n, b, e);
	}
	if (!rc)
		rc = check_rows_end(s, e);
	return rc ? rc : check_rows_end(labels, e);
}

enum err_code data_rows_read(struct data_cursor *base, size_t bytes, struct data_build *b,
    struct err *e)
{
	struct rows_cursor *c = (struct rows_cursor *)base;
	const struct data_rows *r = rows_of(c->file);
	uint64_t n = bytes > r->width ? bytes / r->width : 1, end = c->part->end;
	enum err_code rc = data_build_begin(b, c->stream, &c->file->options, e);

	n = n < end - c->next ? n : end - c->next;
	if (!rc)
		rc = r->append(r, c->stream, c->labels, c->next, (size_t)n, b, e);
	if (!rc && c->file->options.norm)
		rc = data_build_norm(b, c->stream, e);
	if (rc)
		return rc;
	c->next += n;
	c->base.done = (double)(c->next - c->part->begin) / (double)(end - c->part->begin);
	c->base.ended = c->next == end;
	if (c->base.ended)
		rc = check_rows_end(c->stream, e);
	return rc || !c->base.ended ? rc : check_rows_end(c->labels, e);
}

void data_rows_close(struct data_cursor *base)
{
	struct rows_cursor *c = (struct rows_cursor *)base;

	stream_close(c->stream);
	stream_close(c->labels);
	free(c);
}

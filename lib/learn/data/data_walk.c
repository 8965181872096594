/* SPDX-License-Identifier: ISC */
#include "data/data_walk.h"

#include "core/buf.h"
#include "core/mem.h"
#include "data/source/data_object.h"
#include "data/source/data_option.h"
#include "data/source/data_uri.h"

struct data_walk {
	const struct data_walk_policy *policy;
	void *ctx;
	size_t n, next; /* places, and those that were begun */
	bool inside;    /* the place before `next` has more chunks */
	uint32_t chunk; /* the number of the next one there */
	/* The reader of that place, and how many chunks it has read; NULL: the chunks so far
	 * came from `load`. */
	struct data_cursor *cursor;
	uint32_t cursor_chunk;
	struct buf text;      /* of the cursors */
	struct dataset *used; /* no longer needed; NULL: none */
};

struct data_walk *data_walk_new(const struct data_walk_policy *policy, void *ctx, size_t n)
{
	struct data_walk *w = mem_alloc(sizeof *w);

	*w = (struct data_walk){ .policy = policy, .ctx = ctx, .n = n, .text = BUF_INIT };
	return w;
}

static void close_place(struct data_walk *w)
{
	if (w->cursor)
		w->cursor->parts->close(w->cursor);
	w->cursor = NULL;
	w->inside = false;
}

void data_walk_free(struct data_walk *w)
{
	if (!w)
		return;
	close_place(w);
	buf_release(&w->text);
	dataset_free(w->used);
	if (w->policy->free)
		w->policy->free(w->ctx);
	free(w);
}

void *data_walk_context(const struct data_walk *w)
{
	return w->ctx;
}

void data_walk_reuse(struct data_walk *w, struct dataset *used)
{
	dataset_free(w->used);
	w->used = used;
}

size_t data_walk_done(const struct data_walk *w, double *share)
{
	*share = w->inside && w->cursor ? w->cursor->done : 0;
	return w->next - w->inside;
}

/* ---- chunks ---- */

static enum err_code read_whole_file(const struct data_place *p, struct data_build *b,
    struct err *e)
{
	struct stream *s;
	enum err_code rc = data_open(p->name, &s, e);

	if (rc)
		return rc;
	rc = data_build_read(b, s, p->options, e);
	stream_close(s);
	return rc;
}

static enum err_code open_place(struct data_walk *w, const struct data_place *p, struct err *e)
{
	struct stream *s = p->stream;
	enum err_code rc = ERR_OK;

	w->cursor_chunk = 0;
	if (p->file)
		rc = p->file->parts->open(p->file, p->part, &w->text, &w->cursor, e);
	else if (!s)
		rc = data_open(p->name, &s, e);
	if (rc)
		return rc;
	if (!p->file)
		w->cursor = data_lines_of_stream(s, p->options, &w->text);
	w->cursor->multiple = p->multiple;
	return ERR_OK;
}

static enum err_code read_chunk(struct data_walk *w, struct data_build *b, struct err *e)
{
	size_t bytes = (size_t)w->policy->chunk(w->ctx, w->cursor);

	w->cursor_chunk++;
	return w->cursor->parts->read(w->cursor, bytes, b, e);
}

/* Parses the next chunk of the present place, for which it opens the place, and reads over
 * chunks that came from `load`. *last: no chunk follows. */
static enum err_code parse_chunk(struct data_walk *w, struct data_build *b, bool *last,
    struct err *e)
{
	struct data_place p = { 0 };
	enum err_code rc = ERR_OK;

	if (!w->cursor) {
		w->policy->place(w->ctx, w->next - 1, &p);
		*last = p.whole;
		if (p.whole)
			return read_whole_file(&p, b, e);
		rc = open_place(w, &p, e);
	}
	while (!rc && w->cursor_chunk < w->chunk) {
		struct data_build *known = w->policy->begin(w->ctx, true);

		rc = read_chunk(w, known, e);
		data_build_free(known);
	}
	if (!rc)
		rc = read_chunk(w, b, e);
	*last = !rc && w->cursor->ended;
	return rc;
}

/* Loads the next chunk, or parses and stores it, and appends it to the build. The datasets are
 * the same in both cases, since they end between chunks, by the number of examples and values. */
static enum err_code load_chunk(struct data_walk *w, struct data_build *b, bool *last,
    struct err *e)
{
	size_t place = w->next - 1;
	struct data_build *own;
	struct dataset *d = NULL;
	bool skipped;
	enum err_code rc = ERR_OK;

	if (!w->policy->load(w->ctx, place, w->chunk, &d, last)) {
		own = w->policy->begin(w->ctx, true);
		rc = parse_chunk(w, own, last, e);
		skipped = own->d->reading.skipped > 0;
		if (!rc && data_build_count(own))
			rc = data_build_finish(own, &d, e);
		if (!rc && (d || (*last && !skipped)))
			w->policy->store(w->ctx, place, w->chunk, d, *last);
		data_build_free(own);
	}
	if (!rc && d)
		rc = data_build_append(b, d, e);
	dataset_free(d);
	return rc;
}

static bool has_more(const struct data_walk *w)
{
	return w->inside || w->next < w->n;
}

/* Appends the examples of the next chunk to the build. */
static enum err_code take_chunk(struct data_walk *w, struct data_build *b, struct err *e)
{
	bool last = false;
	enum err_code rc;

	if (!w->inside) {
		w->next++;
		w->chunk = 0;
		w->inside = true;
	}
	rc = w->policy->load ? load_chunk(w, b, &last, e) : parse_chunk(w, b, &last, e);
	w->chunk++;
	if (last)
		close_place(w);
	return rc;
}

enum err_code data_walk_all(struct data_walk *w, struct data_build *b, struct err *e)
{
	enum err_code rc = ERR_OK;

	while (!rc && has_more(w))
		rc = take_chunk(w, b, e);
	return rc;
}

static enum err_code read_dataset(struct data_walk *w, struct dataset **out, struct err *e)
{
	struct data_build *b = w->policy->begin(w->ctx, false);
	enum err_code rc = ERR_OK;

	data_build_reuse(b, w->used);
	w->used = NULL;
	while (!rc && has_more(w) && !w->policy->is_full(w->ctx, b))
		rc = take_chunk(w, b, e);
	/* Blocks inside a long line have no line of their own, and bad lines are not examples. */
	if (!rc && data_build_count(b))
		rc = data_build_finish(b, out, e);
	data_build_free(b);
	return rc;
}

enum err_code data_walk_next(struct data_walk *w, struct dataset **out, bool *last, struct err *e)
{
	enum err_code rc;

	*out = NULL;
	do {
		rc = read_dataset(w, out, e);
		*last = !has_more(w);
		if (!rc && *out && w->policy->finish)
			rc = w->policy->finish(w->ctx, *out, e);
		if (*out && (rc || (*out)->rows == 0)) {
			dataset_free(*out);
			*out = NULL;
		}
	} while (!rc && !*out && !*last);
	return rc;
}

/* ---- files ---- */

static enum err_code walk_path(const char *path, const char *base_dir, data_walk_file_fn fn,
    void *ctx, struct err *e)
{
	struct data_options o;
	char *file, **names = NULL;
	size_t n = 0;
	enum err_code rc = data_uri_parse(path, &file, &o, e);

	if (rc)
		return rc;
	rc = data_option_check_file(&o, path, e);
	if (!rc)
		rc = data_uri_expand(file, base_dir, &names, &n, e);
	for (size_t i = 0; !rc && i < n; i++)
		rc = fn(ctx, names[i], path, &o, e);
	data_uri_free(names, n);
	data_uri_release(&o);
	free(file);
	return rc;
}

enum err_code data_walk_files(const char *const *paths, size_t npaths, const char *base_dir,
    data_walk_file_fn fn, void *ctx, struct err *e)
{
	enum err_code rc = ERR_OK;

	for (size_t i = 0; !rc && i < npaths; i++)
		rc = walk_path(paths[i], base_dir, fn, ctx, e);
	return rc;
}

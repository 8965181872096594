/* SPDX-License-Identifier: ISC */
#include "data/data_parts.h"

#include <inttypes.h>

#include "core/mem.h"
#include "data/data_head.h"

/* Lines in parts. A line belongs to the part in which it begins. So the bytes of a part are read
 * from the one before it on, since a line begins at a place if the byte before it is a newline; and
 * on beyond its end, up to the end of the line that begins last. In a compressed file the byte
 * before is not at hand: a line that begins right at a cut belongs to the part before it.
 *
 *   file     ....\n......\n...[...\n......\n......].....\n.....
 *   part                       skipped, then its lines, and the rest of the last one
 *
 * The lines are read in pieces of a bounded number of bytes, each of which is parsed as a text of
 * its own, with the file's heading in front. They are parsed where they were read, which writes to
 * them. */

/* A compressed part of so many bytes is about the data that are asked for. */
#define EXPANSION 4u
/* Bytes of a part that are read at a time. */
#define STEP 65536u
/* Bytes that are read behind the end of a part at first, for the end of its last line. */
#define TAIL_MIN 4096u

struct lines_cursor {
	struct data_cursor base;
	const struct data_file *file;
	const struct data_part *part;
	struct stream *stream;
	uint64_t at, stop; /* bytes of the file: read up to, and the stream's end; plain files */
	uint64_t
	    body; /* the end of the bytes of which each newline begins a line of the part; plain */
	bool body_ended;
	struct buf *text; /* the heading, and what was read and is not parsed */
	size_t heading;   /* bytes of the heading in `text` */
	char *kept;       /* the heading, of a part that begins with it; else it is the file's */
	uint64_t
	    from; /* the byte of the file at which the text behind the heading begins; plain files */
	uint64_t lines; /* parsed so far, the heading as one */
	char *name;     /* for messages */
};

static enum err_code cut_lines(struct data_file *f, const char *base_dir,
    const struct data_want *want, const struct dataset *like, uint64_t bytes,
    struct data_part **out, size_t *n, struct err *e)
{
	uint64_t step = f->plain ? bytes : bytes / EXPANSION + 1;
	size_t room = 0;

	(void)base_dir, (void)want, (void)like, (void)e;
	*out = NULL;
	*n = 0;
	for (uint64_t at = 0, end; at < f->size; at = end) {
		end = data_file_cut(f, f->size - at > step ? at + step : f->size);
		if (*n == room)
			*out = mem_regrow(*out, room = 2 * room + 16, sizeof **out);
		(*out)[(*n)++] = (struct data_part){ at, end, end - at };
	}
	return ERR_OK;
}

static void release_lines(struct data_file *f)
{
	(void)f;
}

static void close_lines(struct data_cursor *base)
{
	struct lines_cursor *c = (struct lines_cursor *)base;

	if (!c)
		return;
	stream_close(c->stream);
	free(c->kept);
	free(c->name);
	free(c);
}

static enum err_code open_lines(const struct data_file *f, const struct data_part *p,
    struct buf *text, struct data_cursor **out, struct err *e)
{
	struct lines_cursor *c = mem_alloc(sizeof *c);
	uint64_t tail = (p->end - p->begin) / 16;
	enum err_code rc;

	*out = &c->base;
	*c = (struct lines_cursor){ .base.parts = &data_parts_lines,
		.file = f,
		.part = p,
		.at = p->begin - (f->plain && p->begin),
		.stop = p->end,
		.body = p->end - (p->end < f->size),
		.text = text };
	c->from = c->at;
	/* The place of a line of a plain file is known (parse_lines). */
	c->name = p->begin && !f->plain ? mem_printf("%s+%" PRIu64, f->name, p->begin)
	                                : mem_strdup(f->name);
	if (f->plain) {
		tail = tail < TAIL_MIN ? TAIL_MIN : tail > STEP ? STEP : tail;
		c->stop = f->size - p->end > tail ? p->end + tail : f->size;
	}
	buf_clear(text);
	if ((p->begin || f->bare) && f->heading)
		buf_puts(text, f->heading);
	c->heading = text->len;
	rc = data_file_part(f, c->at, c->stop, &c->stream, e);
	if (rc) {
		close_lines(&c->base);
		*out = NULL;
	}
	return rc;
}

/* Appends at most n bytes of the stream to the text, which a stream can then read in place. */
static enum err_code append_bytes(struct lines_cursor *c, size_t n, size_t *got, struct err *e)
{
	enum err_code rc;

	buf_reserve(c->text, n + STREAM_PAD);
	rc = stream_read(c->stream, c->text->data + c->text->len, n, got, e);
	c->text->len += *got;
	c->at += *got;
	return rc;
}

/* Appends at most n bytes of the body; sets body_ended when there are no more. */
static enum err_code append_body(struct lines_cursor *c, size_t n, struct err *e)
{
	size_t got;
	enum err_code rc;

	if (c->file->plain && n > c->body - c->at)
		n = (size_t)(c->body - c->at);
	rc = append_bytes(c, n, &got, e);
	c->body_ended = got < n || (c->file->plain && c->at == c->body);
	return rc;
}

static enum err_code check_line(const struct lines_cursor *c, size_t begin, struct err *e)
{
	if (c->text->len - begin <= STREAM_LINE_MAX)
		return ERR_OK;
	return err_set(e, ERR_LIMIT,
	    "%s: line %" PRIu64 " or a later one is longer than %zu MiB; is this a "
	    "text file?",
	    c->name, c->lines + 1, STREAM_LINE_MAX >> 20);
}

/* Appends the rest of the part's last line, which is behind the body. `begin`: where that line may
 * begin in the text. */
static enum err_code append_tail(struct lines_cursor *c, size_t begin, struct err *e)
{
	uint64_t tail = STEP, from;
	enum err_code rc = ERR_OK;

	/* A plain part's stream has some bytes of the tail, and more are asked for as needed. A compressed
	 * part's stream has ended, and its tail is in the rest of the file. */
	if (c->part->end == c->file->size)
		return ERR_OK;
	while (!rc) {
		size_t seen = c->text->len, got = 0;
		const uint8_t *nl;

		if (c->stream)
			rc = append_bytes(c, TAIL_MIN, &got, e);
		nl = got ? memchr(c->text->data + seen, '\n', got) : NULL;
		if (nl)
			c->text->len = (size_t)(nl - c->text->data) + 1;
		if (rc || nl)
			break;
		rc = check_line(c, begin, e);
		if (rc || got == TAIL_MIN)
			continue;
		from = c->stop;
		if (from == c->file->size)
			break;
		c->stop = c->file->plain && c->file->size - from > tail ? from + tail
		                                                        : c->file->size;
		tail *= 4;
		stream_close(c->stream);
		rc = data_file_part(c->file, from, c->stop, &c->stream, e);
	}
	return rc;
}

/* Drops the text of the line in which the part begins, which belongs to the part before. */
static enum err_code skip_first_line(struct lines_cursor *c, struct err *e)
{
	const uint8_t *nl = NULL;
	enum err_code rc = ERR_OK;

	while (!rc && !nl && !c->body_ended) {
		c->text->len = c->heading;
		rc = append_body(c, STEP, e);
		nl = rc ? NULL
		        : memchr(c->text->data + c->heading, '\n', c->text->len - c->heading);
	}
	if (nl) {
		size_t rest = c->text->len - (size_t)(nl + 1 - c->text->data);

		memmove(c->text->data + c->heading, nl + 1, rest);
		c->text->len = c->heading + rest;
		c->from = c->at - rest;
	} else {
		/* No line begins in the part. */
		c->text->len = c->heading;
		c->base.ended = true;
	}
	return rc;
}

/* The number of bytes of `text` up to its last newline, from `begin` on; 0: it has none. */
static size_t find_last_line_end(const struct buf *text, size_t begin)
{
	const uint8_t *nl = text->len > begin ? memrchr(text->data + begin, '\n', text->len - begin)
	                                      : NULL;

	return nl ? (size_t)(nl - text->data) + 1 : 0;
}

/* Has whole lines of about `bytes` bytes in the text. *end: where they end. */
static enum err_code collect_lines(struct lines_cursor *c, size_t bytes, size_t *end, struct err *e)
{
	enum err_code rc = ERR_OK;
	size_t last;

	*end = 0;
	while (!rc && !c->body_ended && (!*end || c->text->len - c->heading < bytes)) {
		size_t seen = c->text->len;

		rc = append_body(c, bytes < STEP ? bytes : STEP, e);
		last = find_last_line_end(c->text, seen);
		*end = last ? last : *end;
		if (!rc)
			rc = check_line(c, *end ? *end : c->heading, e);
	}
	if (rc || !c->body_ended)
		return rc;
	last = find_last_line_end(c->text, c->heading);
	rc = append_tail(c, last ? last : c->heading, e);
	*end = c->text->len;
	c->base.ended = true;
	return rc;
}

/* The share of the part that was read. Of few compressed bytes it is a guess. */
static double share_read(const struct lines_cursor *c)
{
	double bytes = (double)(c->part->end - c->part->begin);
	double read = (double)(c->at - c->part->begin);
	double share = c->file->plain ? read / bytes : stream_progress(c->stream);

	share = share > 0 ? share : read / bytes / EXPANSION;
	return share < 1 ? share : 1;
}

/* Parses the lines in the text, which end at `end`, in place. first: they are the first ones of the part. */
static enum err_code parse_lines(struct lines_cursor *c, size_t end, bool first,
    struct data_build *b, struct err *e)
{
	struct stream *s = stream_text((char *)c->text->data, end, c->name);
	enum err_code rc;

	/* A heading in front of later lines is counted again, and one of another file is not counted. */
	stream_number(s, c->lines - (c->heading && (!first || c->file->bare)));
	if (c->file->plain && c->part->begin)
		stream_is_part(s, c->heading, c->from);
	rc = data_build_read(b, s, &c->file->options, e);
	c->lines = stream_lineno(s);
	stream_close(s);
	return rc;
}

/* Leaves the heading, and the bytes behind `end`, in the text. */
static void drop_lines(struct lines_cursor *c, size_t end)
{
	size_t rest = c->text->len - end;

	if (rest)
		memmove(c->text->data + c->heading, c->text->data + end, rest);
	if (c->heading)
		memcpy(c->text->data, c->kept ? c->kept : c->file->heading, c->heading);
	c->text->len = c->heading + rest;
}

static enum err_code read_lines(struct data_cursor *base, size_t bytes, struct data_build *b,
    struct err *e)
{
	struct lines_cursor *c = (struct lines_cursor *)base;
	bool first = c->lines == 0;
	struct buf head = BUF_INIT;
	size_t end = 0;
	enum err_code rc = first && c->part->begin ? skip_first_line(c, e) : ERR_OK;

	if (!rc && !c->base.ended)
		rc = collect_lines(c, bytes, &end, e);
	if (!rc && end > c->heading) {
		/* Parsing changes the text, which may begin with the heading of the lines after it. */
		if (first && !c->heading && !c->part->begin && !c->base.ended)
			buf_append(&head, c->text->data, end);
		rc = parse_lines(c, end, first, b, e);
		c->from += end - c->heading;
		if (head.len && b->d->heading) {
			c->kept = data_head_line((const char *)head.data, head.len, b->d->heading);
			c->heading = strlen(c->kept);
		}
		if (!c->base.ended)
			drop_lines(c, end);
	}
	buf_release(&head);
	c->base.done = c->base.ended ? 1 : share_read(c);
	return rc;
}

const struct data_parts data_parts_lines = { cut_lines, release_lines, open_lines, read_lines,
	close_lines, NULL };

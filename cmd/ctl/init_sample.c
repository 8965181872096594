/* SPDX-License-Identifier: ISC */
#include "init_sample.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/file.h"
#include "core/mem.h"
#include "data/reader/data_bad_lines.h"
#include "data/data_build.h"
#include "data/source/data_object.h"
#include "data/source/data_uri.h"
#include "format/uri.h"

/* Bytes of the first lines of a file, of all files together, and at least of each. */
#define HEAD       (1u << 20)
#define HEAD_LEAST (64u << 10)
/* Files that are looked at; of more, evenly spread ones. */
#define FILES_MOST 16u
/* Further places of a large file, and bytes at each. */
#define PLACES      8u
#define PLACE_BYTES (128u << 10)
/* Bytes that a byte of a compressed table becomes, about. */
#define COMPRESSED 5.0
/* At most one bad line in this number of lines is passed over. */
#define LINES_OF_BAD 50u

/* ---- reading ---- */

/* Shows the first whole lines of a text file. *all: there are no others. */
static enum err_code peek_lines(struct stream *s, size_t most, const uint8_t **p, size_t *n,
    bool *all, struct err *e)
{
	const uint8_t *nl;
	enum err_code rc = stream_peek(s, most, p, n, e);

	*all = !rc && *n < most;
	if (rc || *all)
		return rc;
	nl = memrchr(*p, '\n', *n);
	/* The last line may be cut off. A file that is not text has no lines. */
	if (nl)
		*n = (size_t)(nl - *p) + 1;
	else if (!memchr(*p, 0, *n) && most < HEAD)
		return peek_lines(s, HEAD, p, n, all, e);
	else if (!memchr(*p, 0, *n))
		return err_set(e, ERR_LIMIT,
		    "%s:1: the line is longer than %u MiB, the limit of init", stream_name(s),
		    HEAD >> 20);
	return ERR_OK;
}

/* Bytes of a file's text; for a compressed file an estimate; 0: not known. */
static double text_bytes(const char *file)
{
	struct stat st;
	size_t n = strlen(file);
	bool packed = (n > 3 && strcmp(file + n - 3, ".gz") == 0) ||
	    (n > 4 && strcmp(file + n - 4, ".zst") == 0);

	if (uri_is(file) || stat(file, &st) != 0 || !S_ISREG(st.st_mode))
		return 0;
	return (double)st.st_size * (packed ? COMPRESSED : 1);
}

/* Can the file be read several times? */
static enum err_code check_rereadable(const char *file, struct err *e)
{
	struct stat st;

	if (strcmp(file, "-") == 0)
		return err_set(e, ERR_CONFIG,
		    "standard input can be read only once, and init reads data several times; "
		    "save them to a file");
	if (!uri_is(file) && stat(file, &st) == 0 && (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode)))
		return err_set(e, ERR_CONFIG,
		    "%s is a pipe, which can be read only once, and init reads data several times; "
		    "save them to a file",
		    file);
	return ERR_OK;
}

/* Appends the whole lines that the file has in n bytes at `offset`. */
static void append_lines_at(int fd, off_t offset, size_t n, struct buf *out)
{
	char *p = mem_alloc(n), *begin, *end;
	ssize_t got = pread(fd, p, n, offset);

	begin = got > 0 ? memchr(p, '\n', (size_t)got) : NULL;
	end = begin ? memrchr(p, '\n', (size_t)got) : NULL;
	if (begin && end > begin)
		buf_append(out, begin + 1, (size_t)(end - begin));
	free(p);
}

/* Has no line an open quote at its end, after which the next line would be a part of the same
 * row? */
static bool ends_rows_at_lines(const struct buf *text)
{
	size_t quotes = 0;

	for (size_t i = 0; i < text->len; i++) {
		if (text->data[i] == '\n' && quotes % 2)
			return false;
		quotes = text->data[i] == '\n' ? 0 : quotes + (text->data[i] == '"');
	}
	return true;
}

/* Is the file on the disk the text that begins with these bytes, and may it be read from the
 * middle? */
static bool may_be_cut(int fd, const struct buf *head)
{
	uint8_t *p = mem_alloc(head->len + 1);
	bool same = pread(fd, p, head->len, 0) == (ssize_t)head->len &&
	    memcmp(p, head->data, head->len) == 0;

	free(p);
	return same && ends_rows_at_lines(head);
}

/* Appends lines from places after the first ones, or all of them where they are few. */
static void append_places(const char *file, size_t bytes, struct buf *out)
{
	struct stat st;
	size_t head = out->len;
	int fd = uri_is(file) || !head ? -1 : open(file, O_RDONLY | O_CLOEXEC);

	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > (off_t)head &&
	    may_be_cut(fd, out)) {
		/* From the newline of the last line that is there. */
		double span = (double)st.st_size - (double)head;
		bool few = span <= (double)(PLACES * bytes);

		if (few)
			append_lines_at(fd, (off_t)head - 1, (size_t)span + 1, out);
		for (unsigned k = 1; !few && k <= PLACES; k++)
			append_lines_at(fd,
			    (off_t)((double)head + (span - (double)bytes) * k / PLACES), bytes,
			    out);
	}
	if (fd >= 0)
		close(fd);
}

static enum err_code read_file(struct init_sample *s, const char *name, size_t share, struct err *e)
{
	struct init_sample_file *f = &s->file[s->n];
	struct stream *in = NULL;
	const uint8_t *p = NULL;
	size_t n = 0;
	bool all = false;
	enum err_code rc = data_open(name, &in, e);

	if (!rc)
		rc = peek_lines(in, share, &p, &n, &all, e);
	if (!rc) {
		*f = (struct init_sample_file){ .name = mem_strdup(name) };
		s->n++;
		s->binary |= memchr(p, 0, n) != NULL;
		s->whole = s->whole && all;
		buf_append(&f->text, p, n);
	}
	stream_close(in);
	if (!rc && !all && !s->binary)
		append_places(name, share * PLACE_BYTES / HEAD, &f->text);
	if (!rc)
		s->bytes += (double)f->text.len;
	for (size_t i = 0; !rc && i < f->text.len; i++)
		s->lines += f->text.data[i] == '\n';
	return rc;
}

enum err_code init_sample_read(const char *path, struct init_sample *out, struct err *e)
{
	struct data_options o;
	char *file, **files = NULL;
	size_t n = 0, looked, share;
	enum err_code rc = data_uri_parse(path, &file, &o, e);

	*out = (struct init_sample){ .whole = true };
	if (rc)
		return rc;
	rc = check_rereadable(file, e);
	if (!rc)
		rc = data_uri_expand(file, NULL, &files, &n, e);
	looked = n < FILES_MOST ? n : FILES_MOST;
	out->file = mem_array(looked + 1, sizeof *out->file);
	out->nfiles = n;
	out->whole = looked == n;
	share = looked && HEAD / looked > HEAD_LEAST ? HEAD / looked : HEAD_LEAST;
	for (size_t i = 0; !rc && i < looked; i++)
		rc = read_file(out, files[i * n / looked], share, e);
	for (size_t i = 0; i < n; i++)
		out->all_bytes += text_bytes(files[i]);
	data_uri_free(files, n);
	data_uri_release(&o);
	free(file);
	if (rc)
		init_sample_release(out);
	return rc;
}

void init_sample_release(struct init_sample *s)
{
	for (size_t i = 0; i < s->n; i++) {
		free(s->file[i].name);
		buf_release(&s->file[i].text);
	}
	free(s->file);
	free(s->bad_why);
	*s = (struct init_sample){ 0 };
}

/* ---- loading ---- */

/* Appends the examples of a file to b. A copy of its text is read, because readers change
 * lines. */
static enum err_code load_file(struct data_build *b, const struct init_sample_file *f,
    const struct data_options *o, struct err *e)
{
	struct buf text = BUF_INIT;
	struct stream *s;
	enum err_code rc;

	buf_append(&text, f->text.data, f->text.len);
	buf_reserve(&text, STREAM_PAD);
	s = stream_text((char *)text.data, f->text.len, f->name);
	rc = data_build_read(b, s, o, e);
	stream_close(s);
	buf_release(&text);
	return rc;
}

static enum err_code load_files(const struct init_sample *s, const struct data_options *o,
    const struct data_want *want, struct column_looks *looks, struct dataset **out, struct err *e)
{
	struct data_want watched = *want;
	struct data_build *b;
	enum err_code rc = ERR_OK;

	if (looks) {
		column_looks_release(looks);
		watched.watch = column_looks_watch(looks);
	}
	b = data_build_new(&watched, NULL, NULL);

	*out = NULL;
	for (size_t i = 0; !rc && i < s->n; i++)
		rc = load_file(b, &s->file[i], o, e);
	if (!rc)
		rc = data_build_finish(b, out, e);
	data_build_free(b);
	return rc;
}

/* Loads the files again without their bad lines, after the error e, which stays where there are too
 * many. */
static enum err_code load_good_lines(struct init_sample *s, const struct data_options *o,
    const struct data_want *want, struct column_looks *looks, struct dataset **out, struct err *e)
{
	struct data_want passing = *want;
	struct err second = { 0 };
	enum err_code rc = e->code;

	if (rc != ERR_FORMAT || s->lines < LINES_OF_BAD)
		return rc;
	passing.bad = data_bad_lines_new(s->lines / LINES_OF_BAD, NULL);
	if (load_files(s, o, &passing, looks, out, &second) == ERR_OK) {
		s->bad = data_bad_lines_count(passing.bad);
		free(s->bad_why);
		s->bad_why = mem_strdup(e->msg);
		*e = (struct err){ 0 };
		rc = ERR_OK;
	}
	data_bad_lines_free(passing.bad);
	return rc;
}

struct dataset *init_sample_load(struct init_sample *s, const char *path,
    const struct data_want *want, struct column_looks *looks, double *rows, struct err *e)
{
	struct data_options o;
	struct dataset *d = NULL;
	char *file;

	if (data_uri_parse(path, &file, &o, e))
		return NULL;
	s->bad = 0;
	if (s->binary)
		data_load(&path, 1, NULL, want, NULL, &d, e);
	else if (load_files(s, &o, want, looks, &d, e))
		load_good_lines(s, &o, want, looks, &d, e);
	if (d)
		*rows = (double)d->rows *
		    (s->binary || s->whole || s->all_bytes < s->bytes ? 1
		                                                      : s->all_bytes / s->bytes);
	data_uri_release(&o);
	free(file);
	return d;
}

/* ---- writing ---- */

enum err_code init_sample_write(const struct init_sample *s, int *fd, struct err *e)
{
	enum err_code rc = ERR_OK;

	for (size_t i = 0; i < s->n; i++) {
		const struct buf *text = &s->file[i].text;

		fd[i] = rc ? -1 : memfd_create("init-sample", MFD_CLOEXEC);
		if (!rc && fd[i] < 0)
			rc = err_sys(e, ERR_IO, "cannot make a file in memory");
		if (!rc)
			rc = file_write_all(fd[i], text->data, text->len, e);
	}
	return rc;
}

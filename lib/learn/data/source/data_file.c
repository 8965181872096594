/* SPDX-License-Identifier: ISC */
#include "data/source/data_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/mem.h"
#include "data/source/data_object.h"
#include "data/reader/data_parts.h"
#include "data/source/data_uri.h"
#include "format/frames.h"
#include "format/source.h"
#include "format/uri.h"

/* A zstd file whose pieces are larger is read as a whole: finding them costs reading all their headers. */
#define PIECE_MAX (UINT64_C(64) << 20)

/* ---- local files ---- */

/* A part that is being read. */
struct local_part {
	int fd;
	uint64_t at, end;
	char *name;
};

static enum err_code read_local(void *ctx, void *p, size_t n, size_t *got, struct err *e)
{
	struct local_part *l = ctx;
	ssize_t r = 0;

	*got = 0;
	if (l->at == l->end)
		return ERR_OK;
	if (n > l->end - l->at)
		n = (size_t)(l->end - l->at);
	do
		r = pread(l->fd, p, n, (off_t)l->at);
	while (r < 0 && errno == EINTR);
	if (r < 0)
		return err_sys(e, ERR_IO, "cannot read %s", l->name);
	if (r == 0)
		return err_set(e, ERR_IO, "%s became shorter while it was read", l->name);
	l->at += (uint64_t)r;
	*got = (size_t)r;
	return ERR_OK;
}

static void close_local(void *ctx)
{
	struct local_part *l = ctx;

	close(l->fd);
	free(l->name);
	free(l);
}

/* The parts of a file must be of the same contents: a block may be read long after the one before it. */
static enum err_code check_unchanged(const struct data_file *f, int fd, struct err *e)
{
	struct stat st;

	if (fstat(fd, &st) != 0)
		return err_sys(e, ERR_IO, "cannot read %s", f->name);
	if (S_ISREG(st.st_mode) && (uint64_t)st.st_size == f->size &&
	    st.st_mtim.tv_sec == f->changed.tv_sec && st.st_mtim.tv_nsec == f->changed.tv_nsec)
		return ERR_OK;
	return err_set(e, ERR_IO,
	    "%s has %s since this process began to read it; data must not change while a job "
	    "uses them",
	    f->name,
	    S_ISREG(st.st_mode) && (uint64_t)st.st_size < f->size ? "become shorter" : "changed");
}

static enum err_code open_local_part(const struct data_file *f, uint64_t begin, uint64_t end,
    struct stream **out, struct err *e)
{
	struct source_reader r = { .size = end - begin,
		.plain = f->plain,
		.read = read_local,
		.close = close_local };
	/* Without O_NONBLOCK a pipe that has taken the file's place would be waited for. */
	int fd = open(f->name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	enum err_code rc;
	struct local_part *l;

	*out = NULL;
	if (fd < 0)
		return err_sys(e, errno == ENOENT ? ERR_NOTFOUND : ERR_IO, "cannot open %s",
		    f->name);
	rc = check_unchanged(f, fd, e);
	if (rc) {
		close(fd);
		return rc;
	}
	l = mem_alloc(sizeof *l);
	*l = (struct local_part){ fd, begin, end, mem_strdup(f->name) };
	r.ctx = l;
	return stream_from(&r, f->name, out, e);
}

/* A compressed file that has no independent pieces is one piece. */
static enum err_code find_pieces(struct data_file *f, int fd, bool zstd, struct err *e)
{
	if (zstd)
		return frames_find(fd, f->name, f->size, PIECE_MAX, &f->piece, &f->npieces, e);
	f->piece = mem_array(1, sizeof *f->piece);
	f->npieces = 1;
	return ERR_OK;
}

static enum source_packing packing_of_file(int fd)
{
	uint8_t magic[4];

	return source_packing_of(magic,
	    (size_t)(pread(fd, magic, sizeof magic, 0) == sizeof magic) * sizeof magic);
}

static enum err_code open_local(struct data_file *f, bool *fit, struct err *e)
{
	int fd = open(f->name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;
	enum source_packing packing;
	enum err_code rc = ERR_OK;

	if (fd < 0)
		return err_sys(e, errno == ENOENT ? ERR_NOTFOUND : ERR_IO, "cannot open %s",
		    f->name);
	*fit = fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
	if (*fit) {
		f->size = (uint64_t)st.st_size;
		f->changed = st.st_mtim;
		packing = packing_of_file(fd);
		f->plain = packing == SOURCE_PLAIN;
		if (!f->plain)
			rc = find_pieces(f, fd, packing == SOURCE_ZSTD, e);
	}
	close(fd);
	return rc;
}

bool data_file_is_plain(const char *name)
{
	int fd = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;
	bool plain = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
	    packing_of_file(fd) == SOURCE_PLAIN;

	if (fd >= 0)
		close(fd);
	return plain;
}

static const struct data_file_ops local_ops = { open_local, open_local_part, 0, 64 };

/* ---- objects ---- */

/* One whose parts cannot be read is one piece, as a compressed one. */
static enum err_code open_object(struct data_file *f, bool *fit, struct err *e)
{
	struct data_object_facts facts;
	enum err_code rc = data_object_stat(f->name, &facts, e);

	*fit = true;
	f->size = facts.size;
	f->version = mem_strdup(facts.version);
	f->plain = facts.ranges && source_packing_of(facts.first, facts.nfirst) == SOURCE_PLAIN;
	return rc || f->plain ? rc : find_pieces(f, -1, false, e);
}

static enum err_code open_object_part(const struct data_file *f, uint64_t begin, uint64_t end,
    struct stream **out, struct err *e)
{
	const struct data_object_range r = { begin, end, f->size, f->version, f->plain };

	return data_object_part(f->name, &r, out, e);
}

static const struct data_file_ops object_ops = { open_object, open_object_part, 8 << 20, 16 };

/* ---- all files ---- */

enum err_code data_file_open(const char *name, const char *path, struct data_file *f, bool *fit,
    struct err *e)
{
	char *file = NULL;
	enum err_code rc = ERR_OK;

	*f = (struct data_file){ .name = mem_strdup(name),
		.ops = uri_is(name) ? &object_ops : &local_ops };
	f->options = (struct data_options)DATA_OPTIONS_INIT;
	if (path)
		rc = data_uri_parse(path, &file, &f->options, e);
	free(file);
	*fit = !rc && strcmp(name, "-") != 0;
	return *fit ? f->ops->open(f, fit, e) : rc;
}

void data_file_release(struct data_file *f)
{
	if (f->parts)
		f->parts->release(f);
	free(f->name);
	free(f->version);
	free(f->piece);
	data_uri_release(&f->options);
}

uint64_t data_file_cut(const struct data_file *f, uint64_t at)
{
	size_t low = 0, high = f->npieces;

	if (at >= f->size)
		return f->size;
	if (f->plain)
		return at;
	while (low < high) {
		size_t middle = (low + high) / 2;

		if (f->piece[middle] < at)
			low = middle + 1;
		else
			high = middle;
	}
	return low < f->npieces ? f->piece[low] : f->size;
}

enum err_code data_file_part(const struct data_file *f, uint64_t begin, uint64_t end,
    struct stream **out, struct err *e)
{
	return f->ops->part(f, begin, end, out, e);
}

/* SPDX-License-Identifier: ISC */
#include "format/source.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "core/mem.h"

#define IN_SIZE  (256u << 10)
#define IN_LEAST 16u

struct source {
	char *name;
	struct source_reader from; /* a callback; else */
	int fd;                    /* -1: memory */
	bool close_fd;
	const uint8_t *mem;
	size_t mem_left;
	/* bytes of a regular file when opened, of memory, or of a callback (0: not known); bytes
	 * read so far */
	uint64_t size, taken;
	enum source_packing packing;
	uint8_t *in; /* undecoded bytes of the file */
	size_t in_room, in_pos, in_len;
	bool in_end;
	bool open_member; /* inside a gzip member or zstd frame */
	bool one_ended;   /* one of these has ended */
	z_stream z;
	ZSTD_DStream *zstd;
};

const char *source_name(const struct source *s)
{
	return s->name;
}

/* Reads undecoded bytes; *got 0 is the end. */
static enum err_code raw_read(struct source *s, void *p, size_t n, size_t *got, struct err *e)
{
	ssize_t r;

	if (s->from.read) {
		enum err_code rc = s->from.read(s->from.ctx, p, n, got, e);

		s->taken += rc ? 0 : *got;
		return rc;
	}
	if (s->fd < 0) {
		*got = n < s->mem_left ? n : s->mem_left;
		if (*got > 0)
			memcpy(p, s->mem, *got);
		s->mem += *got;
		s->mem_left -= *got;
		s->taken += *got;
		return ERR_OK;
	}
	do
		r = read(s->fd, p, n);
	while (r < 0 && errno == EINTR);
	if (r < 0)
		return err_sys(e, ERR_IO, "cannot read \"%s\"", s->name);
	s->taken += (uint64_t)r;
	if (r == 0 && s->taken < s->size)
		return err_set(e, ERR_FORMAT,
		    "\"%s\" shrank from %llu to %llu bytes while it was read", s->name,
		    (unsigned long long)s->size, (unsigned long long)s->taken);
	*got = (size_t)r;
	return ERR_OK;
}

static enum err_code refill_input(struct source *s, struct err *e)
{
	enum err_code rc;

	s->in_pos = s->in_len = 0;
	if (s->in_end)
		return ERR_OK;
	rc = raw_read(s, s->in, s->in_room, &s->in_len, e);
	s->in_end = rc == ERR_OK && s->in_len == 0;
	return rc;
}

static enum err_code read_plain(struct source *s, void *p, size_t n, size_t *got, struct err *e)
{
	size_t have = s->in_len - s->in_pos;

	if (have == 0)
		return s->in_end ? (*got = 0, ERR_OK) : raw_read(s, p, n, got, e);
	*got = n < have ? n : have;
	memcpy(p, s->in + s->in_pos, *got);
	s->in_pos += *got;
	return ERR_OK;
}

static enum err_code cut_off(const struct source *s, const char *what, struct err *e)
{
	return err_set(e, ERR_FORMAT, "\"%s\" is cut off: its %s data ends too early", s->name,
	    what);
}

/* A member or frame does not begin as one. */
static enum err_code fail_beginning(const struct source *s, const char *what, struct err *e)
{
	return err_set(e, ERR_FORMAT,
	    "\"%s\" has other bytes after its %s data; %s -dc writes the data without them",
	    s->name, what, what);
}

/* One call of inflate; *got 0 means that more input is needed. */
static enum err_code gzip_step(struct source *s, void *p, size_t n, size_t *got, struct err *e)
{
	uInt room = n < UINT_MAX ? (uInt)n : UINT_MAX;
	bool begins = !s->open_member;
	int r;

	if (begins && inflateReset(&s->z) != Z_OK)
		return err_set(e, ERR_FAILED, "\"%s\": cannot restart zlib", s->name);
	s->z.next_in = s->in + s->in_pos;
	s->z.avail_in = (uInt)(s->in_len - s->in_pos);
	s->z.next_out = p;
	s->z.avail_out = room;
	r = inflate(&s->z, Z_NO_FLUSH);
	s->in_pos = s->in_len - s->z.avail_in;
	*got = room - s->z.avail_out;
	s->open_member = r != Z_STREAM_END;
	if (begins && s->one_ended && r == Z_DATA_ERROR && *got == 0)
		return fail_beginning(s, "gzip", e);
	s->one_ended |= r == Z_STREAM_END;
	if (r == Z_MEM_ERROR)
		return err_set(e, ERR_NOMEM, "no memory to decompress \"%s\"", s->name);
	if (r != Z_OK && r != Z_STREAM_END && r != Z_BUF_ERROR)
		return err_set(e, ERR_FORMAT, "\"%s\" is corrupt gzip data: %s", s->name,
		    s->z.msg ? s->z.msg : "unknown fault");
	return ERR_OK;
}

/* Skips zero bytes after a member, as gzip(1) does. */
static enum err_code skip_padding(struct source *s, struct err *e)
{
	enum err_code rc;

	for (;;) {
		while (s->in_pos < s->in_len && s->in[s->in_pos] == 0)
			s->in_pos++;
		if (s->in_pos < s->in_len || s->in_end)
			return ERR_OK;
		rc = refill_input(s, e);
		if (rc != ERR_OK)
			return rc;
	}
}

static enum err_code zstd_step(struct source *s, void *p, size_t n, size_t *got, struct err *e)
{
	ZSTD_inBuffer in = { s->in, s->in_len, s->in_pos };
	ZSTD_outBuffer out = { p, n, 0 };
	size_t r = ZSTD_decompressStream(s->zstd, &out, &in);

	if (ZSTD_isError(r) && !s->open_member && s->one_ended && out.pos == 0)
		return fail_beginning(s, "zstd", e);
	if (ZSTD_isError(r))
		return err_set(e, ERR_FORMAT, "\"%s\" is corrupt zstd data: %s", s->name,
		    ZSTD_getErrorName(r));
	s->in_pos = in.pos;
	*got = out.pos;
	s->open_member = r != 0;
	s->one_ended |= r == 0;
	return ERR_OK;
}

/* Reads decompressed bytes. */
static enum err_code read_packed(struct source *s, void *p, size_t n, size_t *got, struct err *e)
{
	bool gzip = s->packing == SOURCE_GZIP;
	enum err_code rc = ERR_OK;

	for (*got = 0; *got == 0;) {
		if (gzip && !s->open_member)
			rc = skip_padding(s, e);
		else if (s->in_pos == s->in_len)
			rc = refill_input(s, e);
		if (rc == ERR_OK && s->in_pos == s->in_len && s->in_end && !s->open_member)
			return ERR_OK;
		if (rc == ERR_OK)
			rc = (gzip ? gzip_step : zstd_step)(s, p, n, got, e);
		if (rc != ERR_OK)
			return rc;
		/* At the end of the input the decoder may still hold output. */
		if (*got == 0 && s->open_member && s->in_end)
			return cut_off(s, gzip ? "gzip" : "zstd", e);
	}
	return ERR_OK;
}

enum err_code source_read(struct source *s, void *p, size_t n, size_t *got, struct err *e)
{
	if (s->packing == SOURCE_PLAIN)
		return read_plain(s, p, n, got, e);
	return read_packed(s, p, n, got, e);
}

enum source_packing source_packing_of(const uint8_t *p, size_t n)
{
	if (n >= 2 && p[0] == 0x1f && p[1] == 0x8b)
		return SOURCE_GZIP;
	if (n >= 4 && memcmp(p, "\x28\xb5\x2f\xfd", 4) == 0)
		return SOURCE_ZSTD;
	/* A skippable frame may come first (pzstd writes one). */
	if (n >= 4 && (p[0] & 0xf0) == 0x50 && memcmp(p + 1, "\x2a\x4d\x18", 3) == 0)
		return SOURCE_ZSTD;
	return SOURCE_PLAIN;
}

/* Reads the first bytes and prepares the decoder for them. */
static enum err_code detect_and_start(struct source *s, struct err *e)
{
	enum err_code rc;
	size_t got;

	if (s->from.plain)
		return ERR_OK;
	/* A short text in memory, such as a line to score, must not pay for clearing more. */
	s->in_room = s->mem && s->size < IN_SIZE ? (size_t)s->size + IN_LEAST : IN_SIZE;
	s->in = mem_alloc(s->in_room);
	while (s->in_len < 4) {
		rc = raw_read(s, s->in + s->in_len, s->in_room - s->in_len, &got, e);
		if (rc != ERR_OK)
			return rc;
		s->in_end = got == 0;
		if (s->in_end)
			break;
		s->in_len += got;
	}
	s->packing = source_packing_of(s->in, s->in_len);
	if (s->packing == SOURCE_GZIP && inflateInit2(&s->z, 15 + 16) != Z_OK) {
		s->packing = SOURCE_PLAIN;
		return err_set(e, ERR_NOMEM, "no memory to decompress \"%s\"", s->name);
	}
	if (s->packing == SOURCE_ZSTD) {
		s->zstd = ZSTD_createDStream();
		if (!s->zstd)
			return err_set(e, ERR_NOMEM, "no memory to decompress \"%s\"", s->name);
	}
	return ERR_OK;
}

static enum err_code start_or_close(struct source *s, struct source **out, struct err *e)
{
	enum err_code rc = detect_and_start(s, e);

	if (rc != ERR_OK) {
		source_close(s);
		return rc;
	}
	*out = s;
	return ERR_OK;
}

enum err_code source_open(const char *path, struct source **out, struct err *e)
{
	bool standard = strcmp(path, "-") == 0;
	struct source *s;
	struct stat st;
	int fd = standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);

	*out = NULL;
	if (fd < 0)
		return err_sys(e, errno == ENOENT ? ERR_NOTFOUND : ERR_IO, "cannot open \"%s\"",
		    path);
	if (fstat(fd, &st) != 0)
		st = (struct stat){ 0 };
	if (S_ISDIR(st.st_mode)) {
		if (!standard)
			close(fd);
		return err_set(e, ERR_IO, "\"%s\" is a directory; name its files, as \"%s/*\"",
		    path, path);
	}
	s = mem_alloc(sizeof(*s));
	s->name = mem_strdup(standard ? "standard input" : path);
	s->fd = fd;
	s->close_fd = !standard;
	/* Standard input may be a partly read file, so its size says nothing. */
	if (!standard && S_ISREG(st.st_mode))
		s->size = (uint64_t)st.st_size;
	return start_or_close(s, out, e);
}

enum err_code source_memory(const void *p, size_t n, const char *name, struct source **out,
    struct err *e)
{
	struct source *s = mem_alloc(sizeof(*s));

	*out = NULL;
	s->name = mem_strdup(name);
	s->fd = -1;
	s->mem = p;
	s->mem_left = s->size = n;
	return start_or_close(s, out, e);
}

enum err_code source_from(const struct source_reader *r, const char *name, struct source **out,
    struct err *e)
{
	struct source *s = mem_alloc(sizeof(*s));

	*out = NULL;
	s->name = mem_strdup(name);
	s->from = *r;
	s->size = r->size;
	s->fd = -1;
	return start_or_close(s, out, e);
}

uint64_t source_plain_size(const struct source *s)
{
	return s->packing == SOURCE_PLAIN ? s->size : 0;
}

double source_progress(const struct source *s)
{
	uint64_t waiting = s->in_len - s->in_pos;

	return s->size > 0 && s->taken <= s->size ? (double)(s->taken - waiting) / (double)s->size
	                                          : 0;
}

void source_close(struct source *s)
{
	if (!s)
		return;
	if (s->packing == SOURCE_GZIP)
		inflateEnd(&s->z);
	ZSTD_freeDStream(s->zstd);
	if (s->close_fd)
		close(s->fd);
	if (s->from.close)
		s->from.close(s->from.ctx);
	free(s->in);
	free(s->name);
	free(s);
}

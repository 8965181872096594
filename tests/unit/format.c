/* SPDX-License-Identifier: ISC */
#include "tap.h"

#include <fcntl.h>
#include <math.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "core/buf.h"
#include "core/endian.h"
#include "core/file.h"
#include "core/mem.h"
#include "format/npy.h"
#include "format/safetensors.h"
#include "format/stream.h"

static char dir[] = "/tmp/pskit-format-XXXXXX";

static char *in_dir(const char *name)
{
	return path_join(dir, name);
}

static void write_file(const char *name, const void *p, size_t n)
{
	char *path = in_dir(name);
	struct err e = { 0 };

	if (file_replace(path, p, n, 0600, &e) != ERR_OK)
		printf("# %s\n", e.msg);
	free(path);
}

static void append_gz(struct buf *out, const void *p, size_t n)
{
	z_stream z = { 0 };

	deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
	z.next_in = (Bytef *)(uintptr_t)p;
	z.avail_in = (uInt)n;
	z.avail_out = (uInt)deflateBound(&z, n);
	z.next_out = buf_reserve(out, z.avail_out);
	deflate(&z, Z_FINISH);
	buf_commit(out, z.total_out);
	deflateEnd(&z);
}

static void append_zst(struct buf *out, const void *p, size_t n)
{
	size_t cap = ZSTD_compressBound(n);

	buf_commit(out, ZSTD_compress(buf_reserve(out, cap), cap, p, n, 3));
}

/* All that a stream gives, by pieces of an odd size. */
static enum err_code slurp(struct stream *s, struct buf *out, struct err *e)
{
	enum err_code rc;
	size_t got;

	do {
		rc = stream_read(s, buf_reserve(out, 7777), 7777, &got, e);
		if (rc != ERR_OK)
			return rc;
		buf_commit(out, got);
	} while (got == 7777);
	return ERR_OK;
}

static enum err_code slurp_bytes(const struct buf *in, struct buf *out, struct err *e)
{
	struct stream *s;
	enum err_code rc;

	buf_clear(out);
	rc = stream_memory(in->data, in->len, "memory", &s, e);
	if (rc == ERR_OK)
		rc = slurp(s, out, e);
	stream_close(s);
	return rc;
}

static bool same(const struct buf *a, const void *p, size_t n)
{
	return a->len == n && memcmp(a->data, p, n) == 0;
}

static void test_packed(const char *what, void (*append)(struct buf *, const void *, size_t))
{
	struct buf text = BUF_INIT, packed = BUF_INIT, out = BUF_INIT;
	struct err e = { 0 };
	bool all = true;
	size_t half;

	for (int i = 0; i < 100000; i++)
		buf_printf(&text, "line %d\n", i);
	half = text.len / 2;
	append(&packed, text.data, text.len);
	ok(slurp_bytes(&packed, &out, &e) == ERR_OK && same(&out, text.data, text.len),
	    "%s: read back", what);
	for (size_t cut = 1; cut < 40; cut++) {
		struct buf part = { packed.data, packed.len - cut * (packed.len / 40), 0 };

		all = all && slurp_bytes(&part, &out, &e) == ERR_FORMAT &&
		    strstr(e.msg, "\"memory\" is cut off");
	}
	ok(all, "%s: cut off anywhere: %s", what, e.msg);
	packed.data[packed.len / 2] ^= 0x55;
	packed.data[packed.len / 2 + 1] ^= 0x55;
	ok(slurp_bytes(&packed, &out, &e) == ERR_FORMAT, "%s: corrupt: %s", what, e.msg);

	buf_clear(&packed);
	append(&packed, text.data, half);
	append(&packed, "", 0);
	append(&packed, text.data + half, text.len - half);
	ok(slurp_bytes(&packed, &out, &e) == ERR_OK && same(&out, text.data, text.len),
	    "%s: concatenated", what);
	packed.len--;
	ok(slurp_bytes(&packed, &out, &e) == ERR_FORMAT, "%s: last part cut off", what);
	packed.len++;
	buf_puts(&packed, "garbage");
	ok(slurp_bytes(&packed, &out, &e) == ERR_FORMAT &&
	        strstr(e.msg, "\"memory\" has other bytes after its ") &&
	        strstr(e.msg, " -dc writes the data without them"),
	    "%s: garbage behind: %s", what, e.msg);
	buf_release(&text);
	buf_release(&packed);
	buf_release(&out);
}

static void test_gzip_padding(void)
{
	struct buf packed = BUF_INIT, out = BUF_INIT;
	struct err e = { 0 };

	append_gz(&packed, "abc", 3);
	buf_append(&packed, "\0\0\0\0\0", 5);
	ok(slurp_bytes(&packed, &out, &e) == ERR_OK && same(&out, "abc", 3),
	    "gzip: zero padding is passed over");
	append_gz(&packed, "def", 3);
	ok(slurp_bytes(&packed, &out, &e) == ERR_OK && same(&out, "abcdef", 6),
	    "gzip: a member after padding");
	buf_release(&packed);
	buf_release(&out);
}

/* in_place: the lines are views of the text. */
static void test_lines(bool in_place)
{
	static const char text[] = "one\r\n\ntwo\n\r\nlast";
	static const char *const want[] = { "one", "", "two", "", "last" };
	char copy[sizeof(text) + STREAM_PAD];
	struct stream *s;
	struct err e = { 0 };
	const uint8_t *p;
	bool all = true;
	char *line;
	size_t n;

	memcpy(copy, text, sizeof(text));
	if (in_place)
		s = stream_text(copy, sizeof(text) - 1, "m");
	else
		stream_memory(text, sizeof(text) - 1, "m", &s, &e);
	ok(stream_peek(s, 3, &p, &n, &e) == ERR_OK && n == 3 && memcmp(p, "one", 3) == 0,
	    "peek takes nothing");
	ok(stream_lineno(s) == 0, "no line yet");
	for (size_t i = 0; i < 5; i++)
		all = all && stream_line(s, &line, &n, &e) == ERR_OK && line &&
		    strcmp(line, want[i]) == 0 && n == strlen(want[i]) &&
		    stream_lineno(s) == i + 1 &&
		    in_place == (line >= copy && line < copy + sizeof(copy));
	ok(all, "lines with either ending, the last without%s", in_place ? ", in place" : "");
	ok(stream_line(s, &line, &n, &e) == ERR_OK && !line, "then the end");
	ok(stream_peek(s, 9, &p, &n, &e) == ERR_OK && n == 0, "peek at the end");
	ok(stream_fail(s, &e, "odd %d", 1) == ERR_FORMAT && strcmp(e.msg, "m:5: odd 1") == 0,
	    "fail: %s", e.msg);
	stream_close(s);
}

/* A text in pieces: what is left of a piece begins the next one. */
static void test_pieces(void)
{
	char first[20] = "a\nbc", second[24] = "bcd\ne";
	struct stream *s = stream_pieces("m");
	struct err e = { 0 };
	const uint8_t *p;
	char *line, *left;
	size_t n;

	stream_expect(s, 100);
	stream_give(s, first, 4, false);
	ok(stream_line(s, &line, &n, &e) == ERR_OK && line && strcmp(line, "a") == 0 &&
	        stream_line(s, &line, &n, &e) == ERR_OK && !line,
	    "a piece has one whole line");
	ok(stream_left(s, &left) == 2 && left == first + 2 &&
	        stream_peek(s, 9, &p, &n, &e) == ERR_OK && n == 2,
	    "and the beginning of another one");
	stream_is_part(s, 1000);
	stream_give(s, second, 5, true);
	ok(stream_line(s, &line, &n, &e) == ERR_OK && line && strcmp(line, "bcd") == 0 &&
	        stream_fail(s, &e, "odd") == ERR_FORMAT && strcmp(e.msg, "m+1002: odd") == 0,
	    "which begins the next piece: %s", e.msg);
	ok(stream_line(s, &line, &n, &e) == ERR_OK && line && strcmp(line, "e") == 0 &&
	        stream_line(s, &line, &n, &e) == ERR_OK && !line && stream_lineno(s) == 3,
	    "the last line needs no newline");
	ok(stream_progress(s) == 0, "few bytes tell nothing about the rest");
	stream_close(s);
	stream_memory("x\nyz", 4, "m", &s, &e);
	ok(stream_line(s, &line, &n, &e) == ERR_OK && stream_take(s, &line, &n, &e) == ERR_OK &&
	        n == 2 && memcmp(line, "yz", 2) == 0 && stream_take(s, &line, &n, &e) == ERR_OK &&
	        n == 0,
	    "take has the bytes that are left");
	stream_close(s);
}

static void test_long_lines(void)
{
	struct buf text = BUF_INIT;
	struct stream *s;
	struct err e = { 0 };
	char *line;
	size_t n;

	memset(buf_reserve(&text, 3000000), 'x', 3000000);
	buf_commit(&text, 3000000);
	buf_puts(&text, "\ny\n");
	stream_memory(text.data, text.len, "m", &s, &e);
	ok(stream_line(s, &line, &n, &e) == ERR_OK && n == 3000000,
	    "a line longer than the window");
	ok(stream_line(s, &line, &n, &e) == ERR_OK && n == 1 && *line == 'y',
	    "and the one after it");
	stream_close(s);
	buf_clear(&text);
	memset(buf_reserve(&text, STREAM_LINE_MAX + 9), 'x', STREAM_LINE_MAX + 9);
	buf_commit(&text, STREAM_LINE_MAX + 9);
	stream_memory(text.data, text.len, "m", &s, &e);
	ok(stream_line(s, &line, &n, &e) == ERR_LIMIT && strncmp(e.msg, "m:1: ", 5) == 0,
	    "too long: %s", e.msg);
	stream_close(s);
	buf_release(&text);
}

static void test_files(void)
{
	char *path = in_dir("text");
	struct buf out = BUF_INIT, big = BUF_INIT;
	struct stream *s;
	struct err e = { 0 };
	char *line;
	size_t n;

	ok(stream_open("/nonexistent/x", &s, &e) == ERR_NOTFOUND &&
	        strcmp(e.msg, "cannot open \"/nonexistent/x\": No such file or directory") == 0,
	    "%s", e.msg);
	ok(stream_open(dir, &s, &e) == ERR_IO && !s, "a directory: %s", e.msg);
	write_file("text", "", 0);
	ok(stream_open(path, &s, &e) == ERR_OK && slurp(s, &out, &e) == ERR_OK && out.len == 0,
	    "empty file");
	stream_close(s);
	for (int i = 0; i < 300000; i++)
		buf_puts(&big, "0123456789\n");
	write_file("text", big.data, big.len);
	ok(stream_open(path, &s, &e) == ERR_OK && slurp(s, &out, &e) == ERR_OK &&
	        same(&out, big.data, big.len),
	    "plain file");
	stream_close(s);
	stream_open(path, &s, &e);
	stream_line(s, &line, &n, &e);
	ok(truncate(path, 1000000) == 0 && slurp(s, &out, &e) == ERR_FORMAT &&
	        strstr(e.msg, "shrank"),
	    "a file that shrinks: %s", e.msg);
	stream_close(s);
	free(path);
	buf_release(&out);
	buf_release(&big);
}

static struct buf npy_bytes(const char *header, const void *data, size_t n)
{
	struct buf b = BUF_INIT;
	uint8_t len[2];

	buf_append(&b, "\x93NUMPY\x01\x00", 8);
	put_le16(len, (uint16_t)strlen(header));
	buf_append(&b, len, 2);
	buf_puts(&b, header);
	buf_append(&b, data, n);
	return b;
}

static enum err_code read_npy(struct buf *b, struct npy *h, float **x, struct err *e)
{
	struct stream *s;
	enum err_code rc = stream_memory(b->data, b->len, "x.npy", &s, e);

	*x = NULL;
	if (rc == ERR_OK)
		rc = npy_read(s, 1000, h, x, e);
	stream_close(s);
	buf_release(b);
	return rc;
}

static void test_npy_types(void)
{
	static const double f8[] = { 1.5, -2, 1e10 };
	static const int32_t i4[] = { -1, 0, 7 };
	static const int64_t i8[] = { -1, 0, 1 << 20 };
	static const uint8_t u1[] = { 0, 128, 255 };
	struct {
		const char *descr;
		const void *data;
		size_t size;
		float want[3];
	} cases[] = {
		{ "<f8", f8, 24, { 1.5f, -2, 1e10f } },
		{ "<i4", i4, 12, { -1, 0, 7 } },
		{ "<i8", i8, 24, { -1, 0, 1048576 } },
		{ "|u1", u1, 3, { 0, 128, 255 } },
	};
	struct err e = { 0 };
	char header[200];
	struct npy h;
	float *x;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct buf b;

		snprintf(header, sizeof(header),
		    "{\"descr\": '%s', 'fortran_order': False, 'shape': (3,)}\n", cases[i].descr);
		b = npy_bytes(header, cases[i].data, cases[i].size);
		ok(read_npy(&b, &h, &x, &e) == ERR_OK && h.rank == 1 && h.count == 3 &&
		        memcmp(x, cases[i].want, sizeof(cases[i].want)) == 0,
		    "npy: type %s", cases[i].descr);
		free(x);
	}
}

static void test_npy_bad(void)
{
	static const char *const bad[][2] = {
		{ "{'descr': '<f4', 'fortran_order': True, 'shape': (1, 1)}", "Fortran order" },
		{ "{'descr': '>f4', 'fortran_order': False, 'shape': (1, 1)}", "type \">f4\"" },
		{ "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", "records" },
		{ "{'descr': '<f4', 'fortran_order': False, 'shape': (1}", "bad shape" },
		{ "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", "bad shape" },
		{ "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}",
		    "too large" },
		{ "{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1)}",
		    "dimensions" },
		{ "{'descr': '<f4', 'fortran_order': False}", "missing" },
		{ "{'descr': '<f4', 'fortran_order': Maybe, 'shape': (1,)}", "neither" },
		{ "{'descr': '<f4', 'order': False, 'shape': (1,)}", "a key other than" },
		{ "{'descr': '<f4' 'shape': (1,)}", "no comma" },
		{ "('descr')", "no dictionary" },
		{ "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", "is cut off" },
		{ "{'descr': '|u1', 'fortran_order': False, 'shape': (2,)}", "bytes after" },
		{ "{'descr': '<f4', 'fortran_order': False, 'shape': (1001,)}",
		    "expected at most 1000" },
	};
	struct err e = { 0 };
	struct npy h;
	float *x;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct buf b = npy_bytes(bad[i][0], "\0\0\0\0", 4);

		ok(read_npy(&b, &h, &x, &e) == ERR_FORMAT && strstr(e.msg, bad[i][1]) &&
		        strncmp(e.msg, "x.npy: ", 7) == 0,
		    "npy refused: %s", e.msg);
	}
}

static void test_npy_round(void)
{
	static const float v[6] = { 0, 1, -2.5f, 1e-38f, 3e38f, -0.0f };
	static const uint64_t shape[2] = { 2, 3 };
	struct buf b = BUF_INIT;
	char *path = in_dir("x.npy");
	struct err e = { 0 };
	struct npy h;
	float *x;
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);

	npy_put_header(&b, shape, 2);
	ok(b.len == 128 &&
	        memcmp(b.data + 10, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }",
	            59) == 0 &&
	        b.data[127] == '\n',
	    "npy: header as NumPy writes it, padded");
	buf_clear(&b);
	ok(npy_write(fd, v, shape, 2, &e) == ERR_OK && file_read(path, 1000, &b, &e) == ERR_OK,
	    "npy: written");
	ok(read_npy(&b, &h, &x, &e) == ERR_OK && h.rank == 2 && h.shape[0] == 2 &&
	        h.shape[1] == 3 && memcmp(x, v, sizeof(v)) == 0,
	    "npy: read back bit by bit");
	free(x);
	npy_put_header(&b, shape, 1);
	ok(strstr((char *)b.data + 10, "'shape': (2,), }") && b.len % 64 == 0,
	    "npy: one dimension");
	buf_clear(&b);
	npy_put_header(&b, shape, 0);
	ok(strstr((char *)b.data + 10, "'shape': (), }"), "npy: a scalar");
	buf_release(&b);
	close(fd);
	free(path);
}

static enum err_code open_tensors(const char *header, size_t data, struct safetensors **out,
    struct err *e)
{
	static const char zeros[64];
	int fd = memfd_create("tensors", MFD_CLOEXEC);
	uint8_t len[8];

	put_le64(len, strlen(header));
	file_write_all(fd, len, 8, NULL);
	file_write_all(fd, header, strlen(header), NULL);
	file_write_all(fd, zeros, data, NULL);
	return safetensors_open_fd(fd, "x.safetensors", out, e);
}

#define A4 "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}"
static void test_tensors_bad(void)
{
	static const struct {
		const char *header;
		size_t data;
		const char *want;
	} bad[] = {
		{ A4, 4, "is not a valid safetensors file" },
		{ A4 "}", 3, "beyond the end" },
		{ A4 "}", 5, "belong to no tensor" },
		{ " " A4 "}", 4, "begin with {" },
		{ "[]", 0, "begin with {" },
		{ "{}", 1, "belong to no tensor" },
		{ A4 "} x", 4, "is not a valid" },
		{ A4 ",\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", 8, "a" },
		{ A4 ",\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,12]}}", 12,
		    "gap" },
		{ A4 ",\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[2,6]}}", 6,
		    "overlaps" },
		{ A4 ",\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
		    "overlaps" },
		{ A4 ",\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,4]}}", 8,
		    "ascending pair" },
		{ A4 ",\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4]}}", 8,
		    "ascending pair" },
		{ A4 ",\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[-4,0]}}", 8,
		    "ascending pair" },
		{ A4 ",\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4.0,8.0]}}", 8,
		    "ascending pair" },
		{ A4 ",\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,8]}}", 8,
		    "fit its shape" },
		{ A4 ",\"b\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[4,12]}}", 12,
		    "convert it to F32, F16 or BF16" },
		{ A4 ",\"b\":{\"dtype\":\"F16\",\"shape\":[1],\"data_offsets\":[4,8]}}", 8,
		    "fit its shape" },
		{ A4 ",\"b\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[4,8]}}", 8,
		    "not a number from 0" },
		{ A4 ",\"b\":{\"dtype\":\"F32\",\"shape\":1,\"data_offsets\":[4,8]}}", 8,
		    "no shape" },
		{ A4
		    ",\"b\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[4,8]}}",
		    8, "more than 8" },
		{ A4
		    ",\"b\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[4,8]}}",
		    8, "too large" },
		{ A4
		    ",\"b\":{\"dtype\":\"F32\",\"shape\":[4611686018427387905],\"data_offsets\":[4,8]}}",
		    8, "fit its shape" },
		{ A4 ",\"b\":{\"dtype\":\"F32\",\"shape\":[1]}}", 8, "must have only dtype" },
		{ A4 ",\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8],\"x\":1}}", 8,
		    "must have only" },
		{ A4 ",\"b\":{\"dtype\":\"I8\",\"shape\":[1,4],\"data_offsets\":[4,8]}}", 8,
		    "without a scale for each row" },
		{ A4 ",\"a.scale\":{\"dtype\":\"I8\",\"shape\":[4],\"data_offsets\":[4,8]}}", 8,
		    "without a scale for each row" },
		{ "{\"b.scale\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
		  "\"b\":{\"dtype\":\"I8\",\"shape\":[2,2],\"data_offsets\":[4,8]}}",
		    8, "without a scale for each row" },
		{ A4 ",\"b\":[]}", 4, "must have only dtype" },
		{ A4 ",\"b\\u0001\":[]}", 4, "b\\x01" },
		{ A4 ",\"__metadata__\":{\"x\":1}}", 4, "not strings" },
		{ A4 ",\"__metadata__\":[]}", 4, "not an object" },
	};
	struct safetensors *s;
	struct err e = { 0 };
	int fd;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		ok(open_tensors(bad[i].header, bad[i].data, &s, &e) == ERR_FORMAT && !s &&
		        strstr(e.msg, bad[i].want),
		    "safetensors refused: %s", e.msg);
	ok(open_tensors(A4 ",\"__metadata__\":{\"x\":\"y\"}}   ", 4, &s, &e) == ERR_OK &&
	        safetensors_count(s) == 1,
	    "padding and metadata are fine");
	safetensors_close(s);
	ok(open_tensors("{\"b\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[4,8]},"
	                "\"z\":{\"dtype\":\"F32\",\"shape\":[0,3],\"data_offsets\":[4,4]},"
	                "\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
	       8, &s, &e) == ERR_OK &&
	        strcmp(safetensors_at(s, 0)->name, "a") == 0 &&
	        safetensors_find(s, "b")->count == 1 && safetensors_find(s, "z")->count == 0,
	    "any order of keys, a scalar, an empty tensor");
	safetensors_close(s);
	fd = memfd_create("tensors", MFD_CLOEXEC);
	file_write_all(fd, "\xff\xff\xff\xff\xff\xff\xff\x7f{}", 10, NULL);
	ok(safetensors_open_fd(fd, "x", &s, &e) == ERR_FORMAT, "header length: %s", e.msg);
	fd = memfd_create("tensors", MFD_CLOEXEC);
	file_write_all(fd, "\x10\0\0\0\0\0\0\0{}", 10, NULL);
	ok(safetensors_open_fd(fd, "x", &s, &e) == ERR_FORMAT, "header length: %s", e.msg);
	fd = memfd_create("tensors", MFD_CLOEXEC);
	file_write_all(fd, "abc", 3, NULL);
	ok(safetensors_open_fd(fd, "x", &s, &e) == ERR_FORMAT, "header length: %s", e.msg);
	ok(safetensors_open("/nonexistent", &s, &e) == ERR_IO, "%s", e.msg);
}

static bool write_tensors(int fd, const float *w, const uint64_t *ids, struct err *e)
{
	struct safetensors_writer *t = safetensors_writer_new();
	bool good;

	good = safetensors_add(t, "ids", SAFETENSORS_U64, (uint64_t[]){ 3 }, 1, e) == ERR_OK &&
	    safetensors_add(t, "empty", SAFETENSORS_F32, (uint64_t[]){ 0, 5 }, 2, e) == ERR_OK &&
	    safetensors_add(t, "layer \"1\"", SAFETENSORS_F32, (uint64_t[]){ 4, 5 }, 2, e) ==
	        ERR_OK &&
	    safetensors_add(t, "bias", SAFETENSORS_F32, (uint64_t[]){ 2 }, 1, e) == ERR_OK &&
	    safetensors_add(t, "bias", SAFETENSORS_F32, (uint64_t[]){ 2 }, 1, e) == ERR_EXISTS;
	safetensors_add_meta(t, "step", "12");
	good = good && safetensors_begin(t, safetensors_to_fd, &fd, e) == ERR_OK &&
	    safetensors_put(t, w, 1, NULL) == ERR_FAILED &&
	    safetensors_put_ids(t, ids, 3, e) == ERR_OK && safetensors_put(t, w, 7, e) == ERR_OK &&
	    safetensors_end(t, NULL) == ERR_FAILED && safetensors_put(t, w + 7, 15, e) == ERR_OK &&
	    safetensors_put(t, w, 1, NULL) == ERR_FAILED && safetensors_end(t, e) == ERR_OK &&
	    (off_t)safetensors_size(t) == lseek(fd, 0, SEEK_END);
	safetensors_writer_free(t);
	return good;
}

static void test_tensors_round(void)
{
	static const uint64_t ids[3] = { 0, 7, UINT64_MAX };
	const struct safetensors_tensor *t;
	struct safetensors *s;
	struct err e = { 0 };
	float w[22], x[22];
	uint64_t y[3];
	int fd = memfd_create("tensors", MFD_CLOEXEC);

	for (int i = 0; i < 22; i++)
		w[i] = (float)i * 1.25f - 3;
	ok(write_tensors(fd, w, ids, &e), "safetensors: written, misuse refused %s", e.msg);
	ok(safetensors_open_fd(fd, "x", &s, &e) == ERR_OK && safetensors_count(s) == 4,
	    "and opened %s", e.msg);
	if (!s)
		return;
	t = safetensors_find(s, "layer \"1\"");
	ok(t && t->rank == 2 && t->shape[0] == 4 && t->shape[1] == 5 && t->count == 20, "shape");
	ok(t && safetensors_read(s, t, 0, 20, x, &e) == ERR_OK && memcmp(x, w, 80) == 0, "values");
	ok(t && safetensors_read(s, t, 5, 3, x, &e) == ERR_OK && memcmp(x, w + 5, 12) == 0,
	    "a range of values");
	ok(t && safetensors_read(s, t, 18, 3, x, &e) == ERR_LIMIT, "beyond: %s", e.msg);
	t = safetensors_find(s, "ids");
	ok(t && t->offset % 64 == 0 && safetensors_read_ids(s, t, 0, 3, y, &e) == ERR_OK &&
	        memcmp(y, ids, sizeof(ids)) == 0,
	    "row ids, aligned");
	ok(t && safetensors_read(s, t, 0, 3, x, &e) == ERR_FORMAT, "of another type: %s", e.msg);
	ok(!safetensors_find(s, "none"), "no such tensor");
	ok(strcmp(safetensors_meta(s, "step"), "12") == 0 && !safetensors_meta(s, "x"), "metadata");
	t = safetensors_find(s, "bias");
	ok(t && ftruncate(fd, 100) == 0 && safetensors_read(s, t, 0, 2, x, &e) == ERR_FORMAT,
	    "shrunk: %s", e.msg);
	safetensors_close(s);
}

/* Parameters of 16 bits: written and read as float32, also where a tensor ends within a call. */
static void test_tensors_narrow(void)
{
	enum { HALVES = 9000, BRAINS = 7 };
	static float w[3 + HALVES + BRAINS], x[HALVES + 1];
	struct safetensors_writer *t = safetensors_writer_new();
	const struct safetensors_tensor *half, *brain;
	struct safetensors *s;
	struct err e = { 0 };
	int fd = memfd_create("tensors", MFD_CLOEXEC);
	bool good = true;

	for (int i = 0; i < 3 + HALVES + BRAINS; i++)
		w[i] = (float)(i % 2000) / 64 - 3;
	safetensors_add(t, "wide", SAFETENSORS_F32, (uint64_t[]){ 3 }, 1, NULL);
	safetensors_add(t, "half", SAFETENSORS_F16, (uint64_t[]){ HALVES }, 1, NULL);
	safetensors_add(t, "brain", SAFETENSORS_BF16, (uint64_t[]){ BRAINS }, 1, NULL);
	ok(!safetensors_begin(t, safetensors_to_fd, &fd, &e) && !safetensors_put(t, w, 5, &e) &&
	        !safetensors_put(t, w + 5, HALVES, &e) &&
	        !safetensors_put(t, w + 5 + HALVES, BRAINS - 2, &e) &&
	        safetensors_put(t, w, 1, NULL) == ERR_FAILED && !safetensors_end(t, &e) &&
	        (off_t)safetensors_size(t) == lseek(fd, 0, SEEK_END),
	    "narrow tensors are written %s", e.msg);
	safetensors_writer_free(t);
	ok(safetensors_open_fd(fd, "x", &s, &e) == ERR_OK, "and opened %s", e.msg);
	half = safetensors_find(s, "half");
	brain = safetensors_find(s, "brain");
	ok(half->type == SAFETENSORS_F16 && brain->type == SAFETENSORS_BF16 &&
	        brain->offset == half->offset + 2 * HALVES,
	    "they have two bytes for each value");
	ok(!safetensors_read(s, half, 0, HALVES, x, &e) &&
	        memcmp(x, w + 3, HALVES * sizeof *x) == 0,
	    "values that a float16 can have are as they were");
	good = !safetensors_read(s, half, 4090, 4910, x, &e) &&
	    memcmp(x, w + 3 + 4090, 4910 * sizeof *x) == 0;
	ok(good && safetensors_read(s, half, 4090, 4911, x, &e) == ERR_LIMIT, "beyond: %s", e.msg);
	good = !safetensors_read(s, brain, 0, BRAINS, x, &e);
	for (int i = 0; i < BRAINS; i++)
		good = good && fabsf(x[i] - w[3 + HALVES + i]) <= w[3 + HALVES + i] / 256;
	ok(good && x[0] != w[3 + HALVES], "others are rounded to nearest");
	ok(safetensors_read_ids(s, half, 0, 1, (uint64_t[1]){ 0 }, &e) == ERR_FORMAT,
	    "of another type: %s", e.msg);
	safetensors_close(s);
}

/* Rows of bytes with a scale each are read as float32, in pieces that begin and end within rows. */
static void test_tensors_int8(void)
{
	enum { ROWS = 1000, COLS = 9 };
	static float w[ROWS * COLS], x[ROWS * COLS], scale[ROWS];
	static int8_t byte[ROWS * COLS];
	struct safetensors_writer *t = safetensors_writer_new();
	const struct safetensors_tensor *m;
	struct safetensors *s;
	struct err e = { 0 };
	int fd = memfd_create("tensors", MFD_CLOEXEC);
	bool good = true;

	for (size_t i = 0; i < ROWS; i++) {
		scale[i] = (float)(i % 7) / 64;
		for (size_t k = 0; k < COLS; k++) {
			byte[i * COLS + k] = (int8_t)((i * 31 + k * 57) % 255) - 127;
			w[i * COLS + k] = (float)byte[i * COLS + k] * scale[i];
		}
	}
	safetensors_add(t, "m.scale", SAFETENSORS_F32, (uint64_t[]){ ROWS }, 1, NULL);
	safetensors_add(t, "m", SAFETENSORS_I8, (uint64_t[]){ ROWS, COLS }, 2, NULL);
	ok(!safetensors_begin(t, safetensors_to_fd, &fd, &e) &&
	        !safetensors_put(t, scale, ROWS, &e) &&
	        !safetensors_put_int8(t, byte, ROWS * COLS, &e) && !safetensors_end(t, &e),
	    "rows of bytes are written %s", e.msg);
	safetensors_writer_free(t);
	ok(safetensors_open_fd(fd, "x", &s, &e) == ERR_OK, "and opened %s", e.msg);
	m = safetensors_find(s, "m");
	ok(safetensors_is_parameters(m) && m->scale == safetensors_find(s, "m.scale") &&
	        !safetensors_is_parameters(m->scale),
	    "they are parameters, and their scales are not");
	for (uint64_t at = 0, n; at < ROWS * COLS; at += n) {
		n = ROWS * COLS - at < 4999 ? ROWS * COLS - at : 4999;
		good &= !safetensors_read(s, m, at, n, x + at, &e);
	}
	ok(good && memcmp(x, w, sizeof x) == 0, "and read %s", e.msg);
	ok(safetensors_read(s, m, ROWS * COLS - 1, 2, x, &e) == ERR_LIMIT, "beyond: %s", e.msg);
	ok(!safetensors_map(s, &e) &&
	        !safetensors_gather(s, m, COLS, (uint32_t[]){ 999, 0, 5 }, 3, x, &e) &&
	        memcmp(x, w + 999 * COLS, COLS * sizeof *x) == 0 &&
	        memcmp(x + 2 * COLS, w + 5 * COLS, COLS * sizeof *x) == 0,
	    "and gathered %s", e.msg);
	ok(safetensors_gather(s, m, 3, (uint32_t[]){ 0 }, 1, x, &e) == ERR_FORMAT,
	    "but not as rows of another length: %s", e.msg);
	ok(ftruncate(fd, 4100) == 0 && safetensors_read(s, m, 0, COLS, x, &e) == ERR_FORMAT,
	    "shrunk: %s", e.msg);
	safetensors_close(s);
}

/* Rows that lie apart come from the mapping, and a file that is cut off is an error. */
static void test_tensors_gather(void)
{
	static const uint64_t shape[] = { 4096, 16 };
	char *path = in_dir("rows.safetensors");
	struct safetensors_writer *w = safetensors_writer_new();
	float *x = mem_array(4096 * 16, sizeof *x), out[3 * 16];
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	struct safetensors *s = NULL;
	const struct safetensors_tensor *t;
	struct err e = { 0 };

	for (size_t i = 0; i < 4096 * 16; i++)
		x[i] = (float)i;
	safetensors_add(w, "v", SAFETENSORS_F32, shape, 2, &e);
	ok(!safetensors_begin(w, safetensors_to_fd, &fd, &e) &&
	        !safetensors_put(w, x, 4096 * 16, &e) && !safetensors_end(w, &e) &&
	        !safetensors_open(path, &s, &e) && !safetensors_map(s, &e),
	    "a file is mapped: %s", e.msg);
	t = safetensors_find(s, "v");
	ok(!safetensors_gather(s, t, 16, (const uint32_t[]){ 4095, 0, 7 }, 3, out, &e) &&
	        memcmp(out, x + 4095 * 16, 64) == 0 && memcmp(out + 16, x, 64) == 0 &&
	        memcmp(out + 32, x + 7 * 16, 64) == 0,
	    "rows come in the order of their numbers: %s", e.msg);
	ok(safetensors_gather(s, t, 16, (const uint32_t[]){ 4096 }, 1, out, &e) == ERR_LIMIT, "%s",
	    e.msg);
	ok(!ftruncate(fd, 8192) &&
	        safetensors_gather(s, t, 16, (const uint32_t[]){ 0, 4095 }, 2, out, &e) ==
	            ERR_FORMAT &&
	        strstr(e.msg, "shrank"),
	    "a file that is cut off: %s", e.msg);
	ok(safetensors_gather(s, t, 16, (const uint32_t[]){ 4095 }, 1, out, &e) == ERR_FORMAT &&
	        !safetensors_gather(s, t, 16, (const uint32_t[]){ 1 }, 1, out, &e),
	    "it is an error again, and rows that are left can be read");
	close(fd);
	safetensors_close(s);
	safetensors_writer_free(w);
	free(x);
	free(path);
}

int main(void)
{
	if (!mkdtemp(dir))
		return 1;
	test_packed("gzip", append_gz);
	test_packed("zstd", append_zst);
	test_gzip_padding();
	test_lines(false);
	test_lines(true);
	test_pieces();
	test_long_lines();
	test_files();
	test_npy_types();
	test_npy_bad();
	test_npy_round();
	test_tensors_bad();
	test_tensors_round();
	test_tensors_narrow();
	test_tensors_int8();
	test_tensors_gather();
	ok(file_remove_tree(dir, NULL) == ERR_OK, "cleaned up");
	return tap_done();
}

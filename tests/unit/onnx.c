/* SPDX-License-Identifier: ISC */
/* format/onnx.h: the bytes of a small model, and what is refused.  tests/85-onnx.bats has whole models. */
#include "tap.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/file.h"
#include "core/version.h"
#include "format/onnx.h"

static int open_file(void)
{
	char path[] = "/tmp/pskit-onnx-XXXXXX";
	int fd = mkstemp(path);

	unlink(path);
	return fd;
}

static size_t read_back(int fd, uint8_t *out, size_t room)
{
	ssize_t n = pread(fd, out, room, 0);

	return n < 0 ? 0 : (size_t)n;
}

/* Gives `number` floats. */
static enum err_code put_floats(void *ctx, size_t number, struct onnx_out *out, struct err *e)
{
	static const float x[] = { 1, 2, 3 };

	(void)ctx;
	return onnx_put(out, x, number * sizeof *x, e);
}

/* y = x + w, for w of two floats, of which `given` are put. */
static struct onnx *small_model(size_t given)
{
	struct onnx *g = onnx_new();
	const char *x = onnx_input(g, "x", ONNX_FLOAT, (struct onnx_columns){ 2, NULL }, ""),
	           *w = onnx_tensor(g, "x", ONNX_FLOAT, 1, (const int64_t[]){ 2 }, put_floats, NULL,
	               given);

	ok(strcmp(x, "x") == 0 && strcmp(w, "x_") == 0, "a name is given once");
	onnx_output(g, onnx_op(g, "Add", x, w, NULL), "y", ONNX_FLOAT,
	    (struct onnx_columns){ 0, "K" }, "");
	return g;
}

static void test_bytes(void)
{
	struct onnx *g = small_model(2);
	/* A tag is a field's number and wire type. */
	static const uint8_t tensor[] =
	    "\x2a\x12\x08\x02\x10\x01\x42\x02x_\x4a\x08\0\0\x80\x3f\0\0\0\x40",
	                     name[] = "\x12\x05pskit\x5a",
	                     node[] = "\x0a\x0f\x0a\x01x\x0a\x02x_\x12\x01"
	                              "1\x22\x03"
	                              "Add";
	uint8_t file[1024];
	struct err e = { 0 };
	int fd = open_file();
	size_t n;

	ok(onnx_write(g, fd, NULL, -1, &e) == ERR_OK, "a model is written: %s", e.msg);
	n = read_back(fd, file, sizeof file);
	ok(n == onnx_size(g), "its size is known before: %zu", n);
	ok(n > 9 && memcmp(file, "\x08\x07\x12\x05pskit\x1a", 10) == 0,
	    "it begins as a model of pskit");
	ok(memmem(file, n, name, sizeof name - 1) != NULL, "the graph has a name, and an input");
	ok(memmem(file, n, node, sizeof node - 1) != NULL,
	    "an operator is its inputs, output and name");
	ok(n > sizeof tensor &&
	        memcmp(file + n - (sizeof tensor - 1), tensor, sizeof tensor - 1) == 0,
	    "a tensor's bytes are the last of it");
	close(fd);
	onnx_free(g);
}

static void test_external(void)
{
	struct onnx *g = small_model(2);
	uint8_t file[1024], data[64];
	struct err e = { 0 };
	int fd = open_file(), data_fd = open_file();
	size_t n;

	ok(onnx_write(g, fd, "m.data", data_fd, &e) == ERR_OK, "values go to a second file: %s",
	    e.msg);
	n = read_back(fd, file, sizeof file);
	ok(memmem(file, n, "location\x12\x06m.data", 16) &&
	        memmem(file, n,
	            "length\x12\x01"
	            "8",
	            9) &&
	        memmem(file, n,
	            "offset\x12\x01"
	            "0",
	            9) &&
	        memmem(file, n, "\x70\x01", 2),
	    "the model tells where they are");
	ok(!memmem(file, n, "\0\0\x80\x3f", 4), "and has none itself");
	ok(read_back(data_fd, data, sizeof data) == 8 &&
	        memcmp(data, "\0\0\x80\x3f\0\0\0\x40", 8) == 0,
	    "the second file has them");
	close(fd);
	close(data_fd);
	onnx_free(g);
}

static void test_refusals(void)
{
	struct onnx *few = small_model(1), *many = small_model(3), *large = onnx_new();
	struct err e = { 0 };
	int fd = open_file();

	ok(onnx_write(few, fd, NULL, -1, &e) == ERR_FAILED &&
	        strstr(e.msg, "4 bytes of tensor \"x_\""),
	    "values are missing: %s", e.msg);
	ok(onnx_write(many, fd, NULL, -1, &e) == ERR_FAILED && strstr(e.msg, "4 bytes more"),
	    "there are too many values: %s", e.msg);
	onnx_tensor(large, "w", ONNX_INT64, 2, (const int64_t[]){ 1 << 20, 1 << 9 }, put_floats,
	    NULL, 0);
	ok(onnx_size(large) > ONNX_FILE_MAX && onnx_write(large, fd, NULL, -1, &e) == ERR_LIMIT,
	    "readers refuse 4 GiB in one file: %s", e.msg);
	close(fd);
	onnx_free(few);
	onnx_free(many);
	onnx_free(large);
}

int main(void)
{
	test_bytes();
	test_external();
	test_refusals();
	return tap_done();
}

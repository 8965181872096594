/* SPDX-License-Identifier: ISC */
#include "format/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/endian.h"
#include "core/json.h"
#include "core/log.h"
#include "core/map.h"
#include "core/mem.h"

struct safetensors {
	int fd;
	char *name;
	uint64_t size, data; /* size of the file; where the tensors begin */
	json_t *header;      /* owns the names */
	struct safetensors_tensor *t;
	size_t n;
	struct map *by_name;
	const uint8_t *mapped; /* the whole file; NULL: it is not mapped */
};

/* Reads exactly n bytes at offset `at`; the file's position is neither used nor changed. */
static enum err_code pread_all(const struct safetensors *s, void *p, uint64_t n, uint64_t at,
    struct err *e)
{
	uint8_t *to = p;
	ssize_t r;

	while (n > 0) {
		r = pread(s->fd, to, n < SSIZE_MAX ? (size_t)n : SSIZE_MAX, (off_t)at);
		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return err_sys(e, ERR_IO, "cannot read \"%s\"", s->name);
		if (r == 0)
			return err_set(e, ERR_FORMAT,
			    "\"%s\" shrank from %" PRIu64 " to %" PRIu64 " bytes while it was read",
			    s->name, s->size, at);
		to += r;
		n -= (uint64_t)r;
		at += (uint64_t)r;
	}
	return ERR_OK;
}

/* Names come from the file, so only printable text of limited length is shown. */
static enum err_code fail_tensor(const struct safetensors *s, const char *tensor, const char *what,
    struct err *e)
{
	char name[200];

	if (!tensor)
		return err_set(e, ERR_FORMAT, "\"%s\" is not a valid safetensors file: %s", s->name,
		    what);
	log_escape(name, sizeof(name), tensor, strlen(tensor));
	return err_set(e, ERR_FORMAT, "\"%s\" is not a valid safetensors file: tensor \"%s\" %s",
	    s->name, name, what);
}

/* Reads the header's length and JSON, with limits. */
static enum err_code read_json_header(struct safetensors *s, struct err *e)
{
	struct stat st;
	uint8_t len[8];
	enum err_code rc;
	uint64_t n;
	char *text;

	if (fstat(s->fd, &st) != 0)
		return err_sys(e, ERR_IO, "cannot read \"%s\"", s->name);
	if (!S_ISREG(st.st_mode))
		return err_set(e, ERR_IO, "\"%s\" is not a regular file", s->name);
	s->size = (uint64_t)st.st_size;
	if (s->size < 8)
		return fail_tensor(s, NULL, "it is shorter than a header", e);
	rc = pread_all(s, len, 8, 0, e);
	if (rc != ERR_OK)
		return rc;
	n = get_le64(len);
	if (n > SAFETENSORS_HEADER_MAX)
		return fail_tensor(s, NULL, "its header would be longer than 100 MB", e);
	if (n > s->size - 8)
		return fail_tensor(s, NULL, "its header is longer than the file", e);
	text = mem_try_array((size_t)n + 1, 1);
	if (!text)
		return err_set(e, ERR_NOMEM, "no memory for the header of \"%s\"", s->name);
	rc = pread_all(s, text, n, 8, e);
	if (rc == ERR_OK && text[0] != '{')
		rc = fail_tensor(s, NULL, "its header does not begin with {", e);
	if (rc == ERR_OK) {
		s->header = json_parse(text, (size_t)n, SAFETENSORS_HEADER_MAX, e);
		if (!s->header) {
			err_prefix(e, "\"%s\" is not a valid safetensors file", s->name);
			rc = ERR_FORMAT;
			if (e)
				e->code = rc;
		}
	}
	free(text);
	s->data = n + 8;
	return rc;
}

static enum err_code check_meta(const struct safetensors *s, const json_t *meta, struct err *e)
{
	const char *key;
	json_t *v;

	if (!json_is_object(meta))
		return fail_tensor(s, NULL, "__metadata__ is not an object", e);
	json_object_foreach((json_t *)meta, key, v)
		if (!json_is_string(v))
			return fail_tensor(s, NULL, "__metadata__ has values that are not strings",
			    e);
	return ERR_OK;
}

/* Sets rank, shape and count. An empty shape is a scalar and counts 1. */
static enum err_code parse_tensor_shape(const struct safetensors *s, struct safetensors_tensor *t,
    const json_t *shape, struct err *e)
{
	const json_t *dim;

	if (!json_is_array(shape))
		return fail_tensor(s, t->name, "has no shape", e);
	t->rank = json_array_size(shape);
	if (t->rank > SAFETENSORS_RANK_MAX)
		return fail_tensor(s, t->name, "has more than 8 dimensions", e);
	t->count = 1;
	for (size_t i = 0; i < t->rank; i++) {
		dim = json_array_get(shape, i);
		if (!json_is_integer(dim) || json_integer_value(dim) < 0)
			return fail_tensor(s, t->name,
			    "has a dimension that is not a number from 0", e);
		t->shape[i] = (uint64_t)json_integer_value(dim);
		if (__builtin_mul_overflow(t->count, t->shape[i], &t->count))
			return fail_tensor(s, t->name, "has a shape that is too large", e);
	}
	return ERR_OK;
}

static const struct {
	const char *name, *holds;
	unsigned size;
} types[] = { [SAFETENSORS_F32] = { "F32", "float32 values", 4 },
	[SAFETENSORS_U64] = { "U64", "row ids", 8 },
	[SAFETENSORS_U8] = { "U8", "bytes", 1 },
	[SAFETENSORS_F16] = { "F16", "float16 values", 2 },
	[SAFETENSORS_BF16] = { "BF16", "bfloat16 values", 2 },
	[SAFETENSORS_I8] = { "I8", "values of 8 bits", 1 } };

static bool parse_type(const char *name, enum safetensors_type *out)
{
	for (size_t i = 0; i < sizeof types / sizeof *types; i++)
		if (strcmp(name, types[i].name) == 0) {
			*out = (enum safetensors_type)i;
			return true;
		}
	return false;
}

/* Parses and checks one entry of the header. */
static enum err_code parse_tensor(const struct safetensors *s, struct safetensors_tensor *t,
    const json_t *v, struct err *e)
{
	const char *type = json_string_value(json_object_get(v, "dtype"));
	const json_t *off = json_object_get(v, "data_offsets");
	uint64_t bytes, begin, end;
	enum err_code rc;

	if (!type || json_object_size(v) != 3)
		return fail_tensor(s, t->name, "must have only dtype, shape and data_offsets", e);
	if (!parse_type(type, &t->type))
		return fail_tensor(s, t->name,
		    "has a type that cannot be read; convert it to F32, F16 or BF16", e);
	rc = parse_tensor_shape(s, t, json_object_get(v, "shape"), e);
	if (rc != ERR_OK)
		return rc;
	if (json_array_size(off) != 2 || !json_is_integer(json_array_get(off, 0)) ||
	    !json_is_integer(json_array_get(off, 1)) ||
	    json_integer_value(json_array_get(off, 0)) < 0 ||
	    json_integer_value(json_array_get(off, 1)) < json_integer_value(json_array_get(off, 0)))
		return fail_tensor(s, t->name, "has data_offsets that are not an ascending pair",
		    e);
	begin = (uint64_t)json_integer_value(json_array_get(off, 0));
	end = (uint64_t)json_integer_value(json_array_get(off, 1));
	if (__builtin_mul_overflow(t->count, types[t->type].size, &bytes) || end - begin != bytes)
		return fail_tensor(s, t->name, "has data_offsets that do not fit its shape", e);
	if (end > s->size - s->data)
		return fail_tensor(s, t->name,
		    "reaches beyond the end of the file (is it cut off?)", e);
	t->offset = s->data + begin;
	return ERR_OK;
}

static uint64_t end_of(const struct safetensors_tensor *t)
{
	return t->offset + t->count * types[t->type].size;
}

/* Compares by offset; an empty tensor comes before the one that begins at the same place. */
static int by_offset(const void *a, const void *b)
{
	const struct safetensors_tensor *x = a, *y = b;
	uint64_t ex = end_of(x), ey = end_of(y);

	if (x->offset != y->offset)
		return x->offset < y->offset ? -1 : 1;
	if (ex != ey)
		return ex < ey ? -1 : 1;
	return strcmp(x->name, y->name);
}

/* Finds the scales of a matrix of bytes, without which it has no values. */
static enum err_code find_scale(struct safetensors *s, struct safetensors_tensor *t, struct err *e)
{
	char *name = mem_printf("%s.scale", t->name);
	struct safetensors_tensor *scale = map_get(s->by_name, name);

	free(name);
	if (t->rank != 2 || !scale || scale->type != SAFETENSORS_F32 || scale->count != t->shape[0])
		return fail_tensor(s, t->name,
		    "has values of 8 bits (I8) without a scale for each row (NAME.scale, F32); "
		    "convert it to F32, F16 or BF16",
		    e);
	t->scale = scale;
	scale->is_scale = true;
	return ERR_OK;
}

/* Parses all entries, and checks that the tensors follow each other and cover the file. */
static enum err_code parse_all(struct safetensors *s, struct err *e)
{
	uint64_t at = s->data;
	const char *key;
	enum err_code rc;
	json_t *v;

	if (!json_is_object(s->header))
		return fail_tensor(s, NULL, "its header is not an object", e);
	s->t = mem_try_array(json_object_size(s->header) + 1, sizeof(*s->t));
	if (!s->t)
		return err_set(e, ERR_NOMEM, "no memory for the header of \"%s\"", s->name);
	json_object_foreach(s->header, key, v) {
		if (strcmp(key, "__metadata__") == 0) {
			rc = check_meta(s, v, e);
		} else {
			s->t[s->n].name = key;
			rc = parse_tensor(s, &s->t[s->n++], v, e);
		}
		if (rc != ERR_OK)
			return rc;
	}
	qsort(s->t, s->n, sizeof(*s->t), by_offset);
	for (size_t i = 0; i < s->n; i++) {
		if (s->t[i].offset != at)
			return fail_tensor(s, s->t[i].name,
			    s->t[i].offset < at ? "overlaps another one" : "leaves a gap before it",
			    e);
		at = end_of(&s->t[i]);
		map_put(s->by_name, s->t[i].name, &s->t[i]);
	}
	if (at != s->size)
		return fail_tensor(s, NULL, "it has bytes that belong to no tensor", e);
	for (size_t i = 0; i < s->n; i++)
		if (s->t[i].type == SAFETENSORS_I8 && (rc = find_scale(s, &s->t[i], e)) != ERR_OK)
			return rc;
	return ERR_OK;
}

enum err_code safetensors_open_fd(int fd, const char *name, struct safetensors **out, struct err *e)
{
	struct safetensors *s = mem_alloc(sizeof(*s));
	enum err_code rc;

	*out = NULL;
	s->fd = fd;
	s->name = mem_strdup(name);
	s->by_name = map_new();
	rc = read_json_header(s, e);
	if (rc == ERR_OK)
		rc = parse_all(s, e);
	if (rc != ERR_OK) {
		safetensors_close(s);
		return rc;
	}
	*out = s;
	return ERR_OK;
}

enum err_code safetensors_open(const char *path, struct safetensors **out, struct err *e)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	*out = NULL;
	if (fd < 0)
		return err_sys(e, ERR_IO, "cannot open \"%s\"", path);
	return safetensors_open_fd(fd, path, out, e);
}

void safetensors_close(struct safetensors *s)
{
	if (!s)
		return;
	if (s->mapped)
		munmap((void *)(uintptr_t)s->mapped, (size_t)s->size);
	close(s->fd);
	map_free(s->by_name);
	json_decref(s->header);
	free(s->t);
	free(s->name);
	free(s);
}

size_t safetensors_count(const struct safetensors *s)
{
	return s->n;
}

const struct safetensors_tensor *safetensors_at(const struct safetensors *s, size_t i)
{
	return &s->t[i];
}

const struct safetensors_tensor *safetensors_find(const struct safetensors *s, const char *name)
{
	return map_get(s->by_name, name);
}

const char *safetensors_meta(const struct safetensors *s, const char *key)
{
	return json_string_value(json_object_get(json_object_get(s->header, "__metadata__"), key));
}

bool safetensors_is_parameters(const struct safetensors_tensor *t)
{
	enum element_type element;

	return t->scale || (safetensors_element(t->type, &element) && !t->is_scale);
}

static enum err_code check_range(const struct safetensors *s, const struct safetensors_tensor *t,
    uint64_t first, uint64_t n, struct err *e)
{
	if (first > t->count || n > t->count - first)
		return err_set(e, ERR_LIMIT,
		    "\"%s\": tensor \"%.200s\" has %" PRIu64 " values, not %" PRIu64
		    " from %" PRIu64,
		    s->name, t->name, t->count, n, first);
	return ERR_OK;
}

static enum err_code read_range(const struct safetensors *s, const struct safetensors_tensor *t,
    enum safetensors_type type, uint64_t first, uint64_t n, void *out, struct err *e)
{
	enum err_code rc;

	if (t->type != type)
		return err_set(e, ERR_FORMAT, "\"%s\": tensor \"%.200s\" holds %s, not %s", s->name,
		    t->name, types[t->type].holds, types[type].holds);
	rc = check_range(s, t, first, n, e);
	return rc
	    ? rc
	    : pread_all(s, out, n * types[type].size, t->offset + first * types[type].size, e);
}

#define READ_AT_A_TIME 4096u

/* Reads values of a matrix of bytes, which may begin and end within a row. */
static enum err_code read_bytes_of_rows(const struct safetensors *s,
    const struct safetensors_tensor *t, uint64_t first, uint64_t n, float *out, struct err *e)
{
	uint64_t cols = t->shape[1];
	int8_t byte[READ_AT_A_TIME];
	float scale[READ_AT_A_TIME + 1];
	enum err_code rc = check_range(s, t, first, n, e);

	for (uint64_t at = first, k; !rc && at < first + n; at += k) {
		uint64_t row = at / cols, left = first + n - at, i, m;

		k = left < READ_AT_A_TIME ? left : READ_AT_A_TIME;
		rc = read_range(s, t, SAFETENSORS_I8, at, k, byte, e);
		if (!rc)
			rc = read_range(s, t->scale, SAFETENSORS_F32, row,
			    (at + k - 1) / cols - row + 1, scale, e);
		for (i = 0; !rc && i < k; i += m) {
			uint64_t to_end = cols - (at + i) % cols;

			m = k - i < to_end ? k - i : to_end;
			stored_row_widen((size_t)m, byte + i, scale[(at + i) / cols - row],
			    out + (at - first) + i);
		}
	}
	return rc;
}

enum err_code safetensors_read(const struct safetensors *s, const struct safetensors_tensor *t,
    uint64_t first, uint64_t n, float *out, struct err *e)
{
	enum element_type element;
	uint16_t narrow[READ_AT_A_TIME];
	enum err_code rc = ERR_OK;

	if (t->scale)
		return read_bytes_of_rows(s, t, first, n, out, e);
	if (!safetensors_element(t->type, &element) || element == ELEMENT_f32)
		return read_range(s, t, SAFETENSORS_F32, first, n, out, e);
	_Static_assert(ELEMENT_TYPES == 3, "all types but f32 have 16 bits");
	for (uint64_t at = 0, k; !rc && at < n; at += k) {
		k = n - at < READ_AT_A_TIME ? n - at : READ_AT_A_TIME;
		rc = read_range(s, t, t->type, first + at, k, narrow, e);
		if (!rc)
			element_widen(element, (size_t)k, narrow, out + at);
	}
	return rc;
}

enum err_code safetensors_read_ids(const struct safetensors *s, const struct safetensors_tensor *t,
    uint64_t first, uint64_t n, uint64_t *out, struct err *e)
{
	return read_range(s, t, SAFETENSORS_U64, first, n, out, e);
}

enum err_code safetensors_read_bytes(const struct safetensors *s,
    const struct safetensors_tensor *t, uint64_t first, uint64_t n, uint8_t *out, struct err *e)
{
	return read_range(s, t, SAFETENSORS_U8, first, n, out, e);
}

enum err_code safetensors_map(struct safetensors *s, struct err *e)
{
	void *at;

	if (s->mapped)
		return ERR_OK;
	at = mmap(NULL, (size_t)s->size, PROT_READ, MAP_SHARED, s->fd, 0);
	if (at == MAP_FAILED)
		return err_sys(e, ERR_IO, "cannot map \"%s\"", s->name);
	s->mapped = at;
	return ERR_OK;
}

const uint8_t *safetensors_bytes(const struct safetensors *s, const struct safetensors_tensor *t)
{
	return s->mapped + t->offset;
}

struct stored_rows safetensors_rows(const struct safetensors *s, const struct safetensors_tensor *t)
{
	struct stored_rows r = { .at = safetensors_bytes(s, t) };

	if (t->scale)
		r.scale = safetensors_bytes(s, t->scale);
	else
		safetensors_element(t->type, &r.type);
	return r;
}

/* The place in safetensors_gather to go on at when a page of the file is gone. */
static sigjmp_buf cut_off;

static void leave_gather(int sig)
{
	(void)sig;
	siglongjmp(cut_off, 1);
}

static void copy_rows(const struct stored_rows *from, size_t cols, const uint32_t *row, uint64_t n,
    float *out)
{
	for (uint64_t i = 0; i < n; i++)
		stored_rows_get(from, cols, row[i], 1, out + i * cols);
}

enum err_code safetensors_gather(const struct safetensors *s, const struct safetensors_tensor *t,
    size_t cols, const uint32_t *row, uint64_t n, float *out, struct err *e)
{
	struct stored_rows rows = safetensors_rows(s, t);
	struct sigaction before;

	if (!safetensors_is_parameters(t) || (t->scale && cols != t->shape[1]))
		return err_set(e, ERR_FORMAT, "\"%s\": tensor \"%.200s\" holds %s, not parameters",
		    s->name, t->name, types[t->type].holds);
	for (uint64_t i = 0; i < n; i++)
		if ((uint64_t)row[i] >= t->count / cols)
			return err_set(e, ERR_LIMIT, "\"%s\": tensor \"%.200s\" has no row %u",
			    s->name, t->name, row[i]);
	sigaction(SIGBUS, NULL, &before);
	if (sigsetjmp(cut_off, 1) != 0) {
		sigaction(SIGBUS, &before, NULL);
		return err_set(e, ERR_FORMAT,
		    "\"%s\" shrank from %" PRIu64 " bytes while it was read", s->name, s->size);
	}
	sigaction(SIGBUS, &(struct sigaction){ .sa_handler = leave_gather }, NULL);
	copy_rows(&rows, cols, row, n, out);
	sigaction(SIGBUS, &before, NULL);
	return ERR_OK;
}

#define COUNT_AT_A_TIME 65536u

static int64_t count_nonfinite(struct safetensors *file, const struct safetensors_tensor *t,
    float *x)
{
	int64_t bad = 0;

	for (uint64_t at = 0; at < t->count; at += COUNT_AT_A_TIME) {
		uint64_t n = t->count - at < COUNT_AT_A_TIME ? t->count - at : COUNT_AT_A_TIME;

		if (safetensors_read(file, t, at, n, x, NULL) != ERR_OK)
			return -1;
		for (uint64_t i = 0; i < n; i++)
			bad += !isfinite(x[i]);
	}
	return bad;
}

/* Reads COUNT_AT_A_TIME values at a time, so memory does not depend on the file. */
int64_t safetensors_count_nonfinite(const char *path)
{
	struct safetensors *file;
	int64_t sum = 0;
	float *x;

	if (safetensors_open(path, &file, NULL) != ERR_OK)
		return -1;
	x = mem_array(COUNT_AT_A_TIME, sizeof *x);
	for (size_t i = 0; sum >= 0 && i < safetensors_count(file); i++) {
		const struct safetensors_tensor *t = safetensors_at(file, i);
		int64_t bad = safetensors_is_parameters(t) ? count_nonfinite(file, t, x) : 0;

		sum = bad < 0 ? -1 : sum + bad;
	}
	free(x);
	safetensors_close(file);
	return sum;
}

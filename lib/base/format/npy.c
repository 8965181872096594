/* SPDX-License-Identifier: ISC */
#include "format/npy.h"

#include <assert.h>
#include <stdbool.h>

#include "core/endian.h"
#include "core/file.h"
#include "core/log.h"
#include "core/num.h"

#define CHUNK      4096 /* bytes converted at a time */
#define HEADER_MAX (1u << 20)

struct npy_type {
	char descr[4];
	size_t size;
	void (*convert)(const uint8_t *in, float *out, size_t n);
	double (*exact)(const uint8_t *in);
};

static double exact_f4(const uint8_t *in)
{
	float v;

	memcpy(&v, in, sizeof v);
	return (double)v;
}

static double exact_f8(const uint8_t *in)
{
	double v;

	memcpy(&v, in, sizeof v);
	return v;
}

static double exact_i4(const uint8_t *in)
{
	return (int32_t)get_le32(in);
}

static double exact_i8(const uint8_t *in)
{
	return (double)(int64_t)get_le64(in);
}

static double exact_u1(const uint8_t *in)
{
	return *in;
}

static void from_f4(const uint8_t *in, float *out, size_t n)
{
	memcpy(out, in, n * sizeof(*out));
}

static void from_f8(const uint8_t *in, float *out, size_t n)
{
	double v;

	for (size_t i = 0; i < n; i++) {
		memcpy(&v, in + i * sizeof(v), sizeof(v));
		out[i] = (float)v;
	}
}

static void from_i4(const uint8_t *in, float *out, size_t n)
{
	for (size_t i = 0; i < n; i++)
		out[i] = (float)(int32_t)get_le32(in + i * 4);
}

static void from_i8(const uint8_t *in, float *out, size_t n)
{
	for (size_t i = 0; i < n; i++)
		out[i] = (float)(int64_t)get_le64(in + i * 8);
}

static void from_u1(const uint8_t *in, float *out, size_t n)
{
	for (size_t i = 0; i < n; i++)
		out[i] = (float)in[i];
}

static const struct npy_type types[] = {
	{ "<f4", 4, from_f4, exact_f4 },
	{ "<f8", 8, from_f8, exact_f8 },
	{ "<i4", 4, from_i4, exact_i4 },
	{ "<i8", 8, from_i8, exact_i8 },
	{ "|u1", 1, from_u1, exact_u1 },
	{ "|b1", 1, from_u1, exact_u1 },
};

/* The unparsed rest of the header's dictionary, a Python literal. */
struct literal {
	const char *p;
	struct stream *s;
};

static void skip_literal_blanks(struct literal *l)
{
	while (*l->p == ' ' || *l->p == '\n' || *l->p == '\t')
		l->p++;
}

static bool eat_char(struct literal *l, char c)
{
	skip_literal_blanks(l);
	if (*l->p != c)
		return false;
	l->p++;
	return true;
}

/* Parses 'text' or "text" without escapes into out; false when it is not there. */
static bool parse_quoted(struct literal *l, char *out, size_t size)
{
	const char *end;
	char q;

	skip_literal_blanks(l);
	q = *l->p;
	if (q != '\'' && q != '"')
		return false;
	end = strchr(l->p + 1, q);
	if (!end || (size_t)(end - l->p) > size)
		return false;
	memcpy(out, l->p + 1, (size_t)(end - l->p) - 1);
	out[end - l->p - 1] = '\0';
	l->p = end + 1;
	return true;
}

static bool eat_word(struct literal *l, const char *w)
{
	skip_literal_blanks(l);
	if (strncmp(l->p, w, strlen(w)) != 0)
		return false;
	l->p += strlen(w);
	return true;
}

static enum err_code parse_descr(struct literal *l, struct npy *h, struct err *e)
{
	char descr[24], shown[24 * 4];

	if (!parse_quoted(l, descr, sizeof(descr)))
		return stream_fail(l->s, e,
		    "the array has records as elements; save one plain column");
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (strcmp(descr, types[i].descr) == 0)
			h->type = &types[i];
	if (h->type)
		return ERR_OK;
	log_escape(shown, sizeof(shown), descr, strlen(descr));
	return stream_fail(l->s, e,
	    "element type \"%s\" cannot be read; save it as float32 (numpy: x.astype('<f4'))",
	    shown);
}

static enum err_code parse_order(struct literal *l, struct err *e)
{
	if (eat_word(l, "False"))
		return ERR_OK;
	if (eat_word(l, "True"))
		return stream_fail(l->s, e,
		    "the array is in Fortran order; save it row by row "
		    "(numpy: np.ascontiguousarray(x))");
	return stream_fail(l->s, e,
	    "malformed npy header: fortran_order is neither True nor False");
}

/* The shape is a Python tuple, as (3, 4) or (3,); () is a single value. The product of the
 * dimensions is limited so that the number of bytes of 8-byte values cannot overflow an int64. */
static enum err_code parse_npy_shape(struct literal *l, struct npy *h, struct err *e)
{
	uint64_t v;

	if (!eat_char(l, '('))
		return stream_fail(l->s, e, "malformed npy header: shape is not a tuple");
	for (h->rank = 0; !eat_char(l, ')'); h->rank++) {
		if (h->rank == NPY_RANK_MAX)
			return stream_fail(l->s, e, "the array has more than %d dimensions",
			    NPY_RANK_MAX);
		skip_literal_blanks(l);
		if (*l->p < '0' || *l->p > '9')
			return stream_fail(l->s, e, "malformed npy header: bad shape");
		for (v = 0; *l->p >= '0' && *l->p <= '9'; l->p++)
			if (__builtin_mul_overflow(v, 10, &v) ||
			    __builtin_add_overflow(v, *l->p - '0', &v))
				return stream_fail(l->s, e,
				    "malformed npy header: shape is too large");
		h->shape[h->rank] = v;
		skip_literal_blanks(l);
		if (*l->p != ')' && !eat_char(l, ','))
			return stream_fail(l->s, e, "malformed npy header: bad shape");
	}
	h->count = 1;
	for (size_t i = 0; i < h->rank; i++)
		if (__builtin_mul_overflow(h->count, h->shape[i], &h->count))
			return stream_fail(l->s, e, "malformed npy header: shape is too large");
	if (h->count > INT64_MAX / 8)
		return stream_fail(l->s, e, "malformed npy header: shape is too large");
	return ERR_OK;
}

/* Parses the header's dictionary and checks its keys. */
static enum err_code parse_header(struct literal *l, struct npy *h, struct err *e)
{
	bool shape = false, order = false;
	enum err_code rc = ERR_OK;
	char key[32];

	if (!eat_char(l, '{'))
		return stream_fail(l->s, e, "malformed npy header: no dictionary");
	while (!eat_char(l, '}')) {
		if (!parse_quoted(l, key, sizeof(key)) || !eat_char(l, ':'))
			return stream_fail(l->s, e,
			    "malformed npy header: no 'key': where one was expected");
		if (strcmp(key, "descr") == 0) {
			rc = parse_descr(l, h, e);
		} else if (strcmp(key, "fortran_order") == 0) {
			order = true;
			rc = parse_order(l, e);
		} else if (strcmp(key, "shape") == 0) {
			shape = true;
			rc = parse_npy_shape(l, h, e);
		} else {
			return stream_fail(l->s, e,
			    "malformed npy header: a key other than descr, fortran_order and "
			    "shape");
		}
		if (rc != ERR_OK)
			return rc;
		skip_literal_blanks(l);
		if (*l->p != '}' && !eat_char(l, ','))
			return stream_fail(l->s, e, "malformed npy header: no comma between keys");
	}
	if (!h->type || !shape || !order)
		return stream_fail(l->s, e,
		    "malformed npy header: descr, fortran_order or shape is missing");
	return ERR_OK;
}

static enum err_code read_npy_bytes(struct stream *s, void *p, size_t n, struct err *e)
{
	size_t got;
	enum err_code rc = stream_read(s, p, n, &got, e);

	if (rc == ERR_OK && got < n)
		return stream_fail(s, e, "is cut off within its npy header");
	return rc;
}

/* NEP 1: the magic bytes, a version of two bytes, the length of the text (u16 in version 1, u32
 * later), and the text, a Python dict. A length above HEADER_MAX is refused before memory is
 * taken. */
enum err_code npy_read_header(struct stream *s, struct npy *h, struct err *e)
{
	struct buf text = BUF_INIT;
	struct literal l;
	uint8_t head[12];
	enum err_code rc;
	size_t n;

	memset(h, 0, sizeof(*h));
	rc = read_npy_bytes(s, head, 10, e);
	if (rc != ERR_OK)
		return rc;
	if (memcmp(head, "\x93NUMPY", 6) != 0)
		return stream_fail(s, e, "is not an npy file");
	if (head[6] < 1 || head[6] > 3)
		return stream_fail(s, e, "npy version %d.%d cannot be read", head[6], head[7]);
	if (head[6] > 1) {
		rc = read_npy_bytes(s, head + 10, 2, e);
		if (rc != ERR_OK)
			return rc;
	}
	n = head[6] == 1 ? get_le16(head + 8) : get_le32(head + 8);
	if (n > HEADER_MAX)
		return stream_fail(s, e, "npy header of %zu bytes is too long", n);
	rc = read_npy_bytes(s, buf_reserve(&text, n), n, e);
	if (rc == ERR_OK) {
		buf_commit(&text, n);
		h->head = (head[6] == 1 ? 10 : 12) + n;
		l = (struct literal){ (const char *)text.data, s };
		rc = parse_header(&l, h, e);
	}
	buf_release(&text);
	return rc;
}

size_t npy_value_size(const struct npy *h)
{
	return h->type->size;
}

/* Reads the next k values as they are in the file. */
static enum err_code read_bytes(struct stream *s, const struct npy *h, uint8_t *out, size_t k,
    struct err *e)
{
	size_t got;
	enum err_code rc = stream_read(s, out, k * h->type->size, &got, e);

	if (rc == ERR_OK && got < k * h->type->size)
		rc = stream_fail(s, e, "is cut off: its header announces %llu value%s",
		    (unsigned long long)h->count, NUM_S(h->count));
	return rc;
}

/* Read the next n values and convert them. */
static enum err_code read_values(struct stream *s, const struct npy *h, float *out, size_t n,
    struct err *e)
{
	size_t size = h->type->size, done, k;
	uint8_t chunk[CHUNK];
	enum err_code rc;

	for (done = 0; done < n; done += k) {
		k = n - done < CHUNK / size ? n - done : CHUNK / size;
		rc = read_bytes(s, h, chunk, k, e);
		if (rc != ERR_OK)
			return rc;
		h->type->convert(chunk, out + done, k);
	}
	return ERR_OK;
}

enum err_code npy_read_exact(struct stream *s, const struct npy *h, double *out, size_t n,
    struct err *e)
{
	size_t size = h->type->size, done, k;
	uint8_t chunk[CHUNK];
	enum err_code rc;

	for (done = 0; done < n; done += k) {
		k = n - done < CHUNK / size ? n - done : CHUNK / size;
		rc = read_bytes(s, h, chunk, k, e);
		if (rc != ERR_OK)
			return rc;
		for (size_t i = 0; i < k; i++)
			out[done + i] = h->type->exact(chunk + i * size);
	}
	return ERR_OK;
}

enum err_code npy_read_end(struct stream *s, struct err *e)
{
	uint8_t one;
	size_t got;
	enum err_code rc = stream_read(s, &one, 1, &got, e);

	if (rc == ERR_OK && got > 0)
		return stream_fail(s, e, "has bytes after its last value");
	return rc;
}

/* The array grows as values arrive, so that a header which promises more than the file contains
 * does not take that memory. An array without values gives one that is allocated and has none. */
enum err_code npy_read(struct stream *s, uint64_t max, struct npy *h, float **out, struct err *e)
{
	size_t n = 0, cap = 0, grow;
	enum err_code rc;
	float *x = NULL, *p;

	*out = NULL;
	rc = npy_read_header(s, h, e);
	if (rc == ERR_OK && h->count > max)
		rc = stream_fail(s, e, "has %llu value%s, expected at most %llu",
		    (unsigned long long)h->count, NUM_S(h->count), (unsigned long long)max);
	while (rc == ERR_OK && n < h->count) {
		cap = cap ? 2 * cap : 1u << 18;
		if (cap > h->count)
			cap = h->count;
		p = realloc(x, cap * sizeof(*x));
		if (!p) {
			rc = err_set(e, ERR_NOMEM, "no memory for %s", stream_name(s));
			break;
		}
		x = p;
		grow = cap - n;
		rc = read_values(s, h, x + n, grow, e);
		n += grow;
	}
	if (rc == ERR_OK)
		rc = npy_read_end(s, e);
	if (rc != ERR_OK) {
		free(x);
		return rc;
	}
	*out = x ? x : calloc(1, sizeof(*x));
	return *out ? ERR_OK : err_set(e, ERR_NOMEM, "no memory for %s", stream_name(s));
}

void npy_put_header(struct buf *out, const uint64_t *shape, size_t rank)
{
	size_t start = out->len, len;

	assert(rank <= NPY_RANK_MAX);
	buf_append(out, "\x93NUMPY\x01\x00\x00\x00", 10);
	buf_puts(out, "{'descr': '<f4', 'fortran_order': False, 'shape': (");
	for (size_t i = 0; i < rank; i++)
		buf_printf(out, "%s%llu%s", i ? ", " : "", (unsigned long long)shape[i],
		    rank == 1 ? "," : "");
	buf_puts(out, "), }");
	while ((out->len - start + 1) % 64 != 0)
		buf_puts(out, " ");
	buf_puts(out, "\n");
	len = out->len - start - 10;
	put_le16(out->data + start + 8, (uint16_t)len);
}

enum err_code npy_write(int fd, const float *x, const uint64_t *shape, size_t rank, struct err *e)
{
	struct buf head = BUF_INIT;
	uint64_t count = 1;
	enum err_code rc;

	for (size_t i = 0; i < rank; i++)
		count *= shape[i];
	npy_put_header(&head, shape, rank);
	rc = file_write_all(fd, head.data, head.len, e);
	if (rc == ERR_OK)
		rc = file_write_all(fd, x, count * sizeof(*x), e);
	buf_release(&head);
	return rc;
}

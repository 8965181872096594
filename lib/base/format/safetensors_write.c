/* SPDX-License-Identifier: ISC */
#include "format/safetensors.h"

#include <assert.h>
#include <stdbool.h>

#include "core/buf.h"
#include "core/endian.h"
#include "core/file.h"
#include "core/json.h"
#include "core/mem.h"

struct part {
	uint64_t count, begin, end; /* values; bytes from the start of the data */
	enum safetensors_type type;
};

struct safetensors_writer {
	json_t *header; /* keeps the order of insertion */
	json_t *meta;
	struct part *parts;
	size_t nparts;
	uint64_t bytes; /* bytes of all tensors */
	size_t head_len;
	safetensors_sink *sink;
	void *ctx;
	size_t at; /* tensor that is being written, and its values so far */
	uint64_t done;
	/* the tensor of bytes at the end of the file; NULL: there is none */
	char *last_name;
	void *last;
	size_t last_size;
};

struct safetensors_writer *safetensors_writer_new(void)
{
	struct safetensors_writer *w = mem_alloc(sizeof(*w));

	w->header = json_object();
	w->meta = json_object();
	return w;
}

void safetensors_writer_free(struct safetensors_writer *w)
{
	if (!w)
		return;
	json_decref(w->header);
	json_decref(w->meta);
	free(w->parts);
	free(w->last_name);
	free(w->last);
	free(w);
}

static const struct {
	const char *name;
	size_t size;
} types[] = { [SAFETENSORS_F32] = { "F32", 4 },
	[SAFETENSORS_U64] = { "U64", 8 },
	[SAFETENSORS_U8] = { "U8", 1 },
	[SAFETENSORS_F16] = { "F16", 2 },
	[SAFETENSORS_BF16] = { "BF16", 2 },
	[SAFETENSORS_I8] = { "I8", 1 } };

enum safetensors_type safetensors_type_of(enum element_type element)
{
	static const enum safetensors_type of[] = { [ELEMENT_f32] = SAFETENSORS_F32,
		[ELEMENT_f16] = SAFETENSORS_F16,
		[ELEMENT_bf16] = SAFETENSORS_BF16 };

	return of[element];
}

bool safetensors_element(enum safetensors_type type, enum element_type *out)
{
	for (unsigned i = 0; i < ELEMENT_TYPES; i++)
		if (safetensors_type_of((enum element_type)i) == type) {
			*out = (enum element_type)i;
			return true;
		}
	return false;
}

static size_t type_size(enum safetensors_type t)
{
	return types[t].size;
}

/* Tensors lie in the file in the order of these calls, without gaps, as the format requires. All
 * sizes are limited to 63 bits, because the header's offsets are JSON integers. */
enum err_code safetensors_add(struct safetensors_writer *w, const char *name,
    enum safetensors_type type, const uint64_t *shape, size_t rank, struct err *e)
{
	struct part p = { .count = 1, .begin = w->bytes, .type = type };
	json_t *dims;

	assert(!w->sink && rank <= SAFETENSORS_RANK_MAX);
	if (json_object_get(w->header, name) || strcmp(name, "__metadata__") == 0)
		return err_set(e, ERR_EXISTS, "safetensors: the name \"%s\" occurs twice", name);
	for (size_t i = 0; i < rank; i++)
		if (__builtin_mul_overflow(p.count, shape[i], &p.count) || shape[i] > INT64_MAX)
			return err_set(e, ERR_LIMIT, "safetensors: \"%s\" is too large", name);
	if (__builtin_mul_overflow(p.count, type_size(type), &p.end) ||
	    __builtin_add_overflow(p.end, p.begin, &p.end) || p.end > INT64_MAX)
		return err_set(e, ERR_LIMIT, "safetensors: \"%s\" is too large", name);
	dims = json_array();
	for (size_t i = 0; i < rank; i++)
		json_array_append_new(dims, json_integer((json_int_t)shape[i]));
	if (json_object_set_new(w->header, name,
	        json_pack("{s:s, s:o, s:[I, I]}", "dtype", types[type].name, "shape", dims,
	            "data_offsets", (json_int_t)p.begin, (json_int_t)p.end)) != 0)
		return err_set(e, ERR_FORMAT,
		    "safetensors: the name of tensor %zu is not UTF-8 text", w->nparts + 1);
	w->bytes = p.end;
	w->parts = mem_regrow(w->parts, w->nparts + 1, sizeof(*w->parts));
	w->parts[w->nparts++] = p;
	return ERR_OK;
}

void safetensors_add_meta(struct safetensors_writer *w, const char *key, const char *value)
{
	json_object_set_new(w->meta, key, json_string(value));
}

void safetensors_add_bytes(struct safetensors_writer *w, const char *name, void *bytes, size_t n)
{
	assert(!w->sink && !w->last);
	w->last_name = mem_strdup(name);
	w->last = bytes;
	w->last_size = n;
}

uint64_t safetensors_size(const struct safetensors_writer *w)
{
	return w->head_len + w->bytes;
}

/* Skips tensors that are complete; empty ones always are. */
static void skip_done(struct safetensors_writer *w)
{
	while (w->at < w->nparts && w->done == w->parts[w->at].count) {
		w->at++;
		w->done = 0;
	}
}

/* The header is padded with blanks so that the values begin at a multiple of 64 bytes: a reader can
 * map the file and use them in place. Its length is a little-endian u64 and includes the
 * padding. */
enum err_code safetensors_begin(struct safetensors_writer *w, safetensors_sink *sink, void *ctx,
    struct err *e)
{
	struct buf head = BUF_INIT;
	enum err_code rc = w->last
	    ? safetensors_add(w, w->last_name, SAFETENSORS_U8, &(uint64_t){ w->last_size }, 1, e)
	    : ERR_OK;
	json_t *all;
	char *text;

	if (rc)
		return rc;
	all = json_object();
	if (json_object_size(w->meta) > 0)
		json_object_set(all, "__metadata__", w->meta);
	json_object_update(all, w->header);
	text = json_text(all);
	json_decref(all);
	buf_append(&head, "\0\0\0\0\0\0\0\0", 8);
	buf_puts(&head, text);
	free(text);
	while (head.len % 64 != 0)
		buf_puts(&head, " ");
	put_le64(head.data, head.len - 8);
	w->head_len = head.len;
	w->sink = sink;
	w->ctx = ctx;
	if (head.len - 8 > SAFETENSORS_HEADER_MAX)
		rc = err_set(e, ERR_LIMIT, "safetensors: a header of %zu bytes is too long",
		    head.len);
	else
		rc = sink(ctx, head.data, head.len, e);
	buf_release(&head);
	skip_done(w);
	return rc;
}

/* Passes values to the sink; one call may cross tensors of the same type. */
static enum err_code put_typed_values(struct safetensors_writer *w, enum safetensors_type type,
    const void *x, uint64_t n, struct err *e)
{
	const uint8_t *p = x;
	enum err_code rc;
	uint64_t k;

	assert(w->sink);
	for (; n > 0; n -= k) {
		if (w->at == w->nparts || w->parts[w->at].type != type)
			return err_set(e, ERR_FAILED,
			    "safetensors: value is outside of tensor %zu of %zu", w->at, w->nparts);
		k = w->parts[w->at].count - w->done;
		k = n < k ? n : k;
		rc = w->sink(w->ctx, p, k * type_size(type), e);
		if (rc != ERR_OK)
			return rc;
		p += k * type_size(type);
		w->done += k;
		skip_done(w);
	}
	return ERR_OK;
}

/* Values that are rounded at a time. */
#define ROUNDED 4096u

/* Passes n values to the sink, rounded to the type of the tensor that is being written. */
static enum err_code put_rounded(struct safetensors_writer *w, enum element_type element,
    const float *x, uint64_t n, struct err *e)
{
	enum safetensors_type type = w->parts[w->at].type;
	float room[ROUNDED]; /* for at most 4 bytes each */
	enum err_code rc = ERR_OK;

	for (uint64_t at = 0, k; !rc && at < n; at += k) {
		k = n - at < ROUNDED ? n - at : ROUNDED;
		element_narrow(element, (size_t)k, x + at, room);
		rc = put_typed_values(w, type, room, k, e);
	}
	return rc;
}

enum err_code safetensors_put(struct safetensors_writer *w, const float *x, uint64_t n,
    struct err *e)
{
	enum element_type element;
	enum err_code rc = ERR_OK;

	/* Each tensor has a type of its own. */
	for (uint64_t k; !rc && n > 0; x += k, n -= k) {
		bool rounds = w->at < w->nparts &&
		    safetensors_element(w->parts[w->at].type, &element) && element != ELEMENT_f32;

		k = w->at < w->nparts ? w->parts[w->at].count - w->done : n;
		k = n < k ? n : k;
		rc = rounds ? put_rounded(w, element, x, k, e)
		            : put_typed_values(w, SAFETENSORS_F32, x, k, e);
	}
	return rc;
}

enum err_code safetensors_put_ids(struct safetensors_writer *w, const uint64_t *x, uint64_t n,
    struct err *e)
{
	return put_typed_values(w, SAFETENSORS_U64, x, n, e);
}

enum err_code safetensors_put_int8(struct safetensors_writer *w, const int8_t *x, uint64_t n,
    struct err *e)
{
	return put_typed_values(w, SAFETENSORS_I8, x, n, e);
}

enum err_code safetensors_end(struct safetensors_writer *w, struct err *e)
{
	/* Values of other tensors are missing unless the one of bytes is the next. */
	if (w->last && w->at + 1 == w->nparts) {
		enum err_code rc = put_typed_values(w, SAFETENSORS_U8, w->last, w->last_size, e);

		if (rc)
			return rc;
	}
	if (w->at != w->nparts)
		return err_set(e, ERR_FAILED, "safetensors: tensor %zu of %zu is not complete",
		    w->at + 1, w->nparts);
	return ERR_OK;
}

enum err_code safetensors_to_fd(void *fd, const void *p, size_t n, struct err *e)
{
	return file_write_all(*(const int *)fd, p, n, e);
}

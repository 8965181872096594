/* SPDX-License-Identifier: ISC */
#ifndef SERVING_V2_REQUEST_H
#define SERVING_V2_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "core/json.h"

/* A request of the Open Inference Protocol, version 2 (REST): JSON with tensors, and the binary
 * extension, in which the raw values of tensors follow the JSON, whose length is in the header
 * Inference-Header-Content-Length. The protocol is
 * that of KServe ("Predict Protocol, version 2"), the extension that of Triton ("Binary Tensor Data").
 *
 * Tensors have one or two dimensions: [n] or [n, k], and the examples are along the first one. All
 * inputs have the same n. Pure; no threads or locks. */

/* TYPE(name, bytes of a value; 0: each has a length of 4 bytes before it) */
#define V2_TYPES(TYPE) \
	TYPE(BOOL, 1) \
	TYPE(UINT8, 1) \
	TYPE(UINT16, 2) \
	TYPE(UINT32, 4) \
	TYPE(UINT64, 8) \
	TYPE(INT8, 1) \
	TYPE(INT16, 2) \
	TYPE(INT32, 4) \
	TYPE(INT64, 8) \
	TYPE(FP16, 2) \
	TYPE(FP32, 4) \
	TYPE(FP64, 8) \
	TYPE(BYTES, 0)
enum v2_type {
#define TYPE(name, bytes) V2_##name,
	V2_TYPES(TYPE)
#undef TYPE
	    V2_NTYPES
};
extern const char *const v2_type_name[V2_NTYPES];

/* A tensor. name and the values are borrowed from the request and its body. */
struct v2_tensor {
	const char *name;
	enum v2_type type;
	size_t rows, cols; /* cols 1 for one dimension */
	bool flat;         /* it has one dimension */
	/* The values row by row: items of the JSON, or raw little-endian bytes. */
	const json_t **item;
	const uint8_t *raw;
	size_t nraw;
	const uint8_t *at; /* of v2_next: the next raw value */
	size_t next;       /* and its number */
};

struct v2_output {
	const char *name;
	bool binary;
};

struct v2_request {
	json_t *json;
	const json_t *id; /* a text, or NULL */
	size_t rows;
	struct v2_tensor *in;
	size_t nin;
	/* The outputs that were asked for; n 0: all of them, in binary if binary_outputs. */
	struct v2_output *out;
	size_t nout;
	bool binary_outputs;
};

/* The JSON of the last request with raw values, and its tree. Most clients always send the same one,
 * and parsing it would take half of the time of a request. */
struct v2_head {
	char *text;
	size_t len;
	json_t *json;
};
/* A longer JSON is not kept. */
#define V2_HEAD_KEPT 65536u
void v2_head_release(struct v2_head *h);

/* Parses a body of n bytes. head: the length of the JSON, or -1: all of it. most: rows. last: NULL, or
 * that of the same thread, which is used and replaced. *out is to be released, also after an error.
 * ERR_FORMAT: malformed, or contradicts itself. ERR_LIMIT: more rows. */
enum err_code v2_request_parse(const char *body, size_t n, int64_t head, size_t most,
    struct v2_head *last, struct v2_request *out, struct err *e);
void v2_request_release(struct v2_request *r);

/* A value of a tensor. */
enum v2_kind { V2_NUMBER, V2_INTEGER, V2_TEXT, V2_MISSING };
struct v2_value {
	enum v2_kind kind;
	double number;   /* also of an integer */
	int64_t integer; /* only if it fits */
	const char *text;
	size_t len; /* of the text, which may have NUL bytes and none at its end */
};
/* Begins again with the first value. */
void v2_rewind(struct v2_tensor *t);
/* The next value; there must be one. null and NaN are missing. */
struct v2_value v2_next(struct v2_tensor *t);
/* The next value as a number, or as an integer, which is faster. False: it is none. */
bool v2_next_number(struct v2_tensor *t, double *out);
bool v2_next_integer(struct v2_tensor *t, int64_t *out);

#endif

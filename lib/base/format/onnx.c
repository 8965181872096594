/* SPDX-License-Identifier: ISC */
#include "format/onnx.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/buf.h"
#include "core/endian.h"
#include "core/file.h"
#include "core/map.h"
#include "core/mem.h"
#include "core/version.h"

/* The messages are written in the wire format of protocol buffers (protobuf.dev, "Encoding"): a field
 * is its number and a wire type as a varint, then a varint (type 0), or a length and that many bytes
 * (type 2), which are a text, a message, or packed numbers. Only these two types occur. A message needs
 * its length before its contents: small messages are made in a buffer, and the lengths of the graph
 * and of tensors are computed from those of their parts. */

#define IR_VERSION    7 /* of onnx.proto, the first with version 13 of the operators */
#define OPSET_VERSION 13
#define ML_VERSION    2
#define DATA_ALIGNED  4096u
#define WRITE_MIN     ((size_t)1 << 20) /* bytes that are collected for a write */

/* Numbers of fields in onnx.proto. */
enum {
	MODEL_IR = 1,
	MODEL_PRODUCER = 2,
	MODEL_PRODUCER_VERSION = 3,
	MODEL_TEXT = 6,
	MODEL_GRAPH = 7,
	MODEL_OPSET = 8,
	MODEL_FACT = 14,
	OPSET_DOMAIN = 1,
	OPSET_NUMBER = 2,
	ENTRY_KEY = 1,
	ENTRY_VALUE = 2,
	GRAPH_NODE = 1,
	GRAPH_NAME = 2,
	GRAPH_TENSOR = 5,
	GRAPH_INPUT = 11,
	GRAPH_OUTPUT = 12,
	NODE_INPUT = 1,
	NODE_OUTPUT = 2,
	NODE_OP = 4,
	NODE_ATTRIBUTE = 5,
	NODE_DOMAIN = 7,
	ATTRIBUTE_NAME = 1,
	ATTRIBUTE_INT = 3,
	ATTRIBUTE_TEXT = 4,
	ATTRIBUTE_INTS = 8,
	ATTRIBUTE_TEXTS = 9,
	ATTRIBUTE_TYPE = 20,
	TENSOR_DIM = 1,
	TENSOR_TYPE = 2,
	TENSOR_NAME = 8,
	TENSOR_RAW = 9,
	TENSOR_EXTERNAL = 13,
	TENSOR_LOCATION = 14,
	VALUE_NAME = 1,
	VALUE_TYPE = 2,
	VALUE_TEXT = 3,
	TYPE_TENSOR = 1,
	TYPE_ELEMENT = 1,
	TYPE_SHAPE = 2,
	SHAPE_DIM = 1,
	DIM_VALUE = 1,
	DIM_NAME = 2,
};
/* AttributeProto.AttributeType and TensorProto.DataLocation. */
enum { ATTRIBUTE_IS_INT = 2, ATTRIBUTE_IS_TEXT = 3, ATTRIBUTE_IS_INTS = 7, ATTRIBUTE_IS_TEXTS = 8 };
enum { LOCATION_EXTERNAL = 1 };

struct tensor {
	char *name;
	enum onnx_type type;
	size_t rank;
	int64_t dims[4];
	uint64_t bytes;
	onnx_put_fn *put;
	void *ctx;
	size_t number;
	uint64_t offset; /* in the file of values */
};

struct onnx {
	struct map *used; /* the names of values */
	char **name;
	size_t nnames, values; /* values: those with a name of digits */
	struct buf node;       /* the operator that was added last, which may get attributes */
	struct buf graph;      /* the other fields of the graph, without tensors */
	struct buf facts;      /* fields of the model after the graph */
	struct tensor *tensor;
	size_t ntensors;
};

struct onnx_out {
	int fd;
	struct buf buf;
	uint64_t left; /* bytes of the present tensor that are missing */
};

/* ---- protocol buffers ---- */

static void put_varint(struct buf *b, uint64_t v)
{
	uint8_t byte[10];
	size_t n = 0;

	for (; v >= 0x80; v >>= 7)
		byte[n++] = (uint8_t)(v | 0x80);
	byte[n++] = (uint8_t)v;
	buf_append(b, byte, n);
}

/* Negative numbers take 10 bytes, as int64 in onnx.proto does. */
static void put_number(struct buf *b, unsigned field, int64_t v)
{
	put_varint(b, (uint64_t)field << 3);
	put_varint(b, (uint64_t)v);
}

/* The head of a field of n bytes. */
static void put_length(struct buf *b, unsigned field, uint64_t n)
{
	put_varint(b, (uint64_t)field << 3 | 2);
	put_varint(b, n);
}

static void put_bytes(struct buf *b, unsigned field, const void *p, size_t n)
{
	put_length(b, field, n);
	buf_append(b, p, n);
}

static void put_text(struct buf *b, unsigned field, const char *text)
{
	put_bytes(b, field, text, strlen(text));
}

/* Puts a message, and empties it for the next one. */
static void put_message(struct buf *b, unsigned field, struct buf *message)
{
	put_bytes(b, field, message->data, message->len);
	buf_release(message);
}

static void put_entry(struct buf *b, unsigned field, const char *key, const char *value)
{
	struct buf entry = BUF_INIT;

	put_text(&entry, ENTRY_KEY, key);
	put_text(&entry, ENTRY_VALUE, value);
	put_message(b, field, &entry);
}

/* ---- names ---- */

/* Takes a name that no other value has, and keeps it; text is freed. */
static const char *take_name(struct onnx *g, char *text)
{
	while (map_get(g->used, text)) {
		char *longer = mem_printf("%s_", text);

		free(text);
		text = longer;
	}
	map_put(g->used, text, g);
	g->name = mem_regrow(g->name, g->nnames + 1, sizeof *g->name);
	g->name[g->nnames++] = text;
	return text;
}

static const char *next_name(struct onnx *g)
{
	return take_name(g, mem_printf("%zu", ++g->values));
}

/* ---- the graph ---- */

struct onnx *onnx_new(void)
{
	struct onnx *g = mem_alloc(sizeof *g);

	g->used = map_new();
	put_text(&g->graph, GRAPH_NAME, "pskit");
	return g;
}

void onnx_free(struct onnx *g)
{
	if (!g)
		return;
	for (size_t i = 0; i < g->nnames; i++)
		free(g->name[i]);
	free(g->name);
	map_free(g->used);
	buf_release(&g->node);
	buf_release(&g->graph);
	buf_release(&g->facts);
	free(g->tensor);
	free(g);
}

void onnx_describe(struct onnx *g, const char *text)
{
	put_text(&g->facts, MODEL_TEXT, text);
}

void onnx_add_fact(struct onnx *g, const char *key, const char *value)
{
	put_entry(&g->facts, MODEL_FACT, key, value);
}

/* Puts a ValueInfoProto: a name with the type and the shape of its values. */
static void put_value_info(struct onnx *g, unsigned field, const char *name, enum onnx_type type,
    struct onnx_columns columns, const char *description)
{
	struct buf value = BUF_INIT, outer = BUF_INIT, tensor = BUF_INIT, shape = BUF_INIT,
	           dim = BUF_INIT;

	put_text(&dim, DIM_NAME, "N");
	put_message(&shape, SHAPE_DIM, &dim);
	if (columns.name)
		put_text(&dim, DIM_NAME, columns.name);
	else
		put_number(&dim, DIM_VALUE, columns.n);
	if (columns.name || columns.n)
		put_message(&shape, SHAPE_DIM, &dim);
	buf_release(&dim);
	put_number(&tensor, TYPE_ELEMENT, type);
	put_message(&tensor, TYPE_SHAPE, &shape);
	put_message(&outer, TYPE_TENSOR, &tensor);
	put_text(&value, VALUE_NAME, name);
	put_message(&value, VALUE_TYPE, &outer);
	put_text(&value, VALUE_TEXT, description);
	put_message(&g->graph, field, &value);
}

const char *onnx_input(struct onnx *g, const char *name, enum onnx_type type,
    struct onnx_columns columns, const char *description)
{
	const char *value = take_name(g, mem_strdup(name));

	put_value_info(g, GRAPH_INPUT, value, type, columns, description);
	return value;
}

/* Completes the operator that was added last. */
static void finish_node(struct onnx *g)
{
	if (g->node.len)
		put_message(&g->graph, GRAPH_NODE, &g->node);
}

void onnx_output(struct onnx *g, const char *value, const char *name, enum onnx_type type,
    struct onnx_columns columns, const char *description)
{
	const char *out = take_name(g, mem_strdup(name));

	finish_node(g);
	put_text(&g->node, NODE_INPUT, value);
	put_text(&g->node, NODE_OUTPUT, out);
	put_text(&g->node, NODE_OP, "Identity");
	put_value_info(g, GRAPH_OUTPUT, out, type, columns, description);
}

static const char *add_node(struct onnx *g, const char *op, const char *domain, va_list inputs)
{
	const char *out = next_name(g), *in;

	finish_node(g);
	while ((in = va_arg(inputs, const char *)) != NULL)
		put_text(&g->node, NODE_INPUT, in);
	put_text(&g->node, NODE_OUTPUT, out);
	put_text(&g->node, NODE_OP, op);
	if (domain)
		put_text(&g->node, NODE_DOMAIN, domain);
	return out;
}

const char *onnx_op(struct onnx *g, const char *op, ...)
{
	const char *out;
	va_list inputs;

	va_start(inputs, op);
	out = add_node(g, op, NULL, inputs);
	va_end(inputs);
	return out;
}

const char *onnx_op_ml(struct onnx *g, const char *op, ...)
{
	const char *out;
	va_list inputs;

	va_start(inputs, op);
	out = add_node(g, op, "ai.onnx.ml", inputs);
	va_end(inputs);
	return out;
}

/* Completes an attribute, whose value is in it. */
static void finish_attribute(struct onnx *g, const char *name, int type, struct buf *attribute)
{
	assert(g->node.len);
	put_text(attribute, ATTRIBUTE_NAME, name);
	put_number(attribute, ATTRIBUTE_TYPE, type);
	put_message(&g->node, NODE_ATTRIBUTE, attribute);
}

void onnx_set_int(struct onnx *g, const char *name, int64_t v)
{
	struct buf attribute = BUF_INIT;

	put_number(&attribute, ATTRIBUTE_INT, v);
	finish_attribute(g, name, ATTRIBUTE_IS_INT, &attribute);
}

void onnx_set_ints(struct onnx *g, const char *name, const int64_t *v, size_t n)
{
	struct buf attribute = BUF_INIT, packed = BUF_INIT;

	for (size_t i = 0; i < n; i++)
		put_varint(&packed, (uint64_t)v[i]);
	put_message(&attribute, ATTRIBUTE_INTS, &packed);
	finish_attribute(g, name, ATTRIBUTE_IS_INTS, &attribute);
}

void onnx_set_text(struct onnx *g, const char *name, const char *v)
{
	struct buf attribute = BUF_INIT;

	put_text(&attribute, ATTRIBUTE_TEXT, v);
	finish_attribute(g, name, ATTRIBUTE_IS_TEXT, &attribute);
}

void onnx_set_texts(struct onnx *g, const char *name, const char *const *v, size_t n)
{
	struct buf attribute = BUF_INIT;

	for (size_t i = 0; i < n; i++)
		put_text(&attribute, ATTRIBUTE_TEXTS, v[i]);
	finish_attribute(g, name, ATTRIBUTE_IS_TEXTS, &attribute);
}

/* ---- tensors ---- */

static uint64_t count_elements(size_t rank, const int64_t *dims)
{
	uint64_t n = 1;

	for (size_t i = 0; i < rank; i++)
		n *= (uint64_t)dims[i];
	return n;
}

static void put_tensor_head(struct buf *b, const char *name, enum onnx_type type, size_t rank,
    const int64_t *dims)
{
	for (size_t i = 0; i < rank; i++)
		put_number(b, TENSOR_DIM, dims[i]);
	put_number(b, TENSOR_TYPE, type);
	put_text(b, TENSOR_NAME, name);
}

/* Adds a constant; raw has its bytes in little-endian order, and is emptied. */
static const char *add_constant(struct onnx *g, enum onnx_type type, size_t rank,
    const int64_t *dims, struct buf *raw)
{
	const char *name = next_name(g);
	struct buf tensor = BUF_INIT;

	put_tensor_head(&tensor, name, type, rank, dims);
	put_message(&tensor, TENSOR_RAW, raw);
	put_message(&g->graph, GRAPH_TENSOR, &tensor);
	return name;
}

const char *onnx_floats(struct onnx *g, const float *x, size_t rank, const int64_t *dims)
{
	struct buf raw = BUF_INIT;

	for (uint64_t i = 0, n = count_elements(rank, dims); i < n; i++) {
		uint32_t bits;

		memcpy(&bits, &x[i], sizeof bits);
		put_le32(buf_reserve(&raw, sizeof bits), bits);
		buf_commit(&raw, sizeof bits);
	}
	return add_constant(g, ONNX_FLOAT, rank, dims, &raw);
}

static void put_raw64(struct buf *raw, uint64_t bits)
{
	put_le64(buf_reserve(raw, sizeof bits), bits);
	buf_commit(raw, sizeof bits);
}

const char *onnx_doubles(struct onnx *g, const double *x, size_t rank, const int64_t *dims)
{
	struct buf raw = BUF_INIT;

	for (uint64_t i = 0, n = count_elements(rank, dims); i < n; i++) {
		uint64_t bits;

		memcpy(&bits, &x[i], sizeof bits);
		put_raw64(&raw, bits);
	}
	return add_constant(g, ONNX_DOUBLE, rank, dims, &raw);
}

const char *onnx_ints(struct onnx *g, const int64_t *x, size_t rank, const int64_t *dims)
{
	struct buf raw = BUF_INIT;

	for (uint64_t i = 0, n = count_elements(rank, dims); i < n; i++)
		put_raw64(&raw, (uint64_t)x[i]);
	return add_constant(g, ONNX_INT64, rank, dims, &raw);
}

const char *onnx_tensor(struct onnx *g, const char *name, enum onnx_type type, size_t rank,
    const int64_t *dims, onnx_put_fn *put, void *ctx, size_t number)
{
	struct tensor t = { .name = mem_strdup(name),
		.type = type,
		.rank = rank,
		.put = put,
		.ctx = ctx,
		.number = number };

	assert(rank <= sizeof t.dims / sizeof *t.dims && type != ONNX_STRING);
	memcpy(t.dims, dims, rank * sizeof *dims);
	t.bytes = count_elements(rank, dims) * (type == ONNX_FLOAT ? 4 : type == ONNX_BOOL ? 1 : 8);
	t.name = (char *)(uintptr_t)take_name(g, t.name);
	g->tensor = mem_regrow(g->tensor, g->ntensors + 1, sizeof *g->tensor);
	g->tensor[g->ntensors++] = t;
	return t.name;
}

/* ---- the file ---- */

/* Everything of a tensor but its bytes: its field in the graph, up to the length of the bytes. location
 * NULL: the bytes follow. */
static void put_tensor_field(struct buf *b, const struct tensor *t, const char *location)
{
	struct buf tensor = BUF_INIT;
	char text[24];

	put_tensor_head(&tensor, t->name, t->type, t->rank, t->dims);
	if (!location) {
		put_length(&tensor, TENSOR_RAW, t->bytes);
		put_length(b, GRAPH_TENSOR, tensor.len + t->bytes);
		buf_append(b, tensor.data, tensor.len);
		buf_release(&tensor);
		return;
	}
	put_entry(&tensor, TENSOR_EXTERNAL, "location", location);
	snprintf(text, sizeof text, "%llu", (unsigned long long)t->offset);
	put_entry(&tensor, TENSOR_EXTERNAL, "offset", text);
	snprintf(text, sizeof text, "%llu", (unsigned long long)t->bytes);
	put_entry(&tensor, TENSOR_EXTERNAL, "length", text);
	put_number(&tensor, TENSOR_LOCATION, LOCATION_EXTERNAL);
	put_message(b, GRAPH_TENSOR, &tensor);
}

/* The bytes of the graph, with its tensors. */
static uint64_t measure_graph(struct onnx *g, const char *location)
{
	struct buf heads = BUF_INIT;
	uint64_t n;

	finish_node(g);
	n = g->graph.len;
	for (size_t i = 0; i < g->ntensors; i++) {
		put_tensor_field(&heads, &g->tensor[i], location);
		n += location ? 0 : g->tensor[i].bytes;
	}
	n += heads.len;
	buf_release(&heads);
	return n;
}

static void put_opset(struct buf *b, const char *domain, int64_t version)
{
	struct buf opset = BUF_INIT;

	put_text(&opset, OPSET_DOMAIN, domain);
	put_number(&opset, OPSET_NUMBER, version);
	put_message(b, MODEL_OPSET, &opset);
}

/* Puts the model up to the contents of its graph. */
static void put_model_head(struct onnx *g, const char *location, struct buf *b)
{
	put_number(b, MODEL_IR, IR_VERSION);
	put_text(b, MODEL_PRODUCER, "pskit");
	put_text(b, MODEL_PRODUCER_VERSION, PSKIT_VERSION);
	put_opset(b, "", OPSET_VERSION);
	put_opset(b, "ai.onnx.ml", ML_VERSION);
	buf_append(b, g->facts.data, g->facts.len);
	put_length(b, MODEL_GRAPH, measure_graph(g, location));
}

uint64_t onnx_size(struct onnx *g)
{
	struct buf head = BUF_INIT;
	uint64_t n;

	put_model_head(g, NULL, &head);
	n = head.len + measure_graph(g, NULL);
	buf_release(&head);
	return n;
}

static enum err_code flush_out(struct onnx_out *out, struct err *e)
{
	enum err_code rc = file_write_all(out->fd, out->buf.data, out->buf.len, e);

	buf_clear(&out->buf);
	return rc;
}

enum err_code onnx_put(struct onnx_out *out, const void *p, size_t n, struct err *e)
{
	if (n > out->left)
		return err_set(e, ERR_FAILED, "a tensor gets %llu bytes more than it has room for",
		    (unsigned long long)(n - out->left));
	out->left -= n;
	buf_append(&out->buf, p, n);
	return out->buf.len < WRITE_MIN ? ERR_OK : flush_out(out, e);
}

static enum err_code put_tensor_bytes(const struct tensor *t, struct onnx_out *out, struct err *e)
{
	enum err_code rc;

	out->left = t->bytes;
	rc = t->put(t->ctx, t->number, out, e);
	if (!rc && out->left)
		rc = err_set(e, ERR_FAILED, "%llu bytes of tensor \"%s\" are missing",
		    (unsigned long long)out->left, t->name);
	return rc;
}

/* Writes the values to their own file, and notes where each tensor lies. */
static enum err_code write_values(struct onnx *g, int fd, struct err *e)
{
	static const uint8_t zeroes[DATA_ALIGNED];
	struct onnx_out out = { .fd = fd, .buf = BUF_INIT };
	enum err_code rc = ERR_OK;
	uint64_t at = 0;

	for (size_t i = 0; !rc && i < g->ntensors; i++) {
		struct tensor *t = &g->tensor[i];
		size_t gap = (size_t)(-at % DATA_ALIGNED);

		t->offset = at + gap;
		at = t->offset + t->bytes;
		buf_append(&out.buf, zeroes, gap);
		rc = put_tensor_bytes(t, &out, e);
	}
	if (!rc)
		rc = flush_out(&out, e);
	buf_release(&out.buf);
	return rc;
}

enum err_code onnx_write(struct onnx *g, int fd, const char *location, int data_fd, struct err *e)
{
	struct onnx_out out = { .fd = fd, .buf = BUF_INIT };
	enum err_code rc = location ? write_values(g, data_fd, e) : ERR_OK;
	uint64_t n;

	if (rc)
		return rc;
	put_model_head(g, location, &out.buf);
	n = out.buf.len + measure_graph(g, location);
	if (n > ONNX_FILE_MAX)
		rc = err_set(e, ERR_LIMIT,
		    "the ONNX file would have %llu bytes, but readers take at most %llu",
		    (unsigned long long)n, (unsigned long long)ONNX_FILE_MAX);
	buf_append(&out.buf, g->graph.data, g->graph.len);
	for (size_t i = 0; !rc && i < g->ntensors; i++) {
		put_tensor_field(&out.buf, &g->tensor[i], location);
		rc = location ? ERR_OK : put_tensor_bytes(&g->tensor[i], &out, e);
	}
	if (!rc)
		rc = flush_out(&out, e);
	buf_release(&out.buf);
	return rc;
}

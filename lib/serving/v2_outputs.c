/* SPDX-License-Identifier: ISC */
#include "serving/v2_outputs.h"

#include <stdlib.h>
#include <string.h>

#include "core/endian.h"
#include "core/suggest.h"
#include "data/table/data_schema.h"
#include "tool/prediction.h"

/* An output of a model. */
struct output {
	const char *name;
	enum v2_type type;
	size_t cols;
	bool flat;
	/* They give value k of one example as a number, or its text in place of numbers. */
	double (*number)(const struct job *job, const float *s, size_t k);
	const char *(*text)(const struct job *job, const float *s);
};
#define OUTPUTS_MAX 2u

static const char *class_text(const struct job *job, const float *s)
{
	return job->train->class_name[prediction_class(job, s)];
}

static double real_number(const struct job *job, const float *s, size_t k)
{
	return (double)s[k] + dataset_target_origin(job->train, k);
}

static double score_number(const struct job *job, const float *s, size_t k)
{
	(void)job;
	return (double)s[k];
}

static bool has_origin(const struct job *job)
{
	for (size_t k = 0; k < model_outputs(job->model); k++)
		if (dataset_target_origin(job->train, k) != 0)
			return true;
	return false;
}

static size_t list_outputs(const struct job *job, struct output out[static OUTPUTS_MAX])
{
	size_t outputs = model_outputs(job->model);

	if (!prediction_has_classes(job)) {
		out[0] = (struct output){ .name = "prediction",
			.type = has_origin(job) ? V2_FP64 : V2_FP32,
			.cols = outputs,
			.flat = outputs == 1,
			.number = real_number };
		return 1;
	}
	out[0] = (struct output){ .name = "prediction",
		.type = V2_BYTES,
		.cols = 1,
		.flat = true,
		.text = class_text };
	if (model_gives_probabilities(job->model))
		out[1] = (struct output){ .name = "probability",
			.type = V2_FP32,
			.cols = job->train->classes,
			.number = prediction_probability };
	else
		out[1] = (struct output){ .name = "score",
			.type = V2_FP32,
			.cols = outputs,
			.number = score_number };
	return 2;
}

json_t *v2_outputs_describe(const struct job *job)
{
	struct output out[OUTPUTS_MAX];
	size_t n = list_outputs(job, out);
	json_t *list = json_array();

	for (size_t i = 0; i < n; i++) {
		json_t *shape = out[i].flat ? json_pack("[i]", -1)
		                            : json_pack("[i, I]", -1, (json_int_t)out[i].cols),
		       *x = json_pack("{s:s, s:s, s:o}", "name", out[i].name, "datatype",
		           v2_type_name[out[i].type], "shape", shape);

		if (!out[i].flat && job->train->class_name && out[i].cols == job->train->classes) {
			json_t *names = json_array();

			for (size_t k = 0; k < out[i].cols; k++)
				json_array_append_new(names,
				    json_of_text(job->train->class_name[k]));
			json_object_set_new(x, "parameters", json_pack("{s:o}", "classes", names));
		}
		json_array_append_new(list, x);
	}
	return list;
}

static const struct output *find_output(const struct output *out, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(out[i].name, name) == 0)
			return &out[i];
	return NULL;
}

enum err_code v2_outputs_check(const struct v2_request *r, const struct job *job, struct err *e)
{
	struct output out[OUTPUTS_MAX];
	size_t n = list_outputs(job, out);

	for (size_t i = 0; i < r->nout; i++)
		if (!find_output(out, n, r->out[i].name))
			return err_set(e, ERR_FORMAT,
			    "output \"%.60s\": the model has the output%s %s%s%s", r->out[i].name,
			    n > 1 ? "s" : "", out[0].name, n > 1 ? " and " : "",
			    n > 1 ? out[1].name : "");
	return ERR_OK;
}

/* ---- the answer ---- */

static void put_json_text(struct buf *out, const char *text)
{
	json_t *x = json_of_text(text);
	char *quoted = json_dumps(x, JSON_ENCODE_ANY | JSON_COMPACT);

	buf_puts(out, quoted);
	free(quoted);
	json_decref(x);
}

static void put_values(const struct output *o, const struct job *job, const float *scores,
    size_t rows, struct buf *out)
{
	size_t outputs = model_outputs(job->model);

	for (size_t i = 0; i < rows; i++)
		for (size_t k = 0; k < o->cols; k++) {
			const float *s = scores + i * outputs;

			if (i || k)
				buf_puts(out, ",");
			if (o->text)
				put_json_text(out, o->text(job, s));
			else if (o->type == V2_FP32)
				buf_printf(out, "%.9g", (double)(float)o->number(job, s, k));
			else
				buf_printf(out, "%.17g", o->number(job, s, k));
		}
}

static void put_raw(const struct output *o, const struct job *job, const float *scores, size_t rows,
    struct buf *out)
{
	size_t outputs = model_outputs(job->model);

	for (size_t i = 0; i < rows; i++)
		for (size_t k = 0; k < o->cols; k++) {
			const float *s = scores + i * outputs;
			uint8_t bytes[8];

			if (o->text) {
				const char *text = o->text(job, s);

				put_le32(bytes, (uint32_t)strlen(text));
				buf_append(out, bytes, 4);
				buf_puts(out, text);
			} else if (o->type == V2_FP32) {
				float v = (float)o->number(job, s, k);
				uint32_t bits;

				memcpy(&bits, &v, sizeof bits);
				put_le32(bytes, bits);
				buf_append(out, bytes, 4);
			} else {
				double v = o->number(job, s, k);
				uint64_t bits;

				memcpy(&bits, &v, sizeof bits);
				put_le64(bytes, bits);
				buf_append(out, bytes, 8);
			}
		}
}

size_t v2_outputs_write(const struct v2_request *r, const struct job *job, const float *scores,
    const char *model, const char *version, struct buf *out, bool *binary)
{
	struct output list[OUTPUTS_MAX];
	size_t n = list_outputs(job, list), chosen = r->nout ? r->nout : n, begin = out->len, head;
	struct buf raw = BUF_INIT;

	*binary = false;
	buf_puts(out, "{\"model_name\":");
	put_json_text(out, model);
	buf_puts(out, ",\"model_version\":");
	put_json_text(out, version);
	if (r->id) {
		buf_puts(out, ",\"id\":");
		put_json_text(out, json_string_value(r->id));
	}
	buf_puts(out, ",\"outputs\":[");
	for (size_t i = 0; i < chosen; i++) {
		const struct output *o = r->nout ? find_output(list, n, r->out[i].name) : &list[i];
		bool is_raw = r->nout ? r->out[i].binary : r->binary_outputs;
		size_t before = raw.len;

		buf_printf(out, "%s{\"name\":\"%s\",\"datatype\":\"%s\",\"shape\":[%zu",
		    i ? "," : "", o->name, v2_type_name[o->type], r->rows);
		if (!o->flat)
			buf_printf(out, ",%zu", o->cols);
		buf_puts(out, "],");
		if (is_raw) {
			put_raw(o, job, scores, r->rows, &raw);
			buf_printf(out, "\"parameters\":{\"binary_data_size\":%zu}}",
			    raw.len - before);
			*binary = true;
		} else {
			buf_puts(out, "\"data\":[");
			put_values(o, job, scores, r->rows, out);
			buf_puts(out, "]}");
		}
	}
	buf_puts(out, "]}");
	head = out->len - begin;
	buf_append(out, raw.data, raw.len);
	buf_release(&raw);
	return head;
}

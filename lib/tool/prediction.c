/* SPDX-License-Identifier: ISC */
#include "tool/prediction.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/json.h"
#include "core/plain.h"
#include "data/table/data_schema.h"

/* Appends a real prediction in the units of the data. */
static void put_real(const struct predictions *p, const float *s, size_t k, struct buf *out)
{
	double origin = dataset_target_origin(p->job->train, k);

	buf_printf(out, origin != 0 ? "%.12g" : "%.9g", (double)s[k] + origin);
}

static size_t most_likely(const float *s, size_t n)
{
	size_t best = 0;

	for (size_t k = 1; k < n; k++)
		if (s[k] > s[best])
			best = k;
	return best;
}

static void put_plain(const struct predictions *p, const float *s, struct buf *out)
{
	size_t outputs = model_outputs(p->job->model), best = most_likely(s, outputs);

	if (model_task(p->job->model) == MODEL_CLASSES) {
		plain_put_tsv_cell(out, p->job->train->class_name[best]);
		buf_printf(out, "\t%.6g\n", (double)s[best]);
	} else {
		for (size_t k = 0; k < outputs; k++) {
			put_real(p, s, k, out);
			buf_puts(out, k + 1 < outputs ? "\t" : "\n");
		}
	}
}

/* The name of a real target, or NULL where there is only one. */
static const char *target_name(const struct predictions *p, size_t k)
{
	const struct data_schema *schema = p->job->train->schema;
	const struct data_column *c = schema ? data_schema_label(schema, k) : NULL;

	return model_outputs(p->job->model) > 1 && c ? c->name : NULL;
}

bool prediction_has_classes(const struct job *job)
{
	enum model_task task = model_task(job->model);

	return (task == MODEL_TWO || task == MODEL_CLASSES) && job->train->class_name;
}

size_t prediction_class(const struct job *job, const float *s)
{
	size_t outputs = model_outputs(job->model);

	return outputs == 1 ? s[0] > 0.5f : most_likely(s, outputs);
}

double prediction_probability(const struct job *job, const float *s, size_t k)
{
	return model_outputs(job->model) > 1 ? (double)s[k]
	    : k == 1                         ? (double)s[0]
	                                     : 1 - (double)s[0];
}

/* ---- csv ---- */

/* A cell of RFC 4180, after a comma where `more`. */
static void put_cell(struct buf *out, bool more, const char *prefix, const char *text)
{
	bool quoted = strpbrk(text, ",\"\r\n") != NULL;

	buf_printf(out, "%s%s%s", more ? "," : "", quoted ? "\"" : "", prefix);
	for (; *text; text++)
		buf_printf(out, *text == '"' ? "\"\"" : "%c", *text);
	buf_puts(out, quoted ? "\"" : "");
}

static void put_heading(struct predictions *p, bool named, struct buf *out)
{
	size_t outputs = model_outputs(p->job->model);

	p->headed = true;
	buf_puts(out, named ? "id" : "row");
	if (model_task(p->job->model) == MODEL_WORDS) {
		buf_puts(out, ",loss");
	} else if (!prediction_has_classes(p->job)) {
		for (size_t k = 0; k < outputs; k++)
			put_cell(out, true, target_name(p, k) ? "prediction_" : "prediction",
			    target_name(p, k) ? target_name(p, k) : "");
	} else {
		buf_puts(out, ",prediction");
		for (size_t k = 0; k < p->job->train->classes; k++)
			if (model_gives_probabilities(p->job->model))
				put_cell(out, true, "probability_", p->job->train->class_name[k]);
			else if (outputs > 1 || k == 1)
				put_cell(out, true, "score_", p->job->train->class_name[k]);
	}
	buf_puts(out, "\n");
}

static void put_csv(const struct predictions *p, const char *name, const float *s, struct buf *out)
{
	size_t outputs = model_outputs(p->job->model);

	if (name)
		put_cell(out, false, "", name);
	else
		buf_printf(out, "%" PRIu64, p->written + 1);
	if (prediction_has_classes(p->job)) {
		put_cell(out, true, "", p->job->train->class_name[prediction_class(p->job, s)]);
		for (size_t k = 0; k < p->job->train->classes; k++)
			if (model_gives_probabilities(p->job->model))
				buf_printf(out, ",%.9g", prediction_probability(p->job, s, k));
			else if (outputs > 1 || k == 1)
				buf_printf(out, ",%.9g", (double)s[outputs > 1 ? k : 0]);
	} else {
		for (size_t k = 0; k < outputs; k++) {
			buf_puts(out, ",");
			put_real(p, s, k, out);
		}
	}
	buf_puts(out, "\n");
}

/* ---- json ---- */

static void set_number(json_t *o, const char *key, double v)
{
	json_object_set_new(o, key, json_of_num(v));
}

/* Class names that are not UTF-8 are written as json_of_text writes them. */
static void set_class_number(const struct predictions *p, json_t *o, size_t k, double v)
{
	json_t *name = json_of_text(p->job->train->class_name[k]);

	json_object_set_new(o, json_string_value(name), json_of_num(v));
	json_decref(name);
}

static json_t *list_classes(const struct predictions *p, const float *s)
{
	size_t outputs = model_outputs(p->job->model);
	json_t *o = json_object();

	for (size_t k = 0; k < p->job->train->classes; k++)
		if (model_gives_probabilities(p->job->model))
			set_class_number(p, o, k, prediction_probability(p->job, s, k));
		else if (outputs > 1 || k == 1)
			set_class_number(p, o, k, (double)s[outputs > 1 ? k : 0]);
	return o;
}

static void put_json(const struct predictions *p, const char *name, const float *s, struct buf *out)
{
	size_t outputs = model_outputs(p->job->model);
	json_t *o = json_object();
	char *text;

	if (name)
		json_object_set_new(o, "id", json_of_text(name));
	else
		json_object_set_new(o, "row", json_integer((json_int_t)p->written + 1));
	if (model_task(p->job->model) == MODEL_WORDS) {
		set_number(o, "loss", (double)s[0]);
	} else if (prediction_has_classes(p->job)) {
		json_object_set_new(o, "prediction",
		    json_of_text(p->job->train->class_name[prediction_class(p->job, s)]));
		json_object_set_new(o,
		    model_gives_probabilities(p->job->model) ? "probability" : "score",
		    list_classes(p, s));
	} else if (outputs == 1 || !target_name(p, 0)) {
		set_number(o, "prediction", (double)s[0] + dataset_target_origin(p->job->train, 0));
	} else {
		json_t *targets = json_object();

		for (size_t k = 0; k < outputs; k++)
			set_number(targets, target_name(p, k),
			    (double)s[k] + dataset_target_origin(p->job->train, k));
		json_object_set_new(o, "prediction", targets);
	}
	text = json_text(o);
	buf_printf(out, "%s\n", text);
	free(text);
	json_decref(o);
}

void predictions_put(struct predictions *p, const struct batch *b, const float *scores,
    struct buf *out)
{
	size_t outputs = model_outputs(p->job->model);

	if (p->form == PREDICTION_CSV && !p->headed)
		put_heading(p, b->name != NULL, out);
	for (size_t i = 0; i < b->rows; i++) {
		const float *s = scores + i * outputs;
		const char *name = b->name ? b->name[i] : NULL;

		if (p->form == PREDICTION_CSV)
			put_csv(p, name, s, out);
		else if (p->form == PREDICTION_JSON)
			put_json(p, name, s, out);
		else
			put_plain(p, s, out);
		p->written++;
	}
}

void predictions_end(struct predictions *p, struct buf *out)
{
	if (p->form == PREDICTION_CSV && !p->headed)
		put_heading(p, false, out);
}

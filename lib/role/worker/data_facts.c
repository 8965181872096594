/* SPDX-License-Identifier: ISC */
#include "worker/data_facts.h"

#include <math.h>

#include "core/json.h"
#include "core/mem.h"
#include "core/num.h"
#include "core/utf8_bytes.h"
#include "data/batch/data_pairs.h"
#include "data/reader/data_head.h"
#include "data/table/data_names.h"
#include "data/source/data_option.h"
#include "data/table/data_schema.h"
#include "data/batch/data_words.h"
#include "data/shape/data_shape.h"
#include "msg/training_facts.h"

/* A name, whatever bytes it has, as valid JSON. A new reference. */
static json_t *json_of_name(const char *name)
{
	char *text = utf8_escape_bytes(name);
	json_t *v = json_of_text(text);

	free(text);
	return v;
}

/* Adds the words of a text to the facts, which get new references. */
static void tell_words(const struct data_words *w, struct training_facts *f)
{
	json_t *words = json_array(), *counts = json_array();

	for (size_t i = 0; i < w->n; i++) {
		json_array_append_new(words, json_of_name(w->name[i]));
		json_array_append_new(counts, json_integer((json_int_t)w->count[i]));
	}
	f->words = words;
	f->counts = counts;
}

/* The names of the features, where no schema has them; a new reference, or NULL. */
static json_t *list_names(const struct dataset *d)
{
	json_t *names;

	if (!d->feature_name || d->schema)
		return NULL;
	names = json_array();
	for (size_t i = 0; i < d->cols; i++)
		json_array_append_new(names, json_of_name(d->feature_name[i]));
	return names;
}

json_t *data_facts(const struct dataset *d)
{
	struct training_facts f;
	json_t *options, *facts, *head, *classes, *names, *hashed, *schema, *weights, *targets;

	if (d->numbered)
		return NULL;
	f = (struct training_facts){ .sparse = d->sparse,
		.cols = d->cols < INT64_MAX ? (int64_t)d->cols : INT64_MAX,
		/* How many items a job draws is no property of the data. */
		.fields = dataset_pairs(d) ? DATA_PAIRS_DRAWN + 1 : (int64_t)d->fields,
		.index_base = d->index_base,
		.source = d->source ? d->source : "",
		.heading = d->reading.heading > 0 };
	classes = d->classes ? json_array() : NULL;
	for (size_t i = 0; i < d->classes; i++)
		json_array_append_new(classes,
		    isnan(d->class_value[i]) ? json_of_name(d->class_name[i])
		                             : json_of_num(d->class_value[i]));
	f.classes = classes;
	f.head = head = data_head_to_json(d);
	f.names = names = list_names(d);
	f.hashed = hashed = d->names ? data_names_to_json(d->names) : NULL;
	f.weights = weights = d->weight_factor > 0 ? json_of_num((double)d->weight_factor) : NULL;
	f.targets = targets = d->target_factor > 0
	    ? json_pack("[o, o]", json_of_num(d->target_shift), json_of_num(d->target_factor))
	    : NULL;
	f.options = options = d->options ? data_option_to_json(d->options) : NULL;
	f.schema = schema = d->schema ? data_schema_to_json(d->schema) : NULL;
	if (dataset_words(d))
		tell_words(dataset_words(d), &f);
	facts = training_facts_encode(&f);
	json_decref((json_t *)(uintptr_t)f.words);
	json_decref((json_t *)(uintptr_t)f.counts);
	json_decref(head);
	json_decref(classes);
	json_decref(names);
	json_decref(hashed);
	json_decref(weights);
	json_decref(targets);
	json_decref(schema);
	json_decref(options);
	return facts;
}

/* The text of a description without the names of files and the form of their lines, and perhaps
 * without options, which facts of earlier versions do not have; free it. Numbers of two texts are
 * compared as they are written, whole or not. */
static char *format_unnamed(const json_t *facts, bool options)
{
	json_t *o = json_copy((json_t *)(uintptr_t)facts);
	char *text;

	json_object_del(o, "source");
	json_object_del(o, "head");
	json_object_del(o, "heading");
	if (!options)
		json_object_del(o, "options");
	text = json_dumps(o, JSON_COMPACT | JSON_SORT_KEYS);
	json_decref(o);
	return text;
}

bool data_facts_are_equal(const json_t *a, const json_t *b)
{
	bool both = json_object_get(a, "options") && json_object_get(b, "options");
	char *x = format_unnamed(a, both), *y = format_unnamed(b, both);
	bool equal = x && y && strcmp(x, y) == 0;

	free(x);
	free(y);
	return equal;
}

static void take_class(struct dataset *d, size_t i, const json_t *v)
{
	char text[32];

	d->class_value[i] = json_is_number(v) ? json_number_value(v) : NAN;
	num_format(d->class_value[i], text);
	d->class_name[i] = json_is_number(v) ? mem_strdup(text)
	                                     : utf8_unescape_bytes(json_string_value(v));
}

static struct data_words *take_words(const struct training_facts *f)
{
	size_t n = json_array_size(f->words);
	char **name = mem_array(n, sizeof *name);
	uint64_t *count = mem_array(n, sizeof *count);
	struct data_words *words;

	for (size_t i = 0; i < n; i++) {
		name[i] = utf8_unescape_bytes(json_string_value(json_array_get(f->words, i)));
		count[i] = (uint64_t)json_integer_value(json_array_get(f->counts, i));
	}
	words = data_words_of((const char *const *)name, count, n);
	for (size_t i = 0; i < n; i++)
		free(name[i]);
	free(name);
	free(count);
	return words;
}

static void take_names(struct dataset *d, const json_t *names)
{
	const json_t *v;
	size_t i;

	d->feature_name = mem_array(d->cols + 1, sizeof *d->feature_name);
	json_array_foreach(names, i, v)
		d->feature_name[i] = utf8_unescape_bytes(json_string_value(v));
}

enum err_code data_of_facts(const json_t *facts, struct dataset **out, struct err *e)
{
	struct training_facts f;
	struct dataset *d;
	enum err_code rc = ERR_OK;
	const json_t *v;
	size_t i;

	if (training_facts_decode(facts, &f, NULL))
		return err_set(e, ERR_FORMAT, "the description of the training data is damaged");
	d = mem_alloc(sizeof(*d));
	d->sparse = f.sparse;
	d->cols = (size_t)f.cols;
	d->fields = (size_t)f.fields;
	d->index_base = (int)f.index_base;
	d->source = mem_strdup(f.source);
	d->reading.heading = f.heading;
	data_head_from_json(f.head, d);
	d->weight_factor = (float)json_number_value(f.weights);
	d->target_shift = json_number_value(json_array_get(f.targets, 0));
	d->target_factor = json_number_value(json_array_get(f.targets, 1));
	d->classes = json_array_size(f.classes);
	d->class_name = d->classes ? mem_array(d->classes, sizeof(*d->class_name)) : NULL;
	d->class_value = d->classes ? mem_array(d->classes, sizeof(*d->class_value)) : NULL;
	json_array_foreach(f.classes, i, v)
		take_class(d, i, v);
	if (f.words) {
		d->shape = &data_shape_words;
		d->own = take_words(&f);
	}
	if (f.names)
		take_names(d, f.names);
	if (f.hashed && !(d->names = data_names_from_json(f.hashed)))
		rc = err_set(e, ERR_FORMAT,
		    "the description of the training data is damaged: its names of hashed features");
	if (!rc && f.schema)
		rc = data_schema_from_json(f.schema, &d->schema, e);
	if (!rc && d->schema && data_schema_features(d->schema) != d->cols)
		rc = err_set(e, ERR_FORMAT,
		    "the description of the training data is damaged: its columns have %zu "
		    "features, not %zu",
		    data_schema_features(d->schema), d->cols);
	if (!rc && f.options)
		rc = data_option_from_json(f.options, &d->options, e);
	d->targets = d->schema ? data_schema_targets(d->schema) : 1;
	if (rc) {
		dataset_free(d);
		return rc;
	}
	*out = d;
	return ERR_OK;
}

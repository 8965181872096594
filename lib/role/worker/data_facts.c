/* SPDX-License-Identifier: ISC */
#include "worker/data_facts.h"

#include <math.h>

#include "core/json.h"
#include "core/mem.h"
#include "core/num.h"
#include "data/data_schema.h"

#define FIELDS_MAX 65536
#define COLS_MAX   (INT64_C(1) << 62)

json_t *data_facts(const struct dataset *d)
{
	json_t *o, *classes;

	if (d->words || d->numbered || d->classes > DATA_FACTS_CLASSES ||
	    (d->schema && d->schema->nvalues > DATA_FACTS_VALUES))
		return NULL;
	o = json_pack("{s:b, s:I, s:I, s:i, s:s}", "sparse", d->sparse, "cols", (json_int_t)d->cols,
	    "fields", (json_int_t)d->fields, "index_base", d->index_base, "source",
	    d->source ? d->source : "");
	if (d->schema)
		json_object_set_new(o, "schema", data_schema_to_json(d->schema));
	if (!d->classes)
		return o;
	classes = json_array();
	for (size_t i = 0; i < d->classes; i++)
		json_array_append_new(classes,
		    isnan(d->class_value[i]) ? json_string(d->class_name[i])
		                             : json_of_num(d->class_value[i]));
	json_object_set_new(o, "classes", classes);
	return o;
}

static void take_class(struct dataset *d, size_t i, const json_t *v)
{
	char text[32];

	d->class_value[i] = json_is_number(v) ? json_number_value(v) : NAN;
	num_format(d->class_value[i], text);
	d->class_name[i] = mem_strdup(json_is_number(v) ? text : json_string_value(v));
}

enum err_code data_of_facts(const json_t *facts, struct dataset **out, struct err *e)
{
	int64_t cols = json_int(facts, "cols", -1), fields = json_int(facts, "fields", -1),
	        base = json_int(facts, "index_base", -2);
	const json_t *classes = json_object_get(facts, "classes"), *v;
	struct dataset *d;
	size_t i;
	bool good = cols >= 0 && cols <= COLS_MAX && fields >= 0 && fields <= FIELDS_MAX &&
	    base >= -1 && base <= 1 && json_array_size(classes) <= DATA_FACTS_CLASSES;

	json_array_foreach(classes, i, v)
		good = good && (json_is_number(v) || json_is_string(v));
	if (!good)
		return err_set(e, ERR_FORMAT, "what is told of the training data cannot be");
	d = mem_alloc(sizeof(*d));
	d->sparse = json_flag(facts, "sparse");
	d->cols = (size_t)cols;
	d->fields = (size_t)fields;
	d->index_base = (int)base;
	d->source = mem_strdup(json_str(facts, "source", ""));
	d->classes = json_array_size(classes);
	d->class_name = d->classes ? mem_array(d->classes, sizeof(*d->class_name)) : NULL;
	d->class_value = d->classes ? mem_array(d->classes, sizeof(*d->class_value)) : NULL;
	json_array_foreach(classes, i, v)
		take_class(d, i, v);
	if (json_object_get(facts, "schema")) {
		enum err_code rc = data_schema_from_json(json_object_get(facts, "schema"),
		    &d->schema, e);

		if (rc) {
			dataset_free(d);
			return rc;
		}
	}
	*out = d;
	return ERR_OK;
}

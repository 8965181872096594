/* SPDX-License-Identifier: ISC */
#include "msg/training_facts.h"

#include "core/fields.h"

#define BEGIN(name)                       static const struct field fields_##name[] = {
#define INT(member, least, most, missing) FIELDS_INT(member, least, most, missing, WRITE_VALUE),
#define FLAG(member)                      FIELDS_OTHER(#member, FIELD_FLAG, NULL, WRITE_VALUE),
#define TEXT(member)                      FIELDS_OTHER(#member, FIELD_TEXT, NULL, WRITE_VALUE),
#define DOC(member)                       FIELDS_OTHER(#member, FIELD_DOC, NULL, WRITE_VALUE),
#define END(name) \
	FIELDS_OTHER(NULL, FIELD_DOC, NULL, WRITE_VALUE) \
	} \
	;
#include "msg/training_facts.def"

static bool are_classes(const json_t *list)
{
	const json_t *v;
	size_t i;

	json_array_foreach(list, i, v)
		if (!json_is_number(v) && !json_is_string(v))
			return false;
	return !list || json_is_array(list);
}

/* Is there a count above 0 for each word, or neither? */
static bool are_words(const json_t *words, const json_t *counts)
{
	const json_t *v;
	size_t i;

	if (!words || !counts)
		return !words && !counts;
	json_array_foreach(words, i, v)
		if (!json_is_string(v) || json_integer_value(json_array_get(counts, i)) <= 0)
			return false;
	return json_array_size(words) > 0 && json_array_size(words) == json_array_size(counts);
}

/* Are these the shift and the factor of targets? */
static bool are_targets(const json_t *list)
{
	return !list ||
	    (json_array_size(list) == 2 && json_is_number(json_array_get(list, 0)) &&
	        json_number_value(json_array_get(list, 1)) > 0);
}

/* Are these the names of this many features? */
static bool are_names(const json_t *names, int64_t cols)
{
	const json_t *v;
	size_t i;

	json_array_foreach(names, i, v)
		if (!json_is_string(v))
			return false;
	return !names || (json_is_array(names) && (int64_t)json_array_size(names) == cols);
}

/* Is this the decision of a head: a format, a separator or none, and the line of a heading? */
static bool is_head(const json_t *head)
{
	const json_t *line = json_array_get(head, 2);

	return !head ||
	    (json_array_size(head) == 3 && json_is_string(json_array_get(head, 0)) &&
	        json_is_string(json_array_get(head, 1)) &&
	        json_string_length(json_array_get(head, 1)) <= 1 && json_is_integer(line) &&
	        json_integer_value(line) >= 0);
}

enum err_code training_facts_decode(const json_t *json, struct training_facts *out, struct err *e)
{
	enum err_code rc = fields_decode(fields_training_facts, json, out, e);

	if (!rc &&
	    (out->cols < 0 || out->fields < 0 || out->index_base < -1 ||
	        !are_classes(out->classes) || !are_words(out->words, out->counts) ||
	        !are_names(out->names, out->cols) || !are_targets(out->targets) ||
	        !is_head(out->head)))
		rc = err_set(e, ERR_PROTO, "message \"facts\": a member is missing or wrong");
	return rc;
}

json_t *training_facts_encode(const struct training_facts *f)
{
	json_t *o = json_pack(
	    "{s:b, s:I, s:I, s:I, s:s, s:O*, s:O*, s:O*, s:O*, s:O*, s:O*, s:O*, s:O*, s:O*, "
	    "s:O*}",
	    "sparse", f->sparse, "cols", (json_int_t)f->cols, "fields", (json_int_t)f->fields,
	    "index_base", (json_int_t)f->index_base, "source", f->source, "classes", f->classes,
	    "words", f->words, "counts", f->counts, "names", f->names, "weights", f->weights,
	    "targets", f->targets, "hashed", f->hashed, "schema", f->schema, "options", f->options,
	    "head", f->head);

	if (f->heading)
		json_object_set_new(o, "heading", json_true());
	return o;
}

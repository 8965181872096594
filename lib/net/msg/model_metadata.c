/* SPDX-License-Identifier: ISC */
#include "msg/model_metadata.h"

#include <stdlib.h>
#include <string.h>

#include "core/fields.h"
#include "core/mem.h"
#include "msg/large_description.h"

#define BEGIN(name)                       static const struct field fields_##name[] = {
#define INT(member, least, most, missing) FIELDS_INT(member, least, most, missing, WRITE_VALUE),
#define DOC(member)                       FIELDS_OTHER(#member, FIELD_DOC, NULL, WRITE_VALUE),
#define END(name) \
	FIELDS_OTHER(NULL, FIELD_DOC, NULL, WRITE_VALUE) \
	} \
	;
#include "msg/model_metadata.def"

/* The entry's key in __metadata__. */
#define ENTRY "pskit"

enum err_code model_metadata_add(const struct model_metadata *m, struct safetensors_writer *w,
    struct err *e)
{
	struct model_metadata now = *m;
	struct large_description *large;
	enum err_code rc = large_description_of(m->facts, &large, e);
	json_t *json, *reference = NULL;
	char *text;

	if (rc)
		return rc;
	now.v = MODEL_METADATA_VERSION;
	if (large)
		now.facts = reference = large_description_refer(large);
	json = fields_encode(fields_model_metadata, &now);
	text = json_text(json);
	safetensors_add_meta(w, ENTRY, text);
	if (large) {
		safetensors_add_bytes(w, DESCRIPTION_TENSOR, large->text, large->size);
		large->text = NULL;
	}
	large_description_release(large);
	free(text);
	json_decref(reference);
	json_decref(json);
	return ERR_OK;
}

/* Reads the tensor of a large description. */
static enum err_code read_tensor(const struct safetensors *file,
    const struct description_reference *r, struct large_description **out, struct err *e)
{
	const struct safetensors_tensor *t = safetensors_find(file, DESCRIPTION_TENSOR);
	size_t n = (size_t)r->size;
	enum err_code rc;
	char *text;

	if (!t || t->type != SAFETENSORS_U8 || t->rank != 1 || t->count != n)
		return err_set(e, ERR_FORMAT,
		    "the tensor \"" DESCRIPTION_TENSOR "\" must have %zu bytes (U8) and %s", n,
		    t ? "has another type or size" : "is missing");
	text = mem_try_array(n + 1, 1);
	if (!text)
		return err_set(e, ERR_NOMEM, "no memory for a description of %zu bytes", n);
	rc = safetensors_read_bytes(file, t, 0, n, (uint8_t *)text, e);
	if (!rc)
		return large_description_check(text, n, r, "the file", out, e);
	free(text);
	return rc;
}

/* Puts the large description that the document refers to in the place of the reference. */
static enum err_code resolve_facts(const struct safetensors *file, json_t *document,
    struct model_metadata *m, struct err *e)
{
	struct description_reference r;
	struct large_description *large;
	json_t *facts = NULL;
	enum err_code rc;

	if (!large_description_is_reference(m->facts, &r))
		return ERR_OK;
	rc = read_tensor(file, &r, &large, e);
	if (rc)
		return rc;
	rc = large_description_parse(large, "the file", &facts, e);
	large_description_release(large);
	if (rc)
		return rc;
	json_object_set_new(document, "facts", facts);
	m->facts = facts;
	return ERR_OK;
}

enum err_code model_metadata_read(const struct safetensors *file, const char *name,
    struct model_metadata *out, json_t **document, struct err *e)
{
	const char *text = safetensors_meta(file, ENTRY);
	enum err_code rc;

	*out = (struct model_metadata){ 0 };
	*document = NULL;
	if (!text)
		return err_set(e, ERR_NOTFOUND,
		    "\"%s\" has no description of its model: an older pskit or another program "
		    "wrote it, or it is one table; write it again from its run or checkpoint, by "
		    "ps-ctl export all",
		    name);
	*document = json_parse(text, strlen(text), SAFETENSORS_HEADER_MAX, e);
	rc = *document ? fields_decode(fields_model_metadata, *document, out, e) : ERR_FORMAT;
	if (!rc && out->v > MODEL_METADATA_VERSION)
		rc = err_set(e, ERR_UNSUPPORTED,
		    "\"%s\" was written by a later pskit: its description has version %lld, but "
		    "this program reads version %d",
		    name, (long long)out->v, MODEL_METADATA_VERSION);
	else if (!rc && (!json_is_object(out->config) || !json_is_array(out->tables)))
		rc = err_set(e, ERR_FORMAT, "it has no configuration or no tables");
	if (!rc)
		rc = resolve_facts(file, *document, out, e);
	if (!rc)
		return ERR_OK;
	if (rc != ERR_UNSUPPORTED && rc != ERR_NOMEM && rc != ERR_IO) {
		err_prefix(e, "\"%s\": the description of its model is damaged", name);
		rc = ERR_FORMAT;
		if (e)
			e->code = rc;
	}
	json_decref(*document);
	*document = NULL;
	*out = (struct model_metadata){ 0 };
	return rc;
}

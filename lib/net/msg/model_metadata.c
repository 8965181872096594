/* SPDX-License-Identifier: ISC */
#include "msg/model_metadata.h"

#include <stdlib.h>
#include <string.h>

#include "core/fields.h"

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

void model_metadata_add(const struct model_metadata *m, struct safetensors_writer *w)
{
	struct model_metadata now = *m;
	json_t *json;
	char *text;

	now.v = MODEL_METADATA_VERSION;
	json = fields_encode(fields_model_metadata, &now);
	text = json_text(json);
	safetensors_add_meta(w, ENTRY, text);
	free(text);
	json_decref(json);
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
		return ERR_OK;
	if (rc != ERR_UNSUPPORTED) {
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

/* SPDX-License-Identifier: ISC */
#include "msg/cluster_status.h"

#include <stdlib.h>

#include "core/fields.h"
#include "core/mem.h"

#define BEGIN(name)                       static const struct field fields_##name[] = {
#define INT(member, least, most, missing) FIELDS_INT(member, least, most, missing, WRITE_VALUE),
#define NUM(member)                       FIELDS_OTHER(#member, FIELD_NUM, NULL, WRITE_VALUE),
#define FLAG(member)                      FIELDS_OTHER(#member, FIELD_FLAG, NULL, WRITE_VALUE),
#define TEXT(member)                      FIELDS_OTHER(#member, FIELD_TEXT, NULL, WRITE_VALUE),
#define WORD(member, words)               FIELDS_WORD(member, words),
#define DOC(member)                       FIELDS_OTHER(#member, FIELD_DOC, NULL, WRITE_VALUE),
#define OBJECT(member, name)              FIELDS_OTHER(#member, FIELD_OBJECT, fields_##name, WRITE_VALUE),
#define LIST(member, name, most)          FIELDS_LIST(#member, most, fields_##name, WRITE_VALUE),
#define END(name) \
	FIELDS_OTHER(NULL, FIELD_DOC, NULL, WRITE_VALUE) \
	} \
	;
#include "msg/cluster_status.def"

/* A status with its document. The status comes first, so a pointer to one is a pointer to this. */
struct owned_status {
	struct cluster_status status;
	json_t *json;
};

struct cluster_status *cluster_status_decode(const json_t *json)
{
	struct owned_status *o = mem_alloc(sizeof *o);

	if (fields_decode(fields_cluster_status, json, &o->status, NULL)) {
		fields_release(fields_cluster_status, &o->status);
		free(o);
		return NULL;
	}
	o->json = json_incref((json_t *)(uintptr_t)json);
	return &o->status;
}

void cluster_status_free(struct cluster_status *s)
{
	if (!s)
		return;
	fields_release(fields_cluster_status, s);
	json_decref(((struct owned_status *)s)->json);
	free(s);
}

const json_t *cluster_status_document(const struct cluster_status *s)
{
	return s ? ((const struct owned_status *)s)->json : NULL;
}

enum err_code cluster_job_decode(const json_t *config, struct cluster_job *out, struct err *e)
{
	struct cluster_config c = { 0 };
	enum err_code rc = fields_decode(fields_cluster_config, config, &c, e);

	*out = !rc && c.job ? *c.job : (struct cluster_job){ 0 };
	fields_release(fields_cluster_config, &c);
	return rc;
}

enum err_code cluster_event_decode(const json_t *line, struct cluster_event *out, struct err *e)
{
	return fields_decode(fields_cluster_event, line, out, e);
}

enum err_code cluster_progress_decode(const json_t *json, struct cluster_progress *out,
    struct err *e)
{
	return fields_decode(fields_cluster_progress, json, out, e);
}

enum err_code cluster_stored_decode(const json_t *line, struct cluster_stored *out, struct err *e)
{
	return fields_decode(fields_cluster_stored, line, out, e);
}

/* SPDX-License-Identifier: ISC */
#include "msg/manifest.h"

#include <stdlib.h>

#include "core/fields.h"
#include "core/mem.h"

#define BEGIN(name)                       static const struct field fields_##name[] = {
#define INT(member, least, most, missing) FIELDS_INT(member, least, most, missing, WRITE_VALUE),
#define NUM(member)                       FIELDS_OTHER(#member, FIELD_NUM, NULL, WRITE_VALUE),
#define FLAG(member)                      FIELDS_OTHER(#member, FIELD_FLAG, NULL, WRITE_VALUE),
#define TEXT(member)                      FIELDS_OTHER(#member, FIELD_TEXT, NULL, WRITE_VALUE),
#define DOC(member)                       FIELDS_OTHER(#member, FIELD_DOC, NULL, WRITE_VALUE),
#define LIST(member, name, most)          FIELDS_LIST(#member, most, fields_##name, WRITE_VALUE),
#define OBJECT(member, name)              FIELDS_OTHER(#member, FIELD_OBJECT, fields_##name, WRITE_VALUE),
#define OBJECT_AS(member, key, name)      FIELDS_OTHER(key, FIELD_OBJECT, fields_##name, WRITE_VALUE),
#define END(name) \
	FIELDS_OTHER(NULL, FIELD_DOC, NULL, WRITE_VALUE) \
	} \
	;
#include "msg/manifest.def"

/* A manifest with what it is made of. The manifest comes first, so a pointer to one is a pointer to
 * this. */
struct owned_manifest {
	struct manifest manifest;
	json_t *json;
};

int64_t manifest_version(const json_t *json)
{
	return json_int(json, "v", 0);
}

enum err_code manifest_decode(const json_t *json, struct manifest **out, struct err *e)
{
	struct owned_manifest *o = mem_alloc(sizeof *o);
	enum err_code rc;

	o->json = json_incref((json_t *)(uintptr_t)json);
	*out = &o->manifest;
	rc = fields_decode(fields_manifest, json, *out, e);
	if (!rc && ((*out)->step < 0 || (*out)->generation < 0))
		rc = err_set(e, ERR_PROTO, "it has no step or no generation");
	if (!rc)
		return ERR_OK;
	manifest_free(*out);
	*out = NULL;
	return rc;
}

void manifest_free(struct manifest *m)
{
	struct owned_manifest *o = (struct owned_manifest *)m;

	if (!m)
		return;
	fields_release(fields_manifest, m);
	json_decref(o->json);
	free(o);
}

const json_t *manifest_document(const struct manifest *m)
{
	return ((const struct owned_manifest *)m)->json;
}

const json_t *manifest_tables(const struct manifest *m)
{
	return json_object_get(manifest_document(m), "tables");
}

uint64_t manifest_bytes(const struct manifest *m)
{
	uint64_t sum = 0;

	for (uint64_t i = 0; i < m->nfiles; i++)
		sum += m->files[i].size > 0 ? (uint64_t)m->files[i].size : 0;
	return sum;
}

/* ---- partitions ---- */

void manifest_state_release(struct manifest_state *s)
{
	free((void *)(uintptr_t)s->last);
	*s = (struct manifest_state){ 0 };
}

static bool decode_index(const json_t *v, uint64_t *out)
{
	*out = (uint64_t)json_integer_value(v);
	return json_is_integer(v) && json_integer_value(v) >= 0;
}

static bool decode_last(const json_t *list, struct manifest_state *out)
{
	size_t n = json_array_size(list), i;
	uint64_t *last = n ? mem_array(n, sizeof *last) : NULL;
	bool good = json_is_array(list);
	const json_t *v;

	json_array_foreach(list, i, v)
		good = good && json_u64_value(v, &last[i]);
	out->last = last;
	out->nlast = n;
	return good;
}

/* Decodes what both kinds of entries have from their fourth member on: "version", "step",
 * ["last"...], "born". The last two may be left out. */
static bool decode_entry_state(const json_t *entry, struct manifest_state *out)
{
	const json_t *last = json_array_get(entry, 5), *born = json_array_get(entry, 6);

	return json_u64_value(json_array_get(entry, 3), &out->version) &&
	    json_u64_value(json_array_get(entry, 4), &out->step) &&
	    (!last || decode_last(last, out)) && (!born || json_u64_value(born, &out->born));
}

/* [table number, part, file number, "version", "step", ["last"...], "born", file number of the
 * base] */
bool manifest_decode_part(const json_t *entry, struct manifest_part *out)
{
	size_t n = json_array_size(entry);

	*out = (struct manifest_part){ .delta = n == 8 };
	return n >= 5 && n <= 8 && decode_index(json_array_get(entry, 0), &out->table) &&
	    decode_index(json_array_get(entry, 1), &out->part) &&
	    decode_index(json_array_get(entry, 2), &out->file) &&
	    decode_entry_state(entry, &out->state) &&
	    (!out->delta || decode_index(json_array_get(entry, 7), &out->base));
}

/* [table, part, file, "version", "step", ["last"...], "born", 1] */
bool manifest_decode_described(const json_t *entry, struct manifest_described *out)
{
	size_t n = json_array_size(entry);

	*out = (struct manifest_described){ .table = json_string_value(json_array_get(entry, 0)),
		.file = json_string_value(json_array_get(entry, 2)),
		.delta = n == 8 };
	return n >= 6 && n <= 8 && out->table && out->file &&
	    decode_index(json_array_get(entry, 1), &out->part) &&
	    decode_entry_state(entry, &out->state);
}

/* Appends what decode_entry_state reads; tail: the member after "born" of a partition that has
 * changes only, else NULL. */
static void append_state(json_t *entry, const struct manifest_state *s, json_t *tail)
{
	json_t *last = json_array();

	for (size_t i = 0; i < s->nlast; i++)
		json_array_append_new(last, json_of_u64(s->last[i]));
	json_array_append_new(entry, json_of_u64(s->version));
	json_array_append_new(entry, json_of_u64(s->step));
	json_array_append_new(entry, last);
	if (s->born || tail)
		json_array_append_new(entry, json_of_u64(s->born));
	if (tail)
		json_array_append_new(entry, tail);
}

static json_t *encode_parts(const struct manifest_part *part, size_t n)
{
	json_t *list = json_array();

	for (size_t i = 0; i < n; i++) {
		const struct manifest_part *p = &part[i];
		json_t *entry = json_pack("[I, I, I]", (json_int_t)p->table, (json_int_t)p->part,
		    (json_int_t)p->file);

		append_state(entry, &p->state, p->delta ? json_integer((json_int_t)p->base) : NULL);
		json_array_append_new(list, entry);
	}
	return list;
}

static json_t *encode_files(const struct manifest_file *file, size_t n)
{
	json_t *list = json_array();

	for (size_t i = 0; i < n; i++)
		json_array_append_new(list,
		    json_pack("{s:s, s:I, s:s}", "name", file[i].name, "size",
		        (json_int_t)file[i].size, "blake2b", file[i].blake2b));
	return list;
}

/* ---- making a manifest ---- */

enum err_code manifest_description_decode(const json_t *json, struct manifest_description *out,
    struct err *e)
{
	enum err_code rc;

	*out = (struct manifest_description){ 0 };
	rc = fields_decode(fields_manifest_description, json, out, e);
	if (!rc && !json_is_array(out->parts))
		rc = err_set(e, ERR_PROTO, "the description lacks its list of parts");
	return rc;
}

void manifest_description_release(struct manifest_description *d)
{
	fields_release(fields_manifest_description, d);
	*d = (struct manifest_description){ 0 };
}

json_t *manifest_description_encode(const struct manifest_file *files, size_t nfiles,
    const struct manifest_described *parts, size_t nparts)
{
	json_t *list = json_array();

	for (size_t i = 0; i < nparts; i++) {
		const struct manifest_described *p = &parts[i];
		json_t *entry = json_pack("[s, I, s]", p->table, (json_int_t)p->part, p->file);

		append_state(entry, &p->state, p->delta ? json_integer(1) : NULL);
		json_array_append_new(list, entry);
	}
	return json_pack("{s:o, s:o}", "files", encode_files(files, nfiles), "parts", list);
}

enum err_code manifest_head_decode(const json_t *json, struct manifest_head *out, struct err *e)
{
	*out = (struct manifest_head){ 0 };
	return fields_decode(fields_manifest_head, json, out, e);
}

json_t *manifest_data_encode(const struct manifest_data *data)
{
	const struct manifest_deal *at = data->deal;
	json_t *json = json_pack("{s:I, s:o*, s:O*, s:O*}", "examples", (json_int_t)data->examples,
	    "deal",
	    at ? json_pack("{s:I, s:I}", "epoch", (json_int_t)at->epoch, "offset",
	             (json_int_t)at->offset)
	       : NULL,
	    "tasks", data->tasks, "facts", data->facts);

	if (data->given)
		json_object_set_new(json, "given", json_true());
	return json;
}

enum err_code manifest_decode_tables(const json_t *tables, struct manifest_table **out, uint64_t *n,
    struct err *e)
{
	void *list;
	enum err_code rc = fields_decode_list(fields_manifest_table, tables, &list, n, e);

	*out = list;
	return rc;
}

static void put_document(json_t *to, const char *key, const json_t *doc)
{
	json_object_set_new(to, key, doc ? json_incref((json_t *)(uintptr_t)doc) : json_null());
}

json_t *manifest_encode(const struct manifest_head *head, const struct manifest_body *body)
{
	json_t *m = json_pack("{s:i, s:I, s:I, s:I, s:s, s:s, s:s, s:O?, s:s, s:I, s:s, s:O?}", "v",
	    MANIFEST_VERSION, "step", (json_int_t)body->step, "generation",
	    (json_int_t)head->generation, "epoch", (json_int_t)head->epoch, "created",
	    body->created, "name", head->name, "digest_of_config", body->digest_of_config, "config",
	    head->config, "optimizer", head->optimizer, "state_version",
	    (json_int_t)body->state_version, "mode", head->mode, "tables", head->tables);

	if (body->delta)
		json_object_set_new(m, "base_step", json_integer((json_int_t)body->base_step));
	json_object_set_new(m, "parts", encode_parts(body->part, body->nparts));
	put_document(m, "ranks", head->ranks);
	put_document(m, "data", head->data);
	put_document(m, "eval", head->eval);
	/* Jobs without early stopping have none. */
	if (json_is_object(head->stop))
		put_document(m, "stop", head->stop);
	json_object_set_new(m, "files", encode_files(body->file, body->nfiles));
	return m;
}

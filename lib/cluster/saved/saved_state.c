/* SPDX-License-Identifier: ISC */
#include "saved/saved_state.h"

#include <stdlib.h>
#include <string.h>

#include "core/file.h"
#include "core/mem.h"
#include "format/digest.h"
#include "msg/state.h"

/* How often state.json is read again because a file that it names was removed. */
#define TRIES 5

static enum err_code check_digest(const struct buf *text, const char *blake2b, const char *path,
    struct err *e)
{
	char digest[DIGEST_HEX];

	digest_of(text->data, text->len, digest);
	return strcmp(digest, blake2b) == 0 ? ERR_OK
	                                    : err_set(e, ERR_FORMAT,
	                                          "\"%s\" is damaged: its digest differs from the "
	                                          "one in state.json",
	                                          path);
}

/* Reads the part from the file that its entry names. */
static enum err_code read_part(const char *run, struct saved_state *s, enum state_part part,
    struct err *e)
{
	struct state_file f;
	enum err_code rc = state_file_decode(s->entry[part], &f, e);
	char *path;

	if (rc)
		return err_prefix(e, "\"%s/state.json\": the part \"%s\"", run,
		    state_part_name[part]);
	path = path_join(run, path_basename(f.file));
	rc = file_read(path, (size_t)f.size, &s->part[part], e);
	if (!rc)
		rc = check_digest(&s->part[part], f.blake2b, path, e);
	free(path);
	return rc;
}

/* A state of version 1 refers to a large description in "facts". */
static json_t *enter_old_description(const json_t *root)
{
	struct description_reference r;
	struct state_file f = { 0 };
	json_t *entry;
	char *file;

	if (!large_description_is_reference(json_object_get(root, "facts"), &r))
		return NULL;
	f.file = file = mem_printf("description-%.16s.json", r.blake2b);
	f.size = r.size;
	f.blake2b = r.blake2b;
	entry = state_file_encode(&f);
	free(file);
	return entry;
}

static enum err_code read_parts(const char *run, unsigned which, const json_t *root,
    struct saved_state *s, struct err *e)
{
	struct state_index index;
	enum err_code rc = state_index_decode(root, &index, e);

	if (rc)
		return err_prefix(e, "\"%s/state.json\"", run);
	s->revision = (uint64_t)index.revision;
	s->log = index.lease_log && *index.lease_log ? mem_strdup(path_basename(index.lease_log))
	                                             : NULL;
	for (size_t i = 0; i < STATE_PARTS; i++)
		s->entry[i] = json_incref(json_object_get(index.parts, state_part_name[i]));
	if (!index.parts)
		s->entry[STATE_PART_description] = enter_old_description(root);
	for (enum state_part i = 0; !rc && i < STATE_PARTS; i++)
		if (s->entry[i] && which & 1u << i)
			rc = read_part(run, s, i, e);
	return rc;
}

/* *changing: a file is missing that state.json names. */
static enum err_code read_once(const char *run, unsigned which, struct saved_state *s,
    bool *changing, struct err *e)
{
	struct buf *text = &s->part[STATE_PART_membership];
	char *path = path_join(run, "state.json");
	enum err_code rc = file_read(path, STATE_PART_MAX, text, e);
	json_t *root;

	*changing = false;
	if (!rc) {
		root = json_parse((const char *)text->data, text->len, STATE_PART_MAX, e);
		rc = root ? ERR_OK : err_prefix(e, "%s", path);
	}
	free(path);
	if (rc)
		return rc;
	rc = read_parts(run, which, root, s, e);
	*changing = rc == ERR_NOTFOUND;
	json_decref(root);
	return rc == ERR_NOTFOUND ? (e->code = ERR_FORMAT) : rc;
}

enum err_code saved_state_read(const char *run, unsigned which, struct saved_state *out,
    struct err *e)
{
	enum err_code rc;
	bool changing;

	*out = (struct saved_state){ 0 };
	for (int i = 0;; i++) {
		rc = read_once(run, which, out, &changing, e);
		if (!changing || i == TRIES)
			return rc;
		saved_state_release(out);
		*e = (struct err){ 0 };
	}
}

void saved_state_release(struct saved_state *s)
{
	for (size_t i = 0; i < STATE_PARTS; i++) {
		buf_release(&s->part[i]);
		json_decref(s->entry[i]);
	}
	free(s->log);
	*s = (struct saved_state){ 0 };
}

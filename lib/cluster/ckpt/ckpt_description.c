/* SPDX-License-Identifier: ISC */
#include "ckpt/names.h"
#include "ckpt/read.h"
#include "core/buf.h"
#include "core/file.h"
#include "core/mem.h"
#include "msg/large_description.h"
#include "msg/manifest.h"

/* The description of the training data that a checkpoint has. */

bool ckpt_description_fits(const struct manifest *m)
{
	const struct manifest_file *file = NULL;
	struct description_reference d;
	bool refers = m->data && large_description_is_reference(m->data->facts, &d);

	for (uint64_t i = 0; i < m->nfiles; i++)
		if (strcmp(m->files[i].name, CKPT_DESCRIPTION) == 0)
			file = &m->files[i];
	return refers == (file != NULL) &&
	    (!file || (file->size == d.size && strcmp(file->blake2b, d.blake2b) == 0));
}

/* Reads the whole file, which must have the size that the reference says. */
static enum err_code read_description_file(const char *file, const struct description_reference *r,
    struct large_description **out, struct err *e)
{
	struct buf text = BUF_INIT;
	enum err_code rc = file_read(file, (size_t)r->size, &text, e);

	if (rc) {
		buf_release(&text);
		if (e && (rc == ERR_NOTFOUND || rc == ERR_LIMIT))
			e->code = ERR_FORMAT;
		return rc == ERR_NOTFOUND || rc == ERR_LIMIT ? ERR_FORMAT : rc;
	}
	return large_description_check((char *)text.data, text.len, r, file, out, e);
}

enum err_code ckpt_description_read(const struct manifest *m, const char *path,
    struct large_description **out, struct err *e)
{
	struct description_reference r;
	enum err_code rc;
	char *file;

	*out = NULL;
	if (!m->data || !large_description_is_reference(m->data->facts, &r))
		return ERR_OK;
	file = path_join(path, CKPT_DESCRIPTION);
	rc = read_description_file(file, &r, out, e);
	free(file);
	return rc;
}

enum err_code ckpt_facts_read(const struct manifest *m, const char *path, json_t **out,
    struct err *e)
{
	struct large_description *large;
	enum err_code rc = ckpt_description_read(m, path, &large, e);

	*out = NULL;
	if (!rc && large)
		rc = large_description_parse(large, path, out, e);
	else if (!rc && m->data)
		*out = json_incref((json_t *)(uintptr_t)m->data->facts);
	large_description_release(large);
	return rc;
}

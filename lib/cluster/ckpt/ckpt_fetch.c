/* SPDX-License-Identifier: ISC */
#include <inttypes.h>

#include "ckpt/names.h"
#include "ckpt/store.h"
#include "ckpt/write.h"
#include "core/buf.h"
#include "core/file.h"
#include "core/mem.h"
#include "format/uri.h"

enum err_code ckpt_manifest_fetch(struct object_client *c, const char *name, struct buf *text,
    struct manifest **out, struct err *e)
{
	char *file = mem_printf("%s/" CKPT_MANIFEST, name), *shown = uri_shown(file);
	struct buf unsealed = BUF_INIT;
	enum err_code rc = object_read(c, file, CKPT_MANIFEST_MAX, text, e);

	*out = NULL;
	if (!rc) {
		buf_append(&unsealed, text->data, text->len);
		*out = ckpt_manifest_parse(&unsealed, shown, e);
		rc = *out ? ERR_OK : ERR_FORMAT;
	}
	buf_release(&unsealed);
	free(shown);
	free(file);
	return rc;
}

static enum err_code receive_piece(void *ctx, const void *p, size_t n, struct err *e)
{
	return ckpt_receive_put(ctx, p, n, e);
}

static enum err_code fetch_checkpoint_file(struct object_client *c, const char *from,
    const char *tmp, const struct manifest_file *f, struct err *e)
{
	char *name = mem_printf("%s/%s", from, f->name), *shown = uri_shown(name);
	struct ckpt_receive *r;
	enum err_code rc = f->size < 0
	    ? err_set(e, ERR_FORMAT, "the manifest has no size for this file")
	    : ckpt_receive_begin(tmp, f->name, (uint64_t)f->size, true, &r, e);

	if (!rc)
		rc = ckpt_receive_end(r, object_get(c, name, receive_piece, r, e), f->blake2b, e);
	/* Errors of the store begin with the object's name already. */
	if (rc && e && strncmp(e->msg, shown, strlen(shown)) != 0)
		err_prefix(e, "%s", shown);
	free(shown);
	free(name);
	return rc;
}

static enum err_code fetch_all(struct object_client *c, const char *from, const char *dir,
    const struct manifest *manifest, const struct buf *text, char **path, struct err *e)
{
	struct ckpt *made;
	enum err_code rc = ckpt_begin(dir, (uint64_t)manifest->step, &made, e);

	if (rc)
		return rc;
	for (uint64_t i = 0; !rc && i < manifest->nfiles; i++)
		rc = fetch_checkpoint_file(c, from, ckpt_tmp(made), &manifest->files[i], e);
	if (!rc)
		return ckpt_adopt(made, text->data, text->len, path, e);
	ckpt_abort(made);
	return rc;
}

/* Does dir have this checkpoint or a later one? */
static enum err_code have_as_new(const char *dir, const struct manifest *manifest, bool *here,
    struct err *e)
{
	struct ckpt_entry *list;
	uint64_t step = (uint64_t)manifest->step, generation = (uint64_t)manifest->generation;
	size_t n;
	enum err_code rc = ckpt_list(dir, false, &list, &n, e);

	*here = false;
	for (size_t i = 0; !rc && i < n; i++)
		*here = *here ||
		    (list[i].whole &&
		        (list[i].generation > generation ||
		            (list[i].generation == generation && list[i].step >= step)));
	ckpt_list_free(list, n);
	return rc;
}

static enum err_code fetch_one(struct object_client *c, const char *from, const char *dir,
    bool newer, const struct ckpt_fetching *tell, char **path, struct err *e)
{
	struct buf text = BUF_INIT;
	struct manifest *manifest;
	bool here = false;
	enum err_code rc = ckpt_manifest_fetch(c, from, &text, &manifest, e);

	if (!rc && newer)
		rc = have_as_new(dir, manifest, &here, e);
	if (!rc && !here)
		tell->begins(tell->ctx, from, manifest_bytes(manifest));
	if (!rc && !here)
		rc = fetch_all(c, from, dir, manifest, &text, path, e);
	manifest_free(manifest);
	buf_release(&text);
	return rc;
}

/* Try the newest first; when it turns out to be damaged, try the next older one. */
static enum err_code fetch_newest(struct object_client *c, const char *at, const char *dir,
    bool newer, const struct ckpt_fetching *tell, char **path, struct err *e)
{
	struct err why = { 0 };
	struct ckpt_entry *list;
	size_t n;
	enum err_code rc = ckpt_store_list(c, at, &list, &n, e), one = ERR_FORMAT;

	for (size_t i = n; !rc && i-- > 0 && one == ERR_FORMAT;) {
		if (list[i].whole)
			one = fetch_one(c, list[i].path, dir, newer, tell, path, &why);
		if (one == ERR_FORMAT)
			tell->passed(tell->ctx, list[i].path,
			    list[i].whole ? why.msg : list[i].why);
	}
	ckpt_list_free(list, n);
	if (!rc && one == ERR_FORMAT)
		rc = err_set(e, ERR_NOTFOUND, "there is no whole checkpoint at %s", at);
	else if (!rc && one)
		rc = err_pass(e, &why);
	return rc;
}

enum err_code ckpt_store_fetch(struct object_client *c, const char *from, const char *dir,
    bool newer, const struct ckpt_fetching *tell, char **path, struct err *e)
{
	char *name = mem_strdup(from);
	enum err_code rc;
	uint64_t step;

	*path = NULL;
	for (size_t n = strlen(name); n > 0 && name[n - 1] == '/'; n--)
		name[n - 1] = '\0';
	if (ckpt_step_parse(path_basename(name), &step) || !uri_is_s3(name))
		rc = fetch_one(c, name, dir, newer, tell, path, e);
	else
		rc = fetch_newest(c, name, dir, newer, tell, path, e);
	free(name);
	return rc;
}

/* SPDX-License-Identifier: ISC */
#include "ckpt/store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/file.h>
#include <unistd.h>

#include "ckpt/names.h"
#include "core/buf.h"
#include "core/file.h"
#include "core/mem.h"
#include "format/uri.h"

#define LOCK ".store.lock"

/* An object of a checkpoint, by its name below AT:
 * "step-000000001000/server-0.params.safetensors". */
struct piece {
	char *rest;
	uint64_t size;
};

struct pieces {
	struct piece *item;
	size_t n;
};

static void pieces_release(struct pieces *p)
{
	for (size_t i = 0; i < p->n; i++)
		free(p->item[i].rest);
	free(p->item);
	*p = (struct pieces){ 0 };
}

static enum err_code add_piece(void *ctx, const char *rest, uint64_t size, struct err *e)
{
	struct pieces *p = ctx;

	(void)e;
	p->item = mem_regrow(p->item, p->n + 1, sizeof *p->item);
	p->item[p->n++] = (struct piece){ mem_strdup(rest), size };
	return ERR_OK;
}

static enum err_code list_below(struct object_client *c, const char *at, struct pieces *out,
    struct err *e)
{
	char *prefix = mem_printf("%s/", at);
	enum err_code rc;

	*out = (struct pieces){ 0 };
	rc = object_list(c, prefix, add_piece, out, e);
	free(prefix);
	return rc;
}

/* ---- listing ---- */

/* The directory name and the number of the step that an object belongs to. */
static bool parse_step_of_object(const struct piece *p, char step[static CKPT_NAME],
    uint64_t *number)
{
	size_t n = strcspn(p->rest, "/");

	if (!p->rest[n] || n >= CKPT_NAME)
		return false;
	snprintf(step, CKPT_NAME, "%.*s", (int)n, p->rest);
	return ckpt_step_parse(step, number);
}

static const struct piece *find_object(const struct pieces *all, const char *step, const char *file)
{
	size_t n = strlen(step);

	for (size_t i = 0; i < all->n; i++)
		if (strncmp(all->item[i].rest, step, n) == 0 && all->item[i].rest[n] == '/' &&
		    strcmp(all->item[i].rest + n + 1, file) == 0)
			return &all->item[i];
	return NULL;
}

/* Check that all files of the manifest are there, with their sizes. */
static void check_object_files(struct ckpt_entry *entry, const struct manifest *manifest,
    const struct pieces *all, const char *step)
{
	for (uint64_t i = 0; i < manifest->nfiles; i++) {
		const struct manifest_file *f = &manifest->files[i];
		const struct piece *p = find_object(all, step, f->name);

		if (entry->why || (p && p->size == (uint64_t)f->size))
			continue;
		entry->why = p ? mem_printf("\"%s/%s\" has %" PRIu64 " bytes, not %" PRId64,
		                     entry->path, f->name, p->size, f->size)
		               : mem_printf("\"%s/%s\" does not exist", entry->path, f->name);
	}
	entry->whole = !entry->why;
}

static enum err_code inspect_checkpoint(struct object_client *c, const struct pieces *all,
    const char *step, struct ckpt_entry *entry, struct err *e)
{
	struct buf text = BUF_INIT;
	struct err why = { 0 };
	struct manifest *manifest;
	enum err_code rc;

	if (!find_object(all, step, CKPT_MANIFEST)) {
		entry->why = mem_printf("\"%s/" CKPT_MANIFEST "\" does not exist", entry->path);
		return ERR_OK;
	}
	rc = ckpt_manifest_fetch(c, entry->path, &text, &manifest, &why);
	buf_release(&text);
	if (!rc) {
		ckpt_entry_fill(entry, manifest);
		check_object_files(entry, manifest, all, step);
		manifest_free(manifest);
		return ERR_OK;
	}
	/* A checkpoint that is damaged, or was removed meanwhile, must not hide the others. */
	if (rc != ERR_FORMAT && rc != ERR_NOTFOUND)
		return err_pass(e, &why);
	entry->why = mem_strdup(why.msg);
	return ERR_OK;
}

enum err_code ckpt_store_list(struct object_client *c, const char *at, struct ckpt_entry **out,
    size_t *n, struct err *e)
{
	struct pieces all;
	char step[CKPT_NAME], last[CKPT_NAME] = "";
	enum err_code rc = list_below(c, at, &all, e);
	uint64_t number;

	*out = NULL;
	*n = 0;
	for (size_t i = 0; !rc && i < all.n; i++) {
		/* Objects are listed in order of keys, so the files of one step are neighbours. */
		if (!parse_step_of_object(&all.item[i], step, &number) || strcmp(step, last) == 0)
			continue;
		snprintf(last, sizeof last, "%s", step);
		*out = mem_regrow(*out, *n + 1, sizeof **out);
		(*out)[*n] = (struct ckpt_entry){ .path = mem_printf("%s/%s", at, step),
			.step = number };
		rc = inspect_checkpoint(c, &all, step, &(*out)[(*n)++], e);
	}
	pieces_release(&all);
	if (rc) {
		ckpt_list_free(*out, *n);
		*out = NULL;
		*n = 0;
	}
	ckpt_sort(*out, *n);
	return rc;
}

/* ---- removing ---- */

enum err_code ckpt_store_remove(struct object_client *c, const char *name, struct err *e)
{
	char *manifest = mem_printf("%s/" CKPT_MANIFEST, name);
	struct pieces all;
	enum err_code rc;
	uint64_t step;

	if (!ckpt_step_parse(path_basename(name), &step))
		rc = err_set(e, ERR_USAGE, "\"%s\" is not the name of a checkpoint", name);
	else
		rc = list_below(c, name, &all, e);
	if (rc) {
		free(manifest);
		return rc;
	}
	if (all.n == 0)
		rc = err_set(e, ERR_NOTFOUND, "there is no checkpoint \"%s\"", name);
	else
		rc = object_remove(c, manifest, e);
	for (size_t i = 0; !rc && i < all.n; i++) {
		char *object = mem_printf("%s/%s", name, all.item[i].rest);

		if (strcmp(all.item[i].rest, CKPT_MANIFEST) != 0)
			rc = object_remove(c, object, e);
		free(object);
	}
	pieces_release(&all);
	free(manifest);
	return rc;
}

/* ---- upload ---- */

/* A local checkpoint with all its files open, so that it can be uploaded even if it is pruned
 * meanwhile. */
struct opened {
	struct manifest *manifest;
	int *fd; /* files of the manifest in order, then the manifest itself */
	size_t n;
};

static void opened_release(struct opened *o)
{
	for (size_t i = 0; i < o->n; i++)
		if (o->fd[i] >= 0)
			close(o->fd[i]);
	free(o->fd);
	manifest_free(o->manifest);
}

static enum err_code open_at(int dir, const char *path, const char *file, int *fd, struct err *e)
{
	*fd = openat(dir, file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	return *fd >= 0 ? ERR_OK
	                : err_sys(e, errno == ENOENT ? ERR_NOTFOUND : ERR_IO,
	                      "cannot open \"%s/%s\"", path, file);
}

/* ERR_IO: it cannot be read. Any other error: it is being pruned. */
static enum err_code open_files_of(const char *path, struct opened *o, struct err *e)
{
	struct err why = { 0 };
	int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	enum err_code rc = ERR_OK;

	if (dir < 0)
		rc = err_sys(e, errno == ENOENT ? ERR_NOTFOUND : ERR_IO, "cannot open \"%s\"",
		    path);
	*o = (struct opened){ .manifest = ckpt_manifest_read(path, &why) };
	if (!rc && !o->manifest)
		rc = err_pass(e, &why);
	if (rc) {
		if (dir >= 0)
			close(dir);
		return rc;
	}
	o->fd = mem_array(o->manifest->nfiles + 1, sizeof *o->fd);
	for (uint64_t i = 0; !rc && i < o->manifest->nfiles; i++)
		rc = open_at(dir, path, o->manifest->files[i].name, &o->fd[o->n++], e);
	if (!rc)
		rc = open_at(dir, path, CKPT_MANIFEST, &o->fd[o->n++], e);
	close(dir);
	return rc;
}

static enum err_code upload_files(struct object_client *c, const struct opened *o, const char *to,
    struct err *e)
{
	enum err_code rc = ERR_OK;
	char *name;

	for (uint64_t i = 0; !rc && i < o->manifest->nfiles; i++) {
		name = mem_printf("%s/%s", to, o->manifest->files[i].name);
		rc = object_put(c, name, o->fd[i], e);
		free(name);
	}
	name = mem_printf("%s/" CKPT_MANIFEST, to);
	if (!rc)
		rc = object_put(c, name, o->fd[o->n - 1], e);
	free(name);
	return rc;
}

/* Does the store have this checkpoint already? Compares the texts of the manifests, which have
 * the digests of all files. */
static enum err_code is_stored_already(struct object_client *c, const struct ckpt_entry *entry,
    const char *name, bool *same, struct err *e)
{
	char *here = path_join(entry->path, CKPT_MANIFEST),
	     *there = mem_printf("%s/" CKPT_MANIFEST, name);
	struct buf a = BUF_INIT, b = BUF_INIT;
	enum err_code rc = file_read(here, CKPT_MANIFEST_MAX, &a, e);

	if (!rc)
		rc = object_read(c, there, CKPT_MANIFEST_MAX, &b, e);
	*same = !rc && a.len == b.len && memcmp(a.data, b.data, a.len) == 0;
	buf_release(&a);
	buf_release(&b);
	free(here);
	free(there);
	return rc == ERR_NOTFOUND ? ERR_OK : rc;
}

static enum err_code push_one(struct object_client *c, const struct ckpt_entry *entry,
    const char *name, bool *stored, struct err *e)
{
	struct opened o;
	bool same;
	enum err_code rc = is_stored_already(c, entry, name, &same, e);

	*stored = false;
	if (rc || same)
		return rc;
	rc = open_files_of(entry->path, &o, e);
	if (rc) {
		opened_release(&o);
		return rc == ERR_IO ? rc : ERR_OK;
	}
	/* Remove a checkpoint of another generation, or the rest of an interrupted upload. */
	rc = ckpt_store_remove(c, name, e);
	if (!rc || rc == ERR_NOTFOUND)
		rc = upload_files(c, &o, name, e);
	*stored = rc == ERR_OK;
	opened_release(&o);
	return rc;
}

/* The newest checkpoint of the list that is not in `seen` and not damaged. */
static const struct ckpt_entry *next_to_push(const struct ckpt_entry *list, size_t n,
    const uint64_t *seen, size_t nseen)
{
	for (size_t i = n; i-- > 0;) {
		bool is_new = list[i].whole || list[i].unread;

		for (size_t k = 0; k < nseen; k++)
			is_new = is_new && seen[k] != list[i].step;
		if (is_new)
			return &list[i];
	}
	return NULL;
}

static enum err_code prune_store(struct object_client *c, const char *at,
    const struct ckpt_keep *keep, struct err *e)
{
	struct ckpt_entry *list;
	size_t n, newest, surplus, *which;
	enum err_code rc = ckpt_store_list(c, at, &list, &n, e);

	if (rc)
		return rc;
	for (newest = n; newest > 0 && !list[newest - 1].whole; newest--)
		;
	which = mem_array(n + 1, sizeof *which);
	surplus = newest > 0 ? ckpt_surplus(list, n, newest - 1, keep, which) : 0;
	for (size_t i = 0; !rc && i < surplus; i++)
		rc = ckpt_store_remove(c, list[which[i]].path, e);
	free(which);
	ckpt_list_free(list, n);
	return rc;
}

/* Two processes that upload to the same place would remove each other's unfinished checkpoints,
 * so the second one waits. */
static enum err_code lock_for_push(const char *dir, int *fd, struct err *e)
{
	char *path = path_join(dir, LOCK);
	enum err_code rc = ERR_OK;

	*fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (*fd < 0)
		rc = err_sys(e, errno == ENOENT ? ERR_NOTFOUND : ERR_IO, "cannot open \"%s\"",
		    path);
	else if (flock(*fd, LOCK_EX) != 0)
		rc = err_sys(e, errno == EINTR ? ERR_STOPPED : ERR_IO, "cannot lock \"%s\"", path);
	free(path);
	return rc;
}

/* Uploads what is not in the store yet. ERR_IO also if one of them cannot be read, after the
 * others. */
static enum err_code push_whole_checkpoints(struct object_client *c, const char *dir,
    const char *at, ckpt_stored_fn *stored, void *ctx, struct err *e)
{
	uint64_t *seen = NULL;
	size_t nseen = 0;
	enum err_code rc = ERR_OK;
	struct err unread = { 0 };
	bool more = true;

	/* Checkpoints that are made during an upload are uploaded next, before older ones. */
	while (!rc && more) {
		const struct ckpt_entry *entry;
		struct ckpt_entry *list;
		size_t n;

		rc = ckpt_list(dir, false, &list, &n, e);
		entry = rc ? NULL : next_to_push(list, n, seen, nseen);
		more = entry != NULL;
		if (entry) {
			char *name = mem_printf("%s/%s", at, path_basename(entry->path));
			bool is_stored;

			seen = mem_regrow(seen, nseen + 1, sizeof *seen);
			seen[nseen++] = entry->step;
			if (entry->unread)
				err_set(&unread, ERR_IO, "%s", entry->why);
			else if (!(rc = push_one(c, entry, name, &is_stored, e)) && is_stored)
				stored(ctx, name, entry);
			free(name);
		}
		ckpt_list_free(list, n);
	}
	free(seen);
	return rc || !unread.code ? rc : err_pass(e, &unread);
}

enum err_code ckpt_store_push(struct object_client *c, const char *dir, const char *at,
    const struct ckpt_keep *keep, ckpt_stored_fn *stored, void *ctx, struct err *e)
{
	int fd = -1;
	enum err_code rc = lock_for_push(dir, &fd, e);

	/* Without the directory there are no checkpoints. */
	if (rc == ERR_NOTFOUND)
		return ERR_OK;
	if (!rc)
		rc = push_whole_checkpoints(c, dir, at, stored, ctx, e);
	if (!rc)
		rc = prune_store(c, at, keep, e);
	if (fd >= 0)
		close(fd);
	return rc;
}

/* SPDX-License-Identifier: ISC */
#include "ckpt/dirs.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ckpt/names.h"
#include "ckpt/read.h"
#include "core/file.h"
#include "core/json.h"
#include "core/mem.h"
#include "msg/manifest.h"

void ckpt_entry_release(struct ckpt_entry *entry)
{
	free(entry->path);
	free(entry->why);
	free(entry->created);
	json_decref(entry->eval);
	*entry = (struct ckpt_entry){ 0 };
}

void ckpt_list_free(struct ckpt_entry *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		ckpt_entry_release(&list[i]);
	free(list);
}

void ckpt_entry_fill(struct ckpt_entry *entry, const struct manifest *manifest)
{
	entry->readable = true;
	entry->step = (uint64_t)manifest->step;
	entry->generation = (uint64_t)manifest->generation;
	entry->created = mem_strdup(manifest->created);
	entry->eval = json_incref((json_t *)(uintptr_t)manifest->eval);
	entry->loss = manifest->score ? manifest->score->loss : NAN;
	entry->bytes = manifest_bytes(manifest);
}

bool ckpt_is_there(const char *path)
{
	char *manifest = path_join(path, CKPT_MANIFEST);
	bool is = access(manifest, F_OK) == 0;

	free(manifest);
	return is;
}

/* A directory whose manifest names another step has been renamed: report it as damaged. */
static void check_step_in_name(struct ckpt_entry *entry)
{
	uint64_t step = 0;

	if (!ckpt_step_parse(path_basename(entry->path), &step) || step == entry->step)
		return;
	free(entry->why);
	entry->why = mem_printf("\"%s\" has the manifest of step %llu", entry->path,
	    (unsigned long long)entry->step);
	entry->step = step;
	entry->whole = false;
}

enum err_code ckpt_look(const char *path, bool every_byte, struct ckpt_entry *out, struct err *e)
{
	struct ckpt_reader *r = NULL;
	struct err why = { 0 };
	struct manifest *manifest;
	enum err_code rc;

	*out = (struct ckpt_entry){ .path = mem_strdup(path) };
	ckpt_step_parse(path_basename(path), &out->step);
	manifest = ckpt_manifest_read(path, &why);
	if (!manifest) {
		out->why = mem_strdup(why.msg);
		out->unread = why.code == ERR_IO;
		return ERR_OK;
	}
	ckpt_entry_fill(out, manifest);
	manifest_free(manifest);
	rc = every_byte ? ckpt_verify(path, &why) : ckpt_open(path, &r, &why);
	ckpt_close(r);
	out->whole = rc == ERR_OK;
	out->unread = rc == ERR_IO;
	if (rc)
		out->why = mem_strdup(why.msg);
	if (rc == ERR_NOMEM) {
		ckpt_entry_release(out);
		return err_pass(e, &why);
	}
	check_step_in_name(out);
	return ERR_OK;
}

static int compare_age(const void *a, const void *b)
{
	const struct ckpt_entry *x = a, *y = b;

	if (x->readable != y->readable)
		return x->readable ? -1 : 1;
	if (x->generation != y->generation)
		return x->generation < y->generation ? -1 : 1;
	return x->step < y->step ? -1 : x->step > y->step;
}

void ckpt_sort(struct ckpt_entry *list, size_t n)
{
	if (n > 0)
		qsort(list, n, sizeof *list, compare_age);
}

enum err_code ckpt_list(const char *dir, bool every_byte, struct ckpt_entry **out, size_t *n,
    struct err *e)
{
	DIR *d = opendir(dir);
	struct dirent *entry;
	enum err_code rc = ERR_OK;
	uint64_t step;

	*out = NULL;
	*n = 0;
	if (!d)
		return errno == ENOENT
		    ? ERR_OK
		    : err_sys(e, ERR_IO, "cannot read the directory \"%s\"", dir);
	while (!rc && (entry = readdir(d)) != NULL) {
		char *path;

		if (!ckpt_step_parse(entry->d_name, &step))
			continue;
		path = path_join(dir, entry->d_name);
		*out = mem_regrow(*out, *n + 1, sizeof **out);
		rc = ckpt_look(path, every_byte, &(*out)[*n], e);
		if (!rc)
			++*n;
		free(path);
	}
	closedir(d);
	if (rc) {
		ckpt_list_free(*out, *n);
		*out = NULL;
		*n = 0;
	} else {
		ckpt_sort(*out, *n);
	}
	return rc;
}

/* ---- the newest checkpoint ---- */

/* The last entry of the list of which every byte is right, or n. Entries after it that turn out
 * to be damaged or cannot be read are marked so. known: the path of one that is whole, or NULL. */
static enum err_code find_newest_whole(struct ckpt_entry *list, size_t n, const char *known,
    size_t *at, struct err *e)
{
	struct err why = { 0 };
	enum err_code rc;

	for (size_t i = n; i-- > 0;) {
		if (!list[i].whole)
			continue;
		*at = i;
		if (known && strcmp(list[i].path, known) == 0)
			return ERR_OK;
		rc = ckpt_verify(list[i].path, &why);
		if (rc == ERR_OK)
			return ERR_OK;
		if (rc == ERR_NOMEM)
			return err_pass(e, &why);
		list[i].whole = false;
		list[i].unread = rc == ERR_IO;
		list[i].why = mem_strdup(why.msg);
	}
	*at = n;
	return ERR_OK;
}

/* Reports the entries after list[at], which are damaged, and returns the path of list[at]. If one
 * of them could not be read, it may be the newest whole one: then returns its path and ERR_IO. */
static enum err_code take_newest(const char *dir, const struct ckpt_entry *list, size_t n,
    size_t at, ckpt_passed_fn *passed, void *ctx, char **path, struct err *e)
{
	for (size_t i = n; i-- > (at < n ? at + 1 : 0);) {
		if (list[i].unread) {
			*path = mem_strdup(list[i].path);
			return err_set(e, ERR_IO, "%s", list[i].why);
		}
		if (passed)
			passed(ctx, list[i].path, list[i].why);
	}
	if (at < n)
		*path = mem_strdup(list[at].path);
	else if (n == 0)
		return err_set(e, ERR_NOTFOUND, "there is no checkpoint in \"%s\"", dir);
	else
		return err_set(e, ERR_FORMAT,
		    "all checkpoints in \"%s\" are damaged (%zu; the newest: %.300s)", dir, n,
		    list[n - 1].why);
	return ERR_OK;
}

enum err_code ckpt_newest(const char *dir, ckpt_passed_fn *passed, void *ctx, char **path,
    struct err *e)
{
	struct ckpt_entry *list;
	size_t n, at;
	enum err_code rc = ckpt_list(dir, false, &list, &n, e);

	*path = NULL;
	if (!rc)
		rc = find_newest_whole(list, n, NULL, &at, e);
	if (!rc)
		rc = take_newest(dir, list, n, at, passed, ctx, path, e);
	ckpt_list_free(list, n);
	return rc;
}

/* Marks the entry as damaged if that is known, or if the coordinator could not resume from its
 * manifest; as unread, if that cannot be read. */
static void note_damage(struct ckpt_entry *entry, ckpt_known_fn *known, void *ctx)
{
	struct err e = { 0 };
	const char *why = known ? known(ctx, entry->path) : NULL;
	struct manifest *manifest = why || !entry->whole ? NULL
	                                                 : ckpt_manifest_read(entry->path, &e);

	if (!why && entry->whole && (!manifest || ckpt_head_check(manifest, entry->path, &e)))
		why = e.msg;
	manifest_free(manifest);
	if (!why)
		return;
	entry->whole = false;
	entry->unread = e.code == ERR_IO;
	free(entry->why);
	entry->why = mem_strdup(why);
}

enum err_code ckpt_newest_by_manifest(const char *dir, ckpt_known_fn *known, ckpt_passed_fn *passed,
    void *ctx, char **path, struct err *e)
{
	struct ckpt_entry *list;
	size_t n, at;
	enum err_code rc = ckpt_list(dir, false, &list, &n, e);

	*path = NULL;
	at = n;
	for (size_t i = n; !rc && at == n && i-- > 0;) {
		note_damage(&list[i], known, ctx);
		if (list[i].unread)
			break;
		if (list[i].whole)
			at = i;
	}
	if (!rc)
		rc = take_newest(dir, list, n, at, passed, ctx, path, e);
	ckpt_list_free(list, n);
	return rc;
}

/* ---- removing ---- */

enum err_code ckpt_remove(const char *path, struct err *e)
{
	char *dir, *hidden;
	enum err_code rc = ERR_OK;
	struct stat st;
	uint64_t step;

	if (!ckpt_step_parse(path_basename(path), &step))
		return err_set(e, ERR_USAGE, "\"%s\" is not the name of a checkpoint", path);
	if (lstat(path, &st))
		return err_set(e, ERR_NOTFOUND, "there is no checkpoint \"%s\"", path);
	dir = path_dirname(path);
	hidden = ckpt_hidden_path(dir, step);
	if (rename(path, hidden))
		rc = err_sys(e, ERR_IO, "cannot remove \"%s\"", path);
	if (!rc)
		rc = file_sync_dir(dir, e);
	if (!rc)
		rc = file_remove_tree(hidden, e);
	free(hidden);
	free(dir);
	return rc;
}

/* How many whole checkpoints have a lower loss; of equal losses the newer one ranks first. */
static size_t better_than(const struct ckpt_entry *list, size_t n, size_t i)
{
	double mine = list[i].loss;
	size_t better = 0;

	for (size_t k = 0; k < n; k++)
		if (list[k].whole && (list[k].loss < mine || (list[k].loss <= mine && k > i)))
			better++;
	return better;
}

/* A damaged checkpoint is kept, for inspection, only while it would be the newest one. */
static bool is_damaged_ahead(const struct ckpt_entry *entry, const struct ckpt_entry *newest)
{
	return entry->readable ? compare_age(entry, newest) > 0 : entry->step > newest->step;
}

static bool is_kept(const struct ckpt_entry *list, size_t n, size_t i, size_t newer,
    const struct ckpt_keep *keep)
{
	return newer < keep->last || (keep->step > 0 && list[i].step == keep->step) ||
	    (keep->also && strcmp(list[i].path, keep->also) == 0) ||
	    (keep->every > 0 && list[i].step % keep->every == 0) ||
	    (isfinite(list[i].loss) && better_than(list, n, i) < keep->best);
}

size_t ckpt_surplus(const struct ckpt_entry *list, size_t n, size_t newest,
    const struct ckpt_keep *keep, size_t *out)
{
	size_t newer = 0, found = 0;

	for (size_t i = n; i-- > 0;) {
		bool kept = list[i].whole
		    ? i == newest || is_kept(list, n, i, newer, keep)
		    : list[i].unread || is_damaged_ahead(&list[i], &list[newest]);

		newer += list[i].whole;
		if (!kept)
			out[found++] = i;
	}
	return found;
}

enum err_code ckpt_prune(const char *dir, const struct ckpt_keep *keep, ckpt_removed_fn *removed,
    void *ctx, struct err *e)
{
	struct ckpt_entry *list;
	size_t n, at = 0, surplus = 0, *which;
	enum err_code rc = ckpt_list(dir, false, &list, &n, e);

	if (!rc)
		rc = find_newest_whole(list, n, keep->written, &at, e);
	which = mem_array(n + 1, sizeof *which);
	if (!rc && at < n)
		surplus = ckpt_surplus(list, n, at, keep, which);
	for (size_t i = 0; !rc && i < surplus; i++) {
		rc = ckpt_remove(list[which[i]].path, e);
		if (!rc && removed)
			removed(ctx, list[which[i]].path);
	}
	free(which);
	ckpt_list_free(list, n);
	return rc;
}

/* SPDX-License-Identifier: ISC */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ckpt/names.h"
#include "ckpt/read.h"
#include "ckpt/write.h"
#include "core/clock.h"
#include "core/file.h"
#include "core/json.h"
#include "core/map.h"
#include "core/mem.h"
#include "core/num.h"
#include "format/digest.h"

struct ckpt {
	char *dir, *tmp;
	uint64_t step;
	json_t *files, *parts; /* from the servers' descriptions */
	/* Delta checkpoints only, else NULL: the base's manifest, and the file of each partition
	 * of the base, by TABLE.PART. */
	json_t *base;
	struct map *base_file;
};

static void remove_unfinished(const char *dir)
{
	DIR *d = opendir(dir);
	struct dirent *entry;

	while (d && (entry = readdir(d)) != NULL)
		if (ckpt_is_unfinished(entry->d_name)) {
			char *path = path_join(dir, entry->d_name);

			file_remove_tree(path, NULL);
			free(path);
		}
	if (d)
		closedir(d);
}

enum err_code ckpt_begin(const char *checkpoints_dir, uint64_t step, struct ckpt **out,
    struct err *e)
{
	enum err_code rc = file_mkdirs(checkpoints_dir, 0700, e);
	struct ckpt *c;

	*out = NULL;
	if (rc)
		return rc;
	remove_unfinished(checkpoints_dir);
	c = mem_alloc(sizeof *c);
	c->dir = mem_strdup(checkpoints_dir);
	c->step = step;
	c->files = json_array();
	c->parts = json_array();
	c->tmp = ckpt_hidden_path(checkpoints_dir, step);
	if (mkdir(c->tmp, 0700)) {
		rc = err_sys(e, ERR_IO, "cannot make the directory \"%s\"", c->tmp);
		ckpt_abort(c);
		return rc;
	}
	*out = c;
	return ERR_OK;
}

const char *ckpt_tmp(const struct ckpt *c)
{
	return c->tmp;
}

void ckpt_abort(struct ckpt *c)
{
	if (!c)
		return;
	if (c->tmp)
		file_remove_tree(c->tmp, NULL);
	json_decref(c->files);
	json_decref(c->parts);
	json_decref(c->base);
	map_free(c->base_file);
	free(c->tmp);
	free(c->dir);
	free(c);
}

/* ---- descriptions from the servers ---- */

static size_t count_files_named(const json_t *files, const char *name)
{
	const json_t *f;
	size_t i, n = 0;

	json_array_foreach(files, i, f)
		n += strcmp(json_str(f, "name", ""), name) == 0;
	return n;
}

static enum err_code check_file(const struct ckpt *c, const json_t *files, const json_t *f,
    struct err *e)
{
	const char *name = json_str(f, "name", ""), *hex = json_str(f, "blake2b", "");
	int64_t size = json_int(f, "size", -1);
	enum err_code rc = ERR_OK;
	struct stat st;
	unsigned server;
	char *path;
	bool state;

	if (!ckpt_file_parse(name, &server, &state) || size < 0 || strlen(hex) != DIGEST_HEX - 1 ||
	    strspn(hex, "0123456789abcdef") != DIGEST_HEX - 1)
		return err_set(e, ERR_PROTO, "a file of the checkpoint is described wrongly");
	if (count_files_named(c->files, name) + count_files_named(files, name) > 1)
		return err_set(e, ERR_PROTO, "%s is described twice", name);
	path = path_join(c->tmp, name);
	if (lstat(path, &st))
		rc = err_sys(e, ERR_FORMAT, "\"%s\"", path);
	else if (!S_ISREG(st.st_mode) || st.st_size != size)
		rc = err_set(e, ERR_FORMAT, "\"%s\" has %" PRId64 " bytes, not %" PRId64, path,
		    (int64_t)st.st_size, size);
	free(path);
	return rc;
}

static bool is_u64(const json_t *v)
{
	uint64_t n;

	return json_is_string(v) && num_uint(json_string_value(v), UINT64_MAX, &n);
}

static bool all_u64(const json_t *list)
{
	const json_t *v;
	size_t i;

	json_array_foreach(list, i, v)
		if (!is_u64(v))
			return false;
	return json_is_array(list);
}

/* [table, part, file, "version", "step", ["last"...], "born", 1] */
static bool part_is_fine(const json_t *p, const json_t *files)
{
	const char *file = json_string_value(json_array_get(p, 2));
	int64_t part = json_integer_value(json_array_get(p, 1));
	unsigned server;
	bool state;

	if (json_array_size(p) < 6 || json_array_size(p) > 8 ||
	    (json_array_size(p) > 6 && !is_u64(json_array_get(p, 6))))
		return false;
	return json_is_string(json_array_get(p, 0)) && json_is_integer(json_array_get(p, 1)) &&
	    part >= 0 && part <= UINT32_MAX && file && ckpt_file_parse(file, &server, &state) &&
	    !state && count_files_named(files, file) == 1 && is_u64(json_array_get(p, 3)) &&
	    is_u64(json_array_get(p, 4)) && all_u64(json_array_get(p, 5));
}

enum err_code ckpt_add(struct ckpt *c, const json_t *description, struct err *e)
{
	json_t *files = json_object_get(description, "files"),
	       *parts = json_object_get(description, "parts"), *v;
	enum err_code rc;
	size_t i;

	if (!json_is_array(files) || !json_is_array(parts))
		return err_set(e, ERR_PROTO, "a description has files and parts");
	json_array_foreach(files, i, v) {
		rc = check_file(c, files, v, e);
		if (rc)
			return rc;
	}
	json_array_foreach(parts, i, v)
		if (!part_is_fine(v, files))
			return err_set(e, ERR_PROTO,
			    "partition %zu of the checkpoint is described wrongly", i);
	json_array_extend(c->files, files);
	json_array_extend(c->parts, parts);
	return ERR_OK;
}

/* ---- the base of a delta checkpoint ---- */

static enum err_code link_file(struct ckpt *c, const char *path, const json_t *f, struct err *e)
{
	char *from = path_join(path, json_str(f, "name", "")),
	     *name = mem_printf(CKPT_BASE "%s", json_str(f, "name", ""));
	char *to = path_join(c->tmp, name);
	enum err_code rc = ERR_OK;

	if (link(from, to))
		rc = err_sys(e, ERR_IO, "cannot link \"%s\" to \"%s\"", from, to);
	else
		json_array_append_new(c->files,
		    json_pack("{s:s, s:O, s:O}", "name", name, "size", json_object_get(f, "size"),
		        "blake2b", json_object_get(f, "blake2b")));
	free(to);
	free(name);
	free(from);
	return rc;
}

static void map_base_files(struct ckpt *c)
{
	const json_t *tables = json_object_get(c->base, "tables"),
	             *files = json_object_get(c->base, "files"), *p;
	size_t i;

	c->base_file = map_new();
	json_array_foreach(json_object_get(c->base, "parts"), i, p) {
		const json_t *t = json_array_get(tables,
		    (size_t)json_integer_value(json_array_get(p, 0)));
		const json_t *f = json_array_get(files,
		    (size_t)json_integer_value(json_array_get(p, 2)));
		char *place = mem_printf("%s.%" PRId64, json_str(t, "name", ""),
		    (int64_t)json_integer_value(json_array_get(p, 1)));

		map_put(c->base_file, place, json_object_get(f, "name"));
		free(place);
	}
}

enum err_code ckpt_base(struct ckpt *c, const char *path, struct err *e)
{
	struct ckpt_reader *r;
	enum err_code rc = ckpt_open(path, &r, e);
	const json_t *f;
	size_t i;

	if (rc)
		return rc;
	c->base = json_incref((json_t *)(uintptr_t)ckpt_manifest(r));
	map_base_files(c);
	json_array_foreach(json_object_get(c->base, "files"), i, f)
		if (!rc)
			rc = ckpt_is_base(json_str(f, "name", ""))
			    ? err_set(e, ERR_FAILED, "\"%s\" has but changes to another", path)
			    : link_file(c, path, f, e);
	ckpt_close(r);
	return rc;
}

/* ---- the manifest ---- */

void ckpt_config_digest(const json_t *config, char hex[static 65])
{
	char *text = json_dumps(config, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY);

	digest_of(text ? text : "", text ? strlen(text) : 0, hex);
	free(text);
}

/* A table with the descriptions of its partitions, by number. */
struct cover {
	const char *name;
	uint32_t nparts;
	json_t **part;
};

static enum err_code cover_tables(const json_t *tables, struct cover *cover, struct map *by_name,
    struct err *e)
{
	const json_t *t;
	size_t i;

	json_array_foreach(tables, i, t) {
		int64_t n = json_int(t, "parts", 0);

		cover[i].name = json_str(t, "name", "");
		if (n < 1 || n > UINT32_MAX)
			return err_set(e, ERR_FAILED,
			    "table \"%s\" cannot have %" PRId64 " partitions", cover[i].name, n);
		cover[i].nparts = (uint32_t)n;
		cover[i].part = mem_try_array((size_t)n, sizeof *cover[i].part);
		if (!cover[i].part)
			return err_set(e, ERR_NOMEM, "no memory for %" PRId64 " partitions", n);
		map_put(by_name, cover[i].name, &cover[i]);
	}
	return ERR_OK;
}

static enum err_code cover_part(const struct map *by_name, json_t *p, struct err *e)
{
	struct cover *t = map_get(by_name, json_string_value(json_array_get(p, 0)));
	uint64_t part = (uint64_t)json_integer_value(json_array_get(p, 1));

	if (!t || part >= t->nparts)
		return err_set(e, ERR_FAILED,
		    "there is no partition %" PRIu64 " of a table \"%.64s\"", part,
		    json_string_value(json_array_get(p, 0)));
	if (t->part[part])
		return err_set(e, ERR_FAILED,
		    "partition %" PRIu64 " of table \"%s\" was written twice", part, t->name);
	t->part[part] = p;
	return ERR_OK;
}

/* Append the index of the base's file to the entry of a partition that has changes only. */
static enum err_code add_base(const struct ckpt *c, const struct cover *t, uint32_t part,
    const struct map *files, json_t *entry, struct err *e)
{
	char *place = mem_printf("%s.%" PRIu32, t->name, part);
	const json_t *base = c->base_file ? map_get(c->base_file, place) : NULL;
	char *name = base ? mem_printf(CKPT_BASE "%s", json_string_value(base)) : NULL;
	json_t *file = name ? map_get(files, name) : NULL;

	free(name);
	free(place);
	if (!file)
		return err_set(e, ERR_FAILED,
		    "partition %" PRIu32
		    " of table \"%s\" was written as changes to what is not there",
		    part, t->name);
	json_array_append(entry, file);
	return ERR_OK;
}

/* Append the table's entries in order of partitions: [table index, part, file index, "version",
 * "step", ["last"...], "born", file index in the base]. */
static enum err_code list_table(const struct ckpt *c, const struct cover *t, size_t index,
    const struct map *files, json_t *out, struct err *e)
{
	for (uint32_t k = 0; k < t->nparts; k++) {
		json_t *p = t->part[k], *entry;
		const json_t *file;

		if (!p)
			return err_set(e, ERR_FAILED,
			    "partition %" PRIu32 " of table \"%s\" was not written", k, t->name);
		file = map_get(files, json_string_value(json_array_get(p, 2)));
		entry = json_pack("[I, I, O, O, O, O]", (json_int_t)index, (json_int_t)k, file,
		    json_array_get(p, 3), json_array_get(p, 4), json_array_get(p, 5));
		json_array_append_new(out, entry);
		if (json_array_size(p) >= 7)
			json_array_append(entry, json_array_get(p, 6));
		if (json_array_size(p) == 8) {
			enum err_code rc = add_base(c, t, k, files, entry, e);

			if (rc)
				return rc;
		}
	}
	return ERR_OK;
}

static enum err_code list_parts(const struct ckpt *c, const json_t *tables, json_t *out,
    struct err *e)
{
	size_t ntables = json_array_size(tables), i;
	struct cover *cover = mem_array(ntables, sizeof *cover);
	struct map *by_name = map_new(), *file_index = map_new();
	json_t *index = json_array(), *v;
	enum err_code rc = cover_tables(tables, cover, by_name, e);

	json_array_foreach(c->files, i, v) {
		json_array_append_new(index, json_integer((json_int_t)i));
		map_put(file_index, json_str(v, "name", ""), json_array_get(index, i));
	}
	for (i = 0; !rc && i < json_array_size(c->parts); i++)
		rc = cover_part(by_name, json_array_get(c->parts, i), e);
	for (i = 0; !rc && i < ntables; i++)
		rc = list_table(c, &cover[i], i, file_index, out, e);
	for (i = 0; i < ntables; i++)
		free(cover[i].part);
	json_decref(index);
	map_free(file_index);
	map_free(by_name);
	free(cover);
	return rc;
}

static void copy_members(json_t *to, const json_t *head, const char *const *keys)
{
	for (; *keys; keys++) {
		json_t *v = json_object_get(head, *keys);

		json_object_set_new(to, *keys, v ? json_incref(v) : json_null());
	}
}

static json_t *make_manifest(const struct ckpt *c, const json_t *head, json_t *parts)
{
	static const char *const first[] = { "config", "optimizer", "mode", "tables", NULL };
	static const char *const last[] = { "slots", "data", "eval", NULL };
	char created[32], hex[DIGEST_HEX];
	const json_t *name = json_object_get(head, "name");
	json_t *m;

	clock_stamp(created);
	ckpt_config_digest(json_object_get(head, "config"), hex);
	m = json_pack("{s:i, s:I, s:O, s:O, s:s, s:o, s:s}", "v", 1, "step", (json_int_t)c->step,
	    "generation", json_object_get(head, "generation"), "epoch",
	    json_object_get(head, "epoch"), "created", created, "name",
	    name ? json_incref((json_t *)name) : json_null(), "digest_of_config", hex);
	copy_members(m, head, first);
	if (c->base)
		json_object_set(m, "base_step", json_object_get(c->base, "step"));
	json_object_set(m, "parts", parts);
	copy_members(m, head, last);
	json_object_set(m, "files", c->files);
	return m;
}

static enum err_code put_manifest(const struct ckpt *c, const void *text, size_t n, struct err *e)
{
	char *path = path_join(c->tmp, CKPT_MANIFEST);
	enum err_code rc = file_replace(path, text, n, 0600, e);

	free(path);
	return rc;
}

static enum err_code write_manifest(const struct ckpt *c, const json_t *head, struct err *e)
{
	const json_t *tables = json_object_get(head, "tables");
	json_t *parts, *m;
	char *text;
	enum err_code rc;

	if (!json_is_integer(json_object_get(head, "generation")) ||
	    !json_is_integer(json_object_get(head, "epoch")) || !json_is_array(tables))
		return err_set(e, ERR_FAILED, "a manifest needs generation, epoch and tables");
	parts = json_array();
	rc = list_parts(c, tables, parts, e);
	if (!rc) {
		m = make_manifest(c, head, parts);
		text = ckpt_manifest_text(m);
		rc = put_manifest(c, text, strlen(text), e);
		free(text);
		json_decref(m);
	}
	json_decref(parts);
	return rc;
}

/* ---- the rename ---- */

/* If there is an earlier checkpoint of this step, exchange the two, so that one of them is there
 * at any time. On a file system that cannot exchange, move the earlier one away first.
 * Afterwards c->tmp is the earlier checkpoint. */
static enum err_code rename_into_place(struct ckpt *c, const char *path, struct err *e)
{
	char *old;

	if (rename(c->tmp, path) == 0)
		return ERR_OK;
	if (errno != EEXIST && errno != ENOTEMPTY)
		return err_sys(e, ERR_IO, "cannot rename \"%s\" to \"%s\"", c->tmp, path);
	if (renameat2(AT_FDCWD, c->tmp, AT_FDCWD, path, RENAME_EXCHANGE) == 0)
		return ERR_OK;
	old = ckpt_hidden_path(c->dir, c->step);
	if (rename(path, old) || rename(c->tmp, path)) {
		err_sys(e, ERR_IO, "cannot replace \"%s\"", path);
		rename(old, path);
		free(old);
		return ERR_IO;
	}
	free(c->tmp);
	c->tmp = old;
	return ERR_OK;
}

static enum err_code sync_parents(const char *dir, struct err *e)
{
	char *above = path_dirname(dir);
	enum err_code rc = file_sync_dir(dir, e);

	if (!rc)
		rc = file_sync_dir(above, e);
	free(above);
	return rc;
}

/* Finish a checkpoint whose files are all in the temporary directory (rc is ERR_OK), or drop it.
 * Frees c. */
static enum err_code publish_checkpoint(struct ckpt *c, enum err_code rc, char **path,
    struct err *e)
{
	char name[CKPT_NAME], *to;

	ckpt_step_name(c->step, name);
	to = path_join(c->dir, name);
	if (!rc)
		rc = file_sync_dir(c->tmp, e);
	if (!rc)
		rc = rename_into_place(c, to, e);
	if (!rc) {
		rc = sync_parents(c->dir, e);
		/* After a crash the earlier checkpoint may be the one that survives, so remove
		 * neither: the next writer removes the temporary one. */
		if (rc) {
			free(c->tmp);
			c->tmp = NULL;
		}
	}
	if (path)
		*path = rc ? NULL : mem_strdup(to);
	free(to);
	ckpt_abort(c);
	return rc;
}

enum err_code ckpt_commit(struct ckpt *c, const json_t *head, char **path, struct err *e)
{
	return publish_checkpoint(c, write_manifest(c, head, e), path, e);
}

enum err_code ckpt_adopt(struct ckpt *c, const void *manifest, size_t n, char **path, struct err *e)
{
	return publish_checkpoint(c, put_manifest(c, manifest, n, e), path, e);
}

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
#include "format/digest.h"
#include "msg/large_description.h"
#include "msg/manifest.h"
#include "optim/optim.h"

struct ckpt {
	char *dir, *tmp;
	uint64_t step;
	/* From the servers' descriptions, and the files of the base. */
	struct manifest_file *file;
	size_t nfiles;
	struct manifest_described *part;
	size_t nparts;
	json_t *texts; /* owns the texts in them */
	/* Delta checkpoints only: the step of the base, and the name that the file of each of its
	 * partitions has here, by TABLE.PART (else NULL). */
	uint64_t base_step;
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
	c->texts = json_array();
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
	for (size_t i = 0; i < c->nparts; i++)
		manifest_state_release(&c->part[i].state);
	free(c->part);
	free(c->file);
	json_decref(c->texts);
	map_free(c->base_file);
	free(c->tmp);
	free(c->dir);
	free(c);
}

/* ---- descriptions from the servers ---- */

static size_t count_files_named(const struct manifest_file *file, size_t nfiles, const char *name)
{
	size_t n = 0;

	for (size_t i = 0; i < nfiles; i++)
		n += strcmp(file[i].name, name) == 0;
	return n;
}

static enum err_code check_described_file(const struct ckpt *c,
    const struct manifest_description *d, const struct manifest_file *f, struct err *e)
{
	enum err_code rc = ERR_OK;
	struct stat st;
	unsigned server;
	char *path;
	bool state;

	if (!ckpt_file_parse(f->name, &server, &state) || f->size < 0 ||
	    strlen(f->blake2b) != DIGEST_HEX - 1 ||
	    strspn(f->blake2b, "0123456789abcdef") != DIGEST_HEX - 1)
		return err_set(e, ERR_PROTO,
		    "the description of a file of the checkpoint is invalid");
	if (count_files_named(c->file, c->nfiles, f->name) +
	        count_files_named(d->files, d->nfiles, f->name) >
	    1)
		return err_set(e, ERR_PROTO, "%s is described twice", f->name);
	path = path_join(c->tmp, f->name);
	if (lstat(path, &st))
		rc = err_sys(e, ERR_FORMAT, "\"%s\"", path);
	else if (!S_ISREG(st.st_mode) || st.st_size != f->size)
		rc = err_set(e, ERR_FORMAT, "\"%s\" has %" PRId64 " bytes, not %" PRId64, path,
		    (int64_t)st.st_size, f->size);
	free(path);
	return rc;
}

/* Is the partition in one of the description's files of parameters? */
static bool has_file_of_part(const struct manifest_description *d,
    const struct manifest_described *p)
{
	unsigned server;
	bool state;

	return p->part <= UINT32_MAX && ckpt_file_parse(p->file, &server, &state) && !state &&
	    count_files_named(d->files, d->nfiles, p->file) == 1;
}

static void add_file(struct ckpt *c, struct manifest_file file)
{
	c->file = mem_regrow(c->file, c->nfiles + 1, sizeof *c->file);
	c->file[c->nfiles++] = file;
}

/* Append the partitions of a description; after an error some of them have been appended. */
static enum err_code add_parts(struct ckpt *c, const struct manifest_description *d, struct err *e)
{
	const json_t *entry;
	size_t i;

	if (json_array_size(d->parts))
		c->part = mem_regrow(c->part, c->nparts + json_array_size(d->parts),
		    sizeof *c->part);
	json_array_foreach(d->parts, i, entry) {
		struct manifest_described *p = &c->part[c->nparts];
		bool good = manifest_decode_described(entry, p);

		c->nparts++;
		if (!good || !has_file_of_part(d, p))
			return err_set(e, ERR_PROTO,
			    "the description of partition %zu of the checkpoint is invalid", i);
	}
	return ERR_OK;
}

enum err_code ckpt_add(struct ckpt *c, const json_t *description, struct err *e)
{
	struct manifest_description d;
	enum err_code rc = manifest_description_decode(description, &d, e);
	size_t before = c->nparts;

	for (uint64_t i = 0; !rc && i < d.nfiles; i++)
		rc = check_described_file(c, &d, &d.files[i], e);
	if (!rc)
		rc = add_parts(c, &d, e);
	while (rc && c->nparts > before)
		manifest_state_release(&c->part[--c->nparts].state);
	for (uint64_t i = 0; !rc && i < d.nfiles; i++)
		add_file(c, d.files[i]);
	if (!rc)
		json_array_append(c->texts, (json_t *)(uintptr_t)description);
	manifest_description_release(&d);
	return rc;
}

enum err_code ckpt_check_step(const struct ckpt *c, struct err *e)
{
	for (size_t i = 0; i < c->nparts; i++) {
		const struct manifest_described *p = &c->part[i];

		if (p->state.step != c->step)
			return err_set(e, ERR_FAILED,
			    "partition %" PRIu64 " of table \"%s\" was saved at step %" PRIu64
			    " for a checkpoint of step %" PRIu64,
			    p->part, p->table, p->state.step, c->step);
	}
	return ERR_OK;
}

/* ---- the base of a delta checkpoint ---- */

/* Keep a text as long as c lives. */
static const char *keep_text(struct ckpt *c, const char *text)
{
	json_t *kept = json_string(text);

	json_array_append_new(c->texts, kept);
	return json_string_value(kept);
}

/* Writes the text as a file of the checkpoint that is being made. */
static enum err_code write_description(const struct ckpt *c, const struct large_description *d,
    struct err *e)
{
	struct ckpt_receive *r;
	enum err_code rc = ckpt_receive_begin(c->tmp, CKPT_DESCRIPTION, d->size, false, &r, e);

	return rc ? rc
	          : ckpt_receive_end(r, ckpt_receive_put(r, d->text, d->size, e), d->blake2b, e);
}

enum err_code ckpt_describe(struct ckpt *c, const struct large_description *d, struct err *e)
{
	enum err_code rc = write_description(c, d, e);

	if (rc)
		return err_prefix(e, "the description of the training data");
	add_file(c,
	    (struct manifest_file){ .name = CKPT_DESCRIPTION,
	        .size = (int64_t)d->size,
	        .blake2b = keep_text(c, d->blake2b) });
	return ERR_OK;
}

static enum err_code link_file(struct ckpt *c, const char *path, const struct manifest_file *f,
    struct err *e)
{
	char *from = path_join(path, f->name), *name = mem_printf(CKPT_BASE "%s", f->name);
	char *to = path_join(c->tmp, name);
	enum err_code rc = ERR_OK;

	if (link(from, to))
		rc = err_sys(e, ERR_IO, "cannot link \"%s\" to \"%s\"", from, to);
	else
		add_file(c,
		    (struct manifest_file){ .name = keep_text(c, name),
		        .size = f->size,
		        .blake2b = keep_text(c, f->blake2b) });
	free(to);
	free(name);
	free(from);
	return rc;
}

/* The name here of a file of the base; NULL: it has not been linked. */
static const char *find_linked(const struct ckpt *c, const char *name)
{
	for (size_t i = 0; i < c->nfiles; i++)
		if (ckpt_is_base(c->file[i].name) &&
		    strcmp(c->file[i].name + strlen(CKPT_BASE), name) == 0)
			return c->file[i].name;
	return NULL;
}

/* The partitions of m have been checked by ckpt_open. */
static void map_base_files(struct ckpt *c, const struct manifest *m)
{
	const json_t *entry;
	size_t i;

	c->base_file = map_new();
	json_array_foreach(m->parts, i, entry) {
		struct manifest_part p;

		if (manifest_decode_part(entry, &p)) {
			char *place = mem_printf("%s.%" PRIu64, m->tables[p.table].name, p.part);

			map_put(c->base_file, place,
			    (void *)(uintptr_t)find_linked(c, m->files[p.file].name));
			free(place);
		}
		manifest_state_release(&p.state);
	}
}

enum err_code ckpt_base(struct ckpt *c, const char *path, struct err *e)
{
	struct ckpt_reader *r;
	const struct manifest *m;
	enum err_code rc = ckpt_open(path, &r, e);

	if (rc)
		return rc;
	m = ckpt_manifest(r);
	c->base_step = (uint64_t)m->step;
	/* A delta checkpoint has a description of its own. */
	for (uint64_t i = 0; !rc && i < m->nfiles; i++)
		rc = strcmp(m->files[i].name, CKPT_DESCRIPTION) == 0 ? ERR_OK
		    : ckpt_is_base(m->files[i].name)
		    ? err_set(e, ERR_FAILED, "\"%s\" is a delta of another checkpoint", path)
		    : link_file(c, path, &m->files[i], e);
	if (!rc)
		map_base_files(c, m);
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
	const struct manifest_described **part;
};

/* The parts of a manifest while it is made: the tables, and the numbers of the files by their
 * names. */
struct making {
	const struct ckpt *c;
	struct cover *cover;
	struct map *by_name, *files;
	struct manifest_part *part;
	size_t nparts;
};

static enum err_code cover_tables(struct making *m, const struct manifest_table *tables, size_t n,
    struct err *e)
{
	for (size_t i = 0; i < n; i++) {
		struct cover *cover = &m->cover[i];

		cover->name = tables[i].name;
		if (tables[i].parts < 1)
			return err_set(e, ERR_FAILED,
			    "table \"%s\" cannot have %" PRId64 " partitions", cover->name,
			    tables[i].parts);
		cover->nparts = (uint32_t)tables[i].parts;
		cover->part = mem_try_array(cover->nparts, sizeof *cover->part);
		if (!cover->part)
			return err_set(e, ERR_NOMEM, "no memory for %" PRIu32 " partitions",
			    cover->nparts);
		map_put(m->by_name, cover->name, cover);
	}
	return ERR_OK;
}

static enum err_code cover_part(const struct making *m, const struct manifest_described *p,
    struct err *e)
{
	struct cover *t = map_get(m->by_name, p->table);

	if (!t || p->part >= t->nparts)
		return err_set(e, ERR_FAILED,
		    "there is no partition %" PRIu64 " of a table \"%.64s\"", p->part, p->table);
	if (t->part[p->part])
		return err_set(e, ERR_FAILED,
		    "partition %" PRIu64 " of table \"%s\" was written twice", p->part, t->name);
	t->part[p->part] = p;
	return ERR_OK;
}

static uint64_t file_number(const struct making *m, const char *name)
{
	const struct manifest_file *f = map_get(m->files, name);

	return (uint64_t)(f - m->c->file);
}

/* Set the file with the other rows of a partition that has changes only. */
static enum err_code find_base(const struct making *m, const struct cover *t,
    struct manifest_part *p, struct err *e)
{
	char *place = mem_printf("%s.%" PRIu64, t->name, p->part);
	const char *name = m->c->base_file ? map_get(m->c->base_file, place) : NULL;

	free(place);
	if (!name)
		return err_set(e, ERR_FAILED,
		    "partition %" PRIu64 " of table \"%s\" was written as changes, but the "
		    "checkpoint has no base for them",
		    p->part, t->name);
	p->base = file_number(m, name);
	return ERR_OK;
}

/* Append the table's entries in order of partitions. They borrow the lists of c->part. */
static enum err_code list_table(struct making *m, size_t index, struct err *e)
{
	const struct cover *t = &m->cover[index];
	enum err_code rc = ERR_OK;

	for (uint32_t k = 0; !rc && k < t->nparts; k++) {
		const struct manifest_described *d = t->part[k];
		struct manifest_part *p = &m->part[m->nparts];

		if (!d)
			return err_set(e, ERR_FAILED,
			    "partition %" PRIu32 " of table \"%s\" was not written", k, t->name);
		*p = (struct manifest_part){ .table = index,
			.part = k,
			.file = file_number(m, d->file),
			.delta = d->delta,
			.state = d->state };
		m->nparts++;
		if (p->delta)
			rc = find_base(m, t, p, e);
	}
	return rc;
}

static enum err_code list_parts(struct making *m, const struct manifest_table *tables,
    size_t ntables, struct err *e)
{
	const struct ckpt *c = m->c;
	enum err_code rc = cover_tables(m, tables, ntables, e);

	for (size_t i = 0; i < c->nfiles; i++)
		map_put(m->files, c->file[i].name, &c->file[i]);
	for (size_t i = 0; !rc && i < c->nparts; i++)
		rc = cover_part(m, &c->part[i], e);
	for (size_t i = 0; !rc && i < ntables; i++)
		rc = list_table(m, i, e);
	return rc;
}

/* The text of the manifest, with its seal. */
static char *make_manifest(const struct making *m, const struct manifest_head *head)
{
	const struct ckpt *c = m->c;
	const struct optim_rule *rule = head->optimizer ? optim_find(head->optimizer) : NULL;
	char created[32], hex[DIGEST_HEX], *text;
	json_t *json;

	clock_stamp(created);
	ckpt_config_digest(head->config, hex);
	json = manifest_encode(head,
	    &(struct manifest_body){ .step = c->step,
	        .created = created,
	        .digest_of_config = hex,
	        .state_version = rule ? rule->state_version : 0,
	        .delta = c->base_file != NULL,
	        .base_step = c->base_step,
	        .part = m->part,
	        .nparts = m->nparts,
	        .file = c->file,
	        .nfiles = c->nfiles });
	text = ckpt_manifest_text(json);
	json_decref(json);
	return text;
}

static enum err_code put_manifest(const struct ckpt *c, const void *text, size_t n, struct err *e)
{
	char *path = path_join(c->tmp, CKPT_MANIFEST);
	enum err_code rc = file_replace(path, text, n, 0600, e);

	free(path);
	return rc;
}

/* Can this program read the manifest? It must never replace a checkpoint by one that it refuses. */
static enum err_code check_manifest(const char *text, struct err *e)
{
	struct buf copy = BUF_INIT;
	struct err why = { 0 };
	struct manifest *m;
	enum err_code rc = ERR_FORMAT;

	buf_puts(&copy, text);
	m = strlen(text) > CKPT_MANIFEST_MAX
	    ? (err_set(&why, rc, "it has more than %zu bytes", CKPT_MANIFEST_MAX), NULL)
	    : ckpt_manifest_parse(&copy, "the manifest", &why);
	if (m)
		rc = ckpt_head_check(m, "the manifest", &why);
	if (!rc && !ckpt_description_fits(m))
		rc = err_set(&why, ERR_FORMAT,
		    "it lacks the file of its description of the training data, or has another one");
	manifest_free(m);
	buf_release(&copy);
	return rc ? err_because(e, ERR_FAILED, why.cause,
	                "a checkpoint that could not be read again is not kept: %s", why.msg)
	          : ERR_OK;
}

static enum err_code write_manifest(const struct ckpt *c, const struct manifest_head *head,
    struct err *e)
{
	struct making m = { .c = c };
	struct manifest_table *tables;
	struct err why = { 0 };
	uint64_t ntables;
	enum err_code rc;

	if (head->generation < 0 || head->epoch < 0 || !json_is_array(head->tables))
		return err_set(e, ERR_FAILED,
		    "the manifest lacks the generation, the epoch or the tables");
	rc = manifest_decode_tables(head->tables, &tables, &ntables, &why);
	if (rc)
		rc = err_because(e, ERR_FAILED, why.cause, "%s", why.msg);
	m.cover = mem_array(ntables, sizeof *m.cover);
	m.part = mem_array(c->nparts, sizeof *m.part);
	m.by_name = map_new();
	m.files = map_new();
	if (!rc)
		rc = list_parts(&m, tables, ntables, e);
	if (!rc) {
		char *text = make_manifest(&m, head);

		rc = check_manifest(text, e);
		if (!rc)
			rc = put_manifest(c, text, strlen(text), e);
		free(text);
	}
	for (uint64_t i = 0; i < ntables; i++)
		free((void *)m.cover[i].part);
	free(m.cover);
	free(m.part);
	map_free(m.by_name);
	map_free(m.files);
	free(tables);
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

enum err_code ckpt_commit(struct ckpt *c, const struct manifest_head *head, char **path,
    struct err *e)
{
	return publish_checkpoint(c, write_manifest(c, head, e), path, e);
}

enum err_code ckpt_adopt(struct ckpt *c, const void *manifest, size_t n, char **path, struct err *e)
{
	return publish_checkpoint(c, put_manifest(c, manifest, n, e), path, e);
}

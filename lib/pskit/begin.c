/* SPDX-License-Identifier: ISC */
#include <errno.h>
#include <unistd.h>

#include "conf/conf_key.h"
#include "conf/conf_live.h"
#include "core/file.h"
#include "core/mem.h"
#include "core/names.h"
#include "format/safetensors.h"
#include "model/model.h"
#include "pskit/handle.h"
#include "rundir/rundir.h"

/* A worker's program may propose values for the begin of the job: settings (ps_set) and first parameters
 * (ps_begin_with). */

/* The path that a worker without access to the run directory proposes. Another worker, which has
 * access, must write the file. */
#define ELSEWHERE "/nonexistent/" RUNDIR_FIRST

struct first {
	struct first *next;
	char *table;
	const float *values;
	size_t n;
};

static bool is_too_late(struct ps *p, const char *what)
{
	if (!p->joined && !p->attached)
		return false;
	pskit_misuse(p, "%s: must be called before ps_join and before any question about tables",
	    what);
	return true;
}

PUBLIC int ps_set(struct ps *p, const char *key, const char *value)
{
	const struct conf_key *k = conf_key_find(key, &p->e);
	const char *given = getenv("PSKIT_GIVEN");

	if (!k || is_too_late(p, "ps_set"))
		return pskit_return(p, p->e.code);
	/* A setting that the user gave overrides the program's. */
	if (names_has(given ? given : "none", k->path))
		return PS_OK;
	if (!p->settings)
		p->settings = json_object();
	if (json_object_set_new(p->settings, k->path, json_string(value)))
		return pskit_misuse(p, "ps_set: the text for %s is not UTF-8", k->path);
	return PS_OK;
}

PUBLIC int ps_setting(struct ps *p, const char *key, char *out, size_t n)
{
	const struct conf_key *k = conf_key_find(key, &p->e);
	json_t *v;
	char *text;
	int wrote;

	if (!k)
		return pskit_return(p, p->e.code);
	if (!p->joined)
		return pskit_misuse(p, "ps_setting: must be called after ps_join");
	v = conf_value_json(k, &p->w.job.conf);
	text = json_is_string(v) ? mem_strdup(json_string_value(v))
	                         : json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT);
	wrote = snprintf(out, n, "%s", text ? text : "");
	free(text);
	json_decref(v);
	return wrote >= 0 && (size_t)wrote < n
	    ? PS_OK
	    : pskit_misuse(p, "ps_setting: %s takes %d bytes", k->path, wrote + 1);
}

PUBLIC int ps_begin_with(struct ps *p, const char *table, const float *values, size_t n)
{
	struct first *f;

	if (is_too_late(p, "ps_begin_with"))
		return pskit_return(p, p->e.code);
	f = mem_alloc(sizeof *f);
	*f = (struct first){ p->values, mem_strdup(table), values, n };
	p->values = f;
	return PS_OK;
}

void pskit_free_first(struct ps *p)
{
	for (struct first *f = p->values, *next; f; f = next) {
		next = f->next;
		free(f->table);
		free(f);
	}
	p->values = NULL;
}

void pskit_warn_settings(struct ps *p)
{
	struct conf wish;
	const char *name;
	json_t *v;

	conf_init(&wish);
	if (!p->settings || conf_apply(&wish, p->settings, NULL)) {
		conf_release(&wish);
		return;
	}
	json_object_foreach(p->settings, name, v) {
		const struct conf_key *k = conf_key_find(name, NULL);
		json_t *mine = conf_value_json(k, &wish), *its = conf_value_json(k, &p->w.job.conf);
		char *text = json_dumps(its, JSON_ENCODE_ANY | JSON_COMPACT);

		if (!json_equal(mine, its))
			log_warn(&p->log,
			    "%s is %s in this job, not %s as requested by the program", name,
			    text ? text : "", json_string_value(v));
		free(text);
		json_decref(mine);
		json_decref(its);
	}
	conf_release(&wish);
}

/* ---- the file ---- */

static const struct first *find_first_values(const struct ps *p, const char *table)
{
	const struct first *f = p->values;

	while (f && strcmp(f->table, table) != 0)
		f = f->next;
	return f;
}

/* Checks that each array of ps_begin_with belongs to a dense table and has its size. */
static enum err_code check_first_values(struct ps *p, const struct model_table *t, size_t n)
{
	for (const struct first *f = p->values; f; f = f->next) {
		size_t i = 0;

		while (i < n && (t[i].sparse || strcmp(t[i].name, f->table) != 0))
			i++;
		if (i == n)
			return err_set(&p->e, ERR_NOTFOUND,
			    "ps_begin_with: there is no dense table \"%s\"", f->table);
		if (f->n != t[i].rows * t[i].cols)
			return err_set(&p->e, ERR_USAGE,
			    "ps_begin_with: table \"%s\" has %zu x %zu values, but the array has "
			    "%zu",
			    f->table, t[i].rows, t[i].cols, f->n);
	}
	return ERR_OK;
}

static enum err_code put_first_table(struct ps *p, struct safetensors_writer *w,
    const struct model_table *t)
{
	const struct first *f = find_first_values(p, t->name);
	size_t n = t->rows * t->cols;
	float *zeroes = f ? NULL : mem_try_array(n, sizeof *zeroes);
	enum err_code rc;

	if (!f && !zeroes)
		return err_set(&p->e, ERR_NOMEM, "no memory for table \"%s\"", t->name);
	rc = safetensors_put(w, f ? f->values : zeroes, n, &p->e);
	free(zeroes);
	return rc;
}

/* Writes all dense tables as safetensors: the arrays of ps_begin_with, and zeroes for the
 * others. */
static enum err_code write_first_tables(struct ps *p, int fd, const struct model_table *t, size_t n)
{
	struct safetensors_writer *w = safetensors_writer_new();
	enum err_code rc = ERR_OK;

	for (size_t i = 0; !rc && i < n; i++)
		if (!t[i].sparse)
			rc = safetensors_add(w, t[i].name, SAFETENSORS_F32,
			    (const uint64_t[]){ t[i].rows, t[i].cols }, 2, &p->e);
	if (!rc)
		rc = safetensors_begin(w, safetensors_to_fd, &fd, &p->e);
	for (size_t i = 0; !rc && i < n; i++)
		if (!t[i].sparse)
			rc = put_first_table(p, w, &t[i]);
	if (!rc)
		rc = safetensors_end(w, &p->e);
	safetensors_writer_free(w);
	return rc;
}

/* Writes the file with the first parameters. Rank 0 replaces any other worker's file; the others
 * only write it if there is none. */
static enum err_code write_first_file(struct ps *p, const struct model_table *t, size_t n)
{
	char *own = p->rank > 0 ? mem_printf("%s.%d", p->first, p->rank) : mem_strdup(p->first);
	struct file_new f = { 0 };
	enum err_code rc = file_new_open(own, 0600, &f, &p->e);

	if (!rc) {
		f.no_sync = true;
		rc = write_first_tables(p, f.fd, t, n);
		rc = file_new_close(&f, rc, &p->e);
	}
	if (!rc && p->rank > 0) {
		if (link(own, p->first) < 0 && errno != EEXIST)
			rc = err_sys(&p->e, ERR_IO, "cannot write %s", p->first);
		unlink(own);
	}
	free(own);
	return rc;
}

enum err_code pskit_write_first(struct ps *p, const char *tables)
{
	struct model_table *t;
	enum err_code rc;
	size_t n;

	if (!p->values)
		return ERR_OK;
	if (!tables)
		return err_set(&p->e, ERR_USAGE, "ps_begin_with: ps_join must name the tables");
	rc = model_spec_parse(tables, &t, &n, &p->e);
	if (rc)
		return rc;
	rc = check_first_values(p, t, n);
	if (!rc)
		p->first = p->id.run_dir ? rundir_path(p->id.run_dir, RUNDIR_FIRST)
		                         : mem_strdup(ELSEWHERE);
	if (!rc && p->id.run_dir)
		rc = write_first_file(p, t, n);
	free(t);
	return rc;
}

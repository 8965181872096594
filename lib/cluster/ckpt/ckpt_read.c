/* SPDX-License-Identifier: ISC */
#include "ckpt/stored.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ckpt/names.h"
#include "ckpt/write.h"
#include "core/file.h"
#include "core/mem.h"
#include "format/safetensors.h"

#define ELEMENTS_MAX (INT64_C(1) << 40)
#define COLS_MAX     (1 << 20)

static enum err_code bad_manifest(const struct ckpt_reader *r, struct err *e, const char *what)
{
	return err_set(e, ERR_FORMAT, "\"%s/" CKPT_MANIFEST "\" is invalid: %s", r->path, what);
}

/* ---- opening ---- */

/* Is it a server's file? The other one is a text, which is read by ckpt_description_read. */
static bool has_tensors(const struct file *f)
{
	return strcmp(f->name, CKPT_DESCRIPTION) != 0;
}

static enum err_code open_file(struct ckpt_reader *r, const struct manifest_file *j, struct err *e)
{
	struct file *f = &r->file[r->nfiles];
	enum err_code rc = ERR_OK;
	struct stat st;
	char *path;
	int fd;

	f->name = j->name;
	if (!ckpt_may_have(f->name))
		return bad_manifest(r, e, "it names a file that is not one of a checkpoint");
	path = path_join(r->path, f->name);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0)
		rc = err_sys(e, errno == ENOENT || errno == ELOOP ? ERR_FORMAT : ERR_IO,
		    "cannot open \"%s\"", path);
	else if (fstat(fd, &st) || st.st_size != j->size)
		rc = err_set(e, ERR_FORMAT,
		    "\"%s\" is damaged: it has %" PRId64 " bytes, not %" PRId64, path,
		    (int64_t)st.st_size, j->size);
	if (!rc && has_tensors(f))
		rc = safetensors_open_fd(fd, path, &f->st, e);
	else if (fd >= 0)
		close(fd);
	r->nfiles += !rc;
	free(path);
	return rc;
}

static enum err_code open_files(struct ckpt_reader *r, struct err *e)
{
	enum err_code rc = ERR_OK;

	r->file = mem_try_array(r->manifest->nfiles + 1, sizeof *r->file);
	if (!r->file)
		return err_set(e, ERR_NOMEM, "no memory for the files of \"%s\"", r->path);
	for (uint64_t i = 0; !rc && i < r->manifest->nfiles; i++)
		rc = open_file(r, &r->manifest->files[i], e);
	return rc;
}

static enum err_code add_table(struct ckpt_reader *r, const struct manifest_table *j, struct err *e)
{
	struct stored *s = &r->table[r->ntables];

	s->t.name = j->name;
	s->t.sparse = j->sparse;
	s->t.added = j->added;
	if (!*s->t.name || strlen(s->t.name) > 200 || ckpt_table_find(r, s->t.name))
		return bad_manifest(r, e, "a table has no name, or the name of another table");
	if (j->rows < 0 || j->cols < 1 || j->cols > COLS_MAX || j->rows > ELEMENTS_MAX / j->cols ||
	    j->parts < 1 || (size_t)j->parts > json_array_size(r->manifest->parts))
		return bad_manifest(r, e, "a table has an invalid shape");
	s->t.rows = (uint64_t)j->rows;
	s->t.cols = (uint32_t)j->cols;
	s->t.parts = (uint32_t)j->parts;
	s->place = mem_try_array((size_t)j->parts, sizeof *s->place);
	if (!s->place)
		return err_set(e, ERR_NOMEM, "no memory for %" PRId64 " partitions", j->parts);
	r->ntables++;
	return ERR_OK;
}

static size_t find_file(const struct ckpt_reader *r, const char *name)
{
	for (size_t i = 0; i < r->nfiles; i++)
		if (strcmp(r->file[i].name, name) == 0)
			return i;
	return NO_FILE;
}

/* Find the two files of a server: parameters and, if there is one, optimizer state. */
static bool find_files(const struct ckpt_reader *r, uint64_t file, struct place *p)
{
	char name[2 * CKPT_NAME], *digits = name;
	bool state = true;
	unsigned server = 0;

	if (file >= r->nfiles)
		return false;
	p->file = (size_t)file;
	if (!ckpt_held_parse(r->file[p->file].name, &server, &state) || state)
		return false;
	digits += ckpt_is_base(r->file[p->file].name) ? snprintf(name, CKPT_NAME, CKPT_BASE) : 0;
	ckpt_file_name(server, true, digits);
	p->state_file = find_file(r, name);
	return true;
}

/* Take partition `part` of a table from the manifest. */
static bool take_place(const struct ckpt_reader *r, const json_t *entry, size_t table,
    uint32_t part, struct place *p)
{
	struct manifest_part m;
	bool good = manifest_decode_part(entry, &m);

	p->state = m.state;
	if (!good || m.table != table || m.part != part || !find_files(r, m.file, p))
		return false;
	if (!m.delta)
		return true;
	p->base = mem_alloc(sizeof *p->base);
	return r->table[table].t.sparse && find_files(r, m.base, p->base);
}

static const struct safetensors_tensor *find_tensor_named(struct ckpt_reader *r, size_t file,
    const struct ckpt_table *t, uint32_t part, const char *suffix)
{
	const struct safetensors_tensor *found;
	char name[256];

	snprintf(name, sizeof name, "%s.%" PRIu32 "%s", t->name, part, suffix);
	found = safetensors_find(r->file[file].st, name);
	r->file[file].used += found != NULL;
	return found;
}

static bool is_word_tensor(const struct safetensors_tensor *t)
{
	return t && t->type == SAFETENSORS_U64 && t->rank == 1;
}

/* Find the tensors of ids and of other integers of a sparse partition. */
static bool find_word_tensors(struct ckpt_reader *r, const struct ckpt_table *t, uint32_t part,
    struct place *p)
{
	p->ids = find_tensor_named(r, p->file, t, part, ".ids");
	p->seen = find_tensor_named(r, p->file, t, part, ".seen");
	p->policy_words = find_tensor_named(r, p->file, t, part, ".life");
	p->live = p->base ? find_tensor_named(r, p->file, t, part, ".live") : NULL;
	return is_word_tensor(p->ids) && p->ids->count == p->n &&
	    (!p->seen || (is_word_tensor(p->seen) && p->seen->count == p->n)) &&
	    (!p->policy_words || is_word_tensor(p->policy_words)) &&
	    (!p->live || is_word_tensor(p->live));
}

/* Has x the shape of the partition's values? */
static bool tensor_fits(const struct ckpt_table *t, const struct place *p,
    const struct safetensors_tensor *x)
{
	enum element_type element;

	return x && safetensors_element(x->type, &element) && x->rank == (t->sparse ? 2 : 1) &&
	    x->shape[0] == p->n && (!t->sparse || x->shape[1] == t->cols);
}

/* The type of the values in a partition's own file. */
static enum element_type own_element(const struct place *p)
{
	enum element_type element = ELEMENT_f32;

	safetensors_element(p->w->type, &element);
	return element;
}

/* A vector of optimizer state may have one value for each row. */
static bool vector_fits(const struct ckpt_table *t, const struct place *p,
    const struct safetensors_tensor *x)
{
	return x->type == SAFETENSORS_F32 &&
	    (tensor_fits(t, p, x) ||
	        (t->sparse && x->rank == 2 && x->shape[0] == p->n && x->shape[1] == 1));
}

/* The floats that a row of a sparse partition has in vector k; 1 in a dense partition. */
static uint32_t vector_width(const struct ckpt_table *t, const struct place *p, unsigned k)
{
	return t->sparse ? (uint32_t)p->vector[k]->shape[1] : 1;
}

/* Have two partitions of a table, or a partition and its base, the same vectors? */
static bool same_vectors(const struct ckpt_table *t, const struct place *a, const struct place *b)
{
	bool same = a->nvectors == b->nvectors;

	for (unsigned k = 0; same && k < a->nvectors; k++)
		same = vector_width(t, a, k) == vector_width(t, b, k);
	return same;
}

static enum err_code find_tensors(struct ckpt_reader *r, const struct ckpt_table *t, uint32_t part,
    struct place *p, struct err *e)
{
	const char *file = r->file[p->file].name;
	char suffix[16];
	bool good;

	p->w = find_tensor_named(r, p->file, t, part, "");
	p->n = p->w && p->w->rank > 0 ? p->w->shape[0] : 0;
	good = p->w && (!t->sparse || (p->w->rank == 2 && find_word_tensors(r, t, part, p))) &&
	    tensor_fits(t, p, p->w);
	for (; good && p->state_file != NO_FILE && p->nvectors < CKPT_VECTORS_MAX; p->nvectors++) {
		snprintf(suffix, sizeof suffix, ".s%u", p->nvectors);
		p->vector[p->nvectors] = find_tensor_named(r, p->state_file, t, part, suffix);
		if (!p->vector[p->nvectors])
			break;
		file = r->file[p->state_file].name;
		good = vector_fits(t, p, p->vector[p->nvectors]);
	}
	return good ? ERR_OK
	            : err_set(e, ERR_FORMAT,
	                  "\"%s/%s\" is damaged: its contents for partition %" PRIu32 " of table "
	                  "\"%s\" differ from the manifest",
	                  r->path, file, part, t->name);
}

static enum err_code report_missing_vectors(const struct ckpt_reader *r, const struct place *p,
    struct err *e)
{
	size_t file = p->state_file == NO_FILE ? p->file : p->state_file;

	return err_set(e, ERR_FORMAT,
	    "\"%s/%s\" is damaged: one of its partitions has other state vectors of the update "
	    "rule than the rest of the table",
	    r->path, r->file[file].name);
}

static enum err_code open_partitions(struct ckpt_reader *r, size_t index, size_t from,
    struct err *e)
{
	struct stored *s = &r->table[index];
	uint64_t begin = 0;
	enum err_code rc;

	for (uint32_t k = 0; k < s->t.parts; k++) {
		struct place *p = &s->place[k];

		if (!take_place(r, json_array_get(r->manifest->parts, from + k), index, k, p))
			return bad_manifest(r, e, "its list of partitions is invalid");
		rc = find_tensors(r, &s->t, k, p, e);
		if (!rc && p->base)
			rc = find_tensors(r, &s->t, k, p->base, e);
		if (!rc && p->base)
			rc = same_vectors(&s->t, p->base, p) ? ckpt_merge(r, &s->t, p, e)
			                                     : report_missing_vectors(r, p, e);
		if (rc)
			return rc;
		p->begin = begin;
		begin += p->n;
		s->t.values = k ? s->t.values : own_element(p);
		if (own_element(p) != s->t.values ||
		    (p->base && own_element(p->base) != s->t.values))
			s->t.values = ELEMENT_f32;
		if (!same_vectors(&s->t, p, &s->place[0]))
			return report_missing_vectors(r,
			    p->nvectors < s->place[0].nvectors ? p : &s->place[0], e);
	}
	if (!s->t.sparse && begin != s->t.rows * s->t.cols)
		return bad_manifest(r, e, "the partitions of a dense table do not cover the table");
	return ERR_OK;
}

static enum err_code open_tables(struct ckpt_reader *r, struct err *e)
{
	size_t at = 0;
	enum err_code rc;

	r->table = mem_try_array(r->manifest->ntables + 1, sizeof *r->table);
	if (!r->table)
		return err_set(e, ERR_NOMEM, "no memory for the tables of \"%s\"", r->path);
	for (size_t i = 0; i < r->manifest->ntables; i++) {
		rc = add_table(r, &r->manifest->tables[i], e);
		if (!rc)
			rc = open_partitions(r, i, at, e);
		if (rc)
			return rc;
		at += r->table[i].t.parts;
	}
	if (at != json_array_size(r->manifest->parts))
		return bad_manifest(r, e, "it lists partitions of an unknown table");
	for (size_t i = 0; i < r->nfiles; i++) {
		if (!has_tensors(&r->file[i]))
			continue;
		/* The delta may replace partitions of a base file, whose tensors are then
		 * unused. */
		if (r->file[i].used != safetensors_count(r->file[i].st) &&
		    !ckpt_is_base(r->file[i].name))
			return err_set(e, ERR_FORMAT,
			    "\"%s/%s\" is damaged: it has tensors that belong to no partition",
			    r->path, r->file[i].name);
	}
	return ERR_OK;
}

enum err_code ckpt_open(const char *path, struct ckpt_reader **out, struct err *e)
{
	struct err why = { 0 };
	struct manifest *manifest = ckpt_manifest_read(path, &why);
	struct ckpt_reader *r;
	enum err_code rc;

	*out = NULL;
	if (!manifest)
		return err_pass(e, &why);
	r = mem_alloc(sizeof *r);
	r->path = mem_strdup(path);
	r->manifest = manifest;
	rc = open_files(r, e);
	if (!rc && !ckpt_description_fits(manifest))
		rc = bad_manifest(r, e,
		    "its description of the training data is not the file \"" CKPT_DESCRIPTION
		    "\"");
	if (!rc)
		rc = open_tables(r, e);
	if (rc) {
		ckpt_close(r);
		return rc;
	}
	*out = r;
	return ERR_OK;
}

void ckpt_close(struct ckpt_reader *r)
{
	if (!r)
		return;
	for (size_t i = 0; i < r->ntables; i++) {
		for (uint32_t k = 0; k < r->table[i].t.parts; k++) {
			manifest_state_release(&r->table[i].place[k].state);
			free(r->table[i].place[k].base);
			free(r->table[i].place[k].pick);
		}
		free(r->table[i].place);
	}
	for (size_t i = 0; i < r->nfiles; i++)
		safetensors_close(r->file[i].st);
	free(r->table);
	free(r->file);
	manifest_free(r->manifest);
	free(r->path);
	free(r);
}

/* ---- queries ---- */

const char *ckpt_path(const struct ckpt_reader *r)
{
	return r->path;
}

uint64_t ckpt_step(const struct ckpt_reader *r)
{
	return (uint64_t)r->manifest->step;
}

const struct manifest *ckpt_manifest(const struct ckpt_reader *r)
{
	return r->manifest;
}

size_t ckpt_tables(const struct ckpt_reader *r)
{
	return r->ntables;
}

const struct ckpt_table *ckpt_table_at(const struct ckpt_reader *r, size_t i)
{
	return &r->table[i].t;
}

const struct ckpt_table *ckpt_table_find(const struct ckpt_reader *r, const char *name)
{
	for (size_t i = 0; i < r->ntables; i++)
		if (strcmp(r->table[i].t.name, name) == 0)
			return &r->table[i].t;
	return NULL;
}

struct ckpt_info ckpt_part_info(const struct ckpt_reader *r, const struct ckpt_table *t,
    uint32_t part)
{
	const struct place *p = ckpt_place_of(t, part);
	struct ckpt_info info;

	(void)r;
	info = (struct ckpt_info){ .n = p->n,
		.nvectors = p->nvectors,
		.version = p->state.version,
		.step = p->state.step,
		.born = p->state.born,
		.dated = p->seen != NULL,
		.npolicy_words = p->policy_words ? p->policy_words->count : 0,
		.nlast = p->state.nlast };
	for (unsigned k = 0; k < p->nvectors; k++)
		info.vector_cols[k] = vector_width(t, p, k);
	return info;
}

void ckpt_part_last(const struct ckpt_reader *r, const struct ckpt_table *t, uint32_t part,
    uint64_t *out)
{
	const struct place *p = ckpt_place_of(t, part);

	(void)r;
	if (p->state.nlast)
		memcpy(out, p->state.last, p->state.nlast * sizeof *out);
}

/* ---- values ---- */

static enum err_code read_ascending_ids(const struct ckpt_reader *r, const struct place *p,
    uint64_t first, uint64_t n, uint64_t *ids, struct err *e)
{
	const struct file *f = &r->file[p->file];
	enum err_code rc = p->pick ? ckpt_merged_words(r, p, WORDS_IDS, first, n, ids, e)
	                           : safetensors_read_ids(f->st, p->ids, first, n, ids, e);

	for (uint64_t i = 1; !rc && i < n; i++)
		if (ids[i] <= ids[i - 1])
			rc = err_set(e, ERR_FORMAT,
			    "\"%s/%s\" is damaged: the ids of \"%s\" do not ascend", r->path,
			    f->name, p->ids->name);
	return rc;
}

enum err_code ckpt_own_floats(const struct ckpt_reader *r, const struct place *p, int vector,
    uint64_t width, uint64_t first, uint64_t n, float *out, struct err *e)
{
	return safetensors_read(r->file[vector < 0 ? p->file : p->state_file].st,
	    vector < 0 ? p->w : p->vector[vector], first * width, n * width, out, e);
}

enum err_code ckpt_read_part(const struct ckpt_reader *r, const struct ckpt_table *t, uint32_t part,
    uint64_t first, uint64_t n, uint64_t *ids, float *w, float *const *vector, unsigned nvectors,
    struct err *e)
{
	const struct place *p = ckpt_place_of(t, part);
	uint64_t width = t->sparse ? t->cols : 1;
	enum err_code rc = ERR_OK;

	if (first > p->n || n > p->n - first || nvectors > p->nvectors)
		return err_set(e, ERR_LIMIT,
		    "partition %" PRIu32 " of table \"%s\" has %" PRIu64 " %s and %u vectors "
		    "in \"%s\"",
		    part, t->name, p->n, t->sparse ? "rows" : "values", p->nvectors, r->path);
	if (ids && t->sparse)
		rc = read_ascending_ids(r, p, first, n, ids, e);
	if (!rc && w)
		rc = p->pick ? ckpt_merged_floats(r, p, -1, width, first, n, w, e)
		             : ckpt_own_floats(r, p, -1, width, first, n, w, e);
	for (unsigned k = 0; !rc && k < nvectors; k++) {
		width = vector_width(t, p, k);
		if (vector[k])
			rc = p->pick
			    ? ckpt_merged_floats(r, p, (int)k, width, first, n, vector[k], e)
			    : ckpt_own_floats(r, p, (int)k, width, first, n, vector[k], e);
	}
	return rc;
}

enum err_code ckpt_map_part(const struct ckpt_reader *r, const struct ckpt_table *t, uint32_t part,
    const uint8_t **ids, const uint8_t **w, enum element_type *values, struct err *e)
{
	const struct place *p = ckpt_place_of(t, part);
	struct safetensors *file = r->file[p->file].st;
	enum err_code rc;

	*ids = *w = NULL;
	*values = own_element(p);
	if (p->pick)
		return ERR_OK;
	rc = safetensors_map(file, e);
	if (rc)
		return rc;
	*w = safetensors_bytes(file, p->w);
	*ids = t->sparse ? safetensors_bytes(file, p->ids) : NULL;
	return ERR_OK;
}

enum err_code ckpt_read_row_policy(const struct ckpt_reader *r, const struct ckpt_table *t,
    uint32_t part, uint64_t *seen, uint64_t *policy_words, struct err *e)
{
	const struct place *p = ckpt_place_of(t, part);
	enum err_code rc = ERR_OK;

	if (seen && p->seen && p->pick)
		rc = ckpt_merged_words(r, p, WORDS_SEEN, 0, p->n, seen, e);
	else if (seen && p->seen)
		rc = safetensors_read_ids(r->file[p->file].st, p->seen, 0, p->n, seen, e);
	if (!rc && policy_words && p->policy_words)
		rc = safetensors_read_ids(r->file[p->file].st, p->policy_words, 0,
		    p->policy_words->count, policy_words, e);
	return rc;
}

/* The partition of a dense table that holds element `first`. */
static uint32_t find_partition(const struct ckpt_table *t, uint64_t first)
{
	uint32_t lo = 0, hi = t->parts;

	while (hi - lo > 1) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (ckpt_place_of(t, mid)->begin <= first)
			lo = mid;
		else
			hi = mid;
	}
	return lo;
}

enum err_code ckpt_read_dense(const struct ckpt_reader *r, const struct ckpt_table *t,
    uint64_t first, uint64_t n, float *out, struct err *e)
{
	enum err_code rc = ERR_OK;

	if (t->sparse || first > t->rows * t->cols || n > t->rows * t->cols - first)
		return err_set(e, ERR_LIMIT, "table \"%s\" has no values %" PRIu64 " and on",
		    t->name, first);
	for (uint32_t k = find_partition(t, first); !rc && n > 0; k++) {
		const struct place *p = ckpt_place_of(t, k);
		uint64_t skip = first - p->begin, m = p->n - skip < n ? p->n - skip : n;

		rc = ckpt_read_part(r, t, k, skip, m, NULL, out, NULL, 0, e);
		first += m;
		out += m;
		n -= m;
	}
	return rc;
}

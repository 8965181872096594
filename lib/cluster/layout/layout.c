/* SPDX-License-Identifier: ISC */
#include "layout/layout.h"

#include <float.h>
#include <math.h>

#include "core/buf.h"
#include "core/json.h"
#include "core/mem.h"
#include "core/rng.h"
#include "math/hash.h"
#include "msg/layout_document.h"

#define HASHED 256u /* row ids hashed at a time */
/* Limit of a sparse row's width: a row and its id fit into one record, with room to spare. */
#define SPARSE_COLS_MAX 65536u
/* Even a small sparse table has several partitions, so that it is spread over the servers. The
 * upper bound limits what a server must loop over at each step. */
#define SPARSE_PARTS_MIN 16u
#define SPARSE_PARTS_MAX 4096u
/* Values of a sparse partition, where the table is large enough. A batch has rows of many
 * partitions, and each costs a record in both directions, so that small ones would have little more
 * than a row. */
#define SPARSE_PART_ELEMENTS (UINT64_C(1) << 20)

void layout_release(struct layout *l)
{
	for (size_t i = 0; i < l->ntables; i++)
		free(l->table[i].run);
	free(l->table);
	free(l->index);
	*l = (struct layout){ 0 };
}

/* ---- names ---- */

/* The name's place in the index, or the empty place for it. Hash: FNV-1a,
 * http://www.isthe.com/chongo/tech/comp/fnv/ */
static size_t find_index_rank(const struct layout *l, const char *name)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325);
	size_t at;

	for (const char *s = name; *s; s++)
		h = (h ^ (uint8_t)*s) * UINT64_C(0x100000001b3);
	at = (h ^ h >> 32) & (l->nindex - 1);
	while (l->index[at] && strcmp(l->table[l->index[at] - 1].name, name) != 0)
		at = (at + 1) & (l->nindex - 1);
	return at;
}

/* Enter the names of all tables from number `from` on. */
static void index_tables_from(struct layout *l, size_t from)
{
	for (size_t i = from; i < l->ntables; i++)
		if (!l->table[i].dropped)
			l->index[find_index_rank(l, l->table[i].name)] = (uint16_t)(i + 1);
}

/* Enter the last table's name. At most half of the places are used, so searches are short. */
static void index_last_table(struct layout *l)
{
	size_t from = l->ntables - 1;

	if (l->nindex < 2 * l->ntables) {
		l->nindex = l->nindex ? l->nindex * 2 : 16;
		free(l->index);
		l->index = mem_array(l->nindex, sizeof *l->index);
		from = 0;
	}
	index_tables_from(l, from);
}

/* Marks a table as dropped and rebuilds the whole index, because its name may be taken by a
 * later table. The shape keeps one row for a dense table. */
static void remove_table(struct layout *l, struct table *t)
{
	/* The dropped table keeps its number but needs almost no memory for a partition. */
	t->dropped = true;
	t->rows = t->sparse ? 0 : 1;
	t->npieces = 0;
	t->nparts = table_count_parts(t);
	free(t->run);
	t->run = NULL;
	t->nruns = 0;
	memset(l->index, 0, l->nindex * sizeof *l->index);
	index_tables_from(l, 0);
}

bool layout_drop(struct layout *l, const char *name)
{
	struct table *t = (struct table *)(uintptr_t)layout_find(l, name);

	if (t)
		remove_table(l, t);
	return t != NULL;
}

/* ---- tables ---- */

void layout_reserve(struct layout *l)
{
	l->cap = UINT16_MAX;
	l->table = mem_array(l->cap, sizeof *l->table);
}

/* Is t the table that `had` was, at most grown or dropped since? */
static bool is_same_table(const struct table *had, const struct table *t)
{
	return strcmp(had->name, t->name) == 0 &&
	    (t->dropped ||
	        (!had->dropped && had->sparse == t->sparse && had->cols == t->cols &&
	            had->row_store == t->row_store && had->nparts <= t->nparts));
}

/* Takes over what may have changed in a table since it was added: its size, its placement, and
 * whether it is dropped. The runs move from t to had, and had keeps its address, because other
 * structs point to it. */
static void update_table(struct layout *l, struct table *had, struct table *t)
{
	had->rows = t->rows;
	had->nparts = t->nparts;
	had->since = t->since;
	memcpy(had->piece, t->piece, sizeof had->piece);
	had->npieces = t->npieces;
	free(had->run);
	had->run = t->run;
	had->nruns = t->nruns;
	t->run = NULL;
	if (t->dropped && !had->dropped)
		remove_table(l, had);
}

bool layout_update(struct layout *l, struct layout *fresh)
{
	bool same = fresh->ntables >= l->ntables;

	for (size_t i = 0; same && i < l->ntables; i++)
		same = is_same_table(&l->table[i], &fresh->table[i]);
	if (!same) {
		layout_release(fresh);
		return false;
	}
	l->epoch = fresh->epoch;
	l->generation = fresh->generation;
	for (size_t i = 0; i < fresh->ntables; i++) {
		struct table *t = &fresh->table[i], *old;

		if (i >= l->ntables)
			layout_add(l, t, &old, NULL);
		update_table(l, &l->table[i], t);
	}
	layout_release(fresh);
	return true;
}

enum err_code layout_add(struct layout *l, const struct table *shape, struct table **out,
    struct err *e)
{
	struct table *t = shape->dropped ? NULL : (struct table *)layout_find(l, shape->name);

	if (t) {
		if (t->sparse != shape->sparse || t->cols != shape->cols ||
		    (!t->sparse && t->rows != shape->rows))
			return err_set(e, ERR_EXISTS,
			    "table \"%s\" is %s %llu x %u here, not %s %llu x %u", t->name,
			    t->sparse ? "sparse" : "dense", (unsigned long long)t->rows, t->cols,
			    shape->sparse ? "sparse" : "dense", (unsigned long long)shape->rows,
			    shape->cols);
		*out = t;
		return ERR_OK;
	}
	if (l->ntables == UINT16_MAX - 1)
		return err_set(e, ERR_LIMIT, "no room for table \"%s\": there are %zu already",
		    shape->name, l->ntables);
	l->table = mem_grow(l->table, &l->cap, l->ntables + 1, sizeof *l->table);
	t = &l->table[l->ntables];
	*t = *shape;
	t->id = (uint16_t)l->ntables++;
	if (!t->sparse || !t->nparts)
		t->nparts = table_count_parts(t);
	t->run = NULL;
	t->nruns = 0;
	index_last_table(l);
	*out = t;
	return ERR_OK;
}

const struct table *layout_find(const struct layout *l, const char *name)
{
	uint16_t found = l->nindex ? l->index[find_index_rank(l, name)] : 0;

	return found ? &l->table[found - 1] : NULL;
}

enum err_code layout_find_or_fail(const struct layout *l, const char *name,
    const struct table **out, struct err *e)
{
	struct buf names = BUF_INIT;

	*out = layout_find(l, name);
	if (*out)
		return ERR_OK;
	for (size_t i = 0; i < l->ntables; i++)
		if (!l->table[i].dropped)
			buf_printf(&names, "%s%s", names.len ? ", " : "", l->table[i].name);
	err_set(e, ERR_NOTFOUND, "there is no table \"%s\"; there are: %s", name,
	    names.len ? (char *)names.data : "none");
	buf_release(&names);
	return ERR_NOTFOUND;
}

uint32_t table_part_of(const struct table *t, uint64_t id)
{
	/* nparts is a power of two: take the top bits of a well mixed hash. */
	return (uint32_t)(rng_mix(id) >> 32) & (t->nparts - 1);
}

void table_parts_of(const struct table *t, const uint64_t *ids, size_t n, uint16_t *part)
{
	uint32_t mask = t->nparts - 1;
	uint64_t hash[HASHED];

	for (size_t at = 0, m; at < n; at += m) {
		m = n - at < HASHED ? n - at : HASHED;
		hash_ids(m, (const uint8_t *)(ids + at), hash);
		for (size_t i = 0; i < m; i++)
			part[at + i] = (uint16_t)((uint32_t)(hash[i] >> 32) & mask);
	}
}

const struct run *table_run(const struct table *t, uint32_t part)
{
	size_t lo = 0, hi = t->nruns;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;
		const struct run *r = &t->run[mid];

		if (part < r->first)
			hi = mid;
		else if (part - r->first >= r->count)
			lo = mid + 1;
		else
			return r;
	}
	return NULL;
}

uint16_t table_head(const struct table *t, uint32_t part)
{
	const struct run *r = table_run(t, part);

	return r && r->nchain ? r->chain[0] : NO_SERVER;
}

uint16_t table_tail(const struct table *t, uint32_t part)
{
	const struct run *r = table_run(t, part);

	return r && r->nchain ? r->chain[r->nchain - 1] : NO_SERVER;
}

int run_chain_index(const struct run *r, unsigned server)
{
	for (int i = 0; i < r->nchain; i++)
		if (r->chain[i] == server)
			return i;
	return -1;
}

uint32_t layout_count_sole_replicas(const struct layout *l, unsigned server)
{
	uint32_t only = 0;

	for (size_t i = 0; i < l->ntables; i++)
		for (size_t k = 0; k < l->table[i].nruns; k++) {
			const struct run *r = &l->table[i].run[k];

			if (r->nchain == 1 && r->chain[0] == server)
				only += r->count;
		}
	return only;
}

unsigned layout_least_replicas(const struct layout *l)
{
	unsigned least = 0;
	bool any = false;

	for (size_t i = 0; i < l->ntables; i++)
		for (size_t k = 0; k < l->table[i].nruns; k++) {
			unsigned n = (unsigned)l->table[i].run[k].nchain;

			least = !any || n < least ? n : least;
			any = true;
		}
	return least;
}

bool layout_moves_from(const struct layout *l, unsigned server)
{
	for (size_t i = 0; i < l->ntables; i++)
		for (size_t k = 0; k < l->table[i].nruns; k++)
			if (l->table[i].run[k].leaving == server)
				return true;
	return false;
}

/* ---- JSON ---- */

static const char *const init_name[] = { "zeros", "uniform", "file", "constant" };

static const char *const row_store_name[ROW_STORES] = {
#define ROW_STORE(name) #name,
#include "layout/row_store.def"
#undef ROW_STORE
};

/* Add the changes of an added table to its JSON. */
static void add_past(const struct table *t, json_t *o)
{
	json_t *pieces;

	if (!t->added)
		return;
	pieces = t->npieces ? json_array() : NULL;
	for (unsigned i = 0; i < t->npieces; i++)
		json_array_append_new(pieces,
		    json_pack("[I, I]", (json_int_t)t->piece[i].part,
		        (json_int_t)t->piece[i].element));
	layout_past_encode(&(const struct layout_past){ .added = true,
	                       .since = (int64_t)t->since,
	                       .dropped = t->dropped,
	                       .pieces = pieces },
	    o);
	json_decref(pieces);
}

json_t *table_to_json(const struct table *t)
{
	json_t *o = json_pack("{s:s, s:b, s:b, s:b, s:I, s:I, s:s, s:f, s:o}", "name", t->name,
	    "sparse", t->sparse, "decay", t->decay, "reduced", t->reduced, "rows",
	    (json_int_t)t->rows, "cols", (json_int_t)t->cols, "init", init_name[t->init],
	    "init_limit", (double)t->init_limit, "seed", json_of_u64(t->seed));
	char policy[POLICY_TEXT];

	if (t->whole)
		json_object_set_new(o, "whole", json_true());
	row_policy_text(&t->policy, policy);
	if (!row_policy_is_none(&t->policy))
		json_object_set_new(o, "policy", json_string(policy));
	if (t->row_store)
		json_object_set_new(o, "row_store", json_string(row_store_name[t->row_store]));
	add_past(t, o);
	return o;
}

static bool is_valid_table_name(const char *s)
{
	size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-");

	return n > 0 && n < TABLE_NAME && s[n] == 0;
}

static bool parse_table_init(const char *name, enum table_init *out)
{
	for (size_t i = 0; i < sizeof init_name / sizeof *init_name; i++)
		if (strcmp(name, init_name[i]) == 0) {
			*out = (enum table_init)i;
			return true;
		}
	return false;
}

static bool parse_row_store(const char *name, enum row_store_kind *out)
{
	for (size_t i = 0; i < ROW_STORES; i++)
		if (strcmp(name, row_store_name[i]) == 0) {
			*out = (enum row_store_kind)i;
			return true;
		}
	return false;
}

enum err_code table_from_json(const json_t *j, struct table *out, struct err *e)
{
	struct err why = { 0 };
	const char *name = "", *init = "zeros", *policy = "none", *store = row_store_name[0];
	int64_t rows = 0, cols = 0;
	double limit = 0, least;

	*out = (struct table){ 0 };
	json_want_str(j, "table", "name", &name, &why);
	json_want_bool(j, "table", "sparse", &out->sparse, &why);
	json_want_bool(j, "table", "decay", &out->decay, &why);
	json_want_bool(j, "table", "reduced", &out->reduced, &why);
	json_want_bool(j, "table", "whole", &out->whole, &why);
	json_want_int(j, "table", "rows", 0, (int64_t)TABLE_ELEMENTS_MAX, &rows, &why);
	json_want_int(j, "table", "cols", 1, 1 << 20, &cols, &why);
	json_want_str(j, "table", "init", &init, &why);
	json_want_num(j, "table", "init_limit", &limit, &why);
	json_want_u64s(j, "table", "seed", &out->seed, &why);
	json_want_str(j, "table", "policy", &policy, &why);
	json_want_str(j, "table", "row_store", &store, &why);
	if (why.code)
		return err_pass(e, &why);
	if (!is_valid_table_name(name))
		return err_set(e, ERR_CONFIG,
		    "table.name: must be 1 to 63 letters, digits, \"_\", \".\" or \"-\"");
	if (out->sparse && cols > SPARSE_COLS_MAX)
		return err_set(e, ERR_CONFIG,
		    "table \"%s\": a sparse row has at most %u values, got %lld", name,
		    SPARSE_COLS_MAX, (long long)cols);
	if (row_policy_parse(policy, &out->policy, &why))
		return err_set(e, ERR_CONFIG, "table \"%s\": policy: %s", name, why.msg);
	if (!parse_row_store(store, &out->row_store))
		return err_set(e, ERR_CONFIG, "table \"%s\": row_store: \"%.40s\" is unknown", name,
		    store);
	if (!out->sparse && out->row_store)
		return err_set(e, ERR_CONFIG, "table \"%s\": row_store: requires a sparse table",
		    name);
	if (!out->sparse && !row_policy_is_none(&out->policy))
		return err_set(e, ERR_CONFIG, "table \"%s\": policy: requires a sparse table",
		    name);
	if (out->sparse && out->reduced)
		return err_set(e, ERR_CONFIG,
		    "table \"%s\": a sparse table must be summed by the servers", name);
	if (cols == 0 || (!out->sparse && rows == 0) ||
	    (uint64_t)rows > TABLE_ELEMENTS_MAX / (uint64_t)cols)
		return err_set(e, ERR_CONFIG, "table \"%s\": the shape %lld x %lld is too large",
		    name, (long long)rows, (long long)cols);
	if (out->whole && (out->sparse || (uint64_t)rows * (uint64_t)cols > WHOLE_ELEMENTS))
		return err_set(e, ERR_CONFIG,
		    "table \"%s\": whole: requires a dense table of at most %u values", name,
		    WHOLE_ELEMENTS);
	if (!parse_table_init(init, &out->init))
		return err_set(e, ERR_CONFIG,
		    "table \"%s\": init must be zeros, uniform, file or constant", name);
	least = out->init == TABLE_CONSTANT ? -(double)FLT_MAX : 0;
	if (!isfinite(limit) || limit < least || limit > (double)FLT_MAX)
		return err_set(e, ERR_CONFIG,
		    "table \"%s\": init_limit must be from %g to %g, not %g", name, least,
		    (double)FLT_MAX, limit);
	snprintf(out->name, sizeof out->name, "%s", name);
	out->rows = (uint64_t)rows;
	out->cols = (uint32_t)cols;
	out->init_limit = (float)limit;
	return ERR_OK;
}

enum err_code table_change_from_json(const json_t *j, struct table *out, struct err *e)
{
	struct err why = { 0 };
	const char *name = "";
	int64_t rows = 0;

	*out = (struct table){ 0 };
	json_want_str(j, "table", "name", &name, &why);
	json_want_int(j, "table", "rows", 0, (int64_t)TABLE_ELEMENTS_MAX, &rows, &why);
	if (why.code)
		return err_pass(e, &why);
	snprintf(out->name, sizeof out->name, "%s", name);
	out->rows = (uint64_t)rows;
	return ERR_OK;
}

static json_int_t server_to_number(uint16_t server)
{
	return server == NO_SERVER ? -1 : (json_int_t)server;
}

json_t *layout_tables(const struct layout *l)
{
	json_t *list = json_array();

	for (size_t i = 0; i < l->ntables; i++) {
		json_t *t;

		if (l->table[i].dropped)
			continue;
		t = table_to_json(&l->table[i]);
		json_object_set_new(t, "parts", json_integer(l->table[i].nparts));
		json_array_append_new(list, t);
	}
	return list;
}

json_t *layout_to_json(const struct layout *l)
{
	json_t *tables = json_array(), *out;

	for (size_t i = 0; i < l->ntables; i++) {
		const struct table *t = &l->table[i];
		json_t *j = table_to_json(t), *runs = json_array();

		for (size_t r = 0; r < t->nruns; r++) {
			json_t *chain = json_array();

			for (unsigned k = 0; k < t->run[r].nchain; k++)
				json_array_append_new(chain, json_integer(t->run[r].chain[k]));
			json_array_append_new(runs,
			    json_pack("[I, I, o, I, I]", (json_int_t)t->run[r].first,
			        (json_int_t)t->run[r].count, chain,
			        server_to_number(t->run[r].joining),
			        server_to_number(t->run[r].leaving)));
		}
		layout_place_encode(&(const struct layout_place){ .id = t->id,
		                        .partitions = t->nparts,
		                        .runs = runs },
		    j);
		json_decref(runs);
		json_array_append_new(tables, j);
	}
	out = layout_document_encode(&(const struct layout_document){ .epoch = l->epoch,
	    .generation = l->generation,
	    .tables = tables });
	json_decref(tables);
	return out;
}

/* Read the integer at index i of a list; false: it is not an integer in min .. max. */
static bool read_int_at(const json_t *list, size_t i, json_int_t min, json_int_t max,
    json_int_t *out)
{
	const json_t *n = json_array_get(list, i);

	*out = json_integer_value(n);
	return json_is_integer(n) && *out >= min && *out <= max;
}

/* Read the server number at index i of a list; -1 becomes NO_SERVER. */
static bool read_server_at(const json_t *list, size_t i, json_int_t min, uint16_t *out)
{
	json_int_t n;

	if (!read_int_at(list, i, min, NO_SERVER - 1, &n))
		return false;
	*out = n < 0 ? NO_SERVER : (uint16_t)n;
	return true;
}

/* Reads the servers of a chain into r, whose chain is empty before. A server must not stand
 * twice in it. On false, r has a part of the chain. */
static bool chain_from_json(const json_t *chain, struct run *r)
{
	size_t n = json_array_size(chain);
	uint16_t server;

	if (!json_is_array(chain) || n > CHAIN_MAX)
		return false;
	while (r->nchain < n) {
		if (!read_server_at(chain, r->nchain, 0, &server) ||
		    run_chain_index(r, server) >= 0)
			return false;
		r->chain[r->nchain++] = server;
	}
	return true;
}

/* Read one run. Partitions before `from` belong to earlier runs. */
static bool run_from_json(const json_t *j, uint32_t from, uint32_t nparts, struct run *r)
{
	json_int_t first, count;

	if (json_array_size(j) != 5 || !read_int_at(j, 0, from, (json_int_t)nparts - 1, &first) ||
	    !read_int_at(j, 1, 1, (json_int_t)nparts - first, &count))
		return false;
	r->first = (uint32_t)first;
	r->count = (uint32_t)count;
	return chain_from_json(json_array_get(j, 2), r) && read_server_at(j, 3, -1, &r->joining) &&
	    read_server_at(j, 4, -1, &r->leaving);
}

/* Reads the runs of a table, which must ascend and not overlap. A gap between two runs is
 * accepted: its partitions have no server. After ERR_PROTO, the runs that were not read are
 * zero. */
static enum err_code runs_from_json(const json_t *runs, struct table *t, struct err *e)
{
	uint32_t from = 0;
	size_t i;
	const json_t *j;

	if (!json_is_array(runs))
		return err_set(e, ERR_PROTO, "table \"%s\": no runs in the layout", t->name);
	t->run = mem_array(json_array_size(runs) + 1, sizeof *t->run);
	t->nruns = json_array_size(runs);
	json_array_foreach(runs, i, j) {
		struct run *r = &t->run[i];

		if (!run_from_json(j, from, t->nparts, r))
			return err_set(e, ERR_PROTO, "table \"%s\": bad run %zu in the layout",
			    t->name, i);
		from = r->first + r->count;
	}
	return ERR_OK;
}

/* Appends one table of a received layout to l. The number of partitions of a dense table is
 * computed here by layout_add and compared with what the sender says, so that both sides must agree
 * about it. A dropped table may have the name of another one. ERR_PROTO, or the errors of
 * layout_add. */
static enum err_code read_layout_table(const json_t *j, struct layout *l, struct err *e)
{
	struct layout_place place;
	struct table shape, *t = NULL;
	enum err_code rc = table_from_json(j, &shape, e);

	if (!rc)
		rc = table_past_from_json(j, &shape, e);
	if (rc)
		return rc;
	rc = layout_place_decode(j, &place, e);
	if (rc) {
		err_prefix(e, "table \"%s\"", shape.name);
		return rc;
	}
	if (!shape.dropped && layout_find(l, shape.name))
		return err_set(e, ERR_PROTO, "table \"%s\" is in the layout twice", shape.name);
	if (place.id != (int64_t)l->ntables)
		return err_set(e, ERR_PROTO,
		    "table \"%s\": its number is not its place in the layout, %zu", shape.name,
		    l->ntables);
	rc = layout_add(l, &shape, &t, e);
	if (rc)
		return rc;
	if (place.partitions != t->nparts)
		return err_set(e, ERR_PROTO,
		    "table \"%s\" has %u partitions, but another number in the layout", t->name,
		    t->nparts);
	return runs_from_json(place.runs, t, e);
}

uint32_t layout_json_epoch(const json_t *o)
{
	struct layout_document d;

	return layout_document_decode(o, &d, NULL) ? 0 : (uint32_t)d.epoch;
}

uint32_t layout_json_generation(const json_t *o)
{
	struct layout_document d;

	return layout_document_decode(o, &d, NULL) ? 0 : (uint32_t)d.generation;
}

enum err_code layout_from_json(const json_t *j, struct layout *out, struct err *e)
{
	struct layout_document d;
	const json_t *item;
	enum err_code rc = layout_document_decode(j, &d, e);
	size_t i;

	*out = (struct layout){ 0 };
	if (rc) {
		err_prefix(e, "the layout");
		return rc;
	}
	if (!json_is_array(d.tables))
		return err_set(e, ERR_PROTO, "a layout without tables");
	out->epoch = (uint32_t)d.epoch;
	out->generation = (uint32_t)d.generation;
	json_array_foreach(d.tables, i, item) {
		rc = read_layout_table(item, out, e);
		if (rc)
			break;
	}
	if (rc)
		layout_release(out);
	return rc;
}

/* ---- how a table's shape cuts it into partitions ---- */

uint64_t table_elements(const struct table *t)
{
	return t->rows * t->cols;
}

/* The piece of a table's last partition. */
static struct table_piece last_piece(const struct table *t)
{
	return t->npieces ? t->piece[t->npieces - 1] : (struct table_piece){ 0, 0 };
}

/* Elements of a partition that is full. */
static uint32_t full_part_elements(const struct table *t)
{
	return t->whole ? WHOLE_ELEMENTS : PART_ELEMENTS;
}

uint64_t table_part_begin(const struct table *t, uint32_t part)
{
	struct table_piece p = { 0, 0 }; /* the piece that the partition belongs to */

	for (unsigned i = 0; i < t->npieces && part >= t->piece[i].part; i++)
		p = t->piece[i];
	return p.element + (uint64_t)(part - p.part) * full_part_elements(t);
}

uint32_t table_part_elements(const struct table *t, uint32_t part)
{
	uint64_t begin = table_part_begin(t, part), end = t->rows * t->cols;

	for (unsigned i = t->npieces; i-- > 0 && part < t->piece[i].part;)
		end = t->piece[i].element;
	return end - begin < full_part_elements(t) ? (uint32_t)(end - begin)
	                                           : full_part_elements(t);
}

uint32_t table_count_parts(const struct table *t)
{
	struct table_piece last = last_piece(t);
	uint32_t n = SPARSE_PARTS_MIN;
	uint64_t want;

	if (t->sparse) {
		want = (table_elements(t) + SPARSE_PART_ELEMENTS - 1) / SPARSE_PART_ELEMENTS;
		while (n < want && n < SPARSE_PARTS_MAX)
			n *= 2;
		return n;
	}
	want = last.part +
	    (table_elements(t) - last.element + full_part_elements(t) - 1) / full_part_elements(t);
	return want ? (uint32_t)want : 1;
}

enum err_code layout_grow(struct layout *l, const char *name, uint64_t rows, uint64_t since,
    struct err *e)
{
	struct table *t = (struct table *)(uintptr_t)layout_find(l, name);

	if (!t)
		return err_set(e, ERR_NOTFOUND, "there is no table \"%s\"", name);
	if (t->sparse)
		return err_set(e, ERR_CONFIG, "table \"%s\" is sparse: it grows automatically",
		    name);
	if (rows <= t->rows || rows > TABLE_ELEMENTS_MAX / t->cols)
		return err_set(e, ERR_CONFIG,
		    "rows: table \"%s\" has %llu rows, and can have %llu at most, got %llu", name,
		    (unsigned long long)t->rows, (unsigned long long)(TABLE_ELEMENTS_MAX / t->cols),
		    (unsigned long long)rows);
	if (t->whole)
		return err_set(e, ERR_CONFIG,
		    "table \"%s\" cannot grow: its update rule acts on whole tables, so it has one "
		    "partition",
		    name);
	/* A partition that is not full stays as it is, so that its server need not move its values;
	 * the new rows begin a new piece. */
	if (table_part_elements(t, t->nparts - 1) < PART_ELEMENTS) {
		if (t->npieces == TABLE_PIECES)
			return err_set(e, ERR_LIMIT,
			    "table \"%s\" has grown %u times and can grow no more: make a larger "
			    "table",
			    name, TABLE_PIECES);
		t->piece[t->npieces++] = (struct table_piece){ t->nparts, table_elements(t) };
	}
	t->rows = rows;
	t->nparts = table_count_parts(t);
	t->since = since;
	return ERR_OK;
}

/* ---- JSON ---- */

/* Read one piece. It must begin after the previous one, where a short partition ends. */
static bool read_table_piece(const json_t *j, struct table *t)
{
	const json_t *part = json_array_get(j, 0), *element = json_array_get(j, 1);
	struct table_piece before = last_piece(t), p;
	uint64_t full;

	if (json_array_size(j) != 2 || !json_is_integer(part) || !json_is_integer(element) ||
	    json_integer_value(part) <= before.part || json_integer_value(part) > UINT32_MAX ||
	    json_integer_value(element) <= (json_int_t)before.element ||
	    (uint64_t)json_integer_value(element) >= table_elements(t) ||
	    t->npieces == TABLE_PIECES)
		return false;
	p = (struct table_piece){ (uint32_t)json_integer_value(part),
		(uint64_t)json_integer_value(element) };
	full = (p.element - before.element + PART_ELEMENTS - 1) / PART_ELEMENTS;
	if (p.part - before.part != full)
		return false;
	t->piece[t->npieces++] = p;
	return true;
}

/* The number of partitions in a table's document, of a layout or of a checkpoint. 0: there is none,
 * or none that a sparse table can have. */
static uint32_t stated_parts(const json_t *j)
{
	struct layout_parts stated = { 0 };
	int64_t n;

	if (layout_parts_decode(j, &stated, NULL) != ERR_OK)
		return 0;
	n = stated.partitions ? stated.partitions : stated.parts;
	return n >= SPARSE_PARTS_MIN && n <= SPARSE_PARTS_MAX && !(n & (n - 1)) ? (uint32_t)n : 0;
}

enum err_code table_past_from_json(const json_t *j, struct table *t, struct err *e)
{
	const json_t *piece;
	struct err why = { 0 };
	struct layout_past past = { 0 };
	size_t i;

	layout_past_decode(j, &past, &why);
	t->added = past.added;
	t->dropped = past.dropped;
	t->since = (uint64_t)past.since;
	t->nparts = t->sparse ? stated_parts(j) : 0;
	json_array_foreach(past.pieces, i, piece)
		if (!why.code && (t->sparse || !read_table_piece(piece, t)))
			err_set(&why, ERR_PROTO, "an invalid piece");
	if (!why.code && !t->added && (t->dropped || t->since || t->npieces))
		err_set(&why, ERR_PROTO, "a table of the model cannot change");
	return why.code ? err_set(e, ERR_PROTO, "table \"%s\": %s", t->name, why.msg) : ERR_OK;
}

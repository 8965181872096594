#include "coord/layout.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/rng.h"

/* Few rows still go to many buckets, so that a small sparse table is spread
 * too; the top bounds what a server must loop over at each step. */
#define SPARSE_PARTS_MIN 16u
#define SPARSE_PARTS_MAX 4096u
/* A row and its id fit one record, with room for others. */
#define SPARSE_COLS_MAX 65536u
#define TABLE_ELEMENTS_MAX (UINT64_C(1) << 40)

void layout_release(struct layout *l)
{
	for (size_t i = 0; i < l->ntables; i++)
		free(l->table[i].run);
	free(l->table);
	*l = (struct layout){ 0 };
}

uint64_t table_elements(const struct table *t)
{
	return t->rows * t->cols;
}

static uint32_t count_parts(const struct table *t)
{
	uint64_t want = (table_elements(t) + PART_ELEMENTS - 1) / PART_ELEMENTS;
	uint32_t n = SPARSE_PARTS_MIN;

	if (!t->sparse)
		return want ? (uint32_t)want : 1;
	while (n < want && n < SPARSE_PARTS_MAX)
		n *= 2;
	return n;
}

enum err_code layout_add(struct layout *l, const struct table *shape, struct table **out, struct err *e)
{
	struct table *t = (struct table *)layout_find(l, shape->name);

	if (t) {
		if (t->sparse != shape->sparse || t->cols != shape->cols || (!t->sparse && t->rows != shape->rows))
			return err_set(e, ERR_EXISTS, "table \"%s\" is %s %llu x %u here, not %s %llu x %u",
			    t->name, t->sparse ? "sparse" : "dense", (unsigned long long)t->rows, t->cols,
			    shape->sparse ? "sparse" : "dense", (unsigned long long)shape->rows, shape->cols);
		*out = t;
		return ERR_OK;
	}
	if (l->ntables == UINT16_MAX)
		return err_set(e, ERR_LIMIT, "no room for table \"%s\": there are %zu already", shape->name, l->ntables);
	l->table = mem_regrow(l->table, l->ntables + 1, sizeof *l->table);
	t = &l->table[l->ntables];
	*t = *shape;
	t->id = (uint16_t)l->ntables++;
	t->nparts = count_parts(t);
	t->run = NULL;
	t->nruns = 0;
	*out = t;
	return ERR_OK;
}

const struct table *layout_find(const struct layout *l, const char *name)
{
	for (size_t i = 0; i < l->ntables; i++)
		if (strcmp(l->table[i].name, name) == 0)
			return &l->table[i];
	return NULL;
}

static uint64_t part_weight(const struct table *t, uint32_t part)
{
	return t->sparse ? table_elements(t) / t->nparts + 1 : table_part_elements(t, part);
}

static size_t least(const uint64_t *load, size_t n)
{
	size_t best = 0;

	for (size_t i = 1; i < n; i++)
		if (load[i] < load[best])
			best = i;
	return best;
}

static void place_table(struct table *t, uint64_t *load, size_t nservers)
{
	size_t at = least(load, nservers);
	uint32_t first = 0;

	t->run = mem_array(nservers, sizeof *t->run);
	for (size_t k = 0; k < nservers; k++) {
		uint32_t count = t->nparts / (uint32_t)nservers + (k < t->nparts % nservers);

		if (!count)
			break;
		t->run[t->nruns++] = (struct run){ first, count, { (uint16_t)at }, 1 };
		for (uint32_t p = first; p < first + count; p++)
			load[at] += part_weight(t, p);
		first += count;
		at = (at + 1) % nservers;
	}
}

void layout_place(struct layout *l, size_t nservers)
{
	uint64_t *load = mem_array(nservers, sizeof *load);

	for (size_t i = 0; i < l->ntables; i++)
		for (size_t r = 0; r < l->table[i].nruns; r++) {
			const struct run *run = &l->table[i].run[r];

			for (uint32_t p = run->first; p < run->first + run->count; p++)
				load[run->chain[0]] += part_weight(&l->table[i], p);
		}
	for (size_t i = 0; i < l->ntables; i++)
		if (!l->table[i].nruns)
			place_table(&l->table[i], load, nservers);
	free(load);
}

uint64_t table_part_begin(uint32_t part)
{
	return (uint64_t)part * PART_ELEMENTS;
}

uint32_t table_part_elements(const struct table *t, uint32_t part)
{
	uint64_t left = table_elements(t) - table_part_begin(part);

	return left < PART_ELEMENTS ? (uint32_t)left : PART_ELEMENTS;
}

uint32_t table_part_of(const struct table *t, uint64_t id)
{
	/* nparts is a power of two; the top bits of a well mixed hash. */
	return (uint32_t)(rng_mix(id) >> 32) & (t->nparts - 1);
}

uint16_t table_owner(const struct table *t, uint32_t part)
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
			return r->chain[0];
	}
	return UINT16_MAX;
}

/* ---- JSON -------------------------------------------------------------- */

static const char *const init_name[] = { "zeros", "uniform", "file" };

json_t *table_to_json(const struct table *t)
{
	return json_pack("{s:s, s:b, s:b, s:I, s:I, s:s, s:f, s:o}", "name", t->name, "sparse", t->sparse,
	    "decay", t->decay, "rows", (json_int_t)t->rows, "cols", (json_int_t)t->cols,
	    "init", init_name[t->init], "init_limit", (double)t->init_limit, "seed", json_of_u64(t->seed));
}

static bool name_is_fine(const char *s)
{
	size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-");

	return n > 0 && n < TABLE_NAME && s[n] == 0;
}

enum err_code table_from_json(const json_t *j, struct table *out, struct err *e)
{
	struct err why = { 0 };
	const char *name = "", *init = "zeros";
	int64_t rows = 0, cols = 0;
	double limit = 0;

	*out = (struct table){ 0 };
	json_want_str(j, "table", "name", &name, &why);
	json_want_bool(j, "table", "sparse", &out->sparse, &why);
	json_want_bool(j, "table", "decay", &out->decay, &why);
	json_want_int(j, "table", "rows", 0, (int64_t)TABLE_ELEMENTS_MAX, &rows, &why);
	json_want_int(j, "table", "cols", 1, 1 << 20, &cols, &why);
	json_want_str(j, "table", "init", &init, &why);
	json_want_num(j, "table", "init_limit", &limit, &why);
	json_want_u64s(j, "table", "seed", &out->seed, &why);
	if (why.code)
		return err_set(e, why.code, "%s", why.msg);
	if (!name_is_fine(name))
		return err_set(e, ERR_CONFIG, "table.name: must be 1 to 63 letters, digits, \"_\", \".\" or \"-\"");
	if (out->sparse && cols > SPARSE_COLS_MAX)
		return err_set(e, ERR_CONFIG, "table \"%s\": a sparse row has at most %u values, got %lld", name,
		    SPARSE_COLS_MAX, (long long)cols);
	if (cols == 0 || (!out->sparse && rows == 0) || (uint64_t)rows > TABLE_ELEMENTS_MAX / (uint64_t)cols)
		return err_set(e, ERR_CONFIG, "table \"%s\": the shape %lld x %lld cannot be held", name,
		    (long long)rows, (long long)cols);
	for (size_t i = 0; i < sizeof init_name / sizeof *init_name; i++)
		if (strcmp(init, init_name[i]) == 0)
			out->init = (enum table_init)i;
	snprintf(out->name, sizeof out->name, "%s", name);
	out->rows = (uint64_t)rows;
	out->cols = (uint32_t)cols;
	out->init_limit = (float)limit;
	return ERR_OK;
}

json_t *layout_to_json(const struct layout *l)
{
	json_t *tables = json_array();

	for (size_t i = 0; i < l->ntables; i++) {
		const struct table *t = &l->table[i];
		json_t *j = table_to_json(t), *runs = json_array();

		for (size_t r = 0; r < t->nruns; r++) {
			json_t *chain = json_array();

			for (unsigned k = 0; k < t->run[r].nchain; k++)
				json_array_append_new(chain, json_integer(t->run[r].chain[k]));
			json_array_append_new(runs, json_pack("[I, I, o]", (json_int_t)t->run[r].first,
			    (json_int_t)t->run[r].count, chain));
		}
		json_object_set_new(j, "id", json_integer(t->id));
		json_object_set_new(j, "partitions", json_integer(t->nparts));
		json_object_set_new(j, "runs", runs);
		json_array_append_new(tables, j);
	}
	return json_pack("{s:I, s:I, s:o}", "epoch", (json_int_t)l->epoch, "generation",
	    (json_int_t)l->generation, "tables", tables);
}

static enum err_code runs_from_json(const json_t *runs, struct table *t, struct err *e)
{
	size_t i;
	const json_t *j;

	t->nruns = json_array_size(runs);
	t->run = mem_array(t->nruns + 1, sizeof *t->run);
	json_array_foreach(runs, i, j) {
		const json_t *chain = json_array_get(j, 2);
		struct run *r = &t->run[i];

		r->first = (uint32_t)json_integer_value(json_array_get(j, 0));
		r->count = (uint32_t)json_integer_value(json_array_get(j, 1));
		if (json_array_size(chain) < 1 || json_array_size(chain) > CHAIN_MAX ||
		    r->first >= t->nparts || r->count > t->nparts - r->first)
			return err_set(e, ERR_PROTO, "table \"%s\": bad run %zu in the layout", t->name, i);
		for (size_t k = 0; k < json_array_size(chain); k++)
			r->chain[r->nchain++] = (uint16_t)json_integer_value(json_array_get(chain, k));
	}
	return ERR_OK;
}

enum err_code layout_from_json(const json_t *j, struct layout *out, struct err *e)
{
	const json_t *tables = json_object_get(j, "tables"), *item;
	enum err_code rc = ERR_OK;
	size_t i;

	*out = (struct layout){ 0 };
	out->epoch = (uint32_t)json_int(j, "epoch", 0);
	out->generation = (uint32_t)json_int(j, "generation", 0);
	json_array_foreach(tables, i, item) {
		struct table shape, *t = NULL;

		rc = table_from_json(item, &shape, e);
		if (!rc)
			rc = layout_add(out, &shape, &t, e);
		if (!rc)
			rc = runs_from_json(json_object_get(item, "runs"), t, e);
		if (rc)
			break;
	}
	if (rc)
		layout_release(out);
	return rc;
}

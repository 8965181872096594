/* SPDX-License-Identifier: ISC */
#include "tool/neighbours.h"

#include <stdlib.h>
#include <string.h>

#include "conf/conf.h"
#include "core/json.h"
#include "core/mem.h"
#include "core/num.h"
#include "data/batch/data_pairs.h"
#include "data/data_kinds.h"
#include "tool/row_features.h"
#include "worker/data_facts.h"
#include "worker/job.h"

/* Ids in ascending order, each once, after ids_sort. */
struct ids {
	uint64_t *id;
	size_t n, room;
};

struct neighbours {
	struct param_source *source;
	const struct table *table;
	struct conf conf;
	const struct model_info *model; /* NULL: not known */
	struct dataset *data;           /* without examples; NULL: not known */
	const struct data_kinds *kinds; /* of the rows; NULL: all are of one */
	enum model_axis rows;           /* the meaning of the table's rows */
	size_t from, among;             /* kinds of the queries and of the rows that are found */
	bool weighs;                    /* the product has the weight of the row that is found */
	size_t skip, width; /* numbers of a row that are left out, and that are compared */
	struct nearest *index;
	struct ids others;             /* rows of other kinds than `among` */
	struct row_features *features; /* NULL: users and items have none */
	float *sum;                    /* a row with those of its features */
	struct ids excluded;
	struct data_pair *rated; /* ascending by user and item */
	size_t nrated;
};

static void ids_add(struct ids *s, uint64_t id)
{
	s->id = mem_grow(s->id, &s->room, s->n + 1, sizeof *s->id);
	s->id[s->n++] = id;
}

static int by_id(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static void ids_sort(struct ids *s)
{
	size_t n = 0;

	if (s->n)
		qsort(s->id, s->n, sizeof *s->id, by_id);
	for (size_t i = 0; i < s->n; i++)
		if (!n || s->id[n - 1] != s->id[i])
			s->id[n++] = s->id[i];
	s->n = n;
}

static bool ids_have(const struct ids *s, uint64_t id)
{
	return s->n && bsearch(&id, s->id, s->n, sizeof id, by_id);
}

/* ---- names ---- */

char *neighbours_name(const struct neighbours *x, uint64_t id)
{
	if (!x->data)
		return NULL;
	if (x->rows == MODEL_AXIS_FEATURES)
		return data_kinds_name(x->data, id);
	if (x->rows == MODEL_AXIS_CLASSES && id < x->data->classes)
		return mem_strdup(x->data->class_name[id]);
	return NULL;
}

json_t *neighbours_json(const struct neighbours *x, const struct nearest_hit *hit, size_t n)
{
	json_t *list = json_array();

	for (size_t i = 0; i < n; i++) {
		char *name = neighbours_name(x, hit[i].id);
		json_t *one = json_pack("{s:o, s:o}", "id", json_of_u64(hit[i].id), "score",
		    json_of_num(hit[i].score));

		if (name)
			json_object_set_new(one, "name", json_of_text(name));
		json_array_append_new(list, one);
		free(name);
	}
	return list;
}

static bool find_name(const struct neighbours *x, const char *name, uint64_t *id)
{
	if (!x->data)
		return false;
	if (x->rows == MODEL_AXIS_FEATURES)
		return data_kinds_feature(x->data, name, id);
	for (size_t i = 0; x->rows == MODEL_AXIS_CLASSES && i < x->data->classes; i++)
		if (strcmp(x->data->class_name[i], name) == 0) {
			*id = i;
			return true;
		}
	return false;
}

/* ---- queries ---- */

/* A query that has been read: a row, or a vector. */
struct asked {
	bool is_vector;
	uint64_t id;
	float *v; /* owned */
};

static size_t kind_of(const struct neighbours *x, uint64_t id)
{
	return x->kinds ? id % x->kinds->n : 0;
}

/* Reads numbers between commas or blanks, perhaps in brackets. False: the text is none. */
static bool parse_vector(const char *text, float **v, size_t *n)
{
	size_t room = 0;
	char *end;

	*v = NULL;
	*n = 0;
	text += strspn(text, " \t[");
	while (*text && *text != ']') {
		double d = num_strtod(text, &end);

		if (end == text)
			break;
		*v = mem_grow(*v, &room, *n + 1, sizeof **v);
		(*v)[(*n)++] = (float)d;
		text = end + strspn(end, " \t,");
	}
	text += strspn(text, " \t]");
	return *n > 0 && *text == '\0';
}

static enum err_code take_vector(const struct neighbours *x, const char *text, struct asked *out,
    struct err *e)
{
	size_t n, want = x->width - x->weighs;
	float *v;

	if (!parse_vector(text, &v, &n)) {
		free(v);
		return err_set(e, ERR_USAGE, "\"%.60s\": expected numbers between commas", text);
	}
	if (n != want) {
		free(v);
		return err_set(e, ERR_USAGE,
		    "\"%.60s\" has %zu number%s, but the vectors of table \"%s\" have %zu", text, n,
		    NUM_S(n), x->table->name, want);
	}
	out->is_vector = true;
	out->v = mem_array(x->width, sizeof *out->v);
	out->v[0] = 1;
	memcpy(out->v + x->weighs, v, want * sizeof *v);
	free(v);
	return ERR_OK;
}

/* The id of a row by its text. False: it is neither a name nor a number. */
static bool find_row(const struct neighbours *x, const char *text, uint64_t *id)
{
	return find_name(x, text, id) || num_uint(text + (*text == '#'), UINT64_MAX, id);
}

static enum err_code fail_unknown(const struct neighbours *x, const char *text, struct err *e)
{
	return err_set(e, ERR_NOTFOUND,
	    "\"%.60s\" is not a row of table \"%s\": name a row by its id (7, or #7)%s%s%s, or give a "
	    "vector as 0.5,-1,2",
	    text, x->table->name,
	    x->kinds && x->kinds->numbered                 ? ", as "
	        : x->rows != MODEL_AXIS_NOTHING && x->data ? " or its name"
	                                                   : "",
	    x->kinds && x->kinds->numbered ? x->kinds->name[0] : "",
	    x->kinds && x->kinds->numbered ? "=7" : "");
}

static enum err_code take_query(const struct neighbours *x, const char *text, struct asked *out,
    struct err *e)
{
	*out = (struct asked){ .is_vector = false };
	if (*text == '[')
		return take_vector(x, text, out, e);
	if (!find_row(x, text, &out->id))
		return strchr(text, ',') ? take_vector(x, text, out, e) : fail_unknown(x, text, e);
	if (x->weighs && kind_of(x, out->id) != x->from)
		return err_set(e, ERR_USAGE,
		    "\"%.60s\" is not of the kind \"%s\" as the first query: ask for the two kinds in "
		    "two calls",
		    text, x->kinds->name[x->from]);
	if (kind_of(x, out->id) == x->among ? !nearest_row(x->index, out->id)
	                                    : !ids_have(&x->others, out->id))
		return err_set(e, ERR_NOTFOUND,
		    "table \"%s\" has no row \"%.60s\": no example has trained it", x->table->name,
		    text);
	return ERR_OK;
}

/* ---- the table ---- */

/* The sum of a row and of those of its features; valid until the next call. */
static const float *with_features(struct neighbours *x, uint64_t id, const float *row)
{
	if (!x->features)
		return row;
	memcpy(x->sum, row, x->table->cols * sizeof *row);
	row_features_add(x->features, id, x->sum);
	return x->sum;
}

/* Does the model rank items, so that users have no weights? */
static bool ranks_items(const struct neighbours *x)
{
	return x->model && x->model->task == MODEL_PAIRS;
}

/* Reads the features of users and items. */
static enum err_code read_features(struct neighbours *x, struct err *e)
{
	enum err_code rc;

	if (!x->kinds || !x->kinds->numbered)
		return ERR_OK;
	rc = row_features_read(x->data, x->source, x->table, &x->features, e);
	if (rc || !x->features)
		return rc;
	x->sum = mem_array(x->table->cols, sizeof *x->sum);
	if (ranks_items(x))
		return ERR_OK;
	return err_set(e, ERR_UNSUPPORTED,
	    "in model %s with features of users or items, products of features count, too, so that "
	    "vectors do not tell which items are near; use bpr or warp",
	    x->conf.job.model);
}

static enum err_code take_rows(void *ctx, const uint64_t *ids, const float *rows, size_t n,
    struct err *e)
{
	struct neighbours *x = ctx;
	enum err_code rc = ERR_OK;

	for (size_t i = 0; !rc && i < n; i++) {
		const float *row = rows + i * x->table->cols;

		if (row_features_have(x->features, ids[i]))
			continue;
		if (kind_of(x, ids[i]) != x->among)
			ids_add(&x->others, ids[i]);
		else
			rc = nearest_put(x->index, ids[i], with_features(x, ids[i], row) + x->skip,
			    e);
	}
	return rc ? err_prefix(e, "table \"%s\"", x->table->name) : ERR_OK;
}

static enum err_code read_dense(struct neighbours *x, struct err *e)
{
	struct param_source *s = x->source;
	size_t n = (size_t)x->table->rows, cols = x->table->cols;
	const float *w = NULL;
	float *own = NULL;
	enum err_code rc;

	if (s->ops->lend_dense) {
		rc = s->ops->lend_dense(s, x->table, &w, e);
	} else {
		w = own = mem_try_array(n * cols, sizeof *own);
		rc = own ? s->ops->want_dense(s, x->table, NULL, own, e)
		         : err_set(e, ERR_NOMEM, "no memory for table \"%s\"", x->table->name);
		if (!rc)
			rc = s->ops->wait(s, e);
	}
	if (!rc)
		rc = nearest_reserve(x->index, n, e);
	for (uint64_t r = 0; !rc && r < n; r++)
		rc = take_rows(x, &r, w + r * cols, 1, e);
	free(own);
	return rc;
}

static enum err_code read_table(struct neighbours *x, struct err *e)
{
	enum err_code rc = x->table->sparse
	    ? x->source->ops->each_row(x->source, x->table, take_rows, x, e)
	    : read_dense(x, e);

	ids_sort(&x->others);
	if (!rc && !nearest_count(x->index))
		rc = err_set(e, ERR_NOTFOUND, "table \"%s\" has no rows%s%s", x->table->name,
		    x->kinds ? " of the kind " : "", x->kinds ? x->kinds->name[x->among] : "");
	return rc ? rc : param_source_finish(x->source, e);
}

/* The kind of the row that a query names; the first kind for a vector. */
static size_t kind_of_query(const struct neighbours *x, const char *query)
{
	uint64_t id;

	return query && *query != '[' && find_row(x, query, &id) ? kind_of(x, id) : 0;
}

bool neighbours_suit(const struct neighbours *x, const char *first)
{
	return kind_of_query(x, first) == x->from;
}

/* Finds the kinds of the queries and of the rows that are found. */
static enum err_code choose_kinds(struct neighbours *x, const struct neighbours_spec *spec,
    struct err *e)
{
	if (!x->kinds)
		return spec->among
		    ? err_set(e, ERR_USAGE, "among: the rows of table \"%s\" are all of one kind",
		          x->table->name)
		    : ERR_OK;
	x->from = kind_of_query(x, spec->first);
	x->among = spec->among ? data_kinds_find(x->kinds, spec->among) : x->kinds->beside[x->from];
	if (x->among == SIZE_MAX)
		return err_set(e, ERR_USAGE,
		    "among: there is no kind \"%.60s\" of rows of table \"%s\"; there are %s and %s",
		    spec->among, x->table->name, x->kinds->name[0], x->kinds->name[1]);
	return ERR_OK;
}

static enum err_code describe_table(struct neighbours *x, const struct neighbours_spec *spec,
    enum nearest_metric *metric, struct err *e)
{
	struct model_axes axes = { .table = NULL };
	bool cosine = spec->metric && strcmp(spec->metric, "cosine") == 0;
	enum err_code rc;

	if (x->model)
		axes = model_info_axes(x->model, x->table->name);
	x->rows = axes.rows;
	if (x->table->sparse && axes.rows == MODEL_AXIS_FEATURES && x->data)
		x->kinds = data_kinds_of(x->data);
	rc = choose_kinds(x, spec, e);
	if (rc)
		return rc;
	x->weighs = !cosine && axes.columns == MODEL_AXIS_WEIGHT_VECTOR && x->kinds &&
	    x->from != x->among && !(ranks_items(x) && x->among == DATA_KIND_USER);
	x->skip = axes.columns == MODEL_AXIS_WEIGHT_VECTOR && !x->weighs;
	x->width = x->table->cols - x->skip;
	*metric = spec->metric ? (cosine ? NEAREST_COSINE : NEAREST_DOT)
	    : x->weighs        ? NEAREST_DOT
	                       : NEAREST_COSINE;
	if (x->width <= x->weighs)
		return err_set(e, ERR_UNSUPPORTED, "the rows of table \"%s\" have no vectors",
		    x->table->name);
	if (x->width > NEAREST_WIDTH_MAX)
		return err_set(e, ERR_LIMIT,
		    "the rows of table \"%s\" have %zu values; at most %zu can be compared",
		    x->table->name, x->width, NEAREST_WIDTH_MAX);
	return ERR_OK;
}

enum err_code neighbours_open(const struct tool_model *m, const struct neighbours_spec *spec,
    struct neighbours **out, struct err *e)
{
	struct neighbours *x = mem_alloc(sizeof *x);
	enum nearest_metric metric = NEAREST_DOT;
	enum err_code rc = conf_from_json(m->source->config, &x->conf, e);

	*out = NULL;
	x->source = m->source;
	if (!rc && x->conf.job.model)
		x->model = model_info_find(x->conf.job.model);
	if (!rc && m->source->facts)
		rc = data_of_facts(m->source->facts, &x->data, e);
	if (!rc)
		rc = layout_find_or_fail(m->source->ops->layout(m->source), spec->table, &x->table,
		    e);
	if (!rc)
		rc = describe_table(x, spec, &metric, e);
	if (!rc) {
		x->index = nearest_new(x->width, metric);
		rc = read_features(x, e);
	}
	if (!rc)
		rc = read_table(x, e);
	if (rc) {
		neighbours_close(x);
		return rc;
	}
	*out = x;
	return ERR_OK;
}

bool neighbours_have_changed(const struct neighbours *x)
{
	return row_features_have_changed(x->features);
}

void neighbours_close(struct neighbours *x)
{
	if (!x)
		return;
	nearest_free(x->index);
	dataset_free(x->data);
	conf_release(&x->conf);
	row_features_free(x->features);
	free(x->sum);
	free(x->others.id);
	free(x->excluded.id);
	free(x->rated);
	free(x);
}

/* ---- what is not found ---- */

static int by_pair(const void *a, const void *b)
{
	const struct data_pair *x = a, *y = b;

	if (x->user != y->user)
		return (x->user > y->user) - (x->user < y->user);
	return (x->item > y->item) - (x->item < y->item);
}

bool neighbours_of_users(const struct neighbours *x)
{
	return x->kinds && x->kinds->numbered && x->from == DATA_KIND_USER &&
	    x->among == DATA_KIND_ITEM;
}

enum err_code neighbours_rated(struct neighbours *x, const char *const *data, size_t ndata,
    struct err *e)
{
	struct data_want want = { .any = true };
	struct dataset *d = NULL;
	enum err_code rc;

	if (!neighbours_of_users(x))
		return err_set(e, ERR_USAGE,
		    "--rated needs users as queries, of a model of ratings (mf, bpr, warp)");
	want.tables = job_want(&x->conf.job).tables;
	rc = data_load(data, ndata, NULL, &want, x->data, &d, e);
	if (!rc)
		rc = data_pairs_check(d, e);
	if (!rc) {
		x->rated = mem_regrow(x->rated, x->nrated + d->rows + 1, sizeof *x->rated);
		for (size_t r = 0; r < d->rows; r++)
			x->rated[x->nrated++] = data_pairs_of(d, r);
		qsort(x->rated, x->nrated, sizeof *x->rated, by_pair);
	}
	dataset_free(d);
	return rc;
}

enum err_code neighbours_exclude(struct neighbours *x, const char *row, struct err *e)
{
	uint64_t id;

	if (!find_row(x, row, &id))
		return fail_unknown(x, row, e);
	ids_add(&x->excluded, id);
	return ERR_OK;
}

void neighbours_exclude_none(struct neighbours *x)
{
	x->excluded.n = 0;
}

/* Lists what is not to be found for a query, ascending. */
static void list_unwanted(const struct neighbours *x, const struct asked *q, struct ids *out)
{
	size_t low = 0, high = x->nrated;

	for (size_t i = 0; i < x->excluded.n; i++)
		ids_add(out, x->excluded.id[i]);
	if (!q->is_vector)
		ids_add(out, q->id);
	while (!q->is_vector && low < high) {
		size_t mid = low + (high - low) / 2;

		if (x->rated[mid].user < q->id)
			low = mid + 1;
		else
			high = mid;
	}
	for (; !q->is_vector && low < x->nrated && x->rated[low].user == q->id; low++)
		ids_add(out, x->rated[low].item);
	ids_sort(out);
}

/* ---- answers ---- */

/* Gets the vectors of rows of other kinds than those that are found, all in one request. */
static enum err_code fetch_others(struct neighbours *x, struct asked *q, size_t n, struct err *e)
{
	struct param_source *s = x->source;
	size_t cols = x->table->cols, m = 0;
	uint64_t *id = mem_array(n + 1, sizeof *id);
	float *w = mem_try_array(n * cols + 1, sizeof *w);
	enum err_code rc = ERR_OK;

	for (size_t i = 0; i < n; i++)
		if (!q[i].is_vector && kind_of(x, q[i].id) != x->among)
			id[m++] = q[i].id;
	if (!w)
		rc = err_set(e, ERR_NOMEM, "no memory for %zu rows of table \"%s\"", n,
		    x->table->name);
	if (!rc && m)
		rc = s->ops->want_rows(s, x->table, id, m, false, w, e);
	if (!rc && m)
		rc = s->ops->wait(s, e);
	m = 0;
	for (size_t i = 0; !rc && i < n; i++) {
		if (q[i].is_vector || kind_of(x, q[i].id) == x->among)
			continue;
		q[i].v = mem_array(x->width, sizeof *q[i].v);
		memcpy(q[i].v, with_features(x, q[i].id, w + m++ * cols) + x->skip,
		    x->width * sizeof *w);
		if (x->weighs)
			q[i].v[0] = 1;
	}
	free(id);
	free(w);
	return rc;
}

static enum err_code answer_queries(struct neighbours *x, const char *const *text, struct asked *q,
    size_t n, size_t k, neighbours_fn fn, void *ctx, struct err *e)
{
	struct nearest_query *search = mem_array(n, sizeof *search);
	struct ids *unwanted = mem_array(n, sizeof *unwanted);
	struct nearest_hit *hit;
	enum err_code rc;

	if (k > nearest_count(x->index))
		k = nearest_count(x->index);
	hit = mem_try_array(n * k, sizeof *hit);
	rc = hit ? ERR_OK : err_set(e, ERR_NOMEM, "no memory for %zu answers of %zu rows", n, k);
	for (size_t i = 0; !rc && i < n; i++) {
		list_unwanted(x, &q[i], &unwanted[i]);
		search[i] = (struct nearest_query){
			.v = q[i].v ? q[i].v : nearest_row(x->index, q[i].id),
			.k = k,
			.without = unwanted[i].id,
			.nwithout = unwanted[i].n,
			.hit = hit + i * k,
		};
	}
	if (!rc)
		rc = nearest_search(x->index, search, n, e);
	for (size_t i = 0; !rc && i < n; i++)
		rc = fn(ctx, text[i], search[i].hit, search[i].nhits, e);
	for (size_t i = 0; i < n; i++)
		free(unwanted[i].id);
	free(unwanted);
	free(search);
	free(hit);
	return rc;
}

enum err_code neighbours_ask(struct neighbours *x, const char *const *query, size_t n, size_t k,
    neighbours_fn fn, void *ctx, struct err *e)
{
	struct asked *q = mem_array(n + 1, sizeof *q);
	enum err_code rc = ERR_OK;

	for (size_t i = 0; !rc && i < n; i++)
		rc = take_query(x, query[i], &q[i], e);
	if (!rc)
		rc = fetch_others(x, q, n, e);
	if (!rc && n)
		rc = answer_queries(x, query, q, n, k, fn, ctx, e);
	for (size_t i = 0; i < n; i++)
		free(q[i].v);
	free(q);
	return rc;
}

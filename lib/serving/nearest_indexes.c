/* SPDX-License-Identifier: ISC */
#include "serving/nearest_indexes.h"

#include <stdlib.h>
#include <string.h>

#include "core/buf.h"
#include "core/clock.h"
#include "core/mem.h"
#include "tool/neighbours.h"

/* An index of changing values is made again when it is older than FRESH, and than this many times what
 * it took to make it. */
#define FRESH     NSEC_PER_SEC
#define EFFORT_IN 10

struct index {
	struct neighbours *rows; /* NULL: the place is free */
	char *key;               /* table, metric and kind, as index_key writes them */
	int64_t made, took;      /* clock_now; ns */
	int64_t age;             /* of the values when it was made; -1: not known */
	int64_t used;            /* clock_now of the last request */
};

struct nearest_indexes {
	uint64_t model; /* its number */
	char **rated;
	size_t nrated;
	struct index index[NEAREST_INDEXES];
};

struct nearest_indexes *nearest_indexes_new(const struct conf_strs *rated)
{
	struct nearest_indexes *x = mem_alloc(sizeof *x);

	x->rated = mem_array(rated->n + 1, sizeof *x->rated);
	for (; x->nrated < rated->n; x->nrated++)
		x->rated[x->nrated] = mem_strdup(rated->item[x->nrated]);
	return x;
}

static void drop_index(struct index *i)
{
	neighbours_close(i->rows);
	free(i->key);
	*i = (struct index){ 0 };
}

void nearest_indexes_free(struct nearest_indexes *x)
{
	if (!x)
		return;
	for (size_t i = 0; i < NEAREST_INDEXES; i++)
		drop_index(&x->index[i]);
	for (size_t i = 0; i < x->nrated; i++)
		free(x->rated[i]);
	free(x->rated);
	free(x);
}

void nearest_indexes_follow(struct nearest_indexes *x, const struct served_model *m)
{
	for (size_t i = 0; x->model != m->number && i < NEAREST_INDEXES; i++)
		drop_index(&x->index[i]);
	x->model = m->number;
}

static char *index_key(const struct nearest_request *r)
{
	struct buf key = BUF_INIT;

	buf_printf(&key, "%s\n%s\n%s", r->table, r->metric ? r->metric : "",
	    r->among ? r->among : "");
	buf_append(&key, "", 1);
	return (char *)key.data;
}

static bool is_old(const struct index *i, const struct served_model *m, int64_t now)
{
	return !param_source_is_constant(m->source) && now - i->made > FRESH &&
	    now - i->made > m->fresh && now - i->made > EFFORT_IN * i->took;
}

/* The index for the request, made if it is not there. *out stays in its place until the next call. */
static enum err_code find_index(struct nearest_indexes *x, struct served_model *m,
    const struct nearest_request *r, struct index **out, struct err *e)
{
	const struct neighbours_spec spec = { .table = r->table,
		.metric = r->metric,
		.among = r->among,
		.first = r->query[0] };
	const struct tool_model tool = { .source = m->source };
	struct index *place = &x->index[0];
	int64_t now = clock_now();
	char *key = index_key(r);
	enum err_code rc;

	for (size_t i = 0; i < NEAREST_INDEXES; i++) {
		struct index *at = &x->index[i];

		if (at->rows && (is_old(at, m, now) || neighbours_have_changed(at->rows)))
			drop_index(at);
		if (at->rows && strcmp(at->key, key) == 0 &&
		    neighbours_suit(at->rows, spec.first)) {
			at->used = now;
			*out = at;
			free(key);
			return ERR_OK;
		}
		if (at->used < place->used)
			place = at;
	}
	drop_index(place);
	rc = neighbours_open(&tool, &spec, &place->rows, e);
	if (!rc && x->nrated && neighbours_of_users(place->rows)) {
		rc = neighbours_rated(place->rows, (const char *const *)x->rated, x->nrated, e);
		/* A file of this server that is missing is no fault of the request. */
		if (rc == ERR_NOTFOUND)
			rc = e->code = ERR_IO;
		if (rc)
			err_prefix(e, "serve_rated");
	}
	if (rc) {
		drop_index(place);
		free(key);
		return rc;
	}
	place->key = key;
	place->made = place->used = clock_now();
	place->took = place->made - now;
	place->age = served_age(m);
	*out = place;
	return ERR_OK;
}

/* ---- answers ---- */

struct answer {
	const struct neighbours *rows;
	json_t *lists;
};

/* A neighbours_fn. */
static enum err_code add_list(void *ctx, const char *query, const struct nearest_hit *hit, size_t n,
    struct err *e)
{
	struct answer *a = ctx;

	(void)query;
	(void)e;
	json_array_append_new(a->lists, neighbours_json(a->rows, hit, n));
	return ERR_OK;
}

/* Queries that share a pass over the table. */
#define BATCH 64u

static enum err_code ask_all(struct neighbours *rows, const struct nearest_request *r,
    struct answer *a, struct err *e)
{
	enum err_code rc = ERR_OK;

	for (size_t i = 0; !rc && i < r->nexclude; i++) {
		rc = neighbours_exclude(rows, r->exclude[i], e);
		if (rc)
			err_prefix(e, "exclude");
	}
	for (size_t i = 0; !rc && i < r->n; i += BATCH)
		rc = neighbours_ask(rows, r->query + i, r->n - i < BATCH ? r->n - i : BATCH, r->k,
		    add_list, a, e);
	neighbours_exclude_none(rows);
	return rc;
}

enum err_code nearest_indexes_answer(struct nearest_indexes *x, struct served_model *m,
    const struct nearest_request *r, struct buf *out, int64_t *age, struct err *e)
{
	struct answer a = { .lists = json_array() };
	struct index *i = NULL;
	enum err_code rc;

	nearest_indexes_follow(x, m);
	rc = find_index(x, m, r, &i, e);
	if (!rc) {
		a.rows = i->rows;
		rc = ask_all(i->rows, r, &a, e);
	}
	if (!rc) {
		json_t *o = json_pack("{s:O}", "nearest", a.lists);
		char *text = json_text(o);

		buf_printf(out, "%s\n", text);
		free(text);
		json_decref(o);
		*age = i->age < 0 ? -1 : i->age + clock_now() - i->made;
	}
	json_decref(a.lists);
	return rc;
}

/* SPDX-License-Identifier: ISC */
#include "serving/nearest_request.h"

#include <stdlib.h>
#include <string.h>

#include "core/buf.h"
#include "core/mem.h"
#include "nearest/nearest.h"

#define K_DEFAULT 10
#define K_MAX     1000000

/* Keeps a text that was made, until the request is released. */
static const char *keep_text(struct nearest_request *r, struct buf *text)
{
	buf_append(text, "", 1);
	return r->own[r->nown++] = (char *)text->data;
}

/* The text of an id: "7" could also be a name. NULL: it is negative. */
static const char *text_of_id(struct nearest_request *r, const json_t *v)
{
	struct buf text = BUF_INIT;

	if (json_integer_value(v) < 0)
		return NULL;
	buf_printf(&text, "#%lld", (long long)json_integer_value(v));
	return keep_text(r, &text);
}

/* The text of a vector. NULL: not all of it are numbers. */
static const char *text_of_vector(struct nearest_request *r, const json_t *v)
{
	struct buf text = BUF_INIT;
	size_t n = json_array_size(v);
	bool numbers = n <= NEAREST_WIDTH_MAX;

	for (size_t i = 0; numbers && i < n; i++) {
		const json_t *x = json_array_get(v, i);

		numbers = json_is_number(x);
		buf_printf(&text, "%c%.9g", i ? ',' : '[', json_number_value(x));
	}
	if (!numbers || !n) {
		buf_release(&text);
		return NULL;
	}
	buf_puts(&text, "]");
	return keep_text(r, &text);
}

/* Reads a list of rows; `vectors`: or of vectors. */
static enum err_code read_rows(struct nearest_request *r, const char *key, bool vectors,
    size_t most, const char ***out, size_t *n, struct err *e)
{
	const json_t *list = json_object_get(r->json, key), *v;
	size_t i;

	if (list && !json_is_array(list))
		return err_set(e, ERR_USAGE, "%s: must be a list of rows, as [\"king\", 7]", key);
	*n = json_array_size(list);
	if (*n > most)
		return err_set(e, ERR_LIMIT, "%s has %zu rows, and %zu are allowed (serve_rows)",
		    key, *n, most);
	*out = mem_array(*n + 1, sizeof **out);
	r->own = mem_regrow(r->own, r->nown + *n + 1, sizeof *r->own);
	json_array_foreach(list, i, v) {
		(*out)[i] = json_is_string(v)     ? json_string_value(v)
		    : json_is_integer(v)          ? text_of_id(r, v)
		    : vectors && json_is_array(v) ? text_of_vector(r, v)
		                                  : NULL;
		if (!(*out)[i] || !*(*out)[i])
			return err_set(e, ERR_USAGE, "%s[%zu]: must be the name of a row, its id%s",
			    key, i, vectors ? ", or a list of numbers" : "");
	}
	return ERR_OK;
}

static enum err_code read_choices(struct nearest_request *r, struct err *e)
{
	static const char *const keys[] = { "table", "queries", "k", "metric", "among", "exclude",
		NULL };
	int64_t k = K_DEFAULT;

	*e = (struct err){ 0 };
	if (!json_only(r->json, "", keys, e))
		return e->code = ERR_USAGE;
	json_want_str(r->json, "", "table", &r->table, e);
	json_want_str(r->json, "", "metric", &r->metric, e);
	json_want_str(r->json, "", "among", &r->among, e);
	json_want_int(r->json, "", "k", 1, K_MAX, &k, e);
	r->k = (size_t)k;
	if (e->code)
		return e->code = ERR_USAGE;
	if (!r->table)
		return err_set(e, ERR_USAGE, "table: name the table whose rows are found");
	if (r->metric && strcmp(r->metric, "dot") != 0 && strcmp(r->metric, "cosine") != 0)
		return err_set(e, ERR_USAGE, "metric: must be dot or cosine, got \"%.40s\"",
		    r->metric);
	return ERR_OK;
}

enum err_code nearest_request_parse(const char *text, size_t n, size_t most,
    struct nearest_request *out, struct err *e)
{
	enum err_code rc;

	*out = (struct nearest_request){ .json = json_parse(text, n, n, e) };
	if (!out->json)
		return ERR_FORMAT;
	if (!json_is_object(out->json))
		return err_set(e, ERR_USAGE,
		    "the body must be an object, as {\"table\": \"v\", \"queries\": [\"king\"]}");
	rc = read_choices(out, e);
	if (!rc)
		rc = read_rows(out, "queries", true, most, &out->query, &out->n, e);
	if (!rc && !out->n)
		rc = err_set(e, ERR_USAGE,
		    "queries: give rows or vectors, as [\"king\", 7, [0.5, -1]]");
	if (!rc && out->n > most / out->k)
		rc = err_set(e, ERR_LIMIT,
		    "%zu queries with k %zu may find more than %zu rows (serve_rows)", out->n,
		    out->k, most);
	if (!rc)
		rc = read_rows(out, "exclude", false, most, &out->exclude, &out->nexclude, e);
	return rc;
}

void nearest_request_release(struct nearest_request *r)
{
	for (size_t i = 0; i < r->nown; i++)
		free(r->own[i]);
	free(r->own);
	free(r->query);
	free(r->exclude);
	json_decref(r->json);
	*r = (struct nearest_request){ 0 };
}

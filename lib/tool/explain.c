/* SPDX-License-Identifier: ISC */
#include "tool/explain.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "conf/conf.h"
#include "core/buf.h"
#include "core/file.h"
#include "core/mem.h"
#include "core/num.h"
#include "core/plain.h"
#include "core/utf8.h"
#include "data/data_kinds.h"
#include "data/table/data_schema.h"
#include "model/entries.h"
#include "tool/score.h"
#include "worker/data_facts.h"

/* The name of a feature, or its number. */
static json_t *name_feature(const struct dataset *d, uint64_t feature)
{
	char *name = d ? data_kinds_name(d, feature) : NULL;
	json_t *v = name ? json_of_text(name) : json_of_format("%llu", (unsigned long long)feature);

	free(name);
	return v;
}

/* The name of an output: of a class, or of one of several targets; NULL: it needs none. */
static json_t *name_output(const struct dataset *d, bool classes, size_t outputs, size_t k)
{
	const struct data_column *label = d && d->schema ? data_schema_label(d->schema, k) : NULL;

	if (classes && d && k < d->classes)
		return json_of_text(d->class_name[k]);
	if (outputs < 2)
		return NULL;
	return label ? json_of_text(label->name) : json_of_format("%zu", k);
}

static void set_if(json_t *o, const char *key, json_t *v)
{
	if (v)
		json_object_set_new(o, key, v);
}

/* ---- weights ---- */

struct weight {
	float w;
	uint64_t id;
	size_t output;
};

/* The weights of a table: the largest ones of those that have been seen are the first `top` after
 * keep_largest. */
struct weights {
	const struct table *table;
	size_t outputs; /* weights of a row, which are its first values */
	bool items;     /* of a model that ranks items: users have none */
	size_t top, n;
	struct weight *w; /* room for 2 * top */
	uint64_t seen;    /* weights that are not 0 */
};

static int by_magnitude(const void *a, const void *b)
{
	const struct weight *x = a, *y = b;
	float p = fabsf(x->w), q = fabsf(y->w);

	if (p != q)
		return p < q ? 1 : -1;
	return x->id != y->id ? (x->id > y->id) - (x->id < y->id)
	                      : (x->output > y->output) - (x->output < y->output);
}

static void keep_largest(struct weights *x)
{
	if (x->n)
		qsort(x->w, x->n, sizeof *x->w, by_magnitude);
	x->n = x->n < x->top ? x->n : x->top;
}

static enum err_code take_weights(void *ctx, const uint64_t *ids, const float *rows, size_t n,
    struct err *e)
{
	struct weights *x = ctx;

	for (size_t i = 0; i < n; i++) {
		if (x->items && ids[i] % DATA_KINDS == DATA_KIND_USER)
			continue;
		for (size_t k = 0; k < x->outputs; k++) {
			float w = rows[i * x->table->cols + k];

			if (!isfinite(w))
				return err_set(e, ERR_NONFINITE,
				    "table \"%s\": row %llu has a value that is not a finite number",
				    x->table->name, (unsigned long long)ids[i]);
			if (w == 0)
				continue;
			x->seen++;
			x->w[x->n++] = (struct weight){ w, ids[i], k };
			if (x->n == 2 * x->top)
				keep_largest(x);
		}
	}
	return ERR_OK;
}

/* Calls fn with all rows of a table. */
static enum err_code read_rows(struct param_source *s, const struct table *t, param_rows_fn *fn,
    void *ctx, struct err *e)
{
	const float *w = NULL;
	float *own = NULL;
	enum err_code rc;

	if (t->sparse)
		return s->ops->each_row(s, t, fn, ctx, e);
	if (s->ops->lend_dense) {
		rc = s->ops->lend_dense(s, t, &w, e);
	} else {
		w = own = mem_try_array((size_t)t->rows * t->cols, sizeof *own);
		rc = own ? s->ops->want_dense(s, t, NULL, own, e)
		         : err_set(e, ERR_NOMEM, "no memory for table \"%s\"", t->name);
		if (!rc)
			rc = s->ops->wait(s, e);
	}
	for (uint64_t r = 0; !rc && r < t->rows; r++)
		rc = fn(ctx, &r, w + r * t->cols, 1, e);
	free(own);
	return rc;
}

static void add_weights(struct weights *x, const struct dataset *d, const struct model_axes *axes,
    json_t *rows)
{
	bool classes = axes->columns == MODEL_AXIS_CLASSES;

	keep_largest(x);
	for (size_t i = 0; i < x->n; i++) {
		json_t *row = json_object();

		json_object_set_new(row, "feature",
		    axes->rows == MODEL_AXIS_INTERCEPT ? json_of_text("intercept")
		                                       : name_feature(d, x->w[i].id));
		set_if(row, "output", name_output(d, classes, x->outputs, x->w[i].output));
		json_object_set_new(row, "weight", json_of_num((double)x->w[i].w));
		json_array_append_new(rows, row);
	}
}

/* Are the first values of the rows of such a table weights? *outputs: how many. */
static bool has_weights(const struct model_axes *axes, const struct table *t, size_t *outputs)
{
	*outputs = axes->columns == MODEL_AXIS_WEIGHT_VECTOR ? 1 : t->cols;
	return axes->columns == MODEL_AXIS_OUTPUTS || axes->columns == MODEL_AXIS_CLASSES ||
	    axes->columns == MODEL_AXIS_WEIGHT_VECTOR;
}

/* Adds the weights of the model's tables whose rows are of this axis. *seen: nonzero weights. */
static enum err_code add_axis(const struct tool_model *m, const struct model_info *info,
    const struct dataset *d, enum model_axis rows, size_t top, json_t *list, uint64_t *seen,
    bool *found, struct err *e)
{
	enum err_code rc = ERR_OK;

	for (size_t i = 0; !rc && i < MODEL_AXES && info->axes[i].table; i++) {
		const struct model_axes *axes = &info->axes[i];
		struct weights x = { .top = top, .items = info->task == MODEL_PAIRS };

		if (axes->rows != rows ||
		    layout_find_or_fail(m->source->ops->layout(m->source), axes->table, &x.table,
		        NULL) ||
		    !has_weights(axes, x.table, &x.outputs))
			continue;
		*found = true;
		x.w = mem_try_array(2 * top, sizeof *x.w);
		rc = x.w ? read_rows(m->source, x.table, take_weights, &x, e)
		         : err_set(e, ERR_NOMEM, "no memory for %zu weights", 2 * top);
		if (!rc)
			add_weights(&x, d, axes, list);
		*seen += x.seen;
		free(x.w);
	}
	return rc;
}

static json_t *begin_document(const char *kind, const char *model, json_t *columns)
{
	return json_pack("{s:s, s:s, s:o, s:[]}", "kind", kind, "model", model, "columns", columns,
	    "rows");
}

/* Names the columns: "output" only if some row has it. */
static void set_columns(json_t *doc, const char *const *column, size_t n)
{
	json_t *names = json_array(), *row;
	size_t i;

	for (size_t k = 0; k < n; k++) {
		bool some = strcmp(column[k], "output") != 0;

		json_array_foreach(json_object_get(doc, "rows"), i, row)
			some = some || json_object_get(row, column[k]);
		if (some)
			json_array_append_new(names, json_of_text(column[k]));
	}
	json_object_set_new(doc, "columns", names);
}

enum err_code explain_weights(const struct tool_model *m, const struct explain_options *o,
    json_t **out, struct err *e)
{
	static const char *const columns[] = { "feature", "output", "weight" };
	const struct model_info *info = NULL;
	struct dataset *d = NULL;
	struct conf conf = { 0 };
	json_t *doc = NULL;
	uint64_t seen = 0, intercepts = 0;
	bool found = false, ignored = false;
	enum err_code rc = conf_from_json(m->source->config, &conf, e);

	if (!rc && !(conf.job.model && (info = model_info_find(conf.job.model))))
		rc = err_set(e, ERR_UNSUPPORTED, "the cluster has no job, and so no model");
	if (!rc && m->source->facts)
		rc = data_of_facts(m->source->facts, &d, e);
	if (!rc) {
		doc = begin_document("weights", info->name, json_array());
		rc = add_axis(m, info, d, MODEL_AXIS_INTERCEPT, o->top,
		    json_object_get(doc, "rows"), &intercepts, &ignored, e);
	}
	if (!rc)
		rc = add_axis(m, info, d, MODEL_AXIS_FEATURES, o->top, json_object_get(doc, "rows"),
		    &seen, &found, e);
	if (!rc && !found)
		rc = err_set(e, ERR_UNSUPPORTED,
		    "model %s has no weight for each feature: name data to measure how important the "
		    "features are for its predictions",
		    info->name);
	if (!rc)
		rc = param_source_finish(m->source, e);
	if (!rc) {
		json_object_set_new(doc, "nonzero", json_integer((json_int_t)seen));
		set_columns(doc, columns, sizeof columns / sizeof *columns);
		*out = json_incref(doc);
	}
	json_decref(doc);
	dataset_free(d);
	conf_release(&conf);
	return rc;
}

/* ---- one prediction ---- */

struct seeking {
	struct scoring s;
	const struct explain_options *o;
	uint64_t row, before; /* of the example, from 0; examples of the batches before */
	json_t *doc;          /* NULL: not found yet */
};

struct part {
	double part;
	size_t entry;
};

static int by_part(const void *a, const void *b)
{
	const struct part *x = a, *y = b;
	double p = fabs(x->part), q = fabs(y->part);

	return p != q ? (p < q ? 1 : -1) : (x->entry > y->entry) - (x->entry < y->entry);
}

/* The outputs first .. end-1 are explained. */
static enum err_code choose_outputs(const struct seeking *k, const float *scores, size_t outputs,
    size_t *first, size_t *end, struct err *e)
{
	const struct dataset *d = k->s.job.train;
	size_t at = 0;

	*first = 0;
	*end = outputs;
	if (model_task(k->s.job.model) != MODEL_CLASSES)
		return k->o->class
		    ? err_set(e, ERR_USAGE,
		          "--class: only models of more than two classes have a score "
		          "for each class")
		    : ERR_OK;
	for (size_t i = 1; i < outputs; i++)
		if (scores[i] > scores[at])
			at = i;
	if (k->o->class)
		for (at = 0; at < d->classes && strcmp(d->class_name[at], k->o->class) != 0;)
			at++;
	if (at >= outputs)
		return err_set(e, ERR_NOTFOUND, "--class: there is no class \"%.60s\"",
		    k->o->class);
	*first = at;
	*end = at + 1;
	return ERR_OK;
}

static void add_part(struct seeking *k, json_t *feature, json_t *value, json_t *output, double part)
{
	json_t *row = json_object();

	json_object_set_new(row, "feature", feature);
	set_if(row, "output", output ? json_incref(output) : NULL);
	set_if(row, "value", value);
	json_object_set_new(row, "part", json_of_num(part));
	json_array_append_new(json_object_get(k->doc, "rows"), row);
}

/* Adds the parts of output o of example r. part (n, outputs), base (outputs): of model_parts. */
static void add_output(struct seeking *k, const struct batch *b, size_t r, size_t outputs, size_t o,
    const double *part, const double *base)
{
	const struct dataset *d = k->s.job.train;
	struct entries x = entries_of(b, r);
	struct part *sorted = mem_array(x.n + 1, sizeof *sorted);
	json_t *name = name_output(d, model_task(k->s.job.model) == MODEL_CLASSES, outputs, o);
	double rest = 0, sum = base[o];
	size_t n = 0;

	for (size_t i = 0; i < x.n; i++) {
		sum += part[i * outputs + o];
		if (x.val[i] != 0 || part[i * outputs + o] != 0)
			sorted[n++] = (struct part){ part[i * outputs + o], i };
	}
	if (n)
		qsort(sorted, n, sizeof *sorted, by_part);
	add_part(k, json_of_text("intercept"), NULL, name, base[o]);
	for (size_t i = 0; i < n; i++) {
		size_t at = sorted[i].entry;

		if (i >= k->o->top)
			rest += sorted[i].part;
		else
			add_part(k, name_feature(d, x.col ? b->id[x.col[at]] : at),
			    json_of_num((double)x.val[at]), name, sorted[i].part);
	}
	if (n > k->o->top)
		add_part(k, json_of_format("%zu others", n - k->o->top), NULL, name, rest);
	set_if(k->doc, "output", name);
	json_object_set_new(k->doc, "score", json_of_num(sum));
	free(sorted);
}

static enum err_code explain_example(struct seeking *k, const struct batch *b, size_t r,
    const float *scores, struct err *e)
{
	static const char *const columns[] = { "feature", "output", "value", "part" };
	struct model *model = k->s.job.model;
	size_t outputs = model_outputs(model), n = entries_of(b, r).n, first, end;
	double *part, *base;
	enum err_code rc = choose_outputs(k, scores, outputs, &first, &end, e);

	if (rc)
		return rc;
	part = mem_try_array(n * outputs + 1, sizeof *part);
	base = mem_array(outputs, sizeof *base);
	if (!part) {
		free(base);
		return err_set(e, ERR_NOMEM, "no memory for the parts of %zu features", n);
	}
	model_parts(model, b, r, (const float *const *)k->s.params.w, part, base);
	k->doc = begin_document("parts", k->s.job.conf.job.model, json_array());
	json_object_set_new(k->doc, "row", json_integer((json_int_t)k->row + 1));
	if (b->name && b->name[r] && *b->name[r])
		json_object_set_new(k->doc, "id", json_of_text(b->name[r]));
	for (size_t o = first; o < end; o++)
		add_output(k, b, r, outputs, o, part, base);
	if (end - first > 1) {
		json_object_del(k->doc, "output");
		json_object_del(k->doc, "score");
	} else {
		json_object_set_new(k->doc, "prediction", json_of_num((double)scores[first]));
	}
	set_columns(k->doc, columns, sizeof columns / sizeof *columns);
	free(part);
	free(base);
	return ERR_OK;
}

/* A predict_fn. Ends with ERR_STOPPED when the example has been found. */
static enum err_code seek_example(void *ctx, const struct batch *b, const float *scores,
    struct err *e)
{
	struct seeking *k = ctx;
	size_t r = (size_t)(k->row - k->before);
	enum err_code rc;

	if (k->row - k->before >= b->rows) {
		k->before += b->rows;
		return ERR_OK;
	}
	rc = explain_example(k, b, r, scores + r * model_outputs(k->s.job.model), e);
	return rc ? rc : err_set(e, ERR_STOPPED, "found");
}

enum err_code explain_row(const struct tool_model *m, const char *const *data, size_t ndata,
    uint64_t row, const struct explain_options *o, json_t **out, struct err *e)
{
	struct seeking k = { .o = o, .row = row - 1 };
	struct data_cache cache;
	struct data_sequence *set = NULL;
	struct data_want want;
	enum err_code rc = score_open(m, false, false, -1, &k.s, e);

	if (rc)
		return rc;
	if (!model_has_parts(k.s.job.model))
		rc = err_set(e, ERR_UNSUPPORTED,
		    "the scores of model %s are not sums of parts of the features: only permutation "
		    "importance can be measured, without --row",
		    k.s.job.conf.job.model);
	want = (struct data_want){ .any = true,
		.unseen = k.s.job.unseen,
		.names = true,
		.tables = job_want(&k.s.job.conf.job).tables };
	cache = job_cache(k.s.job.conf.job.cache, m->log);
	if (!rc)
		rc = data_sequence_open(&(struct data_sequence_spec){ .paths = data,
		                            .npaths = ndata,
		                            .want = &want,
		                            .like = k.s.job.train,
		                            .cache = &cache,
		                            .memory = k.s.job.conf.job.data_memory,
		                            .once = true },
		    &set, e);
	if (!rc)
		rc = evaluate_predict(&k.s.params, set, seek_example, &k, e);
	if (!rc)
		rc = err_set(e, ERR_NOTFOUND, "there is no example %llu: the data have %llu",
		    (unsigned long long)row, (unsigned long long)k.before);
	else if (k.doc)
		rc = param_source_finish(m->source, e);
	data_unseen_log(k.s.job.unseen, "the data", m->log);
	if (!rc)
		*out = json_incref(k.doc);
	json_decref(k.doc);
	data_sequence_free(set);
	score_close(&k.s);
	return rc;
}

/* ---- output ---- */

/* A value as text. */
static void put_value(struct buf *out, const json_t *v, bool precise)
{
	char text[32];

	if (json_is_string(v)) {
		plain_put_tsv_cell(out, json_string_value(v));
	} else if (json_is_integer(v)) {
		buf_printf(out, "%lld", (long long)json_integer_value(v));
	} else if (json_is_number(v)) {
		num_digits(json_number_value(v), precise ? 9 : 6, text);
		buf_puts(out, text);
	} else {
		buf_puts(out, "-");
	}
}

/* Lines of cells with tabs between them, of which the first is the heading. */
static void put_cells(struct buf *out, const json_t *doc, bool precise)
{
	const json_t *columns = json_object_get(doc, "columns"), *row, *name;
	size_t i, k;

	json_array_foreach(columns, k, name)
		buf_printf(out, "%s%s", k ? "\t" : "", json_string_value(name));
	buf_puts(out, "\n");
	json_array_foreach(json_object_get(doc, "rows"), i, row) {
		json_array_foreach(columns, k, name) {
			buf_puts(out, k ? "\t" : "");
			put_value(out, json_object_get(row, json_string_value(name)), precise);
		}
		buf_puts(out, "\n");
	}
}

static size_t count_characters(const char *p, size_t n)
{
	size_t count = 0;

	for (size_t i = 0, step; i < n; i += step ? step : 1, count++)
		step = utf8_step(p + i, n - i);
	return count;
}

/* Replaces the tabs by as many blanks as make columns. */
static void put_aligned(struct buf *out, const struct buf *cells, size_t columns)
{
	size_t *width = mem_array(columns, sizeof *width), k;
	const char *text = (const char *)cells->data, *end = text + cells->len;

	for (int pass = 0; pass < 2; pass++) {
		k = 0;
		for (const char *p = text; p < end;) {
			size_t n = strcspn(p, "\t\n"), shown = count_characters(p, n);
			bool last = p[n] == '\n';

			if (shown > width[k])
				width[k] = shown;
			if (pass == 1) {
				buf_append(out, p, n);
				buf_printf(out, "%*s", last ? 0 : (int)(width[k] - shown + 2), "");
				buf_puts(out, last ? "\n" : "");
			}
			k = last ? 0 : k + 1;
			p += n + 1;
		}
	}
	free(width);
}

/* The figures beside the table, "metric: auc", one a line. */
static void put_figures(struct buf *out, const json_t *doc)
{
	const char *key;
	json_t *v;

	json_object_foreach((json_t *)(uintptr_t)doc, key, v) {
		if (json_is_array(v) || strcmp(key, "kind") == 0)
			continue;
		buf_printf(out, "%s: ", key);
		put_value(out, v, false);
		buf_puts(out, "\n");
	}
}

enum err_code explain_print(const json_t *doc, const char *form, int fd, struct err *e)
{
	struct buf out = BUF_INIT, cells = BUF_INIT;
	enum err_code rc;

	if (strcmp(form, "json") == 0) {
		char *text = json_text(doc);

		buf_printf(&out, "%s\n", text);
		free(text);
	} else if (strcmp(form, "tsv") == 0) {
		put_cells(&out, doc, true);
	} else {
		put_figures(&out, doc);
		buf_puts(&out, "\n");
		put_cells(&cells, doc, false);
		put_aligned(&out, &cells, json_array_size(json_object_get(doc, "columns")));
	}
	rc = file_write_all(fd, out.data, out.len, e);
	buf_release(&out);
	buf_release(&cells);
	return rc;
}

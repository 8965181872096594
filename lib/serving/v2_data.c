/* SPDX-License-Identifier: ISC */
#include "serving/v2_data.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/buf.h"
#include "core/log.h"
#include "core/mem.h"
#include "core/suggest.h"
#include "core/utf8.h"
#include "data/reader/data_row.h"
#include "data/source/data_uri.h"
#include "data/table/data_schema.h"
#include "data/table/data_table.h"
#include "serving/v2_outputs.h"

/* Begins a stream without bytes, whose name is in messages, in this format. Requests that are read
 * into one build all have the form of the model's data, so that the first one begins for all. */
static enum err_code begin_format(struct data_build *b, struct stream *s, const char *format,
    struct err *e)
{
	struct data_options o = DATA_OPTIONS_INIT;

	if (b->first) {
		/* For data_build_norm, which is about the rows of a stream. */
		b->rows_before = b->d->rows;
		return ERR_OK;
	}
	o.format = (char *)(uintptr_t)format;
	return data_build_begin(b, s, &o, e);
}

/* ---- tables ---- */

static size_t find_column(const struct data_schema *m, const char *name)
{
	for (size_t i = 0; i < m->ncolumns; i++)
		if (strcmp(m->column[i].name, name) == 0)
			return i;
	return SIZE_MAX;
}

static enum err_code fail_unknown_input(const struct data_schema *m, const char *name,
    struct err *e)
{
	const char **names = mem_array(m->ncolumns + 1, sizeof *names), *near;
	char text[DATA_SHOWN];
	size_t n = 0;

	for (size_t i = 0; i < m->ncolumns; i++)
		if (data_schema_uses(&m->column[i]) && m->column[i].kind != DATA_LABEL)
			names[n++] = m->column[i].name;
	near = suggest(name, names, n);
	data_shown(text, name, strlen(name));
	err_set(e, ERR_FORMAT, "input \"%s\": the model has no such column%s%.60s%s", text,
	    near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "");
	free(names);
	return ERR_FORMAT;
}

/* The column of each input; *dense: one input has all features. */
static enum err_code match_inputs(const struct v2_request *r, const struct data_schema *m,
    size_t *place, bool *dense, struct err *e)
{
	*dense = false;
	for (size_t i = 0; i < r->nin; i++) {
		const struct v2_tensor *t = &r->in[i];

		place[i] = find_column(m, t->name);
		if (place[i] == SIZE_MAX && r->nin == 1 && !t->flat && data_schema_is_numeric(m)) {
			*dense = true;
			return t->cols == m->numbers
			    ? ERR_OK
			    : err_set(e, ERR_FORMAT,
			          "input \"%.60s\": a row has %zu values, and the model has %zu "
			          "columns of features",
			          t->name, t->cols, m->numbers);
		}
		if (place[i] == SIZE_MAX)
			return fail_unknown_input(m, t->name, e);
		if (t->cols != 1)
			return err_set(e, ERR_FORMAT,
			    "input \"%.60s\": a column has the shape [n] or [n, 1]", t->name);
		for (size_t k = 0; k < i; k++)
			if (place[k] == place[i])
				return err_set(e, ERR_FORMAT, "input \"%.60s\" occurs twice",
				    t->name);
	}
	return ERR_OK;
}

/* A column whose cells are features must be there: a model that is asked without it would answer
 * something. */
static enum err_code check_complete(const struct v2_request *r, const struct data_schema *m,
    const size_t *place, struct err *e)
{
	for (size_t c = 0; c < m->ncolumns; c++) {
		size_t i = 0;

		if (!data_schema_gives_features(&m->column[c]))
			continue;
		while (i < r->nin && place[i] != c)
			i++;
		if (i == r->nin)
			return err_set(e, ERR_FORMAT,
			    "input \"%.60s\" is missing: the model needs this column; null or NaN is a "
			    "missing cell",
			    m->column[c].name);
	}
	return ERR_OK;
}

/* Opens the table with the columns of the schema. */
static enum err_code open_table(struct data_build *b, struct stream *s, const struct data_schema *m,
    struct err *e)
{
	struct data_table_shape shape = { .keyed = true, .width = m->ncolumns };
	char **names;
	struct data_column_decision *decision;
	enum err_code rc;

	if (b->table)
		return ERR_OK;
	names = mem_array(m->ncolumns + 1, sizeof *names);
	decision = mem_array(m->ncolumns + 1, sizeof *decision);
	rc = begin_format(b, s, "jsonl", e);
	for (size_t i = 0; i < m->ncolumns; i++)
		names[i] = m->column[i].name;
	shape.name = names;
	shape.decision = decision;
	if (!rc)
		rc = data_table_open(b, s, &b->options, &shape, e);
	free(names);
	free(decision);
	return rc;
}

static enum err_code give_text(struct data_build *b, const struct stream *s, size_t place,
    const struct v2_value *v, struct buf *text, struct err *e)
{
	buf_clear(text);
	buf_append(text, v->text, v->len);
	buf_append(text, "", 1);
	if (memchr(v->text, '\0', v->len))
		return err_set(e, ERR_FORMAT, "a text has a NUL byte");
	return v->len ? data_table_text(b, s, place, (const char *)text->data, e) : ERR_OK;
}

static enum err_code give_cell(struct data_build *b, const struct stream *s, size_t place,
    const struct v2_value *v, struct buf *text, struct err *e)
{
	switch (v->kind) {
	case V2_TEXT:
		return give_text(b, s, place, v, text, e);
	case V2_INTEGER:
		return data_table_integer(b, s, place, v->integer, e);
	case V2_NUMBER:
		return data_table_number(b, s, place, v->number, e);
	default:
		return ERR_OK;
	}
}

/* Appends the rows column by column of each row. Errors name the row and the input. */
static enum err_code read_cells(struct v2_request *r, struct data_build *b, const struct stream *s,
    const size_t *place, struct err *e)
{
	struct buf text = BUF_INIT;
	enum err_code rc = ERR_OK;

	for (size_t row = 0; !rc && row < r->rows; row++) {
		size_t i;

		data_table_begin(b);
		for (i = 0; !rc && i < r->nin; i++) {
			struct v2_value v = v2_next(&r->in[i]);

			if (data_table_uses(b, place[i]))
				rc = give_cell(b, s, place[i], &v, &text, e);
		}
		if (rc)
			err_prefix(e, "row %zu, input \"%.60s\"", row + 1, r->in[i - 1].name);
		else if ((rc = data_table_end(b, s, e)))
			err_prefix(e, "row %zu", row + 1);
	}
	buf_release(&text);
	return rc;
}

/* The places of the columns of features, in their order. */
static size_t *list_features(const struct data_schema *m)
{
	size_t *place = mem_array(m->numbers + 1, sizeof *place), n = 0;

	for (size_t i = 0; i < m->ncolumns; i++)
		if (m->column[i].kind == DATA_NUMBER)
			place[n++] = i;
	return place;
}

static enum err_code read_dense_cells(struct v2_request *r, struct data_build *b,
    const struct stream *s, const struct data_schema *m, struct err *e)
{
	struct v2_tensor *t = &r->in[0];
	size_t *place = list_features(m);
	struct buf text = BUF_INIT;
	enum err_code rc = ERR_OK;

	for (size_t row = 0; !rc && row < r->rows; row++) {
		data_table_begin(b);
		for (size_t i = 0; !rc && i < t->cols; i++) {
			struct v2_value v = v2_next(t);

			rc = give_cell(b, s, place[i], &v, &text, e);
		}
		if (!rc)
			rc = data_table_end(b, s, e);
		if (rc)
			err_prefix(e, "row %zu", row + 1);
	}
	buf_release(&text);
	free(place);
	return rc;
}

static enum err_code read_table(struct v2_request *r, struct data_build *b, struct stream *s,
    const struct data_schema *m, struct err *e)
{
	size_t *place = mem_array(r->nin + 1, sizeof *place);
	bool dense;
	enum err_code rc = match_inputs(r, m, place, &dense, e);

	if (!rc && !dense)
		rc = check_complete(r, m, place, e);
	if (!rc)
		rc = open_table(b, s, m, e);
	if (!rc)
		rc = dense ? read_dense_cells(r, b, s, m, e) : read_cells(r, b, s, place, e);
	free(place);
	return rc;
}

/* ---- dense rows ---- */

static enum err_code fail_value(const struct v2_tensor *t, size_t row, size_t col, struct err *e)
{
	return err_set(e, ERR_FORMAT,
	    "input \"%.60s\": row %zu, column %zu is not a finite float32 number", t->name, row + 1,
	    col + 1);
}

static enum err_code read_dense(struct v2_request *r, struct data_build *b, struct stream *s,
    const struct dataset *train, struct err *e)
{
	struct v2_tensor *t = &r->in[0];
	enum err_code rc = begin_format(b, s, "npy", e);

	if (!rc && (r->nin != 1 || t->cols != train->cols))
		rc = err_set(e, ERR_FORMAT, "there must be one input [n, %zu]: the features",
		    train->cols);
	for (size_t row = 0; !rc && row < r->rows; row++) {
		float *x;

		rc = data_build_dense(b, s, t->cols, 1, &x, e);
		for (size_t i = 0; !rc && i < t->cols; i++) {
			double v;

			if (!v2_next_number(t, &v) || !isfinite((float)v))
				rc = fail_value(t, row, i, e);
			x[i] = (float)v;
		}
		if (rc)
			break;
		data_build_rows(b, 1);
		rc = data_label_number(b->label, s, 0, e);
	}
	return rc || !b->options.norm ? rc : data_build_norm(b, s, e);
}

/* ---- sparse rows ---- */

struct sparse_inputs {
	struct v2_tensor *indices, *values, *fields; /* values and fields may be NULL */
};

static enum err_code find_sparse_inputs(struct v2_request *r, bool fields,
    struct sparse_inputs *out, struct err *e)
{
	*out = (struct sparse_inputs){ 0 };
	for (size_t i = 0; i < r->nin; i++) {
		struct v2_tensor *t = &r->in[i];

		if (strcmp(t->name, "indices") == 0)
			out->indices = t;
		else if (strcmp(t->name, "values") == 0)
			out->values = t;
		else if (strcmp(t->name, "fields") == 0)
			out->fields = t;
		else
			return err_set(e, ERR_FORMAT,
			    "input \"%.60s\": this model has the inputs indices, values%s", t->name,
			    fields ? " and fields" : "");
		if (t->cols != r->in[0].cols)
			return err_set(e, ERR_FORMAT,
			    "input \"%.60s\": must have the shape of the first input", t->name);
	}
	if (!out->indices)
		return err_set(e, ERR_FORMAT, "input \"indices\" is missing");
	if (fields && !out->fields)
		return err_set(e, ERR_FORMAT,
		    "input \"fields\" is missing: the training data have fields");
	if (!fields && out->fields)
		return err_set(e, ERR_FORMAT,
		    "input \"fields\": the training data have no fields; leave it out");
	return ERR_OK;
}

/* Adds an entry, unless it is padding. */
static enum err_code add_entry(struct sparse_inputs *x, struct data_row *row, struct err *e)
{
	bool good = true;
	int64_t id, field = 0;
	double val = 1;

	if (!v2_next_integer(x->indices, &id))
		return err_set(e, ERR_FORMAT, "an index is not an integer of at most 63 bits");
	if (x->values)
		good = v2_next_number(x->values, &val) && isfinite((float)val);
	if (!good && id >= 0)
		return err_set(e, ERR_FORMAT, "a value is not a finite float32 number");
	if (x->fields)
		good = v2_next_integer(x->fields, &field);
	if (id < 0)
		return ERR_OK;
	if (!good || field < 0 || field >= DATA_FIELDS)
		return err_set(e, ERR_FORMAT, "a field is not an integer from 0 to %d",
		    DATA_FIELDS - 1);
	data_row_add(row, (uint64_t)id, (float)val, (uint16_t)field);
	return ERR_OK;
}

static enum err_code read_sparse(struct v2_request *r, struct data_build *b, struct stream *s,
    const struct dataset *train, struct err *e)
{
	bool fields = train->fields > 0;
	struct data_row row = { .b = b, .s = s };
	struct sparse_inputs x;
	enum err_code rc = begin_format(b, s, fields ? "ffm" : "libsvm", e);

	if (!rc)
		rc = find_sparse_inputs(r, fields, &x, e);
	for (size_t i = 0; !rc && i < r->rows; i++) {
		rc = data_label_number(b->label, s, 0, e);
		for (size_t k = 0; !rc && k < x.indices->cols; k++)
			rc = add_entry(&x, &row, e);
		if (!rc)
			rc = data_row_end(&row, fields, e);
		if (rc)
			err_prefix(e, "row %zu", i + 1);
	}
	free(row.id);
	free(row.val);
	free(row.field);
	return rc || !b->options.norm ? rc : data_build_norm(b, s, e);
}

/* ---- ratings ---- */

static void put_csv_cell(struct buf *out, const struct v2_value *v)
{
	if (v->kind == V2_INTEGER)
		buf_printf(out, "%lld", (long long)v->integer);
	if (v->kind == V2_NUMBER)
		buf_printf(out, "%.17g", v->number);
	if (v->kind != V2_TEXT)
		return;
	buf_puts(out, "\"");
	for (size_t i = 0; i < v->len; i++) {
		if (v->text[i] == '"')
			buf_puts(out, "\"");
		buf_append(out, v->text + i, 1);
	}
	buf_puts(out, "\"");
}

/* Writes the inputs as a CSV, which the reader of ratings knows. */
static enum err_code read_as_csv(struct v2_request *r, struct data_build *b, struct err *e)
{
	struct data_options o = DATA_OPTIONS_INIT;
	struct buf text = BUF_INIT;
	struct stream *s;
	enum err_code rc = ERR_OK;

	for (size_t i = 0; !rc && i < r->nin; i++) {
		const char *name = r->in[i].name;
		struct v2_value v = { .kind = V2_TEXT, .text = name, .len = strlen(name) };

		if (r->in[i].cols != 1)
			rc = err_set(e, ERR_FORMAT,
			    "input \"%.60s\": a column has the shape [n] or [n, 1]", name);
		buf_puts(&text, i ? "," : "");
		put_csv_cell(&text, &v);
	}
	for (size_t row = 0; !rc && row < r->rows; row++)
		for (size_t i = 0; i < r->nin; i++) {
			struct v2_value v = v2_next(&r->in[i]);

			buf_puts(&text, i ? "," : "\n");
			put_csv_cell(&text, &v);
		}
	buf_puts(&text, "\n");
	buf_reserve(&text, STREAM_PAD + 1);
	s = stream_text((char *)text.data, text.len, "the inputs");
	if (!rc)
		rc = data_build_read(b, s, &o, e);
	stream_close(s);
	buf_release(&text);
	return rc;
}

/* ---- any of them ---- */

/* Are the training data ratings of items by users? */
static bool reads_ratings(const struct job *job)
{
	return job_want(&job->conf.job).tables != NULL;
}

static bool has_input(const struct v2_request *r, const char *name)
{
	for (size_t i = 0; i < r->nin; i++)
		if (strcmp(r->in[i].name, name) == 0)
			return true;
	return false;
}

enum err_code v2_data_read(struct v2_request *r, const struct served_model *m, struct data_build *b,
    struct err *e)
{
	const struct dataset *train = m->scoring.job.train;
	char none[STREAM_PAD + 1] = "";
	struct stream *s;
	enum err_code rc;

	for (size_t i = 0; i < r->nin; i++)
		v2_rewind(&r->in[i]);
	if (reads_ratings(&m->scoring.job) && !has_input(r, "indices"))
		return read_as_csv(r, b, e);
	s = stream_text(none, 0, "the inputs");
	if (train->schema)
		rc = read_table(r, b, s, train->schema, e);
	else
		rc = (train->sparse ? read_sparse : read_dense)(r, b, s, train, e);
	stream_close(s);
	return rc;
}

static void add_input(json_t *list, const char *name, const char *type, json_t *shape)
{
	json_array_append_new(list,
	    json_pack("{s:o, s:s, s:o}", "name", json_of_text(name), "datatype", type, "shape",
	        shape));
}

static json_t *describe_inputs(const struct job *job)
{
	const struct dataset *train = job->train;
	const struct data_schema *m = train->schema;
	json_t *list = json_array();

	for (size_t i = 0; m && i < m->ncolumns; i++)
		if (data_schema_gives_features(&m->column[i]))
			add_input(list, m->column[i].name,
			    m->column[i].kind == DATA_NUMBER && !m->column[i].words ? "FP64"
			                                                            : "BYTES",
			    json_pack("[i]", -1));
	if (m)
		return list;
	if (reads_ratings(job)) {
		add_input(list, "user", "BYTES", json_pack("[i]", -1));
		add_input(list, "item", "BYTES", json_pack("[i]", -1));
	} else if (train->sparse) {
		add_input(list, "indices", "INT64", json_pack("[i, i]", -1, -1));
		add_input(list, "values", "FP32", json_pack("[i, i]", -1, -1));
		if (train->fields)
			add_input(list, "fields", "INT32", json_pack("[i, i]", -1, -1));
	} else {
		add_input(list, "input", "FP32", json_pack("[i, I]", -1, (json_int_t)train->cols));
	}
	return list;
}

json_t *v2_data_describe(const struct served_model *m)
{
	return json_pack("{s:o, s:o}", "inputs", describe_inputs(&m->scoring.job), "outputs",
	    v2_outputs_describe(&m->scoring.job));
}

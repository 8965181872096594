/* SPDX-License-Identifier: ISC */
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/json.h"
#include "core/mem.h"
#include "core/num.h"
#include "core/version.h"
#include "data/source/data_option.h"
#include "http/args.h"
#include "serving/endpoint_state.h"
#include "serving/nearest_indexes.h"
#include "serving/v2_data.h"
#include "serving/v2_outputs.h"

#define JSON_TYPE "application/json"
/* A tree of JSON takes about this many times the bytes of its text. */
#define JSON_COST 24u

/* ---- POST /predict ---- */

static const char *const form_name
    [] = { [PREDICTION_PLAIN] = "plain", [PREDICTION_CSV] = "csv", [PREDICTION_JSON] = "json" };
static const char *const form_type[] = { [PREDICTION_PLAIN] = "text/plain; charset=utf-8",
	[PREDICTION_CSV] = "text/csv; charset=utf-8",
	[PREDICTION_JSON] = "application/x-ndjson" };

void read_options_release(struct read_options *o)
{
	if (--o->users)
		return;
	data_uri_release(&o->options);
	free(o->query);
	free(o->format);
	free(o);
}

/* Refuses an option that names a file: a client must not choose what this process opens. */
static enum err_code check_names_no_file(const struct data_options *o, struct err *e)
{
	const char *name = data_option_names_file(o);

	if (!name)
		return ERR_OK;
	return err_set(e, ERR_USAGE,
	    "%s: cannot be given in a request; the server reads the file that the description of the model "
	    "names",
	    name);
}

/* Takes form= out of a decoded query; the rest are options as after the "?" of a data path. */
static enum err_code parse_options(struct read_options *o, struct err *e)
{
	struct http_args args = { 0 };
	struct buf text = BUF_INIT;
	char *file = NULL;
	enum err_code rc = http_args_parse(&args, o->query, e);

	o->form = -1;
	buf_puts(&text, "-");
	for (size_t i = 0; !rc && i < args.n; i++) {
		if (strcmp(args.key[i], "form") != 0) {
			buf_printf(&text, "%c%s=%s", strchr((char *)text.data, '?') ? '&' : '?',
			    args.key[i], args.value[i]);
			continue;
		}
		for (int k = 0; k <= PREDICTION_JSON; k++)
			if (strcmp(args.value[i], form_name[k]) == 0)
				o->form = k;
		if (o->form < 0)
			rc = err_set(e, ERR_USAGE,
			    "form: must be plain, csv or json, got \"%.40s\"", args.value[i]);
	}
	if (!rc)
		rc = data_uri_parse((const char *)text.data, &file, &o->options, e);
	if (!rc)
		rc = check_names_no_file(&o->options, e);
	if (!rc && file && strcmp(file, "-") != 0)
		rc = err_set(e, ERR_USAGE, "the query \"%.100s\" is not understood", o->query);
	o->format = mem_strdup((const char *)text.data);
	free(file);
	buf_release(&text);
	http_args_release(&args);
	return rc;
}

/* The options of a query, from the cache of one query, or made. */
static enum err_code find_options(struct http_exchange *x, struct err *e)
{
	struct endpoint *ep = x->ep;
	struct read_options *o = ep->options;
	enum err_code rc;

	if (!o || strcmp(o->query, x->query) != 0) {
		o = mem_alloc(sizeof *o);
		o->users = 1;
		o->query = mem_strdup(x->query);
		rc = parse_options(o, e);
		if (rc) {
			read_options_release(o);
			return rc;
		}
		if (ep->options)
			read_options_release(ep->options);
		ep->options = o;
	}
	o->users++;
	x->options = o;
	return ERR_OK;
}

static enum prediction_form form_of_accept(struct http_exchange *x)
{
	const char *accept = MHD_lookup_connection_value(x->mhd, MHD_HEADER_KIND, "Accept");

	if (accept && strstr(accept, "text/csv"))
		return PREDICTION_CSV;
	if (accept && (strstr(accept, "application/json") || strstr(accept, "ndjson")))
		return PREDICTION_JSON;
	return PREDICTION_PLAIN;
}

static enum err_code read_text(struct score_task *t, char *text, size_t n, struct data_build *b,
    struct err *e)
{
	struct http_exchange *x = t->ctx;
	struct stream *s = stream_text(text, n, "the body");
	enum err_code rc = data_build_read(b, s, &x->options->options, e);

	stream_close(s);
	return rc;
}

/* Appends the examples of a body. The parser changes its bytes, and a body may be read twice, so it
 * gets a copy. */
static enum err_code read_body(struct score_task *t, struct data_build *b, struct err *e)
{
	struct http_exchange *x = t->ctx;
	struct buf *copy = &x->by->scratch;

	buf_clear(copy);
	buf_append(copy, x->body.data, x->body.len);
	buf_reserve(copy, STREAM_PAD + 1);
	return read_text(t, (char *)copy->data, copy->len, b, e);
}

/* Bodies may be read together if nothing in one of them is guessed from another: those of rows
 * without a heading, and those with the same first line. */
static void choose_key(struct http_exchange *x)
{
	const struct served_model *m = served_use(x->ep->own.reader);
	const struct dataset *train = m->scores ? m->scoring.job.train : NULL;
	const char *body = (const char *)x->body.data, *nl;

	x->task.key = x->options->format;
	x->task.nkey = strlen(x->options->format);
	if ((train && train->sparse && !train->schema && !train->shape) || !x->body.len)
		return;
	nl = body[0] == '{' ? body + 1 : memchr(body, '\n', x->body.len);
	x->task.headed = body[0] != '{';
	x->task.key = body;
	x->task.nkey = nl ? (size_t)(nl - body) : x->body.len;
}

static enum err_code prepare_predict(struct http_exchange *x, struct err *e)
{
	enum err_code rc = find_options(x, e);

	if (rc)
		return rc;
	x->form = x->options->form >= 0 ? (enum prediction_form)x->options->form
	                                : form_of_accept(x);
	x->task = (struct score_task){ .read = read_body,
		.ctx = x,
		.kind = x->options,
		.read_text = read_text,
		.text = (const char *)x->body.data,
		.ntext = x->body.len };
	choose_key(x);
	return ERR_OK;
}

/* Notes which model has answered, and how old its values are. */
static void note_model(struct http_exchange *x)
{
	const struct served_model *m = x->by->model;
	int64_t age = served_age(m);

	x->answer.scored = true;
	x->answer.age = age < 0 ? -1 : (double)age / NSEC_PER_SEC;
	memcpy(x->answer.version, m->version, sizeof x->answer.version);
}

static void write_predict(struct http_exchange *x)
{
	struct predictions p = { .form = x->form, .job = &x->by->model->scoring.job };
	struct batch b = { .rows = x->task.rows, .name = (const char **)(uintptr_t)x->task.name };

	x->answer.status = 200;
	x->answer.type = form_type[x->form];
	if (x->task.rows)
		predictions_put(&p, &b, x->task.scores, &x->answer.body);
	predictions_end(&p, &x->answer.body);
	note_model(x);
}

/* ---- Open Inference Protocol, version 2 ---- */

static void answer_json(struct http_exchange *x, json_t *o)
{
	char *text = json_text(o);

	x->answer.status = 200;
	x->answer.type = JSON_TYPE;
	buf_printf(&x->answer.body, "%s\n", text);
	free(text);
	json_decref(o);
}

static void answer_server(struct http_exchange *x)
{
	answer_json(x,
	    json_pack("{s:s, s:s, s:[s]}", "name", "pskit", "version", PSKIT_VERSION, "extensions",
	        "binary_tensor_data"));
}

static void answer_live(struct http_exchange *x)
{
	answer_json(x, json_pack("{s:b}", "live", true));
}

static void answer_ready(struct http_exchange *x)
{
	answer_json(x, json_pack("{s:b}", "ready", true));
}

/* The last part of the path .../versions/V, if the route has it, must be that of the model. */
static enum err_code check_version(struct http_exchange *x, struct err *e)
{
	const char *at = strstr(x->target, "/versions/");
	const struct served_model *m = served_use(x->ep->own.reader);
	size_t n;

	if (!at)
		return ERR_OK;
	at += strlen("/versions/");
	n = strcspn(at, "/");
	if (strlen(m->version) == n && strncmp(m->version, at, n) == 0)
		return ERR_OK;
	return err_set(e, ERR_NOTFOUND, "version \"%.*s\" is not served: the present one is \"%s\"",
	    n < 80 ? (int)n : 80, at, m->version);
}

static void answer_model_ready(struct http_exchange *x)
{
	struct err e;

	if (check_version(x, &e))
		exchange_fail(x, 0, &e);
	else
		answer_json(x, json_pack("{s:s, s:b}", "name", x->ep->name, "ready", true));
}

static void answer_model(struct http_exchange *x)
{
	const struct served_model *m = served_use(x->ep->own.reader);
	json_t *o, *more;
	struct err e;

	if (check_version(x, &e)) {
		exchange_fail(x, 0, &e);
		return;
	}
	if (!m->scores) {
		exchange_fail(x, 0, &m->why_not);
		return;
	}
	o = json_pack("{s:s, s:[s], s:s}", "name", x->ep->name, "versions", m->version, "platform",
	    "pskit");
	more = v2_data_describe(m);
	json_object_update(o, more);
	json_decref(more);
	answer_json(x, o);
}

static enum err_code read_v2(struct score_task *t, struct data_build *b, struct err *e)
{
	struct http_exchange *x = t->ctx;
	enum err_code rc = ERR_OK;

	if (!x->v2.json)
		rc = v2_request_parse((const char *)x->body.data, x->body.len, x->head_length,
		    x->ep->limits.rows, &x->by->head, &x->v2, e);
	if (!rc)
		rc = v2_outputs_check(&x->v2, &x->by->model->scoring.job, e);
	return rc ? rc : v2_data_read(&x->v2, x->by->model, b, e);
}

static enum err_code prepare_infer(struct http_exchange *x, struct err *e)
{
	const char *length = MHD_lookup_connection_value(x->mhd, MHD_HEADER_KIND,
	    "Inference-Header-Content-Length");
	static const char key[] = "v2";
	size_t json;

	x->head_length = -1;
	if (length && !num_int(length, 0, (int64_t)x->body.len, &x->head_length))
		return err_set(e, ERR_FORMAT,
		    "Inference-Header-Content-Length must be a number of at most the body's bytes");
	json = length ? (size_t)x->head_length : x->body.len;
	if (!endpoint_charge(x, json * JSON_COST))
		return err_set(e, ERR_NOMEM,
		    "too many requests at a time: their tensors of JSON fill serve_memory; the binary "
		    "extension takes less");
	x->task = (struct score_task){ .read = read_v2, .ctx = x, .key = key, .nkey = 2 };
	return check_version(x, e);
}

static void write_infer(struct http_exchange *x)
{
	bool binary;
	size_t head = v2_outputs_write(&x->v2, &x->by->model->scoring.job, x->task.scores,
	    x->ep->name, x->by->model->version, &x->answer.body, &binary);

	x->answer.status = 200;
	x->answer.type = binary ? "application/octet-stream" : JSON_TYPE;
	x->answer.json_length = binary ? head : 0;
	note_model(x);
}

/* ---- POST /nearest ---- */

static enum err_code prepare_nearest(struct http_exchange *x, struct err *e)
{
	if (endpoint_charge(x, x->body.len * JSON_COST))
		return ERR_OK;
	return err_set(e, ERR_NOMEM,
	    "too many requests at a time: their bodies of JSON fill serve_memory");
}

static enum err_code work_nearest(struct http_exchange *x, struct err *e)
{
	struct nearest_request r;
	int64_t age;
	enum err_code rc = nearest_request_parse((const char *)x->body.data, x->body.len,
	    x->ep->limits.rows, &r, e);

	if (!rc)
		rc = nearest_indexes_answer(x->by->indexes, x->by->model, &r, &x->answer.body, &age,
		    e);
	if (!rc) {
		x->answer.status = 200;
		x->answer.type = JSON_TYPE;
		note_model(x);
		x->answer.age = age < 0 ? -1 : (double)age / NSEC_PER_SEC;
	}
	nearest_request_release(&r);
	return rc;
}

/* ---- others ---- */

static void answer_livez(struct http_exchange *x)
{
	x->answer.status = 200;
	x->answer.type = "text/plain; charset=utf-8";
	buf_puts(&x->answer.body, "ok\n");
}

static void answer_metrics(struct http_exchange *x)
{
	struct endpoint *ep = x->ep;
	const struct served_model *m = served_use(ep->own.reader);
	struct served_stats stats = served_stats(ep->served);
	int64_t age = served_age(m);
	struct serve_now now = { .connections = ep->nconns,
		.memory = ep->memory,
		.model_number = m->number,
		.models_taken = stats.taken,
		.models_refused = stats.refused,
		.age = age < 0 ? -1 : (double)age / NSEC_PER_SEC,
		.version = m->version };

	x->answer.status = 200;
	x->answer.type = "text/plain; version=0.0.4; charset=utf-8";
	serve_metrics_write(&ep->metrics, &now, &x->answer.body);
}

static const struct serve_route routes[] = {
	{ "POST", "/nearest", .prepare = prepare_nearest, .work = work_nearest },
	{ "POST", "/predict", .prepare = prepare_predict, .write = write_predict },
	{ "GET", "/livez", .open = true, .answer = answer_livez },
	{ "GET", "/metrics", .answer = answer_metrics },
	{ "GET", "/v2", .answer = answer_server },
	{ "GET", "/v2/health/live", .open = true, .answer = answer_live },
	{ "GET", "/v2/health/ready", .open = true, .answer = answer_ready },
	{ "GET", "/v2/models/{name}", .answer = answer_model },
	{ "GET", "/v2/models/{name}/versions/{version}", .answer = answer_model },
	{ "GET", "/v2/models/{name}/ready", .answer = answer_model_ready },
	{ "GET", "/v2/models/{name}/versions/{version}/ready", .answer = answer_model_ready },
	{ "POST", "/v2/models/{name}/infer", .prepare = prepare_infer, .write = write_infer },
	{ "POST", "/v2/models/{name}/versions/{version}/infer", .prepare = prepare_infer,
	    .write = write_infer },
};

/* Does a path match that of a route? */
static bool path_matches(const char *pattern, const char *path, const char *name)
{
	while (*pattern) {
		size_t n = strcspn(path, "/");

		if (*pattern != '{') {
			if (*pattern++ != *path++)
				return false;
			continue;
		}
		if (!n ||
		    (strncmp(pattern, "{name}", 6) == 0 &&
		        (strlen(name) != n || strncmp(path, name, n) != 0)))
			return false;
		path += n;
		pattern = strchr(pattern, '}') + 1;
	}
	return *path == '\0';
}

const struct serve_route *route_find(const struct endpoint *ep, const char *method,
    const char *path, const char **allow)
{
	*allow = NULL;
	for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
		if (!path_matches(routes[i].path, path, ep->name))
			continue;
		if (strcmp(routes[i].method, method) == 0 ||
		    (strcmp(method, "HEAD") == 0 && routes[i].answer))
			return &routes[i];
		*allow = routes[i].method;
	}
	return NULL;
}

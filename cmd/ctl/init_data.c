/* SPDX-License-Identifier: ISC */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/buf.h"
#include "core/json.h"
#include "core/mem.h"
#include "data/data_object.h"
#include "data/data_schema.h"
#include "data/data_uri.h"
#include "init_data.h"

/* Bytes of the file that are looked at: more, where they have no two lines. */
#define LOOK      65536u
#define LOOK_MOST (1u << 20)
/* The share of 1 / features that is the learning rate of a linear model: with features of variance 1
 * the steps of gradient descent shrink the error below 2 / features (the trace bounds the largest
 * eigenvalue of the features' covariance). */
#define LINEAR_RATE 0.5

/* Labels with more different numbers than this are real numbers, and no classes. */
#define CLASSES_MOST 32u

/* Shows the first whole lines of a text file. *all: there are no others. */
static enum err_code peek_lines(struct stream *s, const uint8_t **p, size_t *n, bool *all,
    struct err *e)
{
	enum err_code rc;
	const uint8_t *nl;
	size_t most = LOOK;

	for (;; most = LOOK_MOST) {
		rc = stream_peek(s, most, p, n, e);
		*all = !rc && *n < most;
		if (rc || *all)
			return rc;
		nl = memrchr(*p, '\n', *n);
		if (nl && (most == LOOK_MOST || memchr(*p, '\n', (size_t)(nl - *p)))) {
			/* The last line may be cut off. */
			*n = (size_t)(nl - *p) + 1;
			return ERR_OK;
		}
		/* A file that is no text has no lines. */
		if (memchr(*p, 0, *n))
			return ERR_OK;
		if (most == LOOK_MOST)
			return err_set(e, ERR_LIMIT,
			    "%s:1: a line of more than %u MiB; init looks at no more",
			    stream_name(s), LOOK_MOST >> 20);
	}
}

/* Loads the first lines of a text file; *all: there are no others. NULL, with an error: they are not
 * examples of this kind. */
static struct dataset *load_first_lines(const char *path, const struct data_want *want, bool *all,
    struct err *e)
{
	struct data_options o;
	struct dataset *d = NULL;
	struct stream *s = NULL, *part = NULL;
	const uint8_t *p = NULL;
	size_t n = 0;
	char *file;

	if (data_uri_parse(path, &file, &o, e))
		return NULL;
	if (!data_open(file, &s, e) && !peek_lines(s, &p, &n, all, e) &&
	    !stream_memory(p, n, file, &part, e))
		data_load_stream(part, &o, want, NULL, &d, e);
	stream_close(part);
	stream_close(s);
	data_uri_release(&o);
	free(file);
	return d;
}

/* Are all labels numbers? */
static bool has_numbers(const struct dataset *d)
{
	for (size_t i = 0; i < d->classes; i++)
		if (isnan(d->class_value[i]))
			return false;
	return true;
}

/* The model for these labels: two classes, several, or real numbers. *all: as above. */
static const char *choose_model(const char *path, struct dataset **d, bool *all, struct err *e)
{
	static const struct data_want classes = { .classes = true }, real = { 0 };

	*d = load_first_lines(path, &classes, all, e);
	if (*d && (!has_numbers(*d) || (*d)->classes <= CLASSES_MOST))
		return (*d)->classes == 2 ? "logistic" : "softmax";
	dataset_free(*d);
	*d = load_first_lines(path, &real, all, e);
	return "linear";
}

/* path with an option added. */
static char *with_option(const char *path, const char *option)
{
	struct data_options o;
	char *file = NULL, *out;
	bool has = data_uri_parse(path, &file, &o, NULL) == ERR_OK && strcmp(file, path) != 0;

	out = mem_printf("%s%c%s", path, has ? '&' : '?', option);
	free(file);
	data_uri_release(&o);
	return out;
}

static bool names_scale(const char *path)
{
	struct data_options o;
	char *file;
	bool has = data_uri_parse(path, &file, &o, NULL) == ERR_OK && o.scale;

	free(file);
	data_uri_release(&o);
	return has;
}

char *init_data_template(const char *data, const char *eval, const char *model, struct err *e)
{
	struct err why = { 0 };
	struct dataset *d = NULL;
	bool all = false;
	const char *fits = choose_model(data, &d, &all, &why);
	bool table = d && (d->schema || !strcmp(d->format, "CSV")) && !names_scale(data);
	char *scaled = table ? with_option(data, "scale=standard") : mem_strdup(data), *text;
	json_t *job;

	if (!d) {
		free(scaled);
		*e = why;
		return NULL;
	}
	job = json_pack("{s:s, s:s, s:i, s:i}", "model", model ? model : fits, "data", scaled,
	    "epochs", all ? 50 : 10, "batch", 64);
	if (eval)
		json_object_set_new(job, "eval", json_string(eval));
	if (model &&
	    (!strcmp(model, "mlp") || !strcmp(model, "wide_deep") || !strcmp(model, "deepfm")))
		json_object_set_new(job, "hidden", json_pack("[i]", 64));
	if (strcmp(model ? model : fits, "linear") == 0) {
		json_object_set_new(job, "optimizer", json_string("sgd"));
		json_object_set_new(job, "lr", json_real(LINEAR_RATE / (double)(d->cols + 1)));
	} else {
		json_object_set_new(job, "optimizer", json_string("adagrad"));
		json_object_set_new(job, "lr", json_real(0.1));
	}
	dataset_free(d);
	free(scaled);
	job = json_pack("{s:i, s:i, s:o}", "servers", 1, "workers", 2, "job", job);
	text = json_dumps(job, JSON_INDENT(8) | JSON_REAL_PRECISION(6));
	json_decref(job);
	return text;
}

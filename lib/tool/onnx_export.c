/* SPDX-License-Identifier: ISC */
#include "tool/onnx_export.h"

#include <inttypes.h>
#include <stdlib.h>

#include "core/file.h"
#include "core/mem.h"
#include "data/table/data_schema.h"
#include "model/graph.h"
#include "tool/onnx_inputs.h"
#include "tool/onnx_tables.h"
#include "tool/score.h"

/* ---- outputs ---- */

/* Gives the class with the largest score out, by its name; of two classes, the one whose probability is
 * above a half. */
static void add_class(const struct job *j, struct onnx *g, const char *scores)
{
	const char *best = onnx_op(g, "ArgMax", scores, NULL), *name;
	int64_t *number = mem_array(j->train->classes, sizeof *number);

	onnx_set_int(g, "axis", 1);
	onnx_set_int(g, "keepdims", 0);
	for (size_t k = 0; k < j->train->classes; k++)
		number[k] = (int64_t)k;
	name = onnx_op_ml(g, "LabelEncoder", best, NULL);
	onnx_set_ints(g, "keys_int64s", number, j->train->classes);
	onnx_set_texts(g, "values_strings", (const char *const *)j->train->class_name,
	    j->train->classes);
	onnx_set_text(g, "default_string", "");
	onnx_output(g, name, "prediction", ONNX_STRING, (struct onnx_columns){ 0, NULL },
	    "the class that the scores predict");
	free(number);
}

/* The probabilities of both of two classes, of that of class 1. */
static const char *add_class_0(struct onnx *g, const char *score)
{
	const char *other = onnx_op(g, "Sub", onnx_floats(g, &(float){ 1 }, 0, NULL), score, NULL),
	           *both = onnx_op(g, "Concat", other, score, NULL);

	onnx_set_int(g, "axis", 1);
	return both;
}

static void add_class_outputs(const struct job *j, struct onnx *g, const char *scores)
{
	bool probabilities = model_gives_probabilities(j->model);
	size_t outputs = model_outputs(j->model);
	const char *both = outputs == 1 ? add_class_0(g, scores) : scores;

	if (j->train->class_name)
		add_class(j, g, both);
	if (probabilities)
		onnx_output(g, both, "probability", ONNX_FLOAT,
		    (struct onnx_columns){ (int64_t)j->train->classes, NULL },
		    "the probability of each class");
	else
		onnx_output(g, scores, "score", ONNX_FLOAT,
		    (struct onnx_columns){ (int64_t)outputs, NULL }, "the score of the classes");
}

/* Are the targets kept relative to a value that float32 would lose them beside? */
static bool has_origin(const struct job *j)
{
	bool has = false;

	for (size_t k = 0; k < model_outputs(j->model); k++)
		has |= dataset_target_origin(j->train, k) != 0;
	return has;
}

static void add_real_outputs(const struct job *j, struct onnx *g, const char *scores, bool exact)
{
	size_t n = model_outputs(j->model);
	double *origin = mem_array(n, sizeof *origin);

	for (size_t k = 0; k < n; k++)
		origin[k] = dataset_target_origin(j->train, k);
	if (exact)
		scores = onnx_op(g, "Add", scores,
		    onnx_doubles(g, origin, 2, (const int64_t[]){ 1, (int64_t)n }), NULL);
	free(origin);
	onnx_output(g, scores, "prediction", exact ? ONNX_DOUBLE : ONNX_FLOAT,
	    (struct onnx_columns){ (int64_t)n, NULL }, "the targets, in the units of the data");
}

static void add_outputs(const struct job *j, const struct graph *g)
{
	bool real = model_task(j->model) == MODEL_REAL, exact = real && has_origin(j);
	const char *scores = model_graph(j->model, g, exact);

	if (real)
		add_real_outputs(j, g->onnx, scores, exact);
	else
		add_class_outputs(j, g->onnx, scores);
}

/* Notes what programs may want to show: the model, and the names of the classes in the order of the
 * probabilities. */
static void add_facts(const struct job *j, struct onnx *g)
{
	char *text = mem_printf("model %s of pskit, exported by ps-ctl export", j->conf.job.model);
	json_t *classes = json_array();

	onnx_describe(g, text);
	free(text);
	onnx_add_fact(g, "model", j->conf.job.model);
	for (size_t k = 0; j->train->class_name && k < j->train->classes; k++)
		json_array_append_new(classes, json_of_text(j->train->class_name[k]));
	if (json_array_size(classes)) {
		text = json_text(classes);
		onnx_add_fact(g, "classes", text);
		free(text);
	}
	json_decref(classes);
}

/* ---- the file ---- */

static enum err_code write_two_files(struct onnx *g, struct param_source *s, int fd,
    const char *data_path, struct err *e)
{
	struct file_new data;
	enum err_code rc = file_new_open(data_path, 0666, &data, e);

	if (rc)
		return rc;
	rc = onnx_write(g, fd, path_basename(data_path), data.fd, e);
	if (!rc)
		rc = param_source_finish(s, e);
	return file_new_close(&data, rc, e);
}

static enum err_code write_model(struct onnx *g, struct param_source *s, int fd,
    const char *data_path, uint64_t most, struct err *e)
{
	uint64_t size = onnx_size(g);
	enum err_code rc;

	if (size > most && data_path)
		return write_two_files(g, s, fd, data_path, e);
	if (size > most)
		return err_set(e, ERR_LIMIT,
		    "the model has %" PRIu64 " bytes, but an ONNX file has at most %" PRIu64
		    ", and the rest is in a second file: name the output with -o MODEL.onnx, which also writes "
		    "MODEL.onnx.data",
		    size, most);
	rc = onnx_write(g, fd, NULL, -1, e);
	return rc ? rc : param_source_finish(s, e);
}

static enum err_code refuse_model(const struct job *j, struct err *e)
{
	char *kinds = model_graph_kinds(model_kinds_all);
	enum err_code rc = err_set(e, ERR_UNSUPPORTED,
	    "model %s cannot be written as ONNX; these can: %s", j->conf.job.model, kinds);

	free(kinds);
	return rc;
}

/* Makes the graph of a model that has been opened, and writes it. */
static enum err_code export_scoring(struct scoring *s, const struct tool_model *m, int fd,
    const char *data_path, uint64_t most, struct err *e)
{
	struct graph g = { .onnx = onnx_new() };
	struct onnx_tables *tables = NULL;
	enum err_code rc;

	onnx_inputs_add(&s->job, m->log, &g);
	rc = onnx_tables_add(&s->params, &g, &tables, e);
	if (!rc) {
		add_outputs(&s->job, &g);
		add_facts(&s->job, g.onnx);
		rc = write_model(g.onnx, m->source, fd, data_path, most, e);
	}
	onnx_tables_free(tables);
	onnx_free(g.onnx);
	return rc;
}

enum err_code onnx_export(const struct tool_model *m, int fd, const char *data_path, uint64_t most,
    struct err *e)
{
	struct scoring s;
	enum err_code rc = score_open(m, false, false, fd, &s, e);

	if (rc)
		return rc;
	rc = model_has_graph(s.job.model) ? export_scoring(&s, m, fd, data_path, most, e)
	                                  : refuse_model(&s.job, e);
	score_close(&s);
	return rc;
}

/* SPDX-License-Identifier: ISC */
#include <stddef.h>
#include <unistd.h>

#include "cmd/work/cmd.h"
#include "cmd/work/model.h"
#include "core/buf.h"
#include "core/clock.h"
#include "core/json.h"
#include "core/mem.h"
#include "core/plain.h"

/* The commands eval, predict and words: apply the present or saved model to data. */

#define MODEL_HELP \
	"MODEL, or -C, is a run directory (also of a finished run), a checkpoint, or a model file."

struct options {
	struct where where;
	bool json, detail;
	int64_t top_k; /* 0: the job's */
};

static const struct opt eval_opts[] = {
	WHERE_OPTS(struct options),
	{ "json", 0, OPT_FLAG, offsetof(struct options, json), NULL, "print one JSON object", NULL,
	    0, 0 },
	{ "detail", 0, OPT_FLAG, offsetof(struct options, detail), NULL,
	    "print the confusion matrix and the calibration table, too", NULL, 0, 0 },
	{ "top-k", 'k', OPT_INT, offsetof(struct options, top_k), "K",
	    "the k of the metrics ndcg_at_k, precision_at_k and recall_at_k (job.top_k)", NULL, 1,
	    1000000 },
};

static const struct opt_spec eval_spec = {
	.prog = "ps-work eval",
	.args = "[MODEL] [DATA ...]",
	.about =
	    "Evaluate the present model of the servers, or a saved model, on data (default: job.eval).",
	.more = MODEL_HELP,
	.examples = "  ps-work eval -C demo.run --json test.csv | jq .accuracy\n"
	            "  ps-work eval model.safetensors test.csv\n"
	            "  ps-work eval --detail model.safetensors test.csv\n"
	            "  ps-work eval demo.run/checkpoints/step-000000001000 test.csv\n",
	.opts = eval_opts,
	.nopts = sizeof eval_opts / sizeof *eval_opts,
	.max_args = -1,
};

/* The default of --fresh. */
#define FRESH (200 * NSEC_PER_MSEC)

struct predict_options {
	struct where where;
	bool follow, csv, json;
	const char *format;
	int64_t fresh;
};

static const struct opt predict_opts[] = {
	WHERE_OPTS(struct predict_options),
	{ "csv", 0, OPT_FLAG, offsetof(struct predict_options, csv), NULL,
	    "print CSV: id, prediction, and the probability of each class", NULL, 0, 0 },
	{ "json", 0, OPT_FLAG, offsetof(struct predict_options, json), NULL,
	    "print the same as a JSON object a line", NULL, 0, 0 },
	{ "follow", 0, OPT_FLAG, offsetof(struct predict_options, follow), NULL,
	    "read examples from stdin and answer each immediately", NULL, 0, 0 },
	{ "format", 0, OPT_STR, offsetof(struct predict_options, format), "FORMAT",
	    "with --follow: the format of the lines and its options, as ffm or ffm&norm=l2", NULL,
	    0, 0 },
	{ "fresh", 0, OPT_DURATION, offsetof(struct predict_options, fresh), "TIME",
	    "with --follow: pull dense tables again when they are older than this (200ms)", NULL, 0,
	    0 },
};

static const struct opt_spec predict_spec = {
	.prog = "ps-work predict",
	.args = "[MODEL] [DATA ...]",
	.about =
	    "Print one line with a prediction for each example of the data (default: job.eval).",
	.more =
	    "Models of real targets print the value, or the values of several targets with tabs between them,\n"
	    "and models of two classes the probability of class 1.\n"
	    "Models of more classes print the most likely class, a tab, and its probability, and word2vec the\n"
	    "loss of each word. The data need no labels. --csv and --json print the names of the classes and\n"
	    "the examples' ids, if the training data have them (?id=).\n" MODEL_HELP,
	.examples = "  ps-work predict model.safetensors new.csv > scores.txt\n"
	            "  ps-work predict --csv model.safetensors new.csv > scores.csv\n"
	            "  tail -f clicks.ffm | ps-work predict -C demo.run --follow --format ffm\n",
	.opts = predict_opts,
	.nopts = sizeof predict_opts / sizeof *predict_opts,
	.max_args = -1,
};

struct words_options {
	struct where where;
	int64_t top;
};

static const struct opt words_opts[] = {
	WHERE_OPTS(struct words_options),
	{ "top", 'n', OPT_INT, offsetof(struct words_options, top), "N",
	    "neighbours of each word (10)", NULL, 1, 1000000 },
};

static const struct opt_spec words_spec = {
	.prog = "ps-work words",
	.args = "[MODEL] [WORD ...]",
	.about =
	    "Print the nearest words of each WORD in a word2vec model, with the cosine, or all vectors "
	    "as word2vec's text.",
	.more = MODEL_HELP,
	.examples = "  ps-work words -C demo.run king\n  ps-work words -C demo.run > vectors.txt\n",
	.opts = words_opts,
	.nopts = sizeof words_opts / sizeof *words_opts,
	.max_args = -1,
};

/* A line for each true class, with the count of each predicted class. */
static void print_confusion(const json_t *confusion)
{
	const json_t *classes = json_object_get(confusion, "classes"), *row, *v;
	struct buf out = BUF_INIT;
	size_t i, k;

	printf(
	    "\nconfusion matrix: a line for each true class, a column for each predicted class\n");
	json_array_foreach(classes, i, v) {
		buf_puts(&out, "\t");
		plain_put_tsv_cell(&out, json_string_value(v));
	}
	buf_puts(&out, "\n");
	json_array_foreach(json_object_get(confusion, "count"), i, row) {
		plain_put_tsv_cell(&out, json_string_value(json_array_get(classes, i)));
		json_array_foreach(row, k, v)
			buf_printf(&out, "\t%.9g", json_number_value(v));
		buf_puts(&out, "\n");
	}
	fwrite(out.data, 1, out.len, stdout);
	buf_release(&out);
}

static void print_calibration(const json_t *bins)
{
	const json_t *b;
	size_t i;

	printf(
	    "\ncalibration: examples by the predicted probability, its mean, and the share that came true\n"
	    "from\tto\tpredicted\tobserved\texamples\n");
	json_array_foreach(bins, i, b)
		printf("%.3f\t%.3f\t%.4f\t%.4f\t%.9g\n",
		    json_number_value(json_object_get(b, "from")),
		    json_number_value(json_object_get(b, "to")),
		    json_number_value(json_object_get(b, "predicted")),
		    json_number_value(json_object_get(b, "observed")),
		    json_number_value(json_object_get(b, "examples")));
}

static void print_eval_figures(json_t *r, bool json)
{
	const char *key;
	json_t *v, *o;
	char *text;

	if (json) {
		o = json_event("eval");
		json_object_update(o, r);
		text = json_text(o);
		puts(text);
		free(text);
		json_decref(o);
		return;
	}
	json_object_foreach(r, key, v) {
		if (!json_is_number(v))
			continue;
		text = json_dumps(v, JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));
		printf("%s\t%s\n", key, text ? text : "");
		free(text);
	}
	if ((v = json_object_get(r, "confusion")) != NULL)
		print_confusion(v);
	if ((v = json_object_get(r, "calibration_table")) != NULL)
		print_calibration(v);
}

static enum err_code run_eval(const struct tool_model *m, const void *options, int nargs,
    char **argv, struct err *e)
{
	const struct options *o = options;
	json_t *r = NULL;
	enum err_code rc = tool_eval(m, (const char *const *)argv + 1, (size_t)nargs, o->top_k,
	    o->detail, &r, e);

	if (!rc)
		print_eval_figures(r, o->json);
	json_decref(r);
	return rc;
}

int cmd_eval(int argc, char **argv)
{
	struct options o = { 0 };
	int nargs, code = where_parse(&eval_spec, &o, argc, argv, &nargs);

	return code ? code - 1 : model_run(&eval_spec, &o.where, &o, nargs, argv, run_eval);
}

static enum err_code run_predict(const struct tool_model *m, const void *options, int nargs,
    char **argv, struct err *e)
{
	const struct predict_options *o = options;
	enum prediction_form form = o->csv ? PREDICTION_CSV
	    : o->json                      ? PREDICTION_JSON
	                                   : PREDICTION_PLAIN;

	if (o->follow && nargs)
		return err_set(e, ERR_USAGE, "--follow reads only standard input");
	if (o->csv && o->json)
		return err_set(e, ERR_USAGE, "--csv and --json exclude each other");
	if (!o->follow && (o->format || o->fresh >= 0))
		return err_set(e, ERR_USAGE,
		    "--format and --fresh require --follow; the path of data has its format, as "
		    "\"new.csv?format=csv\"");
	return o->follow
	    ? tool_follow(m, o->format, form, o->fresh < 0 ? FRESH : o->fresh, STDOUT_FILENO, e)
	    : tool_predict(m, (const char *const *)argv + 1, (size_t)nargs, form, STDOUT_FILENO, e);
}

int cmd_predict(int argc, char **argv)
{
	struct predict_options o = { .fresh = -1 };
	int nargs, code = where_parse(&predict_spec, &o, argc, argv, &nargs);

	return code ? code - 1 : model_run(&predict_spec, &o.where, &o, nargs, argv, run_predict);
}

static enum err_code run_words(const struct tool_model *m, const void *options, int nargs,
    char **argv, struct err *e)
{
	const struct words_options *o = options;

	return tool_words(m, (const char *const *)argv + 1, (size_t)nargs, (size_t)o->top,
	    STDOUT_FILENO, e);
}

int cmd_words(int argc, char **argv)
{
	struct words_options o = { .top = 10 };
	int nargs, code = where_parse(&words_spec, &o, argc, argv, &nargs);

	return code ? code - 1 : model_run(&words_spec, &o.where, &o, nargs, argv, run_words);
}

/* SPDX-License-Identifier: ISC */
#include <stddef.h>
#include <unistd.h>

#include "cmd/work/cmd.h"
#include "cmd/work/model.h"
#include "tool/explain.h"

/* The command explain: weights, permutation importance, the parts of a prediction. */

struct options {
	struct where where;
	const char *form, *metric, *class;
	int64_t top, repeats, seed, row;
};

static const struct opt opts[] = {
	WHERE_OPTS(struct options),
	{ "output", 'o', OPT_CHOICE, offsetof(struct options, form), "FORM",
	    "aligned columns, a line of cells with tabs for each feature, or one object (text)",
	    "text|tsv|json", 0, 0 },
	{ "row", 0, OPT_INT, offsetof(struct options, row), "N",
	    "explain the prediction of this example of the data, from 1", NULL, 1, 1e15 },
	{ "class", 0, OPT_STR, offsetof(struct options, class), "CLASS",
	    "with --row: explain the score of this class (the predicted one)", NULL, 0, 0 },
	{ "top", 'n', OPT_INT, offsetof(struct options, top), "N",
	    "weights, features to measure, or parts, at most (100)", NULL, 1, 10000000 },
	{ "metric", 0, OPT_STR, offsetof(struct options, metric), "METRIC",
	    "the metric that becomes worse (the first one after the loss that the model has)", NULL,
	    0, 0 },
	{ "repeats", 0, OPT_INT, offsetof(struct options, repeats), "N",
	    "permutations of each feature (5)", NULL, 1, 10000 },
	{ "seed", 0, OPT_INT, offsetof(struct options, seed), "N",
	    "the seed of the permutations (1)", NULL, 0, 1e15 },
};

static const struct opt_spec spec = {
	.prog = "ps-work explain",
	.args = "[MODEL] [DATA ...]",
	.about =
	    "Print the features with the largest weights, how important each feature is for the "
	    "predictions of data, or the parts of one prediction.",
	.more =
	    "Without DATA, the weights. With DATA, the importance: how much worse the metric becomes when the\n"
	    "values of a feature are permuted among the examples. With --row, the parts of a prediction.\n"
	    "MODEL, or -C, is a run directory (also of a finished run), a checkpoint, or a model file.",
	.examples = "  ps-work explain model.safetensors\n"
	            "  ps-work explain model.safetensors test.csv --metric auc\n"
	            "  ps-work explain model.safetensors new.csv --row 3 -o json\n",
	.opts = opts,
	.nopts = sizeof opts / sizeof *opts,
	.max_args = -1,
};

static enum err_code explain(const struct tool_model *m, const void *options, int nargs,
    char **argv, struct err *e)
{
	const struct options *o = options;
	const char *const *data = (const char *const *)argv + 1;
	size_t n = (size_t)nargs;
	struct explain_options how = { .top = (size_t)o->top,
		.metric = o->metric,
		.repeats = o->repeats ? (size_t)o->repeats : 5,
		.seed = o->seed < 0 ? 1 : (uint64_t)o->seed,
		.class = o->class };
	json_t *doc = NULL;
	enum err_code rc;

	if (o->class && !o->row)
		return err_set(e, ERR_USAGE, "--class requires --row");
	if (o->row && !n)
		return err_set(e, ERR_USAGE, "--row requires the path of data");
	if ((o->metric || o->repeats || o->seed >= 0) && (!n || o->row))
		return err_set(e, ERR_USAGE,
		    "--metric, --repeats and --seed are for importance, which needs the path of data and "
		    "no --row");
	rc = !n      ? explain_weights(m, &how, &doc, e)
	    : o->row ? explain_row(m, data, n, (uint64_t)o->row, &how, &doc, e)
	             : explain_importance(m, data, n, &how, &doc, e);
	if (!rc)
		rc = explain_print(doc, o->form ? o->form : "text", STDOUT_FILENO, e);
	json_decref(doc);
	return rc;
}

int cmd_explain(int argc, char **argv)
{
	struct options o = { .top = 100, .seed = -1 };
	int nargs, code = where_parse(&spec, &o, argc, argv, &nargs);

	return code ? code - 1 : model_run(&spec, &o.where, &o, nargs, argv, explain);
}

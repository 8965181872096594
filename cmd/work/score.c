#include <stddef.h>
#include <unistd.h>

#include "base/json.h"
#include "base/mem.h"
#include "cmd/work/cmd.h"
#include "cmd/work/common.h"

/* eval and predict: data against the model as it stands. */

struct options {
	struct where where;
	bool json;
};

static const struct opt eval_opts[] = {
	WHERE_OPTS(struct options),
	{ "json", 0, OPT_FLAG, offsetof(struct options, json), NULL, "one JSON object on stdout", NULL, 0, 0 },
};

static const struct opt_spec eval_spec = {
	.prog = "ps-work eval",
	.args = "[DATA ...]",
	.about = "Score data (default: job.eval) with the model as it stands on the servers.",
	.examples = "  ps-work eval -C demo.run --json test.csv | jq .accuracy\n",
	.opts = eval_opts,
	.nopts = sizeof eval_opts / sizeof *eval_opts,
	.max_args = -1,
};

static const struct opt predict_opts[] = { WHERE_OPTS(struct options) };

static const struct opt_spec predict_spec = {
	.prog = "ps-work predict",
	.args = "[DATA ...]",
	.about = "Print one prediction a line for each example of the data (default: job.eval).",
	.more = "linear prints the value, logistic the probability of class 1, softmax and mlp the likeliest class and\n"
	    "its probability, separated by a tab.",
	.examples = "  ps-work predict -C demo.run new.csv > scores.txt\n",
	.opts = predict_opts,
	.nopts = sizeof predict_opts / sizeof *predict_opts,
	.max_args = -1,
};

static void print_eval(json_t *r, bool json)
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
	json_object_foreach(r, key, v)
		printf("%s\t%.9g\n", key, json_number_value(v));
}

int cmd_eval(int argc, char **argv)
{
	struct options o = { 0 };
	struct identity id;
	struct err e = { 0 };
	struct tool tool;
	struct log log;
	json_t *r = NULL;
	int nargs, code = where_parse(&eval_spec, &o, argc, argv, &nargs);

	if (code)
		return code - 1;
	log_init(&log, "eval", 2, (enum log_level)where_level(&o.where, LOG_LEVEL_WARN));
	if (where_tool(&o.where, "auto", &log, &id, &tool, &e))
		return fail(eval_spec.prog, &e);
	if (tool_eval(&tool, (const char *const *)argv + 1, (size_t)nargs, &r, &e))
		code = fail(eval_spec.prog, &e);
	else
		print_eval(r, o.json);
	json_decref(r);
	tool_close(&tool);
	identity_release(&id);
	return code;
}

int cmd_predict(int argc, char **argv)
{
	struct options o = { 0 };
	struct identity id;
	struct err e = { 0 };
	struct tool tool;
	struct log log;
	int nargs, code = where_parse(&predict_spec, &o, argc, argv, &nargs);

	if (code)
		return code - 1;
	log_init(&log, "predict", 2, (enum log_level)where_level(&o.where, LOG_LEVEL_WARN));
	if (where_tool(&o.where, "auto", &log, &id, &tool, &e))
		return fail(predict_spec.prog, &e);
	if (tool_predict(&tool, (const char *const *)argv + 1, (size_t)nargs, STDOUT_FILENO, &e))
		code = fail_output(predict_spec.prog, &e);
	tool_close(&tool);
	identity_release(&id);
	return code;
}

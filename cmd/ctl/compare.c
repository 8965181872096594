/* SPDX-License-Identifier: ISC */
#include "lab/compare.h"

#include "ctl.h"

struct options {
	struct curve_options curves;
	const char *across;
	bool json, all;
};

static const struct opt opts[] = {
	{ "across", 'x', OPT_CHOICE, offsetof(struct options, across), "WHAT",
	    "draw one plot of all runs across this: steps, seconds, bytes or examples",
	    CURVE_AXIS_CHOICES, 0, 0 },
	{ "metric", 'm', OPT_STR, offsetof(struct options, curves.metric), "NAME",
	    "draw this metric (the evaluation's loss, or train_loss)", NULL, 0, 0 },
	{ "target", 't', OPT_STR, offsetof(struct options, curves.target), "VALUE",
	    "print the steps, seconds, bytes and examples until this value (the worst of the "
	    "runs' best values)",
	    NULL, 0, 0 },
	{ "output", 'o', OPT_STR, offsetof(struct options, curves.file), "FILE",
	    "write the plot to a file: FILE.svg, FILE.html or FILE.tsv", NULL, 0, 0 },
	{ "all", 'a', OPT_FLAG, offsetof(struct options, all), NULL,
	    "print every setting, figure and curve, not one page of them", NULL, 0, 0 },
	CTL_OPT_JSON(struct options, json),
};

static int run_compare(const struct ctl_cmd *self, int argc, char **argv)
{
	struct options o = { 0 };
	struct compare_options to = { 0 };
	struct err e = { 0 };
	int nargs, code;

	if (!ctl_parse(self, &o, argc, argv, &nargs, &code))
		return code;
	to.json = o.curves.json = o.json;
	to.all = o.all;
	if (o.across || o.curves.metric || o.curves.target || o.curves.file)
		to.curves = &o.curves;
	o.curves.across = curve_axis_find(o.across ? o.across : "steps");
	return compare_runs(argv + 1, (size_t)nargs, &to, &e) ? ctl_fail(&e) : 0;
}

const struct ctl_cmd ctl_cmd_compare = {
	"compare",
	{
	    .prog = "ps-ctl compare",
	    .args = "RUN RUN ...",
	    .about = "compare runs: settings that differ, results, curves, a plot",
	    .more =
	        "RUN is a run directory, as NAME.run.1, of a run in any state. Curves are shown at steps that all\n"
	        "runs have reached: the training loss is interpolated between samples, and evaluations are shown at\n"
	        "common steps: the training loss and that of the evaluations on one page; --all prints everything.\n"
	        "The exit code is 0 whether they differ or not.\n"
	        "\n"
	        "With --across, --metric, --target or --output one plot shows a metric of all runs, with the\n"
	        "settings that differ as its legend, and a table shows the steps, seconds, bytes and examples of\n"
	        "each run until the metric reached the target. Without --output the plot is printed. The exit code\n"
	        "is 4 if no run has the metric.",
	    .opts = opts,
	    .nopts = CTL_COUNT(opts),
	    .min_args = 2,
	    .max_args = COMPARE_RUNS_MAX,
	    .examples =
	        "  ps-ctl compare lin.run.1 lin.run\n"
	        "  ps-ctl compare a.run b.run --across seconds --metric auc --target 0.8\n"
	        "  ps-ctl compare lin.sweep/*.run --across bytes -o plot.svg\n"
	        "  ps-ctl compare a.run b.run --json | jq -c 'select(.kind == \"setting\")'\n",
	},
	run_compare,
};

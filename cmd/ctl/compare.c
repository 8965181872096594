/* SPDX-License-Identifier: ISC */
#include "lab/compare.h"

#include "ctl.h"

struct options {
	bool json;
};

static const struct opt opts[] = {
	CTL_OPT_JSON(struct options, json),
};

static int run_compare(const struct ctl_cmd *self, int argc, char **argv)
{
	struct options o = { 0 };
	struct err e = { 0 };
	int nargs, code;

	if (!ctl_parse(self, &o, argc, argv, &nargs, &code))
		return code;
	return compare_runs(argv + 1, (size_t)nargs, o.json, &e) ? ctl_fail(&e) : 0;
}

const struct ctl_cmd ctl_cmd_compare = {
	"compare",
	{
	    .prog = "ps-ctl compare",
	    .args = "RUN RUN ...",
	    .about = "runs side by side: settings that differ, results, curves",
	    .more =
	        "RUN is a run directory, as NAME.run.1, of a run in whatever state.  Curves are "
	        "shown at steps that all\n"
	        "have reached: the training loss between its samples, an evaluation where all had "
	        "one.  The exit code is\n"
	        "0 whether they differ or not.",
	    .opts = opts,
	    .nopts = CTL_COUNT(opts),
	    .min_args = 2,
	    .max_args = COMPARE_RUNS_MAX,
	    .examples =
	        "  ps-ctl compare lin.run.1 lin.run\n"
	        "  ps-ctl compare a.run b.run --json | jq -c 'select(.kind == \"setting\")'\n",
	},
	run_compare,
};

/* SPDX-License-Identifier: ISC */
#include "lab/sweep.h"

#include "ctl.h"

static const struct opt opts[] = {
	{ "grid", 'g', OPT_LIST, offsetof(struct sweep_options, grid), "KEY=VALUE,...",
	    "the values of a key to try; with several keys, all combinations", NULL, 0, 0 },
	{ "range", 'r', OPT_LIST, offsetof(struct sweep_options, range), "KEY=LOW..HIGH",
	    "a range of a key to draw values from; :log or :linear may follow", NULL, 0, 0 },
	{ "random", 0, OPT_INT, offsetof(struct sweep_options, random), "N",
	    "draw N points of the grids and ranges, instead of all combinations", NULL, 1, 10000 },
	{ "seed", 0, OPT_INT, offsetof(struct sweep_options, seed), "N",
	    "the same seed draws the same points (1)", NULL, 0, 9e15 },
	{ "asha", 'a', OPT_STR, offsetof(struct sweep_options, asha), "RUNGS",
	    "stop points that are not among the best: min=STEPS[,max=STEPS][,eta=N]", NULL, 0, 0 },
	{ "metric", 'm', OPT_STR, offsetof(struct sweep_options, metric), "NAME",
	    "compare points by this metric (the evaluation's loss, or train_loss)", NULL, 0, 0 },
	{ "across", 'x', OPT_CHOICE, offsetof(struct sweep_options, across), "WHAT",
	    "plot all points across this: steps, seconds, bytes or examples", CURVE_AXIS_CHOICES, 0,
	    0 },
	{ "plot", 'p', OPT_STR, offsetof(struct sweep_options, plot), "FILE",
	    "write the plot to a file: FILE.svg, FILE.html or FILE.tsv", NULL, 0, 0 },
	{ "set", 's', OPT_LIST, offsetof(struct sweep_options, set), "KEY=VALUE",
	    "change a key of the cluster file, for all runs", NULL, 0, 0 },
	{ "jobs", 'j', OPT_INT, offsetof(struct sweep_options, jobs), "N",
	    "number of runs at the same time (1; with --slurm all)", NULL, 1, 1024 },
	{ "slurm", 0, OPT_FLAG, offsetof(struct sweep_options, slurm), NULL,
	    "run the points as array tasks of Slurm", NULL, 0, 0 },
	{ "output", 'o', OPT_STR, offsetof(struct sweep_options, folder), "FOLDER",
	    "the directory of the runs (NAME.sweep beside the cluster file)", NULL, 0, 0 },
	CTL_OPT_JSON(struct sweep_options, json),
};

static int run_sweep(const struct ctl_cmd *self, int argc, char **argv)
{
	struct sweep_options o = { .seed = 1 };
	struct err e = { 0 };
	int nargs, code;

	if (!ctl_parse(self, &o, argc, argv, &nargs, &code))
		return code;
	if (o.grid.n + o.range.n == 0)
		code = ctl_report_misuse(self,
		    "--grid KEY=VALUE,VALUE is required, or --range with --random");
	else if (sweep_run(argv[1], &o, &code, &e))
		code = ctl_fail(&e);
	opt_list_release(&o.grid);
	opt_list_release(&o.range);
	opt_list_release(&o.set);
	return code;
}

const struct ctl_cmd ctl_cmd_sweep = {
	"sweep",
	{
	    .prog = "ps-ctl sweep",
	    .args = "FILE",
	    .about =
	        "run a cluster file with all combinations of some values, or random ones, and report the best",
	    .more =
	        "Each run has its run directory in NAME.sweep. A run that is done there is not repeated, and an\n"
	        "interrupted run is resumed, so an interrupted sweep can be started again, also with more values.\n"
	        "If a run fails, this is reported, the others continue, and the exit code is 1. SIGINT and SIGTERM\n"
	        "end the current runs, which write a checkpoint: exit code 75. A comma within [ ] or after a\n"
	        "backslash belongs to the value.\n"
	        "\n"
	        "A range of positive real numbers is logarithmic unless :linear follows. With --asha a point trains\n"
	        "for min steps, and only the best one of eta (3) points continues to eta times as many steps, and\n"
	        "so on up to max (job.steps). Points that were stopped keep their result.",
	    .opts = opts,
	    .nopts = CTL_COUNT(opts),
	    .min_args = 1,
	    .max_args = 1,
	    .examples =
	        "  ps-ctl sweep cluster --grid lr=0.1,0.01 --grid sync=bsp,ssp:3 -j 2\n"
	        "  ps-ctl sweep cluster --range lr=1e-4..1 --grid batch=32,64 --random 20 --across seconds\n"
	        "  ps-ctl sweep cluster --range lr=1e-4..1 --random 27 --asha min=100,max=2700 -j 4\n"
	        "  ps-ctl sweep net --grid 'hidden=[64],[64,32]' --json | tail -n 1 | jq .best\n",
	},
	run_sweep,
};

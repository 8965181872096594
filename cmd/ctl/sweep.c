/* SPDX-License-Identifier: ISC */
#include "lab/sweep.h"

#include "ctl.h"

static const struct opt opts[] = {
	{ "grid", 'g', OPT_LIST, offsetof(struct sweep_options, grid), "KEY=VALUE,...",
	    "the values of a key to try; of several keys all combinations", NULL, 0, 0 },
	{ "set", 's', OPT_LIST, offsetof(struct sweep_options, set), "KEY=VALUE",
	    "change a key of the cluster file, for all runs", NULL, 0, 0 },
	{ "jobs", 'j', OPT_INT, offsetof(struct sweep_options, jobs), "N",
	    "so many runs at once (1)", NULL, 1, 1024 },
	{ "output", 'o', OPT_STR, offsetof(struct sweep_options, folder), "FOLDER",
	    "where the runs go (NAME.sweep beside the cluster file)", NULL, 0, 0 },
	CTL_OPT_JSON(struct sweep_options, json),
};

static int run_sweep(const struct ctl_cmd *self, int argc, char **argv)
{
	struct sweep_options o = { .jobs = 1 };
	struct err e = { 0 };
	int nargs, code;

	if (!ctl_parse(self, &o, argc, argv, &nargs, &code))
		return code;
	if (o.grid.n == 0)
		code = ctl_report_misuse(self,
		    "--grid KEY=VALUE,VALUE is missing: name the values to try");
	else if (sweep_run(argv[1], &o, &code, &e))
		code = ctl_fail(&e);
	opt_list_release(&o.grid);
	opt_list_release(&o.set);
	return code;
}

const struct ctl_cmd ctl_cmd_sweep = {
	"sweep",
	{
	    .prog = "ps-ctl sweep",
	    .args = "FILE",
	    .about =
	        "run a cluster file with all combinations of some values, and say which was best",
	    .more =
	        "Each run has its run directory in NAME.sweep.  What is done there is not run "
	        "again, and a run that was\n"
	        "interrupted goes on, so a sweep that was ended can be called again, or with more "
	        "values.  A run that fails\n"
	        "is reported, and the others go on; the exit code is 1 then.  SIGINT and SIGTERM end the present runs, with a\n"
	        "checkpoint: exit code 75.  A comma within [ ] or after a backslash belongs to the value.",
	    .opts = opts,
	    .nopts = CTL_COUNT(opts),
	    .min_args = 1,
	    .max_args = 1,
	    .examples =
	        "  ps-ctl sweep cluster --grid lr=0.1,0.01 --grid sync=bsp,ssp:3 -j 2\n"
	        "  ps-ctl sweep net --grid 'hidden=[64],[64,32]' --json | tail -n 1 | jq .best\n",
	},
	run_sweep,
};

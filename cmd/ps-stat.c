/* SPDX-License-Identifier: ISC */
#include <stddef.h>

#include "auth/keys.h"
#include "cmd/stat/stat.h"
#include "core/opt.h"
#include "core/output.h"
#include "core/process_one.h"

#define FIELD(name) offsetof(struct stat_options, name)
static const struct opt opts[] = {
	{ "run-dir", 'C', OPT_STR, FIELD(run_dir), "DIR", "the cluster's run directory", NULL, 0,
	    0 },
	{ "join", 0, OPT_STR, FIELD(join), "FILE",
	    "connect to a cluster on another host, with the join file of an admin or worker", NULL,
	    0, 0 },
	{ "no-header", 'H', OPT_FLAG, FIELD(no_header), NULL,
	    "print no header, and single tabs between columns", NULL, 0, 0 },
	{ "exact", 'p', OPT_FLAG, FIELD(exact), NULL, "print exact numbers", NULL, 0, 0 },
	{ "skip-first", 'y', OPT_FLAG, FIELD(skip_first), NULL,
	    "omit the first report, which covers the time since the start", NULL, 0, 0 },
	{ "header-once", 0, OPT_FLAG, FIELD(header_once), NULL, "do not repeat the header", NULL, 0,
	    0 },
	{ "columns", 'k', OPT_LIST, FIELD(columns), "COLS", "columns, separated by commas", NULL, 0,
	    0 },
	{ "output", 'o', OPT_LIST, FIELD(output), "FORMAT",
	    "format of the output: table, wide (all columns), tsv, csv, json, prom; of a plot svg or png",
	    NULL, 0, 0 },
	{ "sort", 'S', OPT_STR, FIELD(sort), "COL", "sort the rows by this column, largest first",
	    NULL, 0, 0 },
	{ "totals", 'v', OPT_FLAG, FIELD(totals), NULL,
	    "add a row of totals; in the view cluster, print a row for each server, too", NULL, 0,
	    0 },
	{ "histograms", 'w', OPT_FLAG, FIELD(histograms), NULL,
	    "print histograms of staleness, push latency and apply time", NULL, 0, 0 },
	{ "time", 'T', OPT_CHOICE, FIELD(time), "u|d",
	    "the time of each row: seconds since 1970, or a date", "u|d", 0, 0 },
	{ "command", 'c', OPT_STR, FIELD(command), "CMD",
	    "add columns: the NAME=VALUE lines that this command prints for a row", NULL, 0, 0 },
	{ "csv", 0, OPT_STR, FIELD(csv), "FILE", "also write the rows to a file", NULL, 0, 0 },
	{ "json", 0, OPT_FLAG, FIELD(json), NULL, "print JSON Lines, one object for each row", NULL,
	    0, 0 },
	{ "tsv", 0, OPT_FLAG, FIELD(tsv), NULL, "print values separated by tabs, with a header",
	    NULL, 0, 0 },
	{ "prom", 0, OPT_FLAG, FIELD(prom), NULL,
	    "print metrics of the whole cluster for Prometheus", NULL, 0, 0 },
	{ "across", 0, OPT_STR, FIELD(across), "COL",
	    "the horizontal axis of a plot: seconds (default), step, examples", NULL, 0, 0 },
};

static const struct opt_spec spec = {
	.prog = "ps-stat",
	.args = "[VIEW] [INTERVAL [COUNT]]",
	.about = "Report statistics of a cluster, once or every INTERVAL seconds, as vmstat does.",
	.more =
	    "Views: cluster (default), workers, servers, tables, why; top: the full screen; plot COLUMN ...:\n"
	    "curves. The first report covers the time since the start, later ones cover the last interval. An\n"
	    "empty value is \"-\".",
	.examples =
	    "  ps-stat 1                                 # a line a second\n"
	    "  ps-stat top                               # the full screen: slow workers, and why\n"
	    "  ps-stat workers -S slow 2                 # the slowest first\n"
	    "  ps-stat why                               # waits, their reasons and remedies\n"
	    "  ps-stat -w                                # how long pushes take, in buckets\n"
	    "  ps-stat plot loss                         # the curve so far\n"
	    "  ps-stat -Hp -k step,loss 1 | awk '{ print $2 }'\n"
	    "  ps-stat --json 1 | jq -c '[.step, .train_loss]'\n",
	.opts = opts,
	.nopts = sizeof opts / sizeof *opts,
	.max_args = -1,
};

static int start_ps_stat(struct stat_options *o, int argc, char **argv)
{
	struct err e = { 0 };
	struct plan plan;
	int nargs, code;

	switch (opt_parse(&spec, o, argc, argv, &nargs)) {
	case OPT_EXIT_OK:
		return 0;
	case OPT_EXIT_USAGE:
		return 2;
	case OPT_GO:
		break;
	}
	code = plan_make(o, nargs, argv, &plan);
	if (code)
		return code;
	if (key_init(&e)) {
		fprintf(stderr, "ps-stat: %s\n", e.msg);
		return err_exit_code(e.code);
	}
	return plan.view->run ? plan.view->run(&plan) : stream_run(&plan);
}

int main(int argc, char **argv)
{
	struct stat_options o = { 0 };
	int code;

	process_one_begin();
	output_begin();
	code = output_end("ps-stat", start_ps_stat(&o, argc, argv));
	opt_list_release(&o.columns);
	opt_list_release(&o.output);
	return code;
}

/* SPDX-License-Identifier: ISC */
#include <stddef.h>
#include <unistd.h>

#include "cmd/work/cmd.h"
#include "cmd/work/common.h"

/* The commands pull and push: write one table to standard output, apply one gradient from standard
 * input. */

struct options {
	struct where where;
};

static const struct opt opts[] = { WHERE_OPTS(struct options) };

static const struct opt_spec pull_spec = {
	.prog = "ps-work pull",
	.args = "TABLE",
	.about =
	    "Write a table to stdout: a dense one as npy, a sparse one as text (id, then the row's values).",
	.examples = "  ps-work pull w0 -C demo.run > w0.npy\n",
	.opts = opts,
	.nopts = sizeof opts / sizeof *opts,
	.min_args = 1,
	.max_args = 1,
};

static const struct opt_spec push_spec = {
	.prog = "ps-work push",
	.args = "TABLE [FILE]",
	.about =
	    "Apply a gradient (npy of the table's shape, from FILE or stdin) to a dense table.",
	.more =
	    "The push does not belong to the job: it has no rank, no process waits for it, and it is applied\n"
	    "once, on arrival, with the job's update rule and its learning rate of step 0.",
	.examples = "  ps-work push w0 -C demo.run < gradient.npy\n",
	.opts = opts,
	.nopts = sizeof opts / sizeof *opts,
	.min_args = 1,
	.max_args = 2,
};

static enum err_code pull_table(struct admin_client *t, const void *options, int nargs, char **argv,
    struct err *e)
{
	(void)options;
	(void)nargs;
	if (isatty(STDOUT_FILENO))
		return err_set(e, ERR_USAGE,
		    "standard output is a terminal: redirect the table to a file");
	return tool_pull(t, argv[1], STDOUT_FILENO, e);
}

static enum err_code push_gradient(struct admin_client *t, const void *options, int nargs,
    char **argv, struct err *e)
{
	(void)options;
	return tool_push(t, argv[1], nargs > 1 ? argv[2] : "-", e);
}

static int run_table_command(const struct opt_spec *spec, int argc, char **argv, where_fn fn)
{
	struct options o = { 0 };
	int nargs, code = where_parse(spec, &o, argc, argv, &nargs);

	return code ? code - 1 : where_run(spec, &o.where, &o, nargs, argv, fn);
}

int cmd_pull(int argc, char **argv)
{
	return run_table_command(&pull_spec, argc, argv, pull_table);
}

int cmd_push(int argc, char **argv)
{
	return run_table_command(&push_spec, argc, argv, push_gradient);
}

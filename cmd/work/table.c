#include <stddef.h>
#include <unistd.h>

#include "cmd/work/cmd.h"
#include "cmd/work/common.h"

/* pull and push: one table to stdout, one gradient from stdin. */

struct options {
	struct where where;
};

static const struct opt opts[] = { WHERE_OPTS(struct options) };

static const struct opt_spec pull_spec = {
	.prog = "ps-work pull",
	.args = "TABLE",
	.about = "Write a table to stdout: a dense one as npy, a sparse one as text (id, then the row's values).",
	.examples = "  ps-work pull w0 -C demo.run > w0.npy\n",
	.opts = opts,
	.nopts = sizeof opts / sizeof *opts,
	.min_args = 1,
	.max_args = 1,
};

static const struct opt_spec push_spec = {
	.prog = "ps-work push",
	.args = "TABLE [FILE]",
	.about = "Apply a gradient (npy of the table's shape, from FILE or stdin) to a dense table, once, at once.",
	.more = "The push is outside the job: it has no slot, nobody waits for it, and it is applied on arrival with the\n"
	    "job's update rule and learning rate.",
	.examples = "  ps-work push w0 -C demo.run < gradient.npy\n",
	.opts = opts,
	.nopts = sizeof opts / sizeof *opts,
	.min_args = 1,
	.max_args = 2,
};

static int with_tool(const struct opt_spec *spec, int argc, char **argv,
    enum err_code (*fn)(struct tool *, int nargs, char **argv, struct err *))
{
	struct options o = { 0 };
	struct identity id;
	struct err e = { 0 };
	struct tool tool;
	struct log log;
	int nargs, code = where_parse(spec, &o, argc, argv, &nargs);

	if (code)
		return code - 1;
	log_init(&log, spec->prog, 2, (enum log_level)where_level(&o.where, LOG_LEVEL_WARN));
	if (where_tool(&o.where, "auto", &log, &id, &tool, &e))
		return fail(spec->prog, &e);
	if (fn(&tool, nargs, argv, &e))
		code = fail_output(spec->prog, &e);
	tool_close(&tool);
	identity_release(&id);
	return code;
}

static enum err_code pull(struct tool *t, int nargs, char **argv, struct err *e)
{
	(void)nargs;
	if (isatty(STDOUT_FILENO))
		return err_set(e, ERR_USAGE, "stdout is a terminal: redirect the table to a file");
	return tool_pull(t, argv[1], STDOUT_FILENO, e);
}

static enum err_code push(struct tool *t, int nargs, char **argv, struct err *e)
{
	return tool_push(t, argv[1], nargs > 1 ? argv[2] : "-", e);
}

int cmd_pull(int argc, char **argv)
{
	return with_tool(&pull_spec, argc, argv, pull);
}

int cmd_push(int argc, char **argv)
{
	return with_tool(&push_spec, argc, argv, push);
}

/* SPDX-License-Identifier: ISC */
#include <stddef.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "auth/keys.h"
#include "cmd/work/cmd.h"
#include "core/file.h"
#include "core/opt.h"
#include "core/output.h"
#include "core/process_one.h"
#include "core/suggest.h"
#include "math/blas.h"
#include "rundir/rundir.h"

/* The commands; each parses its own options. */
static const struct sub {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *help;
} subs[] = {
	{ "train", cmd_train, "run the training loop as one worker of a cluster" },
	{ "eval", cmd_eval, "evaluate the present model on data" },
	{ "predict", cmd_predict, "print one prediction for each example" },
	{ "words", cmd_words, "print the nearest words, or all vectors" },
	{ "nearest", cmd_nearest, "print the nearest rows of a table" },
	{ "explain", cmd_explain,
	    "print weights, the importance of features, or the parts of a prediction" },
	{ "pull", cmd_pull, "write one table to stdout" },
	{ "push", cmd_push, "apply a gradient from stdin to one table" },
	{ "bench", cmd_bench, "measure the data plane" },
	{ "floats", cmd_floats, "convert text to raw float32, and back" },
};
#define NSUBS (sizeof subs / sizeof *subs)

static void print_commands(FILE *f)
{
	fprintf(f,
	    "usage: ps-work COMMAND [options]\nOne worker of a pskit cluster.\n\ncommands:\n");
	for (size_t i = 0; i < NSUBS; i++)
		fprintf(f, "  %-10s %s\n", subs[i].name, subs[i].help);
	fprintf(f,
	    "\n"
	    "ps-work COMMAND -h prints the options of a command, and ps-work --version the version.\n");
}

/* Has ps-ctl a subcommand of this name? */
static bool is_ctl_subcommand(const char *word)
{
	static const char *const names[] = {
#define CTL(name) #name,
#include "cmd/ctl/ctl.def"
#undef CTL
	};

	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (strcmp(names[i], word) == 0)
			return true;
	return false;
}

static int report_unknown_command(const char *word)
{
	const char *names[NSUBS], *near;

	for (size_t i = 0; i < NSUBS; i++)
		names[i] = subs[i].name;
	near = suggest(word, names, NSUBS);
	if (is_ctl_subcommand(word))
		fprintf(stderr,
		    "ps-work: unknown command \"%s\"; did you mean \"ps-ctl %s\"? (see ps-ctl -h)\n",
		    word, word);
	else if (near)
		fprintf(stderr,
		    "ps-work: unknown command \"%s\"; did you mean \"%s\"? (see ps-work -h)\n",
		    word, near);
	else
		fprintf(stderr, "ps-work: unknown command \"%s\" (see ps-work -h)\n", word);
	return 2;
}

/* Returns the exit code. An option before the command is parsed with a specification that has none,
 * so that --version works and anything else is reported as usual. --ps-complete lists the commands
 * for the shells' completion. */
static int start_ps_work(int argc, char **argv)
{
	static const struct opt_spec none = { .prog = "ps-work", .args = "COMMAND", .about = "" };
	struct rlimit no_core = { 0, 0 };
	struct err e = { 0 };

	setrlimit(RLIMIT_CORE, &no_core); /* keys are in memory */
	if (key_init(&e))
		return err_report("ps-work", &e);
	if (argc < 2) {
		print_commands(stderr);
		return 2;
	}
	if (strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "--help") == 0) {
		print_commands(stdout);
		return 0;
	}
	if (strcmp(argv[1], "--ps-complete") == 0) {
		for (size_t i = 0; i < NSUBS; i++)
			puts(subs[i].name);
		return 0;
	}
	if (argv[1][0] == '-') {
		int nargs;

		return opt_parse(&none, NULL, argc, argv, &nargs) == OPT_EXIT_OK ? 0 : 2;
	}
	for (size_t i = 0; i < NSUBS; i++)
		if (strcmp(argv[1], subs[i].name) == 0)
			return subs[i].run(argc - 1, argv + 1);
	return report_unknown_command(argv[1]);
}

/* Starts this program again with the kernels of OpenBLAS that suit the processor, if it has chosen
 * others and the user has not chosen any. A --exec program inherits the choice. */
static void restart_with_better_core(char **argv)
{
	const char *core = blas_better_core();

	if (!core || getenv("OPENBLAS_CORETYPE") || setenv("OPENBLAS_CORETYPE", core, 1))
		return;
	execv("/proc/self/exe", argv);
}

int main(int argc, char **argv)
{
	process_one_begin();
	restart_with_better_core(argv);
	output_begin();
	blas_init();
	return output_end("ps-work", start_ps_work(argc, argv));
}

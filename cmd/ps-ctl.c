/* SPDX-License-Identifier: ISC */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "auth/keys.h"
#include "core/mem.h"
#include "core/output.h"
#include "core/process_one.h"
#include "ctl/ctl.h"

/* whole: with the list of exit codes, for --help; without it, for a wrong use. */
static void print_help(FILE *f, bool whole)
{
	const struct ctl_cmd *cmd;

	fprintf(f,
	    "usage: ps-ctl [-C DIR] SUBCOMMAND [options] [operands]\n"
	    "Start, watch and steer a parameter server cluster.\n\nsubcommands:\n");
	for (size_t i = 0; (cmd = ctl_at(i)) != NULL; i++)
		fprintf(f, "  %-12s %s\n", cmd->name, cmd->usage.about);
	fprintf(f,
	    "\noptions:\n"
	    "  -C, --cluster DIR  the cluster's run directory; else $PS_CLUSTER, else the one\n"
	    "                     that runs in this folder (may also follow the subcommand)\n"
	    "  -h, --help         print this help; ps-ctl SUBCOMMAND -h describes a subcommand\n"
	    "      --version      version and exit\n"
	    "\nexamples:\n"
	    "  ps-ctl init                # a cluster file to begin with\n"
	    "  ps-ctl run cluster         # train, and print the result\n"
	    "  ps-ctl start cluster && ps-ctl wait --for done && ps-ctl stop\n");
	if (!whole)
		return;
	fprintf(f,
	    "\nexit codes: 0 done or true, 1 failed, 2 usage, 3 not running or not ready, 4 no "
	    "such\nthing, 5 authentication refused, 6 cannot reach, 75 stopped early (state saved), "
	    "78 bad\nconfiguration, 124 own time-out, 128+N ended by signal N\n");
}

static int report_misuse(const char *what, const char *value, const char *near)
{
	if (near)
		fprintf(stderr, "ps-ctl: %s \"%.60s\"; did you mean \"%s\"? (see ps-ctl -h)\n",
		    what, value, near);
	else
		fprintf(stderr, "ps-ctl: %s \"%.60s\" (see ps-ctl -h)\n", what, value);
	return 2;
}

/* The program that has a command or view of this name; NULL: none has. */
static const char *find_other_program(const char *name)
{
	static const char *const work[] = { "train", "eval", "predict", "words", "pull", "push",
		"bench", "floats" };
	static const char *const stat[] = {
#define VIEW(name) #name,
#include "cmd/stat/stat.def"
#undef VIEW
	};

	for (size_t i = 0; i < sizeof work / sizeof *work; i++)
		if (strcmp(name, work[i]) == 0)
			return "ps-work";
	for (size_t i = 0; i < sizeof stat / sizeof *stat; i++)
		if (strcmp(name, stat[i]) == 0)
			return "ps-stat";
	return NULL;
}

static int report_unknown_subcommand(const char *name)
{
	const char *program = find_other_program(name);

	if (!program)
		return report_misuse("unknown subcommand", name, ctl_suggest(name));
	fprintf(stderr,
	    "ps-ctl: unknown subcommand \"%.60s\"; did you mean \"%s %.60s\"? (see %s -h)\n", name,
	    program, name, program);
	return 2;
}

static void print_completion_names(void)
{
	for (size_t i = 0; ctl_at(i) != NULL; i++)
		puts(ctl_at(i)->name);
	printf("help\n--cluster\n--help\n--version\n");
}

static int print_version(void)
{
	char name[] = "version";
	char *argv[] = { name, NULL };

	return ctl_cmd_version.run(&ctl_cmd_version, 1, argv);
}

/* ps-ctl help [SUBCOMMAND]. name: the subcommand, or NULL. */
static int print_help_for(const char *name)
{
	const struct ctl_cmd *cmd = name ? ctl_find(name) : NULL;

	if (name && !cmd)
		return report_unknown_subcommand(name);
	if (cmd)
		opt_help(&cmd->usage, stdout, true);
	else
		print_help(stdout, true);
	return 0;
}

/* Handle an option that needs no subcommand. False: it is another option. */
static bool answer_option(const char *arg, int *code)
{
	if (strcmp(arg, "-h") == 0)
		print_help(stdout, false);
	else if (strcmp(arg, "--help") == 0)
		print_help(stdout, true);
	else if (strcmp(arg, "--version") == 0)
		*code = print_version();
	else if (strcmp(arg, "--ps-complete") == 0)
		print_completion_names();
	else
		return false;
	return true;
}

/* Parse the options before the subcommand. True: the subcommand is argv[*at], and *dir is the
 * cluster's directory if it was given. False: *code is the exit code. */
static bool parse_leading_options(int argc, char **argv, int *at, char **dir, int *code)
{
	*code = 0;
	for (*at = 1; *at < argc && argv[*at][0] == '-'; ++*at) {
		char *arg = argv[*at];

		if (answer_option(arg, code))
			return false;
		if (strncmp(arg, "--cluster=", 10) == 0)
			*dir = arg + 10;
		else if (arg[1] == 'C' && arg[2])
			*dir = arg + 2;
		else if (strcmp(arg, "-C") != 0 && strcmp(arg, "--cluster") != 0)
			*code = report_misuse("unknown option", arg, NULL);
		else if (*at + 1 < argc)
			*dir = argv[++*at];
		else
			*code = report_misuse("a directory must follow", arg, NULL);
		if (*code != 0)
			return false;
	}
	if (*at < argc)
		return true;
	print_help(stderr, false);
	*code = 2;
	return false;
}

/* Run the subcommand. A -C before it is passed on as its own option, so that both places mean the
 * same. */
static int run_subcommand(const struct ctl_cmd *cmd, char *dir, int argc, char **argv)
{
	char **args = mem_array((size_t)argc + 3, sizeof *args);
	char option[] = "-C";
	int n = 0, code;

	args[n++] = argv[0];
	if (dir) {
		args[n++] = option;
		args[n++] = dir;
	}
	for (int i = 1; i < argc; i++)
		args[n++] = argv[i];
	code = cmd->run(cmd, n, args);
	free(args);
	return code;
}

static int start_ps_ctl(int argc, char **argv)
{
	const struct ctl_cmd *cmd;
	struct err e = { 0 };
	char *dir = NULL;
	int at, code;

	if (!parse_leading_options(argc, argv, &at, &dir, &code))
		return code;
	if (strcmp(argv[at], "help") == 0)
		return print_help_for(at + 1 < argc ? argv[at + 1] : NULL);
	cmd = ctl_find(argv[at]);
	if (!cmd)
		return report_unknown_subcommand(argv[at]);
	if (key_init(&e) != ERR_OK)
		return ctl_fail(&e);
	return run_subcommand(cmd, dir, argc - at, argv + at);
}

int main(int argc, char **argv)
{
	process_one_begin();
	output_begin();
	setvbuf(stdout, NULL, _IOLBF, 0);
	return output_end("ps-ctl", start_ps_ctl(argc, argv));
}

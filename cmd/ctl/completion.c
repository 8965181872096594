/* SPDX-License-Identifier: ISC */
#include "completion.h"

#include <stdio.h>
#include <string.h>

#include "ctl.h"

static int run_completion(const struct ctl_cmd *self, int argc, char **argv)
{
	int nargs, code;

	/* The words belong to another command line: their options must not be parsed as ours. */
	if (argc > 3 && strcmp(argv[1], "words") == 0 && strcmp(argv[2], "--") == 0)
		return completion_words(argc - 3, argv + 3);
	if (!ctl_parse(self, NULL, argc, argv, &nargs, &code))
		return code;
	if (!completion_script(argv[1]))
		return ctl_report_misuse(self,
		    "there is no completion for \"%.60s\"; there is for bash, zsh and fish",
		    argv[1]);
	fputs(completion_script(argv[1]), stdout);
	return 0;
}

const struct ctl_cmd ctl_cmd_completion = {
	"completion",
	{
	    .prog = "ps-ctl completion",
	    .args = "bash|zsh|fish",
	    .about = "print a script that completes words of the four programs in a shell",
	    .more =
	        "It asks ps-ctl for what a word may become, so it is never out of date: subcommands, options and their\n"
	        "choices, keys of the cluster file, run directories, and of a living cluster its servers, workers and\n"
	        "tables, within 0.3 s.",
	    .min_args = 1,
	    .max_args = 1,
	    .examples = "  . <(ps-ctl completion bash)\n  ps-ctl completion fish | source\n",
	},
	run_completion,
};

#include <stdio.h>
#include <string.h>

#include "ctl.h"

/* Asks the programs themselves, so that it is never out of date; live names
 * come from the cluster, within a time limit that typing does not notice. */
static const char bash[] =
"# bash completion for ps-ctl: . <(ps-ctl completion bash)\n"
"_ps_ctl()\n"
"{\n"
"\tlocal cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
"\tlocal sub= cluster=() i words=\n"
"\tfor ((i = 1; i < COMP_CWORD; i++)); do\n"
"\t\tcase ${COMP_WORDS[i]} in\n"
"\t\t-C|--cluster) cluster=(-C \"${COMP_WORDS[i+1]}\"); ((i++)) ;;\n"
"\t\t-*) ;;\n"
"\t\t*) [[ $sub ]] || sub=${COMP_WORDS[i]} ;;\n"
"\t\tesac\n"
"\tdone\n"
"\tcase $prev in\n"
"\t-C|--cluster) mapfile -t COMPREPLY < <(compgen -d -X '!*.run' -- \"$cur\"); return ;;\n"
"\t--for) words='done ready step= workers= loss-below='; compopt -o nospace ;;\n"
"\t--role|-r) words='worker server relay monitor admin' ;;\n"
"\t--model|-m) words=$(timeout 1 ps-ctl list models 2>/dev/null | cut -d' ' -f1) ;;\n"
"\t--set|-s) words=$(timeout 1 ps-ctl list options 2>/dev/null | cut -d' ' -f1 |\n"
"\t\t\tsed 's/$/=/; p; s/^job[.]//')\n"
"\t\tcompopt -o nospace ;;\n"
"\tesac\n"
"\tif [[ -z $words && $cur == -* ]]; then\n"
"\t\twords=$(timeout 1 ps-ctl $sub --ps-complete 2>/dev/null)\n"
"\telif [[ -z $words ]]; then\n"
"\t\tcase $sub in\n"
"\t\t'') words=$(timeout 1 ps-ctl --ps-complete 2>/dev/null) ;;\n"
"\t\tlogs) words=$(timeout 0.3 ps-ctl \"${cluster[@]}\" status --json 2>/dev/null |\n"
"\t\t\tsed -n 's/.*\"id\":\"\\([^\"]*\\)\".*/\\1/p') ;;\n"
"\t\texport) words=all ;;\n"
"\t\tcheckpoint) words='take ls verify diff rm' ;;\n"
"\t\tlist) words='options models optimizers codecs modes schedules readers subcommands exit-codes' ;;\n"
"\t\tshow) words=$(timeout 1 ps-ctl list options 2>/dev/null | cut -d' ' -f1;\n"
"\t\t\ttimeout 1 ps-ctl list models 2>/dev/null | cut -d' ' -f1) ;;\n"
"\t\tcompletion) words=bash ;;\n"
"\t\thelp) words=$(timeout 1 ps-ctl list subcommands 2>/dev/null | cut -d' ' -f1) ;;\n"
"\t\trun|start) mapfile -t COMPREPLY < <(compgen -f -X '!*.json' -- \"$cur\"; compgen -d -- \"$cur\")\n"
"\t\t\treturn ;;\n"
"\t\tesac\n"
"\tfi\n"
"\tmapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n"
"}\n"
"complete -F _ps_ctl ps-ctl\n";

static int run(const struct ctl_cmd *self, int argc, char **argv)
{
	int nargs, code;

	if (!ctl_parse(self, NULL, argc, argv, &nargs, &code))
		return code;
	if (strcmp(argv[1], "bash") != 0)
		return ctl_misuse(self, "there is no completion for \"%.60s\"; bash is what there is", argv[1]);
	fputs(bash, stdout);
	return 0;
}

const struct ctl_cmd ctl_cmd_completion = {
	"completion",
	{
		.prog = "ps-ctl completion", .args = "bash",
		.about = "print a script that completes ps-ctl's words in the shell",
		.min_args = 1, .max_args = 1,
		.examples = "  . <(ps-ctl completion bash)\n",
	},
	run,
};

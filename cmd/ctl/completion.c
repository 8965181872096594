/* SPDX-License-Identifier: ISC */
#include "completion.h"

#include <stdio.h>
#include <string.h>

#include "ctl.h"

/* Each script hands the words to `ps-ctl completion words`, and offers what that prints. */

static const char bash[] =
    "# bash completion for ps-ctl, ps-serve, ps-stat and ps-work: . <(ps-ctl completion bash)\n"
    "_pskit()\n"
    "{\n"
    "\tlocal line=${COMP_LINE:0:COMP_POINT} cur word skip\n"
    "\tlocal -a words\n"
    "\t# bash cuts words at = and :, too; here they are parts of words.\n"
    "\tread -ra words <<<\"$line\"\n"
    "\t[[ $line == *[[:space:]] ]] && words+=(\"\")\n"
    "\tcur=${words[${#words[@]}-1]}\n"
    "\tskip=${cur%\"${cur##*[=:]}\"}\n"
    "\tCOMPREPLY=()\n"
    "\twhile IFS= read -r word; do\n"
    "\t\tcase $word in\n"
    "\t\t:nospace) compopt -o nospace 2>/dev/null ;;\n"
    "\t\t:files) compopt -o filenames 2>/dev/null; mapfile -t -O \"${#COMPREPLY[@]}\" COMPREPLY < "
    "<(compgen -f -- \"${cur#\"$skip\"}\") ;;\n"
    "\t\t:dirs) compopt -o filenames 2>/dev/null; mapfile -t -O \"${#COMPREPLY[@]}\" COMPREPLY < "
    "<(compgen -d -- \"${cur#\"$skip\"}\") ;;\n"
    "\t\t:json) compopt -o filenames 2>/dev/null; mapfile -t -O \"${#COMPREPLY[@]}\" COMPREPLY < <(\n"
    "\t\t\tcompgen -f -X '!*.json' -- \"$cur\"; compgen -d -- \"$cur\") ;;\n"
    "\t\t*)\n"
    "\t\t\tword=${word%%$'\\t'*}\n"
    "\t\t\tCOMPREPLY+=(\"${word#\"$skip\"}\") ;;\n"
    "\t\tesac\n"
    "\tdone < <(ps-ctl completion words -- \"${words[@]}\" 2>/dev/null)\n"
    "}\n"
    "complete -F _pskit ps-ctl ps-serve ps-stat ps-work\n";

static const char zsh[] =
    "#compdef ps-ctl ps-serve ps-stat ps-work\n"
    "# zsh completion: in a folder of $fpath as _ps-ctl, or . <(ps-ctl completion zsh)\n"
    "_pskit()\n"
    "{\n"
    "\tlocal line word\n"
    "\tlocal -a plain go_on shown shown_on\n"
    "\tlocal nospace= files=\n"
    "\twhile IFS= read -r line; do\n"
    "\t\tcase $line in\n"
    "\t\t:nospace) nospace=1 ;;\n"
    "\t\t:*) files=$line ;;\n"
    "\t\t*)\n"
    "\t\t\tword=${line%%$'\\t'*}\n"
    "\t\t\tplain+=(\"$word\")\n"
    "\t\t\tshown+=(\"${(r:24:)word} ${line#*$'\\t'}\") ;;\n"
    "\t\tesac\n"
    "\tdone < <(ps-ctl completion words -- \"${(@Q)words[1,CURRENT]}\" 2>/dev/null)\n"
    "\tif (( $#plain )); then\n"
    "\t\tif [[ -n $nospace ]]; then\n"
    "\t\t\tcompadd -S '' -l -d shown -a plain\n"
    "\t\telse\n"
    "\t\t\tcompadd -l -d shown -a plain\n"
    "\t\tfi\n"
    "\tfi\n"
    "\tcase $files in\n"
    "\t:files) _files ;;\n"
    "\t:dirs) _files -/ ;;\n"
    "\t:json) _files -g '*.json' ;;\n"
    "\tesac\n"
    "}\n"
    "if [[ $funcstack[1] == _ps-ctl ]]; then\n"
    "\t_pskit \"$@\"\n"
    "else\n"
    "\tcompdef _pskit ps-ctl ps-serve ps-stat ps-work\n"
    "fi\n";

static const char fish[] =
    "# fish completion for ps-ctl, ps-serve, ps-stat and ps-work: ps-ctl completion fish | source\n"
    "function __pskit_complete\n"
    "\tset -l cur (commandline -ct)\n"
    "\tset -l words (commandline -opc) \"$cur\"\n"
    "\tfor line in (ps-ctl completion words -- $words 2>/dev/null)\n"
    "\t\tswitch $line\n"
    "\t\t\tcase :nospace\n"
    "\t\t\tcase :files\n"
    "\t\t\t\t__fish_complete_path \"$cur\"\n"
    "\t\t\tcase :dirs\n"
    "\t\t\t\t__fish_complete_directories \"$cur\" ''\n"
    "\t\t\tcase :json\n"
    "\t\t\t\t__fish_complete_suffix .json\n"
    "\t\t\tcase '*'\n"
    "\t\t\t\techo $line\n"
    "\t\tend\n"
    "\tend\n"
    "end\n"
    "for program in ps-ctl ps-serve ps-stat ps-work\n"
    "\tcomplete -c $program -f -a '(__pskit_complete)'\n"
    "end\n";

/* The script of a shell, or NULL for any other. */
static const char *find_script(const char *shell)
{
	return strcmp(shell, "bash") == 0 ? bash
	    : strcmp(shell, "zsh") == 0   ? zsh
	    : strcmp(shell, "fish") == 0  ? fish
	                                  : NULL;
}

static int run_completion(const struct ctl_cmd *self, int argc, char **argv)
{
	int nargs, code;

	/* The words belong to another command line: their options must not be parsed as ours. */
	if (argc > 3 && strcmp(argv[1], "words") == 0 && strcmp(argv[2], "--") == 0)
		return completion_words(argc - 3, argv + 3);
	if (!ctl_parse(self, NULL, argc, argv, &nargs, &code))
		return code;
	if (!find_script(argv[1]))
		return ctl_report_misuse(self,
		    "there is no completion for \"%.60s\": must be bash, zsh or fish", argv[1]);
	fputs(find_script(argv[1]), stdout);
	return 0;
}

const struct ctl_cmd ctl_cmd_completion = {
	"completion",
	{
	    .prog = "ps-ctl completion",
	    .args = "bash|zsh|fish",
	    .about = "print a script that completes words of the four programs in a shell",
	    .more =
	        "The script asks ps-ctl for the completions of a word, so it is never out of date: subcommands,\n"
	        "options and their choices, keys of the cluster file, run directories, and the servers, workers and\n"
	        "tables of a running cluster, within 0.3 s.",
	    .min_args = 1,
	    .max_args = 1,
	    .examples = "  . <(ps-ctl completion bash)\n  ps-ctl completion fish | source\n",
	},
	run_completion,
};

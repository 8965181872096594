/* SPDX-License-Identifier: ISC */
#ifndef CTL_COMPLETION_H
#define CTL_COMPLETION_H

/* Completion of the four programs' command lines, for all shells. A shell's script runs `ps-ctl
 * completion words -- WORD ...` with the words typed so far, and gets candidates for the last one,
 * one "WORD\tHELP" a line. Lines that begin with ":" are instructions to the script: ":files",
 * ":dirs" and ":json" make it offer such files, too; ":nospace" makes it append no space.
 * Candidates that come from a running cluster are printed last: after COMPLETION_MS the process is
 * killed, so that no shell hangs, and the candidates printed before are still used. */
#define COMPLETION_MS 300

/* Prints candidates for the last of n words; the first is the program's name. Always returns 0,
 * which is the exit code. */
int completion_words(int n, char **word);

#endif

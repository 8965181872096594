/* SPDX-License-Identifier: ISC */
#ifndef CTL_COMPLETION_H
#define CTL_COMPLETION_H

#include <stdbool.h>
#include <stddef.h>

/* Completion of the four programs' command lines, for all shells.  A shell's script runs `ps-ctl
 * completion words -- WORD ...` with the words typed so far, and gets candidates for the last one,
 * one "WORD\tHELP" a line.  Lines that begin with ":" are instructions to the script: ":files",
 * ":dirs" and ":json" make it offer such files, too; ":nospace" makes it append no space.
 * Candidates that come from a running cluster are printed last: after COMPLETION_MS the process is
 * killed, so that no shell hangs, and the candidates printed before are still used. */
#define COMPLETION_MS 300

/* Prints candidates for the last of n words; the first is the program's name.  Always returns 0,
 * which is the exit code. */
int completion_words(int n, char **word);
/* Returns the script of a shell ("bash", "zsh", "fish"), or NULL for any other. */
const char *completion_script(const char *shell);

/* ---- inside ---- */

/* Lets SIGALRM kill this process after ms milliseconds.  The limit survives execv(). */
void completion_limit(int ms);

/* completion_offer.c prints the candidates for one word.  offer() prints a candidate when it begins
 * with the word; completion_offer_split() does that for each of "A|B|C" or "A,B,C", with `prefix` put in
 * front. */
struct offer {
	const char *word;    /* the word, as far as it is typed */
	const char *cluster; /* -C, or NULL */
};
void offer(const struct offer *o, const char *candidate, const char *help);
void completion_offer_split(const struct offer *o, const char *prefix, const char *choices);
/* Offers "KEY=" for the keys of the cluster file (live_only: those that ps-ctl set can change), or
 * the values of a key when the word has a "=" already. */
void completion_offer_keys(const struct offer *o, bool live_only);
/* Offers the names that `ps-ctl list PLURAL` prints. */
void completion_offer_catalog(const struct offer *o, const char *plural);
void completion_offer_run_dirs(const struct offer *o);
/* Ask the running cluster: offer the ids of its servers (and workers), or the names of its
 * tables. */
void completion_offer_ids(const struct offer *o, bool workers);
void completion_offer_tables(const struct offer *o);

#endif

#ifndef CTL_COMPLETION_H
#define CTL_COMPLETION_H

#include <stdbool.h>
#include <stddef.h>

/* Completion of the four programs' command lines, for all shells: a shell hands over the
 * words so far, and gets what the last one may become, a line each, "WORD\tHELP".  Lines that
 * begin with ":" tell the shell what to do besides: ":files", ":dirs" and ":json" offer such
 * files, ":nospace" lets the word go on.  What a living cluster is asked for comes last, and
 * has COMPLETION_MS, so that no shell hangs. */
#define COMPLETION_MS 300

/* word: the program's name first, the one to be completed last.  0. */
int completion_words(int n, char **word);
/* The script of a shell, or NULL. */
const char *completion_script(const char *shell);

/* ---- inside ---- */

/* After so long this process is killed, whatever it does, and so is a program that it becomes. */
void completion_limit(int ms);

/* completion_offer.c: what one word may become.  prefix: what of `word` stays as it is. */
struct offer {
	const char *word;               /* as far as it is typed */
	const char *cluster;            /* -C, or NULL */
};
void offer(const struct offer *o, const char *candidate, const char *help);
void offer_split(const struct offer *o, const char *prefix, const char *choices);
/* Keys of the cluster file, with "=", and values of one whose "=" is typed. */
void offer_keys(const struct offer *o, bool live_only);
/* Names of a list that ps-ctl list has. */
void offer_catalog(const struct offer *o, const char *plural);
void offer_run_dirs(const struct offer *o);
/* Of the living cluster: "server-0", "worker-1"; its tables. */
void offer_ids(const struct offer *o, bool workers);
void offer_tables(const struct offer *o);

#endif

#ifndef CTL_PROGRESS_H
#define CTL_PROGRESS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"

/* Talk while something runs: on a terminal one line that rewrites itself, else
 * a plain line every 10 s.  A supervisor talks to its log instead. */
struct progress {
	bool tty;
	bool dirty;                     /* the terminal's line is to be cleared first */
	struct log *log;                /* NULL: stderr */
	int64_t begun, next;            /* when the next line is due */
	bool waiting;                   /* what is said is what is waited for */
	const char *dir;                /* a wait for long: what is wrong with this run directory; or NULL */
};

void progress_init(struct progress *p, struct log *log);
/* A line of its own. */
void progress_say(struct progress *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Lines of a file, each indented. */
void progress_quote(struct progress *p, const char *path, size_t nlines);
/* Show what the status says, if it is time to.  NULL: no answer yet. */
void progress_show(struct progress *p, const json_t *status);
/* Leave the terminal's line clean. */
void progress_end(struct progress *p);

#endif

/* SPDX-License-Identifier: ISC */
#ifndef CORE_NAMES_H
#define CORE_NAMES_H

#include <stdbool.h>

/* Lists of names such as "w0,b0"; "none" is the empty list. Pure.
 *
 * names_first and names_next iterate: each result points to a name, which ends at a comma or with
 * the list; NULL: there are no more. */
const char *names_first(const char *list);
const char *names_next(const char *at);
/* Is the name at `at` in a list equal to `name`? */
bool names_is(const char *at, const char *name);
/* Does the list contain the name? */
bool names_has(const char *list, const char *name);

/* Lists for people, such as "worker-0, worker-2 and 5 more". names_put appends the *n-th name, from
 * 0, if it is among the first `most`, and counts it; names_put_rest appends the number of the
 * others. */
struct buf;
void names_put(struct buf *out, unsigned *n, unsigned most, const char *name);
void names_put_rest(struct buf *out, unsigned n, unsigned most);

#endif

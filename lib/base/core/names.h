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

#endif

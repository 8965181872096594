#ifndef BASE_NAMES_H
#define BASE_NAMES_H

#include <stdbool.h>

/* Names in a list such as "w0,b0"; "none" has none.  One after the other: the first, the one after
 * that.  Each ends at a comma, or with the list; NULL: there is no more. */
const char *names_first(const char *list);
const char *names_next(const char *at);
/* Is that in the list this name? */
bool names_is(const char *at, const char *name);
/* Does the list have it? */
bool names_has(const char *list, const char *name);

#endif

#ifndef SERVER_VIEWS_H
#define SERVER_VIEWS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* One revision of the coordinator's view as it goes out.  Servers, and whoever
 * watches, get all of it.  A worker gets neither the keys nor the rows of other
 * workers, and nothing at all when only these have changed: else N workers that
 * join cost N views of N rows for each of them.  Nor does a reader.  Constant once made; counted
 * references, from any thread. */
struct views;

/* Takes the reference of `view`.  before: the revision that was made last, or NULL. */
struct views *views_make(json_t *view, const struct views *before);
struct views *views_ref(struct views *v);
void views_unref(struct views *v);
uint64_t views_rev(const struct views *v);
/* What to send to who has had the revision `had` (0: none), in a fresh string;
 * NULL when it has no news. */
char *views_text(const struct views *v, uint64_t had);
char *views_text_worker(const struct views *v, unsigned slot, uint64_t had);

#endif

/* SPDX-License-Identifier: ISC */
#ifndef SERVER_VIEW_TEXT_H
#define SERVER_VIEW_TEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/json.h"

/* One revision of the coordinator's view as text for each kind of receiver. Servers, relays and
 * administrators get all of it. A worker gets neither the keys nor the rows of other workers,
 * and nothing when only these have changed: otherwise N workers that join would cost N views of
 * N rows for each of them. A monitor or reader gets what a worker without a rank gets, without
 * the ring: the addresses, keys and incarnations of workers that all-reduce are for these
 * workers only.
 *
 * A struct view_text is constant once made and has a reference count; any thread may use it. */
struct view_text;

/* Takes the reference of `view`. before: the previous revision, or NULL. */
struct view_text *view_text_make(json_t *view, const struct view_text *before);
/* Add a reference; view_text_unref drops one and frees v with the last. view_text_unref(NULL) is
 * fine. */
struct view_text *view_text_ref(struct view_text *v);
/* The texts that were returned are fresh strings, so they outlive v. */
void view_text_unref(struct view_text *v);
/* The revision of the view. */
uint64_t view_text_rev(const struct view_text *v);
/* The text for a receiver that has revision `had` (0: none), a fresh string; NULL when nothing
 * in it is new. rank: the worker's rank. */
char *view_text_full(const struct view_text *v, uint64_t had);
/* A rank without a row in the view gets what a guest gets, with the ring. */
char *view_text_for_worker(const struct view_text *v, unsigned rank, uint64_t had);
/* The text for readers and monitors, a fresh string or NULL as for view_text_full. */
char *view_text_for_guest(const struct view_text *v, uint64_t had);

#endif

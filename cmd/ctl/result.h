#ifndef CTL_RESULT_H
#define CTL_RESULT_H

#include <jansson.h>
#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"

/* What a run has come to: the object in RUN/result.json, and the last line of
 * ps-ctl run. */

/* A result made of the last status that was seen (NULL: none was), for when
 * the coordinator cannot be asked any more.  reason may be NULL. */
json_t *result_of_status(const json_t *status, const char *state, const char *reason);
/* Overrule the coordinator's state: it cannot know why we end. */
void result_set_state(json_t *result, const char *state, const char *reason);
/* The model could not be saved, for this reason; "": it was, or there is none. */
void result_set_unsaved(json_t *result, const char *why);
/* v, ts, kind and the figures in their order; a new reference. */
json_t *result_whole(const json_t *result);

bool result_is(const json_t *result, const char *state);
/* "done: 1407 steps ...", for people, appended. */
void result_sentence(const json_t *result, struct buf *out);
/* The sentence, or with json the object, as one line of stdout. */
void result_print(const json_t *result, bool json);

enum err_code result_write(const char *dir, const json_t *result, struct err *e);
/* NULL and ERR_NOTFOUND when the run has none. */
json_t *result_read(const char *dir, struct err *e);

#endif

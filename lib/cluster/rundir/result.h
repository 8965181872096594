/* SPDX-License-Identifier: ISC */
#ifndef RUNDIR_RESULT_H
#define RUNDIR_RESULT_H

#include <stdbool.h>

#include "core/buf.h"
#include "core/err.h"
#include "core/json.h"

/* The result of a run: the object in RUN/result.json, and the last line of ps-ctl run. */

/* Make a result from the last status (NULL: there was none) of a coordinator that does not answer
 * any more.  reason may be NULL.  A new reference. */
json_t *result_of_status(const json_t *status, const char *state, const char *reason);
/* Replace the coordinator's state and reason, which do not include an end that this side has
 * decided. */
void result_set_state(json_t *result, const char *state, const char *reason);
/* Record that n checkpoints failed, the last one with the error why.  A larger number in the
 * result stays. */
void result_set_failed_checkpoints(json_t *result, int64_t n, const char *why);
/* Record why the model could not be saved; "": it was, or there is none. */
void result_set_unsaved(json_t *result, const char *why);
/* A copy with the members v, ts and kind in front; a new reference. */
json_t *result_with_header(const json_t *result);

/* Is that the state of the run? */
bool result_has_state(const json_t *result, const char *state);
/* Append a sentence for people: "done: 1407 steps ...". */
void result_sentence(const json_t *result, struct buf *out);
/* Print the sentence or, with json, the object as one line. */
void result_print(const json_t *result, bool json);

/* Write RUN/result.json, replacing it atomically. */
enum err_code result_write(const char *dir, const json_t *result, struct err *e);
/* Read RUN/result.json; a new reference.  NULL and ERR_NOTFOUND when the run has none. */
json_t *result_read(const char *dir, struct err *e);

#endif

/* SPDX-License-Identifier: ISC */
#ifndef RUNDIR_RESULT_H
#define RUNDIR_RESULT_H

#include <stdbool.h>

#include "core/buf.h"
#include "core/err.h"
#include "core/json.h"
#include "msg/words.h"

/* The result of a run (msg/run_result.h): the object in RUN/result.json, and the last line of
 * ps-ctl run. */

/* A copy with the members v, ts and kind in front; a new reference. */
json_t *result_with_header(const json_t *result);

/* Is that the state of the run? */
bool result_has_state(const json_t *result, enum phase state);
/* Is the job over: done, failed or stopped? The argument may also be a status. */
bool result_is_final(const json_t *result);
/* Append a sentence for people: "done: 1407 steps ...". */
void result_sentence(const json_t *result, struct buf *out);
/* Print the sentence or, with json, the object as one line. */
void result_print(const json_t *result, bool json);

/* Write RUN/result.json, replacing it atomically. */
enum err_code result_write(const char *dir, const json_t *result, struct err *e);
/* Read RUN/result.json; a new reference. NULL and ERR_NOTFOUND when the run has none. */
json_t *result_read(const char *dir, struct err *e);

#endif

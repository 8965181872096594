/* SPDX-License-Identifier: ISC */
#ifndef MSG_RUN_RESULT_H
#define MSG_RUN_RESULT_H

/* The result of a run. It stays a document while it is completed, because it has members that only
 * its readers know; run_result.def has the members that are used here, as a struct. This module is
 * the only one that knows their keys. The functions may run on any thread. */
#include <stdbool.h>
#include <stdint.h>

#include "core/json.h"
#include "msg/words.h"

#define BEGIN(name)                       struct name {
#define INT(member, least, most, missing) int64_t member;
#define FLAG(member)                      _Alignas(8) bool member;
#define NUM(member)                       double member;
#define TEXT(member)                      const char *member;
#define WORD(member, words)               int64_t member;
#define DOC(member)                       const json_t *member;
#define END(name) \
	} \
	;
#include "msg/run_result.def"

/* Decodes a result, which *out borrows from. NULL, or a result in which a member has the wrong type
 * or is out of bounds, counts as one without members. */
void run_result_decode(const json_t *result, struct run_result *out);

/* Makes a result from the last status (NULL: there was none) of a coordinator that does not answer
 * any more. reason may be NULL. A new reference. */
json_t *run_result_of_status(const json_t *status, const char *state, enum err_cause cause,
    const char *reason);
/* Replaces the coordinator's state, cause and reason (NULL: it stays), which do not include an end
 * that this side has decided. */
void run_result_set_state(json_t *result, const char *state, enum err_cause cause,
    const char *reason);
/* Records that n checkpoints failed, the last one with the error why. A larger number in the
 * result stays. */
void run_result_set_failed_checkpoints(json_t *result, int64_t n, const char *why);
/* Records why the model could not be saved; "": it was, or there is none. */
void run_result_set_unsaved(json_t *result, enum err_cause cause, const char *why);
/* Records which newer checkpoints are damaged, and why. */
void run_result_set_passed_over(json_t *result, const char *why);

#endif

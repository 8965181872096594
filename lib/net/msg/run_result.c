/* SPDX-License-Identifier: ISC */
#include "msg/run_result.h"

#include "core/fields.h"

#define BEGIN(name)                       static const struct field fields_##name[] = {
#define INT(member, least, most, missing) FIELDS_INT(member, least, most, missing, WRITE_VALUE),
#define FLAG(member)                      FIELDS_OTHER(#member, FIELD_FLAG, NULL, WRITE_VALUE),
#define NUM(member)                       FIELDS_OTHER(#member, FIELD_NUM, NULL, WRITE_VALUE),
#define TEXT(member)                      FIELDS_OTHER(#member, FIELD_TEXT, NULL, WRITE_VALUE),
#define WORD(member, words)               FIELDS_WORD(member, words),
#define DOC(member)                       FIELDS_OTHER(#member, FIELD_DOC, NULL, WRITE_VALUE),
#define END(name) \
	FIELDS_OTHER(NULL, FIELD_DOC, NULL, WRITE_VALUE) \
	} \
	;
#include "msg/run_result.def"

void run_result_decode(const json_t *result, struct run_result *out)
{
	json_t *none;

	if (fields_decode(fields_run_result, result, out, NULL) == ERR_OK)
		return;
	none = json_object();
	fields_decode(fields_run_result, none, out, NULL);
	json_decref(none);
}

static void copy_member(json_t *to, const char *name, const json_t *from, const char *key)
{
	json_t *v = json_object_get(from, key);

	json_object_set_new(to, name, v ? json_incref(v) : json_null());
}

json_t *run_result_of_status(const json_t *status, const char *state, enum err_cause cause,
    const char *reason)
{
	json_t *o = json_event("result"), *eval = json_object_get(status, "eval");

	run_result_set_state(o, state, cause, reason);
	copy_member(o, "job", status, "job");
	copy_member(o, "steps", status, "step");
	copy_member(o, "examples", status, "examples");
	copy_member(o, "seconds", status, "seconds");
	copy_member(o, "train_loss", status, "train_loss");
	json_object_set_new(o, "eval", json_is_object(eval) ? json_incref(eval) : json_null());
	copy_member(o, "eval_step", status, "eval_step");
	json_object_set_new(o, "model_digest", json_null());
	copy_member(o, "pushed_bytes", status, "pushed_bytes");
	copy_member(o, "pulled_bytes", status, "pulled_bytes");
	copy_member(o, "ring_bytes", status, "ring_bytes");
	return o;
}

void run_result_set_state(json_t *result, const char *state, enum err_cause cause,
    const char *reason)
{
	json_object_set_new(result, "state", json_string(state));
	if (reason)
		json_object_set_new(result, "reason", json_string(reason));
	if (cause)
		json_object_set_new(result, "cause", json_string(err_cause_name(cause)));
	else
		json_object_del(result, "cause");
}

void run_result_set_failed_checkpoints(json_t *result, int64_t n, const char *why)
{
	struct run_result r;

	run_result_decode(result, &r);
	if (n <= r.checkpoints_failed)
		return;
	json_object_set_new(result, "checkpoints_failed", json_integer(n));
	json_object_set_new(result, "checkpoint_error", json_string(why));
}

void run_result_set_unsaved(json_t *result, enum err_cause cause, const char *why)
{
	if (!*why)
		return;
	json_object_set_new(result, "unsaved", json_string(why));
	if (cause)
		json_object_set_new(result, "unsaved_cause", json_string(err_cause_name(cause)));
}

void run_result_set_passed_over(json_t *result, const char *why)
{
	json_object_set_new(result, "passed_over", json_string(why));
}

/* SPDX-License-Identifier: ISC */
#include "rundir/result.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/file.h"
#include "core/json.h"
#include "core/num.h"
#include "rundir/rundir.h"

#define RESULT_MAX (1u << 20)

static void copy_member(json_t *to, const char *name, const json_t *from, const char *key)
{
	json_t *v = json_object_get(from, key);

	json_object_set_new(to, name, v ? json_incref(v) : json_null());
}

json_t *result_of_status(const json_t *status, const char *state, const char *reason)
{
	json_t *o = json_event("result");

	json_object_set_new(o, "state", json_string(state));
	if (reason)
		json_object_set_new(o, "reason", json_string(reason));
	copy_member(o, "steps", status, "step");
	copy_member(o, "examples", status, "examples");
	copy_member(o, "seconds", status, "seconds");
	copy_member(o, "train_loss", status, "train_loss");
	json_object_set_new(o, "eval",
	    json_is_object(json_object_get(status, "eval"))
	        ? json_incref(json_object_get(status, "eval"))
	        : json_null());
	json_object_set_new(o, "model_digest", json_null());
	copy_member(o, "pushed_bytes", status, "pushed_bytes");
	copy_member(o, "pulled_bytes", status, "pulled_bytes");
	return o;
}

void result_set_state(json_t *result, const char *state, const char *reason)
{
	json_object_set_new(result, "state", json_string(state));
	if (reason)
		json_object_set_new(result, "reason", json_string(reason));
}

void result_set_unsaved(json_t *result, const char *why)
{
	if (*why)
		json_object_set_new(result, "unsaved", json_string(why));
}

void result_set_failed_checkpoints(json_t *result, int64_t n, const char *why)
{
	if (n <= json_int(result, "checkpoints_failed", 0))
		return;
	json_object_set_new(result, "checkpoints_failed", json_integer(n));
	json_object_set_new(result, "checkpoint_error", json_string(why));
}

json_t *result_with_header(const json_t *result)
{
	return json_event_with("result", result);
}

bool result_has_state(const json_t *result, const char *state)
{
	return strcmp(json_str(result, "state", ""), state) == 0;
}

static void add_eval_figures(const json_t *eval, struct buf *out)
{
	const char *key, *between = "; eval ";
	char figure[32];
	json_t *v;

	json_object_foreach((json_t *)eval, key, v) {
		if (!json_is_number(v) || strcmp(key, "examples") == 0)
			continue;
		num_digits(json_number_value(v), 4, figure);
		buf_printf(out, "%s%s %s", between, key, figure);
		between = ", ";
	}
}

void result_sentence(const json_t *result, struct buf *out)
{
	const char *reason = json_str(result, "reason", ""),
	           *unsaved = json_str(result, "unsaved", "");
	const char *passed = json_str(result, "passed_over", "");
	int64_t steps = json_int(result, "steps", 0),
	        unmade = json_int(result, "checkpoints_failed", 0);
	const json_t *loss = json_object_get(result, "train_loss");
	char examples[16], seconds[32], figure[32];

	buf_puts(out, json_str(result, "state", "failed"));
	if (*reason && !result_has_state(result, "done"))
		buf_printf(out, " (%s)", reason);
	if (steps > 0) {
		num_count(json_num(result, "examples", 0), examples);
		num_digits(json_num(result, "seconds", 0), 3, seconds);
		buf_printf(out, ": %lld step%s, %s example%s in %s s", (long long)steps,
		    NUM_S(steps), examples, NUM_S(json_int(result, "examples", 0)), seconds);
		if (json_is_number(loss)) {
			num_digits(json_number_value(loss), 4, figure);
			buf_printf(out, "; train loss %s", figure);
		}
		add_eval_figures(json_object_get(result, "eval"), out);
	}
	if (unmade > 0)
		buf_printf(out, "; %lld checkpoint%s failed: %s", (long long)unmade, NUM_S(unmade),
		    json_str(result, "checkpoint_error", "?"));
	if (*unsaved)
		buf_printf(out, "; the model is not saved: %s", unsaved);
	if (*passed)
		buf_printf(out, "; damaged, and not resumed from: %s", passed);
}

void result_print(const json_t *result, bool json)
{
	struct buf text = BUF_INIT;

	if (json) {
		json_print_event("result", result);
		return;
	}
	result_sentence(result, &text);
	puts((char *)text.data);
	fflush(stdout);
	buf_release(&text);
}

enum err_code result_write(const char *dir, const json_t *result, struct err *e)
{
	char *path = rundir_path(dir, "result.json"), *text = json_text(result);
	struct buf line = BUF_INIT;
	enum err_code rc;

	buf_printf(&line, "%s\n", text);
	rc = file_replace(path, line.data, line.len, 0600, e);
	buf_release(&line);
	free(text);
	free(path);
	return rc;
}

json_t *result_read(const char *dir, struct err *e)
{
	char *path = rundir_path(dir, "result.json");
	json_t *result = NULL;

	if (access(path, F_OK) != 0)
		err_set(e, ERR_NOTFOUND, "%s has no result", dir);
	else
		result = json_parse_file(path, RESULT_MAX, e);
	free(path);
	return result;
}

/* SPDX-License-Identifier: ISC */
#include "rundir/result.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/file.h"
#include "core/json.h"
#include "core/num.h"
#include "metric/metrics.h"
#include "msg/run_result.h"
#include "rundir/learning.h"
#include "rundir/rundir.h"

#define RESULT_MAX (1u << 20)

json_t *result_with_header(const json_t *result)
{
	return json_event_with("result", result);
}

bool result_has_state(const json_t *result, enum phase state)
{
	struct run_result r;

	run_result_decode(result, &r);
	return r.state == (int64_t)state;
}

bool result_is_final(const json_t *result)
{
	return result_has_state(result, PHASE_DONE) || result_has_state(result, PHASE_FAILED) ||
	    result_has_state(result, PHASE_STOPPED);
}

static void add_eval_figures(const struct run_result *r, struct buf *out)
{
	const char *key, *between = "; eval ";
	char figure[32], at_step[48];
	json_t *v;

	if (r->eval_step >= 0) {
		snprintf(at_step, sizeof at_step, "; eval at step %lld: ", (long long)r->eval_step);
		between = at_step;
	}
	json_object_foreach((json_t *)(uintptr_t)r->eval, key, v) {
		if (!json_is_number(v) || strcmp(key, "examples") == 0 || metrics_is_detail(key))
			continue;
		num_digits(json_number_value(v), 4, figure);
		buf_printf(out, "%s%s %s", between, key, figure);
		between = ", ";
	}
}

/* Is the saved model that of the best evaluation, or of another step? */
static void add_model_step(const struct run_result *r, struct buf *out)
{
	if (r->best_is_earlier && r->best_checkpoint != r->best_step)
		buf_printf(out, ", but the model is of step %lld",
		    (long long)(r->best_checkpoint ? r->best_checkpoint : r->steps));
	else if (r->best_is_earlier && r->eval_step >= 0)
		buf_puts(out, ", and the model has pushes after that evaluation, too");
	else if (r->best_is_earlier || r->state == PHASE_DONE)
		buf_puts(out, ", as is the model");
}

/* The best evaluation, whose figures the result has, and why the job ended before its time. */
static void add_best(const struct run_result *r, struct buf *out)
{
	char figure[32];

	if (r->best_step >= 0) {
		num_digits(r->best_value, 4, figure);
		buf_printf(out, "; best %s %s at step %lld", r->best_metric, figure,
		    (long long)r->best_step);
		add_model_step(r, out);
	}
	if (*r->ended)
		buf_printf(out, "; ended early: %s", r->ended);
}

/* Has the job learned? */
static void add_learning(const json_t *result, struct buf *out)
{
	struct buf faults = BUF_INIT;

	learning_put_faults(result, &faults);
	if (faults.len)
		buf_printf(out, "; %s; ps-ctl doctor has advice", (char *)faults.data);
	buf_release(&faults);
}

/* Was the cluster worth it? */
static void add_comparison_alone(const struct run_result *r, struct buf *out)
{
	char seconds[32], times[32];

	num_digits(r->alone_seconds, 2, seconds);
	num_digits(r->alone_seconds / r->seconds, 2, times);
	buf_printf(out, "; one process would have taken about %s s, %s times as long", seconds,
	    times);
}

void result_sentence(const json_t *result, struct buf *out)
{
	char examples[16], seconds[32], figure[32];
	struct run_result r;

	run_result_decode(result, &r);
	buf_puts(out, r.state < 0 ? "failed" : words_phase[r.state]);
	if (*r.reason && r.state != PHASE_DONE)
		buf_printf(out, " (%s)", r.reason);
	if (r.steps > 0) {
		num_count((double)r.examples, examples);
		num_digits(isnan(r.seconds) ? 0 : r.seconds, 3, seconds);
		buf_printf(out, ": %lld step%s, %s example%s in %s s", (long long)r.steps,
		    NUM_S(r.steps), examples, NUM_S(r.examples), seconds);
		if (!isnan(r.train_loss)) {
			num_digits(r.train_loss, 4, figure);
			buf_printf(out, "; train loss %s", figure);
		}
		add_eval_figures(&r, out);
		add_best(&r, out);
		add_learning(result, out);
	}
	if (r.pushes_refused > 0)
		buf_printf(out, "; %lld push%s refused and not in the model",
		    (long long)r.pushes_refused, r.pushes_refused == 1 ? " was" : "es were");
	if (r.bad_lines > 0)
		buf_printf(out,
		    "; a worker skipped %lld bad line%s of its data, and its log names %s",
		    (long long)r.bad_lines, NUM_S(r.bad_lines),
		    r.bad_lines == 1 ? "it" : "the first ones");
	if (r.seconds > 0 && r.alone_seconds > 0)
		add_comparison_alone(&r, out);
	if (*r.emulated)
		buf_printf(out, "; emulated (%s)", r.emulated);
	if (r.checkpoints_failed > 0)
		buf_printf(out, "; %lld checkpoint%s failed: %s", (long long)r.checkpoints_failed,
		    NUM_S(r.checkpoints_failed), *r.checkpoint_error ? r.checkpoint_error : "?");
	if (*r.unsaved)
		buf_printf(out, "; the model is not saved: %s", r.unsaved);
	if (*r.passed_over)
		buf_printf(out, "; damaged and not used: %s", r.passed_over);
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

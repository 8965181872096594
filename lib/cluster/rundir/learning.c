/* SPDX-License-Identifier: ISC */
#include "rundir/learning.h"

#include <math.h>

#include "core/num.h"
#include "metric/baseline.h"
#include "msg/words.h"

/* The loss of the first batch is that of few examples, of which a smaller rise may be a matter of
 * chance. */
#define LOSS_RISES 2

bool learning_loss_rose(double first, double last)
{
	return last > first + LOSS_RISES * fabs(first);
}

/* While a job runs, the counts of its workers arrive later than its step. */
bool learning_lacked_examples(const json_t *result)
{
	return words_member(words_phase, result, "state") == PHASE_DONE &&
	    json_int(result, "steps", 0) > 0 && json_int(result, "examples", -1) == 0;
}

void learning_put_best(const json_t *best, struct buf *out)
{
	double last = json_num(best, "last", (double)NAN);
	char value[32], now[32];

	if (!json_is_object(best))
		return;
	num_digits(last, 4, now);
	num_digits(json_num(best, "value", 0), 4, value);
	buf_printf(out, "%s %s, best %s at step %lld", json_str(best, "metric", "?"),
	    isfinite(last) ? now : "-", value, (long long)json_int(best, "step", 0));
}

bool learning_trails_constant(const json_t *figures)
{
	return json_is_object(json_object_get(json_object_get(figures, "eval"), "constant"));
}

void learning_put_course_faults(const json_t *figures, struct buf *out)
{
	double first = json_num(figures, "first_loss", (double)NAN),
	       last = json_num(figures, "train_loss", (double)NAN);
	int64_t since = json_int(figures, "overfits_since", -1);
	size_t begin = out->len;
	char a[32], b[32];

	if (learning_lacked_examples(figures))
		buf_puts(out, "learned nothing: no example was read");
	if (since >= 0)
		buf_printf(out, "%soverfits since step %lld", out->len > begin ? "; " : "",
		    (long long)since);
	if (learning_loss_rose(first, last)) {
		num_digits(first, 4, a);
		num_digits(last, 4, b);
		buf_printf(out, "%sdiverged: the train loss is %s, and was %s at the start",
		    out->len > begin ? "; " : "", b, a);
	}
}

void learning_put_faults(const json_t *figures, struct buf *out)
{
	size_t begin = out->len;

	learning_put_course_faults(figures, out);
	if (!learning_trails_constant(figures))
		return;
	buf_puts(out, out->len > begin ? "; " : "");
	baseline_sentence(json_object_get(figures, "eval"), out);
}

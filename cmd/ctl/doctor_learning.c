/* SPDX-License-Identifier: ISC */
#include "doctor.h"

#include <math.h>

#include "core/buf.h"
#include "core/json.h"
#include "metric/baseline.h"
#include "rundir/learning.h"

/* Checks whether the job learns. Both a live run and one that has ended are examined. */

void doctor_refused_pushes(struct doctor *d, const char *about, int64_t n)
{
	if (n > 0)
		doctor_add_finding(d, DOCTOR_WARN, DOCTOR_CAUSE, "gradients", about,
		    "ps-ctl events refused names the workers; lower the learning rate, scale the data or "
		    "set clip_norm=1, and raise mem_limit if a server lacks memory",
		    "%s has refused %lld push%s, which %s not in the model", about, (long long)n,
		    n == 1 ? "" : "es", n == 1 ? "is" : "are");
}

#define TRY_OTHERS \
	"try another learning rate, as by ps-ctl sweep CLUSTER_FILE --range lr=0.001..0.1 --random 8, " \
	"more epochs or another model, and " \
	"check that the label is the right column"

void doctor_learning(struct doctor *d, const json_t *figures)
{
	double first = json_num(figures, "first_loss", (double)NAN),
	       last = json_num(figures, "train_loss", (double)NAN);
	int64_t since = json_int(figures, "overfits_since", -1);
	struct buf text = BUF_INIT;

	if (learning_lacked_examples(figures))
		doctor_add_finding(d, DOCTOR_WARN, DOCTOR_CAUSE, "learning", "examples",
		    "check that job.data has examples; of a stream with from=end they are those that are "
		    "written after the start: write to it while the job runs, use from=begin, or raise "
		    "job.steps",
		    "the job has learned nothing: it made %lld steps, and no example was read",
		    (long long)json_int(figures, "steps", 0));
	if (since >= 0)
		doctor_add_finding(d, DOCTOR_WARN, DOCTOR_CAUSE, "learning", "evaluation",
		    "job.stop keeps the best model and ends the job: ps-ctl run CLUSTER_FILE --set \"stop=loss\", with "
		    "job.validate=10% if job.eval is to stay unseen; or train fewer epochs, or raise job.l2",
		    "the model overfits since step %lld: the loss of the evaluation rises while that of "
		    "the training examples falls",
		    (long long)since);
	baseline_sentence(json_object_get(figures, "eval"), &text);
	if (text.len)
		doctor_add_finding(d, DOCTOR_WARN, DOCTOR_CAUSE, "learning", "evaluation",
		    TRY_OTHERS, "the model is %s", (char *)text.data);
	if (learning_loss_rose(first, last))
		doctor_add_finding(d, DOCTOR_WARN, DOCTOR_CAUSE, "learning", "loss",
		    "lower the learning rate (ps-ctl run CLUSTER_FILE --set lr=...), or set clip_norm=1",
		    "the job diverged: its train loss is %.4g, and was %.4g at the start", last,
		    first);
	buf_release(&text);
}

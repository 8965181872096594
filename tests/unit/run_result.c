/* SPDX-License-Identifier: ISC */
#include <math.h>
#include <string.h>

#include "msg/cluster_status.h"
#include "msg/run_result.h"
#include "rundir/result.h"
#include "tap.h"

/* Results and answers of the coordinator as structs. */

static json_t *parse(const char *text)
{
	return json_parse(text, strlen(text), 1 << 16, NULL);
}

static void test_result(void)
{
	json_t *j = parse("{\"state\":\"failed\",\"reason\":\"x\",\"steps\":7,\"seconds\":2,"
	                  "\"train_loss\":null,\"eval\":{\"loss\":0.5},\"more\":[1]}");
	struct run_result r;

	run_result_decode(j, &r);
	ok(r.state == PHASE_FAILED && strcmp(r.reason, "x") == 0 && r.steps == 7 &&
	        r.seconds == 2 && isnan(r.train_loss) && json_is_object(r.eval) && !*r.unsaved,
	    "a result");
	run_result_set_failed_checkpoints(j, 2, "disk");
	run_result_set_failed_checkpoints(j, 1, "less");
	run_result_set_unsaved(j, CAUSE_UNKNOWN, "");
	run_result_set_state(j, "stopped", CAUSE_UNKNOWN, NULL);
	run_result_decode(j, &r);
	ok(r.checkpoints_failed == 2 && strcmp(r.checkpoint_error, "disk") == 0 && !*r.unsaved &&
	        r.state == PHASE_STOPPED && strcmp(r.reason, "x") == 0 &&
	        json_array_size(json_object_get(j, "more")) == 1,
	    "is completed, and keeps what others have put there");
	json_decref(j);
	run_result_decode(NULL, &r);
	ok(r.state < 0 && r.steps == 0 && isnan(r.seconds) && !r.eval, "without a result");
	j = parse("{\"state\":\"done\",\"steps\":\"7\"}");
	run_result_decode(j, &r);
	ok(r.state < 0 && r.steps == 0, "a malformed result is none");
	json_decref(j);
}

static bool says(const char *result, const char *clause)
{
	struct buf text = BUF_INIT;
	json_t *j = parse(result);
	bool is;

	result_sentence(j, &text);
	is = strstr((char *)text.data, clause) != NULL;
	if (!is)
		printf("# %s\n", (char *)text.data);
	buf_release(&text);
	json_decref(j);
	return is;
}

/* A job whose best evaluation was not its last one. */
static void test_best(void)
{
	ok(says("{\"state\":\"done\",\"steps\":90,\"best_step\":60,\"best_checkpoint\":60,"
	        "\"best_is_earlier\":true,\"best_metric\":\"auc\",\"best_value\":0.5}",
	       "; best auc 0.5 at step 60, as is the model"),
	    "the result says that the model is of the best step");
	ok(says("{\"state\":\"done\",\"steps\":90,\"best_step\":60,\"best_checkpoint\":null,"
	        "\"best_is_earlier\":true,\"best_metric\":\"auc\",\"best_value\":0.5}",
	       "; best auc 0.5 at step 60, but the model is of step 90"),
	    "or that it is of another one");
	ok(says("{\"state\":\"done\",\"steps\":90,\"best_step\":90,\"best_checkpoint\":60,"
	        "\"best_is_earlier\":false,\"best_metric\":\"auc\",\"best_value\":0.5}",
	       "at step 90, as is the model"),
	    "or of the last one, when that is the best");
	ok(says(
	       "{\"state\":\"done\",\"steps\":90,\"eval_step\":60,\"best_step\":60,\"best_checkpoint\":60,"
	       "\"best_is_earlier\":true,\"best_metric\":\"auc\",\"best_value\":0.5,\"eval\":{\"auc\":0.5}}",
	       "; eval at step 60: auc 0.5; best auc 0.5 at step 60, and the model has pushes after that evaluation, too"),
	    "in asp the model has more than what was evaluated");
	ok(says("{\"state\":\"stopped\",\"steps\":90,\"eval_step\":60,\"eval\":{\"auc\":0.5}}",
	       "; eval at step 60: auc 0.5"),
	    "a job that was stopped has the evaluation of an earlier step");
	ok(says("{\"state\":\"done\",\"steps\":90,\"eval_step\":null,\"eval\":{\"auc\":0.5}}",
	       "; eval auc 0.5"),
	    "the final evaluation is that of the model");
}

static void test_bad_lines(void)
{
	ok(says("{\"state\":\"done\",\"steps\":9,\"bad_lines\":2}",
	       "; a worker skipped 2 bad lines of its data, and its log names the first ones"),
	    "the result says how many bad lines were skipped");
}

/* Steps without examples, as of a stream that brings none, leave the model as it was. */
static void test_no_examples(void)
{
	ok(says("{\"state\":\"done\",\"steps\":30,\"examples\":0}",
	       "done: 30 steps, 0 examples in 0 s; learned nothing: no example was read; ps-ctl doctor "
	       "has advice"),
	    "the result says that nothing was learned");
	ok(!says("{\"state\":\"done\",\"steps\":30,\"examples\":1}", "nothing"),
	    "but not if there was an example");
	ok(!says("{\"state\":\"failed\",\"steps\":30,\"examples\":0}", "nothing"),
	    "nor where the counts of workers are lacking");
}

static void test_of_status(void)
{
	json_t *s = parse("{\"state\":\"running\",\"step\":3,\"examples\":30,\"eval\":7}"),
	       *j = run_result_of_status(s, "crashed", CAUSE_UNKNOWN, "why");
	struct run_result r;

	run_result_decode(j, &r);
	ok(r.state < 0 && strcmp(json_str(j, "state", ""), "crashed") == 0 && r.steps == 3 &&
	        r.examples == 30 && !r.eval && json_is_null(json_object_get(j, "seconds")),
	    "a result from a status");
	json_decref(j);
	json_decref(s);
}

static void test_status(void)
{
	json_t *j = parse("{\"state\":\"running\",\"waiting_for\":\"\",\"servers\":2,"
	                  "\"data_lost\":true,\"called\":[\"server-1\"],\"train_loss\":1}");
	struct cluster_status *s = cluster_status_decode(j);
	struct cluster_job job;

	json_decref(j);
	ok(s && s->state == PHASE_RUNNING && s->servers == 2 && s->data_lost &&
	        json_array_size(s->called) == 1 && s->train_loss == 1 && isnan(s->seconds) &&
	        json_is_object(cluster_status_document(s)),
	    "a status owns its document");
	cluster_status_free(s);
	j = parse("{\"servers\":-1}");
	ok(!cluster_status_decode(j) && !cluster_status_decode(NULL) &&
	        !cluster_status_document(NULL),
	    "no status");
	json_decref(j);
	j = parse("{\"job\":{\"steps\":5,\"lr\":0.1}}");
	ok(!cluster_job_decode(j, &job, NULL) && job.steps == 5 && job.epochs == 0, "a job");
	json_decref(j);
	j = parse("{}");
	ok(!cluster_job_decode(j, &job, NULL) && job.steps == 0, "no job");
	json_decref(j);
}

int main(void)
{
	test_result();
	test_best();
	test_bad_lines();
	test_no_examples();
	test_of_status();
	test_status();
	return tap_done();
}

/* How far a job is, how it ends, and how its data is leased. */
#include "coord_fixture.h"

static int64_t steps_of_result(const struct scene *s)
{
	json_t *r = coord_result(s->c, s->now);
	int64_t steps = json_int(r, "steps", -1);

	json_decref(r);
	return steps;
}

/* Whose steps are the job's: never less than was shown before. */
static void how_far(void)
{
	struct scene s;

	scene_open(&s, 1, 3);
	scene_run(&s);
	for (unsigned i = 0; i < 3; i++)
		say(&s, &s.worker[i], "{\"op\":\"beat\",\"stats\":{\"step\":%u}}", 41 + i);
	ok(status_int(&s, "step") == 41 && steps_of_result(&s) == 41, "the slowest says how far the job is");
	say(&s, &s.worker[0], "{\"op\":\"leave\",\"steps\":50}");
	vote(&s, 0, true, 51, 50);
	ok(strcmp(worker_is(&s, 0), "left") == 0 && status_int(&s, "step") == 42 && steps_of_result(&s) == 42,
	   "one that has left has no say any more");
	say(&s, &s.worker[1], "{\"op\":\"done\",\"steps\":90}");
	say(&s, &s.worker[2], "{\"op\":\"done\",\"steps\":0}");
	ok(status_int(&s, "step") == 90 && steps_of_result(&s) == 90, "nor has one that no work was left for");
	scene_close(&s);
}

static void ending(void)
{
	struct scene s;
	json_t *r;

	scene_open(&s, 1, 3);
	scene_run(&s);
	say(&s, &s.worker[1],
	    "{\"op\":\"done\",\"steps\":8,\"examples\":80,\"train_loss\":0.5,\"loss_examples\":60,\"pushed_bytes\":7}");
	say(&s, &s.worker[2],
	    "{\"op\":\"done\",\"steps\":7,\"examples\":70,\"train_loss\":1.5,\"loss_examples\":20,\"pushed_bytes\":5}");
	ok(in_phase(&s, COORD_RUNNING), "the job runs while one works");
	live(&s, 5.4, 5);
	ok(strcmp(worker_is(&s, 1), "left") == 0, "one that is done and then silent is gone, not lost");
	say(&s, &s.worker[0],
	    "{\"op\":\"done\",\"steps\":8,\"examples\":50,\"train_loss\":null,\"loss_examples\":0}");
	ok(in_phase(&s, COORD_FINISHING) && evaluator_of(&s) == 0,
	   "with all done, one that is there evaluates");
	say(&s, &s.worker[2], "{\"op\":\"result\",\"digest\":\"dd\"}");
	ok(in_phase(&s, COORD_FINISHING), "a result of another is not taken");
	live(&s, 5.4, 4);
	ok(evaluator_of(&s) == 2, "when the evaluator dies the next one does it");
	say(&s, &s.worker[2], "{\"op\":\"result\",\"eval\":{\"loss\":0.25},\"digest\":\"ee\"}");
	ok(in_phase(&s, COORD_DONE), "with the result the job is done");
	r = coord_result(s.c, s.now);
	ok(json_int(r, "steps", 0) == 7 && json_int(r, "examples", 0) == 200 &&
	   json_int(r, "pushed_bytes", 0) == 12,
	   "steps of the slowest, examples and bytes of all");
	ok(json_num(r, "train_loss", 0) == 0.75 && strcmp(json_str(r, "model_digest", ""), "ee") == 0 &&
	   json_num(json_object_get(r, "eval"), "loss", 0) == 0.25,
	   "loss weighted by examples, evaluation and digest as reported");
	json_decref(r);
	r = coord_workers(s.c, s.now);
	ok(json_int(json_array_get(r, 2), "step", 0) == 7 && json_num(json_array_get(r, 2), "train_loss", 0) == 1.5 &&
	   status_int(&s, "step") == 7, "and the rows show what the workers said at last");
	json_decref(r);
	live(&s, 30, 0);
	ok(in_phase(&s, COORD_DONE), "and stays it");
	scene_close(&s);

	scene_open(&s, 1, 1);
	scene_run(&s);
	say(&s, &s.worker[0], "{\"op\":\"done\",\"steps\":8}");
	live(&s, 6, 0);
	ok(in_phase(&s, COORD_FAILED) && strstr(status_str(&s, "reason"), "before the final evaluation"),
	   "with nobody left to evaluate it fails: %s",
	   status_str(&s, "reason"));
	scene_close(&s);

	scene_open(&s, 1, 2);
	scene_run(&s);
	say(&s, &s.worker[1], "{\"op\":\"fail\",\"message\":\"the loss is NaN at step 3\"}");
	ok(in_phase(&s, COORD_FAILED) && strcmp(status_str(&s, "reason"), "the loss is NaN at step 3") == 0,
	   "a worker can say that it failed");
	coord_stop(s.c, "too late", s.now);
	ok(in_phase(&s, COORD_FAILED), "what is over is over");
	scene_close(&s);
}

/* ---- leases ------------------------------------------------------------------------------ */

static void leases(void)
{
	struct scene s;
	unsigned ranges = 0;

	scene_open(&s, 1, 2);
	s.cfg.bsp = false;
	s.cfg.epochs = 1;
	scene_run(&s);
	ok(strcmp(say(&s, &s.worker[0], "{\"op\":\"lease\",\"more\":true,\"done\":[]}"),
	   "{\"task\":{\"id\":0,\"epoch\":0,\"begin\":0,\"end\":10}}") == 0,
	   "ssp and asp lease ranges of whole batches");
	say(&s, &s.worker[1], "{\"op\":\"lease\",\"more\":true,\"done\":[]}");
	live(&s, 5.4, 1);
	say(&s, &s.worker[1], "{\"op\":\"lease\",\"more\":true,\"done\":[]}");
	vote(&s, 0, true, 0, 0);
	say(&s, &s.worker[1], "{\"op\":\"lease\",\"more\":true,\"done\":[]}");
	ok(s.e.code == ERR_FENCED, "a lost worker leases nothing");
	for (ranges = 1; strstr(say(&s, &s.worker[0],
	    "{\"op\":\"lease\",\"more\":true,\"done\":[0,1,2,3,4,5,6,7,8,9]}"), "task"); ranges++)
		;
	ok(ranges == 10, "what a lost worker held is leased to the others (%u ranges)", ranges);
	ok(strstr(say(&s, &s.worker[0], "{\"op\":\"lease\",\"more\":true,\"done\":[]}"),
	   "\"finished\":true"), "then all is finished");
	scene_close(&s);

	scene_open(&s, 1, 2);
	s.cfg.bsp = false;
	s.cfg.epochs = 1;
	scene_run(&s);
	say(&s, &s.worker[1], "{\"op\":\"lease\",\"more\":true,\"done\":[]}");
	say(&s, &s.worker[1], "{\"op\":\"done\",\"steps\":0}");
	for (ranges = 0; strstr(say(&s, &s.worker[0],
	    "{\"op\":\"lease\",\"more\":true,\"done\":[0,1,2,3,4,5,6,7,8,9]}"), "task"); ranges++)
		;
	ok(ranges == 10, "who is done gives back what it did not train on (%u ranges)", ranges);
	scene_close(&s);

	scene_open(&s, 1, 1);
	scene_run(&s);
	say(&s, &s.worker[0], "{\"op\":\"lease\",\"more\":true,\"done\":[]}");
	ok(s.e.code == ERR_PROTO, "bsp has no leases: %s", s.e.msg);
	scene_close(&s);
}

/* ---- what it begins with ------------------------------------------------------------------ */

/* A program's settings are of step 0, and another coordinator goes on with them. */
static void begins_with(void)
{
	struct scene s;
	json_t *set = json_pack("{s:s}", "job.epochs", "1"), *config = json_pack("{s:{s:i, s:i}}", "job", "epochs", 1, "steps", 7), *view, *regime;
	const char *said;
	struct coord_setting with = { .set = set, .config = config, .what = "job.epochs=1", .who = "worker-0", .batch = 10 };

	scene_open(&s, 1, 2);
	scene_begin(&s);
	join_as_server(&s, 0);
	coord_begin_with(s.c, &with);
	join_as_worker(&s, 0, -1);
	join_as_worker(&s, 1, -1);
	ack_all(&s);
	view = coord_view(s.c);
	regime = json_array_get(json_object_get(view, "regimes"), 0);
	ok(json_int(regime, "step", -1) == 0 && json_int(regime, "number", 0) == 1 && coord_batch(s.c) == 10 && !coord_is_bsp(s.c),
	   "what a program says is set for step 0");
	json_decref(view);
	for (unsigned i = 0; i < 10; i++)
		say(&s, &s.worker[0], "{\"op\":\"lease\",\"more\":true,\"done\":[0,1,2,3,4,5,6,7,8,9]}");
	said = say(&s, &s.worker[0], "{\"op\":\"lease\",\"more\":true,\"done\":[9]}");
	ok(strstr(said, "\"finished\":true") != NULL, "and its epochs are the job's: %s", said);
	scene_close(&s);
	json_decref(set);
	json_decref(config);
}

int main(void)
{
	begins_with();
	how_far();
	ending();
	leases();
	return tap_done();
}

/* SPDX-License-Identifier: ISC */
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
	ok(status_int(&s, "step") == 41 && steps_of_result(&s) == 41,
	    "the slowest says how far the job is");
	say(&s, &s.worker[0], "{\"op\":\"leave\",\"steps\":50}");
	vote(&s, 0, true, 51, 50);
	ok(strcmp(worker_is(&s, 0), "left") == 0 && status_int(&s, "step") == 42 &&
	        steps_of_result(&s) == 42,
	    "one that has left has no say any more");
	say(&s, &s.worker[1], "{\"op\":\"done\",\"steps\":90}");
	say(&s, &s.worker[2], "{\"op\":\"done\",\"steps\":0}");
	ok(status_int(&s, "step") == 90 && steps_of_result(&s) == 90,
	    "nor has one that no work was left for");
	scene_close(&s);
}

static void ending(void)
{
	struct scene s;
	json_t *r;

	scene_open(&s, 1, 3);
	scene_run(&s);
	say(&s, &s.worker[1],
	    "{\"op\":\"done\",\"steps\":8,\"examples\":80,\"train_loss\":0.5,\"loss_examples\":60,\"pushed_bytes\":7,\"bad_lines\":3}");
	ok(happened(&s, "bad_lines: worker-1 has skipped 3 bad lines"),
	    "bad lines of a worker that has sent no heartbeat are reported");
	say(&s, &s.worker[2],
	    "{\"op\":\"done\",\"steps\":7,\"examples\":70,\"train_loss\":1.5,\"loss_examples\":20,\"pushed_bytes\":5}");
	ok(in_phase(&s, PHASE_RUNNING), "the job runs while one works");
	live(&s, 5.4, 5);
	ok(strcmp(worker_is(&s, 1), "left") == 0,
	    "one that is done and then silent is gone, not lost");
	say(&s, &s.worker[0],
	    "{\"op\":\"done\",\"steps\":8,\"examples\":50,\"train_loss\":null,\"loss_examples\":0}");
	ok(in_phase(&s, PHASE_FINISHING) && evaluator_of(&s) == 0,
	    "with all done, one that is there evaluates");
	say(&s, &s.worker[2], "{\"op\":\"result\",\"digest\":\"dd\"}");
	ok(in_phase(&s, PHASE_FINISHING), "a result of another is not taken");
	live(&s, 5.4, 4);
	ok(evaluator_of(&s) == 2, "when the evaluator dies the next one does it");
	say(&s, &s.worker[2], "{\"op\":\"result\",\"eval\":{\"loss\":0.25},\"digest\":\"ee\"}");
	ok(in_phase(&s, PHASE_DONE), "with the result the job is done");
	r = coord_result(s.c, s.now);
	ok(json_int(r, "steps", 0) == 7 && json_int(r, "examples", 0) == 200 &&
	        json_int(r, "pushed_bytes", 0) == 12,
	    "steps of the slowest, examples and bytes of all");
	ok(json_num(r, "train_loss", 0) == 0.75 &&
	        strcmp(json_str(r, "model_digest", ""), "ee") == 0 &&
	        json_num(json_object_get(r, "eval"), "loss", 0) == 0.25,
	    "loss weighted by examples, evaluation and digest as reported");
	json_decref(r);
	r = coord_workers(s.c, s.now);
	ok(json_int(json_array_get(r, 2), "step", 0) == 7 &&
	        json_num(json_array_get(r, 2), "train_loss", 0) == 1.5 &&
	        status_int(&s, "step") == 7,
	    "and the rows show what the workers said at last");
	json_decref(r);
	live(&s, 30, 0);
	ok(in_phase(&s, PHASE_DONE), "and stays it");
	scene_close(&s);

	scene_open(&s, 1, 1);
	scene_run(&s);
	say(&s, &s.worker[0], "{\"op\":\"done\",\"steps\":8}");
	live(&s, 6, 0);
	ok(in_phase(&s, PHASE_FAILED) &&
	        strstr(status_str(&s, "reason"), "before the final evaluation"),
	    "with nobody left to evaluate it fails: %s", status_str(&s, "reason"));
	scene_close(&s);

	scene_open(&s, 1, 2);
	scene_run(&s);
	say(&s, &s.worker[1], "{\"op\":\"fail\",\"message\":\"the loss is NaN at step 3\"}");
	ok(in_phase(&s, PHASE_FAILED) &&
	        strcmp(status_str(&s, "reason"), "the loss is NaN at step 3") == 0,
	    "a worker can say that it failed");
	coord_stop(s.c, "too late", s.now);
	ok(in_phase(&s, PHASE_FAILED), "what is over is over");
	scene_close(&s);
}

/* ---- leases ---- */

/* Numbers of a worker that our own state or manifest could not hold end no job: the message is refused. */
static void hostile_leases(void)
{
	static const char *const bad[] = {
		"\"done\":[[0,-1000000000000]]",
		"\"done\":[[0,1.5]]",
		"\"done\":[[0]]",
		"\"done\":[7]",
		"\"holds\":[[0,-1,1001,32,-7]]",
		"\"holds\":[[0,0,1001,32,-7]]",
		"\"holds\":[[0,0,-1,32,0]]",
		"\"holds\":[[0,0,0,99999999999,0]]",
		"\"holds\":[[0,9223372036854775807,0,32,0]]",
		"\"holds\":{}",
	};
	struct state state;
	struct scene s;
	json_t *json;

	scene_open(&s, 1, 2);
	s.cfg.lockstep = false;
	s.cfg.epochs = 0;
	scene_run(&s);
	say(&s, &s.worker[0], "{\"op\":\"lease\",\"more\":true,\"done\":[],\"holds\":[]}");
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		say(&s, &s.worker[0], "{\"op\":\"lease\",%s}", bad[i]);
		ok(s.e.code == ERR_PROTO, "a lease with %s is refused: %s", bad[i], s.e.msg);
	}
	/* Each is within its bounds, and so is the sum. */
	for (int i = 0; i < 20; i++)
		say(&s, &s.worker[0],
		    "{\"op\":\"lease\",\"more\":true,\"done\":[[%d,1125899906842624]],\"holds\":[]}",
		    i);
	json = saved_state(s.c);
	ok(!state_decode(json, &state, &s.e) && state.tasks->done > 0,
	    "and the state can be read again: %s", s.e.msg);
	state_release(&state);
	json_decref(json);
	scene_close(&s);
}

static size_t state_size(const struct scene *s)
{
	json_t *state = saved_state(s->c);
	size_t n = json_dumpb(state, NULL, 0, 0);

	json_decref(state);
	return n;
}

/* A worker that never finishes a range cannot have more than two, nor make the state grow. */
static void greedy(void)
{
	struct scene s;
	unsigned ranges = 0, refused = 0;
	size_t before;

	scene_open(&s, 1, 2);
	s.cfg.lockstep = false;
	s.cfg.epochs = 0;
	scene_run(&s);
	before = state_size(&s);
	for (int i = 0; i < 1000; i++) {
		ranges += strstr(say(&s, &s.worker[0],
		                     "{\"op\":\"lease\",\"more\":true,\"done\":[]}"),
		              "task") != NULL;
		refused += s.e.code == ERR_LIMIT;
	}
	ok(ranges == 2 && refused == 998,
	    "of 1000 leases without an end %u are given and %u refused: %s", ranges, refused,
	    s.e.msg);
	for (int i = 0; i < 1000; i++)
		say(&s, &s.worker[0], "{\"op\":\"lease\",\"more\":true,\"done\":[],\"holds\":[]}");
	ok(state_size(&s) < before + 100, "the state does not grow: from %zu to %zu bytes", before,
	    state_size(&s));
	ok(strstr(say(&s, &s.worker[1], "{\"op\":\"lease\",\"more\":true,\"done\":[]}"), "task") &&
	        !s.e.code,
	    "others lease all the same");
	scene_close(&s);
}

/* The worker of a stream learns with each answer what the checkpoints need. */
static void kept_places(void)
{
	const char *said;
	struct scene s;

	scene_open(&s, 1, 1);
	s.cfg.lockstep = false;
	scene_begin(&s);
	join_as_server(&s, 0);
	say(&s, &s.worker[0],
	    "{\"op\":\"worker_join\",\"rank\":0,\"pid\":200,\"host\":\"h\",\"examples\":2,\"stream\":true,"
	    "\"tables\":[{\"name\":\"w\",\"rows\":100,\"cols\":1}]}");
	ack_all(&s);
	ok(coord_stream_partitions(s.c) == 2, "a stream has two partitions");
	for (int i = 0; i < 2; i++)
		say(&s, &s.worker[0], "{\"op\":\"lease\",\"more\":true,\"done\":[]}");
	said = say(&s, &s.worker[0],
	    "{\"op\":\"lease\",\"done\":[],\"holds\":[[0,0,0,0,7],[1,0,0,0,9]]}");
	ok(!strstr(said, "kept"), "without a checkpoint nothing is told: %s", said);
	coord_note_kept_place(s.c, 1, 900, 500);
	coord_note_kept_place(s.c, 2, 1, 1);
	said = say(&s, &s.worker[0],
	    "{\"op\":\"lease\",\"done\":[],\"holds\":[[0,0,0,0,7],[1,0,0,0,9]]}");
	ok(strstr(said, "\"kept\":[{\"id\":1,\"newest\":900,\"oldest\":500}]"),
	    "then what the checkpoints have of its partitions: %s", said);
	said = say(&s, &s.worker[0], "{\"op\":\"lease\",\"done\":[],\"holds\":[[0,0,0,0,7]]}");
	ok(!strstr(said, "kept"), "and of no others: %s", said);
	scene_close(&s);
}

static void leases(void)
{
	struct scene s;
	unsigned ranges = 0;

	scene_open(&s, 1, 2);
	s.cfg.lockstep = false;
	s.cfg.epochs = 1;
	scene_run(&s);
	ok(strcmp(say(&s, &s.worker[0],
	              "{\"op\":\"lease\",\"more\":true,\"step\":0,\"batch\":10,\"done\":[]}"),
	       "{\"task\":{\"id\":0,\"epoch\":0,\"begin\":0,\"end\":10,\"from\":0,\"step\":0,\"batch\":10,\"placed\":0,\"place\":-1,\"earlier\":[]}}") ==
	        0,
	    "ssp and asp lease ranges of whole batches");
	say(&s, &s.worker[1], "{\"op\":\"lease\",\"more\":true,\"done\":[]}");
	live(&s, 5.4, 1);
	say(&s, &s.worker[1], "{\"op\":\"lease\",\"more\":true,\"done\":[]}");
	vote(&s, 0, true, 0, 0);
	say(&s, &s.worker[1], "{\"op\":\"lease\",\"more\":true,\"done\":[]}");
	ok(s.e.code == ERR_FENCED, "a lost worker leases nothing");
	settle(&s, 0, "[]");
	for (
	    ranges = 1; strstr(
	        say(&s, &s.worker[0],
	            "{\"op\":\"lease\",\"more\":true,\"done\":[[0,1],[1,1],[2,1],[3,1],[4,1],[5,1],[6,1],[7,1],[8,1],[9,1]]}"),
	        "task");
	    ranges++)
		;
	ok(ranges == 10, "what a lost worker held is leased to the others (%u ranges)", ranges);
	ok(strstr(say(&s, &s.worker[0], "{\"op\":\"lease\",\"more\":true,\"done\":[]}"),
	       "\"finished\":true"),
	    "then all is finished");
	scene_close(&s);

	greedy();

	scene_open(&s, 1, 2);
	s.cfg.lockstep = false;
	s.cfg.epochs = 1;
	scene_run(&s);
	say(&s, &s.worker[1], "{\"op\":\"lease\",\"more\":true,\"done\":[]}");
	say(&s, &s.worker[1], "{\"op\":\"done\",\"steps\":0}");
	for (
	    ranges = 0; strstr(
	        say(&s, &s.worker[0],
	            "{\"op\":\"lease\",\"more\":true,\"done\":[[0,1],[1,1],[2,1],[3,1],[4,1],[5,1],[6,1],[7,1],[8,1],[9,1]]}"),
	        "task");
	    ranges++)
		;
	ok(ranges == 10, "who is done gives back what it did not train on (%u ranges)", ranges);
	scene_close(&s);

	scene_open(&s, 1, 1);
	scene_run(&s);
	say(&s, &s.worker[0], "{\"op\":\"lease\",\"more\":true,\"done\":[]}");
	ok(s.e.code == ERR_PROTO, "bsp has no leases: %s", s.e.msg);
	scene_close(&s);
}

/* A checkpoint has the place in the data as of when it is asked for, before any picture is
 * taken; what is done while files are written may be missing in the pictures. */
static void place_in_data(void)
{
	struct state_head manifest;
	json_t *head, *tasks;
	struct scene s;

	scene_open(&s, 1, 1);
	s.cfg.lockstep = false;
	s.cfg.epochs = s.cfg.replicas = 1;
	scene_run(&s);
	say(&s, &s.worker[0], "{\"op\":\"lease\",\"more\":true,\"done\":[]}");
	say(&s, &s.worker[0], "{\"op\":\"lease\",\"more\":true,\"done\":[[0,1]],\"holds\":[]}");
	ok(coord_snap_begin(s.c, 0, s.now), "a checkpoint is asked for when one range is done");
	say(&s, &s.worker[0], "{\"op\":\"lease\",\"more\":true,\"done\":[[1,1]],\"holds\":[]}");
	say(&s, &s.server[0],
	    "{\"op\":\"snap\",\"id\":%llu,\"state\":\"taken\",\"clocks\":{\"0\":2}}",
	    (unsigned long long)coord_snap_id(s.c));
	ok(coord_snap_state(s.c) == SNAP_TAKEN, "another is, and the picture is taken");
	coord_snap_write(s.c, "dir", s.now);
	say(&s, &s.worker[0], "{\"op\":\"lease\",\"more\":true,\"done\":[[2,1]],\"holds\":[]}");
	say(&s, &s.server[0],
	    "{\"op\":\"snap\",\"id\":%llu,\"state\":\"saved\",\"description\":{}}",
	    (unsigned long long)coord_snap_id(s.c));
	ok(coord_snap_state(s.c) == SNAP_SAVED, "a third is while the files are written");
	head = coord_snap_head(s.c);
	tasks = json_deep_copy(json_object_get(json_object_get(head, "data"), "tasks"));
	json_decref(head);
	coord_snap_end(s.c);
	scene_close(&s);

	scene_open(&s, 1, 1);
	s.cfg.lockstep = false;
	s.cfg.epochs = s.cfg.replicas = 1;
	head = json_pack("{s:{s:O}, s:[{s:s, s:i, s:i}]}", "data", "tasks", tasks, "tables", "name",
	    "w", "rows", 5, "cols", 1);
	ok(!state_head_decode(head, &manifest, &s.e), "a manifest is decoded: %s", s.e.msg);
	s.cfg.resume = &manifest;
	scene_run(&s);
	ok(strstr(say(&s, &s.worker[0], "{\"op\":\"lease\",\"more\":true,\"done\":[]}"),
	       "\"begin\":10,"),
	    "one that goes on from it leases the second and the third again");
	state_head_release(&manifest);
	json_decref(head);
	scene_close(&s);

	scene_open(&s, 1, 1);
	s.cfg.lockstep = false;
	s.cfg.epochs = s.cfg.replicas = 1;
	head = json_pack("{s:{s:i, s:O}, s:[{s:s, s:i, s:i}]}", "data", "examples", 90, "tasks",
	    tasks, "tables", "name", "w", "rows", 5, "cols", 1);
	ok(!state_head_decode(head, &manifest, &s.e), "a manifest of fewer examples is decoded: %s",
	    s.e.msg);
	s.cfg.resume = &manifest;
	scene_run(&s);
	ok(strstr(say(&s, &s.worker[0], "{\"op\":\"lease\",\"more\":true,\"done\":[]}"),
	       "\"begin\":0,") &&
	        happened(&s, "data_changed: "),
	    "where the data have grown since, the epoch begins again, and an event says so");
	state_head_release(&manifest);
	json_decref(head);
	json_decref(tasks);
	scene_close(&s);
}

/* ---- a model that is served ---- */

static bool server_is(const struct scene *s, unsigned i, const char *state)
{
	json_t *list = coord_servers(s->c, s->now);
	bool is = strcmp(json_str(json_array_get(list, i), "state", ""), state) == 0;

	json_decref(list);
	return is;
}

/* Time passes with heartbeats of some servers, by a mask. */
static void servers_live(struct scene *s, double seconds, unsigned mask)
{
	for (int64_t end = s->now + (int64_t)(seconds * 1e9); s->now < end;) {
		for (unsigned i = 0; i < s->cfg.servers; i++)
			if (mask >> i & 1)
				say(s, &s->server[i], "{\"op\":\"beat\"}");
		pass(s, 0.2);
	}
}

/* Servers of a job that is done are watched and replaced; the last copy is missed aloud. */
static void served(void)
{
	struct scene s;

	scene_open(&s, 3, 1);
	s.cfg.replicas = 2;
	scene_run(&s);
	say(&s, &s.worker[0], "{\"op\":\"done\",\"steps\":8}");
	say(&s, &s.worker[0], "{\"op\":\"result\",\"digest\":\"dd\"}");
	ok(in_phase(&s, PHASE_DONE), "a job is done");
	servers_live(&s, 5, 7);
	ok(server_is(&s, 0, "live") && server_is(&s, 1, "live") && server_is(&s, 2, "live"),
	    "its servers serve the model");
	servers_live(&s, 3, 6);
	ok(server_is(&s, 0, "lost") && happened(&s, "failover"),
	    "one that dies is found, and others go on");
	s.server[0].incarnation = 99;
	s.server[0].kind = COORD_NOBODY;
	join_as_server(&s, 0);
	ok(!s.e.code && server_is(&s, 0, "live") && in_phase(&s, PHASE_DONE),
	    "another takes its place");
	servers_live(&s, 3, 7);
	ok(server_is(&s, 0, "live"), "and stays");
	servers_live(&s, 40, 0);
	ok(in_phase(&s, PHASE_DONE) && happened(&s, "data_lost") &&
	        strstr(status_str(&s, "reason"), "part of the model is lost"),
	    "when the last copy dies the job stays done, and the status tells of the loss");
	coord_end(s.c);
	s.events[0] = 0;
	servers_live(&s, 40, 0);
	ok(!s.events[0], "of servers that end with the cluster nothing is said");
	scene_close(&s);
}

/* ---- what it begins with ---- */

/* A program's settings are of step 0, and another coordinator goes on with them. */
static void begins_with(void)
{
	struct scene s;
	json_t *set = json_pack("{s:s, s:s, s:s}", "job.epochs", "1", "job.steps", "7", "sync",
	           "asp"),
	       *view, *change;
	const char *said;
	const struct setting with = { .set = set, .who = "worker-0" };

	scene_open(&s, 1, 2);
	scene_begin(&s);
	join_as_server(&s, 0);
	coord_apply_settings_before_start(s.c, &with);
	join_as_worker(&s, 0, -1);
	join_as_worker(&s, 1, -1);
	ack_all(&s);
	view = coord_view(s.c);
	change = json_array_get(json_object_get(view, "changes"), 0);
	ok(json_int(change, "step", -1) == 0 && json_int(change, "number", 0) == 1 &&
	        coord_batch(s.c) == 10 && !coord_is_lockstep(s.c),
	    "what a program says is set for step 0");
	json_decref(view);
	for (unsigned i = 0; i < 10; i++)
		say(&s, &s.worker[0],
		    "{\"op\":\"lease\",\"more\":true,\"done\":[[0,1],[1,1],[2,1],[3,1],[4,1],[5,1],[6,1],[7,1],[8,1],[9,1]]}");
	said = say(&s, &s.worker[0], "{\"op\":\"lease\",\"more\":true,\"done\":[[9,1]]}");
	ok(strstr(said, "\"finished\":true") != NULL, "and its epochs are the job's: %s", said);
	scene_close(&s);
	json_decref(set);
}

/* A worker's last words are cut between two characters, and reach the view, the status and the
 * state file. */
static void last_words(void)
{
	static const char *const letter[] = { "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80" };

	for (size_t l = 0; l < 3; l++)
		for (size_t before = 0; before < 4; before++) {
			char why[900] = "xxx";
			json_t *view, *state;
			const char *told;
			struct scene s;

			for (size_t n = before; n + 5 < sizeof why; n += strlen(letter[l]))
				snprintf(why + n, sizeof why - n, "%s", letter[l]);
			scene_open(&s, 1, 1);
			scene_run(&s);
			say(&s, &s.worker[0], "{\"op\":\"fail\",\"message\":\"%s\"}", why);
			view = coord_view(s.c);
			state = saved_state(s.c);
			told = json_str(view, "reason", "");
			ok(in_phase(&s, PHASE_FAILED) && strlen(told) > 550 &&
			        strncmp(told, why, strlen(told)) == 0 &&
			        strcmp(status_str(&s, "reason"), told) == 0 &&
			        strcmp(json_str(state, "reason", ""), told) == 0,
			    "%zu bytes, then characters of %zu: %zu bytes are told", before,
			    strlen(letter[l]), strlen(told));
			json_decref(view);
			json_decref(state);
			scene_close(&s);
		}
}

static bool is_ending(const struct scene *s)
{
	json_t *view = coord_view(s->c);
	bool ending = json_is_true(json_object_get(view, "ending"));

	json_decref(view);
	return ending;
}

static int64_t waiting_step(const struct scene *s)
{
	json_t *view = coord_view(s->c);
	int64_t step = json_int(view, "evaluator_waits_at", 0);

	json_decref(view);
	return step;
}

static void evaluate(struct scene *s, int step, double auc)
{
	say(s, &s->worker[0], "{\"op\":\"eval\",\"step\":%d,\"eval\":{\"loss\":%d,\"auc\":%g}}",
	    step, step, auc);
}

/* An evaluation with these losses of the rows that are held out, at a train loss. */
static void evaluate_held_out(struct scene *s, int step, double loss, double train)
{
	say(s, &s->worker[0],
	    "{\"op\":\"beat\",\"stats\":{\"step\":%d,\"train_loss\":%g,\"loss_examples\":100,"
	    "\"first_loss\":1}}",
	    step, train);
	say(s, &s->worker[0],
	    "{\"op\":\"eval\",\"step\":%d,\"eval\":{\"loss\":9,\"accuracy\":%g,\"validate\":"
	    "{\"loss\":%g,\"accuracy\":%g}}}",
	    step, step / 1000.0, loss, 1 - loss);
}

static void learning(void)
{
	struct scene s;
	json_t *status, *best;

	scene_open(&s, 1, 2);
	scene_run(&s);
	evaluate_held_out(&s, 10, 0.5, 0.6);
	evaluate_held_out(&s, 20, 0.4, 0.5);
	evaluate_held_out(&s, 30, 0.45, 0.4);
	evaluate_held_out(&s, 40, 0.5, 0.3);
	status = coord_status(s.c, 0);
	best = json_object_get(status, "best_eval");
	ok(strcmp(json_str(best, "metric", ""), "accuracy") == 0 &&
	        json_int(best, "step", 0) == 20 && json_num(best, "value", 0) == 0.6 &&
	        json_num(best, "last", 0) == 0.5 && !json_object_get(status, "best_value"),
	    "the best evaluation is that of the rows that are held out, and chooses nothing");
	ok(!json_object_get(status, "overfits_since"), "two worse ones may be chance");
	json_decref(status);
	evaluate_held_out(&s, 50, 0.55, 0.25);
	status = coord_status(s.c, 0);
	ok(json_int(status, "overfits_since", 0) == 20 && json_num(status, "first_loss", 0) == 1,
	    "three are not, while the train loss falls");
	json_decref(status);
	evaluate_held_out(&s, 60, 0.35, 0.2);
	status = coord_status(s.c, 0);
	ok(!json_object_get(status, "overfits_since"), "a better one ends that");
	json_decref(status);
	scene_close(&s);
	scene_open(&s, 1, 2);
	scene_run(&s);
	for (int i = 1; i <= 4; i++)
		evaluate_held_out(&s, 10 * i, 0.3 + 0.1 * i, 0.6);
	status = coord_status(s.c, 0);
	ok(!json_object_get(status, "overfits_since"),
	    "a model that does not fit does not overfit");
	json_decref(status);
	say(&s, &s.worker[0],
	    "{\"op\":\"beat\",\"stats\":{\"step\":50,\"train_loss\":0.1,\"loss_examples\":100}}");
	status = coord_status(s.c, 0);
	ok(json_int(status, "overfits_since", 0) == 10,
	    "a train loss that is told after the evaluations shows it");
	json_decref(status);
	scene_close(&s);
}

static void early_stop(void)
{
	struct scene s;
	json_t *r;

	scene_open(&s, 1, 2);
	json_object_set_new(s.config, "job", json_pack("{s:s}", "stop", "auc patience=2"));
	scene_run(&s);
	evaluate(&s, 10, 0.5);
	ok(!coord_best_wanted(s.c), "nobody saves the model");
	coord_best_begin(s.c);
	evaluate(&s, 20, 0.75);
	ok(coord_best_awaited(s.c) == 20 && waiting_step(&s) == 20,
	    "the evaluator waits for the snapshot");
	ok(scene_again(&s) && !coord_best_wanted(s.c), "another coordinator begins");
	coord_best_begin(s.c);
	ok(coord_best_awaited(s.c) == 20 && waiting_step(&s) == 20,
	    "and the evaluator waits for its snapshot");
	coord_best_taken(s.c);
	ok(!coord_best_awaited(s.c) && coord_best_wanted(s.c) == 20 && waiting_step(&s) == 0,
	    "and goes on while it is written");
	coord_best_end(s.c, 20);
	evaluate(&s, 30, 0.625);
	ok(coord_best_saved(s.c) == 20 && !coord_best_wanted(s.c) && !is_ending(&s) &&
	        status_int(&s, "best_step") == 20 &&
	        strcmp(status_str(&s, "best_metric"), "auc") == 0,
	    "the best evaluation so far");
	ok(scene_again(&s) && coord_best_saved(s.c) == 20 && !is_ending(&s) &&
	        waiting_step(&s) == 0,
	    "another coordinator knows it");
	say(&s, &s.server[0], "{\"op\":\"server_join\",\"index\":0,\"listen\":\"a:1\"}");
	for (unsigned i = 0; i < 2; i++)
		say(&s, &s.worker[i], "{\"op\":\"worker_join\",\"rank\":%u}", i);
	evaluate(&s, 30, 0.5);
	ok(!is_ending(&s), "an evaluation that comes again counts once");
	evaluate(&s, 40, 0.7);
	ok(is_ending(&s) &&
	        strstr(s.events, "early_stop: the job ends: 2 evaluations after step 20"),
	    "two that are not better end the job");
	ok(scene_again(&s) && is_ending(&s), "for another coordinator, too");
	scene_close(&s);

	scene_open(&s, 1, 1);
	json_object_set_new(s.config, "job", json_pack("{s:s}", "stop", "auc patience=1"));
	scene_run(&s);
	evaluate(&s, 10, 0.75);
	evaluate(&s, 20, 0.5);
	say(&s, &s.worker[0], "{\"op\":\"done\",\"steps\":21}");
	say(&s, &s.worker[0],
	    "{\"op\":\"result\",\"step\":21,\"eval\":{\"loss\":1,\"auc\":0.25},\"digest\":\"ee\"}");
	r = coord_result(s.c, s.now);
	ok(in_phase(&s, PHASE_DONE) && json_int(r, "best_step", 0) == 10 &&
	        json_is_true(json_object_get(r, "best_is_earlier")) &&
	        json_num(r, "best_value", 0) == 0.75 && *json_str(r, "ended", "") &&
	        json_num(json_object_get(r, "eval"), "auc", 0) == 0.75 &&
	        json_is_null(json_object_get(r, "model_digest")) &&
	        json_int(r, "eval_step", -1) == 10,
	    "the result is that of the best evaluation, and tells that no checkpoint has its model");
	json_decref(r);
	scene_close(&s);

	scene_open(&s, 1, 1);
	json_object_set_new(s.config, "job", json_pack("{s:s}", "stop", "auc"));
	scene_run(&s);
	evaluate(&s, 10, 0.75);
	say(&s, &s.worker[0], "{\"op\":\"beat\",\"stats\":{\"step\":12}}");
	say(&s, &s.worker[0], "{\"op\":\"fail\",\"message\":\"the loss is infinite\"}");
	r = coord_result(s.c, s.now);
	ok(in_phase(&s, PHASE_FAILED) && json_is_true(json_object_get(r, "best_is_earlier")) &&
	        json_num(json_object_get(r, "eval"), "auc", 0) == 0.75,
	    "so is that of a job that failed after it");
	json_decref(r);
	scene_close(&s);

	scene_open(&s, 1, 1);
	s.cfg.replicas = 1;
	json_object_set_new(s.config, "job", json_pack("{s:s}", "stop", "auc"));
	scene_run(&s);
	coord_best_begin(s.c);
	evaluate(&s, 10, 0.5);
	coord_snap_begin(s.c, 10, s.now);
	say(&s, &s.server[0],
	    "{\"op\":\"snap\",\"id\":%llu,\"state\":\"taken\",\"clocks\":{\"0\":10}}",
	    (unsigned long long)coord_snap_id(s.c));
	coord_best_taken(s.c);
	say(&s, &s.worker[0], "{\"op\":\"done\",\"steps\":15}");
	ok(in_phase(&s, PHASE_RUNNING),
	    "the job is not over while the best model is being written");
	coord_snap_end(s.c);
	coord_best_end(s.c, 10);
	pass(&s, 0.1);
	ok(in_phase(&s, PHASE_FINISHING) && coord_best_saved(s.c) == 10, "and is when it is");
	say(&s, &s.worker[0],
	    "{\"op\":\"result\",\"step\":15,\"eval\":{\"loss\":1,\"auc\":0.75},\"digest\":\"ee\"}");
	r = coord_result(s.c, s.now);
	ok(json_int(r, "best_step", 0) == 15 && !*json_str(r, "ended", "") &&
	        json_is_false(json_object_get(r, "best_is_earlier")) &&
	        strcmp(json_str(r, "model_digest", ""), "ee") == 0,
	    "the last model may be the best one");
	ok(json_int(r, "eval_step", -1) == -1, "and then the evaluation is that of the model");
	json_decref(r);
	scene_close(&s);
}

/* In asp the last evaluator may be behind the evaluations before it. */
static void final_step(int step, double auc, int best, const char *what)
{
	struct scene s;
	json_t *r;

	scene_open(&s, 1, 1);
	s.cfg.lockstep = false;
	s.cfg.replicas = 1;
	json_object_set_new(s.config, "job", json_pack("{s:s}", "stop", "auc"));
	scene_run(&s);
	evaluate(&s, 20, 0.5);
	say(&s, &s.worker[0], "{\"op\":\"done\",\"steps\":%d}", step);
	say(&s, &s.worker[0],
	    "{\"op\":\"result\",\"step\":%d,\"eval\":{\"loss\":1,\"auc\":%g},\"digest\":\"ee\"}",
	    step, auc);
	r = coord_result(s.c, s.now);
	ok(json_int(r, "best_step", 0) == best &&
	        json_is_true(json_object_get(r, "best_is_earlier")) == (auc < 0.5) &&
	        json_num(json_object_get(r, "eval"), "auc", 0) == (best == 20 ? 0.5 : auc),
	    "asp: %s", what);
	ok(json_int(r, "eval_step", -1) == (auc < 0.5 ? 20 : -1),
	    "the result tells whether other workers may have changed the saved model since");
	json_decref(r);
	scene_close(&s);
}

/* The best evaluation was at step 100; `saved` is the checkpoint that is known to have its model. */
static void resume_best(bool lockstep, int step, int saved, uint64_t is, const char *what)
{
	struct state_head manifest;
	struct scene s;
	json_t *head = json_pack("{s:i, s:{s:i, s:i, s:i, s:i, s:{s:f}}, s:[]}", "step", step,
	    "stop", "best_step", 100, "seen_step", 100, "since_best", 0, "saved", saved, "eval",
	    "auc", 0.75, "tables");

	scene_open(&s, 1, 1);
	s.cfg.lockstep = lockstep;
	json_object_set_new(s.config, "job", json_pack("{s:s}", "stop", "auc"));
	ok(!state_head_decode(head, &manifest, &s.e), "a manifest is decoded: %s", s.e.msg);
	s.cfg.resume = &manifest;
	scene_begin(&s);
	ok(coord_best_saved(s.c) == is, "%s", what);
	state_head_release(&manifest);
	json_decref(head);
	scene_close(&s);
}

/* The model of the best evaluation, as its checkpoint has it. */
static void best_model(bool lockstep, int eval_step, const char *what)
{
	struct scene s;
	json_t *r;

	scene_open(&s, 1, 1);
	s.cfg.lockstep = lockstep;
	json_object_set_new(s.config, "job", json_pack("{s:s}", "stop", "auc"));
	scene_run(&s);
	coord_best_begin(s.c);
	evaluate(&s, 10, 0.75);
	r = coord_result(s.c, s.now);
	ok(json_int(r, "eval_step", -1) == 10,
	    "a job that is stopped tells of which step its last evaluation is");
	json_decref(r);
	coord_best_taken(s.c);
	coord_best_end(s.c, 10);
	say(&s, &s.worker[0], "{\"op\":\"done\",\"steps\":15}");
	say(&s, &s.worker[0],
	    "{\"op\":\"result\",\"step\":15,\"eval\":{\"loss\":1,\"auc\":0.5},\"digest\":\"ee\"}");
	r = coord_result(s.c, s.now);
	ok(json_is_true(json_object_get(r, "best_is_earlier")) &&
	        json_int(r, "eval_step", -1) == eval_step,
	    "%s", what);
	json_decref(r);
	scene_close(&s);
}

/* Another coordinator begins after the model of the best evaluation was saved. older: its state is of a
 * version that did not tell whether the model is exactly the evaluated one. */
static void best_model_after_restart(bool older, int eval_step, const char *what)
{
	struct scene s;
	json_t *r, *state;

	scene_open(&s, 1, 1);
	json_object_set_new(s.config, "job", json_pack("{s:s}", "stop", "auc"));
	scene_run(&s);
	coord_best_begin(s.c);
	evaluate(&s, 10, 0.75);
	coord_best_taken(s.c);
	coord_best_end(s.c, 10);
	state = saved_state(s.c);
	if (older)
		json_object_del(json_object_get(state, "stop"), "exact");
	ok(scene_again_from(&s, state), "another coordinator begins");
	json_decref(state);
	say(&s, &s.server[0], "{\"op\":\"server_join\",\"index\":0,\"listen\":\"a:1\"}");
	say(&s, &s.worker[0], "{\"op\":\"worker_join\",\"rank\":0}");
	say(&s, &s.worker[0], "{\"op\":\"done\",\"steps\":15}");
	say(&s, &s.worker[0],
	    "{\"op\":\"result\",\"step\":15,\"eval\":{\"loss\":1,\"auc\":0.5},\"digest\":\"ee\"}");
	r = coord_result(s.c, s.now);
	ok(json_is_true(json_object_get(r, "best_is_earlier")) &&
	        json_int(r, "eval_step", -1) == eval_step,
	    "%s", what);
	json_decref(r);
	scene_close(&s);
}

static void progressive(void)
{
	struct scene s;
	json_t *r;

	scene_open(&s, 1, 2);
	scene_run(&s);
	say(&s, &s.worker[0],
	    "{\"op\":\"beat\",\"stats\":{\"step\":4,\"progressive_loss\":0.5,\"progressive_examples\":30}}");
	say(&s, &s.worker[1],
	    "{\"op\":\"beat\",\"stats\":{\"step\":4,\"progressive_loss\":null,\"progressive_examples\":0}}");
	r = coord_status(s.c, s.now);
	ok(json_num(r, "progressive_loss", 0) == 0.5, "a worker without examples counts nothing");
	json_decref(r);
	say(&s, &s.worker[1],
	    "{\"op\":\"beat\",\"stats\":{\"step\":4,\"progressive_loss\":1.5,\"progressive_examples\":10}}");
	r = coord_result(s.c, s.now);
	ok(json_num(r, "progressive_loss", 0) == 0.75,
	    "the progressive loss is that of all examples");
	json_decref(r);
	scene_close(&s);
}

/* How many steps the job has: as the active workers tell, whichever ranks are taken. */
static void all_steps(void)
{
	struct scene s;

	scene_open(&s, 1, 4);
	scene_run(&s);
	ok(status_int(&s, "steps_total") == 0, "at first the number of steps is not known");
	for (unsigned i = 0; i < 2; i++)
		say(&s, &s.worker[i],
		    "{\"op\":\"beat\",\"stats\":{\"step\":20,\"steps_total\":60}}");
	ok(status_int(&s, "steps_total") == 60, "workers that have told nothing do not count");
	say(&s, &s.worker[0], "{\"op\":\"leave\",\"steps\":20}");
	vote(&s, 0, true, 21, 20);
	say(&s, &s.worker[1], "{\"op\":\"beat\",\"stats\":{\"step\":20,\"steps_total\":50}}");
	ok(status_int(&s, "steps_total") == 50, "nor does one that has left");
	scene_close(&s);
}

static void alone(void)
{
	struct scene s;
	json_t *r;

	scene_open(&s, 1, 2);
	scene_run(&s);
	say(&s, &s.server[0],
	    "{\"op\":\"beat\",\"stats\":{\"apply\":{\"sum\":0.5,\"counts\":[]}}}");
	say(&s, &s.worker[0],
	    "{\"op\":\"beat\",\"stats\":{\"examples\":9,\"data_seconds\":0.25,\"compute_seconds\":2}}");
	say(&s, &s.worker[1], "{\"op\":\"beat\",\"stats\":{\"examples\":9}}");
	r = coord_result(s.c, s.now);
	ok(json_is_null(json_object_get(r, "alone_seconds")),
	    "nothing is said of one process where a worker has not measured its phases");
	json_decref(r);
	say(&s, &s.worker[1],
	    "{\"op\":\"beat\",\"stats\":{\"examples\":9,\"data_seconds\":0.25,\"compute_seconds\":3}}");
	r = coord_result(s.c, s.now);
	ok(json_num(r, "alone_seconds", 0) == 6 && json_num(r, "data_seconds", 0) == 0.5 &&
	        json_num(r, "compute_seconds", 0) == 5 && json_num(r, "update_seconds", 0) == 0.5,
	    "one process would have read, computed and updated all by itself");
	json_decref(r);
	scene_close(&s);
}

/* Another process joins as worker 1, and both servers vote: `complete` steps of the rank are complete. */
static void replace_worker(struct scene *s, uint64_t incarnation, unsigned complete)
{
	s->worker[1] = (struct coord_self){ .incarnation = incarnation,
		.name = s->name[PEERS + 1],
		.key = s->name[PEERS + 1] };
	join_as_worker(s, 1, 1);
	for (unsigned i = 0; i < 2; i++)
		say(s, &s->server[i],
		    "{\"op\":\"vote\",\"id\":%lld,\"yes\":true,\"first_free\":%u,\"clock\":%u,\"complete\":%u}",
		    (long long)json_int(s->proposal[i], "id", 0), complete, complete, complete);
}

/* Worker 1 leases a range, has made steps 0 to 4 in it, and is started again. */
static void replace_leaseholder(struct scene *s)
{
	scene_open(s, 2, 2);
	s->cfg.lockstep = false;
	s->cfg.epochs = 1;
	scene_run(s);
	say(s, &s->worker[1],
	    "{\"op\":\"lease\",\"more\":true,\"step\":0,\"batch\":2,\"done\":[]}");
	replace_worker(s, 99, 5);
}

/* The ranges of a lost worker are leased again once the servers have told which of its pushes count. */
static void settling(void)
{
	static const char more[] =
	    "{\"op\":\"lease\",\"more\":true,\"step\":6,\"batch\":2,\"done\":[],\"holds\":[]}";
	struct scene s;
	int64_t old;

	replace_leaseholder(&s);
	ok(strcmp(json_str(s.proposal[0], "op", ""), "settle") == 0 &&
	        json_int(s.proposal[0], "rank", -1) == 1 && json_int(s.proposal[0], "step", 0) > 0,
	    "the servers are asked about the process that was replaced");
	ok(strcmp(say(&s, &s.worker[1], more),
	       "{\"finished\":false,\"surplus\":false,\"settling\":true}") == 0,
	    "until then its successor gets no range, and learns that it will");
	ok(strstr(say(&s, &s.worker[0], more), "\"id\":1,"), "and nobody else gets its range");
	settle(&s, 0, "[[0,0,1,5]]");
	settle(&s, 0, "[[0,0,1,5]]");
	ok(!strstr(say(&s, &s.worker[1], more), "task"), "one server cannot answer twice");
	settle(&s, 1, "[]");
	ok(strstr(say(&s, &s.worker[1], more),
	       "\"id\":0,\"epoch\":0,\"begin\":0,\"end\":10,\"from\":10,"),
	    "then it goes on where the pushes end");
	scene_close(&s);

	replace_leaseholder(&s);
	settle(&s, 0, "[[0,0,1,5]]");
	old = json_int(s.proposal[1], "id", 0);
	servers_live(&s, 3, 2);
	ok(server_is(&s, 0, "lost") && json_int(s.proposal[1], "id", 0) > old,
	    "when a server is lost the others are asked again");
	say(&s, &s.server[1], "{\"op\":\"settled\",\"id\":%lld,\"taken\":[]}", (long long)old);
	ok(!strstr(say(&s, &s.worker[1], more), "task"), "their earlier answers do not count");
	settle(&s, 1, "[[0,0,1,3]]");
	ok(strstr(say(&s, &s.worker[1], more), "\"from\":6,"),
	    "pushes that were lost with it are made again");
	scene_close(&s);

	replace_leaseholder(&s);
	replace_worker(&s, 100, 7);
	ok(!strstr(say(&s, &s.worker[1], more), "task"),
	    "the successor is replaced, too, before the answers are there");
	settle(&s, 0, "[[0,0,1,5]]");
	settle(&s, 1, "[]");
	ok(strstr(say(&s, &s.worker[1], more),
	       "\"id\":0,\"epoch\":0,\"begin\":0,\"end\":10,\"from\":10,"),
	    "the range goes on where the pushes of the first process end");
	scene_close(&s);

	replace_leaseholder(&s);
	ok(scene_again(&s), "another coordinator begins");
	ok(!strstr(say(&s, &s.worker[1], more), "task"), "it knows that the question is open");
	settle(&s, 0, "[[0,0,1,4]]");
	settle(&s, 1, "[]");
	ok(strstr(say(&s, &s.worker[1], more), "\"from\":8,"), "and learns the answer");
	scene_close(&s);
}

/* A new replica answers before it has the rank's last push, and joins its chain before the other server answers. */
static void settling_while_replicas_move(void)
{
	static const char more[] =
	    "{\"op\":\"lease\",\"more\":true,\"step\":6,\"batch\":2,\"done\":[],\"holds\":[]}";
	struct scene s;
	int epoch;
	int64_t old;

	scene_open(&s, 2, 2);
	s.cfg.lockstep = false;
	s.cfg.epochs = 1;
	s.cfg.replicas = 2;
	scene_run(&s);
	say(&s, &s.worker[1],
	    "{\"op\":\"lease\",\"more\":true,\"step\":0,\"batch\":2,\"done\":[]}");
	s.server[1].kind = COORD_NOBODY;
	s.server[1].incarnation = 77;
	join_as_server(&s, 1);
	epoch = (int)status_int(&s, "layout_epoch");
	replace_worker(&s, 99, 5);
	ok(json_int(s.proposal[1], "epoch", 0) == epoch,
	    "a server that has not this layout yet will wait for it");
	settle(&s, 1, "[[0,0,1,3]]");
	old = json_int(s.proposal[0], "id", 0);
	say(&s, &s.server[0], "{\"op\":\"copied\",\"server\":1,\"epoch\":%d}", epoch);
	for (unsigned i = 0; i < 2; i++)
		say(&s, &s.worker[i], "{\"op\":\"confirm\",\"epoch\":%d}", epoch);
	ok(happened(&s, "joined their chains") && json_int(s.proposal[0], "id", 0) > old &&
	        json_int(s.proposal[1], "id", 0) > old &&
	        json_int(s.proposal[1], "epoch", 0) > epoch,
	    "when a replica joins its chain all are asked again");
	settle(&s, 0, "[]");
	ok(!strstr(say(&s, &s.worker[1], more), "task"), "earlier answers do not count");
	settle(&s, 1, "[[0,0,1,5]]");
	ok(strstr(say(&s, &s.worker[1], more), "\"from\":10,"),
	    "no push is repeated that the new replica has got since");
	scene_close(&s);
}

/* In a deterministic job the blocks of data are assigned: the ranges of a worker that is lost, or that leaves,
 * wait for its successor, which gets them from the mark on. */
static void assigned_ranges(void)
{
	static const char join[] =
	    "{\"op\":\"worker_join\",\"rank\":%u,\"pid\":7,\"host\":\"h\",\"examples\":20,\"lease\":4,\"tables\":"
	    "[{\"name\":\"w\",\"rows\":5,\"cols\":1}]}";
	static const char more[] =
	    "{\"op\":\"lease\",\"more\":true,\"step\":9,\"batch\":0,\"done\":[]}";
	struct state_leases tasks = { .assigned = 2 }, free_tasks = { 0 };
	struct state_data data = { .tasks = &tasks };
	struct state_head head = { .data = &data };
	struct scene s;
	struct err e = { 0 };

	scene_open(&s, 1, 2);
	s.cfg.deterministic = true;
	s.cfg.on_worker_loss = COORD_WAIT;
	s.cfg.loss_wait = 600 * NSEC_PER_SEC;
	scene_begin(&s);
	join_as_server(&s, 0);
	for (unsigned i = 0; i < 2; i++)
		say(&s, &s.worker[i], join, i);
	ack_all(&s);
	ok(strstr(say(&s, &s.worker[1], more),
	       "\"id\":1,\"epoch\":0,\"begin\":4,\"end\":8,\"from\":0,\"step\":0,\"batch\":10"),
	    "a range is assigned to one rank, and its first one begins with the job");
	say(&s, &s.worker[1],
	    "{\"op\":\"lease\",\"more\":true,\"step\":9,\"batch\":0,\"done\":[],\"holds\":[[1,20,2,10,0]]}");
	ok(strstr(say(&s, &s.worker[0], more), "\"id\":0,"), "and not to whoever asks first");
	say(&s, &s.worker[1], "{\"op\":\"leave\",\"steps\":3}");
	say(&s, &s.worker[1], "{\"op\":\"beat\"}");
	ok(happened(&s, "is lost: it has left") && !happened(&s, "worker_back") && !s.proposals &&
	        in_phase(&s, PHASE_RUNNING),
	    "one that leaves is waited for");
	s.worker[1] = (struct coord_self){ .incarnation = 99,
		.name = s.name[PEERS + 1],
		.key = s.name[PEERS + 1] };
	say(&s, &s.worker[1], join, 1);
	vote(&s, 0, true, 4, 4);
	ok(strstr(say(&s, &s.worker[1], more),
	       "\"id\":1,\"epoch\":0,\"begin\":4,\"end\":8,\"from\":20,\"step\":2,\"batch\":10"),
	    "its successor gets its range with the mark");
	ok(strstr(
	       say(&s, &s.worker[1],
	           "{\"op\":\"lease\",\"more\":true,\"step\":9,\"batch\":0,\"done\":[],\"holds\":[[1,20,2,10,0]]}"),
	       "\"id\":3,\"epoch\":0,\"begin\":12,\"end\":16,\"from\":0,\"step\":9,\"batch\":0"),
	    "and the next of its rank without one");
	scene_close(&s);

	ok(!coord_resume_check(&head, true, 2, &e) &&
	        coord_resume_check(&head, true, 3, &e) == ERR_CONFIG &&
	        strstr(e.msg, "workers: must be 2") &&
	        coord_resume_check(&head, false, 2, &e) == ERR_CONFIG &&
	        strstr(e.msg, "deterministic: must be true"),
	    "such a job resumes only with as many workers");
	data.tasks = &free_tasks;
	ok(!coord_resume_check(&head, false, 3, &e) &&
	        coord_resume_check(&head, true, 3, &e) == ERR_CONFIG &&
	        strstr(e.msg, "deterministic: must be false"),
	    "and no other job becomes one");
	data.tasks = NULL;
	ok(!coord_resume_check(&head, true, 3, &e), "where no data were leased any job resumes");
}

/* The only worker, which something starts again; it leaves by this message. */
static void scene_with_returning_worker(struct scene *s, const char *leave)
{
	scene_open(s, 1, 1);
	scene_begin(s);
	join_as_server(s, 0);
	say(s, &s->worker[0],
	    "{\"op\":\"worker_join\",\"rank\":0,\"pid\":7,\"host\":\"h\",\"examples\":100,\"returns\":true,"
	    "\"tables\":[{\"name\":\"w\",\"rows\":5,\"cols\":1}]}");
	ack_all(s);
	if (leave)
		say(s, &s->worker[0], "%s", leave);
	else
		live(s, 6, 0);
	vote(s, 0, true, 3, 2);
}

/* The job waits for a worker that returns, for its deadline of 60 s. */
static void returning_worker(void)
{
	struct scene s;
	json_t *why;

	scene_with_returning_worker(&s, "{\"op\":\"leave\",\"steps\":3}");
	ok(in_phase(&s, PHASE_RUNNING) && strcmp(worker_is(&s, 0), "left") == 0 &&
	        happened(&s, "waiting up to 60 s for worker-0"),
	    "the only worker has left, and is waited for");
	live(&s, 50, 0);
	why = coord_why(s.c, s.now);
	ok(json_array_size(why) == 1 &&
	        strcmp(json_str(json_array_get(why, 0), "for", ""), "worker-0") == 0,
	    "which is said to those who wonder");
	json_decref(why);
	ok(scene_again(&s) && in_phase(&s, PHASE_RUNNING), "the next coordinator knows it, too");
	live(&s, 55, 0);
	ok(in_phase(&s, PHASE_RUNNING), "and waits for as long");
	s.worker[0] = (struct coord_self){ .incarnation = 99,
		.name = s.name[PEERS],
		.key = s.name[PEERS] };
	join_as_worker(&s, 0, 0);
	vote(&s, 0, true, 4, 3);
	ok(strcmp(worker_is(&s, 0), "active") == 0, "it is back");
	say(&s, &s.worker[0], "{\"op\":\"leave\",\"steps\":3}");
	vote(&s, 0, true, 5, 4);
	ok(in_phase(&s, PHASE_FAILED), "a process that nothing starts again is not waited for");
	scene_close(&s);

	scene_with_returning_worker(&s, NULL);
	ok(in_phase(&s, PHASE_RUNNING) && strcmp(worker_is(&s, 0), "lost") == 0,
	    "one that was lost is waited for");
	live(&s, 59, 0);
	ok(in_phase(&s, PHASE_RUNNING), "until the deadline");
	live(&s, 2, 0);
	ok(in_phase(&s, PHASE_FAILED) && strstr(status_str(&s, "reason"), "all workers have ended"),
	    "and not for longer: %s", status_str(&s, "reason"));
	scene_close(&s);

	scene_with_returning_worker(&s,
	    "{\"op\":\"give_up\",\"message\":\"bad data\",\"cause\":\"data\"}");
	ok(in_phase(&s, PHASE_FAILED), "nor is one that has an error of its own");
	scene_close(&s);
	scene_with_returning_worker(&s,
	    "{\"op\":\"give_up\",\"message\":\"no server\",\"returns\":true}");
	ok(in_phase(&s, PHASE_RUNNING), "but one that has given up waiting for a server is");
	scene_close(&s);
}

int main(void)
{
	returning_worker();
	kept_places();
	begins_with();
	how_far();
	ending();
	leases();
	hostile_leases();
	settling();
	settling_while_replicas_move();
	assigned_ranges();
	place_in_data();
	served();
	last_words();
	learning();
	early_stop();
	best_model(true, -1, "in bsp the evaluation is that of the saved model");
	best_model(false, 10, "in asp others push between the evaluation and the snapshot");
	final_step(15, 0.75, 21, "a better final model of a slower worker is the best one");
	final_step(20, 0.75, 21, "so is one of the same step, if others have changed it");
	final_step(20, 0.25, 20, "a worse one of the same step is not exported");
	final_step(20, 0.5, 20, "one that is as good as the best one there is");
	resume_best(true, 100, 0, 100, "a resumed checkpoint is that of the best evaluation");
	resume_best(true, 137, 100, 100, "a later one does not take its place");
	resume_best(true, 137, 0, 0, "nor is it the best one where that is missing, in bsp");
	resume_best(false, 101, 0, 101, "in asp its step may be a later one");
	best_model_after_restart(false, -1,
	    "the saved model is known to be that of the evaluation");
	best_model_after_restart(true, 10,
	    "where that is unknown, the result tells of which step its evaluation is");
	progressive();
	all_steps();
	alone();
	return tap_done();
}

/* SPDX-License-Identifier: ISC */
/* Live settings in the coordinator: decided for a step or set at once, and kept in its state. */
#include "coord_fixture.h"

#include "conf/conf.h"

static uint64_t ticket;

/* Requests a change, "KEY" = "VALUE". */
static bool request(struct scene *s, const char *key, const char *value, int64_t step)
{
	json_t *set = json_pack("{s:s}", key, value);
	bool done = coord_request_settings(s->c,
	                &(struct setting){ .set = set, .who = "admin", .step = step }, s->now,
	                &ticket, &s->e) == ERR_OK;

	json_decref(set);
	return done;
}

/* The worker reaches a step, and the change that is requested then is decided for a later one. */
static bool change(struct scene *s, const char *key, const char *value, unsigned step)
{
	say(s, &s->worker[0], "{\"op\":\"beat\",\"stats\":{\"step\":%u,\"doing\":\"compute\"}}",
	    step);
	if (!request(s, key, value, 0))
		return false;
	vote(s, 0, true, step + 1, step);
	return !coord_is_deciding(s->c);
}

static double rate(const struct scene *s)
{
	return coord_present_conf(s->c)->job.lr;
}

static void begin(struct scene *s)
{
	scene_open(s, 1, 1);
	scene_run(s);
}

/* A key that no computation depends on has one value for all steps. */
static void at_once(void)
{
	struct scene s;
	json_t *view, *past;

	begin(&s);
	ok(change(&s, "lr", "0.25", 5) && rate(&s) == 0.25, "a rate from a step on");
	ok(request(&s, "checkpoint_every", "100", 0) && !coord_is_deciding(s.c),
	    "at once: no vote is needed");
	ok(coord_present_conf(s.c)->checkpoint_every.steps == 100 && rate(&s) == 0.25 &&
	        json_int(coord_present_config(s.c), "checkpoint_every", -1) == 100,
	    "both are in the present configuration");
	view = coord_view(s.c);
	ok(json_array_size(json_object_get(view, "changes")) == 1 &&
	        status_int(&s, "settings") == 1,
	    "it is no change of a step");
	json_decref(view);
	past = coord_settings_past(s.c);
	ok(json_is_null(json_object_get(json_object_get(past, "checkpoint_every"), "step")),
	    "and who has set it is known");
	json_decref(past);
	ok(scene_again(&s) && coord_present_conf(s.c)->checkpoint_every.steps == 100 &&
	        rate(&s) == 0.25,
	    "another coordinator goes on with both");
	scene_close(&s);
}

/* With more changes than are kept, the first ones become a part of the base. */
static void many(void)
{
	struct scene s;
	json_t *view, *changes;
	char text[16];
	unsigned i;

	begin(&s);
	ok(change(&s, "momentum", "0.5", 10), "the first change");
	for (i = 1; i < 40; i++) {
		snprintf(text, sizeof text, "0.%u", 100 + i);
		if (!change(&s, "lr", text, 10 + 10 * i))
			break;
	}
	ok(i == 40, "%u changes: %s", i, s.e.msg);
	view = coord_view(s.c);
	changes = json_object_get(view, "changes");
	ok(json_array_size(changes) == 32 && json_int(view, "settings_base", -1) == 8 &&
	        json_int(json_array_get(changes, 0), "number", -1) == 9 &&
	        !json_object_get(json_array_get(changes, 0), "who"),
	    "the last ones are in the view");
	ok(json_number_value(
	       json_object_get(json_object_get(json_object_get(view, "config"), "job"),
	           "momentum")) == 0.5,
	    "and the first ones in its configuration");
	json_decref(view);
	ok(rate(&s) == 0.139 && coord_present_conf(s.c)->job.momentum == 0.5, "all hold");
	ok(scene_again(&s) && rate(&s) == 0.139 && coord_present_conf(s.c)->job.momentum == 0.5 &&
	        status_int(&s, "settings") == 40,
	    "also after a restart");
	scene_close(&s);
}

static void not_possible(void)
{
	struct scene s;
	json_t *state;

	begin(&s);
	ok(!request(&s, "lr", "fast", 0) && s.e.code == ERR_CONFIG && !coord_is_deciding(s.c),
	    "a wrong value: %s", s.e.msg);
	ok(request(&s, "lr", "0.25", 7) && !request(&s, "lr", "0.5", 0) && s.e.code == ERR_EXISTS,
	    "one change after the other: %s", s.e.msg);
	ok(scene_again(&s) && coord_is_deciding(s.c), "a request is kept");
	state = saved_state(s.c);
	ok(json_int(json_object_get(state, "setting"), "step", -1) == 7, "and its earliest step");
	json_decref(state);
	scene_close(&s);
}

/* Rewrites a state as an earlier version wrote it: with the configuration after each change, and
 * the values set at once only in that of the last one. */
static json_t *as_written_before(const struct coord *c)
{
	json_t *state = saved_state(c), *list = json_object_get(state, "settings"), *one;
	size_t i;

	json_array_foreach(list, i, one) {
		json_object_set(one, "config", coord_present_config(c));
		json_object_set_new(one, "what", json_string("text"));
		json_object_set_new(one, "batch", json_integer(10));
		json_object_set_new(one, "lockstep", json_true());
		json_object_set_new(one, "at", json_integer(0));
	}
	json_object_del(json_object_get(state, "settings_config"), "checkpoint_every");
	json_object_set_new(state, "settings_now",
	    json_pack("{s:i, s:b}", "batch", 10, "lockstep", true));
	return state;
}

static void of_an_earlier_version(void)
{
	struct scene s;
	json_t *before;

	begin(&s);
	ok(change(&s, "lr", "0.25", 5) && request(&s, "checkpoint_every", "100", 0), "changes");
	before = as_written_before(s.c);
	ok(scene_again_from(&s, before) && rate(&s) == 0.25 &&
	        coord_present_conf(s.c)->checkpoint_every.steps == 100,
	    "the state of an earlier version is read: %s", s.e.msg);
	json_decref(before);
	scene_close(&s);
}

int main(void)
{
	at_once();
	many();
	not_possible();
	of_an_earlier_version();
	return tap_done();
}

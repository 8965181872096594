/* SPDX-License-Identifier: ISC */
/* The check of a checkpoint: servers compare it with its digests before any worker joins; if one
 * finds damage, the owner gives the state machine an older one. */
#include "coord_fixture.h"

/* Two checkpoints: `newer` of step 20 in generation 3 with two tables, `older` of step 10 in
 * generation 2. */
static struct state_head newer, older;
static json_t *documents[2];

static json_t *make_head(int step, int generation, int epoch, const char *tables)
{
	struct err e = { 0 };
	json_t *list = json_parse(tables, strlen(tables), strlen(tables), &e);

	return json_pack("{s:i, s:i, s:i, s:{s:{s:i}, s:{s:i, s:i}}, s:o}", "step", step,
	    "generation", generation, "epoch", epoch, "data", "facts", "cols", step, "deal",
	    "epoch", 1, "offset", step, "tables", list);
}

static void read_heads(void)
{
	struct err e = { 0 };

	documents[0] = make_head(20, 3, 7,
	    "[{\"name\":\"w\",\"rows\":5,\"cols\":1},{\"name\":\"b\",\"rows\":2,\"cols\":1}]");
	documents[1] = make_head(10, 2, 4, "[{\"name\":\"w\",\"rows\":5,\"cols\":1}]");
	ok(!state_head_decode(documents[0], &newer, &e) &&
	        !state_head_decode(documents[1], &older, &e),
	    "two manifests are decoded: %s", e.msg);
}

static void begin_check(struct scene *s, unsigned servers, unsigned workers)
{
	scene_open(s, servers, workers);
	s->cfg.resume = &newer;
	s->cfg.resume_path = "/r/checkpoints/step-20";
	s->cfg.check_resume = true;
	scene_begin(s);
}

static void take_older(struct scene *s)
{
	struct coord_config cfg = s->cfg;

	cfg.resume = &older;
	cfg.resume_path = "/r/checkpoints/step-10";
	coord_resume_instead(s->c, &cfg, s->now);
}

/* Server i tells what it has found in its share. */
static void answer(struct scene *s, unsigned i, const char *path, unsigned of, const char *damage)
{
	say(s, &s->server[i],
	    "{\"op\":\"checked\",\"restore\":\"%s\",\"index\":%u,\"of\":%u,\"damage\":\"%s\"}",
	    path, i, of, damage);
}

static bool view_has(const struct scene *s, const char *text)
{
	json_t *v = coord_view(s->c);
	char *t = json_text(v);
	bool has = strstr(t, text) != NULL;

	free(t);
	json_decref(v);
	return has;
}

static bool view_lacks(const struct scene *s, const char *text)
{
	return !view_has(s, text);
}

/* Nothing begins before all servers have compared their shares. */
static void all_is_well(void)
{
	struct scene s;

	begin_check(&s, 2, 1);
	ok(!coord_resume_is_checked(s.c) && view_has(&s, "\"checking\":true"),
	    "a checkpoint is checked to begin with");
	join_as_server(&s, 0);
	join_as_worker(&s, 0, -1);
	ok(s.e.code == ERR_CLOSED, "a worker of the coordinator before must join again: %s",
	    s.e.msg);
	ok(strstr(say(&s, &s.worker[0],
	              "{\"op\":\"worker_join\",\"examples\":100,\"waits\":true,\"tables\":[]}"),
	       "being verified") &&
	        !s.e.code,
	    "one that waits is told why");
	answer(&s, 0, "/r/checkpoints/step-20", 2, "");
	ok(!coord_resume_is_checked(s.c), "one server of two has checked it");
	join_as_server(&s, 1);
	ok(view_has(&s, "\"waiting_for\":\"server-1 to verify step-20\""),
	    "the view names the server that has not");
	answer(&s, 1, "/r/checkpoints/step-19", 2, "");
	answer(&s, 1, "/r/checkpoints/step-20", 1, "");
	answer(&s, 1, "/r/checkpoints/step-18", 2, "bad");
	ok(!coord_resume_is_checked(s.c) && !coord_resume_damage(s.c),
	    "answers about another checkpoint, or another share, do not count");
	answer(&s, 1, "/r/checkpoints/step-20", 2, "");
	ok(coord_resume_is_checked(s.c) && view_lacks(&s, "checking") && !coord_is_placed(s.c),
	    "then it is checked, and workers may join");
	ok(strcmp(join_as_worker(&s, 0, -1), "{\"rank\":0}") == 0, "one does: %s", s.e.msg);
	ok(coord_is_placed(s.c), "and the partitions are placed");
	answer(&s, 1, "/r/checkpoints/step-20", 2, "bad");
	ok(!coord_resume_damage(s.c), "what a server says later is too late to matter");
	ack_all(&s);
	ok(in_phase(&s, PHASE_RUNNING) && view_has(&s, "\"from\":20"),
	    "the job runs on at step 20");
	ok(scene_again(&s) && coord_resume_is_checked(s.c),
	    "a coordinator that goes on from the state checks nothing");
	scene_close(&s);
}

static void one_is_damaged(void)
{
	struct scene s;
	uint64_t layout, stamp;
	json_t *state;

	begin_check(&s, 2, 1);
	join_as_server(&s, 0);
	join_as_server(&s, 1);
	answer(&s, 0, "/r/checkpoints/step-20", 2, "");
	answer(&s, 1, "/r/checkpoints/step-20", 2, "a bit is wrong");
	ok(coord_resume_damage(s.c) && strcmp(coord_resume_damage(s.c), "a bit is wrong") == 0 &&
	        !coord_resume_is_checked(s.c),
	    "a server finds damage");
	layout = coord_layout_number(s.c);
	stamp = coord_state_rev(s.c);
	state = saved_state(s.c);
	ok(strcmp(json_str(state, "restore", ""), "/r/checkpoints/step-20") == 0 &&
	        !json_is_true(json_object_get(state, "placed")),
	    "the state until then names it, and has no partitions");
	json_decref(state);
	take_older(&s);
	ok(!coord_resume_damage(s.c) && !coord_resume_is_checked(s.c) &&
	        coord_state_rev(s.c) > stamp,
	    "an older one is checked by all servers");
	state = saved_state(s.c);
	ok(strcmp(json_str(state, "restore", ""), "/r/checkpoints/step-10") == 0,
	    "the saved state names that one");
	json_decref(state);
	ok(view_has(&s, "step-10") && view_lacks(&s, "step-20") && coord_count_tables(s.c) == 1,
	    "nothing is left of the damaged one");
	ok(coord_layout_number(s.c) >= layout, "its layouts are older than the new ones");
	ok(view_has(&s, "checking"), "the view says so");
	answer(&s, 0, "/r/checkpoints/step-20", 2, "I see it, too");
	ok(!coord_resume_damage(s.c), "another server finds the damage later: that is no news");
	answer(&s, 0, "/r/checkpoints/step-10", 2, "");
	ok(!coord_resume_is_checked(s.c),
	    "a share of the damaged one does not count for the older one");
	answer(&s, 1, "/r/checkpoints/step-10", 2, "");
	ok(coord_resume_is_checked(s.c), "the older one is whole");
	join_as_worker(&s, 0, -1);
	ack_all(&s);
	ok(in_phase(&s, PHASE_RUNNING) && view_has(&s, "\"from\":10"),
	    "the job runs on at step 10");
	scene_close(&s);
}

/* There is no older one: the owner fails the job. */
static void all_are_damaged(void)
{
	struct scene s;

	begin_check(&s, 1, 1);
	join_as_server(&s, 0);
	answer(&s, 0, "/r/checkpoints/step-20", 1, "a bit is wrong");
	coord_fail(s.c, CAUSE_UNKNOWN, coord_resume_damage(s.c), s.now);
	ok(in_phase(&s, PHASE_FAILED) && view_has(&s, "a bit is wrong") &&
	        view_lacks(&s, "checking"),
	    "a job that fails checks nothing any more");
	scene_close(&s);
}

/* A server is started again while the others compare. */
static void replaced_server(void)
{
	struct scene s;

	begin_check(&s, 2, 0);
	join_as_server(&s, 0);
	join_as_server(&s, 1);
	answer(&s, 0, "/r/checkpoints/step-20", 2, "");
	answer(&s, 1, "/r/checkpoints/step-20", 2, "");
	ok(coord_resume_is_checked(s.c) && coord_is_placed(s.c),
	    "without a job the partitions are placed at once");
	scene_close(&s);

	begin_check(&s, 2, 1);
	join_as_server(&s, 0);
	join_as_server(&s, 1);
	answer(&s, 0, "/r/checkpoints/step-20", 2, "");
	s.server[0] = (struct coord_self){ .incarnation = 77, .name = s.name[0], .key = s.name[0] };
	say(&s, &s.server[0], "{\"op\":\"server_join\",\"index\":0,\"pid\":9,\"host\":\"h\"}");
	answer(&s, 1, "/r/checkpoints/step-20", 2, "");
	ok(!coord_resume_is_checked(s.c), "the new process of server-0 has checked nothing yet");
	answer(&s, 0, "/r/checkpoints/step-20", 2, "");
	ok(coord_resume_is_checked(s.c), "then it has");
	scene_close(&s);
}

int main(void)
{
	read_heads();
	all_is_well();
	one_is_damaged();
	all_are_damaged();
	replaced_server();
	state_head_release(&newer);
	state_head_release(&older);
	json_decref(documents[0]);
	json_decref(documents[1]);
	return tap_done();
}

/* SPDX-License-Identifier: ISC */
/* Trials of all lines: asked for at the coordinator, told by workers' heartbeats. */
#include "coord_fixture.h"

static int64_t view_int(const struct scene *s, const char *key)
{
	json_t *v = coord_view(s->c);
	int64_t n = json_int(v, key, -1);

	json_decref(v);
	return n;
}

static bool found(const struct scene *s, unsigned i, bool done, const char *stage)
{
	json_t *p = coord_probes(s->c, s->now);
	const json_t *w = json_array_get(json_object_get(p, "workers"), i);
	bool is = json_flag(w, "done") == done &&
	    strcmp(json_str(json_array_get(json_object_get(w, "servers"), 0), "stage", ""),
	        stage) == 0;

	json_decref(p);
	return is;
}

static void tell(struct scene *s, unsigned i, int64_t number)
{
	say(s, &s->worker[i],
	    "{\"op\":\"beat\",\"stats\":{\"step\":1,\"probe\":{\"number\":%lld,\"servers\":[{\"id\":\"server-0\",\"stage\":\"done\"}]}}}",
	    (long long)number);
}

static void trial(void)
{
	struct scene s;
	uint64_t rev;
	int64_t first, second;
	json_t *rows;

	scene_open(&s, 2, 2);
	scene_run(&s);
	rev = coord_rev(s.c);
	ok(view_int(&s, "probe") == -1, "nobody has asked: the view says nothing of it");
	first = coord_probe(s.c, s.now);
	ok(first > 0 && view_int(&s, "probe") == first && view_int(&s, "probe_servers") == 64 &&
	        coord_rev(s.c) > rev,
	    "a trial is in the view");
	ok(coord_probe(s.c, s.now + NSEC_PER_SEC) == first, "who asks soon after gets the same");
	ok(found(&s, 0, false, ""), "nobody has told of it");
	tell(&s, 0, first);
	say(&s, &s.worker[0], "{\"op\":\"beat\",\"stats\":{\"step\":2}}");
	ok(found(&s, 0, true, "done") && found(&s, 1, false, ""),
	    "one has, and later heartbeats say nothing of it");
	rows = coord_workers(s.c, s.now);
	ok(!json_object_get(json_array_get(rows, 0), "probe") &&
	        json_int(json_array_get(rows, 0), "step", 0) == 2,
	    "its row is as ever");
	json_decref(rows);
	s.now += 4 * NSEC_PER_SEC;
	second = coord_probe(s.c, s.now);
	ok(second > first && found(&s, 0, false, ""), "another trial begins anew");
	tell(&s, 1, first);
	ok(found(&s, 1, false, ""), "an answer to an earlier one is none");
	tell(&s, 1, second);
	ok(found(&s, 1, true, "done"), "an answer to this one is");
	scene_close(&s);
}

/* Thousands of lines are not all tried at once. */
static void many(void)
{
	struct scene s;

	scene_open(&s, 1, 1000);
	scene_begin(&s);
	coord_probe(s.c, s.now);
	ok(view_int(&s, "probe_servers") == 4, "1000 workers try 4 servers each");
	scene_close(&s);
	scene_open(&s, 1, COORD_WORKERS_MAX);
	scene_begin(&s);
	coord_probe(s.c, s.now);
	ok(view_int(&s, "probe_servers") == 1, "the most of them one each");
	scene_close(&s);
}

static void about(void)
{
	struct scene s;
	json_t *rows;
	double skew;

	scene_open(&s, 1, 1);
	scene_run(&s);
	say(&s, &s.worker[0],
	    "{\"op\":\"beat\",\"about\":{\"version\":\"9.9\",\"clock_seconds\":%.3f,\"max_fds\":50},\"stats\":{\"step\":3}}",
	    (double)clock_wall() / 1e9 + 100);
	say(&s, &s.server[0], "{\"op\":\"beat\",\"about\":{\"version\":\"9.8\"}}");
	s.now += 2 * NSEC_PER_SEC;
	rows = coord_workers(s.c, s.now);
	skew = json_num(json_array_get(rows, 0), "clock_skew_seconds", 0);
	ok(skew > 101 && skew < 103, "a clock that is ahead, by how long ago that was");
	ok(strcmp(json_str(json_array_get(rows, 0), "version", ""), "9.9") == 0 &&
	        json_int(json_array_get(rows, 0), "max_fds", 0) == 50,
	    "what a process says of itself stands in its row");
	json_decref(rows);
	rows = coord_servers(s.c, s.now);
	ok(strcmp(json_str(json_array_get(rows, 0), "version", ""), "9.8") == 0 &&
	        !json_object_get(json_array_get(rows, 0), "clock_skew_seconds"),
	    "a server's, too; of a clock that it does not tell nothing is said");
	json_decref(rows);
	scene_close(&s);
}

int main(void)
{
	trial();
	many();
	about();
	return tap_done();
}

/* SPDX-License-Identifier: ISC */
/* Who waits, for whom, why: as the coordinator tells it from what it hears. */
#include "coord/straggler.h"
#include "coord_fixture.h"

/* The n-th wait as "who>for step because", "" when there are no more. */
static const char *wait_at(const struct scene *s, size_t n)
{
	static char out[600];
	json_t *list = coord_why(s->c, s->now);
	const json_t *o = json_array_get(list, n);

	out[0] = 0;
	if (o)
		snprintf(out, sizeof out, "%s>%s %lld %s", json_str(o, "id", ""),
		    json_str(o, "for", ""), (long long)json_int(o, "step", -1),
		    json_str(o, "because", ""));
	json_decref(list);
	return out;
}

/* Has the n-th wait this reason in the plural? */
static bool is_together(const struct scene *s, size_t n, const char *text)
{
	json_t *list = coord_why(s->c, s->now);
	bool is = strcmp(json_str(json_array_get(list, n), "together", ""), text) == 0;

	json_decref(list);
	return is;
}

static bool says(const struct scene *s, size_t n, const char *begin, const char *part)
{
	const char *text = wait_at(s, n);

	if (strncmp(text, begin, strlen(begin)) == 0 && strstr(text, part) && (*begin || !*text))
		return true;
	printf("# %zu: \"%s\"\n", n, text);
	return false;
}

static bool nobody(const struct scene *s)
{
	return says(s, 0, "", "");
}

static double since(const struct scene *s, size_t n)
{
	json_t *list = coord_why(s->c, s->now);
	double x = json_num(json_array_get(list, n), "since_seconds", -1);

	json_decref(list);
	return x;
}

/* What a worker does, how far it is, and what a step has taken it so far. */
static void beat(struct scene *s, unsigned i, unsigned step, const char *doing, double seconds,
    double compute)
{
	say(s, &s->worker[i],
	    "{\"op\":\"beat\",\"stats\":{\"step\":%u,\"doing\":\"%s\",\"doing_seconds\":%g,\"compute_seconds\":%g}}",
	    step, doing, seconds, compute);
}

static void start(void)
{
	struct scene s;

	scene_open(&s, 2, 2);
	scene_begin(&s);
	join_as_server(&s, 0);
	join_as_worker(&s, 1, 1);
	s.now += 3 * NSEC_PER_SEC;
	ok(says(&s, 0, "the start>server-1 -1", "has not joined") &&
	        says(&s, 1, "the start>worker-0 -1", "has not joined") && says(&s, 2, "", ""),
	    "who has not come, each by name");
	ok(since(&s, 0) > 2.9, "for how long");
	scene_close(&s);
}

static void others(void)
{
	struct scene s;

	scene_open(&s, 2, 3);
	scene_run(&s);
	ok(nobody(&s), "nobody waits when nothing is known");
	beat(&s, 0, 5, "wait", 0.01, 0);
	beat(&s, 1, 4, "compute", 0.02, 0);
	beat(&s, 2, 5, "wait", 0.01, 0);
	ok(nobody(&s), "a step's ordinary waits are not worth a word");
	pass(&s, 0.4);
	ok(says(&s, 0, "worker-0>worker-1 5", "computes step 4, for 0.4 s") &&
	        says(&s, 1, "worker-2>worker-1 5", "computes") && says(&s, 2, "", ""),
	    "who is behind, and what it does");
	beat(&s, 1, 4, "data", 0.9, 0);
	ok(says(&s, 0, "worker-0>worker-1 5", "reads its data for step 4, for 0.9 s"),
	    "its data is slow");
	beat(&s, 1, 4, "push", 0.9, 0);
	ok(says(&s, 0, "worker-0>worker-1 5", "pushes step 4"), "its line is slow");
	beat(&s, 1, 3, "wait", 0.9, 0);
	beat(&s, 2, 3, "compute", 0.9, 0);
	ok(says(&s, 0, "worker-0>worker-2 5", "computes step 3") &&
	        says(&s, 1, "worker-1>the servers 3", ""),
	    "of two that are as far behind, the one that does not wait itself");
	pass(&s, 1.2);
	beat(&s, 0, 5, "wait", 2.1, 0);
	beat(&s, 2, 5, "wait", 0.1, 0);
	ok(says(&s, 0, "worker-0>worker-1 5",
	       "pid 201, has been silent for 1.2 s; it is declared lost after 5 s"),
	    "one that is not heard of");
	scene_close(&s);
}

static void servers(void)
{
	struct scene s;

	scene_open(&s, 2, 2);
	scene_run(&s);
	beat(&s, 0, 5, "wait", 0.5, 0);
	beat(&s, 1, 5, "wait", 0.5, 0);
	ok(says(&s, 0, "worker-0>the servers 5", "no worker is behind"),
	    "all wait: it is the servers");
	pass(&s, 0.7);
	say(&s, &s.server[0], "{\"op\":\"beat\"}");
	pass(&s, 0.5);
	beat(&s, 0, 5, "wait", 1.7, 0);
	ok(says(&s, 0, "worker-0>server-1 5", "pid 101, has been silent for 1.2 s"),
	    "the one that is not heard of");
	scene_close(&s);
}

static void slow(void)
{
	struct scene s;

	scene_open(&s, 2, 3);
	scene_run(&s);
	for (unsigned i = 0; i < 3; i++)
		beat(&s, i, 20, "compute", 0, i == 2 ? 2.0 : 0.4);
	ok(says(&s, 0, "everybody>worker-2 20",
	       "takes it 100 ms without waiting, the others 20 ms; 100 % of that is compute") &&
	        says(&s, 1, "", ""),
	    "one that is slow at every step");
	beat(&s, 2, 20, "compute", 0, 0.5);
	ok(nobody(&s), "a little slower is nothing");
	beat(&s, 2, 5, "compute", 0, 2.0);
	ok(nobody(&s), "nor is a beginning");
	scene_close(&s);
}

/* A heartbeat of a worker of whose time a step takes `own` ms of computation and `wait` ms of waiting, after
 * so many steps. */
static void beat_fast(struct scene *s, unsigned i, unsigned step, double own, double wait)
{
	say(s, &s->worker[i],
	    "{\"op\":\"beat\",\"stats\":{\"step\":%u,\"doing\":\"compute\",\"doing_seconds\":0,"
	    "\"compute_seconds\":%g,\"wait_seconds\":%g}}",
	    step, step * own / 1e3, step * wait / 1e3);
}

/* Steps of a fraction of a millisecond: no wait is long, but the others wait for most of the time. */
static void fast(void)
{
	struct scene s;

	scene_open(&s, 2, 3);
	scene_run(&s);
	for (unsigned i = 0; i < 3; i++)
		beat_fast(&s, i, 2000, i == 1 ? 0.5 : 0.1, i == 1 ? 0.05 : 0.45);
	ok(says(&s, 0, "everybody>worker-1 2000",
	       "the others wait for 82 % of their time: a step takes it 0.5 ms without waiting, the "
	       "others 0.1 ms; 100 % of that is compute") &&
	        says(&s, 1, "", ""),
	    "one for which the others wait at fast steps");
	scene_close(&s);
	scene_open(&s, 2, 3);
	scene_run(&s);
	for (unsigned i = 0; i < 3; i++)
		beat_fast(&s, i, 2000, 0.1, 0.45);
	ok(nobody(&s), "all wait as long: no worker is slow");
	for (unsigned i = 0; i < 3; i++)
		beat_fast(&s, i, 2000, i == 1 ? 0.13 : 0.1, 0.02);
	ok(nobody(&s), "waits that are short are not worth a word");
	scene_close(&s);
}

/* The judgement follows the last seconds, not the whole life of the job. */
static void window(void)
{
	struct straggler_window w[2] = { { .next_at = 0 } };
	struct straggler_costs at[2] = { { .steps = 0 } }, since[2];
	struct straggler j[2];
	int64_t now = 1000 * NSEC_PER_SEC;
	bool early = false;

	/* For 20 s worker 0 is slow, then worker 1 for 5 s; a step of either takes 1 ms. */
	for (unsigned beat = 0; beat < 125; beat++) {
		unsigned slow = beat >= 100;

		for (unsigned i = 0; i < 2; i++) {
			at[i].steps += 200;
			at[i].part[STRAGGLER_COMPUTE] += 200 * (i == slow ? 0.9e-3 : 0.2e-3);
			at[i].wait += 200 * (i == slow ? 0.1e-3 : 0.8e-3);
			straggler_note(&w[i], &at[i], now);
			since[i] = straggler_since(&w[i], &at[i]);
		}
		now += 200 * NSEC_PER_MSEC;
		straggler_judge(since, 2, j);
		if (beat == 99)
			early = j[0].slow && !j[1].slow;
	}
	ok(early && j[1].slow && !j[0].slow, "who has been slow lately, not long ago");
	ok(since[0].steps >= 2000 && since[0].steps <= 4200, "the window has 2 to 4 s: %g steps",
	    since[0].steps);
	/* Steps of 4 s: a window has ten of them. */
	w[0] = (struct straggler_window){ 0 };
	at[0] = (struct straggler_costs){ 0 };
	for (unsigned beat = 0; beat < 100; beat++) {
		at[0].steps += 1;
		straggler_note(&w[0], &at[0], now += 4 * NSEC_PER_SEC);
	}
	since[0] = straggler_since(&w[0], &at[0]);
	ok(since[0].steps >= STRAGGLER_STEPS && since[0].steps <= 2 * STRAGGLER_STEPS,
	    "a slow job has a longer window: %g steps", since[0].steps);
}

/* All wait at the moment of their heartbeats, and no worker is behind by its figures. */
static void not_the_servers(void)
{
	struct scene s;

	scene_open(&s, 2, 3);
	scene_run(&s);
	for (unsigned i = 0; i < 3; i++)
		say(&s, &s.worker[i],
		    "{\"op\":\"beat\",\"stats\":{\"step\":20,\"doing\":\"wait\",\"doing_seconds\":0.3,"
		    "\"compute_seconds\":%g,\"wait_seconds\":%g}}",
		    i == 2 ? 6.0 : 1.0, i == 2 ? 1.0 : 6.0);
	ok(says(&s, 0, "worker-0>worker-2 20", "takes it 300 ms") &&
	        says(&s, 1, "worker-1>worker-2 20", "") &&
	        says(&s, 2, "worker-2>the servers 20", "") &&
	        says(&s, 3, "everybody>worker-2 20", ""),
	    "the servers are not blamed for a worker that is always the last");
	scene_close(&s);
}

/* The remedy of the first. */
static bool advises(const struct scene *s, const char *part)
{
	json_t *list = coord_why(s->c, s->now);
	const char *text = json_str(json_array_get(list, 0), "remedy", "");
	bool does = strstr(text, part) != NULL;

	if (!does)
		printf("# \"%s\"\n", text);
	json_decref(list);
	return does;
}

static void stale(void)
{
	struct scene s;

	scene_open(&s, 2, 2);
	s.cfg.lockstep = false;
	json_object_set_new(s.config, "sync", json_string("ssp:3"));
	scene_run(&s);
	beat(&s, 0, 7, "wait", 0.5, 0);
	beat(&s, 1, 4, "compute", 0.5, 0);
	ok(says(&s, 0, "worker-0>the servers 7", ""),
	    "ssp:3: three steps ahead nobody is waited for");
	beat(&s, 1, 3, "compute", 0.5, 0);
	ok(says(&s, 0, "worker-0>worker-1 7", "computes step 3"), "but four are too many");
	scene_close(&s);

	scene_open(&s, 2, 2);
	s.cfg.lockstep = false;
	json_object_set_new(s.config, "sync", json_string("asp"));
	scene_run(&s);
	beat(&s, 0, 7, "compute", 0, 0);
	beat(&s, 1, 4, "compute", 0, 0);
	pass(&s, 0.7);
	beat(&s, 0, 8, "compute", 0, 0);
	pass(&s, 0.5);
	beat(&s, 0, 9, "compute", 0, 0);
	ok(says(&s, 0, "the coordinator>worker-1 4",
	       "pid 201, has been silent for 1.2 s; it is declared lost after 5 s") &&
	        advises(&s, "check whether its host is stopped or disconnected"),
	    "asp: nobody waits for a silent worker, and its host is named");
	scene_close(&s);
}

/* The job decides how a worker that has not come is started. job: its settings, or NULL. run_dir: of the cluster, NULL:
 * not known. */
static bool starts_by(json_t *job, const char *run_dir, const char *part, const char *but)
{
	struct scene s;
	bool does;

	scene_open(&s, 1, 1);
	json_object_set_new(s.config, "job", job);
	s.cfg.run_dir = run_dir;
	scene_begin(&s);
	join_as_server(&s, 0);
	does = advises(&s, part) && (!but || !advises(&s, but));
	scene_close(&s);
	return does;
}

static void how_to_start(void)
{
	ok(starts_by(NULL, NULL, "start it: ps-work train -C DIR here", NULL), "by ps-work");
	ok(starts_by(NULL, "/r/lin.run", "start it: ps-work train -C /r/lin.run here", "DIR"),
	    "the run directory is named where it is known");
	ok(starts_by(json_pack("{s:s, s:s, s:s}", "model", "custom", "exec", "./gradient",
	                 "command", "none"),
	       NULL, "ps-work train --exec './gradient' --join FILE elsewhere", NULL),
	    "by ps-work, with its program");
	ok(starts_by(json_pack("{s:s, s:s, s:s}", "model", "custom", "exec", "none", "command",
	                 "none"),
	       NULL, "start it: PS_CLUSTER=DIR COMMAND here", "ps-work"),
	    "by a command of its own");
}

/* One that comes, and cannot begin; and who has all, and takes it over. */
static void unfit(void)
{
	struct coord_self guest = { .incarnation = 90, .name = "guest", .key = "guest" };
	struct scene s;

	scene_open(&s, 1, 2);
	scene_begin(&s);
	join_as_server(&s, 0);
	ok(strcmp(
	       say(&s, &guest,
	           "{\"op\":\"unfit\",\"rank\":1,\"pid\":77,\"host\":\"hb\",\"message\":\"cannot open x.csv\"}"),
	       "{}") == 0,
	    "who cannot begin may say so");
	ok(happened(&s, "worker_unfit: guest cannot begin on hb (pid 77): cannot open x.csv"),
	    "which is an event");
	ok(says(&s, 0, "the start>worker-0 -1", "it has not joined yet") &&
	        says(&s, 1, "the start>worker-1 -1",
	            "it cannot begin on hb (pid 77): cannot open x.csv"),
	    "and the reason why it is waited for");
	say(&s, &guest,
	    "{\"op\":\"unfit\",\"rank\":-1,\"pid\":78,\"host\":\"hc\",\"message\":\"no memory\"}");
	ok(says(&s, 0, "the start>worker-0 -1",
	       "one has started, but cannot begin on hc (pid 78): no memory"),
	    "of one for any place, too");
	say(&s, &guest, "{\"op\":\"unfit\",\"rank\":99,\"host\":\"hd\",\"message\":\"x\"}");
	say(&s, &guest, "{\"op\":\"coming\",\"rank\":1,\"pid\":79,\"host\":\"he\"}");
	ok(is_together(&s, 1, "they are reading their data"), "a reason that others may have, too");
	ok(says(&s, 1, "the start>worker-1 -1", "it is on he (pid 79) and reading its data"),
	    "one that is here, and not ready");
	coord_session_gone(s.c, &guest, s.now);
	ok(says(&s, 1, "the start>worker-1 -1", "it cannot begin on hb"), "it is gone again");
	say(&s, &guest, "{\"op\":\"coming\",\"rank\":4096,\"pid\":79,\"host\":\"he\"}");
	join_as_worker(&s, 0, 0);
	join_as_worker(&s, 1, 1);
	s.now += NSEC_PER_SEC;
	ok(says(&s, 0, "the start>server-0 -1", "is copying its partitions") && says(&s, 1, "", ""),
	    "all are here: who is copying its partitions");
	ok(strcmp(status_str(&s, "waiting_for"),
	       "server-0 to take over the partitions that it is to hold") == 0,
	    "the status says so, too");
	ack_all(&s);
	ok(nobody(&s) && strcmp(status_str(&s, "waiting_for"), "") == 0, "until it has");
	scene_close(&s);
}

/* What a worker's own log says of the same. */
static void asked(void)
{
	struct scene s;

	scene_open(&s, 2, 3);
	scene_run(&s);
	beat(&s, 0, 5, "wait", 2.5, 0);
	beat(&s, 1, 4, "compute", 2, 0);
	ok(strcmp(say(&s, &s.worker[0], "{\"op\":\"who\",\"step\":5}"),
	       "{\"text\":\"worker-2 (h, pid 202) is at step 0: it is at step 0; ps-ctl logs shows its messages\"}") ==
	        0,
	    "the one that is farthest behind");
	beat(&s, 2, 5, "wait", 2, 0);
	ok(strstr(say(&s, &s.worker[0], "{\"op\":\"who\",\"step\":5}"),
	       "worker-1 (h, pid 201) is at step 4: it computes step 4, for 2.0 s; sync=ssp:S") !=
	        NULL,
	    "what it does, and what helps");
	ok(strcmp(say(&s, &s.worker[1], "{\"op\":\"who\",\"step\":5}"), "{\"text\":\"\"}") == 0,
	    "nobody but oneself");
	scene_close(&s);
}

static void relays(void)
{
	struct coord_self relay = { .incarnation = 50, .name = "relay-a", .key = "relay-a" };
	struct scene s;

	scene_open(&s, 1, 3);
	scene_begin(&s);
	join_as_server(&s, 0);
	say(&s, &relay,
	    "{\"op\":\"relay_join\",\"pid\":300,\"host\":\"hr\",\"tcp\":\"h:1\",\"zone\":\"rack1\"}");
	for (unsigned i = 0; i < 3; i++)
		say(&s, &s.worker[i],
		    "{\"op\":\"worker_join\",\"rank\":%u,\"pid\":%u,\"host\":\"h\",\"examples\":100,\"zone\":\"%s\","
		    "\"tables\":[{\"name\":\"w\",\"rows\":5,\"cols\":1}]}",
		    i, 200 + i, i < 2 ? "rack1" : "");
	ack_all(&s);
	beat(&s, 0, 5, "wait", 0.5, 0);
	beat(&s, 1, 4, "compute", 0.5, 0);
	beat(&s, 2, 3, "data", 0.5, 0);
	ok(says(&s, 0, "worker-0>worker-2 5", "reads its data for step 3"),
	    "a worker waits for the one that is farthest behind");
	ok(says(&s, 1, "relay-0>worker-1 5", "computes step 4") && says(&s, 2, "", ""),
	    "its relay for its own workers first");
	beat(&s, 1, 5, "wait", 0.3, 0);
	ok(says(&s, 2, "relay-0>worker-2 5", "reads its data"), "then for whom they wait");
	beat(&s, 2, 5, "wait", 0.3, 0);
	ok(says(&s, 3, "relay-0>the servers 5", "no worker is behind"), "then for the servers");
	pass(&s, 1.2);
	say(&s, &s.server[0], "{\"op\":\"beat\"}");
	beat(&s, 0, 5, "wait", 1.5, 0);
	beat(&s, 1, 5, "wait", 1.5, 0);
	beat(&s, 2, 5, "wait", 1.5, 0);
	ok(says(&s, 0, "worker-0>relay-0 5",
	       "hr, pid 300, of zone rack1, has been silent for 1.2 s") &&
	        says(&s, 1, "worker-1>relay-0 5", "") &&
	        says(&s, 2, "worker-2>the servers 5", "") && says(&s, 3, "", ""),
	    "a relay that is not heard of is what its workers wait for");
	scene_close(&s);
}

int main(void)
{
	start();
	unfit();
	how_to_start();
	asked();
	relays();
	others();
	servers();
	slow();
	fast();
	window();
	not_the_servers();
	stale();
	return tap_done();
}

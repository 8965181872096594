/* SPDX-License-Identifier: ISC */
/* Servers that leave, and what they and the coordinator tell each other, in sessions that break. */
#include "coord_fixture.h"

/* A new session of the same process. */
static const char *come_again(struct scene *s, unsigned server)
{
	coord_session_gone(s->c, &s->server[server], s->now);
	s->server[server].kind = COORD_NOBODY;
	json_decref(s->proposal[server]);
	s->proposal[server] = NULL;
	return join_as_server(s, server);
}

/* Is this the last message to the server? */
static bool was_told(const struct scene *s, unsigned server, const char *op)
{
	return strcmp(json_str(s->proposal[server], "op", ""), op) == 0;
}

/* Two servers, each of which has partitions. */
static void begin_cluster(struct scene *s)
{
	scene_open(s, 2, 1);
	s->cfg.lockstep = false;
	s->cfg.replicas = 1;
	scene_begin(s);
	join_as_server(s, 0);
	join_as_server(s, 1);
	say(s, &s->worker[0],
	    "{\"op\":\"worker_join\",\"rank\":0,\"pid\":200,\"host\":\"h\",\"examples\":100,\"tables\":"
	    "[{\"name\":\"w\",\"rows\":500000,\"cols\":1}]}");
	ack_all(s);
}

/* All partitions that are to move have been copied. */
static void copy(struct scene *s, unsigned from, unsigned to)
{
	long long epoch = status_int(s, "layout_epoch");

	say(s, &s->server[from], "{\"op\":\"copied\",\"server\":%u,\"epoch\":%lld}", to, epoch);
	say(s, &s->worker[0], "{\"op\":\"confirm\",\"epoch\":%lld}", epoch);
}

/* The servers that live, by the view. */
static unsigned count_live(const struct scene *s)
{
	json_t *view = coord_view(s->c);
	const json_t *server;
	unsigned n = 0;
	size_t i;

	json_array_foreach(json_object_get(view, "servers"), i, server)
		n += json_is_true(json_object_get(server, "live"));
	json_decref(view);
	return n;
}

/* The names of the servers that were released. */
static const char *released(const struct scene *s)
{
	static char out[80];
	json_t *st = coord_status(s->c, s->now);
	const json_t *id;
	size_t i, n = 0;

	out[0] = 0;
	json_array_foreach(json_object_get(st, "released"), i, id)
		n += (size_t)snprintf(out + n, sizeof out - n, "%s;", json_string_value(id));
	json_decref(st);
	return out;
}

/* How often has this happened? */
static unsigned times(const struct scene *s, const char *what)
{
	unsigned n = 0;

	for (const char *at = s->events; (at = strstr(at, what)); at += strlen(what))
		n++;
	return n;
}

/* A server is scaled away, and its session breaks when it is told that it may leave. */
static void permission_is_lost(void)
{
	struct scene s;

	begin_cluster(&s);
	ok(coord_scale(s.c, 1, -1, s.now, &s.e) == ERR_OK, "a server is to go: %s", s.e.msg);
	copy(&s, 1, 0);
	ok(was_told(&s, 1, "leave") && count_live(&s) == 1, "and may leave");
	ok(strcmp(come_again(&s, 1), "{\"index\":1}") == 0, "it comes back");
	ok(was_told(&s, 1, "leave"), "it is told again that it may leave");
	ok(count_live(&s) == 1 && strcmp(released(&s), "server-1;") == 0,
	    "it is no server again: %u live, released: %s", count_live(&s), released(&s));
	ok(times(&s, "server-1 joined") == 1, "nor has it joined again");
	pass(&s, 0.2);
	ok(times(&s, "being copied") == 1, "it gets no partitions");
	ok(scene_again(&s), "the coordinator is killed meanwhile");
	come_again(&s, 0);
	come_again(&s, 1);
	ok(was_told(&s, 1, "leave") && count_live(&s) == 1, "and its successor tells it");
	say(&s, &s.server[1], "{\"op\":\"beat\"}");
	say(&s, &s.server[1], "{\"op\":\"leave\"}");
	ok(!s.e.code && was_told(&s, 1, "leave"), "it may ask, too: %s", s.e.msg);
	s.server[1].incarnation = 77;
	ok(strcmp(come_again(&s, 1), "{\"index\":1}") == 0 && !was_told(&s, 1, "leave") &&
	        count_live(&s) == 2 && !*released(&s),
	    "another process may take its place");
	scene_close(&s);
}

static bool is_scaling(const struct scene *s)
{
	json_t *st = coord_status(s->c, s->now);
	bool scaling = json_flag(st, "scaling");

	json_decref(st);
	return scaling;
}

/* A server that asks for no number joins, as one with a join file does. */
static const char *join_any_server(struct scene *s, unsigned i)
{
	return say(s, &s->server[i],
	    "{\"op\":\"server_join\",\"index\":-1,\"pid\":%u,\"host\":\"h\",\"tcp\":\"h:1\"}",
	    100 + i);
}

/* Servers that nobody has called join, up to the number that the configuration permits. */
static void more_servers_join(void)
{
	struct scene s;

	scene_open(&s, 2, 1);
	s.cfg.servers_max = 3;
	scene_run(&s);
	ok(strcmp(join_any_server(&s, 2), "{\"index\":2}") == 0 && count_live(&s) == 3,
	    "a third server joins a cluster of two: %s", s.e.msg);
	ok(status_int(&s, "servers_wanted") == 3, "which is to have three then");
	ok(*join_any_server(&s, 3) == 0 && s.e.code == ERR_NOTREADY, "a fourth one is refused: %s",
	    s.e.msg);
	scene_close(&s);
}

/* A worker that is called for joins while the job runs, and takes part from a later step on. */
static void more_workers_join(void)
{
	struct scene s;

	scene_open(&s, 1, 1);
	scene_run(&s);
	ok(!coord_scale(s.c, -1, 2, s.now, &s.e) && status_int(&s, "workers_wanted") == 2,
	    "a second worker is called for: %s", s.e.msg);
	join_as_worker(&s, 1, -1);
	ok(status_int(&s, "workers") == 1 && is_scaling(&s),
	    "scaling lasts while it joins, although nobody is called for any more");
	vote(&s, 0, true, 5, 4);
	ok(status_int(&s, "workers") == 2 && !is_scaling(&s), "and ends when it takes part: %s",
	    s.events);
	scene_close(&s);
}

/* No other server can take the place of one that is drained. */
static void fewer_replicas(void)
{
	struct scene s;

	scene_open(&s, 3, 1);
	s.cfg.replicas = 3;
	scene_run(&s);
	ok(status_int(&s, "replicas_present") == 3, "partitions have three replicas");
	ok(!coord_drain(s.c, 2, false, s.now, &s.e) &&
	        happened(&s,
	            "2 of 3 replicas are left, because no other server can take its place"),
	    "a server is drained, and it is said that two of three replicas are left");
	ok(strcmp(released(&s), "server-2;") == 0 && status_int(&s, "replicas_present") == 2,
	    "the status shows how many there are");
	ok(coord_drain(s.c, 1, false, s.now, &s.e) == ERR_USAGE, "the next one is refused: %s",
	    s.e.msg);
	ok(strcmp(released(&s), "server-2;") == 0 && status_int(&s, "replicas_present") == 2,
	    "and nothing changes");
	ok(!coord_drain(s.c, 1, true, s.now, NULL) && status_int(&s, "replicas_present") == 1,
	    "unless it is forced");
	scene_close(&s);
}

/* Another process joins before a server comes back that may leave. */
static void number_is_kept(void)
{
	struct scene s;

	scene_open(&s, 3, 1);
	s.cfg.replicas = 2;
	scene_run(&s);
	ok(!coord_drain(s.c, 1, false, s.now, NULL), "a server is drained");
	for (int i = 0; i < 4; i++) {
		copy(&s, 0, 2);
		copy(&s, 1, 2);
		copy(&s, 2, 0);
	}
	ok(strcmp(released(&s), "server-1;") == 0, "and may leave");
	ok(status_int(&s, "servers") == 2 && status_int(&s, "servers_wanted") == 2,
	    "the cluster is whole without it");
	coord_session_gone(s.c, &s.server[1], s.now);
	for (int i = 0; i < 10; i++) {
		say(&s, &s.server[0], "{\"op\":\"beat\"}");
		say(&s, &s.worker[0], "{\"op\":\"beat\"}");
		pass(&s, 0.2);
	}
	ok(happened(&s, "server-2 (h2, pid 102) is lost"), "another server is lost");
	ok(strcmp(
	       say(&s, &s.server[3],
	           "{\"op\":\"server_join\",\"index\":-1,\"pid\":103,\"host\":\"h3\",\"tcp\":\"h3:1\"}"),
	       "{\"index\":2}") == 0,
	    "a new one takes the number of the lost one");
	come_again(&s, 1);
	ok(was_told(&s, 1, "leave") && strcmp(released(&s), "server-1;") == 0,
	    "the one that may leave is told again");
	scene_close(&s);
}

/* A server that was started by a join file is killed and started again before its silence is
 * noticed. */
static void restarted_at_once(void)
{
	static const char join[] =
	    "{\"op\":\"server_join\",\"index\":-1,\"pid\":103,\"host\":\"h1\",\"tcp\":\"h1:1\"}";
	struct scene s;

	scene_open(&s, 2, 1);
	s.cfg.replicas = 2;
	scene_run(&s);
	s.server[3].key = s.server[1].key;
	say(&s, &s.server[3], "%s", join);
	ok(s.e.code == ERR_NOTREADY, "another process of its key cannot take its place: %s",
	    s.e.msg);
	coord_session_gone(s.c, &s.server[1], s.now);
	ok(strcmp(say(&s, &s.server[3], "%s", join), "{\"index\":1}") == 0 &&
	        happened(&s, "server-1 (h1, pid 101) is lost: it was restarted"),
	    "once its session is broken it can");
	scene_close(&s);
}

/* A server asks to leave, and asks again in each new session. */
static void request_is_repeated(void)
{
	struct scene s;

	begin_cluster(&s);
	say(&s, &s.server[1], "{\"op\":\"leave\"}");
	ok(times(&s, "server-1 is draining") == 1 && times(&s, "being copied") == 1,
	    "a server asks to leave");
	come_again(&s, 1);
	say(&s, &s.server[1], "{\"op\":\"leave\"}");
	ok(times(&s, "server-1 is draining") == 1 && times(&s, "being copied") == 1 &&
	        !was_told(&s, 1, "leave"),
	    "asked again, nothing begins anew, and it must wait");
	copy(&s, 1, 0);
	ok(was_told(&s, 1, "leave") && strcmp(released(&s), "server-1;") == 0, "then it may leave");
	say(&s, &s.server[0], "{\"op\":\"leave\"}");
	ok(was_told(&s, 0, "leave"), "the last server may leave at once");
	come_again(&s, 0);
	ok(!was_told(&s, 0, "leave"), "which is not a state");
	say(&s, &s.server[0], "{\"op\":\"leave\"}");
	ok(was_told(&s, 0, "leave"), "but it may ask again");
	scene_close(&s);
}

/* The sessions that were closed for the key of worker-9, "" if a server has not told. */
static const char *closed(const struct scene *s, uint64_t made)
{
	static char out[100];
	struct coord_keys_check check = { .missing = json_array(), .lost = json_array() };

	/* The coordinator's own process has no sessions of that key. */
	coord_keys_checked(s->c, &(struct message_keys_checked){ .made = (int64_t)made });
	out[0] = 0;
	if (coord_keys_are_checked(s->c, made, "worker-9", &check))
		snprintf(out, sizeof out, "%lld by %u", (long long)check.cut, check.checked);
	for (size_t i = 0; i < json_array_size(check.lost); i++)
		snprintf(out + strlen(out), sizeof out - strlen(out), "%s%s", *out ? ", " : "",
		    json_string_value(json_array_get(check.lost, i)));
	json_decref(check.missing);
	json_decref(check.lost);
	return out;
}

/* A server repeats in each new session which sessions it has closed. */
static void report_is_repeated(void)
{
	static const char *const report = "{\"op\":\"keys\",\"made\":50,\"cut\":{\"worker-9\":3}}";
	struct coord_self relay = { .incarnation = 90, .name = "relay-0", .key = "relay-0" };
	struct scene s;

	scene_open(&s, 2, 1);
	scene_run(&s);
	coord_revoke(s.c, "worker-9", "worker-9", "admin", s.now);
	say(&s, &relay, "{\"op\":\"relay_join\",\"pid\":3,\"host\":\"h\",\"zone\":\"z\"}");
	say(&s, &relay, "%s", report);
	say(&s, &s.server[0], "{\"op\":\"keys\",\"made\":50,\"cut\":{}}");
	ok(!*closed(&s, 50), "a server has not closed the sessions yet");
	say(&s, &s.server[1], "%s", report);
	ok(strcmp(closed(&s, 50), "6 by 3") == 0, "all have: %s", closed(&s, 50));
	come_again(&s, 1);
	say(&s, &s.server[1], "%s", report);
	relay.kind = COORD_NOBODY;
	say(&s, &relay, "{\"op\":\"relay_join\",\"pid\":3,\"host\":\"h\",\"zone\":\"z\"}");
	say(&s, &relay, "%s", report);
	ok(strcmp(closed(&s, 50), "6 by 3") == 0, "repeated reports count once: %s",
	    closed(&s, 50));
	scene_close(&s);
}

/* A server and a relay that were only slow join again as the same processes. */
static void report_of_the_same_process(void)
{
	static const char *const report = "{\"op\":\"keys\",\"made\":50,\"cut\":{\"worker-9\":3}}";
	struct coord_self relay = { .incarnation = 90, .name = "relay-0", .key = "relay-0" };
	struct scene s;

	scene_open(&s, 2, 1);
	s.cfg.replicas = 2;
	scene_run(&s);
	coord_revoke(s.c, "worker-9", "worker-9", "admin", s.now);
	say(&s, &relay, "{\"op\":\"relay_join\",\"pid\":3,\"host\":\"h\",\"zone\":\"z\"}");
	say(&s, &relay, "%s", report);
	say(&s, &s.server[1], "%s", report);
	for (int i = 0; i < 10; i++) {
		say(&s, &s.server[0], "{\"op\":\"beat\"}");
		say(&s, &s.worker[0], "{\"op\":\"beat\"}");
		pass(&s, 0.2);
	}
	say(&s, &s.server[0], "{\"op\":\"keys\",\"made\":50,\"cut\":{}}");
	s.server[1].kind = relay.kind = COORD_NOBODY;
	join_as_server(&s, 1);
	say(&s, &relay, "{\"op\":\"relay_join\",\"pid\":3,\"host\":\"h\",\"zone\":\"z\"}");
	say(&s, &s.server[1], "%s", report);
	say(&s, &relay, "%s", report);
	ok(happened(&s, "server-1 (h1, pid 101) is lost") &&
	        happened(&s, "relay-0 (h, pid 3) is lost") && strcmp(closed(&s, 50), "6 by 3") == 0,
	    "reports of processes that were taken for lost count once: %s", closed(&s, 50));
	s.server[1].kind = COORD_NOBODY;
	s.server[1].incarnation = 77;
	join_as_server(&s, 1);
	ok(!*closed(&s, 50), "but a new process has not reported");
	scene_close(&s);
}

/* A server is lost between a revocation and its confirmation. Its process may only be cut off. */
static void lost_before_it_confirms(void)
{
	struct coord_self relay = { .incarnation = 90, .name = "relay-0", .key = "relay-0" };
	struct scene s;

	scene_open(&s, 2, 1);
	s.cfg.replicas = 2;
	scene_run(&s);
	say(&s, &relay, "{\"op\":\"relay_join\",\"pid\":3,\"host\":\"h\",\"zone\":\"z\"}");
	coord_revoke(s.c, "worker-9", "worker-9", "admin", s.now);
	say(&s, &s.server[0], "{\"op\":\"keys\",\"made\":50,\"cut\":{}}");
	for (int i = 0; i < 10; i++) {
		say(&s, &s.server[0], "{\"op\":\"beat\"}");
		say(&s, &s.worker[0], "{\"op\":\"beat\"}");
		pass(&s, 0.2);
	}
	ok(happened(&s, "server-1 (h1, pid 101) is lost") &&
	        strcmp(closed(&s, 50), "server-1, relay-0") == 0,
	    "lost before they confirm that they have closed the sessions: %s", closed(&s, 50));
	coord_revoke(s.c, "worker-9", "worker-9", "admin", s.now);
	say(&s, &s.server[0], "{\"op\":\"keys\",\"made\":60,\"cut\":{\"worker-9\":2}}");
	ok(strcmp(closed(&s, 60), "2 by 1") == 0, "lost before the next revocation: %s",
	    closed(&s, 60));
	scene_close(&s);
}

int main(void)
{
	permission_is_lost();
	number_is_kept();
	more_servers_join();
	more_workers_join();
	fewer_replicas();
	restarted_at_once();
	request_is_repeated();
	report_is_repeated();
	report_of_the_same_process();
	lost_before_it_confirms();
	return tap_done();
}

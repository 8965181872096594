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
static void begin(struct scene *s)
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

	begin(&s);
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

/* Another process joins before a server comes back that may leave. */
static void number_is_kept(void)
{
	struct scene s;

	scene_open(&s, 3, 1);
	s.cfg.replicas = 2;
	scene_run(&s);
	ok(!coord_drain(s.c, 1, s.now, NULL), "a server is drained");
	for (int i = 0; i < 4; i++) {
		copy(&s, 0, 2);
		copy(&s, 1, 2);
		copy(&s, 2, 0);
	}
	ok(strcmp(released(&s), "server-1;") == 0, "and may leave");
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

/* A server asks to leave, and asks again in each new session. */
static void request_is_repeated(void)
{
	struct scene s;

	begin(&s);
	say(&s, &s.server[1], "{\"op\":\"leave\"}");
	ok(times(&s, "server-1 gives up its partitions") == 1 && times(&s, "being copied") == 1,
	    "a server asks to leave");
	come_again(&s, 1);
	say(&s, &s.server[1], "{\"op\":\"leave\"}");
	ok(times(&s, "server-1 gives up its partitions") == 1 && times(&s, "being copied") == 1 &&
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

int main(void)
{
	permission_is_lost();
	number_is_kept();
	request_is_repeated();
	return tap_done();
}

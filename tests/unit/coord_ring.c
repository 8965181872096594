/* SPDX-License-Identifier: ISC */
/* The ring at the coordinator: who is in it from which step on, and its epochs. */
#include "coord_fixture.h"

static void begin(struct scene *s, unsigned workers)
{
	scene_open(s, 1, workers);
	json_object_set_new(s->config, "via", json_string("allreduce"));
	scene_begin(s);
	join_as_server(s, 0);
}

static const char *join(struct scene *s, unsigned i, int rank)
{
	return say(s, &s->worker[i],
	    "{\"op\":\"worker_join\",\"rank\":%d,\"pid\":%u,\"host\":\"h\",\"examples\":100,\"ring\":"
	    "{\"tcp\":\"h:%u\",\"unix\":\"/run/%u\"},\"tables\":[{\"name\":\"w\",\"rows\":5,\"cols\":1,\"reduced\":true}]}",
	    rank, 200 + i, i, i);
}

/* "gone rank:from:incarnation ..." */
static const char *ring_of(const struct coord *c)
{
	static char text[256];
	json_t *v = coord_view(c), *ring = json_object_get(v, "ring"), *m;
	size_t i, n;

	n = (size_t)snprintf(text, sizeof text, "%lld", (long long)json_int(ring, "gone", -1));
	json_array_foreach(json_object_get(ring, "members"), i, m)
		n += (size_t)snprintf(text + n, sizeof text - n, " %lld:%lld:%llu",
		    (long long)json_int(m, "rank", -1), (long long)json_int(m, "from", -1),
		    (unsigned long long)json_u64s(m, "incarnation", 0));
	json_decref(v);
	return text;
}

static bool ring_is(const struct scene *s, const char *want)
{
	const char *got = ring_of(s->c);

	if (strcmp(got, want) != 0)
		printf("# %s\n", got);
	return strcmp(got, want) == 0;
}

static unsigned entries(const struct scene *s)
{
	json_t *v = coord_view(s->c);
	unsigned n = (unsigned)json_array_size(json_object_get(v, "members"));

	json_decref(v);
	return n;
}

static void comes_and_goes(void)
{
	struct scene s;
	json_t *v, *m;

	begin(&s, 2);
	join(&s, 0, -1);
	join(&s, 1, -1);
	ok(ring_is(&s, "0"), "nobody is in it before the job runs");
	ack_all(&s);
	ok(ring_is(&s, "0 0:0:20 1:0:21"), "then all are, from its first step on");
	v = coord_view(s.c);
	m = json_array_get(json_object_get(json_object_get(v, "ring"), "members"), 1);
	ok(strcmp(json_str(m, "tcp", ""), "h:1") == 0 &&
	        strcmp(json_str(m, "unix", ""), "/run/1") == 0 &&
	        strcmp(json_str(m, "key", ""), "worker-1") == 0,
	    "with where they are, and their keys");
	json_decref(v);
	live(&s, 6, 1);
	ok(ring_is(&s, "0 0:0:20 1:0:21"),
	    "who is lost is in it until it is settled from where on");
	vote(&s, 0, true, 1, 1);
	ok(ring_is(&s, "1 0:0:20"), "then at once no more");
	s.worker[1].incarnation = 31;
	join(&s, 1, 1);
	ok(ring_is(&s, "1 0:0:20"), "who comes again is in it");
	vote(&s, 0, true, 1, 1);
	ok(ring_is(&s, "1 0:0:20 1:1:31"), "when that is settled, from its step on");
	scene_close(&s);
}

static void taken_over(void)
{
	struct scene s;
	unsigned before;

	begin(&s, 2);
	join(&s, 0, -1);
	join(&s, 1, -1);
	ack_all(&s);
	before = entries(&s);
	s.worker[2].key = s.worker[1].key;
	join(&s, 2, 1);
	ok(ring_is(&s, "0 0:0:20 1:0:21"),
	    "whose rank is taken over is in it until servers have fenced him");
	vote(&s, 0, true, 1, 1);
	ok(ring_is(&s, "1 0:0:20 1:1:22") && entries(&s) == before + 1,
	    "then the new one is, of which an entry tells all");
	say(&s, &s.worker[0], "{\"op\":\"done\",\"steps\":9}");
	ok(ring_is(&s, "2 1:1:22"), "who is done is out");
	scene_close(&s);
}

static void kept(void)
{
	struct scene s;
	struct coord_io io = { &s, scene_to_server, scene_view_changed, scene_event,
		scene_lease_changed };
	struct coord *c;
	json_t *state;
	char want[256];

	begin(&s, 2);
	join(&s, 0, -1);
	join(&s, 1, -1);
	ack_all(&s);
	s.worker[2].key = s.worker[1].key;
	join(&s, 2, 1);
	vote(&s, 0, true, 1, 1);
	snprintf(want, sizeof want, "%s", ring_of(s.c));
	state = saved_state(s.c);
	c = coord_new(&s.cfg, &io, s.now);
	ok(recover_from(c, state, s.now, NULL) == ERR_OK && strcmp(ring_of(c), want) == 0,
	    "another coordinator knows it: %s", ring_of(c));
	coord_free(c);
	json_decref(state);
	scene_close(&s);
}

int main(void)
{
	struct scene s;

	comes_and_goes();
	taken_over();
	kept();
	scene_open(&s, 1, 2);
	scene_run(&s);
	ok(ring_is(&s, "-1"), "a job without one has none");
	scene_close(&s);
	return tap_done();
}

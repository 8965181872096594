/* SPDX-License-Identifier: ISC */
/* Where partitions lie when some are pushed to more than others. */
#include "coord_fixture.h"
#include "layout/layout.h"

enum { PARTS = 16 };

static void open_scene(struct scene *s)
{
	scene_open(s, 2, 1);
	s->cfg.replicas = 1;
	scene_begin(s);
	for (unsigned i = 0; i < 2; i++)
		join_as_server(s, i);
	say(s, &s->worker[0],
	    "{\"op\":\"worker_join\",\"rank\":0,\"pid\":200,\"host\":\"h\",\"examples\":100,\"tables\":"
	    "[{\"name\":\"w\",\"rows\":%u,\"cols\":1}]}",
	    PARTS * PART_ELEMENTS);
	ack_all(s);
}

/* Partitions that a server holds or will hold, by a mask. */
static unsigned holds(const struct scene *s, int server)
{
	json_t *v = coord_view(s->c);
	const json_t *runs = json_object_get(json_array_get(json_object_get(json_object_get(v,
	                                                                        "layout"),
	                                                        "tables"),
	                                         0),
	                 "runs"),
	             *r;
	unsigned mask = 0;
	size_t i;

	json_array_foreach(runs, i, r) {
		int joining = (int)json_integer_value(json_array_get(r, 3));
		int holder = joining >= 0
		    ? joining
		    : (int)json_integer_value(json_array_get(json_array_get(r, 2), 0));
		unsigned first = (unsigned)json_integer_value(json_array_get(r, 0)),
		         n = (unsigned)json_integer_value(json_array_get(r, 1));

		for (unsigned p = first; holder == server && p < first + n; p++)
			mask |= 1u << p;
	}
	json_decref(v);
	return mask;
}

static unsigned count(unsigned mask)
{
	return (unsigned)__builtin_popcount(mask);
}

static void rebalance(struct scene *s, const char *heat0, const char *heat1)
{
	const char *const heat[] = { heat0, heat1 };

	for (unsigned i = 0; i < 2; i++)
		say(s, &s->server[i], "{\"op\":\"beat\",\"stats\":{\"heat\":%s}}", heat[i]);
	ok(!coord_rebalance(s->c, s->now, NULL), "rebalance, %s and %s", heat0, heat1);
}

int main(void)
{
	struct scene s;
	unsigned before, mine, hot;

	open_scene(&s);
	before = holds(&s, 0);
	ok(in_phase(&s, PHASE_RUNNING) && count(before) == PARTS / 2, "half of %u partitions",
	    PARTS);
	rebalance(&s, "[[0,0,8,5000]]", "[[0,8,8,5000]]");
	ok(holds(&s, 0) == before, "alike as they are pushed to, nothing moves");
	rebalance(&s, "[[0,-1,4,9],[1,0,1,9],[0,9,8,9],[0,0,99,9],[0,0,1,-7],[\"x\"],7,[0]]", "{}");
	ok(holds(&s, 0) == before, "nonsense is left out");
	rebalance(&s, "[[0,8,8,1e14]]", "[[0,0,8,1e14]]");
	ok(holds(&s, 0) == before, "nor is what a server says of others' partitions believed");
	rebalance(&s, "[[0,0,16,1e300]]", "[[0,0,16,5e-324]]");
	ok(holds(&s, 0) == before, "nor what cannot be");
	rebalance(&s, "[]", "null");
	ok(holds(&s, 0) == before, "and nothing is nothing");
	rebalance(&s, "[[0,0,8,5000]]", "[[0,8,8,4000]]");
	ok(holds(&s, 0) == before, "a difference that may be noise moves nothing");
	rebalance(&s, before & 1 ? "[[0,0,8,5000]]" : "[[0,8,8,5000]]", "null");
	ok(holds(&s, 0) == before, "nor does it that one server is not measured yet");
	rebalance(&s, before & 1 ? "[[0,0,5,5000]]" : "[[0,8,5,5000]]",
	    before & 1 ? "[[0,8,2,5000]]" : "[[0,0,2,5000]]");
	ok(holds(&s, 0) == before, "or some partitions are not");
	scene_close(&s);

	/* Two of eight have nearly all of it: one of the two goes. */
	open_scene(&s);
	hot = before & 1 ? 3 : 0x300;
	rebalance(&s, hot == 3 ? "[[0,0,2,8000],[0,2,6,10]]" : "[[0,8,2,8000],[0,10,6,10]]",
	    hot == 3 ? "[[0,8,8,10]]" : "[[0,0,8,10]]");
	mine = holds(&s, 0);
	ok(count(mine & hot) == 1, "of two hot partitions each server has one (%x of %x)",
	    mine & hot, hot);
	ok(count(mine) >= 6 && count(mine) <= 11, "and not too much of the others: %u of %u",
	    count(mine), PARTS);
	ok(happened(&s, "partitions are being copied"), "they move");
	scene_close(&s);
	return tap_done();
}

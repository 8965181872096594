/* SPDX-License-Identifier: ISC */
/* Tables that come, grow and go by the servers' vote. */
#include "layout/layout.h"
#include "coord_fixture.h"

static uint64_t asked(struct scene *s, enum coord_table_op op, const char *name, uint64_t rows,
    enum err_code *rc)
{
	struct table shape = { .rows = rows, .cols = op == COORD_TABLE_ADD ? 4 : 0 };
	struct coord_table t = { op, &shape, "tester" };
	uint64_t ticket = 0;

	snprintf(shape.name, sizeof shape.name, "%s", name);
	*rc = coord_table(s->c, &t, s->now, &ticket, &s->e);
	return ticket;
}

static void all_vote(struct scene *s, unsigned first_free)
{
	for (unsigned i = 0; i < s->cfg.servers; i++)
		vote(s, i, true, first_free, first_free);
}

/* Of a table; NULL: there is none. */
static json_t *row_of(const struct scene *s, const char *name)
{
	json_t *list = coord_tables(s->c), *row = NULL, *o;
	size_t i;

	json_array_foreach(list, i, o)
		if (strcmp(json_str(o, "id", ""), name) == 0)
			row = json_incref(o);
	json_decref(list);
	return row;
}

static int64_t rows_of(const struct scene *s, const char *name)
{
	json_t *row = row_of(s, name);
	int64_t rows = row ? json_int(row, "rows", -1) : -1;

	json_decref(row);
	return rows;
}

static void by_vote(void)
{
	struct scene s;
	enum err_code rc;
	uint64_t ticket, second, step = 0;
	int64_t number;

	scene_open(&s, 2, 2);
	scene_run(&s);
	ticket = asked(&s, COORD_TABLE_ADD, "emb", 10, &rc);
	ok(rc == ERR_OK && strcmp(json_str(s.proposal[1], "kind", ""), "table") == 0 &&
	        json_array_size(
	            json_object_get(json_object_get(s.proposal[1], "table"), "sharing")) == 2,
	    "a table is proposed to all servers");
	ok(coord_find_answer(s.c, ticket, &step, &number, &s.e) == COORD_PENDING &&
	        rows_of(&s, "emb") < 0,
	    "it is not there yet");
	asked(&s, COORD_TABLE_ADD, "two", 10, &rc);
	ok(rc == ERR_EXISTS, "no other is asked for meanwhile");
	all_vote(&s, 7);
	ok(coord_find_answer(s.c, ticket, &step, &number, &s.e) == COORD_AGREED && step > 0 &&
	        rows_of(&s, "emb") == 10 && happened(&s, "table: table emb was added"),
	    "all agree: it is");
	asked(&s, COORD_TABLE_GROW, "emb", 20, &rc);
	ok(rc == ERR_EXISTS, "not before all know of it");
	ack_all(&s);
	second = asked(&s, COORD_TABLE_GROW, "emb", 20, &rc);
	vote(&s, 0, true, 9, 9);
	say(&s, &s.server[1], "{\"op\":\"vote\",\"id\":%lld,\"refused\":\"too large\"}",
	    (long long)json_int(s.proposal[1], "id", 0));
	ok(rc == ERR_OK && coord_find_answer(s.c, second, &step, &number, &s.e) == COORD_REFUSED &&
	        strstr(s.e.msg, "server-1") && strstr(s.e.msg, "too large") &&
	        rows_of(&s, "emb") == 10,
	    "one says no: it stays as it is, and says who");
	ok(coord_find_answer(s.c, ticket, &step, &number, &s.e) == COORD_AGREED && step < 20,
	    "each has its own answer");
	second = asked(&s, COORD_TABLE_DROP, "emb", 0, &rc);
	all_vote(&s, 30);
	ok(rc == ERR_OK && coord_find_answer(s.c, second, &step, &number, &s.e) == COORD_AGREED &&
	        rows_of(&s, "emb") < 0,
	    "a table goes");
	scene_close(&s);
}

/* A table begins at a step far ahead: its next change is not proposed for an earlier one. */
static void not_before_it_begins(void)
{
	struct scene s;
	enum err_code rc;
	uint64_t ticket, began = 0, step = 0;
	int64_t number;

	scene_open(&s, 2, 2);
	scene_run(&s);
	ticket = asked(&s, COORD_TABLE_ADD, "emb", 10, &rc);
	vote(&s, 0, false, 100, 9);
	vote(&s, 1, false, 100, 9);
	all_vote(&s, 100);
	ok(coord_find_answer(s.c, ticket, &began, &number, &s.e) == COORD_AGREED && began > 100,
	    "a table begins when it is due at all servers");
	ack_all(&s);
	ticket = asked(&s, COORD_TABLE_GROW, "emb", 20, &rc);
	all_vote(&s, 9);
	ok(rc == ERR_OK && coord_find_answer(s.c, ticket, &step, &number, &s.e) == COORD_AGREED &&
	        step >= began,
	    "it does not grow before it begins: %llu, %llu", (unsigned long long)step,
	    (unsigned long long)began);
	scene_close(&s);
}

/* Servers tell how much memory their hosts have left; 0: they cannot tell. */
static void memory_of_hosts(void)
{
	struct scene s;
	enum err_code rc;

	scene_open(&s, 1, 1);
	scene_run(&s);
	say(&s, &s.server[0], "{\"op\":\"beat\",\"about\":{\"memory_available_bytes\":100}}");
	asked(&s, COORD_TABLE_ADD, "emb", 10, &rc);
	ok(rc == ERR_CONFIG, "a table that no host has memory for is refused: %s", s.e.msg);
	say(&s, &s.server[0], "{\"op\":\"beat\",\"about\":{\"memory_available_bytes\":0}}");
	asked(&s, COORD_TABLE_ADD, "emb", 10, &rc);
	ok(rc == ERR_OK, "where the memory is unknown, it is proposed to the servers");
	scene_close(&s);
}

static void over_restarts(void)
{
	struct scene s;
	enum err_code rc;

	scene_open(&s, 2, 2);
	scene_run(&s);
	asked(&s, COORD_TABLE_ADD, "emb", 10, &rc);
	all_vote(&s, 7);
	ack_all(&s);
	asked(&s, COORD_TABLE_GROW, "emb", 70, &rc);
	vote(&s, 0, true, 9, 9);
	ok(rc == ERR_OK && scene_again(&s) && rows_of(&s, "emb") == 10,
	    "killed in the middle of a vote");
	coord_tick(s.c, s.now);
	join_as_server(&s, 0);
	join_as_server(&s, 1);
	all_vote(&s, 12);
	ok(rows_of(&s, "emb") == 70, "it is voted on again, and decided");
	ack_all(&s);
	asked(&s, COORD_TABLE_DROP, "emb", 0, &rc);
	scene_again(&s);
	coord_tick(s.c, s.now);
	join_as_server(&s, 0);
	join_as_server(&s, 1);
	all_vote(&s, 14);
	ok(rows_of(&s, "emb") < 0, "what was to be dropped is, too");
	scene_close(&s);
}

static void at_the_end(void)
{
	struct scene s;
	enum err_code rc;
	uint64_t ticket, step;
	int64_t number;

	scene_open(&s, 2, 2);
	scene_run(&s);
	ticket = asked(&s, COORD_TABLE_ADD, "emb", 10, &rc);
	coord_fail(s.c, CAUSE_UNKNOWN, "for a test", s.now);
	ok(coord_find_answer(s.c, ticket, &step, &number, &s.e) == COORD_REFUSED &&
	        strstr(s.e.msg, "ended before"),
	    "who asked is told when the job ends first: %s", s.e.msg);
	all_vote(&s, 9);
	ok(rows_of(&s, "emb") < 0, "and a late vote changes nothing");
	scene_close(&s);
}

int main(void)
{
	by_vote();
	not_before_it_begins();
	memory_of_hosts();
	over_restarts();
	at_the_end();
	return tap_done();
}

/* SPDX-License-Identifier: ISC */
/* Tables that grow and are dropped. */
#include "layout_fixture.h"

static struct layout read_back(const struct layout *l)
{
	json_t *j = layout_to_json(l);
	struct layout back;
	struct err e = { 0 };

	if (layout_from_json(j, &back, &e))
		ok(false, "read back: %s", e.msg);
	json_decref(j);
	return back;
}

/* Rows come behind those that are there, whose partitions stay as they are. */
static void growing(void)
{
	static const uint64_t to[] = { 11, 65536, 65537, 131072 + 65536, 1000003 };
	struct layout l = { 0 }, back;
	struct table shape = dense("emb", 10, 1), before, *t;
	unsigned bad = 0;
	struct err e;

	shape.added = true;
	t = add(&l, shape);
	place(&l, 3);
	for (size_t i = 0; i < sizeof to / sizeof *to; i++) {
		before = *t;
		bad += layout_grow(&l, "emb", to[i], i + 1, &e) != ERR_OK || t->since != i + 1 ||
		    t->nparts <= before.nparts || !covers(t);
		for (uint32_t p = 0; p < before.nparts; p++)
			bad += table_part_begin(t, p) != table_part_begin(&before, p) ||
			    table_part_elements(t, p) != table_part_elements(&before, p);
		place(&l, 3);
		for (uint32_t p = 0; p < t->nparts; p++)
			bad += table_head(t, p) == NO_SERVER;
	}
	ok(!bad && t->nparts == 19 && t->npieces == 5,
	    "a table that grows keeps its partitions, and gets others (%u, %u)", t->nparts,
	    t->npieces);
	back = read_back(&l);
	ok(covers(&back.table[0]) && back.table[0].nparts == 19 && back.table[0].since == 5 &&
	        back.table[0].added,
	    "and is read back so");
	layout_release(&back);
	ok(layout_grow(&l, "emb", 1000003, 9, &e) == ERR_CONFIG &&
	        layout_grow(&l, "no", 5, 9, &e) == ERR_NOTFOUND,
	    "only to more rows");
	for (uint64_t n = 1000004; t->npieces < TABLE_PIECES; n++)
		layout_grow(&l, "emb", n, 9, NULL);
	ok(layout_grow(&l, "emb", 2000000, 9, &e) == ERR_LIMIT && covers(t), "not for ever: %s",
	    e.msg);
	add(&l, sparse("ids", 10, 4));
	ok(layout_grow(&l, "ids", 100, 9, &e) == ERR_CONFIG, "nor what is sparse: %s", e.msg);
	layout_release(&l);
}

/* Its name is free, its number is not. */
static void dropping(void)
{
	struct layout l = { 0 }, back;
	struct table a = dense("a", 5, 1), b = dense("b", 5, 1), other = dense("a", 7, 2);
	json_t *j;
	struct err e;

	a.added = b.added = other.added = true;
	add(&l, a);
	add(&l, b);
	place(&l, 2);
	back = read_back(&l);
	ok(layout_drop(&l, "a") && !layout_find(&l, "a") && layout_find(&l, "b")->id == 1 &&
	        !layout_drop(&l, "a"),
	    "a table is dropped");
	place(&l, 2);
	ok(!l.table[0].nruns, "and lies nowhere any more");
	ok(add(&l, other)->id == 2 && layout_find(&l, "a")->cols == 2, "another may have its name");
	j = layout_to_json(&l);
	layout_release(&l);
	ok(layout_from_json(j, &l, &e) == ERR_OK && l.ntables == 3 && l.table[0].dropped &&
	        layout_find(&l, "a")->id == 2,
	    "all this is read back");
	json_decref(j);
	ok(layout_update(&back, &l) && layout_find(&back, "a")->id == 2 && back.table[0].dropped &&
	        !back.table[0].nruns,
	    "and taken over by who has the layout before it");
	l = read_back(&back);
	l.table[0].dropped = false;
	ok(!layout_update(&back, &l), "what is dropped does not come back");
	layout_release(&back);
}

/* What only the cluster's own documents say must be so that it can be. */
static void wrong_past(void)
{
	static const char *const bad[] = { "{\"dropped\":true}", "{\"since\":3}",
		"{\"added\":true,\"pieces\":[[1,0]]}", "{\"added\":true,\"pieces\":[[0,5]]}",
		"{\"added\":true,\"pieces\":[[2,5]]}", "{\"added\":true,\"pieces\":[[1,10]]}",
		"{\"added\":true,\"pieces\":[[1,5],[1,6]]}", "{\"added\":true,\"pieces\":[[1]]}",
		"{\"added\":true,\"pieces\":[[1,-5]]}", "{\"added\":1}",
		"{\"added\":true,\"since\":-1}" };
	unsigned taken = 0;

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		json_t *j = json_loads(bad[i], 0, NULL);
		struct table t = dense("t", 10, 1);
		struct err e;

		taken += table_past_from_json(j, &t, &e) != ERR_PROTO;
		json_decref(j);
	}
	ok(!taken, "a table's past is not believed blindly");
}

int main(void)
{
	growing();
	dropping();
	wrong_past();
	return tap_done();
}

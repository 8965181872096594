/* SPDX-License-Identifier: ISC */
/* How tables are cut, dealt out over servers, and written as JSON. */
#include "layout_fixture.h"

/* ---- cutting ---- */

static void cutting(void)
{
	static const uint64_t rows[] = { 1, 2, 784, 65535, 65536, 65537, 131072, 131073, 1000003 };
	struct layout l = { 0 };
	unsigned bad = 0, spread[64] = { 0 };
	struct table *t;
	char name[32];

	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		for (uint32_t cols = 1; cols < 5; cols++) {
			snprintf(name, sizeof name, "t%zu.%u", i, cols);
			bad += !covers(add(&l, dense(name, rows[i], cols)));
		}
	ok(!bad,
	    "dense partitions cover a table without gap or overlap, none above 65536 elements");
	t = add(&l, sparse("ids", 1000, 8));
	ok(t->nparts == 16, "a small sparse table has 16 partitions");
	for (uint64_t id = 0; id < 16000; id++) {
		if (table_part_of(t, id) >= t->nparts)
			bad++;
		else
			spread[table_part_of(t, id)]++;
	}
	for (unsigned p = 0; p < 16; p++)
		bad += spread[p] < 800 || spread[p] > 1200;
	ok(!bad, "ids in a row are spread evenly over them");
	ok(table_part_of(t, UINT64_MAX) < t->nparts && table_part_of(t, 7) == table_part_of(t, 7),
	    "any id has its partition, always the same");
	ok(add(&l, sparse("wide", UINT64_C(1) << 20, 157))->nparts == 256,
	    "a large one has a partition for each 2^20 values");
	ok(add(&l, sparse("big", UINT64_C(1) << 30, 16))->nparts == 4096 &&
	        add(&l, sparse("bigger", UINT64_C(1) << 34, 16))->nparts == 4096,
	    "a huge one has 4096, not more");
	layout_release(&l);
}

/* A table that is not cut stays so on the way through JSON, does not grow, and has a largest size. */
static void whole_tables(void)
{
	struct layout l = { 0 }, read = { 0 };
	struct table shape = dense("w", 512, 512), *t, parsed;
	struct err e = { 0 };
	json_t *j;

	shape.whole = true;
	t = add(&l, shape);
	ok(t->nparts == 1 && table_part_begin(t, 0) == 0 && table_part_elements(t, 0) == 262144,
	    "a whole table is one partition");
	j = layout_to_json(&l);
	ok(layout_from_json(j, &read, &e) == ERR_OK && read.table[0].whole &&
	        read.table[0].nparts == 1,
	    "and is one when it is read again%s", e.msg);
	json_decref(j);
	ok(layout_grow(&l, "w", 1000, 1, &e) == ERR_CONFIG && t->nparts == 1 && t->rows == 512,
	    "it does not grow: %s", e.msg);
	shape.rows++;
	j = table_to_json(&shape);
	ok(table_from_json(j, &parsed, &e) == ERR_CONFIG && strstr(e.msg, "262144"),
	    "one that is too large is refused: %s", e.msg);
	json_decref(j);
	layout_release(&l);
	layout_release(&read);
}

static void adding(void)
{
	struct layout l = { 0 };
	struct table shape = dense("w", 784, 10), *a, *b;
	struct err e = { 0 };

	layout_add(&l, &shape, &a, &e);
	ok(layout_add(&l, &shape, &b, &e) == ERR_OK && b->id == 0 && l.ntables == 1,
	    "the same table again is the same table");
	shape.rows = 785;
	ok(layout_add(&l, &shape, &b, &e) == ERR_EXISTS && strstr(e.msg, "785") &&
	        strstr(e.msg, "784"),
	    "another shape under its name is refused: %s", e.msg);
	ok(layout_find(&l, "w") && !layout_find(&l, "v"), "tables are found by name");
	ok(table_head(&l.table[0], 0) == UINT16_MAX, "a table that was not placed has no owner");
	layout_release(&l);
}

/* ---- placing ---- */

static uint64_t load_of(const struct layout *l, unsigned server)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < l->ntables; i++)
		for (uint32_t p = 0; p < l->table[i].nparts; p++)
			if (table_head(&l->table[i], p) == server)
				sum += l->table[i].sparse
				    ? table_elements(&l->table[i]) / l->table[i].nparts
				    : table_part_elements(&l->table[i], p);
	return sum;
}

static bool all_owned(const struct layout *l, unsigned servers)
{
	for (size_t i = 0; i < l->ntables; i++)
		for (uint32_t p = 0; p < l->table[i].nparts; p++)
			if (table_head(&l->table[i], p) >= servers)
				return false;
	return true;
}

static void many_tables(struct layout *l)
{
	char name[16];

	for (unsigned i = 0; i < 12; i++) {
		snprintf(name, sizeof name, "w%u", i);
		add(l, dense(name, 300 + 517 * i, 256));
		snprintf(name, sizeof name, "b%u", i);
		add(l, dense(name, 1, 256));
	}
	add(l, sparse("rows", 100000, 16));
}

static void placing(void)
{
	unsigned bad = 0;
	double worst = 0;

	for (unsigned servers = 1; servers <= 40; servers++) {
		struct layout l = { 0 };
		uint64_t most = 0, total = 0;

		many_tables(&l);
		place(&l, servers);
		bad += !all_owned(&l, servers);
		for (unsigned s = 0; s < servers; s++) {
			uint64_t load = load_of(&l, s);

			total += load;
			most = load > most ? load : most;
		}
		if (servers <= 8 && (double)most * servers / (double)total > worst)
			worst = (double)most * servers / (double)total;
		layout_release(&l);
	}
	ok(!bad, "every partition is placed on exactly one server, for 1 to 40 servers");
	ok(worst < 1.25, "up to 8 servers hold within 25 %% of their share (worst %.3f of it)",
	    worst);
}

static void spreading(void)
{
	struct layout l = { 0 };
	struct table *big, *small[4];
	unsigned owner = 0;
	bool spread = true;
	char name[8];

	big = add(&l, dense("big", 65536 * 9, 1));
	place(&l, 3);
	for (uint32_t p = 0; p < 9; p++)
		spread &= table_head(big, p) == p / 3;
	ok(spread && l.table[0].nruns == 3,
	    "nine partitions over three servers are three runs of three");
	for (unsigned i = 0; i < 3; i++) {
		snprintf(name, sizeof name, "s%u", i);
		add(&l, dense(name, 100, 1));
	}
	place(&l, 3);
	for (unsigned i = 0; i < 3; i++) {
		small[i] = &l.table[1 + i];
		owner |= 1u << table_head(small[i], 0);
	}
	ok(owner == 7, "three small tables lie on three servers");
	for (uint32_t p = 0; p < 9; p++)
		spread &= table_head(&l.table[0], p) == p / 3;
	ok(spread, "placing new tables moves no old partition");
	layout_release(&l);
}

/* ---- JSON ---- */

static bool same(const struct layout *a, const struct layout *b)
{
	if (a->epoch != b->epoch || a->generation != b->generation || a->ntables != b->ntables)
		return false;
	for (size_t i = 0; i < a->ntables; i++) {
		const struct table *x = &a->table[i], *y = &b->table[i];

		if (strcmp(x->name, y->name) != 0 || x->id != y->id || x->sparse != y->sparse ||
		    x->decay != y->decay || x->reduced != y->reduced || x->rows != y->rows ||
		    x->cols != y->cols || x->nparts != y->nparts || x->init != y->init ||
		    x->init_limit != y->init_limit || x->seed != y->seed || x->nruns != y->nruns)
			return false;
		for (uint32_t p = 0; p < x->nparts; p++)
			if (table_head(x, p) != table_head(y, p))
				return false;
	}
	return true;
}

static void json(void)
{
	struct layout l = { .epoch = 4, .generation = 2 }, back;
	struct table t = sparse("emb.v-1_x", 5000, 32);
	struct err e = { 0 };
	json_t *j;

	t.init = TABLE_UNIFORM;
	t.init_limit = 0.1f;
	t.seed = UINT64_MAX - 1;
	t.decay = true;
	add(&l, t);
	t = sparse("old", 1000, 8);
	t.nparts = 1024;
	add(&l, t);
	t = dense("reduced", 100, 7);
	t.reduced = true;
	t.init = TABLE_CONSTANT;
	t.init_limit = -2.5f;
	add(&l, t);
	many_tables(&l);
	place(&l, 5);
	j = layout_to_json(&l);
	ok(layout_from_json(j, &back, &e) == ERR_OK && same(&l, &back),
	    "a layout goes through JSON unchanged, seeds above 2^53 and floats too: %s", e.msg);
	ok(layout_find(&back, "old") && layout_find(&back, "old")->nparts == 1024,
	    "a sparse table keeps partitions that a new one would not have");
	json_decref(j);
	layout_release(&l);
	layout_release(&back);
}

static bool coord_table_refused(const char *text, const char *word)
{
	struct err e = { 0 };
	struct table t;
	json_t *j = json_parse(text, strlen(text), 4096, &e);
	enum err_code rc = table_from_json(j, &t, &e);

	json_decref(j);
	return rc != ERR_OK && strstr(e.msg, word);
}

static bool layout_refused(const char *text)
{
	struct err e = { 0 };
	struct layout l;
	json_t *j = json_parse(text, strlen(text), 4096, &e);
	enum err_code rc = layout_from_json(j, &l, &e);

	json_decref(j);
	if (!rc)
		layout_release(&l);
	return rc == ERR_PROTO || rc == ERR_CONFIG;
}

static void wrong_json(void)
{
	ok(coord_table_refused("{\"name\":\"../x\",\"rows\":1,\"cols\":1}", "name") &&
	        coord_table_refused("{\"name\":\"\",\"rows\":1,\"cols\":1}", "name") &&
	        coord_table_refused("{\"rows\":1,\"cols\":1}", "name"),
	    "a table's name is letters, digits and . _ -");
	ok(coord_table_refused("{\"name\":\"w\",\"rows\":0,\"cols\":1}", "0 x 1") &&
	        coord_table_refused("{\"name\":\"w\",\"rows\":5}", "5 x 0"),
	    "a dense table has elements");
	ok(coord_table_refused("{\"name\":\"w\",\"rows\":1099511627776,\"cols\":2}",
	       "1099511627776 x 2"),
	    "and not more than can be held");
	ok(coord_table_refused("{\"name\":\"w\",\"rows\":1,\"cols\":-1}", "cols") &&
	        coord_table_refused("{\"name\":\"w\",\"rows\":\"1\",\"cols\":1}", "rows"),
	    "numbers are numbers, and in bounds");
	ok(coord_table_refused("{\"name\":\"w\",\"rows\":1,\"cols\":1,\"init\":\"noise\"}",
	       "init must be") &&
	        coord_table_refused("{\"name\":\"w\",\"rows\":1,\"cols\":1,\"init_limit\":-0.5}",
	            "-0.5") &&
	        coord_table_refused("{\"name\":\"w\",\"rows\":1,\"cols\":1,\"init_limit\":3.5e38}",
	            "3.5e+38"),
	    "its values have a beginning that there is, and a float bounds them");
	ok(coord_table_refused("{\"name\":\"w\",\"sparse\":true,\"cols\":1,\"row_store\":\"tape\"}",
	       "\"tape\" is unknown"),
	    "its rows are in a store that there is");
}

/* A layout whose one table, of 16 partitions, has these runs. */
static bool runs_refused(const char *runs)
{
	char text[400];

	snprintf(text, sizeof text,
	    "{\"epoch\":1,\"generation\":1,\"tables\":[{\"name\":\"w\",\"sparse\":true,\"rows\":10,"
	    "\"cols\":1,\"id\":0,\"partitions\":16,\"runs\":%s}]}",
	    runs);
	return layout_refused(text);
}

static void wrong_runs(void)
{
	ok(!runs_refused("[]") &&
	        !runs_refused("[[0,8,[0,1],-1,-1],[8,7,[1,0],2,-1],[15,1,[],-1,65534]]"),
	    "runs in order are taken, of all partitions or of some");
	ok(runs_refused("[[0,17,[0],-1,-1]]") && runs_refused("[[16,1,[0],-1,-1]]") &&
	        runs_refused("[[0,0,[0],-1,-1]]"),
	    "a run of partitions that do not exist is refused");
	ok(runs_refused("[[0,1,[0,1,2,3],-1,-1]]") && runs_refused("[[0,1,[1,1],-1,-1]]"),
	    "a chain has at most three servers, each once");
	ok(runs_refused("[[0,9,[0],-1,-1],[8,8,[0],-1,-1]]") &&
	        runs_refused("[[8,8,[0],-1,-1],[0,8,[0],-1,-1]]"),
	    "runs that overlap or are not in order are refused: they are searched by halves");
	ok(runs_refused("[[4294967296,1,[0],-1,-1]]") &&
	        runs_refused("[[0,4294967297,[0],-1,-1]]") && runs_refused("[[-1,1,[0],-1,-1]]") &&
	        runs_refused("[[0,1,[65536],-1,-1]]") && runs_refused("[[0,1,[65535],-1,-1]]") &&
	        runs_refused("[[0,1,[-1],-1,-1]]") && runs_refused("[[0,1,[0],65536,-1]]") &&
	        runs_refused("[[0,1,[0],-1,-2]]"),
	    "no number is cut to fit");
	ok(runs_refused("{}") && runs_refused("[1]") && runs_refused("[[0,1,0,-1,-1]]") &&
	        runs_refused("[[0,1,[0]]]") && runs_refused("[[0,1,[0],-1,-1,0]]") &&
	        runs_refused("[[0,1.0,[0],-1,-1]]"),
	    "nor is anything else a run");
}

static void wrong_layouts(void)
{
	static const char one[] =
	    "{\"name\":\"w\",\"rows\":10,\"cols\":1,\"id\":%d,\"partitions\":%d,\"runs\":[]}";
	static const struct {
		int id, parts, id2;
		bool good;
	} row[] = { { 0, 1, -1, true }, { 1, 1, -1, false }, { 0, 2, -1, false },
		{ 0, 1, 1, false }, { 0, 1, 0, false } };
	char text[400], table[2][150];
	int wrong = 0;

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		snprintf(table[0], sizeof *table, one, row[i].id, row[i].parts);
		snprintf(table[1], sizeof *table, one, row[i].id2, 1);
		snprintf(text, sizeof text, "{\"tables\":[%s%s%s]}", table[0],
		    row[i].id2 < 0 ? "" : ",", row[i].id2 < 0 ? "" : table[1]);
		wrong += layout_refused(text) == row[i].good;
	}
	ok(!wrong,
	    "a table has the number of its place and the partitions of its shape, and stands there once");
	ok(layout_refused("[]") && layout_refused("1") && layout_refused("{}") &&
	        layout_refused("{\"tables\":{}}") &&
	        layout_refused("{\"epoch\":4294967296,\"tables\":[]}") &&
	        layout_refused("{\"epoch\":\"x\",\"tables\":[]}") &&
	        layout_refused("{\"generation\":-1,\"tables\":[]}") &&
	        !layout_refused("{\"tables\":[]}"),
	    "a layout is an object with tables, an epoch and a generation");
}

/* A placed layout of these tables. */
static struct layout named(uint32_t epoch, const char *const *name, unsigned servers)
{
	struct layout l = { .epoch = epoch };

	for (; *name; name++)
		add(&l, dense(*name, 100000, 1));
	place(&l, servers);
	return l;
}

static void updating(void)
{
	static const char *const ab[] = { "a", "b", NULL }, *const abc[] = { "a", "b", "c", NULL };
	static const char *const ba[] = { "b", "a", NULL }, *const a[] = { "a", NULL };
	struct layout l = { 0 }, fresh = named(1, ab, 1);
	const struct table *first;

	layout_reserve(&l);
	ok(layout_update(&l, &fresh) && l.epoch == 1 && l.ntables == 2 && fresh.ntables == 0,
	    "a layout becomes another");
	first = l.table;
	fresh = named(2, abc, 3);
	ok(layout_update(&l, &fresh) && l.epoch == 2 && l.ntables == 3 && l.table == first &&
	        table_head(layout_find(&l, "c"), 0) != NO_SERVER,
	    "with more tables, where the old ones do not move");
	fresh = named(3, ba, 1);
	ok(!layout_update(&l, &fresh) && l.epoch == 2 && l.ntables == 3 && !fresh.table,
	    "not with others under their numbers");
	fresh = named(3, a, 1);
	ok(!layout_update(&l, &fresh) && l.epoch == 2 && strcmp(l.table[1].name, "b") == 0,
	    "nor without some of them");
	layout_release(&l);
}

/* Names that differ little, and so many that they must meet in the index. */
static void thousands(void)
{
	struct layout l = { 0 }, back;
	bool found = true, none = true;
	char name[TABLE_NAME];
	json_t *j;
	struct err e;

	for (unsigned i = 0; i < 3000; i++) {
		snprintf(name, sizeof name, "table-%u", i);
		add(&l, dense(name, 1, 1));
	}
	place(&l, 2);
	j = layout_to_json(&l);
	ok(layout_from_json(j, &back, &e) == ERR_OK && back.ntables == 3000,
	    "3,000 tables are read");
	for (unsigned i = 0; i < 3000; i++) {
		const struct table *t;

		snprintf(name, sizeof name, "table-%u", i);
		t = layout_find(&back, name);
		found &= t && t->id == i && strcmp(t->name, name) == 0;
		snprintf(name, sizeof name, "tables-%u", i);
		none &= !layout_find(&back, name);
	}
	ok(found && none, "each is found by its name, and no other is");
	json_decref(j);
	layout_release(&l);
	layout_release(&back);
}

int main(void)
{
	cutting();
	thousands();
	whole_tables();
	adding();
	placing();
	spreading();
	json();
	wrong_json();
	wrong_runs();
	wrong_layouts();
	updating();
	return tap_done();
}

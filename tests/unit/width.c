/* SPDX-License-Identifier: ISC */
/* Rows that are narrow before they are wide.  What a table with such a policy has is told by one that has none: its
 * gradients are the same, but for zeros in the columns that the other's rows have not yet. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/file.h"
#include "core/mem.h"
#include "core/rng.h"
#include "ckpt/read.h"
#include "ckpt/write.h"
#include "members.h"
#include "tap.h"

enum { IDS = 300, PARTS = 16, MOST_COLS = 40 };

static struct rng rng;
static char dir[] = "/tmp/pskit-width.XXXXXX";

struct store {
	struct layout layout;
	struct shard *shard;
	const struct table *table;
	struct shard_config cfg;
};

static void no_wake(void *ctx)
{
	(void)ctx;
}

static struct row_policy policy_of(const char *text)
{
	struct row_policy p;

	if (row_policy_parse(text, &p, NULL))
		abort();
	return p;
}

/* from: a checkpoint to begin with, or NULL. */
static void store_open(struct store *x, const char *mode, const char *rule, uint32_t cols,
    const char *policy, const char *from)
{
	struct table shape = { .name = "t",
		.sparse = true,
		.rows = IDS,
		.cols = cols,
		.seed = 7,
		.init = TABLE_UNIFORM,
		.init_limit = 0.5f,
		.policy = policy_of(policy) },
	             *t;
	struct ckpt_reader *r = NULL;

	*x = (struct store){ .cfg = { .deterministic = strcmp(mode, "bsp") == 0,
		                 .rule = optim_find(rule),
		                 .wake = no_wake } };
	if (sync_parse(mode, &x->cfg.mode, NULL) ||
	    schedule_parse("constant", &x->cfg.schedule, NULL) ||
	    (from && ckpt_open(from, &r, NULL)))
		abort();
	x->cfg.rule->defaults(&x->cfg.hyper);
	x->cfg.hyper.lr = 0.125f;
	x->cfg.restore = r;
	layout_add(&x->layout, &shape, &t, NULL);
	layout_place(&x->layout, (const uint16_t[]){ 0 }, 1, 1);
	if (shard_new(&x->cfg, &x->shard, NULL) || shard_install(x->shard, &x->layout, NULL, NULL))
		abort();
	shard_restore_done(x->shard);
	ckpt_close(r);
	admit(x->shard, 0, 1, 0);
	x->table = t;
}

static void store_close(struct store *x)
{
	shard_free(x->shard);
	layout_release(&x->layout);
}

/* ---- pushes and pulls ---- */

/* Of one step: some ids, the lower ones often, and a gradient for each. */
struct grads {
	uint32_t n;
	uint64_t id[IDS];
	float g[IDS][MOST_COLS];
};

static void draw(struct grads *x, uint32_t cols)
{
	x->n = 0;
	for (uint64_t i = 0; i < IDS; i++) {
		if (rng_unit(&rng) * IDS < (double)i)
			continue;
		x->id[x->n] = i * i * 977;
		for (uint32_t c = 0; c < cols; c++)
			x->g[x->n][c] = (float)rng_normal(&rng);
		x->n++;
	}
}

/* had: by place in g, whether the row was wide; NULL: all were.  As workers send them, those of a partition together, or
 * (twisted) in the other order. */
static void push(struct store *x, uint64_t step, const struct grads *g, const bool *had,
    uint32_t narrow, bool twisted)
{
	static uint64_t ids[IDS];
	static float out[IDS * MOST_COLS];
	uint32_t cols = x->table->cols;

	for (uint32_t p = 0; p < x->table->nparts; p++) {
		struct push push = { .incarnation = 1,
			.step = step,
			.part = p,
			.examples = 1,
			.ids = (const uint8_t *)ids,
			.payload = (const uint8_t *)out };
		struct receipt r;

		for (uint32_t k = 0; k < g->n; k++) {
			uint32_t i = twisted ? g->n - 1 - k : k;
			float *row = out + push.nrows * cols;

			if (table_part_of(x->table, g->id[i]) != p)
				continue;
			ids[push.nrows++] = g->id[i];
			memcpy(row, g->g[i], cols * sizeof *row);
			if (had && !had[i])
				memset(row + narrow, 0, (cols - narrow) * sizeof *row);
		}
		push.len = push.nrows * cols * sizeof *out;
		if (push.nrows && (shard_push(x->shard, &push, &r) || r.status > PUSH_MERGED))
			abort();
	}
	if (shard_clock(x->shard, 0, 1, step, 1))
		abort();
}

static void pull(struct store *x, uint64_t step, uint64_t id, float *out)
{
	uint64_t version;

	if (shard_pull_rows(x->shard, 0, table_part_of(x->table, id), step, (const uint8_t *)&id, 1,
	        out, &version))
		abort();
}

static struct table_stats stats(struct store *x)
{
	struct table_stats st;

	if (!shard_table_stats(x->shard, 0, &st))
		abort();
	return st;
}

/* Do both have the same rows, of the same values?  times: NULL, or how often each was updated: then b has the rest of
 * those alone which were so `after` times. */
static bool same(struct store *a, struct store *b, const uint64_t *times, uint64_t after,
    uint32_t narrow)
{
	bool good = true;

	for (uint64_t i = 0; i < IDS; i++) {
		float x[MOST_COLS], y[MOST_COLS];
		uint32_t cols = a->table->cols;

		pull(a, SYNC_NEVER, i * i * 977, x);
		pull(b, SYNC_NEVER, i * i * 977, y);
		if (times && times[i] < after)
			memset(x + narrow, 0, (cols - narrow) * sizeof *x);
		good &= memcmp(x, y, cols * sizeof *x) == 0;
	}
	return good;
}

static uint64_t number_of(uint64_t id)
{
	uint64_t i = 0;

	while (i * i * 977 != id)
		i++;
	return i;
}

/* ---- beside a table that has no such policy ---- */

struct kind {
	const char *mode, *rule, *policy;
	uint32_t cols;
	bool twisted;
	const char *then; /* the rule from the middle on; NULL: the same */
};

static void other_rule(struct store *x, const char *name, uint64_t step)
{
	struct settings_epoch r = { .step = step,
		.number = 1,
		.mode = x->cfg.mode,
		.rule = optim_find(name),
		.schedule = x->cfg.schedule };

	r.rule->defaults(&r.hyper);
	r.hyper.lr = 0.25f;
	shard_add_epoch(x->shard, &r);
}

static void follows(const struct kind *k)
{
	const struct row_policy policy = policy_of(k->policy);
	uint32_t narrow = policy.narrow < k->cols ? policy.narrow : k->cols;
	uint64_t times[IDS] = { 0 }, wide = 0, rows = 0;
	struct store plain, x;
	struct grads g;
	bool good = true, had[IDS];

	store_open(&plain, k->mode, k->rule, k->cols, "none", NULL);
	store_open(&x, k->mode, k->rule, k->cols, k->policy, NULL);
	good &= same(&plain, &x, times, 1, narrow);
	for (uint64_t step = 0; step < 12; step++) {
		if (step == 6 && k->then) {
			other_rule(&plain, k->then, step);
			other_rule(&x, k->then, step);
		}
		draw(&g, k->cols);
		for (uint32_t i = 0; i < g.n; i++)
			had[i] = times[number_of(g.id[i])]++ >= policy.widen_after;
		push(&plain, step, &g, had, narrow, k->twisted);
		push(&x, step, &g, NULL, 0, k->twisted);
		good &= same(&plain, &x, times, policy.widen_after, narrow);
	}
	for (uint64_t i = 0; i < IDS; i++) {
		rows += times[i] > 0;
		wide += times[i] >= policy.widen_after;
	}
	ok(good, "%s, %s%s%s, %u columns, %s%s: narrow rows have their columns, wide ones all",
	    k->mode, k->rule, k->then ? ", then " : "", k->then ? k->then : "", k->cols, k->policy,
	    k->twisted ? ", ids in another order" : "");
	ok(narrow == k->cols ? !stats(&x).widens
	                     : stats(&x).widens && stats(&x).wide == wide &&
	            stats(&x).rows == rows && stats(&x).count[LIFE_widened] == wide && wide > 0 &&
	            (wide < rows || policy.widen_after == 1),
	    "%d rows of %d are wide", (int)wide, (int)rows);
	store_close(&plain);
	store_close(&x);
}

/* The same id twice in a push: the second time finds what the first has left. */
static void twice(void)
{
	struct grads g = { .n = 4,
		.id = { 5, 5, 5, 5 },
		.g = { { 1, 1 }, { 1, 1 }, { 1, 1 }, { 1, 1 } } };
	struct store x;
	float first[2], now[2];

	store_open(&x, "asp", "sgd", 2, "none", NULL);
	pull(&x, SYNC_NEVER, 5, first);
	store_close(&x);
	store_open(&x, "asp", "sgd", 2, "widen=1@3", NULL);
	push(&x, 0, &g, NULL, 0, false);
	pull(&x, SYNC_NEVER, 5, now);
	ok(now[0] == first[0] - 0.5f && now[1] == first[1] - 0.125f,
	    "four times in one push: the fourth is the first that counts for all columns");
	store_close(&x);
}

/* A row that goes, and comes again, begins narrow. */
static void again(const char *mode)
{
	struct grads g = { .n = 1, .id = { 5 }, .g = { { 1, 1 } } },
	             other = { .n = 1, .id = { 6 }, .g = { { 1, 1 } } };
	struct store x;
	float now[2], then[2];
	uint64_t step = 0;

	store_open(&x, mode, "adagrad", 2, "widen=1@2,expire=16", NULL);
	while (table_part_of(x.table, other.id[0]) != table_part_of(x.table, 5))
		other.id[0]++;
	for (; step < 3; step++)
		push(&x, step, &g, NULL, 0, false);
	pull(&x, SYNC_NEVER, 5, now);
	ok(now[1] != 0 && stats(&x).wide == 1, "%s: a row is wide", mode);
	/* Who is a step behind still sees what it was before. */
	for (; step < 40 && stats(&x).count[LIFE_expired] == 0; step++)
		push(&x, step, &other, NULL, 0, false);
	if (x.cfg.deterministic)
		pull(&x, step - 1, 5, then);
	ok(!x.cfg.deterministic || memcmp(now, then, sizeof now) == 0,
	    "%s: it is seen as it was a step ago", mode);
	pull(&x, SYNC_NEVER, 5, now);
	ok(now[1] == 0 && stats(&x).wide == 1 && stats(&x).rows == 1,
	    "%s: it has gone, with all its columns", mode);
	push(&x, step, &g, NULL, 0, false);
	pull(&x, SYNC_NEVER, 5, now);
	ok(now[1] == 0 && stats(&x).rows == 2 && stats(&x).wide == 1,
	    "%s: and is narrow when it comes again", mode);
	store_close(&x);
}

/* ---- memory ---- */

static void memory(void)
{
	enum { EACH = 4 * (2 + 1 + 1) + 16, WIDE = 4 * 2 * 7 + 16, ROOM = 8 * EACH + WIDE };
	struct store x, plain;
	struct grads g;
	char policy[64];

	store_open(&plain, "asp", "adagrad", 8, "none", NULL);
	store_open(&x, "asp", "adagrad", 8, "widen=1@200", NULL);
	for (uint64_t step = 0; step < 40; step++) {
		draw(&g, 8);
		for (uint32_t i = 0; i < g.n; i++)
			g.id[i] += step << 40;
		push(&x, step, &g, NULL, 0, false);
		push(&plain, step, &g, NULL, 0, false);
	}
	ok(stats(&x).rows == stats(&plain).rows && stats(&x).bytes * 2 < stats(&plain).bytes,
	    "narrow rows take %d bytes where wide ones take %d", (int)stats(&x).bytes,
	    (int)stats(&plain).bytes);
	store_close(&x);
	store_close(&plain);
	/* In one partition there is room for eight narrow rows and one that is wide: the first two are. */
	snprintf(policy, sizeof policy, "widen=1@3,memory=%d", ROOM * PARTS);
	store_open(&x, "asp", "adagrad", 8, policy, NULL);
	g = (struct grads){ .n = 1 };
	for (uint64_t step = 0, id = 0; step < 10; id++) {
		if (table_part_of(x.table, id) != 0)
			continue;
		g.id[0] = id;
		for (unsigned k = 0; k < (step < 2 ? 3 : 1); k++)
			push(&x, step * 3 + k, &g, NULL, 0, false);
		step++;
	}
	ok(x.table->nparts == PARTS && stats(&x).wide == 0 && stats(&x).rows == 8 &&
	        stats(&x).count[LIFE_evicted] == 2,
	    "by the bytes that rows take the oldest go: %d are left", (int)stats(&x).rows);
	store_close(&x);
}

/* ---- checkpoints ---- */

static char *save(struct store *x, uint64_t step, uint64_t mark, const char *base)
{
	json_t *head = json_pack("{s:i, s:i, s:[{s:s, s:b, s:i, s:i, s:i}]}", "generation", 1,
	           "epoch", 1, "tables", "name", "t", "sparse", 1, "rows", IDS, "cols",
	           (int)x->table->cols, "parts", (int)x->table->nparts),
	       *d = NULL;
	struct ckpt_part *part;
	struct ckpt *c;
	struct err e = { 0 };
	char *path = NULL;
	size_t n;
	uint64_t at;

	shard_snap_marks(x->shard, mark, base ? 1 : 0);
	if (!shard_snap_begin(x->shard, step, &at) || shard_snap_take(x->shard) ||
	    !shard_snap_parts(x->shard, &part, &n))
		abort();
	if (ckpt_begin(dir, step, &c, &e) || (base && ckpt_base(c, base, &e)) ||
	    ckpt_write_server(ckpt_tmp(c), 0, part, n, &d, &e) || ckpt_add(c, d, &e) ||
	    ckpt_commit(c, head, &path, &e))
		printf("# %s\n", e.msg);
	shard_snap_release(part, n);
	json_decref(d);
	json_decref(head);
	return path;
}

static void some_steps(struct store *x, struct store *y, uint64_t from, uint64_t n)
{
	struct grads g;

	for (uint64_t step = from; step < from + n; step++) {
		draw(&g, x->table->cols);
		push(x, step, &g, NULL, 0, false);
		if (y)
			push(y, step, &g, NULL, 0, false);
	}
}

static uint64_t file_size(const char *path, const char *name)
{
	char *file = path_join(path, name);
	struct stat st;

	if (stat(file, &st))
		abort();
	free(file);
	return (uint64_t)st.st_size;
}

static void saved(const char *mode, const char *rule, const char *policy)
{
	struct store x, y, z;
	char *whole, *changes;

	store_open(&x, mode, rule, 6, policy, NULL);
	some_steps(&x, NULL, 0, 6);
	whole = save(&x, 6, 1, NULL);
	store_open(&y, mode, rule, 6, policy, whole);
	ok(same(&x, &y, NULL, 0, 0) && stats(&y).wide == stats(&x).wide &&
	        stats(&y).rows == stats(&x).rows && stats(&y).wide > 0,
	    "%s, %s, %s: a checkpoint has rows as wide as they are", mode, rule, policy);
	some_steps(&x, &y, 6, 3);
	ok(same(&x, &y, NULL, 0, 0) && stats(&y).wide == stats(&x).wide &&
	        stats(&y).count[LIFE_widened] == stats(&x).count[LIFE_widened],
	    "and they go on as they would have");
	changes = save(&x, 9, 2, whole);
	store_open(&z, mode, rule, 6, policy, changes);
	ok(same(&x, &z, NULL, 0, 0) && stats(&z).wide == stats(&x).wide &&
	        stats(&z).rows == stats(&x).rows,
	    "so does one of what has changed since");
	some_steps(&x, &z, 9, 3);
	ok(same(&x, &z, NULL, 0, 0) && stats(&z).wide == stats(&x).wide, "and goes on");
	store_close(&x);
	store_close(&y);
	store_close(&z);
	free(whole);
	free(changes);
}

/* Who has rows of another width takes none of them; narrow ones are small. */
static void another(void)
{
	static const char *const policies[] = { "none", "widen=3@4", "widen=1@4" };
	uint64_t size[3];

	for (unsigned i = 0; i < 3; i++) {
		struct ckpt_reader *r = NULL;
		struct err e = { 0 };
		struct shard *s;
		struct store x, y;
		char *path;

		store_open(&x, "asp", "adagrad", 40, policies[i], NULL);
		some_steps(&x, NULL, 0, 4);
		path = save(&x, 4, 0, NULL);
		size[i] = file_size(path, "server-0.params.safetensors") +
		    file_size(path, "server-0.state.safetensors");
		store_open(&y, "asp", "adagrad", 40, policies[(i + 1) % 3], NULL);
		if (ckpt_open(path, &r, &e))
			abort();
		y.cfg.restore = r;
		ok(!shard_new(&y.cfg, &s, &e) &&
		        shard_install(s, &y.layout, NULL, &e) == ERR_CONFIG &&
		        strstr(e.msg, "has another shape"),
		    "%s from one of %s: %s", policies[(i + 1) % 3], policies[i], e.msg);
		shard_free(s);
		ckpt_close(r);
		store_close(&x);
		store_close(&y);
		free(path);
	}
	ok(size[2] < size[1] && size[1] < size[0],
	    "narrow rows are small in a checkpoint: %d, %d and %d bytes", (int)size[0],
	    (int)size[1], (int)size[2]);
}

int main(void)
{
	static const struct kind kinds[] = { { "asp", "sgd", "widen=1@3", 5, false, NULL },
		{ "asp", "adagrad", "widen=1@3", 9, true, NULL },
		{ "bsp", "adam", "widen=2@4", 9, false, NULL },
		{ "bsp", "momentum", "widen=18@2", 40, false, NULL },
		{ "ssp:2", "adagrad", "widen=3@1", 20, false, NULL },
		{ "bsp", "adagrad", "widen=20@2", 24, true, NULL },
		{ "asp", "sgd", "widen=5@3", 5, false, NULL },
		{ "asp", "sgd", "widen=2@3", 6, false, "adam" },
		{ "bsp", "adam", "widen=1@5,changes", 6, false, "adagrad" } };

	if (!mkdtemp(dir))
		abort();
	rng_init(&rng, 5);
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
		follows(&kinds[i]);
	twice();
	again("asp");
	again("bsp");
	memory();
	saved("asp", "adagrad", "widen=1@3,changes");
	saved("bsp", "adam", "widen=2@4,expire=100,admit=2");
	saved("asp", "sgd", "widen=1@2");
	another();
	file_remove_tree(dir, NULL);
	return tap_done();
}

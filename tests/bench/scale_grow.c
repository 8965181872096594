/* SPDX-License-Identifier: ISC */
/* What tables cost as they grow in size and number: makes so many dense tables of so many bytes
 * in a cluster without a job, then pushes to all of them, until every receipt is there, and pulls
 * all, again and again.
 *
 * usage: scale_grow RUN_DIR TABLES BYTES ITERS [TRANSPORT]
 *
 * Prints one JSON object: seconds to make them, and of the pushes and pulls the median. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/clock.h"
#include "core/json.h"
#include "core/mem.h"
#include "core/num.h"
#include "tool/tool.h"

#define PATIENCE (120 * NSEC_PER_SEC)
/* A request to the coordinator is one record. */
#define AT_ONCE 2000u

struct grow {
	struct admin_client tool;
	uint64_t n, bytes, iters;
	const struct table **table;
	float *g, *w; /* of all, one after the other */
	uint64_t step;
};

static void die(const char *what, const struct err *e)
{
	fprintf(stderr, "scale_grow: %s: %s\n", what, e->msg);
	exit(1);
}

static void name_of(const struct grow *x, uint64_t i, char out[static TABLE_NAME])
{
	snprintf(out, TABLE_NAME, "grow-%llu-%llu", (unsigned long long)x->bytes,
	    (unsigned long long)i);
}

static int64_t make_some(struct grow *x, uint64_t from, uint64_t end)
{
	struct table t = { .rows = x->bytes / 4, .cols = 1 };
	json_t *list = json_array(), *msg, *answer;
	int64_t rev;
	struct err e;

	for (uint64_t i = from; i < end; i++) {
		name_of(x, i, t.name);
		json_array_append_new(list, table_to_json(&t));
	}
	msg = json_pack("{s:s, s:o}", "op", "table", "tables", list);
	if (agent_call(cluster_view_agent(x->tool.cluster), msg, PATIENCE, &answer, &e))
		die("tables", &e);
	rev = json_int(answer, "rev", 0);
	json_decref(answer);
	json_decref(msg);
	return rev;
}

static bool has_rev(void *ctx, const struct view *view)
{
	return view && view->rev >= *(int64_t *)ctx;
}

static void make(struct grow *x)
{
	int64_t rev = 0;
	const struct view *view;
	struct err e;
	char name[TABLE_NAME];

	for (uint64_t i = 0; i < x->n; i += AT_ONCE)
		rev = make_some(x, i, i + AT_ONCE < x->n ? i + AT_ONCE : x->n);
	if (cluster_view_await(x->tool.cluster, has_rev, &rev, PATIENCE, &view, &e) ||
	    client_apply_view(x->tool.client, view, &e))
		die("the view", &e);
	view_release(view);
	for (uint64_t i = 0; i < x->n; i++) {
		name_of(x, i, name);
		if (tool_table(&x->tool, name, &x->table[i], &e))
			die(name, &e);
	}
}

static void push(struct grow *x)
{
	struct err e;

	for (uint64_t i = 0; i < x->n; i++)
		if (client_push(x->tool.client, x->table[i], x->step, 1, x->g + i * (x->bytes / 4),
		        &e))
			die("push", &e);
	x->step++;
	if (client_wait_receipts(x->tool.client, &e))
		die("push", &e);
}

static void pull(struct grow *x)
{
	struct err e;

	for (uint64_t i = 0; i < x->n; i++)
		if (client_want(x->tool.client, x->table[i], CLIENT_NOW, NULL,
		        x->w + i * (x->bytes / 4), &e))
			die("pull", &e);
	if (client_wait(x->tool.client, CLIENT_NOW, &e))
		die("pull", &e);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Once more than is counted: the first touches memory that nobody has touched. */
static double median(struct grow *x, void (*fn)(struct grow *))
{
	double *took = mem_array(x->iters, sizeof *took), m;

	fn(x);
	for (uint64_t i = 0; i < x->iters; i++) {
		int64_t begin = clock_now();

		fn(x);
		took[i] = (double)(clock_now() - begin) / NSEC_PER_SEC;
	}
	qsort(took, x->iters, sizeof *took, by_value);
	m = took[x->iters / 2];
	free(took);
	return m;
}

int main(int argc, char **argv)
{
	struct grow x = { 0 };
	struct identity id;
	struct log log;
	struct err e;
	double made, pushed, pulled;
	int64_t begin;

	if (argc < 5 || argc > 6 || !num_uint(argv[2], 60000, &x.n) || !x.n ||
	    !num_size(argv[3], &x.bytes) || x.bytes < 4 || !num_uint(argv[4], 1000000, &x.iters) ||
	    !x.iters) {
		fputs("usage: scale_grow RUN_DIR TABLES BYTES ITERS [tcp|unix|shm]\n", stderr);
		return 2;
	}
	x.bytes = x.bytes / 4 * 4;
	signal(SIGPIPE, SIG_IGN);
	log_init(&log, "grow", 2, LOG_LEVEL_WARN);
	if (key_init(&e) || identity_from_run(argv[1], "admin", &id, &e) ||
	    tool_open(&id, argc > 5 ? argv[5] : "tcp", PATIENCE, NULL, &log, &x.tool, &e))
		die(argv[1], &e);
	x.table = mem_array(x.n, sizeof *x.table);
	x.g = mem_try_array(x.n * (x.bytes / 4), sizeof *x.g);
	x.w = mem_try_array(x.n * (x.bytes / 4), sizeof *x.w);
	if (!x.g || !x.w)
		die("memory", &(struct err){ .msg = "there is not enough" });
	begin = clock_now();
	make(&x);
	made = (double)(clock_now() - begin) / NSEC_PER_SEC;
	pushed = median(&x, push);
	pulled = median(&x, pull);
	printf(
	    "{\"tables\":%llu,\"bytes\":%llu,\"make_seconds\":%.6g,\"push_seconds\":%.6g,\"pull_seconds\":%.6g}\n",
	    (unsigned long long)x.n, (unsigned long long)x.bytes, made, pushed, pulled);
	tool_close(&x.tool);
	identity_release(&id);
	free(x.table);
	free(x.g);
	free(x.w);
	return 0;
}

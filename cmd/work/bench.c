/* SPDX-License-Identifier: ISC */
#include <signal.h>
#include <stddef.h>
#include <unistd.h>

#include "allreduce/ring.h"
#include "cmd/work/cmd.h"
#include "cmd/work/common.h"
#include "core/clock.h"
#include "core/file.h"
#include "core/json.h"
#include "core/launch.h"
#include "core/mem.h"
#include "core/num.h"
#include "rundir/prepare.h"
#include "rundir/rundir.h"
#include "tool/bench.h"

/* The command bench: measures pushes, pulls and all-reduce. */

struct options {
	struct where where;
	const char *op, *transport, *suite, *codec, *row_ids;
	uint64_t bytes;
	int64_t iters, sparse, width, procs, spin;
	bool json;
};

static const struct opt opts[] = {
	WHERE_OPTS(struct options),
	{ "op", 0, OPT_CHOICE, offsetof(struct options, op), "OP", "what to measure (push)",
	    "push|pull|pushpull|allreduce", 0, 0 },
	{ "bytes", 0, OPT_SIZE, offsetof(struct options, bytes), "SIZE",
	    "size of the dense table (4M)", NULL, 4, 0x1p36 },
	{ "iters", 0, OPT_INT, offsetof(struct options, iters), "N", "repetitions (50)", NULL, 1,
	    10000000 },
	{ "transport", 0, OPT_CHOICE, offsetof(struct options, transport), "T",
	    "kind of connection (tcp)", "tcp|unix|shm", 0, 0 },
	{ "suite", 0, OPT_CHOICE, offsetof(struct options, suite), "S",
	    "cipher suite of the connections, without a cluster (poly1305)",
	    "poly1305|chacha20poly1305|aes256gcm", 0, 0 },
	{ "spin", 0, OPT_DURATION, offsetof(struct options, spin), "T",
	    "both ends poll this long before they sleep, without a cluster (0)", NULL, 0, 1e7 },
	{ "sparse", 0, OPT_INT, offsetof(struct options, sparse), "ROWS",
	    "use a sparse table, with this number of random rows in each operation", NULL, 1,
	    100000000 },
	{ "width", 0, OPT_INT, offsetof(struct options, width), "W",
	    "floats in a row of a sparse table (1)", NULL, 1, 65536 },
	{ "row-ids", 0, OPT_CHOICE, offsetof(struct options, row_ids), "HOW",
	    "encoding of row ids (raw)", "raw|packed|cached", 0, 0 },
	{ "codec", 0, OPT_STR, offsetof(struct options, codec), "CODEC", "encoding of pushes (raw)",
	    NULL, 0, 0 },
	{ "procs", 0, OPT_INT, offsetof(struct options, procs), "N",
	    "number of processes of allreduce (2)", NULL, 1, RING_MEMBERS_MAX },
	{ "json", 0, OPT_FLAG, offsetof(struct options, json), NULL, "print one JSON object", NULL,
	    0, 0 },
};

static const struct opt_spec spec = {
	.prog = "ps-work bench",
	.about =
	    "Measure pushes, pulls and all-reduce. Each operation is complete before the next one begins.",
	.more =
	    "Without a cluster (-C, --join or PS_CLUSTER) it starts a temporary server process.\n"
	    "allreduce needs no server: it starts the processes that take part in it.",
	.examples = "  ps-work bench --op push --bytes 4M --transport tcp --suite poly1305 --json\n"
	            "  ps-work bench --op pull --sparse 100000 --width 16\n"
	            "  ps-work bench --op allreduce --bytes 4M --procs 2 --transport unix\n",
	.opts = opts,
	.nopts = sizeof opts / sizeof *opts,
};

/* Not in $TMPDIR, because the paths of Unix sockets are short. */
#define PATTERN "/tmp/ps-bench-XXXXXX"

/* A server process of our own in a temporary directory; it ends with this process. */
struct own {
	char *dir, *run;
	int lock;
	struct launch_set *set;
};

/* Prepare a run directory in /tmp and start the server. own_stop() must follow even a failure. */
static enum err_code own_start(struct own *x, const struct options *o, struct err *e)
{
	struct launch_spec ls = { .id = "server-0", .die_with_parent = true };
	char *self = path_self_dir(e), *prog, *log;
	struct conf conf;
	char suite[64], spin[64];
	size_t child;
	enum err_code rc;

	if (!self)
		return ERR_IO;
	rc = file_make_unique_dir(mem_strdup(PATTERN), &x->dir, e);
	if (rc) {
		free(self);
		return rc;
	}
	x->run = rundir_path(x->dir, "bench.run");
	conf_init(&conf);
	snprintf(suite, sizeof suite, "suite=%s", o->suite);
	snprintf(spin, sizeof spin, "spin=%.9fs", (double)o->spin / (double)NSEC_PER_SEC);
	rc = conf_set(&conf, suite, e);
	if (!rc)
		rc = conf_set(&conf, spin, e);
	if (!rc)
		rc = conf_set(&conf, "sync=asp", e);
	if (!rc)
		rc = conf_set(&conf, "row_ids=packed", e);
	if (!rc)
		rc = rundir_prepare(&conf, x->run, &x->lock, e);
	conf_release(&conf);
	prog = path_join(self, "ps-serve");
	log = rundir_path(x->run, "server-0.log");
	ls.argv = (char *const[]){ prog, "-C", x->run, "--name", "server-0", "--coordinator",
		NULL };
	ls.log_path = log;
	if (!rc)
		rc = launch_new(x->run, &x->set, e);
	if (!rc)
		rc = launch_start(x->set, &ls, &child, e);
	free(prog);
	free(log);
	free(self);
	return rc;
}

static void own_stop(struct own *x)
{
	if (x->set) {
		launch_stop_all(x->set, 2 * NSEC_PER_SEC);
		launch_free(x->set);
	}
	if (x->dir)
		file_remove_tree(x->dir, NULL);
	free(x->dir);
	free(x->run);
}

/* pushpull moves the bytes twice in an iteration, so rates count them twice. Times are seconds in
 * JSON and microseconds in the line for people. */
static void print_result(const struct options *o, const struct bench_config *b)
{
	double each = b->result.seconds / (double)b->iters;
	uint64_t bytes = b->rows ? b->rows * b->width * 4 : b->bytes;
	int ways = strcmp(b->op, "pushpull") == 0 ? 2 : 1;
	char size[16], rate[16];
	json_t *r;
	char *text;

	if (!o->json) {
		num_human((double)bytes, size);
		num_human((double)bytes * ways / each, rate);
		printf("%s of %sB over %s, %lld time%s: %sB/s, p50 %.1f us, p99 %.1f us", b->op,
		    size, o->transport, (long long)b->iters, NUM_S(b->iters), rate,
		    b->result.p50 * 1e6, b->result.p99 * 1e6);
		if (b->rows)
			printf(", %.3g rows/s", (double)b->rows * ways / each);
		putchar('\n');
		return;
	}
	r = json_event("bench");
	json_object_set_new(r, "op", json_string(b->op));
	json_object_set_new(r, "transport", json_string(o->transport));
	json_object_set_new(r, "suite", json_string(o->suite));
	json_object_set_new(r, "bytes", json_integer((json_int_t)bytes));
	json_object_set_new(r, "iters", json_integer(b->iters));
	if (b->procs)
		json_object_set_new(r, "procs", json_integer(b->procs));
	json_object_set_new(r, "bytes_per_second", json_real((double)bytes * ways / each));
	if (b->rows)
		json_object_set_new(r, "rows_per_second", json_real((double)b->rows * ways / each));
	json_object_set_new(r, "p50_seconds", json_real(b->result.p50));
	json_object_set_new(r, "p99_seconds", json_real(b->result.p99));
	if (!b->procs) {
		json_object_set_new(r, "pushed_bytes", json_real(b->result.pushed));
		json_object_set_new(r, "pulled_bytes", json_real(b->result.pulled));
	}
	text = json_text(r);
	puts(text);
	free(text);
	json_decref(r);
}

/* Measure allreduce, which has no cluster: all its processes are started here. */
static int bench_members(const struct options *o)
{
	struct bench_config b = { .op = o->op,
		.bytes = o->bytes / 4 * 4,
		.iters = o->iters,
		.procs = o->procs,
		.transport = o->transport };
	char *dir = NULL;
	struct err e = { 0 };
	enum err_code rc;

	suite_parse(o->suite, &b.suite);
	if (o->where.run_dir || o->where.join || o->sparse || strcmp(o->codec, "raw") != 0)
		rc = err_set(&e, ERR_USAGE,
		    "--op allreduce starts its own processes and uses float32 vectors: omit -C, --join, --sparse "
		    "and --codec");
	else
		rc = file_make_unique_dir(mem_strdup(PATTERN), &dir, &e);
	if (!rc)
		rc = bench_ring(dir, &b, &e);
	if (dir)
		file_remove_tree(dir, NULL);
	free(dir);
	if (rc)
		return fail(spec.prog, &e);
	print_result(o, &b);
	return 0;
}

/* Without a cluster named by options or environment it starts one of its own, and stops it on every
 * path. The size is rounded down to whole floats. */
int cmd_bench(int argc, char **argv)
{
	struct options o = { .op = "push",
		.transport = "tcp",
		.suite = "poly1305",
		.bytes = 4 << 20,
		.iters = 50,
		.width = 1,
		.codec = "raw",
		.row_ids = "raw",
		.procs = 2 };
	struct client_coding coding = { 0 };
	struct bench_config b;
	struct identity id;
	struct own own = { 0 };
	struct err e = { 0 };
	struct admin_client tool;
	struct log log;
	int nargs, code = where_parse(&spec, &o, argc, argv, &nargs);
	enum err_code rc = ERR_OK;

	if (code)
		return code - 1;
	if (strcmp(o.op, "allreduce") == 0)
		return bench_members(&o);
	coding.ids = client_ids_by_name(o.row_ids);
	if (codec_parse(o.codec, &coding.codec, &e))
		return fail(spec.prog, &e);
	log_init(&log, "bench", 2, (enum log_level)where_log_level(&o.where, LOG_LEVEL_WARN));
	if (!o.where.run_dir && !o.where.join && !getenv("PS_CLUSTER")) {
		rc = own_start(&own, &o, &e);
		o.where.run_dir = own.run;
	}
	if (!rc)
		rc = where_connect(&o.where, o.transport, &log, &id, &tool, &e);
	if (rc) {
		own_stop(&own);
		return fail(spec.prog, &e);
	}
	b = (struct bench_config){ .op = o.op,
		.bytes = o.bytes / 4 * 4,
		.rows = (uint64_t)o.sparse,
		.width = (uint64_t)o.width,
		.iters = o.iters,
		.coding = coding };
	rc = bench(&tool, &b, &e);
	tool_close(&tool);
	identity_release(&id);
	own_stop(&own);
	if (rc)
		return fail(spec.prog, &e);
	print_result(&o, &b);
	return 0;
}

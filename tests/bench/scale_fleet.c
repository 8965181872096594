/* SPDX-License-Identifier: ISC */
/* Many workers in one process: each joins the job, has sessions of its own with the coordinator
 * and with every server, sends heartbeats, and takes steps that consist of a pull, a push and a
 * CLOCK of one dense table, as fast as it is answered.  What a worker computes is left out; its
 * pulls end in the session's staging, and the pushes of all come from one place.  A few threads serve all.
 *
 * usage: scale_fleet RUN_DIR WORKERS BYTES SECONDS [THREADS [TRANSPORT]]
 *
 * Prints one JSON object: what all have got through in a second (gradients that have their
 * receipts and parameters that have come), steps a second, and how the least of the workers
 * fared against the mean. */
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/json.h"
#include "core/mem.h"
#include "core/num.h"
#include "fleet/fleet.h"

#define PATIENCE (60 * NSEC_PER_SEC)

static bool running(void *ctx, const struct view *view)
{
	struct err e;

	(void)ctx;
	if (view && cluster_view_is_over(view, &e))
		fleet_die("the job", &e);
	return view_phase_is(view, PHASE_RUNNING);
}

static void take_server(struct fleet *f, unsigned i, const struct view_server *server)
{
	struct server *s = &f->server[i];
	bool tcp = strcmp(f->transport, "tcp") == 0;

	snprintf(s->address, sizeof s->address, "%s%s",
	    tcp ? "" : "unix:", tcp ? server->tcp : server->unix_path);
	if (!key_from_text(server->key, s->key))
		fleet_die("the view", &(struct err){ .msg = "a server without a key" });
	s->part = mem_array(f->table->nparts, sizeof *s->part);
	for (uint32_t p = 0; p < f->table->nparts; p++)
		if (table_head(f->table, p) == i) {
			s->part[s->nparts++] = p;
			payload_put_part(&s->runs, f->table->id, p, false);
		}
}

static void take_layout(struct fleet *f)
{
	const struct view *view;
	struct err e;

	if (cluster_view_await(f->tool.cluster, running, NULL, PATIENCE, &view, &e) ||
	    client_apply_view(f->tool.client, view, &e) ||
	    tool_table(&f->tool, FLEET_TABLE, &f->table, &e))
		fleet_die("the cluster", &e);
	f->nservers = (unsigned)view->nservers;
	f->server = mem_array(f->nservers, sizeof *f->server);
	for (unsigned i = 0; i < f->nservers; i++)
		take_server(f, i, &view->servers[i]);
	f->epoch = client_layout(f->tool.client)->epoch;
	f->generation = client_layout(f->tool.client)->generation;
	view_release(view);
}

static bool first_view(void *ctx, const struct view *view)
{
	(void)ctx;
	return view != NULL;
}

/* As tool_open, but before the partitions are dealt out. */
static void watch(struct fleet *f, struct log *log)
{
	struct cluster_view_config cc = { .id = &f->admin,
		.role = ROLE_ADMIN,
		.heartbeat = NSEC_PER_SEC,
		.deadline = PATIENCE,
		.log = log };
	struct client_config cl = { .id = &f->admin,
		.rank = CLIENT_NO_RANK,
		.transport = transport_find("unix"),
		.deadline = PATIENCE,
		.log = log,
		.attend_fd = -1 };
	const struct view *view;
	struct err e;

	randombytes_buf(&cc.incarnation, sizeof cc.incarnation);
	cl.incarnation = cc.incarnation;
	if (cluster_view_open(&cc, &f->tool.cluster, &e) ||
	    cluster_view_await(f->tool.cluster, first_view, NULL, PATIENCE, &view, &e) ||
	    client_new(&cl, &f->tool.client, &e))
		fleet_die("the cluster", &e);
	view_release(view);
}

static void *run(void *ctx)
{
	loop_run(((struct thread *)ctx)->loop);
	return NULL;
}

static void start_threads(struct fleet *f)
{
	struct err e;

	f->worker = mem_array(f->n, sizeof *f->worker);
	f->thread = mem_array(f->nthreads, sizeof *f->thread);
	for (uint32_t i = 0, t = 0; t < f->nthreads; t++) {
		struct thread *th = &f->thread[t];

		*th = (struct thread){ .fleet = f,
			.worker = f->worker + i,
			.n = (f->n - i) / (f->nthreads - t) };
		for (uint32_t k = 0; k < th->n; k++, i++) {
			f->worker[i].fleet = f;
			f->worker[i].thread = th;
			f->worker[i].rank = i;
			randombytes_buf(&f->worker[i].incarnation, 8);
			f->worker[i].incarnation >>= 1;
		}
		if (loop_new(&th->loop, &e))
			fleet_die("threads", &e);
		loop_tick(th->loop, FLEET_TICK, fleet_beat, th);
		loop_post(th->loop, fleet_enlist, th);
		if (pthread_create(&th->id, NULL, run, th))
			fleet_die("threads", &(struct err){ .msg = "cannot be started" });
	}
}

static void await_all(const struct fleet *f, const _Atomic uint32_t *count, const char *what)
{
	for (int64_t end = clock_now() + PATIENCE; atomic_load(count) < f->n; usleep(2000))
		if (clock_now() > end)
			fleet_die(what,
			    &(struct err){ .msg = "not all workers came so far within 60 s" });
}

struct sample {
	int64_t at;
	uint64_t steps, *bytes;
};

static struct sample look(struct fleet *f)
{
	struct sample s = { .bytes = mem_array(f->n, sizeof *s.bytes) };

	for (uint32_t i = 0; i < f->n; i++) {
		s.bytes[i] = atomic_load(&f->worker[i].bytes);
		s.steps += atomic_load(&f->worker[i].steps);
	}
	s.at = clock_now();
	return s;
}

static void report(const struct fleet *f, const struct sample *a, const struct sample *b,
    double join_seconds)
{
	double seconds = (double)(b->at - a->at) / NSEC_PER_SEC, all = 0, least = 1e300, most = 0;

	for (uint32_t i = 0; i < f->n; i++) {
		double bytes = (double)(b->bytes[i] - a->bytes[i]);

		all += bytes;
		least = bytes < least ? bytes : least;
		most = bytes > most ? bytes : most;
	}
	printf(
	    "{\"workers\":%u,\"servers\":%u,\"bytes\":%llu,\"seconds\":%.3f,\"join_seconds\":%.3f,\"bytes_per_second\":%.6g,"
	    "\"steps_per_second\":%.6g,\"least_share\":%.4f,\"most_share\":%.4f}\n",
	    f->n, f->nservers, (unsigned long long)f->bytes, seconds, join_seconds, all / seconds,
	    (double)(b->steps - a->steps) / seconds, least / (all / f->n), most / (all / f->n));
	fflush(stdout);
}

int main(int argc, char **argv)
{
	struct fleet f = { .nthreads = 2, .transport = "tcp" };
	struct sample before, after;
	uint64_t n, seconds, threads = 2;
	int64_t from = clock_now();
	struct log log;
	struct err e;

	if (argc < 5 || argc > 7 || !num_uint(argv[2], 4096, &n) || !n ||
	    !num_size(argv[3], &f.bytes) || f.bytes < 4 || !num_uint(argv[4], 3600, &seconds) ||
	    (argc > 5 && (!num_uint(argv[5], 64, &threads) || !threads))) {
		fputs("usage: scale_fleet RUN_DIR WORKERS BYTES SECONDS [THREADS [tcp|unix|shm]]\n",
		    stderr);
		return 2;
	}
	f.n = (uint32_t)n;
	f.nthreads = (unsigned)(threads < n ? threads : n);
	if (argc > 6)
		f.transport = argv[6];
	signal(SIGPIPE, SIG_IGN);
	log_init(&log, "fleet", 2, LOG_LEVEL_WARN);
	if (key_init(&e) || identity_from_run(argv[1], "admin", &f.admin, &e) ||
	    identity_from_run(argv[1], "worker-0", &f.id, &e))
		fleet_die(argv[1], &e);
	watch(&f, &log);
	f.gradient = mem_try_array(f.bytes / 4, sizeof *f.gradient);
	for (uint64_t i = 0; i < f.bytes / 4; i++)
		f.gradient[i] = (float)(i % 97) * 1e-9f;
	start_threads(&f);
	await_all(&f, &f.joined, "joining");
	take_layout(&f);
	for (unsigned t = 0; t < f.nthreads; t++)
		loop_post(f.thread[t].loop, fleet_begin, &f.thread[t]);
	await_all(&f, &f.begun, "the first step");
	from = clock_now() - from;
	usleep(300000);
	before = look(&f);
	sleep((unsigned)seconds);
	after = look(&f);
	report(&f, &before, &after, (double)from / NSEC_PER_SEC);
	/* The sessions end with the process; their servers do not live on, either. */
	_Exit(0);
}

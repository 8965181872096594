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
#include <pthread.h>
#include <signal.h>
#include <sodium.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/num.h"
#include "wire/loop.h"
#include "wire/msg.h"
#include "work/tool.h"

#define TABLE "fleet"
#define EXAMPLES 1000000
#define BEAT (200 * NSEC_PER_MSEC)
#define TICK (20 * NSEC_PER_MSEC)
#define UNDER_WAY 64            /* a listener's queue is not endless */
#define PATIENCE (60 * NSEC_PER_SEC)
#define SERVERS_MAX 64

struct fleet;

/* A session of a worker: with the coordinator (server -1), or with a server. */
struct line {
	struct worker *worker;
	int server;
	struct conn *conn;
	struct loop_fd h;
	struct batcher batcher;
};

struct worker {
	struct fleet *fleet;
	struct thread *thread;
	uint32_t slot;
	uint64_t incarnation, step;
	int64_t next_beat;
	struct line control, *data;     /* data: to each server */
	unsigned live;                  /* of data */
	uint32_t left;                  /* answers and receipts that this step still wants */
	_Atomic uint64_t bytes, steps;
};

struct thread {
	pthread_t id;
	struct loop *loop;
	struct fleet *fleet;
	struct worker *worker;          /* those from here on.. */
	uint32_t n;                     /* ..so many */
	uint32_t dialled, under_way;    /* of these those that have been; sessions that are not up yet */
	bool data;                      /* to the servers; else to the coordinator */
};

/* What a server holds of the table, and where it is. */
struct server {
	char address[NET_TEXT + 8];
	uint8_t key[32];
	struct buf runs;
	uint32_t *part, nparts;
};

struct fleet {
	struct tool tool;
	struct identity admin, id;      /* id: the workers' */
	const struct table *table;
	struct server *server;
	unsigned nservers, nthreads;
	uint32_t epoch, generation;
	uint64_t bytes;
	const char *transport;
	float *gradient;
	struct thread *thread;
	struct worker *worker;
	uint32_t n;
	_Atomic uint32_t joined, begun; /* workers that have a slot; that have taken a step */
};

static void die(const char *what, const struct err *e)
{
	fprintf(stderr, "scale_fleet: %s: %s\n", what, e->msg);
	_Exit(1);
}

static void dial_on(struct thread *t);

static void settle(struct line *l)
{
	struct err e;
	uint32_t events;

	if (conn_is_live(l->conn))
		batcher_flush(&l->batcher, l->conn);
	if (conn_write(l->conn, &e))
		die("a session", &e);
	events = (uint32_t)conn_events(l->conn);
	loop_mod(l->worker->thread->loop, &l->h, events);
}

/* ---- a step ---------------------------------------------------------------------------------- */

static struct record head(const struct worker *w, enum msg_type type)
{
	return (struct record){ .type = (uint8_t)type, .step = w->step, .epoch = w->fleet->epoch,
		.generation = w->fleet->generation, .table = w->fleet->table->id };
}

static void ask(struct line *l)
{
	const struct server *s = &l->worker->fleet->server[l->server];
	struct record r = head(l->worker, REC_PULL);

	r.len = (uint32_t)s->runs.len;
	r.seq = l->worker->step + 1;
	batcher_add(&l->batcher, l->conn, &r, s->runs.data);
	l->worker->left += s->nparts;
}

static void push(struct line *l)
{
	const struct fleet *f = l->worker->fleet;
	const struct server *s = &f->server[l->server];
	struct record r = head(l->worker, REC_PUSH), clock = head(l->worker, REC_CLOCK);

	r.examples = clock.examples = 1;
	for (uint32_t i = 0; i < s->nparts; i++) {
		const float *g = f->gradient + table_part_begin(s->part[i]);

		r.part = s->part[i];
		r.len = table_part_elements(f->table, r.part) * 4;
		if (r.len > BATCHER_SMALL) {
			batcher_flush(&l->batcher, l->conn);
			conn_lend(l->conn, &r, g);
		} else {
			batcher_add(&l->batcher, l->conn, &r, g);
		}
	}
	clock.table = 0;
	clock.len = (uint32_t)s->runs.len;
	batcher_add(&l->batcher, l->conn, &clock, s->runs.data);
	l->worker->left += s->nparts;
}

/* All that it wanted has come: what was pulled is pushed against, and the next is asked for.
 * The first step only pulls. */
static void next_step(struct worker *w)
{
	if (w->step == 0 && !atomic_load(&w->steps))
		atomic_fetch_add(&w->fleet->begun, 1);
	for (unsigned i = 0; i < w->fleet->nservers; i++)
		push(&w->data[i]);
	w->step++;
	for (unsigned i = 0; i < w->fleet->nservers; i++) {
		ask(&w->data[i]);
		settle(&w->data[i]);
	}
	atomic_fetch_add_explicit(&w->steps, 1, memory_order_relaxed);
}

static void have(struct worker *w, uint32_t n, uint64_t bytes)
{
	atomic_fetch_add_explicit(&w->bytes, bytes, memory_order_relaxed);
	w->left -= n;
	if (!w->left)
		next_step(w);
}

static enum conn_verdict one_record(struct line *l, const struct record *r, const uint8_t *payload)
{
	struct worker *w = l->worker;
	struct msg_receipt m;
	uint64_t bytes = 0;
	uint32_t n = 0;
	struct err e;

	switch (r->type) {
	case REC_PULLED:
		have(w, 1, r->len);
		return CONN_TAKEN;
	case REC_RECEIPT:
		for (; msg_get_receipt(payload, r->len, n, &m); n++) {
			if (m.status > 2)
				die("a push", &(struct err){ .msg = "was not taken" });
			bytes += table_part_elements(w->fleet->table, m.part) * 4;
		}
		have(w, n, bytes);
		return CONN_TAKEN;
	case REC_NACK:
		msg_get_nack(payload, r->len, &e);
		die("refused", &e);
		return CONN_DROP;
	default:
		return CONN_TAKEN;
	}
}

static enum conn_verdict on_record(void *ctx, const struct record *r, uint8_t *payload)
{
	const uint8_t *body;
	struct record sub;
	struct err e = { 0 };
	size_t at = 0;

	if (r->type != REC_BATCH)
		return one_record(ctx, r, payload);
	while (msg_batch_next(payload, r->len, &at, &sub, &body, &e))
		one_record(ctx, &sub, body);
	if (e.code)
		die("a batch", &e);
	return CONN_TAKEN;
}

static void on_live(void *ctx, const struct hs_server_info *server)
{
	struct line *l = ctx;
	struct err e;

	if (strcmp(l->worker->fleet->transport, "shm") == 0 && server->shares && conn_share(l->conn, &e))
		die("shared memory", &e);
	l->worker->thread->under_way--;
	dial_on(l->worker->thread);
	if (++l->worker->live < l->worker->fleet->nservers)
		return;
	for (unsigned i = 0; i < l->worker->live; i++)
		ask(&l->worker->data[i]);
	for (unsigned i = 0; i < l->worker->live; i++)
		settle(&l->worker->data[i]);
}

static const struct conn_handler data_handler = { .live = on_live, .record = on_record };

/* ---- the coordinator ------------------------------------------------------------------------- */

static json_t *shape(const struct fleet *f)
{
	struct table t = { .rows = f->bytes / 4, .cols = 1 };

	snprintf(t.name, sizeof t.name, TABLE);
	return table_to_json(&t);
}

static void join(void *ctx, const struct hs_server_info *server)
{
	struct line *l = ctx;
	struct record r = { .seq = 1 };
	json_t *msg = json_pack("{s:s, s:s, s:b, s:i, s:i, s:s, s:I, s:[o]}", "op", "worker_join", "zone", "", "evaluates", 0, "slot",
	    (int)l->worker->slot, "pid", (int)getpid(), "host", "here", "examples", (json_int_t)EXAMPLES, "tables",
	    shape(l->worker->fleet));
	char *text = json_text(msg);

	(void)server;
	l->worker->thread->under_way--;
	dial_on(l->worker->thread);
	msg_send_text(l->conn, &r, text);
	free(text);
	json_decref(msg);
}

/* Views are for who must know of changes: here there are none. */
static enum conn_verdict on_control(void *ctx, const struct record *r, uint8_t *payload)
{
	struct line *l = ctx;

	if (r->type == REC_CTL && r->flags & RECORD_REPLY && r->seq == 1) {
		if (memmem(payload, r->len, "\"error\"", 7))
			die("join", &(struct err){ .msg = "the coordinator says no" });
		l->worker->next_beat = clock_now() + (int64_t)(l->worker->slot % 100) * BEAT / 100;
		atomic_fetch_add(&l->worker->fleet->joined, 1);
	}
	return CONN_TAKEN;
}

static const struct conn_handler control_handler = { .live = join, .record = on_control };

static void beat(void *ctx)
{
	struct thread *t = ctx;
	int64_t now = clock_now();
	struct record r = { 0 };
	char text[80];

	for (struct worker *w = t->worker; w < t->worker + t->n; w++) {
		if (!w->next_beat || now < w->next_beat)
			continue;
		w->next_beat = now + BEAT;
		snprintf(text, sizeof text, "{\"op\":\"beat\",\"stats\":{\"step\":%llu}}", (unsigned long long)w->step);
		msg_send_text(w->control.conn, &r, text);
		settle(&w->control);
	}
}

/* ---- lines ------------------------------------------------------------------------------------ */

static void on_event(void *ctx, uint32_t events)
{
	struct line *l = ctx;
	struct err e = { 0 };
	enum err_code rc = ERR_OK;

	if (events & EPOLLOUT)
		rc = conn_write(l->conn, &e);
	if (!rc && (events & (EPOLLIN | EPOLLHUP | EPOLLERR) || conn_ready(l->conn)))
		rc = conn_read(l->conn, &e);
	if (rc)
		die("a session", &e);
	settle(l);
}

static void dial(struct line *l, struct worker *w, int server)
{
	struct fleet *f = w->fleet;
	struct hs_client_info info = { .incarnation = w->incarnation, .slot = server < 0 ? UINT32_MAX : w->slot, .role = ROLE_WORKER };
	const char *to = server < 0 ? f->id.local : f->server[server].address;
	struct err e;
	int fd;

	*l = (struct line){ .worker = w, .server = server };
	memcpy(info.cluster, f->id.conn.cluster, sizeof info.cluster);
	if (net_connect(to, &fd, &e))
		die(to, &e);
	l->conn = conn_dial(fd, &f->id.conn, server < 0 ? f->id.server_key : f->server[server].key, &info,
	    server < 0 ? &control_handler : &data_handler, l);
	l->h = (struct loop_fd){ .fd = fd, .fn = on_event, .ctx = l };
	if (loop_add(w->thread->loop, &l->h, EPOLLIN | EPOLLOUT, &e))
		die("a session", &e);
}

static void dial_worker(struct worker *w)
{
	if (!w->thread->data) {
		dial(&w->control, w, -1);
		return;
	}
	w->data = mem_array(w->fleet->nservers, sizeof *w->data);
	for (unsigned i = 0; i < w->fleet->nservers; i++)
		dial(&w->data[i], w, (int)i);
}

static void dial_on(struct thread *t)
{
	for (; t->dialled < t->n && t->under_way < UNDER_WAY; t->dialled++) {
		t->under_way += t->data ? t->fleet->nservers : 1;
		dial_worker(&t->worker[t->dialled]);
	}
}

static void enlist(void *ctx)
{
	dial_on(ctx);
}

static void begin(void *ctx)
{
	struct thread *t = ctx;

	t->data = true;
	t->dialled = 0;
	dial_on(t);
}

static void *run(void *ctx)
{
	loop_run(((struct thread *)ctx)->loop);
	return NULL;
}

/* ---- all together ------------------------------------------------------------------------------ */

static bool running(void *ctx, const json_t *view)
{
	struct err e;

	(void)ctx;
	if (view && view_over(view, &e))
		die("the job", &e);
	return strcmp(json_str(view, "phase", ""), "running") == 0;
}

static void take_server(struct fleet *f, unsigned i, const json_t *server)
{
	struct server *s = &f->server[i];
	bool tcp = strcmp(f->transport, "tcp") == 0;

	snprintf(s->address, sizeof s->address, "%s%s", tcp ? "" : "unix:", json_str(server, tcp ? "tcp" : "unix", ""));
	if (!key_from_text(json_str(server, "key", ""), s->key))
		die("the view", &(struct err){ .msg = "a server without a key" });
	s->part = mem_array(f->table->nparts, sizeof *s->part);
	for (uint32_t p = 0; p < f->table->nparts; p++)
		if (table_head(f->table, p) == i) {
			s->part[s->nparts++] = p;
			msg_put_part(&s->runs, f->table->id, p, false);
		}
}

static void take_layout(struct fleet *f)
{
	json_t *view;
	const json_t *servers;
	struct err e;

	if (cluster_await(f->tool.cluster, running, NULL, PATIENCE, -1, &view, &e) || client_view(f->tool.client, view, &e) ||
	    tool_table(&f->tool, TABLE, &f->table, &e))
		die("the cluster", &e);
	servers = json_object_get(view, "servers");
	f->nservers = (unsigned)json_array_size(servers);
	f->server = mem_array(f->nservers, sizeof *f->server);
	for (unsigned i = 0; i < f->nservers; i++)
		take_server(f, i, json_array_get(servers, i));
	f->epoch = client_layout(f->tool.client)->epoch;
	f->generation = client_layout(f->tool.client)->generation;
	json_decref(view);
}

static bool first_view(void *ctx, const json_t *view)
{
	(void)ctx;
	return view != NULL;
}

/* As tool_open, but before the partitions are dealt out. */
static void watch(struct fleet *f, struct log *log)
{
	struct cluster_config cc = { .id = &f->admin, .role = ROLE_ADMIN, .heartbeat = NSEC_PER_SEC, .deadline = PATIENCE, .log = log };
	struct client_config cl = { .id = &f->admin, .slot = CLIENT_NO_SLOT, .transport = "unix", .deadline = PATIENCE, .log = log,
		.cancel_fd = -1 };
	json_t *view;
	struct err e;

	randombytes_buf(&cc.incarnation, sizeof cc.incarnation);
	cl.incarnation = cc.incarnation;
	if (cluster_open(&cc, &f->tool.cluster, &e) || cluster_await(f->tool.cluster, first_view, NULL, PATIENCE, -1, &view, &e) ||
	    client_new(&cl, &f->tool.client, &e))
		die("the cluster", &e);
	json_decref(view);
}

static void start_threads(struct fleet *f)
{
	struct err e;

	f->worker = mem_array(f->n, sizeof *f->worker);
	f->thread = mem_array(f->nthreads, sizeof *f->thread);
	for (uint32_t i = 0, t = 0; t < f->nthreads; t++) {
		struct thread *th = &f->thread[t];

		*th = (struct thread){ .fleet = f, .worker = f->worker + i, .n = (f->n - i) / (f->nthreads - t) };
		for (uint32_t k = 0; k < th->n; k++, i++) {
			f->worker[i].fleet = f;
			f->worker[i].thread = th;
			f->worker[i].slot = i;
			randombytes_buf(&f->worker[i].incarnation, 8);
			f->worker[i].incarnation >>= 1;
		}
		if (loop_new(&th->loop, &e))
			die("threads", &e);
		loop_tick(th->loop, TICK, beat, th);
		loop_post(th->loop, enlist, th);
		if (pthread_create(&th->id, NULL, run, th))
			die("threads", &(struct err){ .msg = "cannot be started" });
	}
}

static void await_all(const struct fleet *f, const _Atomic uint32_t *count, const char *what)
{
	for (int64_t end = clock_now() + PATIENCE; atomic_load(count) < f->n; usleep(2000))
		if (clock_now() > end)
			die(what, &(struct err){ .msg = "not all workers came so far within 60 s" });
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

static void report(const struct fleet *f, const struct sample *a, const struct sample *b, double join_seconds)
{
	double seconds = (double)(b->at - a->at) / NSEC_PER_SEC, all = 0, least = 1e300, most = 0;

	for (uint32_t i = 0; i < f->n; i++) {
		double bytes = (double)(b->bytes[i] - a->bytes[i]);

		all += bytes;
		least = bytes < least ? bytes : least;
		most = bytes > most ? bytes : most;
	}
	printf("{\"workers\":%u,\"servers\":%u,\"bytes\":%llu,\"seconds\":%.3f,\"join_seconds\":%.3f,\"bytes_per_second\":%.6g,"
	    "\"steps_per_second\":%.6g,\"least_share\":%.4f,\"most_share\":%.4f}\n", f->n, f->nservers, (unsigned long long)f->bytes,
	    seconds, join_seconds, all / seconds, (double)(b->steps - a->steps) / seconds, least / (all / f->n), most / (all / f->n));
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

	if (argc < 5 || argc > 7 || !num_uint(argv[2], 4096, &n) || !n || !num_size(argv[3], &f.bytes) || f.bytes < 4 ||
	    !num_uint(argv[4], 3600, &seconds) || (argc > 5 && (!num_uint(argv[5], 64, &threads) || !threads))) {
		fputs("usage: scale_fleet RUN_DIR WORKERS BYTES SECONDS [THREADS [tcp|unix|shm]]\n", stderr);
		return 2;
	}
	f.n = (uint32_t)n;
	f.nthreads = (unsigned)(threads < n ? threads : n);
	if (argc > 6)
		f.transport = argv[6];
	signal(SIGPIPE, SIG_IGN);
	log_init(&log, "fleet", 2, LOG_LEVEL_WARN);
	if (key_init(&e) || identity_from_run(argv[1], "admin", &f.admin, &e) || identity_from_run(argv[1], "worker-0", &f.id, &e))
		die(argv[1], &e);
	watch(&f, &log);
	f.gradient = mem_try_array(f.bytes / 4, sizeof *f.gradient);
	for (uint64_t i = 0; i < f.bytes / 4; i++)
		f.gradient[i] = (float)(i % 97) * 1e-9f;
	start_threads(&f);
	await_all(&f, &f.joined, "joining");
	take_layout(&f);
	for (unsigned t = 0; t < f.nthreads; t++)
		loop_post(f.thread[t].loop, begin, &f.thread[t]);
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

/* SPDX-License-Identifier: ISC */
/* The first messages of a session with a coordinator: the answer to the join, then the view, then the
 * coordinator's messages, whatever has to wait. The coordinator is not a real one. */
#include <poll.h>
#include <unistd.h>

#include "control_fixture.h"

#include "core/mem.h"
#include "server/session_parse.h"
#include "session/agent.h"
#include "wire/dial.h"

/* One for all tests. */
static struct {
	struct server *server;
	_Atomic bool durable, joined;
	_Atomic uint64_t rev; /* of the view that a join makes */
	_Atomic bool grows;   /* another thread changes the state right after the join */
} coordinator;

static void show_view(uint64_t rev)
{
	json_t *view = json_pack("{s:s, s:I, s:{s:i}, s:[{s:s}]}", "op", "view", "rev",
	    (json_int_t)rev, "layout", "epoch", 1, "workers", "state", "joining");
	struct view_text *v = view_text_make(view, NULL);

	io_threads_show_view(coordinator.server, v);
	view_text_unref(v);
}

/* As the real one: the server's message is posted while the join is handled. */
static json_t *handle(struct coordinator *c, struct coord_self *self, const struct message *m,
    struct durable_point *due, struct err *e)
{
	(void)c, (void)e;
	*due = (struct durable_point){ .rev = coordinator.rev };
	/* A worker that the view shows already: nothing changes. */
	if (m->kind == MESSAGE_worker_join) {
		self->kind = COORD_WORKER;
		self->index = 0;
		return ANSWER(worker_join, .rank = 0);
	}
	if (m->kind != MESSAGE_server_join)
		return NULL;
	self->kind = COORD_SERVER;
	self->index = 0;
	due->state_rev = 1;
	show_view(coordinator.rev);
	io_threads_send_ctl(coordinator.server, "{\"op\":\"sure\",\"server\":5}", 0);
	coordinator.rev += atomic_load(&coordinator.grows);
	atomic_store(&coordinator.joined, true);
	return ANSWER(server_join, .index = 0);
}

static bool may_announce(struct coordinator *c, const struct durable_point *due)
{
	(void)c;
	return !due->state_rev || atomic_load(&coordinator.durable);
}

static uint64_t rev_sent(struct coordinator *c)
{
	(void)c;
	return coordinator.rev;
}

static const struct server_coordinator role = { .find_earlier = control_find_earlier,
	.start = control_start,
	.stop = control_end,
	.free = control_free,
	.handle = handle,
	.may_announce = may_announce,
	.gone = control_gone,
	.rev_sent = rev_sent };

/* ---- the server or worker that joins ---- */

struct joiner {
	struct agent *agent;
	struct mutex lock;
	char heard[100];  /* the messages, in their order */
	const char *last; /* what it waits for */
	bool complete;
};

static void hear(struct joiner *m, const char *what)
{
	size_t n = strlen(m->heard);

	mutex_lock(&m->lock);
	snprintf(m->heard + n, sizeof m->heard - n, "%s%s", n ? " " : "", what);
	m->complete |= strcmp(what, m->last) == 0;
	mutex_unlock(&m->lock);
}

static void on_joined(void *ctx, const json_t *answer)
{
	(void)answer;
	hear(ctx, "answer");
}

static void on_view(void *ctx, const struct view *view)
{
	char text[40];

	snprintf(text, sizeof text, view->worker ? "view-%lld-with-place" : "view-%lld",
	    (long long)view->rev);
	hear(ctx, text);
}

static void on_notice(void *ctx, const json_t *msg)
{
	hear(ctx, json_str(msg, "op", "?"));
}

static bool await(struct joiner *m)
{
	int64_t until = clock_now() + 10 * NSEC_PER_SEC;
	bool complete = false;

	while (!complete && clock_now() < until) {
		usleep(1000);
		mutex_lock(&m->lock);
		complete = m->complete;
		mutex_unlock(&m->lock);
	}
	return complete;
}

/* On an I/O thread, behind all that was posted while the join was handled. */
static void make_durable(void *ctx)
{
	(void)ctx;
	atomic_store(&coordinator.durable, true);
	io_threads_wake(coordinator.server);
}

/* A server joins while the state is durable, or is not yet. */
static void join(const struct control *control, const char *coordinators, bool durable,
    struct joiner *m)
{
	struct identity own;
	struct agent_config cfg = { .addr = { coordinators },
		.id = &own.conn,
		.info = { .incarnation = 3, .rank = RANK_NONE, .role = ROLE_SERVER },
		.heartbeat = 50 * NSEC_PER_MSEC,
		.deadline = 60 * NSEC_PER_SEC,
		.ctx = m,
		.joined = on_joined,
		.view = on_view,
		.notice = on_notice };
	struct log log;

	log_init(&log, "server", 6, LOG_LEVEL_ERROR);
	*m = (struct joiner){ .last = "sure" };
	mutex_init(&m->lock, LOCK_CLUSTER_VIEW);
	control_member(control, &own);
	memcpy(cfg.server_key, own.server_key, sizeof cfg.server_key);
	cfg.log = &log;
	cfg.join = MESSAGE(server_join, .index = 0);
	atomic_store(&coordinator.durable, durable);
	atomic_store(&coordinator.joined, false);
	if (agent_start(&cfg, &m->agent, NULL))
		abort();
	json_decref(cfg.join);
	while (!atomic_load(&coordinator.joined))
		usleep(1000);
	if (!durable)
		loop_post(coordinator.server->io_thread[0].loop, make_durable, NULL);
	await(m);
	agent_stop(m->agent);
	mutex_destroy(&m->lock);
}

/* A coordinator has admitted a worker and died before it answered. With the next one the worker
 * first asks for views, which do not show it its place, and then joins again. */
static void join_again(const struct control *control, struct joiner *m)
{
	struct identity own;
	struct agent_config cfg = { .addr = { control->server->address },
		.id = &own.conn,
		.info = { .incarnation = 4, .rank = RANK_NONE, .role = ROLE_WORKER },
		.heartbeat = 50 * NSEC_PER_MSEC,
		.deadline = 60 * NSEC_PER_SEC,
		.join = MESSAGE(watch),
		.ctx = m,
		.joined = on_joined,
		.view = on_view };
	json_t *join = MESSAGE(worker_join, .rank = 0, .examples = 1), *answer = NULL;
	struct err e = { 0 };
	struct log log;

	log_init(&log, "worker", 6, LOG_LEVEL_ERROR);
	*m = (struct joiner){ .last = "view-9" };
	mutex_init(&m->lock, LOCK_CLUSTER_VIEW);
	control_worker(control, &own);
	memcpy(cfg.server_key, own.server_key, sizeof cfg.server_key);
	cfg.log = &log;
	coordinator.rev = 9;
	show_view(9);
	if (agent_start(&cfg, &m->agent, NULL))
		abort();
	json_decref(cfg.join);
	ok(await(m), "a worker that asks for views gets the present one: %s", m->heard);
	mutex_lock(&m->lock);
	m->complete = false;
	m->last = "view-9-with-place";
	mutex_unlock(&m->lock);
	ok(!agent_call(m->agent, join, 10 * NSEC_PER_SEC, &answer, &e) && await(m),
	    "and, when it joins, the same one with its place: %s", e.code ? e.msg : m->heard);
	json_decref(answer);
	json_decref(join);
	agent_stop(m->agent);
	mutex_destroy(&m->lock);
}

/* A long message, which is parsed on a thread of its own: its answer comes, and then the answers
 * to the messages that follow it. */
static void call_with_long_message(const struct control *control)
{
	struct identity own;
	struct joiner m = { .last = "view-9" };
	struct agent_config cfg = { .addr = { control->server->address },
		.id = &own.conn,
		.info = { .incarnation = 5, .rank = RANK_NONE, .role = ROLE_WORKER },
		.heartbeat = 50 * NSEC_PER_MSEC,
		.deadline = 60 * NSEC_PER_SEC,
		.join = MESSAGE(watch),
		.ctx = &m,
		.joined = on_joined,
		.view = on_view };
	json_t *join = MESSAGE(worker_join, .rank = 0, .examples = 1), *answer = NULL;
	size_t len = 3 * SESSION_PARSE_LONG;
	char *pad = mem_alloc(len + 1);
	struct err e = { 0 };
	struct log log;

	log_init(&log, "worker", 6, LOG_LEVEL_ERROR);
	mutex_init(&m.lock, LOCK_CLUSTER_VIEW);
	control_worker(control, &own);
	memcpy(cfg.server_key, own.server_key, sizeof cfg.server_key);
	cfg.log = &log;
	if (agent_start(&cfg, &m.agent, NULL))
		abort();
	json_decref(cfg.join);
	memset(pad, 'x', len);
	json_object_set_new(join, "note", json_string(pad));
	for (int i = 0; i < 3; i++) {
		ok(!agent_call(m.agent, join, 10 * NSEC_PER_SEC, &answer, &e) &&
		        json_int(answer, "rank", -1) == 0,
		    "message %d is answered%s%s", i + 1, e.code ? ": " : "", e.code ? e.msg : "");
		json_decref(answer);
		answer = NULL;
		if (i == 1)
			json_object_del(join, "note");
	}
	json_decref(join);
	free(pad);
	agent_stop(m.agent);
	mutex_destroy(&m.lock);
}

static void *hang_up(void *ctx)
{
	int listener = *(int *)ctx;
	struct pollfd p = { .fd = listener, .events = POLLIN };

	while (poll(&p, 1, -1) >= 0)
		close(net_accept(listener));
	return NULL;
}

/* The address of somebody who accepts connections and closes them. */
static const char *listen_and_hang_up(void)
{
	static char address[NET_TEXT];
	static int listener;
	pthread_t thread;

	if (net_listen("127.0.0.1:0", 4, &listener, address, NULL) ||
	    pthread_create(&thread, NULL, hang_up, &listener))
		abort();
	return address;
}

/* ---- questions whether the coordinator is there ---- */

struct asker {
	struct conn *conn;
	unsigned answers;
	bool refused;
};

/* The second question arrives before the answer to the first one has been written. */
static void ask_twice(void *ctx, const struct hs_server_info *server)
{
	const struct record question = { .type = REC_PROBE };
	struct asker *a = ctx;

	(void)server;
	for (int i = 0; i < 2; i++)
		conn_send(a->conn, &question, NULL);
}

static enum conn_verdict count_answer(void *ctx, const struct record *r, uint8_t *payload)
{
	struct asker *a = ctx;

	(void)payload;
	a->answers += r->type == REC_PROBED;
	a->refused |= r->type == REC_NACK;
	return CONN_TAKEN;
}

static bool is_answered(void *ctx)
{
	const struct asker *a = ctx;

	return a->answers == 2 || a->refused;
}

static void ask_whether_it_is_there(const struct control *control)
{
	static const struct conn_handler asking = { .live = ask_twice, .record = count_answer };
	struct identity own;
	struct asker a = { 0 };
	struct dial_target to = { .tcp = control->server->address,
		.transport = transport_find("tcp"),
		.id = &own.conn,
		.info = { .incarnation = 6, .rank = RANK_NONE, .role = ROLE_WORKER } };
	struct err e = { 0 };

	control_worker(control, &own);
	to.key = own.server_key;
	if (dial(&to, &asking, &a, &a.conn, &e) ||
	    conn_until(a.conn, is_answered, &a, 10 * NSEC_PER_SEC, &e))
		fprintf(stderr, "%s\n", e.msg);
	ok(a.answers == 2 && !a.refused, "each question whether it is there is answered: %u of 2",
	    a.answers);
	conn_free(a.conn);
}

/* The address of a process that is stopped: its kernel accepts connections, and nobody serves them. */
static const char *listen_only(void)
{
	static char address[NET_TEXT];
	int listener;

	if (net_listen("127.0.0.1:0", 4, &listener, address, NULL))
		abort();
	return address;
}

/* A handshake may take 3 s, and the other coordinator is not kept waiting for that. */
static void join_beside_stopped(const struct control *control)
{
	char list[2 * NET_TEXT];
	struct joiner m;
	int64_t began, took;

	snprintf(list, sizeof list, "%s,%s", listen_only(), control->server->address);
	began = tap_idle_clock();
	join(control, list, true, &m);
	took = tap_idle_clock() - began;
	ok(took < 2500 * NSEC_PER_MSEC,
	    "a coordinator that is stopped does not keep from joining at another one: %lld ms",
	    (long long)(took / NSEC_PER_MSEC));
}

int main(void)
{
	struct control control;
	struct joiner m;
	char list[2 * NET_TEXT + 40];

	coordinator.rev = 5;
	control_open(&control, &role);
	coordinator.server = control.server;
	join(&control, control.server->address, true, &m);
	ok(strcmp(m.heard, "answer view-5 sure") == 0, "a message follows the view: %s", m.heard);
	/* Nobody listens at the first address, and a process that is no coordinator at the second one. */
	snprintf(list, sizeof list, "127.0.0.1:1,%s,%s", listen_and_hang_up(),
	    control.server->address);
	join(&control, list, true, &m);
	ok(strcmp(m.heard, "answer view-5 sure") == 0, "coordinators are tried in turn: %s",
	    m.heard);
	join_beside_stopped(&control);
	join(&control, control.server->address, false, &m);
	ok(strcmp(m.heard, "answer view-5 sure") == 0,
	    "and waits with the answer until the state is durable: %s", m.heard);
	atomic_store(&coordinator.grows, true);
	join(&control, control.server->address, true, &m);
	ok(strcmp(m.heard, "answer view-5 sure") == 0,
	    "the view that it refers to is sent, even if there is a newer one: %s", m.heard);
	join_again(&control, &m);
	call_with_long_message(&control);
	ask_whether_it_is_there(&control);
	control_close(&control);
	return tap_done();
}

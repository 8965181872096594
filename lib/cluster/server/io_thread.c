/* SPDX-License-Identifier: ISC */
#include <errno.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/json.h"
#include "core/mem.h"
#include "core/spin.h"
#include "core/thread.h"
#include "socket/listen_address.h"
#include "socket/net.h"
#include "server/descriptor_limit.h"
#include "server/quota.h"
#include "server/server_role.h"
#include "server/session_keys.h"
#include "server/session_parse.h"

/* A connection is closed when its handshake takes longer than this. */
#define HELLO_DEADLINE (3 * NSEC_PER_SEC)
/* For this time a connection in its handshake is not closed for another one from the same host,
 * because many workers of one host may connect at once. */
#define HELLO_GRACE  (250 * NSEC_PER_MSEC)
#define IO_TICK      (250 * NSEC_PER_MSEC)
#define ACCEPT_BURST 64
/* Enough for all workers to connect at once. */
#define BACKLOG 4096

/* An accepted socket on its way to the I/O thread that will own it. Freed there. */
struct accepted {
	struct io_thread *io_thread;
	int fd;
};

/* The connections that are still in their handshake: all of them, and those from one address. */
struct strangers {
	unsigned all, here;
	struct server_session *oldest, *oldest_here;
};

/* Costs a look at every session of the thread, so it is called only near the limits. */
static struct strangers find_strangers(const struct io_thread *l, const uint8_t address[static 16])
{
	struct strangers x = { 0 };

	/* The list has the youngest first, so the last one found is the oldest. */
	for (struct server_session *p = l->sessions; p; p = p->next) {
		if (conn_is_live(p->conn))
			continue;
		x.all++;
		x.oldest = p;
		if (memcmp(p->address, address, sizeof p->address) != 0)
			continue;
		x.here++;
		x.oldest_here = p;
	}
	return x;
}

/* Close a connection that is still in its handshake to make room for a new one, if that is
 * necessary: clients without a key can then take neither all descriptors nor all places. False:
 * there is none to close, and the new connection would use up the reserve. */
static bool make_room_for_connection(struct io_thread *l, int fd)
{
	struct server *s = l->server;
	unsigned most = descriptor_limit_half_open(s) / s->nio_threads + 1,
	         most_here = descriptor_limit_half_open_host(s) / s->nio_threads + 1;
	bool reserve = descriptor_limit_in_reserve(s, fd);
	struct strangers x;
	uint8_t address[16];

	if (!reserve && l->half_open < most_here)
		return true;
	net_peer_address(fd, address);
	x = find_strangers(l, address);
	if (x.here >= most_here &&
	    (reserve || x.all >= most || clock_now() - x.oldest_here->opened > HELLO_GRACE))
		session_close(x.oldest_here);
	else if (x.oldest && (reserve || x.all >= most))
		session_close(x.oldest);
	else
		return !reserve;
	return true;
}

/* Runs on the I/O thread that was chosen, which alone may close one of its own connections to
 * make room. */
static void adopt_connection(void *ctx)
{
	struct accepted *a = ctx;

	if (make_room_for_connection(a->io_thread, a->fd)) {
		session_open(a->io_thread, a->fd);
	} else {
		if (log_allowed(&a->io_thread->server->crowd, 1))
			log_warn(a->io_thread->server->cfg.log,
			    "too many sessions: a connection is refused (raise ulimit -n)");
		atomic_fetch_sub(&a->io_thread->load, 1);
		close(a->fd);
	}
	free(a);
}

/* Most processes open two sessions, one after the other, of which one pushes and pulls. If each
 * thread got every n-th session, all busy sessions would go to the same I/O thread. */
static struct io_thread *lightest_io_thread(struct server *s)
{
	struct io_thread *best = s->io_thread;

	for (unsigned i = 1; i < s->nio_threads; i++)
		if (atomic_load(&s->io_thread[i].load) < atomic_load(&best->load))
			best = &s->io_thread[i];
	return best;
}

/* The first I/O thread: accept what waits at listener[which], and deal it to the threads. */
static void accept_connections(struct server *s, unsigned which)
{
	for (int i = 0; i < ACCEPT_BURST; i++) {
		int fd = net_accept(s->listener[which].fd);
		struct accepted *a;

		if (fd < 0) {
			/* Out of descriptors: HELLO_DEADLINE will free some. Until the next tick
			 * do not watch the listener, which would be reported as readable at once
			 * again. */
			if (errno == EMFILE || errno == ENFILE) {
				if (log_allowed(&s->crowd, 1))
					log_warn(s->cfg.log,
					    "too many open files: connections must wait (raise ulimit -n)");
				loop_mod(s->io_thread[0].loop, &s->listener[which], 0);
			}
			return;
		}
		a = mem_alloc(sizeof *a);
		a->fd = fd;
		a->io_thread = lightest_io_thread(s);
		atomic_fetch_add(&a->io_thread->load, 1);
		loop_post(a->io_thread->loop, adopt_connection, a);
	}
}

/* The listeners belong to the first I/O thread. */
static void accept_tcp(void *ctx, uint32_t events)
{
	(void)events;
	accept_connections(ctx, 0);
}

static void accept_unix(void *ctx, uint32_t events)
{
	(void)events;
	accept_connections(ctx, 1);
}

/* Every IO_TICK: close connections whose handshake takes too long, whose network is silent, whose
 * refusal cannot be delivered or whose key has expired; retire idle sessions that are too old;
 * retry pushes that a quota delays. */
static void tick_io_thread(void *ctx)
{
	struct io_thread *l = ctx;
	struct server_session *p, *next;
	int64_t now = clock_now();
	struct err e;

	atomic_fetch_add(&l->turns, 1);
	for (unsigned i = 0; l == l->server->io_thread && i < 2; i++)
		if (l->server->listener[i].fn)
			loop_mod(l->loop, &l->server->listener[i], EPOLLIN);
	for (p = l->sessions; p; p = next) {
		next = p->next;
		if ((!conn_is_live(p->conn) && now - p->opened > HELLO_DEADLINE) ||
		    conn_check(p->conn, now, &e) ||
		    (p->state == SESSION_CLOSING && now - p->closing_since > HELLO_DEADLINE))
			session_close(p);
		else if (p->state == SESSION_CLOSING)
			session_advance(p);
		else if (now - p->opened > SESSION_LIFETIME && session_is_idle(p))
			session_retire(p);
	}
	session_keys_expire(l);
	quota_tick(l);
}

/* ---- waking ---- */

/* Clears `woken` before it looks, so that a change meanwhile posts another look. A retry may
 * close its own session only; so the next session is read before. */
static void wake_waiting_sessions(void *ctx)
{
	struct io_thread *l = ctx;
	struct server_session *p, *next;

	atomic_store(&l->woken, false);
	for (p = l->sessions; p; p = next) {
		next = p->next;
		if (p->counted_waiting)
			session_retry(p);
	}
}

void io_threads_wake(void *server)
{
	struct server *s = server;

	if (atomic_load(&s->role_waits))
		s->cfg.role->wake(s);
	if (!atomic_load(&s->nwaiting))
		return;
	for (unsigned i = 0; i < s->nio_threads; i++)
		if (!atomic_exchange(&s->io_thread[i].woken, true))
			loop_post(s->io_thread[i].loop, wake_waiting_sessions, &s->io_thread[i]);
}

/* ---- spinning ---- */

/* Handles every session whose shared memory has records. Takes one from *looks for each session
 * looked at. True: there was one. */
static bool serve_ready_sessions(struct io_thread *l, int *looks)
{
	struct server_session *p, *next;
	bool found = false;

	for (p = l->sessions; p; p = next) {
		next = p->next;
		--*looks;
		if (p->state == SESSION_CLOSING || !conn_ready(p->conn))
			continue;
		found = true;
		p->h.fn(p->h.ctx, 0);
	}
	return found;
}

/* For loop_spin. Looking at memory is cheap, so all sessions are looked at several times for each
 * system call. */
static bool poll_shared_memory(void *ctx)
{
	struct io_thread *l = ctx;
	int looks = SPIN_LOOKS;
	bool found;

	do
		found = serve_ready_sessions(l, &looks);
	while (!found && l->sessions && looks > 0);
	return found;
}

/* For loop_spin: true when the thread may sleep, because every client over shared memory will
 * wake it. */
static bool doze_io_thread(void *ctx)
{
	struct io_thread *l = ctx;
	bool all = true;

	for (struct server_session *p = l->sessions; p; p = p->next)
		all &= p->state == SESSION_CLOSING || conn_doze(p->conn);
	return all;
}

/* Runs on each I/O thread when polling is turned on: present sessions are watched from now on,
 * later ones by session_open. */
static void spin_io_thread(void *ctx)
{
	struct io_thread *l = ctx;

	l->spins = true;
	loop_spin(l->loop, l->server->spin, poll_shared_memory, doze_io_thread, l);
	for (struct server_session *p = l->sessions; p; p = p->next)
		conn_watch(p->conn);
}

void io_threads_spin(struct server *s, int64_t span_ns)
{
	s->spin = span_ns;
	for (unsigned i = 0; span_ns && i < s->nio_threads; i++)
		loop_post(s->io_thread[i].loop, spin_io_thread, &s->io_thread[i]);
}

static void close_sessions(void *ctx)
{
	struct io_thread *l = ctx;

	while (l->sessions)
		session_close(l->sessions);
}

void io_threads_set_aside(struct server *s)
{
	atomic_store(&s->aside, true);
	for (unsigned i = 0; i < s->nio_threads; i++)
		loop_post(s->io_thread[i].loop, close_sessions, &s->io_thread[i]);
}

/* ---- views and messages for all sessions ---- */

/* A view on its way to one I/O thread, with a reference of its own. */
struct posted_view {
	struct io_thread *io_thread;
	struct view_text *views;
};

/* Replaces the thread's view and sends it to all attached sessions. The time that this takes is a
 * figure of the coordinator (views_cost). */
static void show_view_to_io_thread(void *ctx)
{
	struct posted_view *sh = ctx;
	struct io_thread *l = sh->io_thread;
	int64_t begin = clock_now();
	struct server_session *p, *next;

	view_text_unref(l->views);
	l->views = sh->views;
	free(sh);
	for (p = l->sessions; p; p = next) {
		next = p->next;
		if (p->control.attached)
			session_advance(p);
	}
	atomic_fetch_add(&l->server->count.views_cost, clock_now() - begin);
}

void io_threads_show_view(struct server *s, struct view_text *v)
{
	for (unsigned i = 0; i < s->nio_threads; i++) {
		struct posted_view *sh = mem_alloc(sizeof *sh);

		sh->io_thread = &s->io_thread[i];
		sh->views = view_text_ref(v);
		loop_post(s->io_thread[i].loop, show_view_to_io_thread, sh);
	}
}

int64_t io_threads_handled_until(const struct server *s)
{
	int64_t least = INT64_MAX;

	for (unsigned i = 0; i < s->nio_threads; i++)
		if (loop_heard(s->io_thread[i].loop) < least)
			least = loop_heard(s->io_thread[i].loop);
	return least;
}

void io_threads_nudge(struct server *s)
{
	for (unsigned i = 0; i < s->nio_threads; i++)
		loop_nudge(s->io_thread[i].loop);
}

/* A text on its way to one I/O thread, which frees it. */
struct posted_text {
	struct io_thread *io_thread;
	char *text;
	unsigned server;
};

/* Is a message to this server (IO_THREADS_ALL: to all servers and relays) meant for the session? */
static bool is_receiver(const struct coord_self *self, unsigned server)
{
	if (server == IO_THREADS_ALL)
		return self->kind == COORD_SERVER || self->kind == COORD_RELAY;
	return self->kind == COORD_SERVER && self->index == server;
}

/* Sends the text to the servers and relays of this thread that it is meant for. */
static void send_text_to_io_thread(void *ctx)
{
	struct posted_text *t = ctx;
	struct server_session *p, *next;

	for (p = t->io_thread->sessions; p; p = next) {
		next = p->next;
		if (is_receiver(&p->control.self, t->server))
			session_send_ctl(p, t->text);
	}
	free(t->text);
	free(t);
}

void io_threads_send_ctl(struct server *s, const char *text, unsigned server)
{
	for (unsigned i = 0; i < s->nio_threads; i++) {
		struct posted_text *t = mem_alloc(sizeof *t);

		t->io_thread = &s->io_thread[i];
		t->text = mem_strdup(text);
		t->server = server;
		loop_post(s->io_thread[i].loop, send_text_to_io_thread, t);
	}
}

/* ---- threads ---- */

/* Runs the loop until loop_stop and then closes all of its sessions. */
static void *run_io_thread(void *ctx)
{
	struct io_thread *l = ctx;

	loop_run(l->loop);
	while (l->sessions)
		session_close(l->sessions);
	return NULL;
}

/* Binds the listeners: a given socket first, then the address of an earlier coordinator whose job
 * goes on, then the address of the configuration. An old address that is taken is only logged.
 * s->listener has the descriptors also after an error; io_threads_stop closes them. Errors of
 * net_listen and server_choose_address. */
static enum err_code listen_for_sessions(struct server *s, struct err *e)
{
	const struct choice choice = { s->cfg.listen, s->cfg.iface,
		s->cfg.conf ? NULL : s->cfg.id->data,
		s->cfg.conf ? s->cfg.conf->listen : "127.0.0.1:0" };
	char *unix_addr, tcp[NET_TEXT], ignored[NET_TEXT];
	const char *before = s->recover && s->state->listen ? s->state->listen : "";
	enum err_code rc = ERR_NOTFOUND;
	int64_t since = 0;
	struct stat st;

	if (s->cfg.data_fd) {
		s->listener[0].fd = s->cfg.data_fd;
		net_bound(s->cfg.data_fd, s->address);
		before = "";
		s->address_reason = "given";
		rc = net_listen_reserved(s->cfg.data_fd, BACKLOG, e);
		if (rc)
			return rc;
	}
	/* The members of the job know the address of the earlier coordinator. */
	if (*before)
		s->address_reason = "the address before the restart";
	if (*before)
		rc = net_listen(before, BACKLOG, &s->listener[0].fd, s->address, e);
	if (*before && rc)
		log_warn(s->cfg.log, "cannot listen on the address before the restart: %s", e->msg);
	if (rc && !(rc = server_choose_address(s, &choice, tcp, &s->address_reason, e)))
		rc = net_listen(tcp, BACKLOG, &s->listener[0].fd, s->address, e);
	if (rc)
		return rc;
	s->listener[0].fn = accept_tcp;
	s->listener[0].ctx = s;
	rc = loop_add(s->io_thread[0].loop, &s->listener[0], EPOLLIN, e);
	if (rc || !s->cfg.unix_path)
		return rc;
	unix_addr = mem_printf("unix:%s", s->cfg.unix_path);
	do
		rc = net_listen(unix_addr, BACKLOG, &s->listener[1].fd, ignored, e);
	while (rc && server_wait_for_room(s, &since, e));
	free(unix_addr);
	if (rc)
		return rc;
	if (lstat(s->cfg.unix_path, &st) == 0) {
		s->socket_dev = st.st_dev;
		s->socket_ino = st.st_ino;
	}
	s->listener[1].fn = accept_unix;
	s->listener[1].ctx = s;
	return loop_add(s->io_thread[0].loop, &s->listener[1], EPOLLIN, e);
}

enum err_code io_threads_prepare(struct server *s, struct err *e)
{
	enum err_code rc = ERR_OK;

	s->io_thread = mem_array(s->nio_threads, sizeof *s->io_thread);
	s->listener[0].fd = s->listener[1].fd = -1;
	for (unsigned i = 0; !rc && i < s->nio_threads; i++) {
		s->io_thread[i].server = s;
		rc = loop_new(&s->io_thread[i].loop, e);
		if (!rc)
			loop_tick(s->io_thread[i].loop, IO_TICK, tick_io_thread, &s->io_thread[i]);
	}
	return rc ? rc : listen_for_sessions(s, e);
}

enum err_code io_threads_start(struct server *s, struct err *e)
{
	enum err_code rc = ERR_OK;

	for (unsigned i = 0; !rc && i < s->nio_threads; i++) {
		struct io_thread *l = &s->io_thread[i];

		rc = thread_start(&l->thread, run_io_thread, l, e);
		if (rc)
			l->thread = 0;
	}
	atomic_store(&s->io_threads_run, !rc);
	return rc;
}

void io_threads_stop(struct server *s)
{
	session_parse_stop(s);
	for (unsigned i = 0; s->io_thread && i < s->nio_threads; i++)
		if (s->io_thread[i].thread) {
			loop_stop(s->io_thread[i].loop);
			pthread_join(s->io_thread[i].thread, NULL);
		}
	for (unsigned i = 0; i < 2; i++)
		if (s->listener[i].fd >= 0)
			close(s->listener[i].fd);
	for (unsigned i = 0; s->io_thread && i < s->nio_threads; i++) {
		struct io_thread *l = &s->io_thread[i];

		/* Posted work owns memory. Other threads may have posted some after this one had
		 * ended, or it never started. */
		if (l->loop) {
			loop_stop(l->loop);
			run_io_thread(l);
		}
		view_text_unref(l->views);
		loop_free(s->io_thread[i].loop);
		zip_free(s->io_thread[i].zip);
		buffers_release(&s->io_thread[i].buffers);
	}
	free(s->io_thread);
}

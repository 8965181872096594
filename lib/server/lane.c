#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/spin.h"
#include "launch/rundir.h"
#include "server/lane_keys.h"
#include "server/quota.h"
#include "server/save.h"
#include "wire/choose.h"

/* Until its handshake is through, a connection may live this long, and so many
 * of them may there be at once: then the oldest makes room. */
#define HELLO_DEADLINE (3 * NSEC_PER_SEC)
#define HALF_OPEN_MAX 1024u
#define LANE_TICK (250 * NSEC_PER_MSEC)
#define ACCEPT_BURST 64
/* All workers that there may be come at once. */
#define BACKLOG 4096

struct accepted {
	struct lane *lane;
	int fd;
};

static void adopt(void *ctx)
{
	struct accepted *a = ctx;

	peer_open(a->lane, a->fd);
	free(a);
}

/* Most processes have two sessions here, one after the other: were they dealt out in turn,
 * all that push and pull would go to the same lane. */
static struct lane *lightest(struct server *s)
{
	struct lane *best = s->lane;

	for (unsigned i = 1; i < s->nlanes; i++)
		if (atomic_load(&s->lane[i].load) < atomic_load(&best->load))
			best = &s->lane[i];
	return best;
}

void lanes_accept(struct server *s, unsigned which)
{
	for (int i = 0; i < ACCEPT_BURST; i++) {
		int fd = net_accept(s->listener[which].fd);
		struct accepted *a;

		if (fd < 0) {
			/* Out of descriptors: the half-open ones' deadline frees some.  Who knocks would
			 * be seen at once again: the next tick listens once more. */
			if (errno == EMFILE || errno == ENFILE) {
				if (log_allowed(&s->crowd, 1))
					log_warn(s->cfg.log, "too many open files: connections must wait (raise ulimit -n)");
				loop_mod(s->lane[0].loop, &s->listener[which], 0);
			}
			return;
		}
		a = mem_alloc(sizeof *a);
		a->fd = fd;
		a->lane = lightest(s);
		atomic_fetch_add(&a->lane->load, 1);
		loop_post(a->lane->loop, adopt, a);
	}
}

static void on_tcp(void *ctx, uint32_t events)
{
	(void)events;
	lanes_accept(ctx, 0);
}

static void on_unix(void *ctx, uint32_t events)
{
	(void)events;
	lanes_accept(ctx, 1);
}

/* Close connections whose handshake takes too long, or that are too many. */
static void tick(void *ctx)
{
	struct lane *l = ctx;
	unsigned allowed = HALF_OPEN_MAX / l->server->nlanes, surplus = l->half_open > allowed ? l->half_open - allowed : 0;
	struct peer *p, *next;
	int64_t now = clock_now();
	struct err e;

	atomic_fetch_add(&l->turns, 1);
	for (unsigned i = 0; l == l->server->lane && i < 2; i++)
		if (l->server->listener[i].fn)
			loop_mod(l->loop, &l->server->listener[i], EPOLLIN);
	/* Peers stand youngest first. */
	for (p = l->peers; p; p = next) {
		next = p->next;
		if ((!conn_is_live(p->conn) && now - p->opened > HELLO_DEADLINE) || conn_check(p->conn, now, &e) ||
		    (p->doomed && now - p->doomed_at > HELLO_DEADLINE))
			peer_close(p);
		else if (p->doomed)
			peer_settle(p);
		else if (now - p->opened > PEER_LIFETIME && peer_is_idle(p))
			peer_retire(p);
	}
	lane_expire(l);
	quota_tick(l);
	for (p = l->peers; p && surplus && p->next; p = p->next)
		;
	for (; p && surplus; p = next) {
		next = p->prev;
		if (!conn_is_live(p->conn)) {
			peer_close(p);
			surplus--;
		}
	}
}

/* ---- waking ------------------------------------------------------------------- */

static void scan(void *ctx)
{
	struct lane *l = ctx;
	struct peer *p, *next;

	atomic_store(&l->woken, false);
	for (p = l->peers; p; p = next) {
		next = p->next;
		if (p->waiting)
			peer_wake(p);
	}
}

void lanes_wake(void *server)
{
	struct server *s = server;

	if (atomic_load(&s->saving))
		save_wake(s->save);
	if (!atomic_load(&s->waiting))
		return;
	for (unsigned i = 0; i < s->nlanes; i++)
		if (!atomic_exchange(&s->lane[i].woken, true))
			loop_post(s->lane[i].loop, scan, &s->lane[i]);
}

/* ---- spinning ----------------------------------------------------------------- */

static bool serve_ready(struct lane *l, int *looks)
{
	struct peer *p, *next;
	bool found = false;

	for (p = l->peers; p; p = next) {
		next = p->next;
		--*looks;
		if (p->doomed || !conn_ready(p->conn))
			continue;
		found = true;
		p->h.fn(p->h.ctx, 0);
	}
	return found;
}

/* Memory is looked at more often than the system is asked. */
static bool look(void *ctx)
{
	struct lane *l = ctx;
	int looks = SPIN_LOOKS;
	bool found;

	do
		found = serve_ready(l, &looks);
	while (!found && l->peers && looks > 0);
	return found;
}

static bool doze(void *ctx)
{
	struct lane *l = ctx;
	bool all = true;

	for (struct peer *p = l->peers; p; p = p->next)
		all &= p->doomed || conn_doze(p->conn);
	return all;
}

static void begin_to_spin(void *ctx)
{
	struct lane *l = ctx;

	l->spins = true;
	loop_spin(l->loop, l->server->spin, look, doze, l);
	for (struct peer *p = l->peers; p; p = p->next)
		conn_watch(p->conn);
}

void lanes_spin(struct server *s, int64_t span_ns)
{
	s->spin = span_ns;
	for (unsigned i = 0; span_ns && i < s->nlanes; i++)
		loop_post(s->lane[i].loop, begin_to_spin, &s->lane[i]);
}

/* ---- views for everybody --------------------------------------------------------- */

struct show {
	struct lane *lane;
	struct views *views;
};

static void show(void *ctx)
{
	struct show *sh = ctx;
	struct lane *l = sh->lane;
	int64_t begin = clock_now();
	struct peer *p, *next;

	views_unref(l->views);
	l->views = sh->views;
	free(sh);
	for (p = l->peers; p; p = next) {
		next = p->next;
		if (p->attached)
			peer_settle(p);
	}
	atomic_fetch_add(&l->server->views_cost, clock_now() - begin);
}

void lanes_show(struct server *s, struct views *v)
{
	for (unsigned i = 0; i < s->nlanes; i++) {
		struct show *sh = mem_alloc(sizeof *sh);

		sh->lane = &s->lane[i];
		sh->views = views_ref(v);
		loop_post(s->lane[i].loop, show, sh);
	}
}

int64_t lanes_heard(const struct server *s)
{
	int64_t least = INT64_MAX;

	for (unsigned i = 0; i < s->nlanes; i++)
		if (loop_heard(s->lane[i].loop) < least)
			least = loop_heard(s->lane[i].loop);
	return least;
}

void lanes_nudge(struct server *s)
{
	for (unsigned i = 0; i < s->nlanes; i++)
		loop_nudge(s->lane[i].loop);
}

struct tell {
	struct lane *lane;
	char *text;
	unsigned server;
};

static void tell(void *ctx)
{
	struct tell *t = ctx;
	struct record r = { .type = REC_CTL };
	struct peer *p, *next;

	for (p = t->lane->peers; p; p = next) {
		next = p->next;
		if (!p->attached || p->self.kind != COORD_SERVER || p->self.index != t->server)
			continue;
		msg_send_text(p->conn, &r, t->text);
		peer_settle(p);
	}
	free(t->text);
	free(t);
}

void lanes_tell(struct server *s, const char *text, unsigned server)
{
	for (unsigned i = 0; i < s->nlanes; i++) {
		struct tell *t = mem_alloc(sizeof *t);

		t->lane = &s->lane[i];
		t->text = mem_strdup(text);
		t->server = server;
		loop_post(s->lane[i].loop, tell, t);
	}
}

/* ---- threads --------------------------------------------------------------------- */

static void *run(void *ctx)
{
	struct lane *l = ctx;

	loop_run(l->loop);
	while (l->peers)
		peer_close(l->peers);
	return NULL;
}

static enum err_code listen_on(struct server *s, struct err *e)
{
	const struct choice choice = { s->cfg.listen, s->cfg.iface, s->cfg.conf ? NULL : s->cfg.id->data,
		s->cfg.conf ? s->cfg.conf->listen : "127.0.0.1:0" };
	char sock[RUNDIR_SOCKET_PATH], unix_addr[RUNDIR_SOCKET_PATH + 8], tcp[NET_TEXT], ignored[NET_TEXT];
	const char *before = s->recover ? json_str(s->state, "listen", "") : "";
	int dirfd;
	enum err_code rc = ERR_NOTFOUND;

	if (s->cfg.data_fd) {
		s->listener[0].fd = s->cfg.data_fd;
		net_bound(s->cfg.data_fd, s->address);
		before = "";
		s->chosen = "given";
		rc = ERR_OK;
	}
	/* Others were told where the coordinator before us was. */
	if (*before)
		s->chosen = "where it was before";
	if (*before)
		rc = net_listen(before, BACKLOG, &s->listener[0].fd, s->address, e);
	if (*before && rc)
		log_warn(s->cfg.log, "not where it was before: %s", e->msg);
	if (rc && !(rc = choose_listen(&choice, tcp, &s->chosen, e)))
		rc = net_listen(tcp, BACKLOG, &s->listener[0].fd, s->address, e);
	if (rc)
		return rc;
	s->listener[0].fn = on_tcp;
	s->listener[0].ctx = s;
	rc = loop_add(s->lane[0].loop, &s->listener[0], EPOLLIN, e);
	if (rc || !s->cfg.unix_path)
		return rc;
	rc = rundir_socket_path(s->cfg.unix_path, sock, &dirfd, e);
	if (rc)
		return rc;
	snprintf(unix_addr, sizeof unix_addr, "unix:%s", sock);
	rc = net_listen(unix_addr, BACKLOG, &s->listener[1].fd, ignored, e);
	if (dirfd >= 0)
		close(dirfd);
	if (rc)
		return rc;
	s->listener[1].fn = on_unix;
	s->listener[1].ctx = s;
	return loop_add(s->lane[0].loop, &s->listener[1], EPOLLIN, e);
}

enum err_code lanes_prepare(struct server *s, struct err *e)
{
	enum err_code rc = ERR_OK;

	s->lane = mem_array(s->nlanes, sizeof *s->lane);
	s->listener[0].fd = s->listener[1].fd = -1;
	for (unsigned i = 0; !rc && i < s->nlanes; i++) {
		s->lane[i].server = s;
		rc = loop_new(&s->lane[i].loop, e);
		if (!rc)
			loop_tick(s->lane[i].loop, LANE_TICK, tick, &s->lane[i]);
	}
	return rc ? rc : listen_on(s, e);
}

enum err_code lanes_start(struct server *s, struct err *e)
{
	enum err_code rc = ERR_OK;

	for (unsigned i = 0; !rc && i < s->nlanes; i++)
		if (pthread_create(&s->lane[i].thread, NULL, run, &s->lane[i])) {
			s->lane[i].thread = 0;
			rc = err_sys(e, ERR_IO, "cannot start a thread");
		}
	atomic_store(&s->lanes_run, !rc);
	return rc;
}

void lanes_stop(struct server *s)
{
	for (unsigned i = 0; s->lane && i < s->nlanes; i++)
		if (s->lane[i].thread) {
			loop_stop(s->lane[i].loop);
			pthread_join(s->lane[i].thread, NULL);
		}
	for (unsigned i = 0; i < 2; i++)
		if (s->listener[i].fd >= 0)
			close(s->listener[i].fd);
	for (unsigned i = 0; s->lane && i < s->nlanes; i++) {
		views_unref(s->lane[i].views);
		loop_free(s->lane[i].loop);
		zip_free(s->lane[i].zip);
	}
	free(s->lane);
}

/* SPDX-License-Identifier: ISC */
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/mem.h"
#include "http/state.h"

/* The most connections with an incomplete request. Beyond it the oldest of them is closed, so
 * that silent connections cannot keep others out. libmicrohttpd's own limits would refuse the
 * newcomer. */
#define ARRIVING_MAX        128
#define ARRIVING_MAX_PER_IP 64
/* The most answers to strangers under way at once; beyond it the oldest is closed. Together with
 * the arriving and the parked connections they leave room for peers with a key. */
#define STRANGERS_MAX        64
#define STRANGERS_MAX_PER_IP 32
/* The most requests parked at once, so that they leave room for others. */
#define PARKED_MAX 96
/* How often parked requests are checked for peers that have hung up. */
#define HANGUP_CHECK NSEC_PER_SEC

/* Call it with s->lock held. While the server stops, each change wakes the thread that waits for
 * answers under way. */
static void set_phase(struct http_conn *c, enum http_phase phase)
{
	struct http_server *s = c->l->s;

	mutex_assert_held(&c->l->s->lock);
	c->l->count[c->phase]--;
	c->l->count[phase]++;
	c->phase = phase;
	if (s->stopping)
		pthread_cond_broadcast(&s->quiet);
}

/* With the lock held: make sure that the reaper wakes up by t. */
static void wake_reaper_by(struct http_server *s, int64_t t)
{
	mutex_assert_held(&s->lock);
	if (t < s->wake_at) {
		s->wake_at = t;
		pthread_cond_signal(&s->wake);
	}
}

/* Call it with s->lock held. The descriptor stays open: libmicrohttpd sees the end of the stream
 * and closes it. */
static void shut_down_conn(struct http_conn *c)
{
	mutex_assert_held(&c->l->s->lock);
	shutdown(c->fd, SHUT_RDWR);
	set_phase(c, HTTP_DOOMED);
}

/* Call it with s->lock held, for a connection in HTTP_PARKED. Once late, a request stays
 * late. */
static void unpark_conn(struct http_conn *c, bool late)
{
	mutex_assert_held(&c->l->s->lock);
	c->late = c->late || late;
	set_phase(c, HTTP_BUSY);
	MHD_resume_connection(c->mhd);
}

/* Fills in ip and loopback for a TCP peer. They stay zero and false for a Unix socket, and when the
 * peer has disconnected already. */
static void read_ip(struct http_conn *c)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);

	memset(&ss, 0, sizeof(ss));
	if (getpeername(c->fd, (struct sockaddr *)&ss, &len) != 0)
		return;
	if (ss.ss_family == AF_INET) {
		memcpy(c->ip, &((struct sockaddr_in *)&ss)->sin_addr, 4);
		c->loopback = c->ip[0] == 127;
	} else if (ss.ss_family == AF_INET6) {
		memcpy(c->ip, &((struct sockaddr_in6 *)&ss)->sin6_addr, 16);
		c->loopback = memcmp(c->ip, &in6addr_loopback, 16) == 0;
	}
}

/* On the Unix socket only our own user and root are admitted. */
static bool is_welcome(const struct http_conn *c)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	if (!c->l->bound.local)
		return true;
	return getsockopt(c->fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) == 0 &&
	    (cred.uid == geteuid() || cred.uid == 0);
}

/* A stranger can hold up this connection: its request is incomplete, or was not signed. */
static bool may_be_evicted(const struct http_conn *c, enum http_phase phase)
{
	return c->phase == phase && (phase == HTTP_ARRIVING || c->stranger);
}

/* If too many connections are in the newcomer's phase, in all or from its address, close the
 * oldest. */
static void evict_for(struct http_conn *newcomer, unsigned most, unsigned most_here)
{
	struct http_listener *l = newcomer->l;
	struct http_conn *oldest = NULL, *oldest_here = NULL;
	unsigned all = 0, here = 0;

	for (struct http_conn *c = l->conns; c != NULL; c = c->next) {
		if (!may_be_evicted(c, newcomer->phase) || c == newcomer)
			continue;
		all++;
		if (oldest == NULL || c->deadline < oldest->deadline)
			oldest = c;
		if (l->bound.local || memcmp(c->ip, newcomer->ip, sizeof(c->ip)) != 0)
			continue;
		here++;
		if (oldest_here == NULL || c->deadline < oldest_here->deadline)
			oldest_here = c;
	}
	if (here >= most_here)
		shut_down_conn(oldest_here);
	else if (all >= most)
		shut_down_conn(oldest);
}

/* Enters a new connection into its listener's list, on the listener's thread. A connection that
 * is not welcome is entered, too, and shut down, so that conn_close treats all alike. The refusal
 * is logged after s->lock is released. */
static void conn_open(struct http_listener *l, struct MHD_Connection *mhd, void **context)
{
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd,
	    MHD_CONNECTION_INFO_CONNECTION_FD);
	struct http_conn *c = mem_alloc(sizeof(*c));
	struct http_server *s = l->s;
	bool welcome;

	c->l = l;
	c->mhd = mhd;
	c->fd = info->connect_fd;
	c->phase = HTTP_ARRIVING;
	c->deadline = clock_now() + s->request_timeout;
	read_ip(c);
	welcome = is_welcome(c);
	mutex_lock(&s->lock);
	c->next = l->conns;
	if (c->next != NULL)
		c->next->prev = c;
	l->conns = c;
	l->count[c->phase]++;
	if (welcome) {
		evict_for(c, ARRIVING_MAX, ARRIVING_MAX_PER_IP);
		wake_reaper_by(s, c->deadline);
	} else {
		shut_down_conn(c);
	}
	mutex_unlock(&s->lock);
	if (!welcome)
		http_refused(c, "the Unix socket accepts only its own user");
	*context = c;
}

/* libmicrohttpd calls this before it closes the descriptor, so the reaper never shuts down a
 * descriptor that was reused. */
static void conn_close(struct http_conn *c)
{
	struct http_server *s = c->l->s;

	mutex_lock(&s->lock);
	if (c->prev != NULL)
		c->prev->next = c->next;
	else
		c->l->conns = c->next;
	if (c->next != NULL)
		c->next->prev = c->prev;
	c->l->count[c->phase]--;
	pthread_cond_broadcast(&s->quiet);
	mutex_unlock(&s->lock);
	free(c);
}

void http_conns_notify(void *listener, struct MHD_Connection *mhd, void **context,
    enum MHD_ConnectionNotificationCode what)
{
	if (what == MHD_CONNECTION_NOTIFY_STARTED) {
		conn_open(listener, mhd, context);
	} else if (*context != NULL) {
		conn_close(*context);
		*context = NULL;
	}
}

void http_conns_phase(struct http_conn *c, enum http_phase phase, int64_t deadline)
{
	struct http_server *s = c->l->s;

	mutex_lock(&s->lock);
	if (c->phase != HTTP_DOOMED) {
		set_phase(c, phase);
		c->deadline = deadline;
		if (phase == HTTP_ARRIVING || phase == HTTP_SENDING)
			wake_reaper_by(s, deadline);
		if (phase == HTTP_ARRIVING) {
			c->late = false;
			evict_for(c, ARRIVING_MAX, ARRIVING_MAX_PER_IP);
		} else if (phase == HTTP_SENDING && c->stranger) {
			evict_for(c, STRANGERS_MAX, STRANGERS_MAX_PER_IP);
		}
	}
	mutex_unlock(&s->lock);
}

enum http_park http_conns_park(struct http_conn *c, int64_t deadline, uint64_t seen)
{
	struct http_server *s = c->l->s;
	enum http_park how = HTTP_PARK_AGAIN;
	int64_t now = clock_now();

	mutex_lock(&s->lock);
	if (s->stopping || deadline <= now) {
		c->late = true;
	} else if (c->l->count[HTTP_PARKED] >= PARKED_MAX) {
		how = HTTP_PARK_FULL;
	} else if (s->kicks == seen) {
		/* Park only if there was no kick since the handler was called; that kick would
		 * not wake this request. */
		set_phase(c, HTTP_PARKED);
		c->deadline = deadline;
		MHD_suspend_connection(c->mhd);
		wake_reaper_by(s, now + HANGUP_CHECK < deadline ? now + HANGUP_CHECK : deadline);
		how = HTTP_PARK_HELD;
	}
	mutex_unlock(&s->lock);
	return how;
}

void http_conns_unpark_all(struct http_server *s, bool late)
{
	for (size_t i = 0; i < s->nlisteners; i++)
		for (struct http_conn *c = s->listener[i].conns; c != NULL; c = c->next)
			if (c->phase == HTTP_PARKED)
				unpark_conn(c, late);
}

/* Does not block. An error of the socket counts as a hang-up, too. */
static bool has_hung_up(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLRDHUP };

	return poll(&p, 1, 0) > 0;
}

/* Close or wake c if it is due; returns when to check it again. */
static int64_t reap_conn(struct http_conn *c, int64_t now)
{
	switch (c->phase) {
	case HTTP_ARRIVING:
	case HTTP_SENDING:
		if (c->deadline > now)
			return c->deadline;
		shut_down_conn(c);
		return INT64_MAX;
	case HTTP_PARKED:
		if (c->deadline > now && !has_hung_up(c->fd))
			return c->deadline < now + HANGUP_CHECK ? c->deadline : now + HANGUP_CHECK;
		unpark_conn(c, true);
		return INT64_MAX;
	case HTTP_BUSY:
	case HTTP_DOOMED:
		break;
	}
	return INT64_MAX;
}

void *http_conns_reaper(void *server)
{
	struct http_server *s = server;
	struct timespec ts;

	mutex_lock(&s->lock);
	while (!s->stopping) {
		int64_t now = clock_now(), next = INT64_MAX;

		for (size_t i = 0; i < s->nlisteners; i++)
			for (struct http_conn *c = s->listener[i].conns; c != NULL; c = c->next) {
				int64_t t = reap_conn(c, now);

				if (t < next)
					next = t;
			}
		s->wake_at = next;
		if (next == INT64_MAX) {
			mutex_wait(&s->wake, &s->lock);
			continue;
		}
		ts.tv_sec = next / NSEC_PER_SEC;
		ts.tv_nsec = next % NSEC_PER_SEC;
		mutex_wait_until(&s->wake, &s->lock, &ts);
	}
	mutex_unlock(&s->lock);
	return NULL;
}

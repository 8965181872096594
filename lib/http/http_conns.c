#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "http/state.h"

/* At most so many connections that have not sent a whole request yet: beyond
 * it the oldest of them goes, so that silent ones cannot keep others out, which
 * libmicrohttpd's own limits (they refuse the newcomer) would let them do. */
#define ARRIVING_MAX 128
#define ARRIVING_MAX_PER_IP 64
/* Long polls held at once, so that they leave room for all else. */
#define PARKED_MAX 96
/* How often parked requests are looked at for peers that have hung up. */
#define HANGUP_CHECK NSEC_PER_SEC

static void set_phase(struct http_conn *c, enum http_phase phase)
{
	struct http_server *s = c->l->s;

	c->l->count[c->phase]--;
	c->l->count[phase]++;
	c->phase = phase;
	if (s->stopping)
		pthread_cond_broadcast(&s->quiet);
}

/* The reaper must be awake at t. */
static void arm(struct http_server *s, int64_t t)
{
	if (t < s->wake_at) {
		s->wake_at = t;
		pthread_cond_signal(&s->wake);
	}
}

static void doom(struct http_conn *c)
{
	shutdown(c->fd, SHUT_RDWR);
	set_phase(c, HTTP_DOOMED);
}

static void unpark(struct http_conn *c, bool late)
{
	c->late = c->late || late;
	set_phase(c, HTTP_BUSY);
	MHD_resume_connection(c->mhd);
}

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

/* On the Unix socket we hear our own user and root. */
static bool is_welcome(const struct http_conn *c)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	if (!c->l->bound.local)
		return true;
	return getsockopt(c->fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) == 0 &&
	       (cred.uid == geteuid() || cred.uid == 0);
}

static void evict_for(struct http_conn *newcomer)
{
	struct http_listener *l = newcomer->l;
	struct http_conn *oldest = NULL, *oldest_here = NULL;
	unsigned here = 0;

	for (struct http_conn *c = l->conns; c != NULL; c = c->next) {
		if (c->phase != HTTP_ARRIVING || c == newcomer)
			continue;
		if (oldest == NULL || c->deadline < oldest->deadline)
			oldest = c;
		if (l->bound.local || memcmp(c->ip, newcomer->ip, sizeof(c->ip)) != 0)
			continue;
		here++;
		if (oldest_here == NULL || c->deadline < oldest_here->deadline)
			oldest_here = c;
	}
	if (here >= ARRIVING_MAX_PER_IP)
		doom(oldest_here);
	else if (l->count[HTTP_ARRIVING] > ARRIVING_MAX && oldest != NULL)
		doom(oldest);
}

static void conn_open(struct http_listener *l, struct MHD_Connection *mhd, void **context)
{
	const union MHD_ConnectionInfo *info =
	    MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
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
	pthread_mutex_lock(&s->lock);
	c->next = l->conns;
	if (c->next != NULL)
		c->next->prev = c;
	l->conns = c;
	l->count[c->phase]++;
	if (welcome) {
		evict_for(c);
		arm(s, c->deadline);
	} else {
		doom(c);
	}
	pthread_mutex_unlock(&s->lock);
	if (!welcome)
		http_refused(c, "the Unix socket is for our own user");
	*context = c;
}

/* libmicrohttpd tells before it closes the descriptor, so the reaper never shuts
 * down one that has become somebody else's. */
static void conn_close(struct http_conn *c)
{
	struct http_server *s = c->l->s;

	pthread_mutex_lock(&s->lock);
	if (c->prev != NULL)
		c->prev->next = c->next;
	else
		c->l->conns = c->next;
	if (c->next != NULL)
		c->next->prev = c->prev;
	c->l->count[c->phase]--;
	pthread_cond_broadcast(&s->quiet);
	pthread_mutex_unlock(&s->lock);
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

	pthread_mutex_lock(&s->lock);
	if (c->phase != HTTP_DOOMED) {
		set_phase(c, phase);
		c->deadline = deadline;
		if (phase == HTTP_ARRIVING || phase == HTTP_SENDING)
			arm(s, deadline);
		if (phase == HTTP_ARRIVING)
			c->late = false;
	}
	pthread_mutex_unlock(&s->lock);
}

enum http_park http_conns_park(struct http_conn *c, int64_t deadline, uint64_t seen)
{
	struct http_server *s = c->l->s;
	enum http_park how = HTTP_PARK_AGAIN;
	int64_t now = clock_now();

	pthread_mutex_lock(&s->lock);
	if (s->stopping || deadline <= now) {
		c->late = true;
	} else if (c->l->count[HTTP_PARKED] >= PARKED_MAX) {
		how = HTTP_PARK_FULL;
	} else if (s->kicks == seen) {
		/* Else a kick since the handler's look would have woken nobody. */
		set_phase(c, HTTP_PARKED);
		c->deadline = deadline;
		MHD_suspend_connection(c->mhd);
		arm(s, now + HANGUP_CHECK < deadline ? now + HANGUP_CHECK : deadline);
		how = HTTP_PARK_HELD;
	}
	pthread_mutex_unlock(&s->lock);
	return how;
}

void http_conns_unpark_all(struct http_server *s, bool late)
{
	for (size_t i = 0; i < s->nlisteners; i++)
		for (struct http_conn *c = s->listener[i].conns; c != NULL; c = c->next)
			if (c->phase == HTTP_PARKED)
				unpark(c, late);
}

static bool has_hung_up(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLRDHUP };

	return poll(&p, 1, 0) > 0;
}

/* Do what is due for c; returns when to look at it again. */
static int64_t reap(struct http_conn *c, int64_t now)
{
	switch (c->phase) {
	case HTTP_ARRIVING:
	case HTTP_SENDING:
		if (c->deadline > now)
			return c->deadline;
		doom(c);
		return INT64_MAX;
	case HTTP_PARKED:
		if (c->deadline > now && !has_hung_up(c->fd))
			return c->deadline < now + HANGUP_CHECK ? c->deadline : now + HANGUP_CHECK;
		unpark(c, true);
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

	pthread_mutex_lock(&s->lock);
	while (!s->stopping) {
		int64_t now = clock_now(), next = INT64_MAX;

		for (size_t i = 0; i < s->nlisteners; i++)
			for (struct http_conn *c = s->listener[i].conns; c != NULL; c = c->next) {
				int64_t t = reap(c, now);

				if (t < next)
					next = t;
			}
		s->wake_at = next;
		if (next == INT64_MAX) {
			pthread_cond_wait(&s->wake, &s->lock);
			continue;
		}
		ts.tv_sec = next / NSEC_PER_SEC;
		ts.tv_nsec = next % NSEC_PER_SEC;
		pthread_cond_timedwait(&s->wake, &s->lock, &ts);
	}
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

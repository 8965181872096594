/* SPDX-License-Identifier: ISC */
#include "tests/sim/sim.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <sys/un.h>

#include "tests/sim/calls.h"

/* Streams between processes. Each way of a connection is a queue of packets, which arrive in order
 * and as late as the seed says; connections overtake each other. A way that is cut keeps its packets,
 * as TCP does by sending them again, until it is healed. Addresses are 127.0.0.1 and a port. */

#define SEND_ROOM       (256u << 10) /* bytes on their way and unread, of one way */
#define CONNECT_TIMEOUT (20 * SEC)
#define PORTS           20000

enum packet_kind { PACKET_DATA, PACKET_FIN, PACKET_RESET, PACKET_CONNECT, PACKET_ACCEPTED };

struct packet {
	enum packet_kind kind;
	struct packet *next;
	size_t len, read;
	int64_t sent_at;
	char data[];
};

enum sock_state { SOCK_NEW, SOCK_LISTENING, SOCK_CONNECTING, SOCK_CONNECTED, SOCK_FAILED };

struct sock {
	struct vfile v;
	enum sock_state state;
	bool open; /* a descriptor names it */
	int family, error;
	unsigned slot;
	pid_t pid;
	uint16_t port, peer_port;
	struct sock *peer;
	/* what is on its way to here, and what has arrived */
	struct packet *coming, **coming_last, *unread, **unread_last;
	size_t room_used;         /* bytes that it has sent and its peer has not read */
	bool loses;               /* net_lose_host is at it */
	bool eof, shut, arriving; /* arriving: an event will take the first of `coming` */
	int64_t last_arrival;
	int64_t took_at; /* when a packet has arrived here last */
	/* of a listener */
	struct sock *accept_first, *accept_last, *accept_next;
	unsigned backlog, waiting;
	struct sock *next; /* all */
	unsigned refs;     /* by its descriptors, its peer and events */
};

static struct sock *all;
static bool cut[SLOTS_MAX][SLOTS_MAX];
static int64_t delay_least, delay_most;
static int64_t lag[SLOTS_MAX][SLOTS_MAX];  /* added to the delay */
static bool damaged[SLOTS_MAX][SLOTS_MAX]; /* a byte of the next data */
static bool probes;                        /* of idle connections find out that a host has died */
static uint16_t next_port;

static void arrive(void *ctx);

/* ---- links ---- */

bool net_is_cut(unsigned from, unsigned to)
{
	return cut[from][to];
}

void net_delay(int64_t least, int64_t most)
{
	delay_least = least;
	delay_most = most;
}

void net_lag(unsigned from, unsigned to, int64_t more)
{
	lag[from][to] = more;
}

void net_damage(unsigned from, unsigned to)
{
	damaged[from][to] = true;
}

/* Changes one byte of the packet if this way damages the next one. */
static void damage_packet(struct packet *p, unsigned from, unsigned to)
{
	if (!damaged[from][to] || !p->len)
		return;
	damaged[from][to] = false;
	p->data[sim_random() % p->len] ^= (char)(1 + sim_below(255));
	sim_trace("net        ! a byte is changed on the way %u - %u", from, to);
}

void net_lag_nobody(void)
{
	memset(lag, 0, sizeof lag);
}

static int64_t draw_delay(void)
{
	return delay_least + (int64_t)(sim_random() % (uint64_t)(delay_most - delay_least + 1));
}

/* The slot of the process at the other end. */
static unsigned slot_of_sender(const struct sock *s)
{
	return s->peer ? s->peer->slot : s->slot;
}

static void schedule_arrival(struct sock *s)
{
	int64_t at;

	if (s->arriving || !s->coming || cut[slot_of_sender(s)][s->slot])
		return;
	at = sim_now + draw_delay() + lag[slot_of_sender(s)][s->slot];
	if (at <= s->last_arrival)
		at = s->last_arrival + 1;
	s->last_arrival = at;
	s->arriving = true;
	s->refs++;
	event_at(at, arrive, s);
}

void net_cut(unsigned from, unsigned to, bool on)
{
	cut[from][to] = on;
	if (!on)
		for (struct sock *s = all; s; s = s->next)
			schedule_arrival(s);
}

/* ---- packets ---- */

static void send_packet(struct sock *to, enum packet_kind kind, const void *data, size_t n)
{
	struct packet *p = malloc(sizeof *p + n);

	if (!p)
		sim_panic("no memory for a packet");
	*p = (struct packet){ .kind = kind, .len = n, .sent_at = sim_now };
	if (n)
		memcpy(p->data, data, n);
	*to->coming_last = p;
	to->coming_last = &p->next;
	schedule_arrival(to);
}

static void drop_packets(struct packet **first, struct packet ***last)
{
	while (*first) {
		struct packet *p = *first;

		*first = p->next;
		free(p);
	}
	*last = first;
}

static void release_sock(struct sock *s)
{
	struct sock **at = &all;

	if (--s->refs)
		return;
	drop_packets(&s->coming, &s->coming_last);
	drop_packets(&s->unread, &s->unread_last);
	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
	free(s);
}

static void part_from_peer(struct sock *s)
{
	struct sock *peer = s->peer;

	s->peer = NULL;
	if (peer)
		release_sock(peer);
}

static void fail_sock(struct sock *s, int error)
{
	s->state = SOCK_FAILED;
	s->error = error;
	s->eof = true;
	drop_packets(&s->unread, &s->unread_last);
	vfile_changed(&s->v);
}

static void accept_connection(struct sock *s);

static void refuse_sender(const struct sock *s)
{
	for (struct sock *x = all; x; x = x->next)
		if (x->peer == s && x->open) {
			send_packet(x, PACKET_RESET, NULL, 0);
			return;
		}
}

/* The first packet on the way to s is there. */
static void arrive(void *ctx)
{
	struct sock *s = ctx;
	struct packet *p = s->coming;

	s->arriving = false;
	if (p && !cut[slot_of_sender(s)][s->slot]) {
		s->coming = p->next;
		if (!s->coming)
			s->coming_last = &s->coming;
		sim_deliveries++;
		s->took_at = sim_now;
		switch (p->kind) {
		case PACKET_DATA:
			if (!s->open) {
				/* The process is gone: its host says so. */
				refuse_sender(s);
				free(p);
				break;
			}
			damage_packet(p, slot_of_sender(s), s->slot);
			p->next = NULL;
			*s->unread_last = p;
			s->unread_last = &p->next;
			vfile_changed(&s->v);
			break;
		case PACKET_FIN:
			s->eof = true;
			free(p);
			vfile_changed(&s->v);
			break;
		case PACKET_RESET:
			free(p);
			if (s->open)
				fail_sock(s,
				    s->state == SOCK_CONNECTING ? ECONNREFUSED : ECONNRESET);
			break;
		case PACKET_CONNECT:
			free(p);
			accept_connection(s);
			break;
		case PACKET_ACCEPTED:
			free(p);
			if (s->state == SOCK_CONNECTING) {
				s->state = SOCK_CONNECTED;
				vfile_changed(&s->v);
			}
			break;
		}
		schedule_arrival(s);
	}
	release_sock(s);
}

/* ---- kinds of vfile ---- */

static ssize_t read_sock(struct vfile *v, void *out, size_t n)
{
	struct sock *s = (struct sock *)v;
	size_t got = 0;

	if (s->state == SOCK_FAILED) {
		errno = s->error ? s->error : ECONNRESET;
		s->error = 0;
		return -1;
	}
	if (s->state != SOCK_CONNECTED)
		return errno = s->state == SOCK_CONNECTING ? EAGAIN : ENOTCONN, -1;
	while (got < n && s->unread) {
		struct packet *p = s->unread;
		size_t k = p->len - p->read < n - got ? p->len - p->read : n - got;

		memcpy((char *)out + got, p->data + p->read, k);
		p->read += k;
		got += k;
		if (p->read < p->len)
			break;
		s->unread = p->next;
		if (!s->unread)
			s->unread_last = &s->unread;
		free(p);
	}
	if (got && s->peer) {
		s->peer->room_used -= got < s->peer->room_used ? got : s->peer->room_used;
		vfile_changed(&s->peer->v);
	}
	return got || s->eof || !n ? (ssize_t)got : (errno = EAGAIN, -1);
}

static ssize_t write_sock(struct vfile *v, const void *p, size_t n)
{
	struct sock *s = (struct sock *)v;
	size_t room;

	if (s->state == SOCK_CONNECTING)
		return errno = EAGAIN, -1;
	if (s->state != SOCK_CONNECTED || s->shut || !s->peer)
		return errno = s->state == SOCK_NEW ? ENOTCONN : EPIPE, -1;
	room = SEND_ROOM - s->room_used;
	if (n > room)
		n = room;
	if (!n)
		return errno = EAGAIN, -1;
	/* The kernel may take a part only. */
	if (n > 1 && sim_chance(3))
		n = 1 + sim_below((uint32_t)(n - 1));
	s->room_used += n;
	send_packet(s->peer, PACKET_DATA, p, n);
	return (ssize_t)n;
}

static unsigned sock_ready(struct vfile *v)
{
	struct sock *s = (struct sock *)v;
	unsigned r = 0;

	switch (s->state) {
	case SOCK_LISTENING:
		return s->accept_first ? POLLIN : 0;
	case SOCK_NEW:
		return POLLHUP | POLLOUT;
	case SOCK_CONNECTING:
		return 0;
	case SOCK_FAILED:
		return POLLIN | POLLOUT | POLLERR | POLLHUP | POLLRDHUP;
	case SOCK_CONNECTED:
		if (s->unread || s->eof)
			r |= POLLIN;
		if (s->eof)
			r |= POLLRDHUP | (s->shut ? POLLHUP : 0);
		if (s->room_used < SEND_ROOM)
			r |= POLLOUT;
		return r;
	}
	return 0;
}

static void close_sock(struct vfile *v)
{
	struct sock *s = (struct sock *)v;

	s->open = false;
	while (s->accept_first) {
		struct sock *a = s->accept_first;

		s->accept_first = a->accept_next;
		close_sock(&a->v);
	}
	/* Unread bytes, as in TCP, make it a reset. */
	if (s->peer && (s->state == SOCK_CONNECTED || s->state == SOCK_CONNECTING) && !s->shut)
		send_packet(s->peer, s->unread ? PACKET_RESET : PACKET_FIN, NULL, 0);
	if (s->family == AF_UNIX)
		disk_unbind(v);
	if (s->state == SOCK_LISTENING)
		s->port = 0;
	part_from_peer(s);
	release_sock(s);
}

static const struct vfile_ops sock_ops = { "socket", read_sock, write_sock, sock_ready,
	close_sock };

static struct sock *make_sock(int family, bool nonblock)
{
	struct sock *s = calloc(1, sizeof *s);

	if (!s)
		sim_panic("no memory for a socket");
	vfile_init(&s->v, &sock_ops, nonblock);
	s->open = true;
	s->family = family;
	s->coming_last = &s->coming;
	s->unread_last = &s->unread;
	s->refs = 1;
	s->next = all;
	all = s;
	return s;
}

static struct sock *sock_of(int fd)
{
	struct vfile *v = proc_vfile(fd);

	if (v && v->ops != &sock_ops) {
		errno = ENOTSOCK;
		return NULL;
	}
	return (struct sock *)v;
}

/* A connection has come to the place of a server; `s` is its half, made by connect. */
static void accept_connection(struct sock *s)
{
	struct sock *l = NULL;

	for (struct sock *x = all; x; x = x->next)
		if (x->state == SOCK_LISTENING && x->open && x->port == s->port)
			l = x;
	if (!l || l->waiting >= l->backlog) {
		if (s->peer)
			send_packet(s->peer, PACKET_RESET, NULL, 0);
		part_from_peer(s);
		release_sock(s);
		return;
	}
	s->state = SOCK_CONNECTED;
	s->slot = l->slot;
	s->pid = l->pid;
	s->v.refs = 1;
	s->open = true;
	s->accept_next = NULL;
	if (l->accept_first)
		l->accept_last->accept_next = s;
	else
		l->accept_first = s;
	l->accept_last = s;
	l->waiting++;
	if (s->peer)
		send_packet(s->peer, PACKET_ACCEPTED, NULL, 0);
	vfile_changed(&l->v);
}

/* ---- calls ---- */

int sim_socket(int family, int type, int protocol)
{
	struct sock *s;

	(void)protocol;
	if (family != AF_INET && family != AF_UNIX)
		return errno = EAFNOSUPPORT, -1;
	s = make_sock(family, type & SOCK_NONBLOCK);
	s->slot = proc_current->slot;
	s->pid = proc_current->pid;
	return proc_install(proc_current, &s->v);
}

static uint16_t choose_port(void)
{
	return next_port++;
}

int sim_bind(int fd, const struct sockaddr *sa, socklen_t len)
{
	struct sock *s = sock_of(fd);
	uint16_t port;

	(void)len;
	if (!s)
		return -1;
	if (sa->sa_family == AF_UNIX) {
		s->port = choose_port();
		if (disk_bind(((const struct sockaddr_un *)sa)->sun_path, &s->v))
			return 0;
		return errno = EADDRINUSE, -1;
	}
	port = ntohs(((const struct sockaddr_in *)(const void *)sa)->sin_port);
	for (struct sock *x = all; port && x; x = x->next)
		if (x->state == SOCK_LISTENING && x->open && x->port == port)
			return errno = EADDRINUSE, -1;
	s->port = port ? port : choose_port();
	return 0;
}

int sim_listen(int fd, int backlog)
{
	struct sock *s = sock_of(fd);

	if (!s)
		return -1;
	s->state = SOCK_LISTENING;
	s->backlog = (unsigned)backlog;
	return 0;
}

/* Nobody has answered. */
static void give_connecting_up(void *ctx)
{
	struct sock *s = ctx;

	if (s->state == SOCK_CONNECTING && s->open)
		fail_sock(s, ETIMEDOUT);
	release_sock(s);
}

int sim_connect(int fd, const struct sockaddr *sa, socklen_t len)
{
	struct sock *s = sock_of(fd), *half, *l = NULL;
	unsigned to = 0;
	uint16_t port;

	(void)len;
	if (!s)
		return -1;
	if (s->state != SOCK_NEW)
		return errno = s->state == SOCK_CONNECTING ? EALREADY : EISCONN, -1;
	if (sa->sa_family == AF_UNIX) {
		struct vfile *v = disk_listener(((const struct sockaddr_un *)sa)->sun_path);

		if (!v)
			return -1;
		l = (struct sock *)v;
		port = l->port;
	} else {
		port = ntohs(((const struct sockaddr_in *)(const void *)sa)->sin_port);
	}
	for (struct sock *x = all; x; x = x->next)
		if (x->state == SOCK_LISTENING && x->open && x->port == port)
			l = x;
	/* A host answers at once for a port on which nobody listens, if it can be reached. */
	if (sa->sa_family == AF_UNIX && (!l || l->state != SOCK_LISTENING || !l->open))
		return errno = ECONNREFUSED, -1;
	to = l ? l->slot : s->slot;
	half = make_sock(s->family, true);
	half->open = false;
	half->slot = to;
	half->port = port;
	s->port = choose_port();
	half->peer_port = s->port;
	s->peer_port = port;
	s->peer = half;
	half->peer = s;
	s->refs++;
	half->refs++;
	s->state = SOCK_CONNECTING;
	send_packet(half, PACKET_CONNECT, NULL, 0);
	s->refs++;
	event_at(sim_now + CONNECT_TIMEOUT, give_connecting_up, s);
	if (s->v.nonblock)
		return errno = EINPROGRESS, -1;
	while (s->state == SOCK_CONNECTING)
		fiber_wait_one(&s->v.wait, INT64_MAX);
	if (s->state == SOCK_CONNECTED)
		return 0;
	errno = s->error;
	return -1;
}

static void fill_address(int family, uint16_t port, struct sockaddr *sa, socklen_t *len)
{
	struct sockaddr_in in = { .sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	socklen_t n = family == AF_UNIX ? sizeof un : sizeof in;

	if (!sa)
		return;
	memcpy(sa, family == AF_UNIX ? (void *)&un : (void *)&in, *len < n ? *len : n);
	*len = n;
}

int sim_accept4(int fd, struct sockaddr *sa, socklen_t *len, int flags)
{
	struct sock *l = sock_of(fd), *s;
	int out;

	if (!l)
		return -1;
	if (l->state != SOCK_LISTENING)
		return errno = EINVAL, -1;
	while (!l->accept_first) {
		if (l->v.nonblock)
			return errno = EAGAIN, -1;
		fiber_wait_one(&l->v.wait, INT64_MAX);
	}
	s = l->accept_first;
	l->accept_first = s->accept_next;
	l->waiting--;
	s->v.nonblock = flags & SOCK_NONBLOCK;
	fill_address(s->family, s->peer_port, sa, len);
	out = proc_install(proc_current, &s->v);
	return out;
}

int sim_getsockname(int fd, struct sockaddr *sa, socklen_t *len)
{
	struct sock *s = sock_of(fd);

	if (!s)
		return -1;
	fill_address(s->family, s->port, sa, len);
	return 0;
}

int sim_getpeername(int fd, struct sockaddr *sa, socklen_t *len)
{
	struct sock *s = sock_of(fd);

	if (!s)
		return -1;
	if (s->state != SOCK_CONNECTED)
		return errno = ENOTCONN, -1;
	fill_address(s->family, s->peer_port, sa, len);
	return 0;
}

/* TCP's view of the way to the peer: what is not acknowledged, since when there was an
 * acknowledgement, and how often it has sent the first of that again (after 200 ms, then twice as long each time). */
static void describe_way(const struct sock *s, struct tcp_info *info)
{
	int64_t heard = s->took_at, age, since;

	if (s->peer && s->peer->took_at > heard)
		heard = s->peer->took_at;
	age = sim_now - heard;
	for (const struct packet *p = s->peer ? s->peer->coming : NULL; p; p = p->next)
		info->tcpi_unacked++;
	info->tcpi_last_ack_recv = (uint32_t)(age / MSEC);
	since = info->tcpi_unacked ? sim_now - s->peer->coming->sent_at : 0;
	if (since < age)
		age = since;
	for (int64_t wait = 200 * MSEC; info->tcpi_unacked && age > wait;
	     wait = 2 * wait + 200 * MSEC)
		info->tcpi_retransmits++;
}

int sim_getsockopt(int fd, int level, int name, void *value, socklen_t *len)
{
	struct sock *s = sock_of(fd);

	if (!s)
		return -1;
	memset(value, 0, *len);
	if (level == SOL_SOCKET && name == SO_ERROR) {
		memcpy(value, &s->error, sizeof s->error);
		s->error = 0;
	} else if (level == IPPROTO_TCP && name == TCP_INFO && s->family == AF_UNIX) {
		return errno = EOPNOTSUPP, -1;
	} else if (level == IPPROTO_TCP && name == TCP_INFO) {
		struct tcp_info info = { 0 };

		describe_way(s, &info);
		memcpy(value, &info, sizeof info < *len ? sizeof info : *len);
	} else if (level == SOL_SOCKET && name == SO_DOMAIN) {
		memcpy(value, &s->family, sizeof s->family);
	} else if (level == SOL_SOCKET && name == SO_PEERCRED) {
		struct ucred u = { s->peer ? s->peer->pid : 0, 0, 0 };

		memcpy(value, &u, sizeof u < *len ? sizeof u : *len);
	}
	return 0;
}

int sim_setsockopt(int fd, int level, int name, const void *value, socklen_t len)
{
	(void)level;
	(void)name;
	(void)value;
	(void)len;
	return sock_of(fd) ? 0 : -1;
}

int sim_shutdown(int fd, int how)
{
	struct sock *s = sock_of(fd);

	if (!s)
		return -1;
	if (s->state != SOCK_CONNECTED)
		return errno = ENOTCONN, -1;
	if (how != SHUT_RD && !s->shut) {
		s->shut = true;
		if (s->peer)
			send_packet(s->peer, PACKET_FIN, NULL, 0);
	}
	if (how != SHUT_WR) {
		s->eof = true;
		vfile_changed(&s->v);
	}
	return 0;
}

ssize_t sim_recv(int fd, void *p, size_t n, int flags)
{
	struct sock *s = sock_of(fd);

	if (!s)
		return -1;
	if (flags & MSG_PEEK) {
		struct packet *first = s->unread;
		size_t k = first ? first->len - first->read : 0;

		if (!first)
			return s->eof ? 0 : (errno = EAGAIN, -1);
		memcpy(p, first->data + first->read, n < k ? n : k);
		return (ssize_t)(n < k ? n : k);
	}
	return flags & MSG_DONTWAIT ? read_sock(&s->v, p, n) : vfile_read(&s->v, p, n);
}

ssize_t sim_send(int fd, const void *p, size_t n, int flags)
{
	struct sock *s = sock_of(fd);

	if (!s)
		return -1;
	return flags & MSG_DONTWAIT ? write_sock(&s->v, p, n) : vfile_write(&s->v, p, n);
}

ssize_t sim_sendto(int fd, const void *p, size_t n, int flags, const struct sockaddr *sa,
    socklen_t len)
{
	(void)sa;
	(void)len;
	return sim_send(fd, p, n, flags);
}

static size_t iov_bytes(const struct msghdr *m)
{
	size_t n = 0;

	for (size_t i = 0; i < m->msg_iovlen; i++)
		n += m->msg_iov[i].iov_len;
	return n;
}

ssize_t sim_sendmsg(int fd, const struct msghdr *m, int flags)
{
	size_t n = iov_bytes(m), at = 0;
	char *all_of_it = malloc(n ? n : 1);
	ssize_t sent;

	if (!all_of_it)
		sim_panic("no memory to send %zu bytes", n);
	for (size_t i = 0; i < m->msg_iovlen; at += m->msg_iov[i++].iov_len)
		if (m->msg_iov[i].iov_len)
			memcpy(all_of_it + at, m->msg_iov[i].iov_base, m->msg_iov[i].iov_len);
	sent = sim_send(fd, all_of_it, n, flags);
	free(all_of_it);
	return sent;
}

ssize_t sim_recvmsg(int fd, struct msghdr *m, int flags)
{
	size_t n = iov_bytes(m), at = 0;
	char *all_of_it = malloc(n ? n : 1);
	ssize_t got;

	if (!all_of_it)
		sim_panic("no memory to receive %zu bytes", n);
	got = sim_recv(fd, all_of_it, n, flags);
	for (size_t i = 0; got > 0 && at < (size_t)got; i++) {
		size_t k = (size_t)got - at < m->msg_iov[i].iov_len ? (size_t)got - at
		                                                    : m->msg_iov[i].iov_len;

		memcpy(m->msg_iov[i].iov_base, all_of_it + at, k);
		at += k;
	}
	m->msg_controllen = 0;
	m->msg_flags = 0;
	free(all_of_it);
	return got;
}

int sim_socketpair(int family, int type, int protocol, int out[2])
{
	struct sock *a = make_sock(family, type & SOCK_NONBLOCK),
	            *b = make_sock(family, type & SOCK_NONBLOCK);

	(void)protocol;
	a->slot = b->slot = proc_current->slot;
	a->pid = b->pid = proc_current->pid;
	a->peer = b;
	b->peer = a;
	a->refs++;
	b->refs++;
	a->state = b->state = SOCK_CONNECTED;
	out[0] = proc_install(proc_current, &a->v);
	out[1] = proc_install(proc_current, &b->v);
	return 0;
}

void net_probes_hosts(void)
{
	probes = true;
}

/* A probe of a connection that is idle reaches the host that has died, which is there again. */
static void answer_probe(void *ctx)
{
	struct sock *s = ctx;

	if (s->open && s->state == SOCK_CONNECTED && s->peer)
		send_packet(s, PACKET_RESET, NULL, 0);
	release_sock(s);
}

/* The host of a process dies: what it has sent and what has not arrived is lost, and nothing tells its
 * peers; they learn of it when they send. */
void net_lose_host(struct proc *p)
{
	for (struct sock *s = all; s; s = s->next)
		s->loses = s->peer && s->peer->pid == p->pid && s->pid != p->pid;
	proc_kill(p);
	for (struct sock *s = all; s; s = s->next)
		if (s->loses) {
			drop_packets(&s->coming, &s->coming_last);
			if (!probes || !s->open)
				continue;
			s->refs++;
			event_at(sim_now + 1 * SEC + sim_below(1500) * MSEC, answer_probe, s);
		}
}

void net_break_connections(unsigned a, unsigned b)
{
	for (struct sock *s = all; s; s = s->next) {
		bool between = s->state == SOCK_CONNECTED && s->peer &&
		    ((s->slot == a && s->peer->slot == b) || (s->slot == b && s->peer->slot == a));

		if (!between)
			continue;
		drop_packets(&s->coming, &s->coming_last);
		send_packet(s, PACKET_RESET, NULL, 0);
	}
}

bool net_is_on_its_way(int from_pid, int to_pid)
{
	for (const struct sock *s = all; s; s = s->next)
		if (s->pid == to_pid && s->peer && s->peer->pid == from_pid && s->coming &&
		    s->coming->kind == PACKET_DATA)
			return true;
	return false;
}

/* ---- names ---- */

int sim_getaddrinfo(const char *host, const char *port, const struct addrinfo *hint,
    struct addrinfo **out)
{
	struct place {
		struct addrinfo info;
		struct sockaddr_in in;
	} *p = sim_malloc(sizeof *p);

	(void)host;
	(void)hint;
	memset(p, 0, sizeof *p);
	p->in.sin_family = AF_INET;
	p->in.sin_port = htons((uint16_t)strtoul(port, NULL, 10));
	p->in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	p->info.ai_family = AF_INET;
	p->info.ai_socktype = SOCK_STREAM;
	p->info.ai_addr = (struct sockaddr *)&p->in;
	p->info.ai_addrlen = sizeof p->in;
	*out = &p->info;
	return 0;
}

void sim_freeaddrinfo(struct addrinfo *a)
{
	sim_free(a);
}

int sim_getnameinfo(const struct sockaddr *sa, socklen_t len, char *host, socklen_t nhost,
    char *port, socklen_t nport, int flags)
{
	return getnameinfo(sa, len, host, nhost, port, nport,
	    flags | NI_NUMERICHOST | NI_NUMERICSERV);
}

int sim_getifaddrs(struct ifaddrs **out)
{
	*out = NULL;
	return 0;
}

void sim_freeifaddrs(struct ifaddrs *a)
{
	(void)a;
}

void net_reset(void)
{
	probes = false;
	/* Descriptors were closed with their processes, events were forgotten. */
	while (all) {
		struct sock *s = all;

		all = s->next;
		drop_packets(&s->coming, &s->coming_last);
		drop_packets(&s->unread, &s->unread_last);
		free(s);
	}
	memset(cut, 0, sizeof cut);
	memset(damaged, 0, sizeof damaged);
	net_lag_nobody();
	delay_least = 20 * USEC;
	delay_most = 200 * USEC;
	next_port = PORTS;
}

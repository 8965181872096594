/* SPDX-License-Identifier: ISC */
#include "wire/emulated_link.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/mem.h"
#include "core/num.h"
#include "core/rng.h"
#include "socket/net.h"

/* Bytes that are read at once. On a slow link these are a few milliseconds, so that connections
 * which share it take turns. */
#define CHUNK 16384
/* Bytes of one direction of a connection that wait for a receiver that does not read. */
#define QUEUE_MAX (4u << 20)
/* The length of the link's queue, in ns: bytes are read from a connection this long before the link
 * is free, so that it does not idle when the thread is woken late. */
#define QUEUE_TIME (100 * NSEC_PER_MSEC)
/* The longest time for which a link that is closed waits for receivers, in ns. */
#define CLOSE_TIME (5 * NSEC_PER_SEC)
#define RATE_MIN   1e3
#define RATE_MAX   1e13
#define TIME_MAX   (60 * NSEC_PER_SEC)
#define NUMBER_MAX 1000000

/* ---- the text ---- */

/* Parses a number that ends with this unit, which it cuts off. */
static bool parse_with_unit(char *text, char unit, double *out)
{
	size_t n = strlen(text);

	if (n < 2 || text[n - 1] != unit)
		return false;
	text[n - 1] = '\0';
	return num_double(text, out);
}

static bool parse_bit_rate(char *text, double *bytes)
{
	static const char unit[] = "kMG";
	const char *u = *text ? strchr(unit, text[strlen(text) - 1]) : NULL;

	if (!u || !parse_with_unit(text, *u, bytes))
		return false;
	*bytes *= pow(1000, (double)(u - unit + 1));
	if (*bytes < RATE_MIN || *bytes > RATE_MAX)
		return false;
	*bytes /= 8;
	return true;
}

/* Parses a rate, a round trip or a loss, and changes the text. */
static bool parse_property(char *text, struct emulated_link_spec *out)
{
	size_t n = strlen(text);
	int64_t trip;
	double loss;

	if (n && strchr("kMG", text[n - 1]))
		return parse_bit_rate(text, &out->rate);
	if (n && text[n - 1] == '%') {
		if (!parse_with_unit(text, '%', &loss) || loss < 0 || loss >= 100)
			return false;
		out->loss = loss / 100;
		return true;
	}
	if (!n || text[n - 1] != 's' || !num_duration(text, &trip) || trip < 0 || trip > TIME_MAX)
		return false;
	out->delay = trip / 2;
	return true;
}

/* How the text names processes of a kind: one of them before its number, and all. */
static const struct {
	const char *one, *all; /* NULL: a part that names none is for all */
} kind_names[EMULATED_KINDS] = {
	[EMULATED_WORKER] = { "worker-", NULL },
	[EMULATED_SERVER] = { "server-", "servers" },
};

/* Finds the kind that the name before a colon belongs to. *number: of the process; -1: all. */
static bool find_kind(const char *name, enum emulated_link_kind *kind, int64_t *number)
{
	for (int k = 0; k < EMULATED_KINDS; k++) {
		size_t n = strlen(kind_names[k].one);

		*kind = (enum emulated_link_kind)k;
		*number = -1;
		if (kind_names[k].all && strcmp(name, kind_names[k].all) == 0)
			return true;
		if (strncmp(name, kind_names[k].one, n) == 0)
			return num_int(name + n, 0, NUMBER_MAX, number);
	}
	return false;
}

/* Parses one part, which it changes, into the spec of all processes of `of`'s kind or that of
 * `of`. */
static bool parse_link_part(char *part, struct emulated_link_end of, struct emulated_link_spec *all,
    struct emulated_link_spec *own, int64_t *last)
{
	struct emulated_link_spec ignored, *to;
	char *colon = strchr(part, ':');
	enum emulated_link_kind kind = EMULATED_WORKER;
	int64_t number = -1;

	if (colon)
		*colon = '\0';
	if (colon && !find_kind(part, &kind, &number))
		return false;
	last[kind] = number > last[kind] ? number : last[kind];
	all->emulated |= kind == of.kind;
	to = kind != of.kind ? &ignored : number < 0 ? all : number == of.number ? own : &ignored;
	return parse_property(colon ? colon + 1 : part, to);
}

enum err_code emulated_link_parse(const char *text, struct emulated_link_end of,
    struct emulated_link_spec *out, int64_t last[static EMULATED_KINDS], struct err *e)
{
	struct emulated_link_spec all = { 0 }, own = { .rate = -1, .delay = -1, .loss = -1 };
	char *copy = mem_strdup(text), *rest = copy, *part;
	bool good = true;

	for (int k = 0; k < EMULATED_KINDS; k++)
		last[k] = -1;
	if (strcmp(text, "none") != 0)
		while (good && (part = strsep(&rest, ",")))
			good = parse_link_part(part, of, &all, &own, last);
	free(copy);
	*out = (struct emulated_link_spec){ own.rate < 0 ? all.rate : own.rate,
		own.delay < 0 ? all.delay : own.delay, own.loss < 0 ? all.loss : own.loss,
		all.emulated };
	if (good)
		return ERR_OK;
	return err_set(e, ERR_CONFIG,
	    "must be none, or parts such as 100M (bits per second), 10ms (round trip), 0.1%% (loss), "
	    "worker-1:10M (of one worker) and servers:10ms (between servers), separated by commas; "
	    "got \"%.80s\"",
	    text);
}

/* ---- the link ---- */

enum direction { UP, DOWN };

/* Bytes from one read(), to be sent when they are due. */
struct chunk {
	struct chunk *next;
	int64_t due;
	size_t len, sent;
	uint8_t data[];
};

/* One direction of one connection. It is open, then has read the end (eof), and is closed when all
 * bytes before it have been sent. */
struct flow {
	int from, to;
	struct chunk *first, *newest;
	size_t queued;
	bool eof, closed;
};

struct carried {
	struct carried *next;
	struct flow flow[2]; /* by direction */
	bool dead;
};

struct emulated_link {
	struct transport transport;
	struct emulated_link_spec spec;
	pthread_t thread;
	/* A connection is handed over as a pair of descriptors in one write. The end of the pipe
	 * ends the thread. */
	int inbox[2];
	/* The rest belongs to the thread. */
	struct rng rng;
	struct carried *all;
	int64_t free_at[2]; /* when all bytes that a direction was given have passed */
	int64_t give_up_at; /* INT64_MAX until the link is closed */
};

/* Returns when n bytes that the link is given now arrive. */
static int64_t schedule_bytes(struct emulated_link *l, enum direction d, size_t n, int64_t now)
{
	double segments = ceil((double)n / EMULATED_SEGMENT);
	int64_t due = now, *free_at = &l->free_at[d];

	if (l->spec.rate > 0) {
		due = *free_at > now ? *free_at : now;
		due += (int64_t)((double)n / l->spec.rate * (double)NSEC_PER_SEC);
		*free_at = due;
	}
	due += l->spec.delay;
	if (l->spec.loss > 0 && rng_unit(&l->rng) >= pow(1 - l->spec.loss, segments))
		due += 2 * l->spec.delay;
	return due;
}

static bool may_read(const struct emulated_link *l, const struct flow *f, enum direction d,
    int64_t now)
{
	return !f->eof && f->queued < QUEUE_MAX && l->free_at[d] <= now + QUEUE_TIME;
}

static void read_chunk(struct emulated_link *l, struct carried *c, enum direction d, int64_t now)
{
	struct flow *f = &c->flow[d];
	struct chunk *k = mem_alloc(sizeof *k + CHUNK);
	ssize_t n = read(f->from, k->data, CHUNK);

	if (n <= 0) {
		c->dead |= n < 0 && errno != EAGAIN && errno != EINTR;
		f->eof = n == 0;
		free(k);
		return;
	}
	k->next = NULL;
	k->len = (size_t)n;
	k->sent = 0;
	k->due = schedule_bytes(l, d, k->len, now);
	/* The bytes of a connection stay in order. */
	if (f->first && f->newest->due > k->due)
		k->due = f->newest->due;
	*(f->first ? &f->newest->next : &f->first) = k;
	f->newest = k;
	f->queued += k->len;
}

static bool is_due(const struct flow *f, int64_t now)
{
	return f->first && f->first->due <= now;
}

static void send_due(struct carried *c, enum direction d, int64_t now)
{
	struct flow *f = &c->flow[d];

	while (is_due(f, now)) {
		struct chunk *k = f->first;
		ssize_t n = send(f->to, k->data + k->sent, k->len - k->sent, MSG_NOSIGNAL);

		if (n < 0) {
			c->dead |= errno != EAGAIN && errno != EINTR;
			return;
		}
		k->sent += (size_t)n;
		f->queued -= (size_t)n;
		if (k->sent < k->len)
			return;
		f->first = k->next;
		free(k);
	}
	if (f->eof && !f->first && !f->closed) {
		shutdown(f->to, SHUT_WR);
		f->closed = true;
	}
}

static void free_carried(struct carried *c)
{
	for (int d = UP; d <= DOWN; d++) {
		struct flow *f = &c->flow[d];

		close(f->from);
		for (struct chunk *k; (k = f->first);) {
			f->first = k->next;
			free(k);
		}
	}
	free(c);
}

/* Frees the connections that are over. When the link is closed, these are all whose bytes have been
 * delivered. */
static void free_ended(struct emulated_link *l, int64_t now)
{
	for (struct carried **at = &l->all, *c; (c = *at);) {
		bool delivered = c->flow[UP].closed &&
		    (c->flow[DOWN].closed || l->give_up_at < INT64_MAX);

		if (!c->dead && !delivered && now < l->give_up_at) {
			at = &c->next;
			continue;
		}
		*at = c->next;
		free_carried(c);
	}
}

/* Adds a connection after the others, so that they take turns. */
static void append_carried(struct emulated_link *l, struct carried *c)
{
	struct carried **at = &l->all;

	while (*at)
		at = &(*at)->next;
	c->next = NULL;
	*at = c;
}

static void take_connection(struct emulated_link *l, int64_t now)
{
	int pair[2];
	ssize_t n = read(l->inbox[0], pair, sizeof pair);
	struct carried *c;

	if (n == 0)
		l->give_up_at = now + l->spec.delay + CLOSE_TIME;
	if (n != sizeof pair)
		return;
	c = mem_alloc(sizeof *c);
	*c = (struct carried){ .flow = { [UP] = { .from = pair[0], .to = pair[1] },
		                   [DOWN] = { .from = pair[1], .to = pair[0] } } };
	append_carried(l, c);
}

/* Sets what to wait for on one connection, and lowers *until to the time of its next bytes, or to
 * that at which the link can take more of them. */
static void watch_carried(const struct emulated_link *l, const struct carried *c,
    struct pollfd p[static 2], int64_t now, int64_t *until)
{
	for (int d = UP; d <= DOWN; d++) {
		const struct flow *in = &c->flow[d];
		int64_t at = INT64_MAX;

		p[d].fd = in->from;
		if (may_read(l, in, (enum direction)d, now))
			p[d].events |= POLLIN;
		else if (!in->eof && in->queued < QUEUE_MAX)
			at = l->free_at[d] - QUEUE_TIME;
		if (is_due(in, now))
			p[!d].events |= POLLOUT;
		else if (in->first && in->first->due < at)
			at = in->first->due;
		*until = at < *until ? at : *until;
	}
	for (int d = UP; d <= DOWN; d++)
		if (!p[d].events)
			p[d].fd = -1; /* an end that has hung up would be reported at once */
}

/* Moves the first connection that could read to the end, so that the others are read before it. */
static void let_next_read(struct emulated_link *l, struct carried *c)
{
	struct carried **at = &l->all;

	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	append_carried(l, c);
}

static void carry_bytes(struct emulated_link *l, const struct pollfd *p, int64_t now)
{
	struct carried *has_read = NULL;

	for (struct carried *c = l->all; c; c = c->next, p += 2)
		for (int d = UP; d <= DOWN; d++) {
			if (p[d].revents & (POLLIN | POLLHUP | POLLERR) &&
			    may_read(l, &c->flow[d], (enum direction)d, now)) {
				read_chunk(l, c, (enum direction)d, now);
				has_read = has_read ? has_read : c;
			}
			if (!c->dead)
				send_due(c, (enum direction)d, now);
		}
	if (has_read)
		let_next_read(l, has_read);
}

static void run_link_once(struct emulated_link *l)
{
	int64_t now = clock_now(), until = l->give_up_at, left;
	struct timespec pause;
	struct pollfd *p;
	size_t n = 1, at = 1;

	for (const struct carried *c = l->all; c; c = c->next)
		n += 2;
	p = mem_array(n, sizeof *p);
	p[0] = (struct pollfd){ l->give_up_at < INT64_MAX ? -1 : l->inbox[0], POLLIN, 0 };
	for (const struct carried *c = l->all; c; c = c->next, at += 2)
		watch_carried(l, c, p + at, now, &until);
	left = until > now ? until - now : 0;
	pause = (struct timespec){ left / NSEC_PER_SEC, left % NSEC_PER_SEC };
	/* ppoll: the milliseconds of poll() are too coarse on a fast link. */
	if (ppoll(p, (nfds_t)n, until == INT64_MAX ? NULL : &pause, NULL) > 0 ||
	    until < INT64_MAX) {
		now = clock_now();
		carry_bytes(l, p + 1, now);
		free_ended(l, now);
		if (p[0].revents)
			take_connection(l, now);
	}
	free(p);
}

static void *run_link(void *ctx)
{
	struct emulated_link *l = ctx;

	while (l->give_up_at == INT64_MAX || l->all)
		run_link_once(l);
	return NULL;
}

/* The `carry` of its transport: replaces the connection by one end of a pair of sockets. */
static enum err_code carry_connection(const struct transport *t, int *fd, struct err *e)
{
	const struct emulated_link *l = (const struct emulated_link *)(const void *)t;
	int pair[2], handed[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair))
		return err_sys(e, ERR_IO, "cannot make a pair of sockets for an emulated link");
	net_tune(*fd);
	handed[0] = pair[1];
	handed[1] = *fd;
	if (write(l->inbox[1], handed, sizeof handed) != sizeof handed) {
		err_sys(e, ERR_IO, "cannot hand a connection to the emulated link");
		close(pair[0]);
		close(pair[1]);
		return ERR_IO;
	}
	*fd = pair[0];
	return ERR_OK;
}

enum err_code emulated_link_open(const struct emulated_link_spec *spec, uint64_t seed,
    struct emulated_link **out, struct err *e)
{
	struct emulated_link *l = mem_alloc(sizeof *l);
	sigset_t all, before;
	int failed;

	*l = (struct emulated_link){ .transport = *transport_find("tcp"),
		.spec = *spec,
		.give_up_at = INT64_MAX };
	l->transport.carry = carry_connection;
	rng_init(&l->rng, seed);
	if (pipe2(l->inbox, O_CLOEXEC)) {
		err_sys(e, ERR_IO, "cannot make a pipe for an emulated link");
		free(l);
		return ERR_IO;
	}
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	failed = pthread_create(&l->thread, NULL, run_link, l);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (failed) {
		close(l->inbox[0]);
		close(l->inbox[1]);
		free(l);
		return err_set(e, ERR_IO, "cannot start the thread of an emulated link");
	}
	*out = l;
	return ERR_OK;
}

void emulated_link_close(struct emulated_link *l)
{
	if (!l)
		return;
	close(l->inbox[1]);
	pthread_join(l->thread, NULL);
	close(l->inbox[0]);
	free(l);
}

const struct transport *emulated_link_transport(const struct emulated_link *l)
{
	return &l->transport;
}

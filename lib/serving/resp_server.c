/* SPDX-License-Identifier: ISC */
#include "serving/resp_server.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/mem.h"
#include "core/thread.h"
#include "serving/bearer_tokens.h"
#include "serving/resp_answer.h"
#include "socket/loop.h"
#include "socket/net.h"

#define BACKLOG 511
/* Bytes that are read at once. */
#define READ_BYTES 65536u
#define TICK       (NSEC_PER_SEC / 2)

struct connection {
	struct loop_fd h;
	struct resp_server *server;
	struct connection *prev, *next;
	struct resp_client client;
	struct buf in;  /* the beginning of a command, or commands that wait for the output */
	struct buf out; /* what the socket did not take; nothing is read meanwhile */
	bool end;       /* close it when the output has been sent */
	bool ended;     /* the client sends no more */
	int64_t since;  /* clock_now since when `in` or `out` has been waiting; 0: both are empty */
};

struct resp_server {
	struct loop *loop;
	struct loop_fd listener;
	bool listens; /* false: there are no descriptors left; the next tick tries again */
	struct served *served;
	struct served_reader *reader;
	struct bearer_tokens *tokens; /* NULL: no client needs one */
	struct resp_answerer *answerer;
	struct resp_figures figures;
	struct connection *first;
	uint64_t next_id, most;
	int64_t deadline;
	size_t held, memory; /* bytes that wait in all connections; at most */
	struct buf out;
	uint8_t *read;
	struct log *log;
	bool told_memory, told_full;
	pthread_t thread;
	bool runs;
	char address[NET_TEXT];
};

static size_t held_by(const struct connection *c)
{
	return c->in.len + c->out.len;
}

static void close_connection(struct connection *c)
{
	struct resp_server *s = c->server;

	loop_del(s->loop, &c->h);
	close(c->h.fd);
	s->held -= held_by(c);
	if (c->prev)
		c->prev->next = c->next;
	else
		s->first = c->next;
	if (c->next)
		c->next->prev = c->prev;
	s->figures.connections--;
	resp_parser_release(&c->client.parser);
	buf_release(&c->in);
	buf_release(&c->out);
	free(c);
}

/* Writes what the socket takes of n bytes: *wrote. False: the connection has failed. */
static bool write_some(int fd, const uint8_t *p, size_t n, size_t *wrote)
{
	*wrote = 0;
	while (*wrote < n) {
		ssize_t k = send(fd, p + *wrote, n - *wrote, MSG_NOSIGNAL);

		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0)
			return errno == EAGAIN || errno == EWOULDBLOCK;
		*wrote += (size_t)k;
	}
	return true;
}

/* Answers the n bytes at p, whose beginning is where the parser is, and sends the answers. Bytes that are
 * left are kept in c->in by the caller. False: close the connection. */
static bool answer_bytes(struct connection *c, const uint8_t *p, size_t n, size_t *used)
{
	struct resp_server *s = c->server;
	size_t took, wrote;
	bool more;

	*used = 0;
	do {
		struct served_model *m = served_use(s->reader);

		buf_clear(&s->out);
		more = resp_answer(s->answerer, &c->client, m, p + *used, n - *used, &took, &s->out,
		    &c->end);
		*used += took;
		if (!write_some(c->h.fd, s->out.data, s->out.len, &wrote))
			return false;
		if (wrote < s->out.len) {
			buf_append(&c->out, s->out.data + wrote, s->out.len - wrote);
			break;
		}
	} while (more);
	return !c->end || c->out.len;
}

/* Answers what has been kept, when the output is empty again. */
static bool answer_kept(struct connection *c)
{
	size_t used;
	bool good = answer_bytes(c, c->in.data, c->in.len, &used);

	buf_consume(&c->in, used);
	return good;
}

/* Reads and answers until the socket has no more, or the output waits. */
static bool serve_input(struct connection *c)
{
	struct resp_server *s = c->server;
	ssize_t got;

	do {
		got = recv(c->h.fd, s->read, READ_BYTES, 0);
		if (got < 0)
			return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
		if (got == 0)
			return false;
		if (c->in.len) {
			buf_append(&c->in, s->read, (size_t)got);
			if (!answer_kept(c))
				return false;
		} else {
			size_t used;

			if (!answer_bytes(c, s->read, (size_t)got, &used))
				return false;
			buf_append(&c->in, s->read + used, (size_t)got - used);
		}
	} while (got == READ_BYTES && !c->out.len);
	return true;
}

static bool serve_connection(struct connection *c, uint32_t events)
{
	size_t wrote;

	if (events & (EPOLLERR | EPOLLHUP))
		return false;
	if (c->out.len) {
		if (!write_some(c->h.fd, c->out.data, c->out.len, &wrote))
			return false;
		buf_consume(&c->out, wrote);
		if (wrote)
			c->since = clock_now();
		if (c->out.len)
			return true;
		buf_release(&c->out);
		if (c->end)
			return false;
		if (c->in.len && !answer_kept(c))
			return false;
	}
	return c->out.len || !(events & EPOLLIN) || serve_input(c);
}

static void on_event(void *ctx, uint32_t events)
{
	struct connection *c = ctx;
	struct resp_server *s = c->server;
	size_t before = held_by(c);
	bool good = serve_connection(c, events);
	uint32_t want = c->out.len ? EPOLLOUT : EPOLLIN;

	s->held += held_by(c) - before;
	if (!c->in.len)
		buf_release(&c->in);
	if (good && s->held > s->memory && held_by(c)) {
		if (!s->told_memory)
			log_warn(s->log,
			    "redis: clients that do not read their answers take %zu bytes (serve_memory): the "
			    "next ones that let answers wait are closed",
			    s->held);
		s->told_memory = true;
		good = false;
	}
	if (!good) {
		close_connection(c);
		return;
	}
	c->since = !held_by(c) ? 0 : c->since ? c->since : clock_now();
	if (want != c->h.events)
		loop_mod(s->loop, &c->h, want);
}

static void add_connection(struct resp_server *s, int fd)
{
	static const char full[] = "-ERR max number of clients reached\r\n";
	struct connection *c;
	struct err e;

	s->figures.received++;
	if (s->figures.connections >= s->most) {
		if (!s->told_full)
			log_warn(s->log,
			    "redis: %llu connections are open, and further ones are refused "
			    "(serve_redis_connections)",
			    (unsigned long long)s->most);
		s->told_full = true;
		s->figures.refused++;
		if (send(fd, full, sizeof full - 1, MSG_NOSIGNAL) < 0) {
			/* The client finds the connection closed. */
		}
		close(fd);
		return;
	}
	c = mem_alloc(sizeof *c);
	*c = (struct connection){ .h = { .fd = fd, .fn = on_event, .ctx = c },
		.server = s,
		.next = s->first,
		.client = { .parser = { .bulk = -1 }, .id = ++s->next_id },
		.in = BUF_INIT,
		.out = BUF_INIT };
	if (loop_add(s->loop, &c->h, EPOLLIN, &e)) {
		log_warn(s->log, "redis: %s", e.msg);
		close(fd);
		free(c);
		return;
	}
	if (s->first)
		s->first->prev = c;
	s->first = c;
	s->figures.connections++;
}

static void on_accept(void *ctx, uint32_t events)
{
	struct resp_server *s = ctx;
	int fd;

	(void)events;
	while ((fd = net_accept(s->listener.fd)) >= 0)
		add_connection(s, fd);
	if (errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM)
		return;
	s->listens = false;
	loop_mod(s->loop, &s->listener, 0);
}

/* Closes clients whose output, or the rest of whose command, has been awaited for too long. */
static void on_tick(void *ctx)
{
	struct resp_server *s = ctx;
	int64_t now = clock_now();

	for (struct connection *c = s->first, *next; c; c = next) {
		next = c->next;
		if (c->since && now - c->since > s->deadline)
			close_connection(c);
	}
	if (!s->listens) {
		s->listens = true;
		loop_mod(s->loop, &s->listener, EPOLLIN);
	}
}

static void *run_loop(void *ctx)
{
	struct resp_server *s = ctx;

	loop_run(s->loop);
	while (s->first)
		close_connection(s->first);
	served_reader_close(s->reader);
	s->reader = NULL;
	return NULL;
}

static void free_server(struct resp_server *s)
{
	if (s->listener.fd >= 0)
		close(s->listener.fd);
	if (strncmp(s->address, "unix:", 5) == 0 && s->runs)
		unlink(s->address + 5);
	served_reader_close(s->reader);
	resp_answerer_free(s->answerer);
	bearer_tokens_free(s->tokens);
	loop_free(s->loop);
	buf_release(&s->out);
	free(s->read);
	free(s);
}

enum err_code resp_server_start(const struct conf *conf, struct served *served, struct log *log,
    struct resp_server **out, struct err *e)
{
	struct resp_server *s;
	char bound[NET_TEXT];
	enum err_code rc = ERR_OK;

	*out = NULL;
	if (!conf_is_named(conf->serve_redis))
		return ERR_OK;
	s = mem_alloc(sizeof *s);
	*s = (struct resp_server){ .listener = { .fd = -1, .fn = on_accept, .ctx = s },
		.listens = true,
		.served = served,
		.most = (uint64_t)conf->serve_redis_connections,
		.deadline = conf->serve_deadline,
		.memory = conf->serve_memory,
		.out = BUF_INIT,
		.read = mem_array(READ_BYTES, 1),
		.log = log,
		.figures = { .begun = clock_now() } };
	snprintf(s->address, sizeof s->address, "%s", conf->serve_redis);
	if (conf_is_named(conf->serve_tokens) && strncmp(s->address, "unix:", 5) != 0)
		rc = bearer_tokens_open(conf->serve_tokens, &s->tokens, e);
	s->answerer = resp_answerer_new(&s->figures, strcmp(conf->serve_redis_values, "text") == 0,
	    s->tokens);
	if (!rc)
		rc = loop_new(&s->loop, e);
	if (!rc)
		rc = net_listen_control(s->address, &s->listener.fd, e)
		    ? err_prefix(e, "serve_redis")
		    : ERR_OK;
	if (!rc)
		rc = served_reader_open(served, NULL, NULL, &s->reader, e);
	if (!rc)
		rc = loop_add(s->loop, &s->listener, EPOLLIN, e);
	if (!rc) {
		loop_tick(s->loop, TICK, on_tick, s);
		rc = thread_start(&s->thread, run_loop, s, e);
	}
	if (rc) {
		free_server(s);
		return rc;
	}
	s->runs = true;
	snprintf(bound, sizeof bound, "%s", s->address);
	if (strncmp(s->address, "unix:", 5) != 0)
		net_bound(s->listener.fd, bound);
	log_info(log, "look-ups in Redis' protocol on %s%s", bound,
	    s->tokens && !conf_is_loopback(conf->serve_redis)
	        ? " (by AUTH; tokens and values are not encrypted)"
	        : "");
	*out = s;
	return ERR_OK;
}

enum err_code resp_server_reload(struct resp_server *s, struct err *e)
{
	return s->tokens ? bearer_tokens_load(s->tokens, e) : ERR_OK;
}

static void stop_loop(void *ctx)
{
	struct resp_server *s = ctx;

	loop_stop(s->loop);
}

void resp_server_stop(struct resp_server *s)
{
	if (!s)
		return;
	loop_post(s->loop, stop_loop, s);
	pthread_join(s->thread, NULL);
	free_server(s);
}

/* SPDX-License-Identifier: ISC */
#ifndef HTTP_FIXTURE_H
#define HTTP_FIXTURE_H

/* A server with some routes on TCP and on a Unix socket, for http*.c. */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sodium.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/file.h"
#include "core/json.h"
#include "core/mem.h"
#include "http/client.h"
#include "http/server.h"
#include "tap.h"

#define MS  NSEC_PER_MSEC
#define ALL (1u << ROLE_ADMIN | 1u << ROLE_MONITOR | 1u << ROLE_WORKER)

struct fixture {
	char *dir, *sock;
	struct key_pair server_keys, admin, worker;
	uint8_t psk[32];
	struct http_server *s;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	int64_t events; /* what /v1/events waits for */
	int parks;      /* times that it wanted to be parked */
	bool raced;     /* /v1/race has been called once */
	bool revoked;   /* the worker's key */
	int echoes;     /* requests that reached /v1/echo */
};

static int fx_livez(void *ctx, const struct http_request *req, struct http_answer *a)
{
	struct fixture *f = ctx;

	(void)f;
	a->json = json_pack("{s:b, s:s}", "ok", 1, "role", role_name(req->peer.role));
	return HTTP_DONE;
}

static int fx_whoami(void *ctx, const struct http_request *req, struct http_answer *a)
{
	(void)ctx;
	a->json = json_pack("{s:s, s:s, s:b}", "name", req->peer.name, "role",
	    role_name(req->peer.role), "local", req->peer.local);
	return HTTP_DONE;
}

static int fx_echo(void *ctx, const struct http_request *req, struct http_answer *a)
{
	struct fixture *f = ctx;
	const char *x = http_query(req, "x");

	pthread_mutex_lock(&f->lock);
	f->echoes++;
	pthread_mutex_unlock(&f->lock);
	a->status = 201;
	a->json = json_pack("{s:O, s:s}", "body", req->body, "x", x != NULL ? x : "(none)");
	return HTTP_DONE;
}

static int fx_events(void *ctx, const struct http_request *req, struct http_answer *a)
{
	struct fixture *f = ctx;
	const char *since = http_query(req, "since"), *ms = http_query(req, "ms");
	int64_t from = since != NULL ? strtoll(since, NULL, 10) : 0, now;

	pthread_mutex_lock(&f->lock);
	now = f->events;
	if (now <= from && !req->late) {
		f->parks++;
		pthread_cond_broadcast(&f->changed);
	}
	pthread_mutex_unlock(&f->lock);
	if (now <= from && !req->late) {
		a->park_ms = ms != NULL ? strtoll(ms, NULL, 10) : 10000;
		return HTTP_PARK;
	}
	a->json = json_pack("{s:I, s:b}", "events", (json_int_t)now, "late", req->late);
	return HTTP_DONE;
}

/* News comes between the handler's look and its parking. */
static int fx_race(void *ctx, const struct http_request *req, struct http_answer *a)
{
	struct fixture *f = ctx;
	bool first;

	pthread_mutex_lock(&f->lock);
	f->raced = !f->raced;
	first = f->raced;
	pthread_mutex_unlock(&f->lock);
	if (first) {
		http_server_kick(f->s);
		a->park_ms = 10000;
		return HTTP_PARK;
	}
	a->json = json_pack("{s:b}", "late", req->late);
	return HTTP_DONE;
}

static int fx_text(void *ctx, const struct http_request *req, struct http_answer *a)
{
	(void)ctx;
	(void)req;
	for (int i = 0; i < 40000; i++)
		buf_printf(&a->text, "pskit_metric{n=\"%d\"} 1\n", i);
	return HTTP_DONE;
}

static int fx_page(void *ctx, const struct http_request *req, struct http_answer *a)
{
	(void)ctx;
	(void)req;
	buf_puts(&a->text, "<!doctype html>");
	a->content_type = "text/html; charset=utf-8";
	a->csp = "default-src 'self'";
	return HTTP_DONE;
}

#define FX_BIG (32u << 20) /* bytes; many times as much as the sockets of a connection hold */

static int fx_big(void *ctx, const struct http_request *req, struct http_answer *a)
{
	static char big[FX_BIG];

	(void)ctx;
	(void)req;
	a->fixed = big;
	a->fixed_len = sizeof(big);
	return HTTP_DONE;
}

static int fx_fenced(void *ctx, const struct http_request *req, struct http_answer *a)
{
	(void)ctx;
	(void)req;
	http_fail(a, ERR_FENCED, "start again", "rank %d is taken over \xff", 3);
	return HTTP_DONE;
}

static const struct http_route fx_routes[] = {
	{ "GET", "/livez", 0, HTTP_OPEN, fx_livez, "alive?" },
	{ "GET", "/", 0, HTTP_OPEN, fx_page, "the page" },
	{ "GET", "/big", 0, HTTP_OPEN, fx_big, "a large page" },
	{ "GET", "/v1/whoami", ALL, HTTP_TOKEN_OK, fx_whoami, "who asks" },
	{ "POST", "/v1/echo", 1u << ROLE_ADMIN, 0, fx_echo, "say it again" },
	{ "GET", "/v1/secret", 1u << ROLE_ADMIN, HTTP_LOCAL_ONLY, fx_whoami, "a secret" },
	{ "POST", "/v1/join", 1u << ROLE_WORKER, 0, fx_whoami, "workers" },
	{ "GET", "/v1/join", ALL, 0, fx_whoami, "workers" },
	{ "GET", "/v1/events", ALL, 0, fx_events, "wait" },
	{ "GET", "/v1/race", ALL, 0, fx_race, "a narrow race" },
	{ "GET", "/v1/fenced", ALL, 0, fx_fenced, "an error" },
	{ "GET", "/metrics", ALL, HTTP_TOKEN_OK, fx_text, "text" },
};

static bool fx_find_key(void *ctx, const uint8_t pk[KEY_BYTES], struct http_peer *peer)
{
	struct fixture *f = ctx;
	bool revoked;

	pthread_mutex_lock(&f->lock);
	revoked = f->revoked;
	pthread_mutex_unlock(&f->lock);
	if (memcmp(pk, f->admin.pk, KEY_BYTES) == 0)
		peer->role = ROLE_ADMIN;
	else if (!revoked && memcmp(pk, f->worker.pk, KEY_BYTES) == 0)
		peer->role = ROLE_WORKER;
	else
		return false;
	snprintf(peer->name, sizeof(peer->name), "%s", role_name(peer->role));
	return true;
}

static bool fx_find_token(void *ctx, const char *token, struct http_peer *peer)
{
	(void)ctx;
	if (strcmp(token, "letmesee") != 0)
		return false;
	peer->role = ROLE_MONITOR;
	snprintf(peer->name, sizeof(peer->name), "grafana");
	return true;
}

static struct http_server_config fx_config(struct fixture *f)
{
	struct http_server_config cfg = {
		.unix_path = f->sock,
		.tcp_addr = "127.0.0.1:0",
		.routes = fx_routes,
		.nroutes = sizeof(fx_routes) / sizeof(fx_routes[0]),
		.ctx = f,
		.keys = f->server_keys,
		.find_key = fx_find_key,
		.find_token = fx_find_token,
	};

	memcpy(cfg.psk, f->psk, sizeof(cfg.psk));
	return cfg;
}

/* Keys and a directory, no server yet. */
static void fx_init(struct fixture *f)
{
	char name[] = "/tmp/http-test-XXXXXX";

	memset(f, 0, sizeof(*f));
	if (key_init(NULL) != ERR_OK || mkdtemp(name) == NULL)
		abort();
	f->dir = mem_strdup(name);
	f->sock = path_join(f->dir, "ctl.sock");
	key_pair_generate(&f->server_keys);
	key_pair_generate(&f->admin);
	key_pair_generate(&f->worker);
	randombytes_buf(f->psk, sizeof(f->psk));
	pthread_mutex_init(&f->lock, NULL);
	pthread_cond_init(&f->changed, NULL);
}

static void fx_start(struct fixture *f, const struct http_server_config *cfg)
{
	struct err e = { .code = ERR_OK };

	if (http_server_listen(cfg, &f->s, &e) != ERR_OK || http_server_run(f->s, &e) != ERR_OK) {
		printf("Bail out! %s\n", e.msg);
		abort();
	}
}

static void fx_release(struct fixture *f)
{
	http_server_stop(f->s);
	file_remove_tree(f->dir, NULL);
	pthread_cond_destroy(&f->changed);
	pthread_mutex_destroy(&f->lock);
	free(f->sock);
	free(f->dir);
}

__attribute__((unused)) static struct http_client *fx_client(struct fixture *f, const char *addr,
    const struct key_pair *keys)
{
	struct http_target t = { .addr = addr };
	struct http_client *c = NULL;
	struct err e;

	if (addr == NULL)
		t.unix_path = f->sock;
	if (keys != NULL) {
		t.keys = keys;
		t.psk = f->psk;
		t.server_pk = f->server_keys.pk;
	}
	if (http_client_new(&t, &c, &e) != ERR_OK) {
		printf("Bail out! %s\n", e.msg);
		abort();
	}
	return c;
}

/* body is consumed; e is cleared first. */
__attribute__((unused)) static enum err_code fx_call(struct http_client *c, const char *method,
    const char *target, json_t *body, int *status, json_t **reply, struct err *e)
{
	enum err_code rc;

	memset(e, 0, sizeof(*e));
	rc = http_call(c, method, target, body, 20 * NSEC_PER_SEC, status, reply, e);
	json_decref(body);
	return rc;
}

/* A connection to the server's TCP port, and what comes back until it hangs up. */
__attribute__((unused)) static int fx_connect_from(const struct fixture *f, const char *ip)
{
	struct sockaddr_in in = { .sin_family = AF_INET };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	inet_pton(AF_INET, ip, &in.sin_addr);
	if (fd < 0 || bind(fd, (struct sockaddr *)&in, sizeof(in)) != 0)
		abort();

	in.sin_port = htons(http_server_port(f->s));
	in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd < 0 || connect(fd, (struct sockaddr *)&in, sizeof(in)) != 0)
		abort();
	return fd;
}

__attribute__((unused)) static int fx_connect(const struct fixture *f)
{
	return fx_connect_from(f, "127.0.0.1");
}

__attribute__((unused)) static void fx_read_all(int fd, struct buf *out)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	ssize_t n;

	while (poll(&p, 1, 10000) > 0) {
		n = recv(fd, buf_reserve(out, 4096), 4096, 0);
		if (n <= 0)
			return;
		buf_commit(out, (size_t)n);
	}
	buf_puts(out, "(never hung up)");
}

/* NUL-terminated, like any text buffer; "" when nothing came. */
__attribute__((unused)) static const char *fx_text_of(const struct buf *b)
{
	return b->data != NULL ? (const char *)b->data : "";
}

__attribute__((unused)) static int fx_answers(const struct buf *b)
{
	int n = 0;

	/* Pages of libmicrohttpd's own speak of HTTP/1.1 in words. */
	for (const char *p = fx_text_of(b); (p = strstr(p, "HTTP/1.1 ")) != NULL; p++)
		n += p[9] >= '1' && p[9] <= '5';
	return n;
}

__attribute__((unused)) static int fx_status(const struct buf *b)
{
	const char *p = strstr(fx_text_of(b), "HTTP/1.1 ");

	return p != NULL ? (int)strtol(p + 9, NULL, 10) : 0;
}

#endif

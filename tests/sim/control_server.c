/* SPDX-License-Identifier: ISC */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/mem.h"
#include "core/thread.h"
#include "http/args.h"
#include "http/client.h"
#include "http/server.h"
#include "tests/sim/control.h"
#include "serving/predict_http.h"

/* In place of lib/net/http's listeners: requests arrive as text, of the local administrator. */

struct parked {
	uint64_t id;
	char *method, *path;
	json_t *body;
	struct http_args args;
	uint64_t memo;
	int64_t until, began;
	struct parked *next;
};

struct http_server {
	struct http_server_config cfg;
	unsigned control;
	pthread_t thread;
	bool running;
	_Atomic bool stop, kicked;
	struct parked *parked;
};

enum err_code http_server_listen(const struct http_server_config *cfg, struct http_server **out,
    struct err *e)
{
	struct http_server *s = mem_alloc(sizeof *s);

	(void)e;
	memset(s, 0, sizeof *s);
	s->cfg = *cfg;
	s->control = sim_control_open();
	*out = s;
	return ERR_OK;
}

static void free_request(struct parked *p)
{
	free(p->method);
	free(p->path);
	json_decref(p->body);
	http_args_release(&p->args);
	free(p);
}

/* Calls the handler. True: it has answered; false: it parks the request. */
static bool try_request(struct http_server *s, struct parked *p, bool late)
{
	struct http_answer a = { 0 };
	const struct http_route *route = NULL;
	int how = HTTP_DONE;
	char *text;

	for (size_t i = 0; i < s->cfg.nroutes && !route; i++)
		if (strcmp(s->cfg.routes[i].method, p->method) == 0 &&
		    strcmp(s->cfg.routes[i].path, p->path) == 0)
			route = &s->cfg.routes[i];
	if (!route) {
		http_fail(&a, ERR_NOTFOUND, NULL, "there is no %s %s", p->method, p->path);
	} else {
		struct http_request req = { .method = p->method,
			.path = p->path,
			.peer = { .local = true, .role = ROLE_ADMIN },
			.body = p->body,
			.memo = &p->memo,
			.late = late,
			.args = &p->args };

		how = route->fn(s->cfg.ctx, &req, &a);
	}
	if (how == HTTP_PARK && !late) {
		p->until = p->began + a.park_ms * NSEC_PER_MSEC;
		http_answer_release(&a);
		return false;
	}
	text = a.json ? json_dumps(a.json, JSON_COMPACT) : mem_strdup("");
	sim_control_answer(p->id, a.status ? a.status : 200, text);
	free(text);
	http_answer_release(&a);
	return true;
}

static void take_request(struct http_server *s, const struct sim_request *r)
{
	struct parked *p = mem_alloc(sizeof *p);
	const char *mark = strchr(r->target, '?');
	struct err e;

	memset(p, 0, sizeof *p);
	p->id = r->id;
	p->method = mem_strdup(r->method);
	p->path = mark ? mem_printf("%.*s", (int)(mark - r->target), r->target)
	               : mem_strdup(r->target);
	p->body = r->body ? json_loads(r->body, 0, NULL) : NULL;
	if (!p->body && strcmp(r->method, "POST") == 0)
		p->body = json_object();
	p->began = clock_now();
	if (http_args_parse(&p->args, mark ? mark + 1 : "", &e) || try_request(s, p, false)) {
		free_request(p);
		return;
	}
	p->next = s->parked;
	s->parked = p;
}

static void look_at_parked(struct http_server *s, bool again, bool late)
{
	struct parked *list = s->parked;

	s->parked = NULL;
	while (list) {
		struct parked *p = list;
		bool over = late || clock_now() >= p->until;

		list = p->next;
		if ((again || over) && try_request(s, p, over)) {
			free_request(p);
		} else {
			p->next = s->parked;
			s->parked = p;
		}
	}
}

static void *serve_control(void *ctx)
{
	struct http_server *s = ctx;

	while (!s->stop) {
		int64_t until = INT64_MAX;
		const struct sim_request *r;

		for (struct parked *p = s->parked; p; p = p->next)
			if (p->until < until)
				until = p->until;
		r = sim_control_take(s->control, until);
		if (r)
			take_request(s, r);
		look_at_parked(s, atomic_exchange(&s->kicked, false), false);
	}
	look_at_parked(s, true, true);
	return NULL;
}

enum err_code http_server_run(struct http_server *s, struct err *e)
{
	enum err_code rc = thread_start(&s->thread, serve_control, s, e);

	s->running = !rc;
	return rc;
}

void http_server_stop(struct http_server *s)
{
	if (!s)
		return;
	s->stop = true;
	sim_control_nudge(s->control);
	if (s->running)
		pthread_join(s->thread, NULL);
	sim_control_close(s->control);
	if (s->cfg.tcp_fd)
		close(s->cfg.tcp_fd);
	free(s);
}

void http_server_kick(struct http_server *s)
{
	s->kicked = true;
	sim_control_nudge(s->control);
}

void http_server_secrets(struct http_server *s, const uint8_t psk[static KEY_BYTES],
    const uint8_t before[static KEY_BYTES], int64_t until)
{
	(void)s;
	(void)psk;
	(void)before;
	(void)until;
}

uint16_t http_server_port(const struct http_server *s)
{
	(void)s;
	return 1;
}

const char *http_server_address(const struct http_server *s)
{
	return s->cfg.tcp_addr ? "127.0.0.1:1" : s->cfg.unix_path;
}

void http_server_loopback(const struct http_server *s, char out[static 64])
{
	(void)s;
	snprintf(out, 64, "127.0.0.1:1");
}

const char *http_query(const struct http_request *req, const char *key)
{
	return http_args_get(req->args, key);
}

uint64_t http_server_refused(const struct http_server *s)
{
	(void)s;
	return 0;
}

/* The endpoint for predictions is not simulated either: no simulated cluster has one. */
enum err_code predict_http_start(const struct conf *conf, struct served *served, struct log *log,
    struct predict_http **out, struct err *e)
{
	(void)conf;
	(void)served;
	(void)log;
	*out = NULL;
	return err_set(e, ERR_UNSUPPORTED, "serve_http is not simulated");
}

enum err_code predict_http_reload(struct predict_http *h, struct err *e)
{
	(void)h;
	(void)e;
	return ERR_OK;
}

void predict_http_stop(struct predict_http *h)
{
	(void)h;
}

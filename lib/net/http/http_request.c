/* SPDX-License-Identifier: ISC */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/clock.h"
#include "core/json.h"
#include "core/mem.h"
#include "http/state.h"

static struct http_conn *conn_of(struct MHD_Connection *mhd)
{
	return MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
}

static void release_exchange(struct http_exchange *x)
{
	free(x->uri);
	free(x->token);
	buf_release(&x->body);
	json_decref(x->json);
	http_args_release(&x->args);
	memset(x, 0, sizeof(*x));
}

/* The only callback that sees the target as it was sent. Signatures are over that text. */
void *http_request_uri(void *listener, const char *uri, struct MHD_Connection *mhd)
{
	struct http_conn *c = conn_of(mhd);
	struct http_exchange *x;

	(void)listener;
	if (c == NULL)
		return NULL;
	x = &c->x;
	release_exchange(x);
	x->uri = mem_strdup(uri != NULL ? uri : "");
	x->query = x->uri + strlen(x->uri);
	return c;
}

void http_request_done(void *listener, struct MHD_Connection *mhd, void **context,
    enum MHD_RequestTerminationCode why)
{
	struct http_conn *c = *context;

	(void)listener;
	(void)mhd;
	(void)why;
	if (c == NULL)
		return;
	release_exchange(&c->x);
	http_conns_phase(c, HTTP_ARRIVING, clock_now() + c->l->s->request_timeout);
	*context = NULL;
}

const char *http_query(const struct http_request *req, const char *key)
{
	return http_args_get(req->args, key);
}

/* Refuse a malformed or unauthorised request without reading the rest of it. */
static enum MHD_Result turn_away(struct http_conn *c, const char *method, int status,
    const struct err *why, const char *hint)
{
	struct http_answer a = { .status = 0 };

	http_fail_err(&a, why, hint);
	if (status != 0)
		a.status = status;
	http_refused(c, why->msg);
	return http_reply(c, method, &a, NULL, true);
}

/* The user follows a link to a page of ours; the requests of that page then come from it. */
static bool is_link(const struct http_conn *c, const struct http_head *h, const char *method)
{
	return h->mode != NULL && strcmp(h->mode, "navigate") == 0 &&
	    http_access_is_linked(c->l->s, method, c->x.uri);
}

/* Refuses requests for another host name and requests that a web page of another site has
 * caused. Clients that are not browsers send neither Origin nor Sec-Fetch-Site, and pass.
 * ERR_PROTO, ERR_FORBIDDEN. */
static enum err_code check_origin(const struct http_conn *c, const struct http_head *h,
    const char *method, struct err *e)
{
	if (!http_host_is_ours(&c->l->bound, h->host))
		return err_set(e, ERR_PROTO, "the Host header is \"%s\", but this server is %s",
		    h->host, c->l->bound.text);
	if (h->origin != NULL &&
	    (strncmp(h->origin, "http://", 7) != 0 || strcasecmp(h->origin + 7, h->host) != 0))
		return err_set(e, ERR_FORBIDDEN, "the request was made by a page of %s", h->origin);
	if (h->site != NULL && strcmp(h->site, "same-origin") != 0 &&
	    strcmp(h->site, "none") != 0 && !is_link(c, h, method))
		return err_set(e, ERR_FORBIDDEN, "the request was made by a page of another site");
	return ERR_OK;
}

static bool is_json_type(const char *type)
{
	static const char json[] = "application/json";

	return type != NULL && strncasecmp(type, json, sizeof(json) - 1) == 0 &&
	    (type[sizeof(json) - 1] == '\0' || type[sizeof(json) - 1] == ';' ||
	        type[sizeof(json) - 1] == ' ');
}

/* "gzip, deflate, br", or with weights, where weight 0 means no. */
static bool takes_gzip(const char *encodings)
{
	const char *at = encodings != NULL ? strcasestr(encodings, "gzip") : NULL;

	return at != NULL && strncmp(at + 4, ";q=0", 4) != 0;
}

/* Handle the headers, before the body arrives. */
static enum MHD_Result begin_request(struct http_conn *c, const char *method, const char *version)
{
	struct http_exchange *x = &c->x;
	struct err e = { .code = ERR_OK };
	struct http_head h;
	char *mark;

	http_guard_read(c->mhd, version, x->uri, &h);
	if (h.fault != NULL) {
		err_set(&e, ERR_PROTO, "malformed request: %s", h.fault);
		return turn_away(c, method, 0, &e, NULL);
	}
	snprintf(x->host, sizeof(x->host), "%s", h.host);
	x->is_json = is_json_type(h.content_type);
	x->takes_gzip = takes_gzip(h.encodings);
	mark = strchr(x->uri, '?');
	if (mark != NULL) {
		*mark = '\0';
		x->query = mark + 1;
	}
	if (check_origin(c, &h, method, &e) != ERR_OK)
		return turn_away(c, method, 0, &e, NULL);
	if (http_access_claim(c, &h, method, &e) != ERR_OK)
		return turn_away(c, method, 0, &e,
		    x->session ? NULL : "use the run directory's socket, or a join file");
	if (h.content_length > 0 && strcmp(method, "GET") == 0) {
		err_set(&e, ERR_PROTO, "malformed request: GET with a body");
		return turn_away(c, method, 0, &e, NULL);
	}
	if (h.content_length > HTTP_BODY_MAX) {
		err_set(&e, ERR_LIMIT, "a body of %lld bytes is too large: at most %d",
		    (long long)h.content_length, HTTP_BODY_MAX);
		return turn_away(c, method, 413, &e, NULL);
	}
	return MHD_YES;
}

static enum MHD_Result reply_err(struct http_conn *c, const char *method, const struct err *e,
    int status)
{
	struct http_answer a = { .status = 0 };

	http_fail_err(&a, e, NULL);
	if (status != 0)
		a.status = status;
	return http_reply(c, method, &a, NULL, false);
}

/* Call the handler until it is done or parked. */
static enum MHD_Result run_handler(struct http_conn *c, const char *method)
{
	struct http_exchange *x = &c->x;
	struct http_server *s = c->l->s;
	struct http_request req = {
		.method = x->route->method,
		.path = x->route->path,
		.peer = x->peer,
		.body = x->json,
		.args = &x->args,
		.memo = &x->memo,
		.session = x->session ? x->token : NULL,
		.takes_gzip = x->takes_gzip,
	};

	for (;;) {
		struct http_answer a = { .status = 0 };
		int64_t park_ms;
		uint64_t seen;
		enum http_park how;
		struct err e;

		if (x->park_until != 0 && http_access_again(c, &e) != ERR_OK)
			return turn_away(c, method, 0, &e, NULL);
		mutex_lock(&s->lock);
		seen = s->kicks;
		req.late = c->late || s->stopping;
		mutex_unlock(&s->lock);
		if (x->route->fn(s->cfg.ctx, &req, &a) != HTTP_PARK)
			return http_reply(c, method, &a, NULL, false);
		park_ms = a.park_ms < HTTP_PARK_MAX_MS ? a.park_ms : HTTP_PARK_MAX_MS;
		http_answer_release(&a);
		if (req.late) {
			http_fail(&a, ERR_TIMEOUT, NULL, "%s took too long to answer", req.path);
			return http_reply(c, method, &a, NULL, false);
		}
		if (x->park_until == 0)
			x->park_until = clock_now() + park_ms * NSEC_PER_MSEC;
		how = http_conns_park(c, x->park_until, seen);
		if (how == HTTP_PARK_HELD)
			return MHD_YES;
		if (how == HTTP_PARK_FULL) {
			http_fail(&a, ERR_LIMIT, "ask again later, or poll less often",
			    "too many requests are waiting here");
			return http_reply(c, method, &a, NULL, false);
		}
	}
}

/* Returns the value of the Allow header for a path, as a constant. Call it only for a path that
 * has a route. */
static const char *allow_of(const struct http_server *s, const char *path)
{
	bool get = false, post = false;

	for (size_t i = 0; i < s->cfg.nroutes; i++)
		if (strcmp(s->cfg.routes[i].path, path) == 0) {
			get = get || strcmp(s->cfg.routes[i].method, "GET") == 0;
			post = post || strcmp(s->cfg.routes[i].method, "POST") == 0;
		}
	return get && post ? "GET, POST" : get ? "GET" : "POST";
}

/* Parses the body into x->json, which the exchange owns. An empty body counts as an empty object
 * for a POST and as none for a GET. x->route must be set, and e must not be NULL. */
static enum err_code parse_body(struct http_exchange *x, struct err *e)
{
	if (x->body.len == 0) {
		x->json = strcmp(x->route->method, "POST") == 0 ? json_object() : NULL;
		return ERR_OK;
	}
	x->json = json_parse((const char *)x->body.data, x->body.len, HTTP_BODY_MAX, e);
	if (x->json == NULL)
		return e->code != ERR_OK ? e->code : err_set(e, ERR_FORMAT, "the body is not JSON");
	if (!json_is_object(x->json))
		return err_set(e, ERR_FORMAT, "the body must be a JSON object");
	return ERR_OK;
}

/* Check and parse the request when it has first arrived as a whole. */
static enum MHD_Result check_whole_request(struct http_conn *c, const char *method)
{
	struct http_exchange *x = &c->x;
	struct http_answer a = { .status = 0 };
	struct err e = { .code = ERR_OK };

	http_conns_phase(c, HTTP_BUSY, 0);
	if (x->claimed) {
		enum err_code rc = http_access_verify(c, method, &e);

		/* Only a peer with a right signature gets these two errors. Any holder of a known
		 * key may learn the difference of the clocks. */
		x->verified = rc == ERR_OK || rc == ERR_STALE || rc == ERR_LIMIT;
		if (rc == ERR_STALE)
			return reply_err(c, method, &e, 401);
		if (rc == ERR_LIMIT)
			return reply_err(c, method, &e, 0);
		if (rc != ERR_OK) {
			char stamp[32], hint[64];

			clock_stamp(stamp);
			snprintf(hint, sizeof(hint), "the server's time is %s", stamp);
			return turn_away(c, method, 0, &e, hint);
		}
	}
	if (!http_access_route(c, method, &a))
		return http_reply(c, method, &a, a.status == 405 ? allow_of(c->l->s, x->uri) : NULL,
		    false);
	if (x->body.len > 0 && !x->is_json) {
		err_set(&e, ERR_UNSUPPORTED, "a body requires Content-Type: application/json");
		return reply_err(c, method, &e, 415);
	}
	if (http_args_parse(&x->args, x->query, &e) != ERR_OK || parse_body(x, &e) != ERR_OK)
		return reply_err(c, method, &e, 0);
	x->ready = true;
	return run_handler(c, method);
}

enum MHD_Result http_request_step(void *listener, struct MHD_Connection *mhd, const char *url,
    const char *method, const char *version, const char *upload, size_t *upload_size,
    void **context)
{
	struct http_conn *c = *context;

	(void)listener;
	(void)mhd;
	(void)url;
	if (c == NULL)
		return MHD_NO;
	if (!c->x.begun) {
		c->x.begun = true;
		return begin_request(c, method, version);
	}
	if (*upload_size > 0) {
		/* The guard has checked Content-Length already; check the actual bytes, too. */
		if (c->x.body.len + *upload_size > HTTP_BODY_MAX)
			return MHD_NO;
		buf_append(&c->x.body, upload, *upload_size);
		*upload_size = 0;
		return MHD_YES;
	}
	return c->x.ready ? run_handler(c, method) : check_whole_request(c, method);
}

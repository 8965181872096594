/* SPDX-License-Identifier: ISC */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/clock.h"
#include "core/json.h"
#include "core/mem.h"
#include "core/num.h"
#include "serving/endpoint_state.h"
#include "serving/lazy_gnutls.h"

/* Exchanges that are kept, and the size of their bodies. */
#define KEEP_BODY 65536u

static struct http_exchange *exchange_new(struct endpoint *ep)
{
	struct http_exchange *x = ep->free;

	if (!x)
		return mem_alloc(sizeof *x);
	ep->free = x->next_free;
	x->next_free = NULL;
	return x;
}

static void exchange_release(struct http_exchange *x)
{
	struct endpoint *ep = x->ep;
	struct buf body = x->body, answer = x->answer.body;

	ep->memory -= x->charged;
	if (x->options)
		read_options_release(x->options);
	v2_request_release(&x->v2);
	free(x->target);
	if (body.cap > KEEP_BODY)
		buf_release(&body);
	if (answer.cap > KEEP_BODY)
		buf_release(&answer);
	buf_clear(&body);
	buf_clear(&answer);
	*x = (struct http_exchange){ .body = body, .answer.body = answer, .next_free = ep->free };
	ep->free = x;
}

void exchange_free_all(struct endpoint *ep)
{
	struct http_exchange *x, *next;

	for (x = ep->free; x; x = next) {
		next = x->next_free;
		buf_release(&x->body);
		buf_release(&x->answer.body);
		free(x);
	}
	ep->free = NULL;
}

void *exchange_uri(void *ctx, const char *uri, struct MHD_Connection *mhd)
{
	struct endpoint *ep = ctx;
	struct http_exchange *x = exchange_new(ep);
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd,
	    MHD_CONNECTION_INFO_SOCKET_CONTEXT);
	char *mark;

	x->ep = ep;
	x->mhd = mhd;
	x->conn = info ? info->socket_context : NULL;
	x->target = mem_strdup(uri);
	mark = strchr(x->target, '?');
	x->query = mark ? mark + 1 : "";
	if (mark)
		*mark = '\0';
	return x;
}

void exchange_done(void *ctx, struct MHD_Connection *mhd, void **own,
    enum MHD_RequestTerminationCode why)
{
	struct http_exchange *x = *own;

	(void)ctx;
	(void)mhd;
	(void)why;
	if (!x)
		return;
	if (x->conn && x->conn->phase != CONN_DOOMED)
		endpoint_set_phase(x->conn, CONN_IDLE);
	exchange_release(x);
	*own = NULL;
}

/* ---- answers ---- */

static int status_of(enum err_code code)
{
	switch (code) {
	case ERR_USAGE:
	case ERR_CONFIG:
	case ERR_FORMAT:
	case ERR_NONFINITE:
		return 400;
	case ERR_AUTH:
		return 401;
	case ERR_FORBIDDEN:
		return 403;
	case ERR_NOTFOUND:
		return 404;
	case ERR_LIMIT:
		return 413;
	case ERR_UNSUPPORTED:
		return 501;
	case ERR_NOTREADY:
	case ERR_TIMEOUT:
	case ERR_UNREACH:
	case ERR_STOPPED:
		return 503;
	case ERR_NOMEM:
		return 429;
	default:
		return 500;
	}
}

void exchange_fail(struct http_exchange *x, int status, const struct err *e)
{
	json_t *o = json_pack("{s:o}", "error", json_of_text(e->msg));
	char *text = json_text(o);

	x->answer.status = status ? status : status_of(e->code);
	x->answer.type = "application/json";
	x->answer.scored = false;
	x->answer.json_length = 0;
	x->answer.retry = x->answer.status == 429 || x->answer.status == 503;
	buf_clear(&x->answer.body);
	buf_printf(&x->answer.body, "%s\n", text);
	free(text);
	json_decref(o);
}

__attribute__((format(printf, 3, 4))) static void fail_with(struct http_exchange *x, int status,
    const char *fmt, ...)
{
	struct err e = { 0 };
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(e.msg, sizeof e.msg, fmt, ap);
	va_end(ap);
	exchange_fail(x, status, &e);
}

static void add_headers(const struct http_exchange *x, struct MHD_Response *r)
{
	const struct serve_answer *a = &x->answer;
	char text[200];

	MHD_add_response_header(r, "Content-Type", a->type);
	if (a->scored) {
		snprintf(text, sizeof text, "%.100s/%s", x->ep->name, a->version);
		MHD_add_response_header(r, "Pskit-Model", text);
		if (a->age >= 0) {
			snprintf(text, sizeof text, "%.3f", a->age);
			MHD_add_response_header(r, "Pskit-Age", text);
		}
	}
	if (a->json_length) {
		snprintf(text, sizeof text, "%zu", a->json_length);
		MHD_add_response_header(r, "Inference-Header-Content-Length", text);
	}
	if (a->allow)
		MHD_add_response_header(r, "Allow", a->allow);
	if (a->retry)
		MHD_add_response_header(r, "Retry-After", "1");
	if (a->status == 401)
		MHD_add_response_header(r, "WWW-Authenticate", "Bearer");
	if (a->close || atomic_load_explicit(&x->ep->stop, memory_order_relaxed))
		MHD_add_response_header(r, "Connection", "close");
}

/* Sends the answer. Its text stays with the exchange until exchange_done. */
static enum MHD_Result send_answer(struct http_exchange *x)
{
	struct serve_answer *a = &x->answer;
	struct MHD_Response *r = MHD_create_response_from_buffer(a->body.len,
	    a->body.data ? (char *)a->body.data : (char *)(uintptr_t) "", MHD_RESPMEM_PERSISTENT);
	enum MHD_Result good;

	if (!r)
		return MHD_NO;
	add_headers(x, r);
	good = MHD_queue_response(x->mhd, (unsigned)a->status, r);
	MHD_destroy_response(r);
	atomic_fetch_add_explicit(&x->ep->metrics.code[a->status], 1, memory_order_relaxed);
	endpoint_set_phase(x->conn, CONN_WRITING);
	return good;
}

/* ---- a request begins ---- */

/* May this client use the endpoint? */
static bool is_admitted(struct http_exchange *x, const struct http_head *head)
{
	struct endpoint *ep = x->ep;
	const char *auth = head->authorization;

	if (ep->open || x->route->open)
		return true;
	if (ep->client_certificates && gnutls_peer_is_verified(x->mhd))
		return true;
	if (ep->tokens && auth && strncasecmp(auth, "Bearer ", 7) == 0 &&
	    bearer_tokens_have(ep->tokens, auth + 7))
		return true;
	fail_with(x, 401, "%s",
	    !ep->tokens ? "this endpoint requires a client certificate"
	        : auth  ? "this bearer token is not known here"
	                : "this endpoint requires a bearer token: Authorization: Bearer TOKEN");
	return false;
}

static bool has_room_for_body(struct http_exchange *x, const char *method,
    const struct http_head *head)
{
	const struct endpoint *ep = x->ep;

	if (strcmp(method, "POST") != 0 && head->content_length <= 0)
		return true;
	if (head->content_length < 0) {
		fail_with(x, 411, "a request with a body needs Content-Length");
		return false;
	}
	if ((uint64_t)head->content_length > ep->limits.body) {
		fail_with(x, 413, "the body has %lld bytes, and %zu are allowed (serve_body)",
		    (long long)head->content_length, ep->limits.body);
		return false;
	}
	if (ep->memory + (size_t)head->content_length > ep->limits.memory) {
		fail_with(x, 429, "too many requests at a time: their bodies fill serve_memory");
		return false;
	}
	return true;
}

/* Checks all that the headers say. False: the answer is there. */
static bool accept_head(struct http_exchange *x, const char *method, const char *version)
{
	struct http_head head;
	const char *encoding;

	http_guard_read(x->mhd, version, x->target, &head);
	if (head.fault) {
		fail_with(x, head.transfer_encoded ? 411 : 400, "%s", head.fault);
		return false;
	}
	if (atomic_load_explicit(&x->ep->stop, memory_order_relaxed)) {
		fail_with(x, 503, "this server is ending");
		return false;
	}
	if (x->ep->open && !x->ep->bound.local && !http_host_is_ours(&x->ep->bound, head.host)) {
		fail_with(x, 403, "the Host header names another server");
		return false;
	}
	x->route = route_find(x->ep, method, x->target, &x->answer.allow);
	if (!x->route) {
		if (x->answer.allow)
			fail_with(x, 405, "%.20s is not allowed here: use %s", method,
			    x->answer.allow);
		else
			fail_with(x, 404, "there is no %.200s", x->target);
		return false;
	}
	encoding = MHD_lookup_connection_value(x->mhd, MHD_HEADER_KIND, "Content-Encoding");
	if (encoding && strcasecmp(encoding, "identity") != 0) {
		fail_with(x, 415, "Content-Encoding is not supported: send the body as it is");
		return false;
	}
	return is_admitted(x, &head) && has_room_for_body(x, method, &head);
}

static enum MHD_Result begin_request(struct http_exchange *x, const char *method,
    const char *version)
{
	x->begun = true;
	if (!accept_head(x, method, version)) {
		x->answer.close = x->answer.status != 404 && x->answer.status != 405;
		return send_answer(x);
	}
	endpoint_set_phase(x->conn, CONN_READING);
	return MHD_YES;
}

static enum MHD_Result take_body(struct http_exchange *x, const char *bytes, size_t n)
{
	/* The client cannot send more than it has declared: libmicrohttpd sees to that. It takes an
	 * answer only before the body or after it, so the rest of a refused body is dropped. */
	if (x->answer.status)
		return MHD_YES;
	if (endpoint_charge(x, n)) {
		buf_append(&x->body, bytes, n);
		return MHD_YES;
	}
	fail_with(x, 429, "too many requests at a time: their bodies fill serve_memory");
	x->answer.close = true;
	return MHD_YES;
}

/* All of the request is here: it waits for its batch or its thread. */
static enum MHD_Result complete_request(struct http_exchange *x)
{
	struct err e = { 0 };

	x->complete = clock_now();
	if (x->route->answer) {
		x->route->answer(x);
		return send_answer(x);
	}
	if (x->route->prepare(x, &e)) {
		exchange_fail(x, 0, &e);
		return send_answer(x);
	}
	endpoint_set_phase(x->conn, CONN_WAITING);
	MHD_suspend_connection(x->mhd);
	endpoint_add_request(x);
	return MHD_YES;
}

enum MHD_Result exchange_step(void *ctx, struct MHD_Connection *mhd, const char *url,
    const char *method, const char *version, const char *upload, size_t *n, void **own)
{
	struct http_exchange *x = *own;

	(void)ctx;
	(void)mhd;
	(void)url;
	if (!x->begun)
		return begin_request(x, method, version);
	if (*n) {
		size_t bytes = *n;

		*n = 0;
		return take_body(x, upload, bytes);
	}
	return x->answer.status ? send_answer(x) : complete_request(x);
}

/* SPDX-License-Identifier: ISC */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/un.h>

#include "core/clock.h"
#include "http/state.h"

/* Time for an answer to be sent, before a reader that stalls is cut off. */
#define SEND_TIMEOUT  (30 * NSEC_PER_SEC)
#define STRANGER_RATE (64u << 10) /* bytes a second at least */

#define STRICT_POLICY "default-src 'none'; frame-ancestors 'none'"

/* Describes the peer for the log: "IP:PORT", "the Unix socket", or "?" when the address cannot
 * be read any more. */
static void peer_text(const struct http_conn *c, char out[static 64])
{
	char ip[INET6_ADDRSTRLEN] = "?";
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);

	memset(&ss, 0, sizeof(ss));
	if (!c->l->bound.local)
		getpeername(c->fd, (struct sockaddr *)&ss, &len);
	if (ss.ss_family == AF_INET) {
		const struct sockaddr_in *in = (const void *)&ss;

		inet_ntop(AF_INET, &in->sin_addr, ip, sizeof(ip));
		snprintf(out, 64, "%s:%u", ip, ntohs(in->sin_port));
	} else if (ss.ss_family == AF_INET6) {
		const struct sockaddr_in6 *in6 = (const void *)&ss;

		inet_ntop(AF_INET6, &in6->sin6_addr, ip, sizeof(ip));
		snprintf(out, 64, "[%s]:%u", ip, ntohs(in6->sin6_port));
	} else {
		snprintf(out, 64, "%s", c->l->bound.local ? "the Unix socket" : "?");
	}
}

void http_refused(struct http_conn *c, const char *why)
{
	struct http_server *s = c->l->s;
	char who[64], safe[400];
	uint32_t n;

	atomic_fetch_add_explicit(&s->refused, 1, memory_order_relaxed);
	if (s->cfg.log == NULL || (n = log_allowed(&s->limit, 10)) == 0)
		return;
	peer_text(c, who);
	log_escape(safe, sizeof(safe), why, strlen(why));
	if (n > 1)
		log_warn(s->cfg.log, "http: refused %s: %s (and %u more, not shown)", who, safe,
		    n - 1);
	else
		log_warn(s->cfg.log, "http: refused %s: %s", who, safe);
}

/* The body, from malloc, or NULL; releases the answer. */
static char *render_body(const struct http_exchange *x, struct http_answer *a, size_t *n)
{
	bool pretty = http_args_get(&x->args, "pretty") != NULL;
	char *text;

	if (a->json == NULL) {
		text = (char *)a->text.data;
		*n = a->text.len;
		memset(&a->text, 0, sizeof(a->text));
		return text;
	}
	text = json_dumps(a->json, pretty ? JSON_INDENT(2) : JSON_COMPACT);
	*n = text != NULL ? strlen(text) : 0;
	/* The newline replaces the final NUL. */
	if (text != NULL)
		text[(*n)++] = '\n';
	return text;
}

/* Adds the signature header, which covers the answer's status and body and the request it
 * belongs to. x->key and x->head come from the claimed request. Only the boot id needs auth_lock,
 * which is released before the signature is computed. If signing fails, the answer goes out
 * unsigned, and the client does not trust it. */
static void sign_answer(const struct http_conn *c, const char *method, int status, const char *body,
    size_t n, struct MHD_Response *r)
{
	const struct http_exchange *x = &c->x;
	struct http_server *s = c->l->s;
	struct httpsig_msg m = {
		.method = method,
		.path = x->uri,
		.query = x->query,
		.host = x->host,
		.body = body,
		.body_len = n,
		.status = status,
	};
	uint8_t boot[REPLAY_BOOT_BYTES];
	char value[HTTPSIG_TEXT];

	mutex_lock(&s->auth_lock);
	memcpy(boot, replay_boot(s->replay), sizeof(boot));
	mutex_unlock(&s->auth_lock);
	if (httpsig_sign_answer(x->key, &m, &x->head, boot, clock_wall() / NSEC_PER_SEC, value,
	        NULL) == ERR_OK)
		MHD_add_response_header(r, "PS1-Signature", value);
}

/* Adds the headers that every answer has. They keep answers out of caches and out of frames of
 * other pages. A content type given by the handler counts only for text, and an encoding only for a
 * fixed body. */
static void add_headers(struct MHD_Response *r, const struct http_answer *a, int status)
{
	const char *type = "application/json";

	if (a->json == NULL)
		type = a->content_type != NULL ? a->content_type : "text/plain; charset=utf-8";
	MHD_add_response_header(r, "Content-Type", type);
	MHD_add_response_header(r, "Cache-Control", "no-store");
	MHD_add_response_header(r, "X-Content-Type-Options", "nosniff");
	MHD_add_response_header(r, "X-Frame-Options", "DENY");
	MHD_add_response_header(r, "Content-Security-Policy",
	    a->csp != NULL ? a->csp : STRICT_POLICY);
	MHD_add_response_header(r, "Referrer-Policy", "no-referrer");
	MHD_add_response_header(r, "Cross-Origin-Resource-Policy", "same-origin");
	MHD_add_response_header(r, "Cross-Origin-Opener-Policy", "same-origin");
	if (a->fixed != NULL && a->encoding != NULL)
		MHD_add_response_header(r, "Content-Encoding", a->encoding);
	if (status == 401)
		MHD_add_response_header(r, "WWW-Authenticate", "PS1");
}

/* A stranger must read its answer at a minimum rate, because a slow connection occupies a slot. */
static int64_t send_timeout(const struct http_conn *c, size_t n)
{
	int64_t slowest = c->l->s->request_timeout + (int64_t)(n / STRANGER_RATE) * NSEC_PER_SEC;

	return c->stranger && slowest < SEND_TIMEOUT ? slowest : SEND_TIMEOUT;
}

enum MHD_Result http_reply(struct http_conn *c, const char *method, struct http_answer *a,
    const char *allow, bool close)
{
	enum MHD_Result rc = MHD_NO;
	struct MHD_Response *r;
	size_t n = a->fixed_len;
	char *body = a->fixed != NULL ? NULL : render_body(&c->x, a, &n);
	const char *sent = a->fixed != NULL ? a->fixed : body != NULL ? body : "";
	int status = a->status != 0 ? a->status : 200;

	if (body == NULL && a->json != NULL)
		goto out; /* out of memory: hang up */
	r = MHD_create_response_from_buffer(n, (void *)(uintptr_t)sent,
	    body != NULL ? MHD_RESPMEM_MUST_FREE : MHD_RESPMEM_PERSISTENT);
	if (r == NULL) {
		free(body);
		goto out;
	}
	add_headers(r, a, status);
	if (allow != NULL)
		MHD_add_response_header(r, "Allow", allow);
	if (close)
		MHD_add_response_header(r, "Connection", "close");
	if (c->x.verified)
		sign_answer(c, method, status, sent, n, r);
	c->stranger = !c->l->bound.local && c->x.peer.role == ROLE_NONE;
	http_conns_phase(c, HTTP_SENDING, clock_now() + send_timeout(c, n));
	rc = MHD_queue_response(c->mhd, (unsigned)status, r);
	MHD_destroy_response(r);
out:
	http_answer_release(a);
	return rc;
}

/* SPDX-License-Identifier: ISC */
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "core/clock.h"
#include "core/mem.h"
#include "core/suggest.h"
#include "http/state.h"

static const struct http_route *find_route(const struct http_server *s, const char *method,
    const char *path)
{
	for (size_t i = 0; i < s->cfg.nroutes; i++)
		if (strcmp(s->cfg.routes[i].path, path) == 0 &&
		    strcmp(s->cfg.routes[i].method, method) == 0)
			return &s->cfg.routes[i];
	return NULL;
}

bool http_access_is_linked(const struct http_server *s, const char *method, const char *path)
{
	const struct http_route *r = find_route(s, method, path);

	return r != NULL && (r->flags & HTTP_LINKED) != 0;
}

/* The key shared with pk, from the cache or made; false for a bad point. */
static bool shared_key(struct http_server *s, const uint8_t pk[static KEY_BYTES],
    uint8_t key[static 32])
{
	struct http_key *slot = &s->keys[pk[0] % HTTP_KEY_CACHE];
	bool good = true;

	mutex_lock(&s->auth_lock);
	if (!slot->used || memcmp(slot->pk, pk, KEY_BYTES) != 0) {
		good = httpsig_key(slot->key, &s->cfg.keys, pk, false, s->cfg.psk);
		slot->used = good;
		memcpy(slot->pk, pk, KEY_BYTES);
	}
	if (good)
		memcpy(key, slot->key, 32);
	mutex_unlock(&s->auth_lock);
	return good;
}

/* Finds out which key the request claims to be signed with, and puts the peer and the shared key
 * into c->x. The signature itself is checked by http_access_verify when the body has arrived. Call
 * it without auth_lock. ERR_AUTH, or the error of a malformed header. */
static enum err_code claim_key(struct http_conn *c, const char *value, struct err *e)
{
	struct http_exchange *x = &c->x;
	struct http_server *s = c->l->s;
	struct http_peer peer = { .role = ROLE_NONE };
	enum err_code rc = httpsig_parse_request(value, &x->head, e);

	if (rc != ERR_OK)
		return rc;
	/* Call find_key for each request, so that a revoked key stops working at once. Call it
	 * first, so that a stranger does not cost a Diffie-Hellman. */
	if (s->cfg.find_key == NULL || !s->cfg.find_key(s->cfg.ctx, x->head.pk, &peer) ||
	    !shared_key(s, x->head.pk, x->key))
		return err_set(e, ERR_AUTH, "this key is not authorised here, or was revoked");
	peer.local = c->l->bound.local;
	memcpy(peer.key, x->head.pk, KEY_BYTES);
	x->peer = peer;
	x->claimed = true;
	return ERR_OK;
}

/* Admits the holder of a bearer token. The exchange keeps a copy of the token, so that it can be
 * checked again when the request was parked. ERR_AUTH. */
static enum err_code claim_token(struct http_conn *c, const char *token, struct err *e)
{
	struct http_server *s = c->l->s;
	struct http_peer peer = { .role = ROLE_NONE };

	if (s->cfg.find_token == NULL || !s->cfg.find_token(s->cfg.ctx, token, &peer))
		return err_set(e, ERR_AUTH, "this bearer token is not known here, or was revoked");
	peer.local = false;
	memset(peer.key, 0, sizeof(peer.key));
	c->x.peer = peer;
	c->x.token = mem_strdup(token);
	return ERR_OK;
}

/* Admits the holder of a session, only from this host over TCP. c->x.session is set also when
 * the session is refused. ERR_FORBIDDEN: the peer is on another host. ERR_AUTH: there is no such
 * session. */
static enum err_code claim_session(struct http_conn *c, const char *text, struct err *e)
{
	struct http_server *s = c->l->s;
	struct http_peer peer = { .role = ROLE_NONE };

	c->x.session = true;
	if (!c->loopback)
		return err_set(e, ERR_FORBIDDEN,
		    "a session of the dashboard is valid only on the coordinator's own host");
	if (s->cfg.find_session == NULL || !s->cfg.find_session(s->cfg.ctx, text, &peer))
		return err_set(e, ERR_AUTH,
		    "this session is not known here, or has ended: ps-ctl dashboard begins a new "
		    "one");
	peer.local = false;
	memset(peer.key, 0, sizeof(peer.key));
	c->x.peer = peer;
	c->x.token = mem_strdup(text);
	return ERR_OK;
}

static bool token_stands(struct http_server *s, const struct http_exchange *x,
    struct http_peer *peer)
{
	return x->session ? s->cfg.find_session(s->cfg.ctx, x->token, peer)
	                  : s->cfg.find_token(s->cfg.ctx, x->token, peer);
}

enum err_code http_access_again(struct http_conn *c, struct err *e)
{
	struct http_exchange *x = &c->x;
	struct http_server *s = c->l->s;
	struct http_peer peer = { .role = ROLE_NONE };

	if (x->claimed && !s->cfg.find_key(s->cfg.ctx, x->head.pk, &peer))
		return err_set(e, ERR_AUTH, "this key is no longer authorised here");
	if (x->token != NULL && !token_stands(s, x, &peer))
		return err_set(e, ERR_AUTH, "this %s is no longer known here",
		    x->session ? "session" : "bearer token");
	if ((x->claimed || x->token != NULL) && peer.role != x->peer.role)
		return err_set(e, ERR_AUTH, "the role of %s has changed", x->peer.name);
	return ERR_OK;
}

enum err_code http_access_claim(struct http_conn *c, const struct http_head *head,
    const char *method, struct err *e)
{
	struct http_exchange *x = &c->x;
	const struct http_route *route = find_route(c->l->s, method, x->uri);
	const char *auth = head->authorization;

	if (auth != NULL && strncmp(auth, "PS1 ", 4) == 0)
		return claim_key(c, auth, e);
	if (c->l->bound.local) {
		x->peer.local = true;
		x->peer.role = ROLE_ADMIN;
		snprintf(x->peer.name, sizeof(x->peer.name), "local");
		return ERR_OK;
	}
	if (route != NULL && (route->flags & HTTP_OPEN) != 0)
		return ERR_OK;
	if (auth != NULL && strncmp(auth, "Session ", 8) == 0)
		return claim_session(c, auth + 8, e);
	if (auth != NULL && strncasecmp(auth, "Bearer ", 7) == 0) {
		enum err_code rc = claim_token(c, auth + 7, e);

		if (rc != ERR_OK)
			return rc;
		if (strcmp(method, "GET") == 0 && route != NULL &&
		    (route->flags & HTTP_TOKEN_OK) != 0)
			return ERR_OK;
		return err_set(e, ERR_FORBIDDEN, "a bearer token does not permit %s of this path",
		    method);
	}
	return err_set(e, ERR_AUTH, "requests over TCP must be signed");
}

void http_server_secrets(struct http_server *s, const uint8_t psk[static KEY_BYTES],
    const uint8_t before[static KEY_BYTES], int64_t until)
{
	mutex_lock(&s->auth_lock);
	memcpy(s->cfg.psk, psk, KEY_BYTES);
	memcpy(s->before, before, KEY_BYTES);
	s->before_until = until;
	sodium_memzero(s->keys, sizeof(s->keys));
	mutex_unlock(&s->auth_lock);
}

/* The request may be signed with the previous pre-shared key. */
static bool verify_before(struct http_conn *c, const struct httpsig_msg *m, int64_t now)
{
	struct http_exchange *x = &c->x;
	struct http_server *s = c->l->s;
	uint8_t key[32];
	bool good = now < s->before_until &&
	    httpsig_key(key, &s->cfg.keys, x->head.pk, false, s->before) &&
	    httpsig_verify_request(key, m, &x->head, s->replay, now, NULL) == ERR_OK;

	if (good)
		memcpy(x->key, key, sizeof(key));
	sodium_memzero(key, sizeof(key));
	return good;
}

enum err_code http_access_verify(struct http_conn *c, const char *method, struct err *e)
{
	struct http_exchange *x = &c->x;
	struct http_server *s = c->l->s;
	struct httpsig_msg m = {
		.method = method,
		.path = x->uri,
		.query = x->query,
		.host = x->host,
		.body = x->body.data,
		.body_len = x->body.len,
	};
	struct err local = { .code = ERR_OK };
	int64_t now = clock_wall() / NSEC_PER_SEC;
	enum err_code rc;

	mutex_lock(&s->auth_lock);
	rc = httpsig_verify_request(x->key, &m, &x->head, s->replay, now, &local);
	if (rc == ERR_AUTH && verify_before(c, &m, now))
		rc = local.code = ERR_OK;
	mutex_unlock(&s->auth_lock);
	if (e != NULL)
		*e = local;
	return rc;
}

/* Fills in a 404 that suggests a similar path, if there is one. Always returns false, for
 * callers to return. */
static bool wrong_path(struct http_server *s, const char *path, struct http_answer *a)
{
	const char *names[256];
	size_t n = 0;
	const char *near;
	char hint[300];

	for (size_t i = 0; i < s->cfg.nroutes && n < 256; i++)
		names[n++] = s->cfg.routes[i].path;
	near = suggest(path, names, n);
	if (near != NULL)
		snprintf(hint, sizeof(hint), "did you mean %s?", near);
	http_fail(a, ERR_NOTFOUND, near != NULL ? hint : NULL, "there is no %.200s", path);
	return false;
}

bool http_access_route(struct http_conn *c, const char *method, struct http_answer *a)
{
	struct http_exchange *x = &c->x;
	struct http_server *s = c->l->s;
	const struct http_route *r = find_route(s, method, x->uri);
	bool get = find_route(s, "GET", x->uri) != NULL;

	if (r == NULL && !get && find_route(s, "POST", x->uri) == NULL)
		return wrong_path(s, x->uri, a);
	if (r == NULL) {
		http_fail(a, ERR_UNSUPPORTED, get ? "use GET" : "use POST",
		    "%.20s is not allowed for %.200s", method, x->uri);
		a->status = 405;
		return false;
	}
	x->route = r;
	if ((r->flags & HTTP_OPEN) != 0)
		return true;
	if ((r->flags & HTTP_LOCAL_ONLY) != 0 && !x->peer.local) {
		http_fail(a, ERR_FORBIDDEN,
		    "repeat the request on the server's own host, by its run directory",
		    "%s is answered on the Unix socket only, because it may hold secrets", r->path);
		return false;
	}
	if ((r->roles & 1u << x->peer.role) == 0) {
		http_fail(a, ERR_FORBIDDEN, NULL, "%s (role %s) may not %s %s", x->peer.name,
		    role_name(x->peer.role), r->method, r->path);
		return false;
	}
	return true;
}

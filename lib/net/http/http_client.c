/* SPDX-License-Identifier: ISC */
#include <curl/curl.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/mem.h"
#include "http/client_state.h"
#include "socket/net.h"

/* The server drops idle connections after some seconds, so do not reuse one that is nearly that
 * old. */
#define IDLE_MAX_SECONDS 2L

/* Receives a piece of the body from curl. Taking 0 bytes makes curl end the call, and too_large
 * then says why. */
static size_t store_body(char *data, size_t size, size_t n, void *ctx)
{
	struct http_client *c = ctx;

	if (size * n > HTTP_REPLY_MAX - c->reply.len) {
		c->too_large = true;
		return 0;
	}
	buf_append(&c->reply, data, size * n);
	return size * n;
}

/* Receives one header line from curl, which ends with a line break and not with a NUL. A status
 * line begins another head, as after 100 Continue, and drops a signature from the head before it.
 * Always takes the whole line. */
static size_t store_signature_header(char *data, size_t size, size_t n, void *ctx)
{
	static const char name[] = "PS1-Signature:";
	struct http_client *c = ctx;
	size_t len = size * n, skip = sizeof(name) - 1;

	if (len > 5 && memcmp(data, "HTTP/", 5) == 0)
		c->signature[0] = '\0';
	if (len <= skip || strncasecmp(data, name, skip) != 0)
		return len;
	while (skip < len && data[skip] == ' ')
		skip++;
	while (len > skip && (data[len - 1] == '\r' || data[len - 1] == '\n'))
		len--;
	/* A signature that is too long cannot verify: leave it out. */
	if (len - skip < sizeof(c->signature)) {
		memcpy(c->signature, data + skip, len - skip);
		c->signature[len - skip] = '\0';
	}
	return size * n;
}

/* Runs as curl's progress callback, also while nothing is transferred; a result other than 0
 * aborts the call. */
static int poll_stop(void *ctx, curl_off_t a, curl_off_t b, curl_off_t d, curl_off_t f)
{
	const struct http_client *c = ctx;

	(void)a;
	(void)b;
	(void)d;
	(void)f;
	return c->stop != NULL && atomic_load(c->stop) ? 1 : 0;
}

/* Opens curl's socket so that no program inherits it. */
static curl_socket_t open_socket(void *ctx, curlsocktype purpose, struct curl_sockaddr *sa)
{
	(void)ctx;
	(void)purpose;
	return socket(sa->family, sa->socktype | SOCK_CLOEXEC, sa->protocol);
}

/* Sets the options that hold for every call of this client; set_curl_request sets the options of one
 * call. Only plain HTTP/1.1 straight to the target is allowed: no proxy, no redirect and no
 * .netrc. */
static void set_curl_options(struct http_client *c)
{
	CURL *h = c->curl;

	curl_easy_setopt(h, CURLOPT_NOSIGNAL, 1L);
	/* A proxy variable must not send control traffic elsewhere. */
	curl_easy_setopt(h, CURLOPT_PROXY, "");
	curl_easy_setopt(h, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
	curl_easy_setopt(h, CURLOPT_PROTOCOLS_STR, "http");
	curl_easy_setopt(h, CURLOPT_FOLLOWLOCATION, 0L);
	curl_easy_setopt(h, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(h, CURLOPT_HTTP09_ALLOWED, 0L);
	curl_easy_setopt(h, CURLOPT_PATH_AS_IS, 1L);
	curl_easy_setopt(h, CURLOPT_MAXAGE_CONN, IDLE_MAX_SECONDS);
	curl_easy_setopt(h, CURLOPT_MAXCONNECTS, 1L);
	curl_easy_setopt(h, CURLOPT_WRITEFUNCTION, store_body);
	curl_easy_setopt(h, CURLOPT_WRITEDATA, c);
	curl_easy_setopt(h, CURLOPT_HEADERFUNCTION, store_signature_header);
	curl_easy_setopt(h, CURLOPT_HEADERDATA, c);
	curl_easy_setopt(h, CURLOPT_NOPROGRESS, 0L);
	curl_easy_setopt(h, CURLOPT_XFERINFOFUNCTION, poll_stop);
	curl_easy_setopt(h, CURLOPT_XFERINFODATA, c);
	curl_easy_setopt(h, CURLOPT_OPENSOCKETFUNCTION, open_socket);
}

/* Prepares signed requests when the target has all three keys; else requests stay unsigned. The
 * shared key is computed once for all calls. ERR_AUTH. */
static enum err_code set_signing_keys(struct http_client *c, const struct http_target *t,
    struct err *e)
{
	c->sign = t->server_pk != NULL && t->keys != NULL && t->psk != NULL;
	if (!c->sign)
		return ERR_OK;
	c->keys = *t->keys;
	if (!httpsig_key(c->key, t->keys, t->server_pk, true, t->psk))
		return err_set(e, ERR_AUTH,
		    "the public key for %s is invalid: take it from a new join file", c->where);
	return ERR_OK;
}

bool http_client_signs(const struct http_client *c)
{
	return c->local ? c->sign_local : c->sign;
}

/* ---- places ---- */

static void name_place(struct http_client *c, const char *where, const char *host)
{
	free(c->where);
	free(c->host);
	c->where = mem_strdup(where);
	c->host = mem_strdup(host);
	/* Another process has another boot id. */
	memset(c->boot, 0, sizeof c->boot);
}

static bool start_curl(struct http_client *c)
{
	if (c->curl == NULL) {
		c->curl = curl_easy_init();
		if (c->curl != NULL)
			set_curl_options(c);
	}
	return c->curl != NULL;
}

/* Uses the address of this number, or the Unix socket. */
static bool use_place(struct http_client *c, bool local, size_t at)
{
	char address[NET_TEXT];

	c->local = local;
	c->at = at;
	if (local) {
		name_place(c, c->path, "localhost");
		return true;
	}
	net_list_at(c->list, at, address);
	name_place(c, address, address);
	return start_curl(c);
}

static size_t count_addresses(const struct http_client *c)
{
	char address[NET_TEXT];
	size_t n = 0;

	while (net_list_at(c->list, n, address))
		n++;
	return n;
}

size_t http_client_places(const struct http_client *c)
{
	return count_addresses(c) + (c->path != NULL);
}

bool http_client_next(struct http_client *c)
{
	size_t n = count_addresses(c), next = c->local ? 0 : c->at + 1;

	if (http_client_places(c) < 2)
		return false;
	if (next < n)
		return use_place(c, false, next);
	return use_place(c, c->path != NULL, 0);
}

/* A state that does not answer must not delay each call. */
#define FIND_EVERY NSEC_PER_SEC

bool http_client_find(struct http_client *c)
{
	struct http_target found = { 0 };
	int64_t now = clock_now();

	if (c->finder == NULL || (c->found_at && now - c->found_at < FIND_EVERY))
		return false;
	c->found_at = now;
	if (!c->finder->find(c->finder, &found))
		return false;
	free(c->list);
	c->list = mem_strdup(found.addr);
	return set_signing_keys(c, &found, NULL) == ERR_OK && use_place(c, false, 0);
}

void http_client_return(struct http_client *c)
{
	if (!c->local && c->sockpath != NULL && http_local_listens(c))
		use_place(c, true, 0);
}

/* ---- the client ---- */

static enum err_code open_socket_path(struct http_client *c, const char *path, struct err *e)
{
	char name[NET_UNIX_PATH];
	enum err_code rc = net_unix_path(path, name, &c->dirfd, e);

	c->path = mem_strdup(path);
	/* Without the directory there is no server. */
	if (rc == ERR_NOTFOUND)
		return err_set(e, ERR_UNREACH,
		    "no server is listening on %s: there is no such directory", path);
	c->sockpath = rc ? NULL : mem_strdup(name);
	return rc;
}

enum err_code http_client_new(const struct http_target *t, struct http_client **out, struct err *e)
{
	struct http_client *c = mem_alloc(sizeof(*c));
	enum err_code rc = ERR_OK;

	c->dirfd = -1;
	c->stop = t->stop;
	c->finder = t->finder;
	c->list = t->unix_path != NULL ? NULL : mem_strdup(t->addr);
	if (t->unix_path != NULL)
		rc = open_socket_path(c, t->unix_path, e);
	else if (strpbrk(t->addr, "/?#@ \t\r\n") != NULL || strchr(t->addr, ':') == NULL)
		rc = err_set(e, ERR_CONFIG, "\"%s\" is not an address: write HOST:PORT", t->addr);
	if (rc == ERR_OK && !use_place(c, t->unix_path != NULL, 0))
		rc = err_set(e, ERR_FAILED, "libcurl cannot start");
	if (rc == ERR_OK)
		rc = set_signing_keys(c, t, e);
	c->sign_local = c->sign;
	if (rc != ERR_OK) {
		http_client_free(c);
		return rc;
	}
	*out = c;
	return ERR_OK;
}

void http_client_free(struct http_client *c)
{
	if (c == NULL)
		return;
	if (c->curl != NULL)
		curl_easy_cleanup(c->curl);
	if (c->dirfd >= 0)
		close(c->dirfd);
	if (c->finder != NULL)
		c->finder->free(c->finder);
	buf_release(&c->reply);
	free(c->list);
	free(c->where);
	free(c->host);
	free(c->path);
	free(c->sockpath);
	sodium_memzero(c, sizeof(*c));
	free(c);
}

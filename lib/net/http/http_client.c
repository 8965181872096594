/* SPDX-License-Identifier: ISC */
#include <curl/curl.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

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

/* Sets the options that hold for every call of this client; set_curl_request sets those of one
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
	if (t->server_pk == NULL || t->keys == NULL || t->psk == NULL)
		return ERR_OK;
	c->sign = true;
	c->keys = *t->keys;
	if (!httpsig_key(c->key, t->keys, t->server_pk, true, t->psk))
		return err_set(e, ERR_AUTH,
		    "the public key for %s is invalid: take it from a new join file", c->where);
	return ERR_OK;
}

bool http_client_next(struct http_client *c)
{
	char address[NET_TEXT], other[NET_TEXT];

	if (!net_list_at(c->list, 1, other))
		return false;
	if (!net_list_at(c->list, ++c->at, address))
		net_list_at(c->list, c->at = 0, address);
	free(c->where);
	free(c->host);
	c->where = mem_strdup(address);
	c->host = mem_strdup(address);
	/* Another process has another boot id. */
	memset(c->boot, 0, sizeof c->boot);
	return true;
}

enum err_code http_client_new(const struct http_target *t, struct http_client **out, struct err *e)
{
	struct http_client *c = mem_alloc(sizeof(*c));
	bool local = t->unix_path != NULL;
	char name[NET_UNIX_PATH], first[NET_TEXT];
	enum err_code rc;

	c->dirfd = -1;
	c->stop = t->stop;
	net_list_at(local ? NULL : t->addr, 0, first);
	c->list = local ? NULL : mem_strdup(t->addr);
	c->where = mem_strdup(local ? t->unix_path : first);
	c->host = mem_strdup(local ? "localhost" : first);
	rc = set_signing_keys(c, t, e);
	if (rc != ERR_OK)
		goto fail;
	if (local) {
		rc = net_unix_path(t->unix_path, name, &c->dirfd, e);
		/* Without the directory there is no server. */
		if (rc == ERR_NOTFOUND)
			rc = err_set(e, ERR_UNREACH,
			    "no server is listening on %s: there is no such "
			    "directory",
			    c->where);
		if (rc != ERR_OK)
			goto fail;
		c->sockpath = mem_strdup(name);
	} else if (strpbrk(t->addr, "/?#@ \t\r\n") != NULL || strchr(t->addr, ':') == NULL) {
		rc = err_set(e, ERR_CONFIG, "\"%s\" is not an address: write HOST:PORT", t->addr);
		goto fail;
	}
	if (local) {
		*out = c;
		return ERR_OK;
	}
	c->curl = curl_easy_init();
	if (c->curl == NULL) {
		rc = err_set(e, ERR_FAILED, "libcurl cannot start");
		goto fail;
	}
	set_curl_options(c);
	*out = c;
	return ERR_OK;
fail:
	http_client_free(c);
	return rc;
}

void http_client_free(struct http_client *c)
{
	if (c == NULL)
		return;
	if (c->curl != NULL)
		curl_easy_cleanup(c->curl);
	if (c->dirfd >= 0)
		close(c->dirfd);
	buf_release(&c->reply);
	free(c->list);
	free(c->where);
	free(c->host);
	free(c->sockpath);
	sodium_memzero(c, sizeof(*c));
	free(c);
}

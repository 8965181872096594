/* SPDX-License-Identifier: ISC */
#include "etcd/etcd.h"

#include <curl/curl.h>
#include <sodium.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "core/clock.h"
#include "core/lock.h"
#include "core/mem.h"
#include "core/num.h"
#include "socket/net.h"

/* Bytes of an answer. */
#define REPLY_MAX (64u << 20)
/* A member has this long for its first answer; in each further round over all of them twice as
 * long. */
#define FIRST_TRY (1 * NSEC_PER_SEC)
/* The pause after a round in which no member has answered. */
#define PAUSE (50 * NSEC_PER_MSEC)

/* One connection, which one thread at a time uses. */
struct link {
	struct link *next;
	CURL *curl;
	struct buf reply;
	bool too_large;
	bool alert;                /* the member has refused our certificate by a TLS alert */
	char why[CURL_ERROR_SIZE]; /* libcurl's words for its last error */
};

struct etcd {
	struct etcd_url url;
	/* From the environment; NULL: not set. */
	char *user, *password, *cacert, *cert, *key;
	_Atomic unsigned at; /* the member that is asked first */
	struct mutex lock;   /* covers the next two */
	struct link *idle;
	char *token; /* of the user's session; "": etcd has no users; NULL: none yet */
};

/* etcd's codes of errors (google.golang.org/grpc/codes) */
enum grpc_code {
	GRPC_INVALID = 3,
	GRPC_DENIED = 7,
	GRPC_PRECONDITION = 9,
	GRPC_OUT_OF_RANGE = 11,
	GRPC_UNAUTHENTICATED = 16,
};

/* The answer of a member. */
struct answer {
	json_t *json; /* NULL after an error */
	int64_t code; /* of etcd's error; 0: none */
	/* This member has refused us, or we have refused it: its certificate, ours, or a request that
	 * is not etcd's. Another member may not. */
	bool refused;
};

/* ---- opening ---- */

static char *copy_env(const char *name)
{
	const char *value = getenv(name);

	return value && *value ? mem_strdup(value) : NULL;
}

enum err_code etcd_open(const char *url, struct etcd **out, struct err *e)
{
	struct etcd *c = mem_alloc(sizeof *c);
	char *user = copy_env("ETCDCTL_USER"), *colon = user ? strchr(user, ':') : NULL;
	enum err_code rc;

	mutex_init(&c->lock, LOCK_ETCD);
	c->cacert = copy_env("ETCDCTL_CACERT");
	c->cert = copy_env("ETCDCTL_CERT");
	c->key = copy_env("ETCDCTL_KEY");
	if (user) {
		c->user = mem_printf("%.*s", (int)(colon ? colon - user : (long)strlen(user)),
		    user);
		c->password = colon ? mem_strdup(colon + 1) : copy_env("ETCDCTL_PASSWORD");
		sodium_memzero(user, strlen(user));
	}
	free(user);
	rc = etcd_url_read(url, &c->url, e);
	if (rc) {
		etcd_close(c);
		c = NULL;
	}
	*out = c;
	return rc;
}

static void free_secret(char *text)
{
	if (text)
		sodium_memzero(text, strlen(text));
	free(text);
}

void etcd_close(struct etcd *c)
{
	if (!c)
		return;
	while (c->idle) {
		struct link *l = c->idle;

		c->idle = l->next;
		curl_easy_cleanup(l->curl);
		buf_release(&l->reply);
		free(l);
	}
	mutex_destroy(&c->lock);
	free_secret(c->token);
	free_secret(c->password);
	free(c->user);
	free(c->cacert);
	free(c->cert);
	free(c->key);
	etcd_url_release(&c->url);
	free(c);
}

const char *etcd_where(const struct etcd *c)
{
	return c->url.text;
}

/* ---- one request to one member ---- */

static size_t store_reply(char *data, size_t size, size_t n, void *ctx)
{
	struct link *l = ctx;

	l->too_large = size * n > REPLY_MAX - l->reply.len;
	if (l->too_large)
		return 0;
	buf_append(&l->reply, data, size * n);
	return size * n;
}

static curl_socket_t open_socket(void *ctx, curlsocktype purpose, struct curl_sockaddr *sa)
{
	(void)ctx;
	(void)purpose;
	return socket(sa->family, sa->socktype | SOCK_CLOEXEC, sa->protocol);
}

/* Alerts by which a server refuses the certificate of its client (RFC 8446, 6.2) */
static bool is_refusal(unsigned char alert)
{
	return (alert >= 42 && alert <= 49) || alert == 116;
}

/* libcurl passes each TLS message. An alert is the only one of two bytes: its level and its number. */
static int note_alert(CURL *h, curl_infotype type, char *data, size_t n, void *ctx)
{
	struct link *l = ctx;

	(void)h;
	if (type == CURLINFO_SSL_DATA_IN && n == 2 && is_refusal((unsigned char)data[1]))
		l->alert = true;
	return 0;
}

/* NULL: libcurl cannot start. */
static struct link *take_link(struct etcd *c)
{
	struct link *l;

	mutex_lock(&c->lock);
	l = c->idle;
	if (l)
		c->idle = l->next;
	mutex_unlock(&c->lock);
	if (l)
		return l;
	l = mem_alloc(sizeof *l);
	l->curl = curl_easy_init();
	if (!l->curl) {
		free(l);
		return NULL;
	}
	curl_easy_setopt(l->curl, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(l->curl, CURLOPT_PROXY, "");
	curl_easy_setopt(l->curl, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
	curl_easy_setopt(l->curl, CURLOPT_PROTOCOLS_STR, c->url.tls ? "https" : "http");
	curl_easy_setopt(l->curl, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(l->curl, CURLOPT_WRITEFUNCTION, store_reply);
	curl_easy_setopt(l->curl, CURLOPT_WRITEDATA, l);
	curl_easy_setopt(l->curl, CURLOPT_OPENSOCKETFUNCTION, open_socket);
	curl_easy_setopt(l->curl, CURLOPT_TCP_NODELAY, 1L);
	curl_easy_setopt(l->curl, CURLOPT_ERRORBUFFER, l->why);
	if (c->url.tls) {
		curl_easy_setopt(l->curl, CURLOPT_VERBOSE, 1L);
		curl_easy_setopt(l->curl, CURLOPT_DEBUGFUNCTION, note_alert);
		curl_easy_setopt(l->curl, CURLOPT_DEBUGDATA, l);
	}
	if (c->cacert)
		curl_easy_setopt(l->curl, CURLOPT_CAINFO, c->cacert);
	if (c->cert)
		curl_easy_setopt(l->curl, CURLOPT_SSLCERT, c->cert);
	if (c->key)
		curl_easy_setopt(l->curl, CURLOPT_SSLKEY, c->key);
	return l;
}

static void give_link_back(struct etcd *c, struct link *l)
{
	mutex_lock(&c->lock);
	l->next = c->idle;
	c->idle = l;
	mutex_unlock(&c->lock);
}

/* A request; body is its text. */
struct request {
	const char *method;
	char *body;
	bool
	    anonymous; /* without the user's token, which etcd may refuse though the method needs none */
};

static struct curl_slist *make_headers(struct etcd *c, const struct request *r)
{
	/* Without "Expect:" curl waits a second for "100 Continue" before a long body. */
	struct curl_slist *list = curl_slist_append(NULL, "Expect:"), *longer = list;

	mutex_lock(&c->lock);
	if (list && c->token && *c->token && !r->anonymous) {
		char *line = mem_printf("Authorization: %s", c->token);

		longer = curl_slist_append(list, line);
		free_secret(line);
	}
	mutex_unlock(&c->lock);
	if (!longer)
		mem_fail();
	return longer;
}

/* Describes an answer that is not JSON, as the gateway's refusal of a certificate with a common name,
 * which is the only thing that it refuses by status 400 over TLS. */
static enum err_code report_text(const struct etcd *c, struct link *l, const char *host,
    struct answer *out, struct err *e)
{
	const char *text = l->reply.len ? (const char *)l->reply.data : "";
	size_t n = strcspn(text, "\r\n");
	long status = 0;

	curl_easy_getinfo(l->curl, CURLINFO_RESPONSE_CODE, &status);
	if (status >= 500)
		return err_set(e, ERR_IO, "etcd at %s: HTTP status %ld, \"%.*s\"", host, status,
		    (int)(n < 200 ? n : 200), text);
	out->refused = true;
	if (status == 400 && c->url.tls && c->cert)
		return err_set(e, ERR_AUTH,
		    "etcd at %s refuses the certificate ETCDCTL_CERT: %.*s; use one without a common name "
		    "(CN), and name the user in ETCDCTL_USER",
		    host, (int)(n < 200 ? n : 200), text);
	return err_set(e, ERR_PROTO, "%s does not answer as etcd does: HTTP status %ld, \"%.*s\"",
	    host, status, (int)(n < 200 ? n : 200), text);
}

/* Turns an error of etcd into ours. A wrong password and a request that is too long have one code. */
static enum err_code report_error(const struct etcd *c, const char *host, int64_t code,
    const char *text, struct err *e)
{
	switch (code) {
	case GRPC_DENIED:
		return err_set(e, ERR_AUTH,
		    "etcd at %s: %s: %s needs permission to read and write all keys that begin with %s",
		    host, text, c->user ? c->user : "a user", c->url.prefix);
	case GRPC_UNAUTHENTICATED:
		return err_set(e, ERR_AUTH, "etcd at %s: %s", host, text);
	case GRPC_INVALID:
		return err_set(e, ERR_CONFIG, "etcd at %s: %s", host, text);
	case GRPC_OUT_OF_RANGE:
		return err_set(e, ERR_STALE, "etcd at %s: %s", host, text);
	default:
		return err_set(e, ERR_IO, "etcd at %s: %s", host, text);
	}
}

static enum err_code take_reply(const struct etcd *c, struct link *l, const char *host,
    struct answer *out, struct err *e)
{
	json_t *root = json_parse((const char *)l->reply.data, l->reply.len, REPLY_MAX, e);
	const char *text = json_str(root, "error", NULL);
	enum err_code rc;

	if (!json_is_object(root)) {
		json_decref(root);
		return report_text(c, l, host, out, e);
	}
	if (!text) {
		out->json = root;
		return ERR_OK;
	}
	out->code = json_int(root, "code", 0);
	rc = report_error(c, host, out->code, text, e);
	json_decref(root);
	return rc;
}

/* Describes a request without an answer. */
static enum err_code report_failure(struct link *l, const char *host, CURLcode code,
    struct answer *out, struct err *e)
{
	const char *why = *l->why ? l->why : curl_easy_strerror(code);

	if (l->too_large)
		return err_set(e, ERR_LIMIT, "etcd at %s has answered more than %u bytes", host,
		    REPLY_MAX);
	out->refused = true;
	if (l->alert)
		return err_set(e, ERR_AUTH,
		    "etcd at %s refuses the client's certificate: set ETCDCTL_CERT and ETCDCTL_KEY to one "
		    "that it accepts (%s)",
		    host, why);
	switch (code) {
	case CURLE_PEER_FAILED_VERIFICATION:
		return err_set(e, ERR_AUTH,
		    "the certificate of etcd at %s is not accepted: %s; ETCDCTL_CACERT names the file of "
		    "its authority",
		    host, why);
	case CURLE_SSL_CACERT_BADFILE:
		return err_set(e, ERR_CONFIG, "ETCDCTL_CACERT: %s", why);
	case CURLE_GOT_NOTHING:
		out->refused = false;
		return err_because(e, ERR_IO, CAUSE_UNREACHABLE,
		    "etcd at %s closes the connection without an answer (etcd:// is without TLS, etcds:// "
		    "with TLS)",
		    host);
	case CURLE_SSL_CERTPROBLEM:
		return err_set(e, ERR_CONFIG, "ETCDCTL_CERT and ETCDCTL_KEY: %s", why);
	default:
		out->refused = false;
		return err_because(e, ERR_IO, CAUSE_UNREACHABLE, "etcd at %s does not answer: %s",
		    host, why);
	}
}

/* One POST to one member, of at most `patience`. */
static enum err_code post_once(struct etcd *c, struct link *l, const char *host,
    const struct request *r, int64_t patience, struct answer *out, struct err *e)
{
	char *url = mem_printf("%s://%s/v3/%s", c->url.tls ? "https" : "http", host, r->method);
	long ms = patience > NSEC_PER_MSEC ? (long)(patience / NSEC_PER_MSEC) : 1;
	struct curl_slist *headers = make_headers(c, r);
	enum err_code rc;
	CURLcode code;

	*out = (struct answer){ 0 };
	buf_clear(&l->reply);
	l->too_large = l->alert = false;
	l->why[0] = '\0';
	curl_easy_setopt(l->curl, CURLOPT_URL, url);
	curl_easy_setopt(l->curl, CURLOPT_HTTPHEADER, headers);
	curl_easy_setopt(l->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)strlen(r->body));
	curl_easy_setopt(l->curl, CURLOPT_POSTFIELDS, r->body);
	curl_easy_setopt(l->curl, CURLOPT_TIMEOUT_MS, ms);
	curl_easy_setopt(l->curl, CURLOPT_CONNECTTIMEOUT_MS, ms);
	code = curl_easy_perform(l->curl);
	curl_slist_free_all(headers);
	free(url);
	rc = code ? report_failure(l, host, code, out, e) : take_reply(c, l, host, out, e);
	/* An answer of this size is not kept for a connection that may stay idle. */
	if (l->reply.len > ETCD_VALUE_MAX)
		buf_release(&l->reply);
	return rc;
}

/* ---- one request to all members in turn ---- */

static bool may_pass(enum err_code code)
{
	return code == ERR_IO || code == ERR_PROTO;
}

/* Asks the members in turn, beginning with the one that answered last. It ends when one has answered,
 * when all have refused this client one after the other, or at the time `until`. */
static enum err_code ask_members(struct etcd *c, struct link *l, const struct request *r,
    int64_t until, struct answer *out, struct err *e)
{
	int64_t most = FIRST_TRY;
	unsigned refusals = 0;

	for (unsigned tries = 1;; tries++) {
		unsigned at = atomic_load(&c->at);
		int64_t left = until - clock_now();
		char host[NET_TEXT];
		enum err_code rc;

		net_list_at(c->url.hosts, at % c->url.nhosts, host);
		rc = post_once(c, l, host, r, left < most ? left : most, out, e);
		refusals = out->refused ? refusals + 1 : 0;
		if (!rc && e)
			*e = (struct err){ 0 };
		if (!rc || refusals == c->url.nhosts || (!out->refused && !may_pass(rc)))
			return rc;
		/* Another thread may have gone on to the next member meanwhile. */
		atomic_compare_exchange_strong(&c->at, &at, at + 1);
		if (clock_now() >= until)
			return rc;
		if (tries % c->url.nhosts == 0) {
			const struct timespec pause = { 0, PAUSE };

			most *= 2;
			nanosleep(&pause, NULL);
		}
	}
}

static enum err_code call(struct etcd *c, const struct request *r, int64_t until,
    struct answer *out, struct err *e)
{
	struct link *l = take_link(c);
	enum err_code rc;

	*out = (struct answer){ 0 };
	rc = l ? ask_members(c, l, r, until, out, e)
	       : err_set(e, ERR_FAILED, "libcurl cannot start");
	if (l)
		give_link_back(c, l);
	return rc;
}

/* ---- users ---- */

static bool has_token(struct etcd *c)
{
	bool has;

	mutex_lock(&c->lock);
	has = c->token != NULL;
	mutex_unlock(&c->lock);
	return has;
}

static void set_token(struct etcd *c, const char *token)
{
	mutex_lock(&c->lock);
	free_secret(c->token);
	c->token = mem_strdup(token);
	mutex_unlock(&c->lock);
}

/* Asks for a session of the user. *required: does etcd have users? Without a user of ours: only that. */
static enum err_code authenticate(struct etcd *c, int64_t until, bool *required, struct err *e)
{
	json_t *names = json_pack("{s:s, s:s}", "name", c->user ? c->user : "", "password",
	    c->password ? c->password : "");
	struct request r = { "auth/authenticate", json_text(names), true };
	struct answer answer;
	enum err_code rc = call(c, &r, until, &answer, e);

	free_secret(r.body);
	json_decref(names);
	*required = answer.code != GRPC_PRECONDITION;
	if (!*required)
		rc = ERR_OK;
	if (!rc && c->user)
		set_token(c, json_str(answer.json, "token", ""));
	json_decref(answer.json);
	/* The user's name and password are all that can be invalid in this request. */
	if (answer.code == GRPC_INVALID && c->user)
		return err_set(e, ERR_AUTH,
		    "etcd refuses the user \"%s\" or the password of ETCDCTL_USER (NAME:PASSWORD)",
		    c->user);
	if (answer.code == GRPC_INVALID)
		return err_set(e, ERR_AUTH, "%s requires a user: set ETCDCTL_USER=NAME:PASSWORD",
		    c->url.text);
	return rc;
}

/* May etcd have refused the request because of its token? It may not know the token any more, or need
 * one, or have changed its users or roles since the token was made, and has several codes for these. */
static bool may_be_about_token(const struct answer *a)
{
	return a->code == GRPC_UNAUTHENTICATED || a->code == GRPC_INVALID;
}

/* As `call`, in the name of the user, if there is one. A token that has expired is replaced once. */
static enum err_code call_as_user(struct etcd *c, const char *method, const json_t *request,
    int64_t patience, json_t **reply, struct err *why)
{
	int64_t until = clock_now() + patience;
	struct err ignored, *e = why ? why : &ignored;
	struct request r = { method, json_text(request), false };
	struct answer answer = { 0 };
	bool required = false;
	enum err_code rc = c->user && !has_token(c) ? authenticate(c, until, &required, e) : ERR_OK;

	if (!rc)
		rc = call(c, &r, until, &answer, e);
	if (rc && may_be_about_token(&answer)) {
		struct err refusal = *e;

		rc = authenticate(c, until, &required, e);
		if (!rc)
			rc = required ? call(c, &r, until, &answer, e) : err_pass(e, &refusal);
	}
	*reply = answer.json;
	free_secret(r.body);
	return rc;
}

/* ---- values ---- */

static json_t *to_base64(const void *data, size_t n)
{
	size_t size = sodium_base64_ENCODED_LEN(n, sodium_base64_VARIANT_ORIGINAL);
	char *text = mem_alloc(size);
	json_t *v;

	sodium_bin2base64(text, size, data, n, sodium_base64_VARIANT_ORIGINAL);
	v = json_string(text);
	free(text);
	return v;
}

static bool from_base64(const char *text, struct buf *out)
{
	size_t n = strlen(text), got;
	uint8_t *p = mem_alloc(n / 4 * 3 + 3);
	bool good = sodium_base642bin(p, n / 4 * 3 + 3, text, n, NULL, &got, NULL,
	                sodium_base64_VARIANT_ORIGINAL) == 0;

	if (good)
		buf_append(out, p, got);
	free(p);
	return good;
}

/* A key with the prefix. */
static json_t *key_value(const struct etcd *c, const char *key)
{
	char *whole = mem_printf("%s%s", c->url.prefix, key);
	json_t *v = to_base64(whole, strlen(whole));

	free(whole);
	return v;
}

/* The first key that does not begin with `key`. */
static json_t *end_of_prefix(const struct etcd *c, const char *key)
{
	char *whole = mem_printf("%s%s", c->url.prefix, key);
	size_t n = strlen(whole);
	json_t *v;

	whole[n - 1]++;
	v = to_base64(whole, n);
	free(whole);
	return v;
}

static json_t *revision_value(int64_t revision)
{
	return json_sprintf("%lld", (long long)revision);
}

/* A 64-bit integer, which is a string, or is left out when it is 0. */
static int64_t read_int(const json_t *o, const char *key)
{
	int64_t n = 0;

	num_int(json_str(o, key, "0"), INT64_MIN, INT64_MAX, &n);
	return n;
}

/* ---- members ---- */

unsigned etcd_members(const struct etcd *c)
{
	return c->url.nhosts;
}

void etcd_member_address(const struct etcd *c, unsigned i, char out[static NET_TEXT])
{
	net_list_at(c->url.hosts, i, out);
}

const char *etcd_user(const struct etcd *c)
{
	return c->user;
}

enum err_code etcd_member_ask(struct etcd *c, unsigned i, int64_t patience, struct etcd_member *out,
    struct err *e)
{
	struct request r = { "maintenance/status", mem_strdup("{}"), true };
	struct answer answer = { 0 };
	struct link *l = take_link(c);
	char host[NET_TEXT];
	enum err_code rc;

	*out = (struct etcd_member){ 0 };
	etcd_member_address(c, i, host);
	rc = l ? post_once(c, l, host, &r, patience, &answer, e)
	       : err_set(e, ERR_FAILED, "libcurl cannot start");
	if (l)
		give_link_back(c, l);
	snprintf(out->version, sizeof out->version, "%s", json_str(answer.json, "version", ""));
	snprintf(out->cluster, sizeof out->cluster, "%s",
	    json_str(json_object_get(answer.json, "header"), "cluster_id", ""));
	out->has_leader = strcmp(json_str(answer.json, "leader", "0"), "0") != 0;
	json_decref(answer.json);
	free(r.body);
	return rc;
}

/* ---- leases ---- */

enum err_code etcd_lease_grant(struct etcd *c, int64_t *ttl, int64_t patience, int64_t *lease,
    struct err *e)
{
	json_t *request = json_pack("{s:o}", "TTL", revision_value(*ttl)), *reply;
	enum err_code rc = call_as_user(c, "lease/grant", request, patience, &reply, e);

	json_decref(request);
	if (rc)
		return rc;
	*lease = read_int(reply, "ID");
	*ttl = read_int(reply, "TTL");
	json_decref(reply);
	return *lease && *ttl > 0 ? ERR_OK
	                          : err_set(e, ERR_PROTO, "%s has granted no lease", c->url.text);
}

enum err_code etcd_lease_keep(struct etcd *c, int64_t lease, int64_t patience, bool *alive,
    struct err *e)
{
	json_t *request = json_pack("{s:o}", "ID", revision_value(lease)), *reply;
	enum err_code rc = call_as_user(c, "lease/keepalive", request, patience, &reply, e);

	json_decref(request);
	if (!rc)
		*alive = read_int(json_object_get(reply, "result"), "TTL") > 0;
	json_decref(reply);
	return rc;
}

enum err_code etcd_lease_revoke(struct etcd *c, int64_t lease, int64_t patience, struct err *e)
{
	json_t *request = json_pack("{s:o}", "ID", revision_value(lease)), *reply;
	enum err_code rc = call_as_user(c, "lease/revoke", request, patience, &reply, e);

	json_decref(request);
	json_decref(reply);
	return rc;
}

/* ---- keys ---- */

void etcd_kvs_release(struct etcd_kvs *kvs)
{
	for (size_t i = 0; i < kvs->n; i++) {
		free(kvs->kv[i].key);
		buf_release(&kvs->kv[i].value);
	}
	free(kvs->kv);
	*kvs = (struct etcd_kvs){ 0 };
}

/* Appends the keys of an answer. */
static enum err_code take_kvs(const struct etcd *c, const json_t *list, struct etcd_kvs *out,
    struct err *e)
{
	size_t i, skip = strlen(c->url.prefix), room = out->n;
	const json_t *v;

	json_array_foreach(list, i, v) {
		struct buf key = BUF_INIT, value = BUF_INIT;

		if (!from_base64(json_str(v, "key", ""), &key) || key.len < skip ||
		    memcmp(key.data, c->url.prefix, skip) != 0 ||
		    !from_base64(json_str(v, "value", ""), &value)) {
			buf_release(&key);
			buf_release(&value);
			return err_set(e, ERR_PROTO, "%s has sent a key that is not one",
			    c->url.text);
		}
		out->kv = mem_grow(out->kv, &room, out->n + 1, sizeof *out->kv);
		out->kv[out->n++] = (struct etcd_kv){
			.key = mem_printf("%.*s", (int)(key.len - skip), (char *)key.data + skip),
			.value = value,
			.create_revision = read_int(v, "create_revision"),
			.mod_revision = read_int(v, "mod_revision")
		};
		buf_release(&key);
	}
	return ERR_OK;
}

enum err_code etcd_read(struct etcd *c, const char *key, unsigned most, int64_t patience,
    struct etcd_kvs *out, struct err *e)
{
	json_t *from = key_value(c, key);
	enum err_code rc;
	bool more;

	*out = (struct etcd_kvs){ 0 };
	do {
		json_t *request = json_pack("{s:o, s:o, s:i, s:b, s:s, s:s}", "key", from,
		           "range_end", end_of_prefix(c, key), "limit", (int)most, "keys_only",
		           most == 0, "sort_target", "KEY", "sort_order", "ASCEND"),
		       *reply;

		rc = call_as_user(c, "kv/range", request, patience, &reply, e);
		json_decref(request);
		from = NULL;
		if (rc)
			break;
		rc = take_kvs(c, json_object_get(reply, "kvs"), out, e);
		more = json_is_true(json_object_get(reply, "more"));
		json_decref(reply);
		if (!rc && more && out->n) {
			char *after = mem_printf("%s%s", c->url.prefix, out->kv[out->n - 1].key);

			/* The least key that is greater has a zero byte more. */
			from = to_base64(after, strlen(after) + 1);
			free(after);
		}
	} while (from);
	if (rc)
		etcd_kvs_release(out);
	return rc;
}

void etcd_txn_begin(struct etcd_txn *t)
{
	t->compare = json_array();
	t->success = json_array();
}

void etcd_if_created(struct etcd *c, struct etcd_txn *t, const char *key, int64_t revision)
{
	json_array_append_new(t->compare,
	    json_pack("{s:o, s:s, s:s, s:o}", "key", key_value(c, key), "target", "CREATE",
	        "result", "EQUAL", "create_revision", revision_value(revision)));
}

void etcd_if_written(struct etcd *c, struct etcd_txn *t, const char *key, int64_t revision)
{
	json_array_append_new(t->compare,
	    json_pack("{s:o, s:s, s:s, s:o}", "key", key_value(c, key), "target", "MOD", "result",
	        "EQUAL", "mod_revision", revision_value(revision)));
}

void etcd_put(struct etcd *c, struct etcd_txn *t, const char *key, const void *value, size_t n,
    int64_t lease)
{
	json_array_append_new(t->success,
	    json_pack("{s:{s:o, s:o, s:o}}", "request_put", "key", key_value(c, key), "value",
	        to_base64(value, n), "lease", revision_value(lease)));
}

void etcd_delete(struct etcd *c, struct etcd_txn *t, const char *key)
{
	json_array_append_new(t->success,
	    json_pack("{s:{s:o}}", "request_delete_range", "key", key_value(c, key)));
}

void etcd_delete_range(struct etcd *c, struct etcd_txn *t, const char *key, const char *end)
{
	json_array_append_new(t->success,
	    json_pack("{s:{s:o, s:o}}", "request_delete_range", "key", key_value(c, key),
	        "range_end", key_value(c, end)));
}

void etcd_txn_drop(struct etcd_txn *t)
{
	json_decref(t->compare);
	json_decref(t->success);
	*t = (struct etcd_txn){ 0 };
}

enum err_code etcd_commit(struct etcd *c, struct etcd_txn *t, int64_t patience, bool *done,
    int64_t *revision, struct err *e)
{
	json_t *request = json_pack("{s:o, s:o}", "compare", t->compare, "success", t->success),
	       *reply;
	enum err_code rc = call_as_user(c, "kv/txn", request, patience, &reply, e);

	json_decref(request);
	*t = (struct etcd_txn){ 0 };
	if (rc)
		return rc;
	*done = json_is_true(json_object_get(reply, "succeeded"));
	if (revision)
		*revision = read_int(json_object_get(reply, "header"), "revision");
	json_decref(reply);
	return ERR_OK;
}

void etcd_compact(struct etcd *c, int64_t revision, int64_t patience)
{
	json_t *request = json_pack("{s:o}", "revision", revision_value(revision)), *reply;

	call_as_user(c, "kv/compaction", request, patience, &reply, NULL);
	json_decref(request);
	json_decref(reply);
}

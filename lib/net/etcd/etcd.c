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
};

struct etcd {
	struct etcd_url url;
	/* From the environment; NULL: not set. */
	char *user, *password, *cacert, *cert, *key;
	_Atomic unsigned at; /* the member that is asked first */
	struct mutex lock;   /* covers the next two */
	struct link *idle;
	char *token; /* of the user's session; NULL: none yet */
};

/* etcd's codes of errors (google.golang.org/grpc/codes) */
enum grpc_code {
	GRPC_INVALID = 3,
	GRPC_DENIED = 7,
	GRPC_UNAUTHENTICATED = 16,
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
		c->password = mem_strdup(colon ? colon + 1 : "");
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

static struct curl_slist *make_headers(struct etcd *c)
{
	/* Without "Expect:" curl waits a second for "100 Continue" before a long body. */
	struct curl_slist *list = curl_slist_append(NULL, "Expect:"), *longer = list;

	mutex_lock(&c->lock);
	if (list && c->token) {
		char *line = mem_printf("Authorization: %s", c->token);

		longer = curl_slist_append(list, line);
		free_secret(line);
	}
	mutex_unlock(&c->lock);
	if (!longer)
		mem_fail();
	return longer;
}

/* Is the certificate, of either side, refused? No other member will take it. */
static bool is_refused_tls(CURLcode code)
{
	return code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CERTPROBLEM ||
	    code == CURLE_SSL_CACERT_BADFILE;
}

static const char *next_step(enum err_code code)
{
	return code == ERR_AUTH || code == ERR_CONFIG
	    ? ": set ETCDCTL_USER, ETCDCTL_CACERT, ETCDCTL_CERT and ETCDCTL_KEY as for etcdctl"
	    : "";
}

/* Turns the answer of a member into an error. A wrong password and a request that is too long have one
 * code in etcd; its text says which of them it is. */
static enum err_code take_reply(struct link *l, const char *host, json_t **reply, struct err *e)
{
	json_t *root = json_parse((const char *)l->reply.data, l->reply.len, REPLY_MAX, e);
	const char *text;
	enum err_code rc;
	int64_t code;

	if (!root)
		return err_set(e, ERR_PROTO, "%s does not answer as etcd does", host);
	text = json_str(root, "error", NULL);
	if (!text) {
		*reply = root;
		return ERR_OK;
	}
	code = json_int(root, "code", 0);
	rc = code == GRPC_UNAUTHENTICATED || code == GRPC_DENIED ? ERR_AUTH
	    : code == GRPC_INVALID                               ? ERR_CONFIG
	                                                         : ERR_IO;
	rc = err_set(e, rc, "etcd at %s: %s%s", host, text, next_step(rc));
	json_decref(root);
	return rc;
}

/* One POST to one member, of at most `patience`. */
static enum err_code post_once(struct etcd *c, struct link *l, const char *host, const char *method,
    const char *body, int64_t patience, json_t **reply, struct err *e)
{
	char *url = mem_printf("%s://%s/v3/%s", c->url.tls ? "https" : "http", host, method);
	long ms = patience > NSEC_PER_MSEC ? (long)(patience / NSEC_PER_MSEC) : 1;
	struct curl_slist *headers = make_headers(c);
	enum err_code rc;
	CURLcode code;

	buf_clear(&l->reply);
	l->too_large = false;
	curl_easy_setopt(l->curl, CURLOPT_URL, url);
	curl_easy_setopt(l->curl, CURLOPT_HTTPHEADER, headers);
	curl_easy_setopt(l->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)strlen(body));
	curl_easy_setopt(l->curl, CURLOPT_POSTFIELDS, body);
	curl_easy_setopt(l->curl, CURLOPT_TIMEOUT_MS, ms);
	curl_easy_setopt(l->curl, CURLOPT_CONNECTTIMEOUT_MS, ms);
	code = curl_easy_perform(l->curl);
	curl_slist_free_all(headers);
	free(url);
	if (code == CURLE_OK)
		rc = take_reply(l, host, reply, e);
	else if (l->too_large)
		rc = err_set(e, ERR_LIMIT, "etcd at %s has answered more than %u bytes", host,
		    REPLY_MAX);
	else if (is_refused_tls(code))
		rc = err_set(e, ERR_AUTH, "etcd at %s: %s%s", host, curl_easy_strerror(code),
		    next_step(ERR_AUTH));
	else
		rc = err_because(e, ERR_IO, CAUSE_UNREACHABLE, "etcd at %s does not answer: %s",
		    host, curl_easy_strerror(code));
	/* An answer of this size is not kept for a connection that may stay idle. */
	if (l->reply.len > ETCD_VALUE_MAX)
		buf_release(&l->reply);
	return rc;
}

/* ---- one request to all members in turn ---- */

static enum err_code call(struct etcd *c, const char *method, const json_t *request,
    int64_t patience, json_t **reply, struct err *e);

/* Begins a session of the user, in whose name further requests are made. */
static enum err_code authenticate(struct etcd *c, int64_t patience, struct err *e)
{
	json_t *request = json_pack("{s:s, s:s}", "name", c->user, "password", c->password), *reply;
	enum err_code rc;

	mutex_lock(&c->lock);
	free_secret(c->token);
	c->token = NULL;
	mutex_unlock(&c->lock);
	rc = call(c, "auth/authenticate", request, patience, &reply, e);
	json_decref(request);
	if (rc)
		return rc;
	mutex_lock(&c->lock);
	free_secret(c->token);
	c->token = mem_strdup(json_str(reply, "token", ""));
	mutex_unlock(&c->lock);
	json_decref(reply);
	return ERR_OK;
}

static bool has_token(struct etcd *c)
{
	bool has;

	mutex_lock(&c->lock);
	has = c->token != NULL;
	mutex_unlock(&c->lock);
	return has;
}

static bool may_pass(enum err_code code)
{
	return code == ERR_IO || code == ERR_PROTO;
}

/* Asks the members in turn, beginning with the one that answered last. */
static enum err_code ask_members(struct etcd *c, struct link *l, const char *method,
    const char *body, int64_t until, json_t **reply, struct err *e)
{
	int64_t most = FIRST_TRY;
	enum err_code rc = ERR_IO;

	for (unsigned tries = 1;; tries++) {
		unsigned at = atomic_load(&c->at);
		int64_t left = until - clock_now();
		char host[NET_TEXT];

		net_list_at(c->url.hosts, at % c->url.nhosts, host);
		rc = post_once(c, l, host, method, body, left < most ? left : most, reply, e);
		if (!rc && e)
			*e = (struct err){ 0 };
		if (!rc || !may_pass(rc))
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

static enum err_code call(struct etcd *c, const char *method, const json_t *request,
    int64_t patience, json_t **reply, struct err *e)
{
	int64_t until = clock_now() + patience;
	struct link *l = take_link(c);
	char *body = json_text(request);
	enum err_code rc;

	*reply = NULL;
	rc = l ? ask_members(c, l, method, body, until, reply, e)
	       : err_set(e, ERR_FAILED, "libcurl cannot start");
	if (l)
		give_link_back(c, l);
	free_secret(body);
	return rc;
}

/* As `call`, in the name of the user, if there is one. A token that has expired is replaced once. */
static enum err_code call_as_user(struct etcd *c, const char *method, const json_t *request,
    int64_t patience, json_t **reply, struct err *e)
{
	enum err_code rc = c->user && !has_token(c) ? authenticate(c, patience, e) : ERR_OK;

	if (!rc)
		rc = call(c, method, request, patience, reply, e);
	if (rc != ERR_AUTH || !c->user)
		return rc;
	rc = authenticate(c, patience, e);
	return rc ? rc : call(c, method, request, patience, reply, e);
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

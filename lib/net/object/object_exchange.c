/* SPDX-License-Identifier: ISC */
#include "object/exchange.h"

#include <curl/curl.h>
#include <errno.h>
#include <poll.h>
#include <sodium.h>
#include <string.h>

#include "core/backoff.h"
#include "core/clock.h"
#include "core/mem.h"
#include "core/num.h"
#include "core/version.h"

#define REPLY_MAX       (16u << 20) /* bytes of an answer that is collected */
#define UNREACHED_TRIES 4
#define PAUSE           (100 * NSEC_PER_MSEC) /* the first pause; each further one is twice as long */
#define PAUSE_MAX       (10 * NSEC_PER_SEC)
#define CONNECT_MAX_MS  10000
#define REDIRECTS       5L

enum err_code object_client_new(const struct object_wishes *w, struct object_client **out,
    struct err *e)
{
	struct object_client *c = mem_alloc(sizeof *c);

	c->wishes = *w;
	c->curl = curl_easy_init();
	*out = c;
	if (c->curl)
		return ERR_OK;
	object_client_free(c);
	*out = NULL;
	return err_set(e, ERR_FAILED, "libcurl cannot start");
}

void object_client_free(struct object_client *c)
{
	if (!c)
		return;
	curl_easy_cleanup(c->curl);
	object_account_release(&c->account);
	free(c);
}

void object_exchange_release(struct exchange *x)
{
	buf_release(&x->reply);
}

/* The caller has stopped, or the reader of its output has closed it. */
static bool is_given_up(const struct object_client *c)
{
	struct pollfd p = { .fd = c->wishes.reader };

	return (c->wishes.stop && atomic_load(c->wishes.stop)) ||
	    (c->wishes.reader >= 0 && poll(&p, 1, 0) > 0 && (p.revents & (POLLERR | POLLHUP)));
}

static enum err_code report_given_up(struct err *e)
{
	return err_set(e, ERR_STOPPED, "the attempt was cancelled");
}

/* ---- receiving ---- */

static const char *answer_header(const struct object_client *c, const char *name)
{
	struct curl_header *h;

	return curl_easy_header(c->curl, name, 0, CURLH_HEADER, -1, &h) == CURLHE_OK ? h->value
	                                                                             : "";
}

/* The size of the whole object: after the slash of "bytes 5-9/10", or the length of a full
 * answer. */
static uint64_t total_size_of(const struct object_client *c, long status)
{
	const char *slash = strrchr(answer_header(c, "Content-Range"), '/');
	curl_off_t length = -1;
	uint64_t n;

	if (status == 206)
		return slash && num_uint(slash + 1, INT64_MAX, &n) ? n : UINT64_MAX;
	curl_easy_getinfo(c->curl, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
	return length < 0 ? UINT64_MAX : (uint64_t)length;
}

/* Is the object another one than is wanted? */
static bool is_other_version(const struct exchange *x, const char *etag)
{
	return x->version && *x->version && *etag &&
	    strncmp(etag, x->version, sizeof x->etag - 1) != 0;
}

/* The headers have arrived. False: this is another object than is wanted, or than came before. */
static bool begin_answer(struct object_client *c, struct exchange *x)
{
	const char *etag = answer_header(c, "ETag");
	uint64_t total;

	x->begun = true;
	curl_easy_getinfo(c->curl, CURLINFO_RESPONSE_CODE, &x->status);
	if (x->status >= 300)
		return true;
	if (!*etag)
		etag = answer_header(c, "Last-Modified");
	total = total_size_of(c, x->status);
	if (is_other_version(x, etag)) {
		x->fault = object_fault_changed(x, x->why);
		return false;
	}
	if (x->got > 0 && (strncmp(etag, x->etag, sizeof x->etag - 1) != 0 || total != x->total)) {
		char *shown = uri_shown(x->name);

		x->fault = err_set(x->why, ERR_FORMAT, "%s: it was replaced while it was read",
		    shown);
		free(shown);
		return false;
	}
	/* A server that does not support ranges sends from the start, so skip what the sink has. */
	x->skip = x->status == 206 ? 0 : x->begin + x->got;
	snprintf(x->etag, sizeof x->etag, "%s", etag);
	x->total = total;
	return true;
}

static size_t take_body(char *data, size_t size, size_t n, void *ctx)
{
	struct object_client *c = ((void **)ctx)[0];
	struct exchange *x = ((void **)ctx)[1];
	size_t len = size * n, skip;

	if (!x->begun && !begin_answer(c, x))
		return 0;
	if (x->status >= 300 || !x->sink) {
		x->too_large = len > REPLY_MAX - x->reply.len;
		if (x->too_large)
			return 0;
		buf_append(&x->reply, data, len);
		return len;
	}
	skip = x->skip < len ? (size_t)x->skip : len;
	x->skip -= skip;
	n = len - skip;
	/* Such a server sends more than was asked for, too. */
	if (x->end && n > x->end - x->begin - x->got)
		n = (size_t)(x->end - x->begin - x->got);
	if (n > 0)
		x->fault = x->sink(x->ctx, data + skip, n, x->why);
	if (x->fault)
		return 0;
	x->got += n;
	if (n < len - skip)
		return 0;
	/* The sink may have waited; do not count that time as a stall of the store. */
	x->moved_at = clock_now();
	return len;
}

static int check_progress(void *ctx, curl_off_t dltotal, curl_off_t down, curl_off_t ultotal,
    curl_off_t up)
{
	const struct object_client *c = ((void **)ctx)[0];
	struct exchange *x = ((void **)ctx)[1];

	(void)dltotal;
	(void)ultotal;
	if (down + up != x->moved) {
		x->moved = down + up;
		x->moved_at = clock_now();
	}
	x->stalled = clock_now() - x->moved_at > x->patience;
	return x->stalled || is_given_up(c);
}

/* ---- one attempt ---- */

static enum err_code need_account(struct object_client *c, struct err *e)
{
	enum err_code rc = c->has_account ? ERR_OK : object_account_load(&c->account, e);

	c->has_account = rc == ERR_OK;
	return rc;
}

static void add_object_header(struct curl_slist **list, const char *name, const char *value)
{
	char *line = mem_printf("%s: %s", name, value);
	struct curl_slist *longer = curl_slist_append(*list, line);

	sodium_memzero(line, strlen(line));
	free(line);
	if (!longer)
		mem_fail();
	*list = longer;
}

static void sign_s3(struct object_client *c, const struct exchange *x, struct curl_slist **headers)
{
	uint8_t hash[crypto_hash_sha256_BYTES];
	char hex[2 * sizeof hash + 1], *scope = mem_printf("aws:amz:%s:s3", c->account.region);

	crypto_hash_sha256(hash, x->body ? x->body : (const void *)"", x->body ? x->body_n : 0);
	sodium_bin2hex(hex, sizeof hex, hash, sizeof hash);
	add_object_header(headers, "x-amz-content-sha256", hex);
	if (c->account.token)
		add_object_header(headers, "x-amz-security-token", c->account.token);
	curl_easy_setopt(c->curl, CURLOPT_AWS_SIGV4, scope);
	curl_easy_setopt(c->curl, CURLOPT_USERNAME, c->account.key);
	curl_easy_setopt(c->curl, CURLOPT_PASSWORD, c->account.secret);
	free(scope);
}

/* For stores whose certificate no public authority has signed: the variables of other programs. */
static void set_authority(struct object_client *c)
{
	static const char *const names[] = { "AWS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE" };
	const char *file = NULL;

	for (size_t i = 0; !file && i < sizeof names / sizeof *names; i++) {
		file = getenv(names[i]);
		if (file && !*file)
			file = NULL;
	}
	if (file)
		curl_easy_setopt(c->curl, CURLOPT_CAINFO, file);
}

static void set_object_request(struct object_client *c, const struct exchange *x, const char *url)
{
	CURL *h = c->curl;

	curl_easy_setopt(h, CURLOPT_URL, url);
	if (x->body) {
		curl_easy_setopt(h, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)x->body_n);
		curl_easy_setopt(h, CURLOPT_POSTFIELDS, x->body);
	}
	if (x->body || strcmp(x->method, "GET") != 0)
		curl_easy_setopt(h, CURLOPT_CUSTOMREQUEST, x->method);
	if (x->got > 0 || x->end) {
		char range[48];

		if (x->end)
			snprintf(range, sizeof range, "%llu-%llu",
			    (unsigned long long)(x->begin + x->got),
			    (unsigned long long)x->end - 1);
		else
			snprintf(range, sizeof range, "%llu-", (unsigned long long)x->got);
		curl_easy_setopt(h, CURLOPT_RANGE, range);
	}
}

static void set_transfer_options(struct object_client *c, struct exchange *x, void **both,
    char *detail)
{
	CURL *h = c->curl;
	int64_t connect = x->patience / NSEC_PER_MSEC;

	curl_easy_reset(h);
	curl_easy_setopt(h, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(h, CURLOPT_USERAGENT, "pskit/" PSKIT_VERSION);
	curl_easy_setopt(h, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(h, CURLOPT_HTTP09_ALLOWED, 0L);
	curl_easy_setopt(h, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(h, CURLOPT_REDIR_PROTOCOLS_STR, "https");
	curl_easy_setopt(h, CURLOPT_MAXREDIRS, REDIRECTS);
	curl_easy_setopt(h, CURLOPT_FOLLOWLOCATION, uri_is_s3(x->name) ? 0L : 1L);
	curl_easy_setopt(h, CURLOPT_NETRC,
	    (long)(uri_is_s3(x->name) ? CURL_NETRC_IGNORED : CURL_NETRC_OPTIONAL));
	curl_easy_setopt(h, CURLOPT_PATH_AS_IS, 1L);
	curl_easy_setopt(h, CURLOPT_CONNECTTIMEOUT_MS,
	    (long)(connect < CONNECT_MAX_MS ? connect : CONNECT_MAX_MS));
	curl_easy_setopt(h, CURLOPT_ERRORBUFFER, detail);
	curl_easy_setopt(h, CURLOPT_WRITEFUNCTION, take_body);
	curl_easy_setopt(h, CURLOPT_WRITEDATA, both);
	curl_easy_setopt(h, CURLOPT_NOPROGRESS, 0L);
	curl_easy_setopt(h, CURLOPT_XFERINFOFUNCTION, check_progress);
	curl_easy_setopt(h, CURLOPT_XFERINFODATA, both);
	set_authority(c);
}

/* The URL of the object; an S3 name needs the account for it. */
static enum err_code make_object_url(struct object_client *c, const struct exchange *x, char **url,
    struct err *e)
{
	struct uri u;
	enum err_code rc = uri_parse(x->name, &u, e);

	*url = NULL;
	if (!rc && u.bucket)
		rc = need_account(c, e);
	if (!rc && u.bucket) {
		char *path = object_account_url(&c->account, u.bucket, u.key);

		*url = x->query ? mem_printf("%s?%s", path, x->query) : mem_strdup(path);
		free(path);
	} else if (!rc) {
		*url = mem_strdup(u.url);
	}
	uri_release(&u);
	return rc;
}

static const char *detail_of(const struct object_client *c, CURLcode curl, const char *detail)
{
	long sys = 0;

	curl_easy_getinfo(c->curl, CURLINFO_OS_ERRNO, &sys);
	if (curl == CURLE_COULDNT_CONNECT && sys)
		return strerrordesc_np((int)sys);
	return *detail ? detail : curl_easy_strerror(curl);
}

/* Turn the end of a transfer into a result. curl: libcurl's result. */
static enum err_code judge_transfer(struct object_client *c, struct exchange *x, CURLcode curl,
    const char *detail, bool *again, struct err *e)
{
	if (x->fault)
		return x->fault;
	if (x->too_large)
		return err_set(e, ERR_PROTO, "the answer is longer than %u MiB", REPLY_MAX >> 20);
	if (curl == CURLE_ABORTED_BY_CALLBACK && !x->stalled)
		return report_given_up(e);
	/* The connection broke, or was ended, after the last byte. */
	if (curl != CURLE_OK && x->begun && x->status < 300 && x->got > 0 &&
	    (x->total == x->begin + x->got || x->end == x->begin + x->got))
		return ERR_OK;
	if (curl != CURLE_OK)
		return object_fault_broken(c, x, (int)curl, detail_of(c, curl, detail), again, e);
	c->reached = true;
	if (!x->begun && !begin_answer(c, x))
		return x->fault;
	return x->status >= 300 ? object_fault_refused(c, x, again, e) : ERR_OK;
}

static enum err_code attempt_exchange(struct object_client *c, struct exchange *x, bool *again,
    struct err *e)
{
	void *both[2] = { c, x };
	char detail[CURL_ERROR_SIZE] = "", *url;
	struct curl_slist *headers = NULL;
	enum err_code rc = make_object_url(c, x, &url, e);
	CURLcode curl;

	*again = false;
	if (rc)
		return rc;
	buf_clear(&x->reply);
	x->status = 0;
	x->begun = x->stalled = x->too_large = false;
	x->fault = ERR_OK;
	x->moved = 0;
	x->moved_at = clock_now();
	x->why = e;
	x->tries++;
	set_transfer_options(c, x, both, detail);
	set_object_request(c, x, url);
	if (x->body)
		add_object_header(&headers, "Content-Type", "application/octet-stream");
	if (x->version && object_version_is_etag(x->version))
		add_object_header(&headers, "If-Match", x->version);
	if (uri_is_s3(x->name))
		sign_s3(c, x, &headers);
	curl_easy_setopt(c->curl, CURLOPT_HTTPHEADER, headers);
	curl = curl_easy_perform(c->curl);
	rc = judge_transfer(c, x, curl, detail, again, e);
	curl_easy_setopt(c->curl, CURLOPT_HTTPHEADER, NULL);
	curl_easy_setopt(c->curl, CURLOPT_ERRORBUFFER, NULL);
	curl_slist_free_all(headers);
	free(url);
	return rc;
}

/* ---- retries ---- */

/* Pause. False: the call was given up meanwhile. */
static bool pause_before_retry(const struct object_client *c, int64_t ns)
{
	int64_t end = clock_now() + ns, left;

	while ((left = end - clock_now()) > 0 && !is_given_up(c)) {
		struct pollfd p = { .fd = c->wishes.reader };

		poll(&p, 1, clock_poll_timeout(left < NSEC_PER_SEC ? left : NSEC_PER_SEC));
	}
	return !is_given_up(c);
}

/* The pause that the store asks for, or twice the previous one, with a random part so that
 * clients do not all return at once. */
static int64_t pause_before(const struct object_client *c, const struct exchange *x,
    unsigned failed)
{
	int64_t pause = backoff_after(PAUSE, PAUSE_MAX, failed);
	uint64_t seconds;

	if (x->status && num_uint(answer_header(c, "Retry-After"), 86400, &seconds) && seconds > 0)
		return (int64_t)seconds * NSEC_PER_SEC;
	return pause / 2 + (int64_t)randombytes_uniform((uint32_t)(pause / 1000)) * 1000;
}

static void report_retry(const struct object_client *c, const struct err *e, int64_t pause)
{
	char *text;

	if (!c->wishes.again)
		return;
	text = mem_printf("%s; trying again in %.1f s", e->msg, (double)pause / NSEC_PER_SEC);
	c->wishes.again(text);
	free(text);
}

enum err_code object_exchange_run(struct object_client *c, struct exchange *x, struct err *e)
{
	int64_t came = clock_now(), pause;
	uint64_t got = x->got;
	unsigned failed = 0;
	struct err why = { 0 };
	enum err_code rc;
	bool again;

	/* Give up a stalled connection early enough to try another one. */
	x->patience = c->wishes.timeout / 3 > NSEC_PER_SEC ? c->wishes.timeout / 3 : NSEC_PER_SEC;
	for (;; failed++) {
		rc = attempt_exchange(c, x, &again, &why);
		if (!rc)
			return ERR_OK;
		if (x->got > got) {
			got = x->got;
			came = clock_now();
			failed = 0;
		}
		pause = pause_before(c, x, failed);
		if (!again || (!c->reached && failed + 1 >= UNREACHED_TRIES) ||
		    clock_now() + pause > came + c->wishes.timeout)
			break;
		report_retry(c, &why, pause);
		if (!pause_before_retry(c, pause))
			return report_given_up(e);
	}
	if (again && failed > 0)
		return err_because(e, rc, why.cause, "%s (%u times within %.0f s)", why.msg,
		    failed + 1, (double)(clock_now() - came) / NSEC_PER_SEC);
	return err_pass(e, &why);
}

/* SPDX-License-Identifier: ISC */
#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/json.h"
#include "core/mem.h"
#include "http/client_state.h"
#include "socket/net.h"

#define BODY_MAX       65536 /* the most that a server accepts */
#define CONNECT_MAX_MS 5000

/* One call: the request and its deadline. */
struct asking {
	const char *method, *target;
	char *path; /* cut at the "?" */
	const char *query;
	char *url;
	char *body; /* NULL for none */
	size_t body_len;
	int64_t deadline;
	struct httpsig_head head;
};

/* Prepares a call whose timeout is in ns. asking_release must follow, also after an error. The
 * deadline is set here once, so both attempts of send_request share it. body is read but its
 * reference is not taken. ERR_USAGE, ERR_LIMIT, ERR_NOMEM. */
static enum err_code asking_init(struct asking *a, const struct http_client *c, const char *method,
    const char *target, const json_t *body, int64_t timeout, struct err *e)
{
	char *mark;

	memset(a, 0, sizeof(*a));
	if (target[0] != '/')
		return err_set(e, ERR_USAGE, "\"%s\" is not a path", target);
	for (const char *p = target; *p != '\0'; p++)
		if (*p <= 0x20 || *p >= 0x7f || *p == '#')
			return err_set(e, ERR_USAGE, "the path %s has a byte that must be escaped",
			    target);
	a->method = method;
	a->target = target;
	a->deadline = clock_now() + timeout;
	if (body != NULL) {
		a->body = json_dumps(body, JSON_COMPACT);
		a->body_len = a->body != NULL ? strlen(a->body) : 0;
		if (a->body == NULL)
			return err_set(e, ERR_NOMEM, "cannot write the request to %s as JSON",
			    c->where);
		if (a->body_len > BODY_MAX)
			return err_set(e, ERR_LIMIT,
			    "a request of %zu bytes is too large: at most %d", a->body_len,
			    BODY_MAX);
	}
	a->url = mem_printf("http://%s%s", c->host, target);
	a->path = mem_strdup(target);
	a->query = "";
	mark = strchr(a->path, '?');
	if (mark != NULL) {
		*mark = '\0';
		a->query = mark + 1;
	}
	return ERR_OK;
}

static void asking_release(struct asking *a)
{
	free(a->url);
	free(a->path);
	free(a->body);
}

/* Describes the request for its signature. The result borrows from c and a, and its status is
 * 0. */
static struct httpsig_msg message_of(const struct http_client *c, const struct asking *a)
{
	return (struct httpsig_msg){
		.method = a->method,
		.path = a->path,
		.query = a->query,
		.host = c->host,
		.body = a->body,
		.body_len = a->body_len,
	};
}

static enum err_code report_broken(const struct http_client *c, const char *what,
    const char *detail, enum err_code code, struct err *e)
{
	return err_set(e, code, "%s %s%s%s", c->where, what, detail[0] != '\0' ? ": " : "", detail);
}

/* Describe a failure below HTTP so that the user knows what to do. */
static enum err_code curl_fault(const struct http_client *c, CURLcode rc, double waited,
    struct err *e)
{
	curl_off_t connected = 0;
	long sys = 0;

	curl_easy_getinfo(c->curl, CURLINFO_OS_ERRNO, &sys);
	curl_easy_getinfo(c->curl, CURLINFO_PRETRANSFER_TIME_T, &connected);
	switch (rc) {
	case CURLE_COULDNT_CONNECT:
		return err_set(e, ERR_UNREACH, "cannot reach %s: %s; is the server running?",
		    c->where, sys != 0 ? strerror((int)sys) : "no connection");
	case CURLE_COULDNT_RESOLVE_HOST:
		return err_set(e, ERR_UNREACH, "cannot find the address of %s", c->where);
	case CURLE_OPERATION_TIMEDOUT:
		if (connected == 0)
			return err_set(e, ERR_UNREACH,
			    "cannot reach %s: no connection within %.3g s", c->where, waited);
		return err_set(e, ERR_TIMEOUT, "%s did not answer within %.3g s", c->where, waited);
	case CURLE_ABORTED_BY_CALLBACK:
		return report_broken(c, "did not answer before this program had to stop", "",
		    ERR_STOPPED, e);
	case CURLE_WRITE_ERROR:
		if (c->too_large)
			return report_broken(c, "answered with more than 64 MiB", "", ERR_LIMIT, e);
		break;
	case CURLE_GOT_NOTHING:
	case CURLE_RECV_ERROR:
	case CURLE_SEND_ERROR:
	case CURLE_PARTIAL_FILE:
		return report_broken(c, "closed the connection before it had answered",
		    sys != 0 ? strerror((int)sys) : "", ERR_CLOSED, e);
	case CURLE_URL_MALFORMAT:
		return report_broken(c, "is not a valid address", "write HOST:PORT", ERR_CONFIG, e);
	case CURLE_UNSUPPORTED_PROTOCOL:
	case CURLE_WEIRD_SERVER_REPLY:
	case CURLE_BAD_CONTENT_ENCODING:
		return report_broken(c, "does not speak HTTP like a server of pskit",
		    "another program may listen there", ERR_PROTO, e);
	default:
		break;
	}
	return report_broken(c, "could not be reached", curl_easy_strerror(rc), ERR_FAILED, e);
}

/* Returns the longer list. After NULL (no memory), the old list is freed, too. */
static struct curl_slist *append_header(struct curl_slist *list, const char *name,
    const char *value)
{
	char *line = mem_printf("%s:%s%s", name, value[0] != '\0' ? " " : "", value);
	struct curl_slist *longer = curl_slist_append(list, line);

	free(line);
	if (longer == NULL)
		curl_slist_free_all(list);
	return longer;
}

/* Returns the headers of a request, for the caller to free; NULL: no memory. An empty
 * authorization adds no header. */
static struct curl_slist *make_headers(const struct http_client *c, const struct asking *a,
    const char *authorization)
{
	struct curl_slist *list = append_header(NULL, "Host", c->host);

	/* An empty value leaves curl's own header out. */
	if (list != NULL)
		list = append_header(list, "Expect", "");
	if (list != NULL)
		list = append_header(list, "Content-Type",
		    a->body != NULL ? "application/json" : "");
	if (list != NULL && authorization[0] != '\0')
		list = append_header(list, "Authorization", authorization);
	return list;
}

/* Sets the options of one call. The curl handle is used for all calls, so each option set here
 * is set every time. curl borrows url and body until the call has ended. */
static void set_curl_request(const struct http_client *c, const struct asking *a)
{
	bool post = strcmp(a->method, "POST") == 0;

	curl_easy_setopt(c->curl, CURLOPT_URL, a->url);
	curl_easy_setopt(c->curl, CURLOPT_CUSTOMREQUEST, NULL);
	if (post || a->body != NULL) {
		curl_easy_setopt(c->curl, CURLOPT_POST, 1L);
		curl_easy_setopt(c->curl, CURLOPT_POSTFIELDS, a->body != NULL ? a->body : "");
		curl_easy_setopt(c->curl, CURLOPT_POSTFIELDSIZE, (long)a->body_len);
	} else {
		curl_easy_setopt(c->curl, CURLOPT_HTTPGET, 1L);
	}
	if (!post && strcmp(a->method, "GET") != 0)
		curl_easy_setopt(c->curl, CURLOPT_CUSTOMREQUEST, a->method);
	/* curl sends a request again when an old connection turns out to be dead. A POST must
	 * not be sent twice, so use a fresh connection. */
	curl_easy_setopt(c->curl, CURLOPT_FRESH_CONNECT, post ? 1L : 0L);
}

/* Send one request and receive the bytes of its answer. */
static enum err_code send_once(struct http_client *c, struct asking *a, long *status, struct err *e)
{
	struct httpsig_msg m = message_of(c, a);
	char authorization[HTTPSIG_TEXT] = "";
	int64_t begin = clock_now(), left_ms = (a->deadline - begin) / NSEC_PER_MSEC;
	struct curl_slist *headers;
	enum err_code rc;
	CURLcode curl;
	long opened = 0;

	if (left_ms < 1)
		left_ms = 1;
	if (http_client_signs(c)) {
		rc = httpsig_sign_request(c->key, &m, c->keys.pk, c->boot,
		    clock_wall() / NSEC_PER_SEC, &a->head, authorization, e);
		if (rc != ERR_OK)
			return rc;
	}
	if (c->local)
		return http_send_local(c, a->method, a->target, authorization, a->body, a->body_len,
		    a->deadline, status, e);
	headers = make_headers(c, a, authorization);
	if (headers == NULL)
		return err_set(e, ERR_NOMEM, "no memory to ask %s", c->where);
	buf_clear(&c->reply);
	c->signature[0] = '\0';
	c->too_large = false;
	set_curl_request(c, a);
	curl_easy_setopt(c->curl, CURLOPT_HTTPHEADER, headers);
	curl_easy_setopt(c->curl, CURLOPT_TIMEOUT_MS, (long)left_ms);
	curl_easy_setopt(c->curl, CURLOPT_CONNECTTIMEOUT_MS,
	    (long)(left_ms < CONNECT_MAX_MS ? left_ms : CONNECT_MAX_MS));
	curl = curl_easy_perform(c->curl);
	curl_easy_setopt(c->curl, CURLOPT_HTTPHEADER, NULL);
	curl_slist_free_all(headers);
	if (curl != CURLE_OK)
		return curl_fault(c, curl, (double)(clock_now() - begin) / 1e9, e);
	curl_easy_getinfo(c->curl, CURLINFO_RESPONSE_CODE, status);
	curl_easy_getinfo(c->curl, CURLINFO_NUM_CONNECTS, &opened);
	c->resent = c->connected && opened > 0 && strcmp(a->method, "GET") == 0;
	c->connected = true;
	return ERR_OK;
}

/* Turn the error object of an answer into our own error. */
static enum err_code server_fault(const struct http_client *c, long status, bool trusted,
    struct err *e)
{
	json_t *v = json_parse((const char *)c->reply.data, c->reply.len, BODY_MAX, NULL);
	const json_t *error = json_object_get(v, "error");
	const char *name = json_str(error, "code", NULL);
	const char *msg = json_str(error, "message", NULL);
	const char *hint = json_str(error, "hint", "");
	enum err_code code;

	if (name == NULL || msg == NULL) {
		code = err_set(e, status == 401 ? ERR_AUTH : ERR_PROTO,
		    "%s is not a server of pskit (HTTP status %ld); another program may use that "
		    "port",
		    c->where, status);
		goto out;
	}
	code = err_by_name(name);
	/* An unsigned answer may refuse the request, but no other information in it is trusted. */
	if (!trusted)
		code = status == 401 ? ERR_AUTH : ERR_PROTO;
	if (code == ERR_OK)
		code = ERR_FAILED;
	err_because(e, code, err_cause_by_name(json_str(error, "cause", "")),
	    "%s%s%.380s%s%.120s%s", trusted ? "" : c->where,
	    trusted ? "" : " (unsigned answer): ", msg, hint[0] != '\0' ? " (" : "", hint,
	    hint[0] != '\0' ? ")" : "");
out:
	json_decref(v);
	return code;
}

/* Check the answer in c->reply. *again: send the request once more, signed again: the answer has a
 * new boot id, or curl sent a GET twice, so that the server refuses the second one as a replay. */
static enum err_code check_answer(struct http_client *c, const struct asking *a, long status,
    bool *again, struct err *e)
{
	struct httpsig_msg m = message_of(c, a);
	struct httpsig_head answer;
	enum err_code rc;

	*again = status == 401 && c->resent;
	if (!http_client_signs(c))
		return status < 400 ? ERR_OK : server_fault(c, status, true, e);
	if (c->signature[0] == '\0') {
		if (status >= 400)
			return server_fault(c, status, false, e);
		return err_set(e, ERR_AUTH,
		    "%s answered without a signature; do not trust it, because another program "
		    "may listen there",
		    c->where);
	}
	m.body = c->reply.data;
	m.body_len = c->reply.len;
	m.status = (int)status;
	rc = httpsig_verify_answer(c->key, &m, &a->head, c->signature, &answer, e);
	if (rc != ERR_OK)
		return e != NULL ? err_prefix(e, "%s", c->where) : rc;
	if (memcmp(c->boot, answer.boot, sizeof(c->boot)) != 0) {
		memcpy(c->boot, answer.boot, sizeof(c->boot));
		*again = status == 401;
	}
	return status < 400 ? ERR_OK : server_fault(c, status, true, e);
}

/* Sends a request and checks its answer. After success, the body is in c->reply until the next
 * call. *status is 0 when no answer has arrived. */
static enum err_code send_to_address(struct http_client *c, const char *method, const char *target,
    const json_t *body, int64_t timeout, int *status, struct err *e)
{
	struct asking a;
	enum err_code rc = asking_init(&a, c, method, target, body, timeout, e);

	*status = 0;
	/* At most twice: the first answer may have the boot id that requests must be signed for. */
	for (int i = 0; rc == ERR_OK && i < 2; i++) {
		bool again = false;
		long code = 0;

		rc = send_once(c, &a, &code, e);
		if (rc != ERR_OK)
			break;
		*status = (int)code;
		rc = check_answer(c, &a, code, &again, e);
		if (!again || i == 1)
			break;
		rc = ERR_OK;
		if (e != NULL)
			memset(e, 0, sizeof(*e));
	}
	asking_release(&a);
	return rc;
}

/* Does so at the places in turn, from the present one on, until somebody listens there: nobody has
 * received the request before. */
static enum err_code send_to_places(struct http_client *c, const char *method, const char *target,
    const json_t *body, int64_t deadline, int *status, struct err *e)
{
	size_t n = http_client_places(c);
	enum err_code rc = send_to_address(c, method, target, body, deadline - clock_now(), status,
	    e);

	for (size_t i = 1; rc == ERR_UNREACH && i < n && clock_now() < deadline; i++) {
		if (!http_client_next(c))
			break;
		if (e != NULL)
			memset(e, 0, sizeof(*e));
		rc = send_to_address(c, method, target, body, deadline - clock_now(), status, e);
	}
	return rc;
}

/* Is this the answer of the server that the finder has meant? What does not know our key, or does not
 * speak as a server of pskit, is another one that has got its address. */
static bool is_of_other_server(enum err_code rc)
{
	return rc == ERR_UNREACH || rc == ERR_AUTH || rc == ERR_PROTO;
}

static enum err_code send_request(struct http_client *c, const char *method, const char *target,
    const json_t *body, int64_t timeout, int *status, struct err *why)
{
	int64_t deadline = clock_now() + timeout;
	struct err ignored, *e = why != NULL ? why : &ignored, first;
	enum err_code rc;

	/* A server that was started again is found at its address before its Unix socket is there, and
	 * answers some requests on that alone. */
	http_client_return(c);
	rc = send_to_places(c, method, target, body, deadline, status, e);
	if (rc != ERR_UNREACH || clock_now() >= deadline || !http_client_find(c))
		return rc;
	first = *e;
	memset(e, 0, sizeof(*e));
	rc = send_to_places(c, method, target, body, deadline, status, e);
	return is_of_other_server(rc)
	    ? err_because(e, ERR_UNREACH, first.cause, "%.280s; %.280s", first.msg, e->msg)
	    : rc;
}

enum err_code http_call(struct http_client *c, const char *method, const char *target,
    const json_t *body, int64_t timeout, int *status, json_t **reply, struct err *e)
{
	int code;
	enum err_code rc;
	json_t *v;

	if (reply != NULL)
		*reply = NULL;
	rc = send_request(c, method, target, body, timeout, &code, e);
	if (status != NULL)
		*status = code;
	if (rc != ERR_OK || reply == NULL)
		return rc;
	v = json_parse((const char *)c->reply.data, c->reply.len, HTTP_REPLY_MAX, NULL);
	if (v == NULL)
		return err_set(e, ERR_PROTO, "%s answered %s with something that is not JSON",
		    c->where, target);
	*reply = v;
	return ERR_OK;
}

enum err_code http_get_text(struct http_client *c, const char *target, int64_t timeout,
    struct buf *out, struct err *e)
{
	int code;
	enum err_code rc = send_request(c, "GET", target, NULL, timeout, &code, e);

	if (rc == ERR_OK)
		buf_append(out, c->reply.data, c->reply.len);
	return rc;
}

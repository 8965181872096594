/* SPDX-License-Identifier: ISC */
#include "http/guard.h"

#include <string.h>
#include <strings.h>

#include "core/num.h"

struct reading {
	struct http_head *h;
	unsigned count;
	const char *length; /* Content-Length */
};

/* Tells whether s consists of the characters that HTTP allows in names of headers. */
static bool is_token(const char *s, size_t n)
{
	static const char extra[] = "!#$%&'*+-.^_`|~";

	for (size_t i = 0; i < n; i++) {
		char c = s[i];
		bool alnum = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
		    (c >= 'A' && c <= 'Z');

		if (!alnum && (c == '\0' || strchr(extra, c) == NULL))
			return false;
	}
	return n > 0;
}

static bool has_control(const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (((uint8_t)s[i] < 0x20 && s[i] != '\t') || s[i] == 0x7f)
			return true;
	return false;
}

/* Returns false, and keeps the first value, when the slot is filled already. */
static bool set_once(const char **slot, const char *value)
{
	if (*slot != NULL)
		return false;
	*slot = value;
	return true;
}

/* Keeps the value of a header that the server uses, without copying it. Returns NULL or a
 * constant that says what is wrong. Accept-Encoding alone may be repeated, and its last value
 * counts. */
static const char *take_header(struct reading *r, const char *name, const char *value)
{
	struct http_head *h = r->h;

	if (strcasecmp(name, "Host") == 0)
		return set_once(&h->host, value) ? NULL : "two Host headers";
	if (strcasecmp(name, "Content-Length") == 0)
		return set_once(&r->length, value) ? NULL : "two Content-Length headers";
	if (strcasecmp(name, "Authorization") == 0)
		return set_once(&h->authorization, value) ? NULL : "two Authorization headers";
	if (strcasecmp(name, "Content-Type") == 0)
		return set_once(&h->content_type, value) ? NULL : "two Content-Type headers";
	if (strcasecmp(name, "Origin") == 0)
		return set_once(&h->origin, value) ? NULL : "two Origin headers";
	if (strcasecmp(name, "Sec-Fetch-Site") == 0)
		return set_once(&h->site, value) ? NULL : "two Sec-Fetch-Site headers";
	if (strcasecmp(name, "Sec-Fetch-Mode") == 0)
		return set_once(&h->mode, value) ? NULL : "two Sec-Fetch-Mode headers";
	if (strcasecmp(name, "Accept-Encoding") == 0)
		h->encodings = value;
	h->transfer_encoded = strcasecmp(name, "Transfer-Encoding") == 0;
	if (h->transfer_encoded)
		return "Transfer-Encoding is not supported: send Content-Length";
	return NULL;
}

/* Checks one header for libmicrohttpd's iteration. MHD_NO ends the iteration, so h->fault is the
 * first fault of the request. */
static enum MHD_Result guard_header(void *ctx, enum MHD_ValueKind kind, const char *name,
    size_t nlen, const char *value, size_t vlen)
{
	struct reading *r = ctx;
	const char *fault = NULL;

	(void)kind;
	if (value == NULL) {
		value = "";
		vlen = 0;
	}
	if (++r->count > HTTP_HEADERS_MAX)
		fault = "more than 32 headers";
	else if (!is_token(name, nlen))
		fault = "a header name that is not a token";
	else if (has_control(value, vlen))
		fault = "a control byte in a header";
	else
		fault = take_header(r, name, value);
	if (fault == NULL)
		return MHD_YES;
	r->h->fault = fault;
	return MHD_NO;
}

static const char *uri_fault(const char *uri)
{
	if (uri[0] != '/')
		return "a request target that is not a path";
	for (const char *p = uri; *p != '\0'; p++)
		if (*p <= 0x20 || *p >= 0x7f || *p == '#')
			return "a request target with a byte that must be escaped";
	return NULL;
}

void http_guard_read(struct MHD_Connection *mhd, const char *version, const char *uri,
    struct http_head *h)
{
	struct reading r = { .h = h };

	memset(h, 0, sizeof(*h));
	h->content_length = -1;
	if (strcmp(version, "HTTP/1.1") != 0) {
		h->fault = "not HTTP/1.1";
		return;
	}
	h->fault = uri_fault(uri);
	if (h->fault == NULL)
		MHD_get_connection_values_n(mhd, MHD_HEADER_KIND, guard_header, &r);
	if (h->fault != NULL)
		return;
	if (h->host == NULL || h->host[0] == '\0' || strlen(h->host) > 255)
		h->fault = "no Host header, or one of more than 255 bytes";
	else if (r.length != NULL &&
	    (r.length[strspn(r.length, "0123456789")] != '\0' ||
	        !num_int(r.length, 0, INT64_MAX, &h->content_length)))
		h->fault = "a Content-Length that is not a number";
}

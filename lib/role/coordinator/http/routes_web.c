/* SPDX-License-Identifier: ISC */
#include "coordinator/http/routes.h"

#include <zlib.h>

#include "core/clock.h"
#include "core/json.h"
#include "web/assets.h"
#include "web/sessions.h"

/* The dashboard's page, and sessions that let a browser use it without a key. */

/* More than the size of any file of the page. */
#define ASSET_MAX (4u << 20)

bool routes_find_session(void *ctx, const char *text, struct http_peer *peer)
{
	struct coordinator *coordinator = ctx;
	enum web_right right = web_right(coordinator->web.sessions, text, clock_now());

	peer->role = right == WEB_CHANGE ? ROLE_ADMIN
	    : right == WEB_READ          ? ROLE_MONITOR
	                                 : ROLE_NONE;
	snprintf(peer->name, sizeof peer->name, "dashboard");
	return right != WEB_NONE;
}

/* Only for browsers that do not accept gzip. */
static bool unpack_asset(const struct web_asset *file, struct buf *out)
{
	z_stream z = { .next_in = (Bytef *)(uintptr_t)file->gz, .avail_in = (uInt)file->len };
	uint8_t piece[16384];
	int rc = inflateInit2(&z, 16 + MAX_WBITS);

	while (rc == Z_OK && out->len < ASSET_MAX) {
		z.next_out = piece;
		z.avail_out = sizeof piece;
		rc = inflate(&z, Z_NO_FLUSH);
		buf_append(out, piece, sizeof piece - z.avail_out);
	}
	inflateEnd(&z);
	return rc == Z_STREAM_END;
}

int routes_web_get(void *ctx, const struct http_request *req, struct http_answer *a)
{
	struct web_asset file;

	(void)ctx;
	if (!web_asset(req->path, &file)) {
		http_fail(a, ERR_NOTFOUND, NULL, "there is no %s here", req->path);
		return HTTP_DONE;
	}
	a->content_type = file.type;
	a->csp = WEB_POLICY;
	if (req->takes_gzip) {
		a->fixed = file.gz;
		a->fixed_len = file.len;
		a->encoding = "gzip";
	} else if (!unpack_asset(&file, &a->text)) {
		http_fail(a, ERR_FAILED, NULL, "%s cannot be unpacked", req->path);
	}
	return HTTP_DONE;
}

static bool find_loopback_address(struct coordinator *coordinator, char address[static 64],
    struct err *e)
{
	*address = 0;
	coordinator_lock(coordinator);
	if (!coordinator->http) {
		err_set(e, ERR_NOTREADY, "the coordinator is only starting");
	} else {
		http_server_loopback(coordinator->http, address);
		if (!*address)
			err_set(e, ERR_UNSUPPORTED,
			    "sessions of the dashboard are for the coordinator's own host, and it listens on %s "
			    "alone: set http to 127.0.0.1:0 or 0.0.0.0:0, or read with a token "
			    "(ps-ctl invite --role monitor)",
			    http_server_address(coordinator->http));
	}
	coordinator_unlock(coordinator);
	return *address;
}

/* Served on the Unix socket only, whose users may do everything anyway. */
int routes_post_dashboard(void *ctx, const struct http_request *req, struct http_answer *a)
{
	static const char *const keys[] = { "read_only", NULL };
	const json_t *read_only = json_object_get(req->body, "read_only");
	struct coordinator *coordinator = ctx;
	char address[64], ticket[WEB_SECRET];
	struct err e = { 0 };

	if (!json_only(req->body, "", keys, &e))
		return routes_fail(a, &e);
	if (read_only && !json_is_boolean(read_only)) {
		http_fail(a, ERR_USAGE, NULL, "read_only: must be true or false");
		return HTTP_DONE;
	}
	if (!find_loopback_address(coordinator, address, &e))
		return routes_fail(a, &e);
	web_ticket_new(coordinator->web.sessions, !json_is_true(read_only), clock_now(), ticket);
	return routes_answer(a,
	    json_pack("{s:s, s:s, s:i}", "address", address, "token", ticket, "seconds",
	        WEB_TICKET_SECONDS));
}

int routes_post_session(void *ctx, const struct http_request *req, struct http_answer *a)
{
	static const char *const keys[] = { NULL };
	struct coordinator *coordinator = ctx;
	char read[WEB_SECRET], change[WEB_SECRET];
	struct err e = { 0 };

	if (!json_only(req->body, "", keys, &e))
		return routes_fail(a, &e);
	/* Two browsers may have shown the ticket at the same time; it is valid once. */
	if (!req->session ||
	    !web_session_open(coordinator->web.sessions, req->session, clock_now(), read, change)) {
		http_fail(a, ERR_AUTH, "ps-ctl dashboard gives another",
		    "this address has been used, or is too old");
		return HTTP_DONE;
	}
	coordinator_lock(coordinator);
	coordinator_event(coordinator, EVENT_dashboard, "a dashboard was opened, %s",
	    *change ? "to change things" : "to read");
	coordinator_commit_unlock(coordinator);
	a->json = json_pack("{s:s, s:s?, s:i}", "read", read, "change", *change ? change : NULL,
	    "idle_seconds", WEB_IDLE_SECONDS);
	return HTTP_DONE;
}

int routes_post_session_end(void *ctx, const struct http_request *req, struct http_answer *a)
{
	static const char *const keys[] = { NULL };
	struct coordinator *coordinator = ctx;
	struct err e = { 0 };

	if (!json_only(req->body, "", keys, &e))
		return routes_fail(a, &e);
	if (req->session)
		web_session_end(coordinator->web.sessions, req->session);
	return routes_answer(a, json_object());
}

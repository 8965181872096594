/* SPDX-License-Identifier: ISC */
/* What strangers send to the control plane's port: request smuggling, floods,
 * slow and broken peers. */
#include "http_fixture.h"

#include <sys/resource.h>
#include <sys/wait.h>

static int send_raw(struct fixture *f, const void *p, size_t n, struct buf *out)
{
	int fd = fx_connect(f);

	buf_clear(out);
	buf_reserve(out, 1);
	/* The server may hang up before it has read everything. */
	send(fd, p, n, MSG_NOSIGNAL);
	fx_read_all(fd, out);
	close(fd);
	buf_puts(out, "");
	return fx_status(out);
}

/* Text with @ for the server's address. */
static int send_text(struct fixture *f, const char *text, struct buf *out)
{
	struct buf b = BUF_INIT;
	int status;

	for (const char *p = text; *p != '\0'; p++)
		if (*p == '@')
			buf_puts(&b, http_server_address(f->s));
		else
			buf_append(&b, p, 1);
	status = send_raw(f, b.data, b.len, out);
	buf_release(&b);
	return status;
}

#define WHOAMI "GET /v1/whoami HTTP/1.1\r\nHost: @\r\n\r\n"
#define HIDDEN "GET /livez HTTP/1.1\r\nHost: @\r\n\r\n"
#define GOOD   "GET /livez HTTP/1.1\r\nHost: @\r\n"

static const struct {
	const char *name, *text;
	/* 0: refused by libmicrohttpd itself, in its own (sometimes garbled) words */
	int status;
} table[] = {
	{ "a plain request", GOOD "\r\n", 200 },
	{ "a Host by name", "GET /livez HTTP/1.1\r\nHost: localhost:!\r\n\r\n", 200 },
	{ "CL and TE, a second request hidden",
	    GOOD "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" HIDDEN, 400 },
	{ "TE and CL",
	    GOOD "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n" HIDDEN, 400 },
	{ "TE alone", GOOD "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" HIDDEN, 400 },
	{ "TE in odd case", GOOD "tRANSFER-eNCODING: identity\r\n\r\n" HIDDEN, 400 },
	{ "two different Content-Lengths",
	    GOOD "Content-Length: 0\r\nContent-Length: 40\r\n\r\n" HIDDEN, 400 },
	{ "two equal Content-Lengths", GOOD "Content-Length: 0\r\nContent-Length: 0\r\n\r\n" HIDDEN,
	    400 },
	{ "Content-Length with a blank before the colon",
	    GOOD "Content-Length : 3\r\n\r\nabc" HIDDEN, 400 },
	{ "Content-Length +3", GOOD "Content-Length: +3\r\n\r\nabc" HIDDEN, 0 },
	{ "Content-Length 0x3", GOOD "Content-Length: 0x3\r\n\r\nabc" HIDDEN, 0 },
	{ "Content-Length 3,3", GOOD "Content-Length: 3,3\r\n\r\nabc" HIDDEN, 0 },
	{ "Content-Length -1", GOOD "Content-Length: -1\r\n\r\n" HIDDEN, 0 },
	{ "an endless Content-Length", GOOD "Content-Length: 99999999999999999999999\r\n\r\n", 0 },
	{ "GET with a body", GOOD "Content-Length: 3\r\n\r\nabc", 400 },
	{ "two Hosts", GOOD "Host: evil.example\r\n\r\n", 400 },
	{ "two equal Hosts", GOOD "Host: @\r\n\r\n", 400 },
	{ "no Host", "GET /livez HTTP/1.1\r\n\r\n", 0 },
	{ "an empty Host", "GET /livez HTTP/1.1\r\nHost:\r\n\r\n", 400 },
	{ "another's Host (DNS rebinding)", "GET /livez HTTP/1.1\r\nHost: evil.example\r\n\r\n",
	    400 },
	{ "our Host without port", "GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 400 },
	{ "two Authorizations",
	    GOOD "Authorization: Bearer letmesee\r\nAuthorization: Bearer x\r\n\r\n", 400 },
	{ "HTTP/1.0", "GET /livez HTTP/1.0\r\nHost: @\r\n\r\n", 400 },
	{ "HTTP/1.2", "GET /livez HTTP/1.2\r\nHost: @\r\n\r\n", 0 },
	{ "HTTP/0.9", "GET /livez\r\n\r\n", 0 },
	{ "an absolute target", "GET http://evil.example/livez HTTP/1.1\r\nHost: @\r\n\r\n", 400 },
	{ "a starred target", "OPTIONS * HTTP/1.1\r\nHost: @\r\n\r\n", 400 },
	{ "a header name that is no token", GOOD "X(y): 1\r\n\r\n", 400 },
	{ "a control byte in a value", GOOD "X: a\001b\r\n\r\n", 400 },
	{ "a byte over 7f in the target", "GET /livez\xff HTTP/1.1\r\nHost: @\r\n\r\n", 400 },
	{ "an escaped path is no path of ours", "GET /live%7a HTTP/1.1\r\nHost: @\r\n\r\n", 401 },
	{ "a path that climbs", "GET /livez/../v1/whoami HTTP/1.1\r\nHost: @\r\n\r\n", 401 },
	{ "another site's page", GOOD "Origin: http://evil.example\r\n\r\n", 403 },
	{ "a page of nowhere", GOOD "Origin: null\r\n\r\n", 403 },
	{ "our own page", GOOD "Origin: http://@\r\n\r\n", 200 },
	{ "a cross-site fetch", GOOD "Sec-Fetch-Site: cross-site\r\n\r\n", 403 },
	{ "a same-site fetch", GOOD "Sec-Fetch-Site: same-site\r\n\r\n", 403 },
	{ "a same-origin fetch", GOOD "Sec-Fetch-Site: same-origin\r\n\r\n", 200 },
	{ "a preflight",
	    "OPTIONS /v1/echo HTTP/1.1\r\nHost: @\r\nOrigin: http://@\r\n"
	    "Access-Control-Request-Method: POST\r\n\r\n",
	    401 },
	{ "an unsigned request", WHOAMI, 401 },
	{ "a token", "GET /v1/whoami HTTP/1.1\r\nHost: @\r\nAuthorization: Bearer letmesee\r\n\r\n",
	    200 },
	{ "a wrong token", "GET /v1/whoami HTTP/1.1\r\nHost: @\r\nAuthorization: Bearer no\r\n\r\n",
	    401 },
	{ "a token where none will do",
	    "GET /v1/events HTTP/1.1\r\nHost: @\r\nAuthorization: Bearer letmesee\r\n\r\n", 403 },
	{ "a token to POST with",
	    "POST /v1/echo HTTP/1.1\r\nHost: @\r\nAuthorization: Bearer letmesee\r\n\r\n", 403 },
	{ "a scheme that we do not know",
	    "GET /v1/whoami HTTP/1.1\r\nHost: @\r\nAuthorization: Basic eDp5\r\n\r\n", 401 },
	{ "a broken signature",
	    "GET /v1/whoami HTTP/1.1\r\nHost: @\r\nAuthorization: PS1 key=AAAA\r\n\r\n", 401 },
	{ "a stranger's body is not waited for",
	    "POST /v1/echo HTTP/1.1\r\nHost: @\r\nContent-Length: 60000\r\n\r\n", 401 },
	{ "bare line feeds", "GET /livez HTTP/1.1\nHost: @\n\n", 200 },
	{ "a space in the target", "GET /livez x HTTP/1.1\r\nHost: @\r\n\r\n", 0 },
	{ "no request", "\r\n\r\n\r\n\r\nhello\r\n\r\n", 0 },
};

static void test_table(struct fixture *f)
{
	struct buf out = BUF_INIT;
	char port[8];

	snprintf(port, sizeof(port), "%u", http_server_port(f->s));
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		char *text = mem_strdup(table[i].text), *mark = strchr(text, '!');
		int status, n;

		if (mark != NULL) {
			char *with = mem_printf("%.*s%s%s", (int)(mark - text), text, port,
			    mark + 1);

			free(text);
			text = with;
		}
		status = send_text(f, text, &out);
		free(text);
		n = fx_answers(&out);
		if (table[i].status == 0)
			ok(strstr(fx_text_of(&out), "HTTP/1.1 2") == NULL &&
			        (status == 0 || status >= 400),
			    "%s: %d", table[i].name, status);
		else
			ok(n == 1 && status == table[i].status, "%s: %d, %d answer(s)",
			    table[i].name, status, n);
		if (status == 400 || status == 401)
			ok(strstr(fx_text_of(&out), "Connection: close") != NULL,
			    "... and is hung up on");
	}
	buf_release(&out);
}

static void test_headers(struct fixture *f)
{
	static const char *const want[] = {
		"Cache-Control: no-store\r\n",
		"X-Content-Type-Options: nosniff\r\n",
		"X-Frame-Options: DENY\r\n",
		"Content-Type: application/json\r\n",
		"Content-Security-Policy: default-src 'none'; frame-ancestors 'none'\r\n",
	};
	static const char *const requests[] = { GOOD "\r\n", WHOAMI, GOOD "Host: x\r\n\r\n" };
	struct buf out = BUF_INIT;

	for (size_t r = 0; r < 3; r++) {
		int status = send_text(f, requests[r], &out);

		for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++)
			ok(strstr(fx_text_of(&out), want[i]) != NULL, "%d has %.*s", status,
			    (int)strcspn(want[i], "\r"), want[i]);
		ok(strcasestr(fx_text_of(&out), "Access-Control") == NULL, "%d has no CORS header",
		    status);
	}
	send_text(f, "GET / HTTP/1.1\r\nHost: @\r\n\r\n", &out);
	ok(strstr(fx_text_of(&out), "Policy: default-src 'self'\r\n") != NULL &&
	        strstr(fx_text_of(&out), "Type: text/html; charset=utf-8\r\n") != NULL,
	    "a page has its own type and policy");
	send_text(f, GOOD "Host: x\r\n\r\n", &out);
	ok(strstr(fx_text_of(&out),
	       "{\"error\":{\"code\":\"proto\",\"message\":\"malformed request: "
	       "two Host headers\",\"hint\":\"\"}}\n") != NULL,
	    "the shape of an error");
	buf_release(&out);
}

static void test_bytes(struct fixture *f)
{
	const char *addr = http_server_address(f->s);
	struct buf b = BUF_INIT, out = BUF_INIT;
	uint8_t hello[200] = { 0x16, 3, 1, 0, 195, 1, 0, 0, 191, 3, 3 };
	int status;

	buf_printf(&b, "GET /livez HTTP/1.1\r\nHost: %s", addr);
	buf_append(&b, "\0evil\r\n\r\n", 10);
	status = send_raw(f, b.data, b.len, &out);
	ok(fx_answers(&out) <= 1 && (status == 200 || status == 400), "NUL in a value: %d", status);
	buf_clear(&b);
	buf_printf(&b, "GET /livez HTTP/1.1\r\nHost: %s\r\nContent-Length", addr);
	buf_append(&b, "\0: 3\r\n\r\nabc", 12);
	status = send_raw(f, b.data, b.len, &out);
	ok(fx_answers(&out) <= 1, "NUL in a name: %d", status);
	buf_clear(&b);
	buf_append(&b, "GET /livez\0 HTTP/1.1\r\n", 22);
	buf_printf(&b, "Host: %s\r\n\r\n", addr);
	status = send_raw(f, b.data, b.len, &out);
	ok(fx_answers(&out) <= 1, "NUL in the target: %d", status);
	buf_clear(&b);
	buf_printf(&b, "GET /livez HTTP/1.1\r\nHost: %s\r\nX: %020000d\r\n\r\n", addr, 1);
	status = send_raw(f, b.data, b.len, &out);
	ok(fx_answers(&out) <= 1 && (status == 431 || status == 400), "a 20 KB header: %d", status);
	buf_clear(&b);
	buf_printf(&b, "GET /%020000d HTTP/1.1\r\nHost: %s\r\n\r\n", 1, addr);
	status = send_raw(f, b.data, b.len, &out);
	ok(fx_answers(&out) <= 1 && (status == 414 || status == 431 || status == 0),
	    "a 20 KB target: %d", status);
	for (int n = 30; n <= 500; n += 470) {
		buf_clear(&b);
		buf_printf(&b, "GET /livez HTTP/1.1\r\nHost: %s\r\n", addr);
		for (int i = 0; i < n; i++)
			buf_printf(&b, "a%d: 1\r\n", i);
		buf_puts(&b, "\r\n");
		status = send_raw(f, b.data, b.len, &out);
		ok(n == 30 ? status == 200 : status == 400 || status == 431, "%d headers: %d",
		    n + 1, status);
	}
	randombytes_buf(hello + 11, sizeof(hello) - 11);
	/* No line ends: those would make it a malformed request at once. */
	for (size_t i = 11; i < sizeof(hello); i++)
		if (hello[i] == '\n' || hello[i] == '\r')
			hello[i] = 'x';
	status = send_raw(f, hello, sizeof(hello), &out);
	ok(status == 0 && out.len == 0, "a TLS client hello is hung up on");
	buf_release(&b);
	buf_release(&out);
}

/* By the Unix socket, where a body is read without a signature. */
static int post_local(struct fixture *f, const char *type, size_t claimed, const void *body,
    size_t n, struct buf *out)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	char *head =
	    mem_printf("POST /v1/echo HTTP/1.1\r\nHost: x\r\n%s%s%sContent-Length: %zu\r\n\r\n",
	        type != NULL ? "Content-Type: " : "", type != NULL ? type : "",
	        type != NULL ? "\r\n" : "", claimed);

	snprintf(sun.sun_path, sizeof(sun.sun_path), "%s", f->sock);
	if (connect(fd, (struct sockaddr *)&sun, sizeof(sun)) != 0)
		abort();
	buf_clear(out);
	send(fd, head, strlen(head), MSG_NOSIGNAL);
	send(fd, body, n, MSG_NOSIGNAL);
	fx_read_all(fd, out);
	close(fd);
	free(head);
	return fx_status(out);
}

static void test_bodies(struct fixture *f)
{
	struct buf out = BUF_INIT, b = BUF_INIT;
	const char *json = "application/json";
	int status;

	ok(post_local(f, "application/json; charset=utf-8", 7, "{\"k\":1}", 7, &out) == 201,
	    "JSON");
	ok(post_local(f, "text/plain", 7, "{\"k\":1}", 7, &out) == 415, "JSON under another type");
	ok(post_local(f, NULL, 7, "{\"k\":1}", 7, &out) == 415, "JSON without a type");
	ok(post_local(f, "application/jsonp", 7, "{\"k\":1}", 7, &out) == 415, "a type like it");
	ok(post_local(f, json, 7, "{\"k\":1", 6, &out) == 0 && out.len == 0, "a body cut short");
	ok(post_local(f, json, 13, "{\"k\":1,\"k\":2}", 13, &out) == 400,
	    "a key that stands twice");
	ok(post_local(f, json, 8, "{\"k\":1}x", 8, &out) == 400, "text after it");
	ok(post_local(f, json, 9, "{\"k\":\"\xff\"}", 9, &out) == 400, "what is not UTF-8");
	ok(post_local(f, json, 65537, "{", 1, &out) == 413, "65537 bytes are refused unseen");
	ok(post_local(f, json, 1u << 30, "{", 1, &out) == 413, "and so is a gigabyte");
	buf_puts(&b, "{\"k\":\"");
	while (b.len < HTTP_BODY_MAX - 2)
		buf_puts(&b, "x");
	buf_puts(&b, "\"}");
	ok(post_local(f, json, b.len, b.data, b.len, &out) == 201, "65536 bytes are taken");
	for (int deep = 31; deep <= 30000; deep = deep == 31 ? 32 : 30000) {
		buf_clear(&b);
		buf_puts(&b, "{\"k\":");
		for (int i = 0; i < deep; i++)
			buf_puts(&b, "[");
		for (int i = 0; i < deep; i++)
			buf_puts(&b, "]");
		buf_puts(&b, "}");
		status = post_local(f, json, b.len, b.data, b.len, &out);
		ok(status == (deep == 31 ? 201 : 400), "%d levels: %d", deep + 1, status);
		if (deep == 30000)
			break;
	}
	buf_release(&b);
	buf_release(&out);
}

/* One byte every 20 ms, of a good request. */
static void test_drip(struct fixture *f)
{
	struct buf b = BUF_INIT;
	int64_t begin = clock_now(), idle = tap_idle_clock(), took;
	int fd = fx_connect(f);
	struct pollfd p = { .fd = fd, .events = POLLIN };
	size_t i;

	buf_printf(&b, "GET /livez HTTP/1.1\r\nHost: %s\r\nX: %0500d", http_server_address(f->s),
	    1);
	for (i = 0; i < b.len && poll(&p, 1, 20) == 0; i++)
		if (send(fd, b.data + i, 1, MSG_NOSIGNAL) != 1)
			break;
	took = clock_now() - begin;
	ok(i < b.len && took >= 280 * MS && tap_idle_clock() - idle < 3000 * MS,
	    "a request that drips is ended after %lld ms", (long long)(took / MS));
	close(fd);
	buf_release(&b);
}

/* Several requests on one connection, each with a time of its own. */
static void test_keepalive(struct fixture *f)
{
	char *text = mem_printf("GET /livez HTTP/1.1\r\nHost: %s\r\n\r\n",
	    http_server_address(f->s));
	int fd = fx_connect(f), good = 0;
	int64_t end = clock_now() + 700 * MS;
	struct buf out = BUF_INIT;

	while (clock_now() < end && good >= 0) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		ssize_t n = -1;

		if (send(fd, text, strlen(text), MSG_NOSIGNAL) > 0 && poll(&p, 1, 5000) > 0)
			n = recv(fd, buf_reserve(&out, 4096), 4096, 0);
		good = n > 0 ? good + 1 : -1;
		poll(&p, 1, 100);
	}
	ok(good >= 4, "a connection that is used lives past the deadline (%d requests)", good);
	buf_clear(&out);
	fx_read_all(fd, &out);
	ok(out.len == 0, "and ends when it is not");
	close(fd);
	/* Two at once are answered in turn. */
	{
		char *two = mem_printf("%s%s", text, text);

		send_raw(f, two, strlen(two), &out);
		ok(fx_answers(&out) == 2, "two requests sent at once get two answers");
		free(two);
	}
	buf_release(&out);
	free(text);
}

/* A client whose connection the server has dropped for idleness. */
static void test_idle_client(struct fixture *f)
{
	struct http_client *c = fx_client(f, http_server_address(f->s), &f->admin);
	struct buf out = BUF_INIT;
	struct err e = { .code = ERR_OK };
	int fd, good = 0;

	for (int i = 0; i < 4; i++) {
		good += http_call(c, i < 2 ? "GET" : "POST", i < 2 ? "/v1/whoami" : "/v1/echo",
		            NULL, 20 * NSEC_PER_SEC, NULL, NULL, &e) == ERR_OK;
		/* One that is opened later is ended later. */
		fd = fx_connect(f);
		fx_read_all(fd, &out);
		close(fd);
	}
	ok(good == 4, "a client is not troubled by the end of its idle connection: %s", e.msg);
	buf_release(&out);
	http_client_free(c);
}

/* Another user reaches the socket (its directory and mode opened on purpose):
 * the kernel's word is what keeps him out. */
static void test_other_user(struct fixture *f)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	static const char text[] = "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n";
	uint64_t refused = http_server_refused(f->s);
	int status = 0;
	pid_t pid;

	if (geteuid() != 0) {
		ok(true, "another user is refused # SKIP only root can be another user");
		return;
	}
	snprintf(sun.sun_path, sizeof(sun.sun_path), "%s", f->sock);
	chmod(f->dir, 0755);
	chmod(f->sock, 0777);
	for (int uid = 0; uid <= 65534; uid += 65534) {
		pid = fork();
		if (pid == 0) {
			int fd = socket(AF_UNIX, SOCK_STREAM, 0);
			char c;

			if (setuid((uid_t)uid) != 0 || connect(fd, (void *)&sun, sizeof(sun)) != 0)
				_exit(2);
			send(fd, text, sizeof(text) - 1, MSG_NOSIGNAL);
			_exit(recv(fd, &c, 1, 0) == 1);
		}
		waitpid(pid, &status, 0);
		ok(WIFEXITED(status) && WEXITSTATUS(status) == (uid == 0), "user %d is %s", uid,
		    uid == 0 ? "answered" : "hung up on");
	}
	ok(http_server_refused(f->s) == refused + 1, "and counted");
	chmod(f->sock, 0600);
	chmod(f->dir, 0700);
}

static void test_flood(struct fixture *f, bool local)
{
	struct http_client *c = fx_client(f, local ? NULL : http_server_address(f->s),
	    local ? NULL : &f->admin);
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	struct err e = { .code = ERR_OK };
	int fd[300], good = 0;
	int64_t begin;

	snprintf(sun.sun_path, sizeof(sun.sun_path), "%s", f->sock);
	for (int i = 0; i < 300; i++) {
		fd[i] = local ? socket(AF_UNIX, SOCK_STREAM, 0) : fx_connect(f);
		if (local && connect(fd[i], (struct sockaddr *)&sun, sizeof(sun)) != 0)
			abort();
		if (i % 2)
			send(fd[i], "GET /li", 7, MSG_NOSIGNAL);
	}
	begin = tap_idle_clock();
	for (int i = 0; i < 20; i++)
		good += http_call(c, "GET", "/v1/whoami", NULL, 20 * NSEC_PER_SEC, NULL, NULL,
		            &e) == ERR_OK;
	ok(good == 20 && tap_idle_clock() - begin < 10 * NSEC_PER_SEC,
	    "300 silent connections (%s) do not stop a good one: %d of 20 in %lld ms: %s",
	    local ? "unix" : "tcp", good, (long long)((tap_idle_clock() - begin) / MS), e.msg);
	for (int i = 0; i < 300; i++)
		close(fd[i]);
	http_client_free(c);
}

/* Silent connections from one address push out each other, not those of another. */
static void test_flood_of_one(struct fixture *f)
{
	char *text = mem_printf("GET /livez HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n",
	    http_server_address(f->s));
	struct buf out = BUF_INIT;
	int slow = fx_connect(f), fd[300];

	send(slow, text, 9, MSG_NOSIGNAL);
	for (int i = 0; i < 300; i++)
		fd[i] = fx_connect_from(f, "127.0.0.2");
	/* They are taken in the order in which they came: wait until the first goes. */
	fx_read_all(fd[0], &out);
	fx_read_all(fd[200], &out);
	send(slow, text + 9, strlen(text + 9), MSG_NOSIGNAL);
	fx_read_all(slow, &out);
	ok(fx_status(&out) == 200, "a slow one of another address survives them: %d",
	    fx_status(&out));
	for (int i = 0; i < 300; i++)
		close(fd[i]);
	close(slow);
	buf_release(&out);
	free(text);
}

/* Strangers who ask for a large page and read nothing of it. */
static void test_slow_readers(struct fixture *f)
{
	char *text = mem_printf("GET /big HTTP/1.1\r\nHost: %s\r\n\r\n", http_server_address(f->s));
	struct http_client *c = fx_client(f, http_server_address(f->s), &f->admin);
	struct buf out = BUF_INIT;
	struct err e = { .code = ERR_OK };
	int fd[340], small = 4096, medium = 256 << 10, good = 0;

	for (int i = 0; i < 340; i++) {
		fd[i] = fx_connect_from(f, i % 2 ? "127.0.0.2" : "127.0.0.3");
		/* The answer to the first one is read below, which would take a minute with a small
		 * window. */
		setsockopt(fd[i], SOL_SOCKET, SO_RCVBUF, i ? &small : &medium, sizeof(small));
		send(fd[i], text, strlen(text), MSG_NOSIGNAL);
	}
	while (good < 20 &&
	    http_call(c, "GET", "/v1/whoami", NULL, 25 * NSEC_PER_SEC, NULL, NULL, &e) == ERR_OK)
		good++;
	ok(good == 20, "340 slow readers do not stop a good client: %d of 20: %s", good, e.msg);
	fx_read_all(fd[0], &out);
	ok(out.len < FX_BIG, "the oldest was closed after %zu bytes", out.len);
	for (int i = 0; i < 340; i++)
		close(fd[i]);
	buf_release(&out);
	http_client_free(c);
	free(text);
}

int main(void)
{
	struct rlimit files = { 4096, 4096 };
	struct fixture f;
	struct http_server_config cfg;

	setrlimit(RLIMIT_NOFILE, &files);
	fx_init(&f);
	cfg = fx_config(&f);
	cfg.request_timeout = 300 * MS;
	fx_start(&f, &cfg);
	test_table(&f);
	test_headers(&f);
	test_bytes(&f);
	test_bodies(&f);
	test_drip(&f);
	test_keepalive(&f);
	test_idle_client(&f);
	test_other_user(&f);
	http_server_stop(f.s);
	/* A deadline that cannot be what helps. */
	cfg.request_timeout = 60 * NSEC_PER_SEC;
	fx_start(&f, &cfg);
	test_flood(&f, false);
	test_flood(&f, true);
	test_flood_of_one(&f);
	test_slow_readers(&f);
	fx_release(&f);
	return tap_done();
}

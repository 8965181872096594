/* SPDX-License-Identifier: ISC */
/* The control plane's server and client, in one process. */
#include "http_fixture.h"

#include "auth/httpsig.h"

static void test_good(struct fixture *f, struct http_client *c, const char *how, const char *name)
{
	json_t *v = NULL;
	struct buf text = BUF_INIT;
	struct err e;
	int status;

	ok(fx_call(c, "GET", "/v1/whoami", NULL, &status, &v, &e) == ERR_OK && status == 200 &&
	        strcmp(json_str(v, "name", ""), name) == 0,
	    "%s: GET is answered, by %s: %s", how, name, e.msg);
	json_decref(v);
	ok(fx_call(c, "POST", "/v1/echo?x=a%20b%2f%C3%A9&pretty", json_pack("{s:[i,i]}", "k", 1, 2),
	       &status, &v, &e) == ERR_OK &&
	        status == 201 && strcmp(json_str(v, "x", ""), "a b/\xc3\xa9") == 0 &&
	        json_array_size(json_object_get(json_object_get(v, "body"), "k")) == 2,
	    "%s: POST has its body and its decoded query: %s", how, e.msg);
	json_decref(v);
	ok(fx_call(c, "POST", "/v1/echo", NULL, &status, &v, &e) == ERR_OK &&
	        json_is_object(json_object_get(v, "body")),
	    "%s: POST without a body is an empty object", how);
	json_decref(v);
	ok(http_get_text(c, "/metrics", 20 * NSEC_PER_SEC, &text, &e) == ERR_OK &&
	        text.len > 900000 && strstr(fx_text_of(&text), "n=\"39999\"} 1\n") != NULL,
	    "%s: a megabyte of text arrives", how);
	buf_release(&text);
	ok(fx_call(c, "GET", "/v1/fenced", NULL, &status, &v, &e) == ERR_FENCED && status == 409 &&
	        v == NULL && strcmp(e.msg, "rank 3 is taken over � (start again)") == 0,
	    "%s: an error comes with its code, message and hint: %s", how, e.msg);
	ok(fx_call(c, "GET", "/v1/whoamy", NULL, &status, &v, &e) == ERR_NOTFOUND &&
	        status == 404 && strstr(e.msg, "did you mean /v1/whoami?") != NULL,
	    "%s: a wrong path: %s", how, e.msg);
	ok(fx_call(c, "POST", "/v1/whoami", NULL, &status, &v, &e) == ERR_UNSUPPORTED &&
	        status == 405,
	    "%s: a wrong method: %s", how, e.msg);
	ok(fx_call(c, "GET", "/v1/events?since=1&since=2", NULL, &status, &v, &e) == ERR_USAGE &&
	        status == 400,
	    "%s: a doubled query key: %s", how, e.msg);
	ok(fx_call(c, "GET", "/v1/events?since=%zz", NULL, &status, &v, &e) == ERR_USAGE,
	    "%s: a bad escape: %s", how, e.msg);
	ok(fx_call(c, "POST", "/v1/echo", json_array(), &status, &v, &e) == ERR_FORMAT &&
	        status == 400,
	    "%s: a body that is no object: %s", how, e.msg);
	ok(fx_call(c, "GET", "no slash", NULL, &status, &v, &e) == ERR_USAGE && status == 0,
	    "%s: a path without slash is not asked", how);
	(void)f;
}

/* Every path, with every method, as everyone. */
static void test_matrix(struct fixture *f, const char *addr)
{
	static const char *const methods[] = { "GET", "POST", "PUT", "DELETE", "OPTIONS", "PATCH" };
	const struct key_pair *keys[] = { &f->admin, &f->worker, NULL };
	const enum role roles[] = { ROLE_ADMIN, ROLE_WORKER, ROLE_NONE };
	int wrong = 0, n = 0;

	for (size_t k = 0; k < 3; k++) {
		struct http_client *c = fx_client(f, addr, keys[k]);

		for (size_t i = 0; i < sizeof(fx_routes) / sizeof(fx_routes[0]); i++)
			for (size_t m = 0; m < 6; m++) {
				const struct http_route *r = NULL;
				char target[64];
				int status, want;
				struct err e;

				for (size_t j = 0; j < sizeof(fx_routes) / sizeof(fx_routes[0]);
				     j++)
					if (strcmp(fx_routes[j].path, fx_routes[i].path) == 0 &&
					    strcmp(fx_routes[j].method, methods[m]) == 0)
						r = &fx_routes[j];
				if (r != NULL && (r->flags & HTTP_OPEN))
					want = 200;
				else if (roles[k] == ROLE_NONE)
					want = 401;
				else if (r == NULL)
					want = 405;
				else if ((r->flags & HTTP_LOCAL_ONLY) ||
				    !(r->roles & 1u << roles[k]))
					want = 403;
				else if (r->fn == fx_echo)
					want = 201;
				else
					want = r->fn == fx_fenced ? 409 : 200;
				snprintf(target, sizeof(target), "%s%s", fx_routes[i].path,
				    fx_routes[i].fn == fx_events ? "?since=-1" : "");
				fx_call(c, methods[m], target, NULL, &status, NULL, &e);
				n++;
				if (status != want) {
					printf("# %s %s as %s: %d, not %d\n", methods[m], target,
					    role_name(roles[k]), status, want);
					wrong++;
				}
			}
		http_client_free(c);
	}
	ok(wrong == 0, "each of %d (path, method, role) has its status", n);
}

static void test_refusals(struct fixture *f, const char *addr)
{
	struct http_client *c;
	struct key_pair other;
	uint8_t psk[32];
	struct err e;
	int status, before = f->echoes;
	uint64_t refused = http_server_refused(f->s);

	key_pair_generate(&other);
	c = fx_client(f, addr, &other);
	ok(fx_call(c, "GET", "/v1/whoami", NULL, &status, NULL, &e) == ERR_AUTH && status == 401,
	    "an unknown key: %s", e.msg);
	http_client_free(c);
	memcpy(psk, f->psk, 32);
	f->psk[31] ^= 1;
	c = fx_client(f, addr, &f->admin);
	ok(fx_call(c, "POST", "/v1/echo", NULL, &status, NULL, &e) == ERR_AUTH && status == 401,
	    "another secret: %s", e.msg);
	http_client_free(c);
	memcpy(f->psk, psk, 32);
	/* The right public key in the request, but not its secret. */
	memcpy(other.pk, f->admin.pk, 32);
	c = fx_client(f, addr, &other);
	ok(fx_call(c, "POST", "/v1/echo", NULL, &status, NULL, &e) == ERR_AUTH && status == 401,
	    "a borrowed public key: %s", e.msg);
	http_client_free(c);
	c = fx_client(f, addr, &f->worker);
	ok(fx_call(c, "POST", "/v1/echo", NULL, &status, NULL, &e) == ERR_FORBIDDEN &&
	        status == 403,
	    "a role that may not: %s", e.msg);
	http_client_free(c);
	c = fx_client(f, addr, &f->admin);
	ok(fx_call(c, "GET", "/v1/secret", NULL, &status, NULL, &e) == ERR_FORBIDDEN &&
	        status == 403,
	    "secrets do not leave by TCP: %s", e.msg);
	http_client_free(c);
	c = fx_client(f, NULL, NULL);
	ok(fx_call(c, "GET", "/v1/secret", NULL, &status, NULL, &e) == ERR_OK,
	    "but by the Unix socket");
	ok(fx_call(c, "POST", "/v1/join", NULL, &status, NULL, &e) == ERR_FORBIDDEN,
	    "the local admin is no worker: %s", e.msg);
	http_client_free(c);
	c = fx_client(f, NULL, &f->worker);
	ok(fx_call(c, "POST", "/v1/join", NULL, &status, NULL, &e) == ERR_OK,
	    "unless it signs as one: %s", e.msg);
	ok(fx_call(c, "POST", "/v1/echo", NULL, &status, NULL, &e) == ERR_FORBIDDEN,
	    "and then it is no admin");
	http_client_free(c);
	ok(f->echoes == before, "none of these reached a handler");
	ok(http_server_refused(f->s) == refused + 3, "those that were not authorised are counted");
}

/* Send a request signed as `m` at time `now` with the given nonce's head, but
 * with the target, host and body given. */
static int send_signed(struct fixture *f, const char *head, const char *body, const char *auth,
    struct buf *out)
{
	char *text = mem_printf("%s\r\nContent-Length: %zu\r\nContent-Type: application/json\r\n"
	                        "Connection: close\r\nAuthorization: %s\r\n\r\n%s",
	    head, strlen(body), auth, body);
	int fd = fx_connect(f);

	buf_clear(out);
	file_write_all(fd, text, strlen(text), NULL);
	fx_read_all(fd, out);
	close(fd);
	free(text);
	return fx_status(out);
}

static void test_signatures(struct fixture *f)
{
	const char *host = http_server_address(f->s), *body = "{\"k\":1}";
	struct httpsig_msg m = { "POST", "/v1/echo", "x=1", host, body, 7, 0 };
	uint8_t key[32], boot[REPLAY_BOOT_BYTES];
	char auth[HTTPSIG_TEXT], *head = mem_printf("POST /v1/echo?x=1 HTTP/1.1\r\nHost: %s", host);
	char *bad[3];
	struct httpsig_head h, answer;
	struct buf out = BUF_INIT;
	int64_t now = clock_wall() / NSEC_PER_SEC;
	int before = f->echoes;
	const char *sig;

	sodium_hex2bin(boot, sizeof(boot), http_server_boot(f->s), 32, NULL, NULL, NULL);
	httpsig_key(key, &f->admin, f->server_keys.pk, true, f->psk);
#define SIGN(now_, boot_) httpsig_sign_request(key, &m, f->admin.pk, boot_, now_, &h, auth, NULL)
	SIGN(now, boot);
	ok(send_signed(f, head, body, auth, &out) == 201, "a signed request by hand is obeyed");
	sig = strstr(fx_text_of(&out), "PS1-Signature: ");
	if (ok(sig != NULL, "and its answer is signed")) {
		struct httpsig_msg am = m;
		char value[HTTPSIG_TEXT];

		snprintf(value, sizeof(value), "%.*s", (int)strcspn(sig + 15, "\r"), sig + 15);
		am.body = strstr(fx_text_of(&out), "\r\n\r\n") + 4;
		am.body_len = strlen(am.body);
		am.status = 201;
		ok(httpsig_verify_answer(key, &am, &h, value, &answer, NULL) == ERR_OK, "rightly");
		am.status = 200;
		ok(httpsig_verify_answer(key, &am, &h, value, &answer, NULL) == ERR_AUTH,
		    "over its status too");
	}
	ok(send_signed(f, head, body, auth, &out) == 401 &&
	        strstr(fx_text_of(&out), "\"code\":\"auth\"") != NULL,
	    "the same again is a replay");
	SIGN(now, boot);
	ok(send_signed(f, head, "{\"k\":2}", auth, &out) == 401, "an altered body is refused");
	bad[0] = mem_printf("POST /v1/echo?x=2 HTTP/1.1\r\nHost: %s", host);
	bad[1] = mem_printf("POST /v1/join?x=1 HTTP/1.1\r\nHost: %s", host);
	bad[2] = mem_printf("POST /v1/echo?x=1 HTTP/1.1\r\nHost: localhost:%u",
	    http_server_port(f->s));
	ok(send_signed(f, bad[0], body, auth, &out) == 401, "an altered query is refused");
	ok(send_signed(f, bad[1], body, auth, &out) == 401, "an altered path is refused");
	ok(send_signed(f, bad[2], body, auth, &out) == 401, "an altered Host is refused");
	for (int i = 0; i < 3; i++)
		free(bad[i]);
	ok(send_signed(f, head, body, auth, &out) == 201, "and none of those has spent the nonce");
	SIGN(now - 90, boot);
	ok(send_signed(f, head, body, auth, &out) == 401 &&
	        strstr(fx_text_of(&out), "behind the server's") != NULL &&
	        strstr(fx_text_of(&out), "the server's time is 20") != NULL,
	    "a slow clock is told");
	SIGN(now + 90, boot);
	ok(send_signed(f, head, body, auth, &out) == 401 &&
	        strstr(fx_text_of(&out), "ahead of the server's") != NULL,
	    "and so is a fast one");
	boot[0] ^= 1;
	SIGN(now, boot);
	ok(send_signed(f, head, body, auth, &out) == 401 &&
	        strstr(fx_text_of(&out), "\"code\":\"stale\"") != NULL &&
	        strstr(fx_text_of(&out), "PS1-Signature: ") != NULL,
	    "another boot id: a signed refusal");
	ok(f->echoes == before + 2, "only the two good ones were obeyed");
	buf_release(&out);
	free(head);
}

/* A man in the middle, for one connection: alters the first `from` in what the
 * server says, where it begins with `start`. */
struct middle {
	int listener;
	uint16_t to;
	const char *start, *from, *into;
};

static void *middle_run(void *ctx)
{
	struct middle *m = ctx;
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(m->to) };
	int a = accept(m->listener, NULL, NULL), b = socket(AF_INET, SOCK_STREAM, 0);
	struct pollfd p[2] = { { .fd = a, .events = POLLIN }, { .fd = b, .events = POLLIN } };
	char text[65536], *at;
	ssize_t n;

	in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (connect(b, (struct sockaddr *)&in, sizeof(in)) != 0)
		abort();
	while (poll(p, 2, 20000) > 0) {
		int from = (p[0].revents != 0) ? a : b;

		n = recv(from, text, sizeof(text) - 1, 0);
		if (n <= 0)
			break;
		text[n] = '\0';
		at = from == b && strncmp(text, m->start, strlen(m->start)) == 0
		    ? strstr(text, m->from)
		    : NULL;
		if (at != NULL)
			memcpy(at, m->into, strlen(m->into));
		if (file_write_all(from == a ? b : a, text, (size_t)n, NULL) != ERR_OK)
			break;
	}
	close(a);
	close(b);
	return NULL;
}

static void test_middle(struct fixture *f)
{
	static const char *const cases[][4] = {
		{ "HTTP/1.1", "admin", "admin", "an honest one is not noticed" },
		{ "HTTP/1.1", "HTTP/1.1 200", "HTTP/1.1 201", "an altered status is noticed" },
		{ "HTTP/1.1", "\"admin\"", "\"adm1n\"", "an altered body is noticed" },
		{ "HTTP/1.1 200", "PS1-Sig", "PS2-Sig", "a removed signature is noticed" },
		{ "HTTP/1.1 401", "PS1-Sig", "PS2-Sig", "in a refusal too" },
	};
	struct sockaddr_in in = { .sin_family = AF_INET };
	socklen_t len = sizeof(in);
	struct middle m = { .listener = socket(AF_INET, SOCK_STREAM, 0) };
	struct http_server_config cfg;
	struct http_server *main_server = f->s;
	char name[32];

	in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (bind(m.listener, (struct sockaddr *)&in, sizeof(in)) != 0 ||
	    listen(m.listener, 4) != 0 ||
	    getsockname(m.listener, (struct sockaddr *)&in, &len) != 0)
		abort();
	snprintf(name, sizeof(name), "127.0.0.1:%u", ntohs(in.sin_port));
	cfg = fx_config(f);
	cfg.unix_path = NULL;
	cfg.tcp_name = name;
	fx_start(f, &cfg);
	m.to = http_server_port(f->s);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct http_client *c = fx_client(f, name, &f->admin);
		enum err_code rc;
		pthread_t t;
		struct err e;

		m.start = cases[i][0];
		m.from = cases[i][1];
		m.into = cases[i][2];
		pthread_create(&t, NULL, middle_run, &m);
		rc = fx_call(c, "GET", "/v1/whoami", NULL, NULL, NULL, &e);
		ok(rc == (i == 0 ? ERR_OK : ERR_AUTH), "man in the middle: %s: %s", cases[i][3],
		    e.msg);
		http_client_free(c);
		pthread_join(t, NULL);
	}
	close(m.listener);
	http_server_stop(f->s);
	f->s = main_server;
}

/* A server that answers GET and hangs up on POST; counts the POSTs. */
struct rude {
	int listener, posts;
};

static void *rude_run(void *ctx)
{
	static const char good[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";
	struct rude *r = ctx;
	struct pollfd p[2] = { { .fd = r->listener, .events = POLLIN },
		{ .fd = -1, .events = POLLIN } };
	char text[4096];

	/* One connection at a time; a new one ends the last. */
	while (poll(p, 2, 20000) > 0) {
		ssize_t n = p[1].revents != 0 ? recv(p[1].fd, text, sizeof(text), 0) : 0;

		if (n > 0 && memcmp(text, "GET", 3) == 0) {
			send(p[1].fd, good, sizeof(good) - 1, MSG_NOSIGNAL);
			continue;
		}
		r->posts += n > 0;
		if (p[1].fd >= 0)
			close(p[1].fd);
		p[1].fd = p[0].revents != 0 ? accept(r->listener, NULL, NULL) : -1;
		if (p[0].revents != 0 && p[1].fd < 0)
			break;
	}
	return NULL;
}

static void test_once(struct fixture *f)
{
	struct sockaddr_in in = { .sin_family = AF_INET };
	socklen_t len = sizeof(in);
	struct rude r = { .listener = socket(AF_INET, SOCK_STREAM, 0) };
	struct http_client *c;
	char name[32];
	pthread_t t;
	struct err e;

	in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (bind(r.listener, (struct sockaddr *)&in, sizeof(in)) != 0 ||
	    listen(r.listener, 4) != 0 ||
	    getsockname(r.listener, (struct sockaddr *)&in, &len) != 0)
		abort();
	snprintf(name, sizeof(name), "127.0.0.1:%u", ntohs(in.sin_port));
	pthread_create(&t, NULL, rude_run, &r);
	c = fx_client(f, name, NULL);
	ok(fx_call(c, "GET", "/x", NULL, NULL, NULL, &e) == ERR_OK, "a server that will be rude");
	ok(fx_call(c, "POST", "/x", NULL, NULL, NULL, &e) == ERR_CLOSED, "hangs up: %s", e.msg);
	http_client_free(c);
	c = fx_client(f, name, &f->admin);
	ok(fx_call(c, "GET", "/x", NULL, NULL, NULL, &e) == ERR_AUTH, "and cannot sign: %s", e.msg);
	http_client_free(c);
	shutdown(r.listener, SHUT_RDWR);
	pthread_join(t, NULL);
	close(r.listener);
	ok(r.posts == 1, "a POST is never sent twice: %d", r.posts);
}

static void test_restart(struct fixture *f)
{
	struct http_server_config cfg = fx_config(f), again;
	struct http_server *main_server = f->s;
	struct http_client *c;
	char addr[64];
	struct err e;

	cfg.unix_path = NULL;
	fx_start(f, &cfg);
	snprintf(addr, sizeof(addr), "%s", http_server_address(f->s));
	c = fx_client(f, addr, &f->admin);
	ok(fx_call(c, "GET", "/v1/whoami", NULL, NULL, NULL, &e) == ERR_OK,
	    "a first server is asked");
	again = cfg;
	again.tcp_addr = addr;
	ok(http_server_listen(&again, &f->s, &e) == ERR_EXISTS && strstr(e.msg, addr) != NULL,
	    "a port that is taken: %s", e.msg);
	http_server_stop(f->s);
	ok(fx_call(c, "GET", "/v1/whoami", NULL, NULL, NULL, &e) == ERR_UNREACH &&
	        strstr(e.msg, addr) != NULL,
	    "nobody there: %s", e.msg);
	fx_start(f, &again);
	ok(fx_call(c, "POST", "/v1/echo", NULL, NULL, NULL, &e) == ERR_OK,
	    "the same client learns the new boot id: %s", e.msg);
	http_client_free(c);
	http_server_stop(f->s);
	f->s = main_server;
}

static void test_unix(struct fixture *f)
{
	struct http_server_config cfg = fx_config(f);
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	struct http_server *other = NULL, *main_server = f->s;
	struct http_client *c;
	char *long_dir, *sock = f->sock;
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	struct stat st;
	struct err e;

	cfg.tcp_addr = NULL;
	ok(stat(f->sock, &st) == 0 && (st.st_mode & 0777) == 0600, "the socket's mode is 0600");
	ok(http_server_listen(&cfg, &other, &e) == ERR_EXISTS, "a living socket is kept: %s",
	    e.msg);
	snprintf(sun.sun_path, sizeof(sun.sun_path), "%s/stale", f->dir);
	if (bind(fd, (struct sockaddr *)&sun, sizeof(sun)) != 0)
		abort();
	close(fd);
	cfg.unix_path = sun.sun_path;
	ok(http_server_listen(&cfg, &other, &e) == ERR_OK, "a stale one is replaced");
	ok(strcmp(http_server_address(other), sun.sun_path) == 0 && http_server_port(other) == 0,
	    "and is the server's address");
	http_server_stop(other);
	ok(stat(sun.sun_path, &st) != 0 && errno == ENOENT, "and gone after the end");
	file_replace(sun.sun_path, "x", 1, 0600, NULL);
	ok(http_server_listen(&cfg, &other, &e) == ERR_EXISTS, "a plain file is kept: %s", e.msg);
	chmod(f->dir, 0777);
	ok(http_server_listen(&cfg, &other, &e) == ERR_CONFIG, "an open directory is refused: %s",
	    e.msg);
	chmod(f->dir, 0700);
	long_dir = mem_printf("%s/%0120d", f->dir, 1);
	mkdir(long_dir, 0700);
	f->sock = path_join(long_dir, "ctl.sock");
	cfg.unix_path = f->sock;
	fx_start(f, &cfg);
	c = fx_client(f, NULL, NULL);
	ok(fx_call(c, "GET", "/v1/whoami", NULL, NULL, NULL, &e) == ERR_OK,
	    "a path of %zu bytes works: %s", strlen(f->sock), e.msg);
	http_server_stop(f->s);
	ok(fx_call(c, "GET", "/v1/whoami", NULL, NULL, NULL, &e) == ERR_UNREACH, "nobody there: %s",
	    e.msg);
	http_client_free(c);
	free(f->sock);
	free(long_dir);
	f->sock = sock;
	f->s = main_server;
}

static void test_addresses(struct fixture *f)
{
	static const char *const bad[] = { "8080", ":8080", "*:8080", "127.0.0.1:99999", "1:2:3",
		"no.such.host.invalid:1", "192.0.2.1:0" };
	struct http_server_config cfg = fx_config(f);
	struct http_server *s = NULL;
	struct err e;

	cfg.unix_path = NULL;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		cfg.tcp_addr = bad[i];
		ok(http_server_listen(&cfg, &s, &e) == ERR_CONFIG, "\"%s\": %s", bad[i], e.msg);
	}
}

int main(void)
{
	struct fixture f;
	struct http_server_config cfg;
	struct http_client *c;
	const char *addr;
	char list[200];

	fx_init(&f);
	cfg = fx_config(&f);
	fx_start(&f, &cfg);
	addr = http_server_address(f.s);
	c = fx_client(&f, NULL, NULL);
	test_good(&f, c, "unix", "local");
	http_client_free(c);
	c = fx_client(&f, addr, &f.admin);
	test_good(&f, c, "tcp", "admin");
	http_client_free(c);
	/* Nobody listens at the first address. */
	snprintf(list, sizeof(list), "127.0.0.1:1,%s", addr);
	c = fx_client(&f, list, &f.admin);
	test_good(&f, c, "list", "admin");
	http_client_free(c);
	test_matrix(&f, addr);
	test_refusals(&f, addr);
	test_signatures(&f);
	test_middle(&f);
	test_once(&f);
	test_restart(&f);
	test_unix(&f);
	test_addresses(&f);
	fx_release(&f);
	return tap_done();
}

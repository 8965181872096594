/* SPDX-License-Identifier: ISC */
/* Requests to a server on this host, over its Unix socket. To load libcurl and the thirty libraries
 * that it needs takes longer than all the rest of a short call of ps-ctl. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/clock.h"
#include "http/client_state.h"

#define LOOK_MS  500 /* how often *stop is looked at */
#define HEAD_MAX 65536

/* Waits until fd is ready, for at most LOOK_MS at a time; without a descriptor, only waits. */
static enum err_code await_peer(const struct http_client *c, int fd, short events, int64_t deadline,
    struct err *e)
{
	for (;;) {
		struct pollfd p = { .fd = fd, .events = events };
		int left = clock_poll_timeout(deadline - clock_now());

		if (c->stop != NULL && atomic_load(c->stop))
			return err_set(e, ERR_STOPPED,
			    "%s did not answer before this program had to stop", c->where);
		if (clock_now() >= deadline)
			return err_set(e, ERR_TIMEOUT, "%s did not answer in time", c->where);
		if (poll(&p, 1, left < LOOK_MS ? left : LOOK_MS) > 0)
			return ERR_OK;
	}
}

/* Checks that our own user or root listens: whoever can write to the directory could have put
 * another socket there. */
static enum err_code check_owner(const struct http_client *c, int fd, struct err *e)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);
	uid_t me = geteuid();

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) == 0 &&
	    (me == 0 || cred.uid == me || cred.uid == 0))
		return ERR_OK;
	return err_set(e, ERR_AUTH, "%s belongs to another user: do not trust it", c->where);
}

bool http_local_listens(const struct http_client *c)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	bool listens;

	if (fd < 0)
		return false;
	snprintf(a.sun_path, sizeof(a.sun_path), "%s", c->sockpath);
	listens = connect(fd, (struct sockaddr *)&a, sizeof(a)) == 0 || errno == EAGAIN;
	close(fd);
	return listens;
}

/* Connects, and waits while the server's queue of connections is full. */
static enum err_code connect_local(const struct http_client *c, int fd, int64_t deadline,
    struct err *e)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };

	snprintf(a.sun_path, sizeof(a.sun_path), "%s", c->sockpath);
	while (connect(fd, (struct sockaddr *)&a, sizeof(a)) != 0) {
		int why = errno;

		if (why != EAGAIN && why != EINTR)
			return err_set(e, ERR_UNREACH,
			    "cannot reach %s: %s; is the server running?", c->where, strerror(why));
		if (clock_now() >= deadline)
			return err_set(e, ERR_UNREACH, "cannot reach %s: no connection in time",
			    c->where);
		clock_sleep(10);
	}
	return check_owner(c, fd, e);
}

static enum err_code report_closed(const struct http_client *c, int why, struct err *e)
{
	return err_set(e, ERR_CLOSED, "%s closed the connection before it had answered%s%s",
	    c->where, why != 0 ? ": " : "", why != 0 ? strerror(why) : "");
}

/* Sends all of the request, or as much as the server takes: it may answer before the end. */
static enum err_code send_text(const struct http_client *c, int fd, const struct buf *text,
    int64_t deadline, struct err *e)
{
	for (size_t sent = 0; sent < text->len;) {
		enum err_code rc = await_peer(c, fd, POLLOUT, deadline, e);
		ssize_t n;

		if (rc != ERR_OK)
			return rc;
		n = send(fd, text->data + sent, text->len - sent, MSG_NOSIGNAL);
		if (n < 0 && errno != EAGAIN && errno != EINTR)
			break;
		sent += n > 0 ? (size_t)n : 0;
	}
	return ERR_OK;
}

/* Receives head and body into c->reply, until the server closes the connection. */
static enum err_code receive_all(struct http_client *c, int fd, int64_t deadline, struct err *e)
{
	for (;;) {
		enum err_code rc = await_peer(c, fd, POLLIN, deadline, e);
		ssize_t n;

		if (rc != ERR_OK)
			return rc;
		n = recv(fd, buf_reserve(&c->reply, 65536), 65536, 0);
		if (n == 0)
			return c->reply.len > 0 ? ERR_OK : report_closed(c, 0, e);
		if (n < 0 && errno != EAGAIN && errno != EINTR)
			return report_closed(c, errno, e);
		if (n > 0)
			buf_commit(&c->reply, (size_t)n);
		if (c->reply.len > HTTP_REPLY_MAX + HEAD_MAX)
			return err_set(e, ERR_LIMIT, "%s answered with more than 64 MiB", c->where);
	}
}

/* Copies the answer's signature. One that is too long cannot verify: it is left out. */
static void copy_signature(struct http_client *c, const char *head)
{
	static const char name[] = "\r\nPS1-Signature:";
	const char *value = strcasestr(head, name);
	size_t n;

	c->signature[0] = '\0';
	if (value == NULL)
		return;
	value += sizeof(name) - 1;
	value += strspn(value, " ");
	n = strcspn(value, "\r\n");
	if (n < sizeof(c->signature))
		snprintf(c->signature, sizeof(c->signature), "%.*s", (int)n, value);
}

/* Takes the status and the head off the answer, and leaves the body in c->reply. */
static enum err_code split_answer(struct http_client *c, long *status, struct err *e)
{
	static const char length[] = "\r\nContent-Length:";
	char *text = (char *)c->reply.data;
	char *end = memmem(text, c->reply.len, "\r\n\r\n", 4), *declared;
	size_t head;

	/* 1.0, too: a proxy or a test may answer so. */
	if (c->reply.len < 9 || strncmp(text, "HTTP/1.", 7) != 0 || text[8] != ' ' || end == NULL)
		return err_set(e, ERR_PROTO,
		    "%s does not speak HTTP like a server of pskit: another program may listen "
		    "there",
		    c->where);
	*end = '\0';
	head = (size_t)(end - text) + 4;
	*status = strtol(text + 9, NULL, 10);
	copy_signature(c, text);
	declared = strcasestr(text, length);
	if (declared == NULL ||
	    strtoull(declared + sizeof(length) - 1, NULL, 10) != c->reply.len - head)
		return report_closed(c, 0, e);
	buf_consume(&c->reply, head);
	return ERR_OK;
}

enum err_code http_send_local(struct http_client *c, const char *method, const char *target,
    const char *authorization, const char *body, size_t n, int64_t deadline, long *status,
    struct err *e)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct buf text = BUF_INIT;
	enum err_code rc;

	if (fd < 0)
		return err_set(e, ERR_FAILED, "cannot make a socket for %s: %s", c->where,
		    strerror(errno));
	buf_printf(&text, "%s %s HTTP/1.1\r\nHost: %s\r\nAccept: */*\r\nConnection: close\r\n",
	    method, target, c->host);
	if (authorization[0] != '\0')
		buf_printf(&text, "Authorization: %s\r\n", authorization);
	if (body != NULL)
		buf_puts(&text, "Content-Type: application/json\r\n");
	if (body != NULL || strcmp(method, "POST") == 0)
		buf_printf(&text, "Content-Length: %zu\r\n", n);
	buf_puts(&text, "\r\n");
	buf_append(&text, body != NULL ? body : "", n);
	buf_clear(&c->reply);
	rc = connect_local(c, fd, deadline, e);
	if (rc == ERR_OK)
		rc = send_text(c, fd, &text, deadline, e);
	if (rc == ERR_OK)
		rc = receive_all(c, fd, deadline, e);
	if (rc == ERR_OK)
		rc = split_answer(c, status, e);
	close(fd);
	buf_release(&text);
	return rc;
}

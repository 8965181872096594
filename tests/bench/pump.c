/* SPDX-License-Identifier: ISC */
/* The bare limit: one thread sends records of payload over TCP loopback, sealed as sessions
 * of a suite do (poly1305, where none is named: a tag), another receives and opens them, and
 * nothing else is done.
 * usage: pump BYTES ITERS [SUITE]; prints bytes a second. */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "auth/keys.h"
#include "auth/session.h"
#include "core/clock.h"
#include "core/file.h"
#include "core/mem.h"
#include "core/num.h"

#define RECORD (256u << 10)

struct side {
	int fd;
	uint64_t bytes, iters;
	struct session *session;
	bool good;
};

static struct session *session_for(const char *name, bool sends)
{
	static const uint8_t key[2][32] = { { 1 }, { 2 } };
	struct session *s = mem_alloc(sizeof *s);
	enum suite suite;

	if (!suite_parse(name, &suite) || session_init(s, suite, key[sends], key[!sends], NULL))
		exit(2);
	return s;
}

static bool open_one(const struct side *s, uint8_t *buf, size_t n)
{
	bool good = session_open_payload(s->session, buf, n, buf + n);

	session_next_rx(s->session);
	return good;
}

static void *receive(void *ctx)
{
	struct side *s = ctx;
	uint8_t *buf = mem_try_array(1, RECORD + 16), done = 1;

	s->good = true;
	for (uint64_t i = 0; i < s->iters; i++) {
		for (uint64_t left = s->bytes; left;) {
			size_t n = left < RECORD ? (size_t)left : RECORD;

			if (file_read_all(s->fd, buf, n + 16, NULL))
				break;
			s->good &= open_one(s, buf, n);
			left -= n;
		}
		file_write_all(s->fd, &done, 1, NULL);
	}
	free(buf);
	return NULL;
}

static void pair(int fd[static 2])
{
	struct sockaddr_in in = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof in;
	int l = socket(AF_INET, SOCK_STREAM, 0), one = 1;

	if (bind(l, (struct sockaddr *)&in, sizeof in) || listen(l, 1) ||
	    getsockname(l, (struct sockaddr *)&in, &len))
		abort();
	fd[0] = socket(AF_INET, SOCK_STREAM, 0);
	if (connect(fd[0], (struct sockaddr *)&in, sizeof in))
		abort();
	fd[1] = accept(l, NULL, NULL);
	setsockopt(fd[0], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	setsockopt(fd[1], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	close(l);
}

/* The bytes to be written, sealed into `room` where the suite does that. */
static const uint8_t *seal_one(struct session *s, const uint8_t *p, size_t n, uint8_t *room,
    uint8_t tag[static 16])
{
	const uint8_t *out = s->sealed ? room : p;

	if (!session_seal_payload(s, p, n, out == room ? room : NULL, tag))
		exit(1);
	session_next_tx(s);
	return out;
}

int main(int argc, char **argv)
{
	struct side rx = { 0 };
	uint8_t *buf, *room = mem_alloc(RECORD), tag[16], done;
	struct session *tx;
	pthread_t thread;
	int64_t begin;
	int fd[2];

	if (argc < 3 || argc > 4 || key_init(NULL) || !num_size(argv[1], &rx.bytes) ||
	    !num_uint(argv[2], 1 << 30, &rx.iters))
		return 2;
	tx = session_for(argc == 4 ? argv[3] : "poly1305", true);
	rx.session = session_for(argc == 4 ? argv[3] : "poly1305", false);
	buf = mem_try_array(1, rx.bytes);
	pair(fd);
	rx.fd = fd[1];
	if (!buf || pthread_create(&thread, NULL, receive, &rx))
		return 1;
	begin = clock_now();
	for (uint64_t i = 0; i < rx.iters; i++) {
		for (uint64_t at = 0; at < rx.bytes; at += RECORD) {
			size_t n = rx.bytes - at < RECORD ? (size_t)(rx.bytes - at) : RECORD;
			const uint8_t *out = seal_one(tx, buf + at, n, room, tag);

			if (file_write_all(fd[0], out, n, NULL) ||
			    file_write_all(fd[0], tag, 16, NULL))
				return 1;
		}
		if (file_read_all(fd[0], &done, 1, NULL))
			return 1;
	}
	printf("%.4g\n",
	    (double)rx.bytes * (double)rx.iters * (double)NSEC_PER_SEC /
	        (double)(clock_now() - begin));
	pthread_join(thread, NULL);
	free(buf);
	free(room);
	free(tx);
	free(rx.session);
	return rx.good ? 0 : 1;
}

/* The bare limit: one thread sends records of payload with a Poly1305 tag over
 * TCP loopback, another receives and checks them, and nothing else is done.
 * usage: pump BYTES ITERS; prints bytes a second. */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sodium.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/num.h"

#define RECORD (256u << 10)

struct side {
	int fd;
	uint64_t bytes, iters;
	bool good;
};

static void tag_of(const uint8_t *p, size_t n, uint64_t counter, uint8_t tag[static 16])
{
	static const uint8_t key[32] = { 1 };
	uint8_t nonce[12] = { 0 };

	memcpy(nonce + 4, &counter, sizeof counter);
	crypto_aead_chacha20poly1305_ietf_encrypt_detached((uint8_t[1]){ 0 }, tag, NULL, NULL, 0, p, n, NULL, nonce, key);
}

static void *receive(void *ctx)
{
	struct side *s = ctx;
	uint8_t *buf = mem_try_array(1, RECORD + 16), tag[16], done = 1;
	uint64_t counter = 0;

	s->good = true;
	for (uint64_t i = 0; i < s->iters; i++) {
		for (uint64_t left = s->bytes; left;) {
			size_t n = left < RECORD ? (size_t)left : RECORD;

			if (fd_read_all(s->fd, buf, n + 16, NULL))
				break;
			tag_of(buf, n, counter++, tag);
			s->good &= crypto_verify_16(tag, buf + n) == 0;
			left -= n;
		}
		fd_write_all(s->fd, &done, 1, NULL);
	}
	free(buf);
	return NULL;
}

static void pair(int fd[static 2])
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof in;
	int l = socket(AF_INET, SOCK_STREAM, 0), one = 1;

	if (bind(l, (struct sockaddr *)&in, sizeof in) || listen(l, 1) || getsockname(l, (struct sockaddr *)&in, &len))
		abort();
	fd[0] = socket(AF_INET, SOCK_STREAM, 0);
	if (connect(fd[0], (struct sockaddr *)&in, sizeof in))
		abort();
	fd[1] = accept(l, NULL, NULL);
	setsockopt(fd[0], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	setsockopt(fd[1], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	close(l);
}

int main(int argc, char **argv)
{
	struct side rx = { 0 };
	uint8_t *buf, tag[16], done;
	uint64_t counter = 0;
	pthread_t thread;
	int64_t begin;
	int fd[2];

	if (argc != 3 || sodium_init() < 0 || !num_size(argv[1], &rx.bytes) || !num_uint(argv[2], 1 << 30, &rx.iters))
		return 2;
	buf = mem_try_array(1, rx.bytes);
	pair(fd);
	rx.fd = fd[1];
	if (!buf || pthread_create(&thread, NULL, receive, &rx))
		return 1;
	begin = clock_now();
	for (uint64_t i = 0; i < rx.iters; i++) {
		for (uint64_t at = 0; at < rx.bytes; at += RECORD) {
			size_t n = rx.bytes - at < RECORD ? (size_t)(rx.bytes - at) : RECORD;

			tag_of(buf + at, n, counter++, tag);
			if (fd_write_all(fd[0], buf + at, n, NULL) || fd_write_all(fd[0], tag, 16, NULL))
				return 1;
		}
		if (fd_read_all(fd[0], &done, 1, NULL))
			return 1;
	}
	printf("%.4g\n", (double)rx.bytes * (double)rx.iters * (double)NSEC_PER_SEC / (double)(clock_now() - begin));
	pthread_join(thread, NULL);
	free(buf);
	return rx.good ? 0 : 1;
}

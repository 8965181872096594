/* SPDX-License-Identifier: ISC */
/* The bare round trip: so many bytes over TCP loopback to another process and back, each
 * awaited before the next, and nothing else done.
 * usage: pingpong BYTES ITERS; prints the median and the 99th percentile, in seconds. */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/file.h"
#include "core/mem.h"
#include "core/num.h"

static int by_value(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

static int listener(struct sockaddr_in *in)
{
	socklen_t len = sizeof *in;
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	*in = (struct sockaddr_in){ .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	if (bind(fd, (struct sockaddr *)in, sizeof *in) || listen(fd, 1) ||
	    getsockname(fd, (struct sockaddr *)in, &len))
		abort();
	return fd;
}

static void echo(const struct sockaddr_in *in, uint8_t *buf, size_t n)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;

	if (connect(fd, (const struct sockaddr *)in, sizeof *in))
		abort();
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	while (!file_read_all(fd, buf, n, NULL) && !file_write_all(fd, buf, n, NULL))
		;
	_exit(0);
}

int main(int argc, char **argv)
{
	struct sockaddr_in in;
	uint64_t n, iters;
	int64_t *took;
	uint8_t *buf;
	int l, fd, one = 1;

	if (argc != 3 || !num_size(argv[1], &n) || !num_uint(argv[2], 1 << 30, &iters) || !n ||
	    !iters)
		return 2;
	buf = mem_array(1, n);
	took = mem_array(iters, sizeof *took);
	l = listener(&in);
	if (fork() == 0)
		echo(&in, buf, n);
	fd = accept(l, NULL, NULL);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	for (uint64_t i = 0; i < iters; i++) {
		int64_t begin = clock_now();

		if (file_write_all(fd, buf, n, NULL) || file_read_all(fd, buf, n, NULL))
			return 1;
		took[i] = clock_now() - begin;
	}
	close(fd);
	wait(NULL);
	qsort(took, iters, sizeof *took, by_value);
	printf("%.9f %.9f\n", (double)took[(iters - 1) / 2] / NSEC_PER_SEC,
	    (double)took[(iters - 1) * 99 / 100] / NSEC_PER_SEC);
	free(took);
	free(buf);
	return 0;
}

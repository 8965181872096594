/* SPDX-License-Identifier: ISC */
/* Emulated links: the text of the setting net, and bytes that pass at a rate, late, in order and all. */
#include "wire/emulated_link.h"

#include <math.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/mem.h"
#include "tap.h"

#define BYTES 1000000

/* Is this the link of a process: in bytes a second, ns one way, and a probability? */
static bool is_link_of(const char *text, enum emulated_link_kind kind, uint32_t number, double rate,
    int64_t delay, double loss)
{
	struct emulated_link_spec s;
	struct err e;
	int64_t last[EMULATED_KINDS];

	return !emulated_link_parse(text, (struct emulated_link_end){ kind, number }, &s, last,
	           &e) &&
	    fabs(s.rate - rate) < 1e-6 && s.delay == delay && fabs(s.loss - loss) < 1e-12;
}

static bool is_link(const char *text, uint32_t rank, double rate, int64_t delay, double loss)
{
	return is_link_of(text, EMULATED_WORKER, rank, rate, delay, loss);
}

static bool is_emulated(const char *text, enum emulated_link_kind kind)
{
	struct emulated_link_spec s;
	struct err e;
	int64_t last[EMULATED_KINDS];

	return !emulated_link_parse(text, (struct emulated_link_end){ kind, 0 }, &s, last, &e) &&
	    s.emulated;
}

static int64_t last_of(const char *text, enum emulated_link_kind kind)
{
	struct emulated_link_spec s;
	struct err e;
	int64_t last[EMULATED_KINDS];

	return emulated_link_parse(text, (struct emulated_link_end){ 0 }, &s, last, &e)
	    ? -2
	    : last[kind];
}

static void texts(void)
{
	static const char *const bad[] = { "", "100", "100m", "10", "1%%", "100%", "-1%", "M", "s",
		"0.1k", "1e9G", "61s", "worker-1", "worker-:1M", "worker-x:1M", "server:1M",
		"server-x:1M", "servers-1:1M", "servers:", "workers:1M", "100M,,10ms",
		"worker-1:", "-5ms" };
	bool refused = true;

	ok(is_link("none", 0, 0, 0, 0), "none is no link");
	ok(is_link("100M,10ms,0.1%", 3, 12.5e6, 5 * NSEC_PER_MSEC, 0.001),
	    "a rate in bits, a round trip and a loss");
	ok(is_link("64k", 0, 8000, 0, 0) && is_link("2.5G", 0, 312.5e6, 0, 0), "other units");
	ok(is_link("worker-1:10M,100M,worker-1:1s", 1, 1.25e6, NSEC_PER_SEC / 2, 0) &&
	        is_link("worker-1:10M,100M,worker-1:1s", 0, 12.5e6, 0, 0),
	    "a part for one worker replaces that of all");
	ok(is_link_of("100M,servers:20ms,server-1:60ms,servers:1%", EMULATED_SERVER, 0, 0,
	       10 * NSEC_PER_MSEC, 0.01) &&
	        is_link_of("100M,servers:20ms,server-1:60ms,servers:1%", EMULATED_SERVER, 1, 0,
	            30 * NSEC_PER_MSEC, 0.01) &&
	        is_link("100M,servers:20ms", 0, 12.5e6, 0, 0),
	    "links between servers have parts of their own");
	ok(is_emulated("servers:1M", EMULATED_SERVER) &&
	        !is_emulated("servers:1M", EMULATED_WORKER) &&
	        is_emulated("worker-5:1M", EMULATED_WORKER) &&
	        !is_emulated("worker-5:1M", EMULATED_SERVER) &&
	        !is_emulated("none", EMULATED_WORKER),
	    "the text tells which kinds have links");
	ok(last_of("1G,worker-7:1M,worker-2:1M,server-9:1M", EMULATED_WORKER) == 7 &&
	        last_of("1G,server-3:1M", EMULATED_SERVER) == 3 &&
	        last_of("1G", EMULATED_WORKER) == -1,
	    "the highest rank and number");
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		if (last_of(bad[i], EMULATED_WORKER) != -2) {
			printf("# \"%s\" is taken\n", bad[i]);
			refused = false;
		}
	ok(refused, "other texts are refused");
}

/* Makes a TCP connection on this host: end[0] is non-blocking. */
static bool connect_pair(int end[static 2])
{
	struct sockaddr_in at = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof at;
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	bool good = !bind(listener, (struct sockaddr *)&at, sizeof at) && !listen(listener, 1) &&
	    !getsockname(listener, (struct sockaddr *)&at, &len);

	end[0] = socket(AF_INET, SOCK_STREAM, 0);
	good = good && !connect(end[0], (struct sockaddr *)&at, sizeof at);
	end[1] = accept(listener, NULL, NULL);
	close(listener);
	return good && end[1] >= 0;
}

/* Writes BYTES numbered bytes to a non-blocking descriptor, and closes it. */
static void *write_all(void *ctx)
{
	int fd = *(int *)ctx;
	uint8_t *data = mem_alloc(BYTES);

	for (size_t i = 0; i < BYTES; i++)
		data[i] = (uint8_t)(i % 251);
	for (size_t at = 0; at < BYTES;) {
		struct pollfd p = { fd, POLLOUT, 0 };
		ssize_t n;

		poll(&p, 1, -1);
		n = write(fd, data + at, BYTES - at);
		at += n > 0 ? (size_t)n : 0;
	}
	close(fd);
	free(data);
	return NULL;
}

/* Reads up to the end.  Returns the number of bytes, or 0 when one is wrong. */
static size_t read_all(int fd)
{
	uint8_t data[65536];
	size_t at = 0;
	ssize_t n;

	while ((n = read(fd, data, sizeof data)) > 0)
		for (ssize_t i = 0; i < n; i++)
			if (data[i] != (uint8_t)(at++ % 251))
				return 0;
	return at;
}

/* Sends BYTES over each of n connections of one link, and closes it at once.  Returns the seconds until all
 * have arrived, or -1 when they have not. */
static double time_transfers(const struct emulated_link_spec *spec, int n)
{
	struct emulated_link *l;
	pthread_t writer[2];
	int end[2][2];
	struct err e;
	int64_t begin = clock_now();
	bool good = !emulated_link_open(spec, 1, &l, &e);

	for (int i = 0; i < n; i++) {
		const struct transport *t = emulated_link_transport(l);

		good = good && connect_pair(end[i]) && !t->carry(t, &end[i][0], &e);
		good = good && !pthread_create(&writer[i], NULL, write_all, &end[i][0]);
	}
	for (int i = 0; i < n; i++)
		good = good && read_all(end[i][1]) == BYTES;
	for (int i = 0; i < n; i++) {
		pthread_join(writer[i], NULL);
		close(end[i][1]);
	}
	emulated_link_close(l);
	return good ? (double)(clock_now() - begin) / (double)NSEC_PER_SEC : -1;
}

/* Times have a lower bound only, because the machine may be busy. */
static void transfers(void)
{
	const struct emulated_link_spec open = { 0 }, slow = { .rate = 10e6 },
	                                far = { .delay = 200 * NSEC_PER_MSEC },
	                                lossy = { .delay = 50 * NSEC_PER_MSEC, .loss = 0.999 };

	ok(time_transfers(&open, 2) >= 0, "bytes pass a link without limits");
	ok(time_transfers(&slow, 1) >= 0.09, "a rate takes its time");
	ok(time_transfers(&slow, 2) >= 0.19, "two connections share it");
	ok(time_transfers(&far, 1) >= 0.2, "a delay");
	ok(time_transfers(&lossy, 1) >= 0.15, "a lost segment comes a round trip later");
}

/* Bytes that were sent before the connection and the link are closed arrive. */
static void closing(void)
{
	const struct emulated_link_spec far = { .delay = 20 * NSEC_PER_MSEC };
	struct emulated_link *l;
	struct err e;
	uint8_t data[4];
	int end[2];
	bool sent = !emulated_link_open(&far, 1, &l, &e) && connect_pair(end) &&
	    !emulated_link_transport(l)->carry(emulated_link_transport(l), &end[0], &e) &&
	    write(end[0], "last", 4) == 4;

	close(end[0]);
	emulated_link_close(l);
	ok(sent && read(end[1], data, 4) == 4 && memcmp(data, "last", 4) == 0 &&
	        read(end[1], data, 4) == 0,
	    "a link that is closed delivers what was sent, and the end");
	close(end[1]);
}

int main(void)
{
	texts();
	transfers();
	closing();
	return tap_done();
}

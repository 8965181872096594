/* SPDX-License-Identifier: ISC */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "core/buf.h"
#include "core/clock.h"
#include "core/endian.h"
#include "core/mem.h"
#include "core/num.h"
#include "core/opt.h"
#include "core/rng.h"

/* A network of hosts in one process: see `switch --help`.  Each host is a network namespace, and
 * all packets of its only device come here.  The packets of a directed link are delivered in order,
 * at once or later, or they are lost.  One thread. */

#define HOSTS_MAX 16
#define MTU       9000
/* Packets read from one host before those of the next one. */
#define BURST 64

struct packet {
	struct packet *next;
	int64_t due;
	size_t len;
	uint8_t data[];
};

/* A directed link: the packets from one host to another. */
struct link {
	bool cut, held;
	int64_t delay, jitter;
	struct packet *first, **last;
	int64_t latest;        /* when the last queued packet is due */
	uint64_t passed, lost; /* packets; below, bytes of TCP payload in them */
	uint64_t passed_bytes, lost_bytes;
};

struct host {
	const char *name;
	int ns, tun;
};

struct net {
	struct host host[HOSTS_MAX];
	unsigned n;
	struct link link[HOSTS_MAX][HOSTS_MAX];
	int64_t base; /* delay of links without a delay of their own */
	struct rng rng;
	struct buf input;
};

static const struct opt_spec spec = {
	.prog = "switch",
	.args = "HOST...",
	.about =
	    "A network of hosts, each a network namespace, whose links can be cut, held and delayed one way or both.",
	.more =
	    "It prints one line for each host, with its name, its address and the path of its namespace for\n"
	    "nsenter --net=PATH; all of it vanishes with this process. Commands, a line each on stdin, answered by\n"
	    "`ok` or what was wrong: cut A B (what A sends to B is lost), hold A B (it waits), delay A B MS JITTER,\n"
	    "pass A B (as at first), pass (all of them), base MS (the delay of every link that is left alone),\n"
	    "count A B (answered by: passed PACKETS BYTES lost PACKETS BYTES; bytes are those of TCP's payload).",
	.examples = "  switch coordinator server-0 worker-0\n",
	.min_args = 2,
	.max_args = HOSTS_MAX,
};

/* ---- hosts ---- */

static void exit_with_errno(const char *what)
{
	fprintf(stderr, "switch: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void set_device_up(int s, const char *device)
{
	struct ifreq r = { 0 };

	snprintf(r.ifr_name, sizeof r.ifr_name, "%s", device);
	r.ifr_flags = IFF_UP | IFF_RUNNING;
	if (ioctl(s, SIOCSIFFLAGS, &r))
		exit_with_errno("cannot set a device up");
}

static void set_device_address(int s, unsigned long request, const char *device,
    const char *address)
{
	struct sockaddr_in in = { .sin_family = AF_INET };
	struct ifreq r = { 0 };

	inet_pton(AF_INET, address, &in.sin_addr);
	snprintf(r.ifr_name, sizeof r.ifr_name, "%s", device);
	memcpy(&r.ifr_addr, &in, sizeof in);
	if (ioctl(s, request, &r))
		exit_with_errno("cannot set an address");
}

static void configure_device(const char *device, unsigned i)
{
	struct ifreq r = { .ifr_mtu = MTU };
	char address[24];
	int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (s < 0)
		exit_with_errno("cannot make a socket");
	snprintf(address, sizeof address, "10.78.0.%u", i + 1);
	set_device_address(s, SIOCSIFADDR, device, address);
	set_device_address(s, SIOCSIFNETMASK, device, "255.255.255.0");
	snprintf(r.ifr_name, sizeof r.ifr_name, "%s", device);
	if (ioctl(s, SIOCSIFMTU, &r))
		exit_with_errno("cannot set the MTU");
	set_device_up(s, device);
	set_device_up(s, "lo");
	close(s);
}

/* Makes a host.  The process enters its namespace, because a device belongs to the namespace in
 * which it is opened. */
static void open_host(struct host *h, unsigned i)
{
	struct ifreq r = { .ifr_name = "net0", .ifr_flags = IFF_TUN | IFF_NO_PI };

	if (unshare(CLONE_NEWNET))
		exit_with_errno("cannot make a network namespace");
	h->ns = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	h->tun = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (h->ns < 0 || h->tun < 0 || ioctl(h->tun, TUNSETIFF, &r))
		exit_with_errno("cannot open /dev/net/tun");
	configure_device(r.ifr_name, i);
}

/* ---- packets ---- */

static uint64_t tcp_payload(const uint8_t *p, size_t n)
{
	size_t ip = (size_t)(p[0] & 15) * 4, tcp;

	if (p[9] != IPPROTO_TCP || n < ip + 20)
		return 0;
	tcp = (size_t)(p[ip + 12] >> 4) * 4;
	return n > ip + tcp ? n - ip - tcp : 0;
}

static void deliver_packet(struct link *l, const struct host *to, const uint8_t *p, size_t n)
{
	l->passed++;
	l->passed_bytes += tcp_payload(p, n);
	/* A packet for which the host has no room is lost, as in any network. */
	if (write(to->tun, p, n) < 0 && errno != EAGAIN && errno != ENOBUFS && errno != EINVAL)
		exit_with_errno("cannot write to a host");
}

static void count_lost_packet(struct link *l, const uint8_t *p, size_t n)
{
	l->lost++;
	l->lost_bytes += tcp_payload(p, n);
}

static void queue_packet(struct net *x, struct link *l, const uint8_t *p, size_t n, int64_t now)
{
	struct packet *k = malloc(sizeof *k + n);

	if (!k)
		exit_with_errno("no memory");
	k->next = NULL;
	k->len = n;
	memcpy(k->data, p, n);
	k->due = now + l->delay +
	    (l->jitter ? (int64_t)rng_below(&x->rng, (uint64_t)l->jitter) : 0);
	/* Packets of a link must stay in order. */
	if (k->due < l->latest)
		k->due = l->latest;
	l->latest = k->due;
	*l->last = k;
	l->last = &k->next;
}

static struct packet *take_first_packet(struct link *l)
{
	struct packet *k = l->first;

	l->first = k->next;
	if (!l->first)
		l->last = &l->first;
	return k;
}

static void route_packet(struct net *x, unsigned from, const uint8_t *p, size_t n, int64_t now)
{
	struct link *l;
	unsigned to;

	/* Only IPv4 between the hosts is routed. */
	if (n < 20 || p[0] >> 4 != 4)
		return;
	to = p[19] - 1u;
	if (memcmp(p + 16, (const uint8_t[]){ 10, 78, 0 }, 3) != 0 || to >= x->n || to == from)
		return;
	l = &x->link[from][to];
	if (l->cut)
		count_lost_packet(l, p, n);
	else if (l->held || l->delay || l->jitter || l->first)
		queue_packet(x, l, p, n, now);
	else
		deliver_packet(l, &x->host[to], p, n);
}

static void read_packets(struct net *x, unsigned from)
{
	uint8_t data[MTU + 64];
	int64_t now = clock_now();
	ssize_t n;

	for (int i = 0; i < BURST && (n = read(x->host[from].tun, data, sizeof data)) > 0; i++)
		route_packet(x, from, data, (size_t)n, now);
}

/* Delivers the packets that are due.  Returns when the next one is due, or INT64_MAX. */
static int64_t deliver_due(struct net *x)
{
	int64_t now = clock_now(), next = INT64_MAX;

	for (unsigned a = 0; a < x->n; a++)
		for (unsigned b = 0; b < x->n; b++) {
			struct link *l = &x->link[a][b];

			while (l->first && !l->held && l->first->due <= now) {
				struct packet *k = take_first_packet(l);

				deliver_packet(l, &x->host[b], k->data, k->len);
				free(k);
			}
			if (l->first && !l->held && l->first->due < next)
				next = l->first->due;
		}
	return next;
}

/* ---- commands ---- */

/* Cuts a link.  Packets that are queued on it are lost, too. */
static void cut_link(struct link *l)
{
	l->cut = true;
	while (l->first) {
		struct packet *k = take_first_packet(l);

		count_lost_packet(l, k->data, k->len);
		free(k);
	}
}

static void restore_link(const struct net *x, struct link *l)
{
	l->cut = l->held = false;
	l->delay = x->base;
	l->jitter = 0;
	l->latest = 0;
	for (struct packet *k = l->first; k; k = k->next)
		k->due = 0;
}

static void restore_all_links(struct net *x)
{
	for (unsigned a = 0; a < x->n; a++)
		for (unsigned b = 0; b < x->n; b++)
			restore_link(x, &x->link[a][b]);
}

static bool find_switch_host(const struct net *x, const char *name, unsigned *out)
{
	for (*out = 0; name && *out < x->n; ++*out)
		if (strcmp(name, x->host[*out].name) == 0)
			return true;
	return false;
}

static bool parse_ms(const char *text, int64_t *out)
{
	if (!text || !num_int(text, 0, 3600000, out))
		return false;
	*out *= NSEC_PER_MSEC;
	return true;
}

static bool obey_link_command(struct net *x, struct link *l, char *const word[static 5])
{
	int64_t delay, jitter;

	if (strcmp(word[0], "cut") == 0) {
		cut_link(l);
	} else if (strcmp(word[0], "hold") == 0) {
		l->held = true;
	} else if (strcmp(word[0], "pass") == 0) {
		restore_link(x, l);
	} else if (strcmp(word[0], "delay") == 0 && parse_ms(word[3], &delay) &&
	    parse_ms(word[4], &jitter)) {
		l->delay = delay;
		l->jitter = jitter;
	} else if (strcmp(word[0], "count") == 0) {
		printf("passed %llu %llu lost %llu %llu\n", (unsigned long long)l->passed,
		    (unsigned long long)l->passed_bytes, (unsigned long long)l->lost,
		    (unsigned long long)l->lost_bytes);
	} else {
		return false;
	}
	return true;
}

static bool obey_switch_command(struct net *x, char *const word[static 5])
{
	unsigned a, b;

	if (strcmp(word[0], "base") == 0)
		return parse_ms(word[1], &x->base) && (restore_all_links(x), true);
	if (strcmp(word[0], "pass") == 0 && !word[1]) {
		restore_all_links(x);
		return true;
	}
	return find_switch_host(x, word[1], &a) && find_switch_host(x, word[2], &b) && a != b &&
	    obey_link_command(x, &x->link[a][b], word);
}

static void read_switch_commands(struct net *x)
{
	uint8_t data[4096], *end;
	ssize_t n = read(0, data, sizeof data);

	/* The test that gives commands has ended: nobody uses the network any more. */
	if (n == 0)
		exit(0);
	if (n > 0)
		buf_append(&x->input, data, (size_t)n);
	while (x->input.len && (end = memchr(x->input.data, '\n', x->input.len))) {
		size_t len = (size_t)(end - x->input.data);
		char *save = NULL, *word[5], *at = (char *)x->input.data;

		*end = 0;
		for (int i = 0; i < 5; i++, at = NULL)
			word[i] = strtok_r(at, " ", &save);
		puts(word[0] && obey_switch_command(x, word) ? "ok" : "not understood");
		buf_consume(&x->input, len + 1);
	}
	fflush(stdout);
}

int main(int argc, char **argv)
{
	struct net x = { 0 };
	struct pollfd p[HOSTS_MAX + 1];
	int nargs, own = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);

	switch (opt_parse(&spec, NULL, argc, argv, &nargs)) {
	case OPT_EXIT_OK:
		return 0;
	case OPT_EXIT_USAGE:
		return 2;
	case OPT_GO:
		break;
	}
	rng_init(&x.rng, 1);
	x.n = (unsigned)nargs;
	for (unsigned i = 0; i < x.n; i++) {
		x.host[i].name = argv[1 + i];
		open_host(&x.host[i], i);
		for (unsigned k = 0; k < HOSTS_MAX; k++)
			x.link[i][k].last = &x.link[i][k].first;
		p[i] = (struct pollfd){ x.host[i].tun, POLLIN, 0 };
	}
	p[x.n] = (struct pollfd){ 0, POLLIN, 0 };
	if (own < 0 || setns(own, CLONE_NEWNET))
		exit_with_errno("cannot go back to the first network namespace");
	for (unsigned i = 0; i < x.n; i++)
		printf("%s 10.78.0.%u /proc/%d/fd/%d\n", x.host[i].name, i + 1, (int)getpid(),
		    x.host[i].ns);
	fflush(stdout);
	for (;;) {
		int64_t next = deliver_due(&x), left = next == INT64_MAX ? 0 : next - clock_now();
		struct timespec pause = { left > 0 ? left / NSEC_PER_SEC : 0,
			left > 0 ? left % NSEC_PER_SEC : 0 };

		if (ppoll(p, x.n + 1, next == INT64_MAX ? NULL : &pause, NULL) < 0 &&
		    errno != EINTR)
			exit_with_errno("cannot wait");
		for (unsigned i = 0; i < x.n; i++)
			if (p[i].revents)
				read_packets(&x, i);
		if (p[x.n].revents)
			read_switch_commands(&x);
	}
}

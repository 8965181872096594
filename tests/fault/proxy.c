/* SPDX-License-Identifier: ISC */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/mem.h"
#include "core/num.h"
#include "core/opt.h"
#include "tests/fault/proxy.h"
#include "socket/net.h"

/* A TCP proxy that injects faults: see `proxy --help`.  One thread.  The same seed and the same
 * bytes in the same pieces give the same faults. */

#define QUEUE_MAX (4u << 20)
#define CHUNK     65536

struct options {
	const char *listen, *to, *stall, *at_record, *side;
	int64_t seed, delay, jitter, rate, cut_after, reset_after, stall_after, nth;
};

#define INT(field, name, arg, help) \
	{ \
		name, 0, OPT_INT, offsetof(struct options, field), arg, help, NULL, 0, 0x1p53 \
	}

static const struct opt opts[] = {
	{ "listen", 0, OPT_STR, offsetof(struct options, listen), "ADDR",
	    "where to listen (127.0.0.1:0)", NULL, 0, 0 },
	{ "to", 0, OPT_STR, offsetof(struct options, to), "ADDR",
	    "where to connect; may be told later", NULL, 0, 0 },
	INT(seed, "seed", "N", "of what is random (1)"),
	INT(delay, "delay", "MS", "every byte comes so much later"),
	INT(jitter, "jitter", "MS", "and up to so much more"),
	INT(rate, "rate", "BYTES", "bytes a second, each direction of each connection"),
	INT(cut_after, "cut-after", "BYTES", "close each connection that has carried so much"),
	INT(reset_after, "reset-after", "BYTES", "the same, with a TCP reset"),
	{ "stall", 0, OPT_CHOICE, offsetof(struct options, stall), "SIDE", "let nothing through",
	    "up|down|both", 0, 0 },
	INT(stall_after, "stall-after", "BYTES",
	    "stall only when a connection has carried so much there"),
	{ "at-record", 0, OPT_CHOICE, offsetof(struct options, at_record), "WHAT",
	    "harm one record", "flip|drop|dup|swap", 0, 0 },
	INT(nth, "nth", "N", "which record of all connections (1)"),
	{ "side", 0, OPT_CHOICE, offsetof(struct options, side), "SIDE", "and of which side (both)",
	    "up|down|both", 0, 0 },
};

static const struct opt_spec spec = {
	.prog = "proxy",
	.args = "",
	.about =
	    "A TCP proxy that delays, stalls, cuts and harms what passes. It prints the address that it has bound.",
	.more =
	    "Commands, a line each on stdin, answered by `ok` or what was wrong: to ADDR; stall SIDE; delay MS;\n"
	    "jitter MS; rate N; cut-after N; reset-after N; heal (end all that); cut, reset (all connections, now);\n"
	    "flip, drop, dup, swap [SIDE [N]] (the Nth record from now on); stats.\n"
	    "Up is from the client to the server. swap exchanges a record with the next of its connection.",
	.examples = "  proxy --to 127.0.0.1:4000 --at-record flip --nth 20\n",
	.opts = opts,
	.nopts = sizeof opts / sizeof *opts,
};

/* Bytes that are sent at the same time. */
struct segment {
	int64_t due;
	size_t len;
};

struct pipe {
	int from, to;
	struct stream stream;
	struct buf queue;
	size_t sent; /* bytes of the queue that were sent */
	struct segment *segment;
	size_t nsegments, first, cap;
	int64_t ready; /* when all received bytes have passed, by --rate */
	uint64_t carried;
	bool eof, closed;
};

struct link {
	struct link *next;
	struct pipe pipe[2];
	bool dead, hard;
};

struct proxy {
	struct options o;
	char to[NET_TEXT];
	int listener;
	bool stalled[2];
	struct faults faults;
	struct rng rng;
	struct link *links;
	uint64_t connections, bytes[2];
	struct buf input;
	bool input_over;
};

/* ---- connections ---- */

static void open_proxy_link(struct proxy *x, int fd)
{
	struct link *l;
	struct err e;
	int out;

	if (!x->to[0] || net_connect(x->to, &out, &e)) {
		close(fd);
		return;
	}
	net_tune(fd);
	net_tune(out);
	l = mem_alloc(sizeof *l);
	l->pipe[UP].from = l->pipe[DOWN].to = fd;
	l->pipe[UP].to = l->pipe[DOWN].from = out;
	stream_init(&l->pipe[UP].stream, &x->faults, UP);
	stream_init(&l->pipe[DOWN].stream, &x->faults, DOWN);
	l->next = x->links;
	x->links = l;
	x->connections++;
}

static void free_proxy_link(struct link *l)
{
	struct linger none = { 1, 0 };

	for (int d = 0; d < 2; d++) {
		struct pipe *p = &l->pipe[d];

		if (l->hard)
			setsockopt(p->from, SOL_SOCKET, SO_LINGER, &none, sizeof none);
		close(p->from);
		stream_release(&p->stream);
		buf_release(&p->queue);
		free(p->segment);
	}
	free(l);
}

static void free_dead_links(struct proxy *x)
{
	for (struct link **p = &x->links, *l; (l = *p);) {
		if (!l->dead) {
			p = &l->next;
			continue;
		}
		*p = l->next;
		free_proxy_link(l);
	}
}

/* ---- bytes in ---- */

static void schedule_segment(struct proxy *x, struct pipe *p, size_t len, int64_t now)
{
	int64_t due = now;

	if (!len)
		return;
	/* With a rate, bytes pass one after the other: compute when the last one has passed. */
	if (x->o.rate) {
		p->ready = (p->ready > now ? p->ready : now) +
		    (int64_t)len * NSEC_PER_SEC / x->o.rate;
		due = p->ready;
	}
	due += x->o.delay * NSEC_PER_MSEC;
	if (x->o.jitter)
		due += (int64_t)rng_below(&x->rng, (uint64_t)x->o.jitter * NSEC_PER_MSEC + 1);
	/* Bytes of a stream must stay in order. */
	if (p->nsegments > p->first && p->segment[p->nsegments - 1].due > due)
		due = p->segment[p->nsegments - 1].due;
	if (p->nsegments == p->cap) {
		p->cap = p->cap ? 2 * p->cap : 16;
		p->segment = mem_regrow(p->segment, p->cap, sizeof *p->segment);
	}
	p->segment[p->nsegments++] = (struct segment){ due, len };
}

static void receive_bytes(struct proxy *x, struct link *l, struct pipe *p, int64_t now)
{
	uint8_t data[CHUNK];
	ssize_t n = read(p->from, data, sizeof data);
	size_t before = p->queue.len;

	if (n < 0 && errno != EAGAIN && errno != EINTR)
		l->dead = l->hard = true;
	if (n < 0)
		return;
	p->eof = n == 0;
	stream_feed(&p->stream, data, (size_t)n, &p->queue);
	schedule_segment(x, p, p->queue.len - before, now);
}

/* ---- bytes out ---- */

/* Returns how many bytes may be sent now.  *wait becomes the time at which the next may be, or
 * INT64_MAX if that does not depend on time. */
static size_t count_allowed(const struct proxy *x, const struct link *l, enum side side,
    int64_t now, int64_t *wait)
{
	const struct pipe *p = &l->pipe[side];
	int64_t limit = x->o.cut_after ? x->o.cut_after : x->o.reset_after;
	uint64_t carried = l->pipe[UP].carried + l->pipe[DOWN].carried;
	size_t n = 0;

	*wait = INT64_MAX;
	if (x->stalled[side])
		return 0;
	for (size_t i = p->first; i < p->nsegments && p->segment[i].due <= now; i++)
		n += p->segment[i].len;
	if (!n && p->first < p->nsegments)
		*wait = p->segment[p->first].due;
	if (limit && n > (uint64_t)limit - carried)
		n = (size_t)((uint64_t)limit - carried);
	return n;
}

static void consume_sent(struct pipe *p, size_t n)
{
	p->sent += n;
	while (n) {
		struct segment *s = &p->segment[p->first];
		size_t k = n < s->len ? n : s->len;

		s->len -= k;
		n -= k;
		p->first += !s->len;
	}
	if (p->first < p->nsegments && p->sent < QUEUE_MAX)
		return;
	p->nsegments -= p->first;
	memmove(p->segment, p->segment + p->first, p->nsegments * sizeof *p->segment);
	p->first = 0;
	buf_consume(&p->queue, p->sent);
	p->sent = 0;
}

static void send_bytes(struct proxy *x, struct link *l, enum side side, int64_t now)
{
	struct pipe *p = &l->pipe[side];
	int64_t wait, limit = x->o.cut_after ? x->o.cut_after : x->o.reset_after;
	size_t n = count_allowed(x, l, side, now, &wait);
	ssize_t done = n ? send(p->to, p->queue.data + p->sent, n, MSG_NOSIGNAL) : 0;

	if (done < 0 && errno != EAGAIN && errno != EINTR)
		l->dead = l->hard = true;
	if (done > 0) {
		consume_sent(p, (size_t)done);
		p->carried += (uint64_t)done;
		x->bytes[side] += (uint64_t)done;
	}
	if (limit && l->pipe[UP].carried + l->pipe[DOWN].carried >= (uint64_t)limit) {
		l->dead = true;
		l->hard = x->o.reset_after != 0;
	}
	if (x->o.stall_after && p->carried >= (uint64_t)x->o.stall_after && x->o.stall &&
	    (strcmp(x->o.stall, "both") == 0 || (strcmp(x->o.stall, "up") == 0) == (side == UP)))
		x->stalled[side] = true;
	if (p->eof && p->first == p->nsegments && !p->closed && !x->stalled[side]) {
		shutdown(p->to, SHUT_WR);
		p->closed = true;
	}
	if (l->pipe[UP].closed && l->pipe[DOWN].closed)
		l->dead = true;
}

/* ---- commands ---- */

static bool parse_side(const char *s, enum side *out)
{
	static const char *const name[] = { "up", "down", "both" };

	for (int i = 0; i < 3; i++)
		if (strcmp(s, name[i]) == 0) {
			*out = (enum side)i;
			return true;
		}
	return false;
}

static enum fault parse_fault(const char *s)
{
	static const char *const name[] = { "", "flip", "drop", "dup", "swap" };

	for (int i = 1; i < 5; i++)
		if (strcmp(s, name[i]) == 0)
			return (enum fault)i;
	return FAULT_NONE;
}

static void stall_side(struct proxy *x, enum side side)
{
	x->stalled[UP] |= side != DOWN;
	x->stalled[DOWN] |= side != UP;
}

static void heal_all(struct proxy *x)
{
	struct options *o = &x->o;

	o->delay = o->jitter = o->rate = o->cut_after = o->reset_after = o->stall_after = 0;
	x->stalled[UP] = x->stalled[DOWN] = false;
	x->faults.what = FAULT_NONE;
}

static void cut_all_links(struct proxy *x, bool hard)
{
	for (struct link *l = x->links; l; l = l->next) {
		l->dead = true;
		l->hard = hard;
	}
}

static void print_proxy_stats(const struct proxy *x)
{
	unsigned open = 0;

	for (const struct link *l = x->links; l; l = l->next)
		open++;
	printf(
	    "connections %llu open %u records_up %llu records_down %llu faults %llu bytes_up %llu bytes_down %llu\n",
	    (unsigned long long)x->connections, open, (unsigned long long)x->faults.records[UP],
	    (unsigned long long)x->faults.records[DOWN], (unsigned long long)x->faults.done,
	    (unsigned long long)x->bytes[UP], (unsigned long long)x->bytes[DOWN]);
}

static bool arm_fault(struct proxy *x, enum fault what, const char *side, const char *nth)
{
	struct faults *f = &x->faults;
	uint64_t n = 1;
	enum side s = BOTH;

	if ((side && !parse_side(side, &s)) || (nth && (!num_uint(nth, UINT64_MAX, &n) || !n)))
		return false;
	f->side = s;
	f->left = n;
	f->what = what;
	return true;
}

static bool set_option_number(struct proxy *x, const char *name, const char *value)
{
	struct {
		const char *name;
		int64_t *at;
	} number[] = {
		{ "delay", &x->o.delay },
		{ "jitter", &x->o.jitter },
		{ "rate", &x->o.rate },
		{ "cut-after", &x->o.cut_after },
		{ "reset-after", &x->o.reset_after },
	};

	for (size_t i = 0; value && i < sizeof number / sizeof *number; i++)
		if (strcmp(name, number[i].name) == 0)
			return num_int(value, 0, INT64_C(1) << 53, number[i].at);
	return false;
}

static bool obey_proxy_command(struct proxy *x, const char *word, const char *a, const char *b)
{
	enum side side;

	if (parse_fault(word) != FAULT_NONE)
		return arm_fault(x, parse_fault(word), a, b);
	if (strcmp(word, "stall") == 0) {
		if (!a || !parse_side(a, &side))
			return false;
		stall_side(x, side);
	} else if (strcmp(word, "to") == 0 && a) {
		snprintf(x->to, sizeof x->to, "%s", a);
	} else if (strcmp(word, "heal") == 0) {
		heal_all(x);
	} else if (strcmp(word, "cut") == 0 || strcmp(word, "reset") == 0) {
		cut_all_links(x, word[0] == 'r');
	} else if (strcmp(word, "stats") == 0) {
		print_proxy_stats(x);
	} else {
		return set_option_number(x, word, a);
	}
	return true;
}

static void run_command_line(struct proxy *x, char *line)
{
	char *save = NULL, *word = strtok_r(line, " \t", &save), *a = strtok_r(NULL, " \t", &save);

	if (!word)
		return;
	if (obey_proxy_command(x, word, a, strtok_r(NULL, " \t", &save)))
		puts("ok");
	else
		printf("not understood: %s\n", word);
	fflush(stdout);
}

static void read_proxy_commands(struct proxy *x)
{
	uint8_t data[4096], *end;
	ssize_t n = read(0, data, sizeof data);

	x->input_over = n == 0;
	if (n > 0)
		buf_append(&x->input, data, (size_t)n);
	while ((end = memchr(x->input.data, '\n', x->input.len))) {
		size_t len = (size_t)(end - x->input.data);

		*end = 0;
		run_command_line(x, (char *)x->input.data);
		memmove(x->input.data, end + 1, x->input.len - len - 1);
		x->input.len -= len + 1;
	}
}

/* ---- event loop ---- */

/* Sets what to poll for on one connection, and lowers *until to the time at which it has something
 * to send. */
static void watch_link(const struct proxy *x, const struct link *l, struct pollfd p[static 2],
    int64_t now, int64_t *until)
{
	for (int d = 0; d < 2; d++) {
		const struct pipe *in = &l->pipe[d];
		int64_t wait;

		p[d].fd = in->from;
		if (!in->eof && !x->stalled[d] && in->queue.len - in->sent < QUEUE_MAX)
			p[d].events |= POLLIN;
		if (count_allowed(x, l, (enum side)d, now, &wait))
			p[!d].events |= POLLOUT;
		if (wait < *until)
			*until = wait;
	}
	for (int d = 0; d < 2; d++)
		if (!p[d].events)
			p[d].fd = -1; /* POLLHUP would spin */
}

static void run_event_loop_once(struct proxy *x)
{
	struct pollfd *p;
	size_t n = 2, at;
	int64_t now = clock_now(), until = INT64_MAX, left;
	struct timespec pause;

	for (struct link *l = x->links; l; l = l->next)
		n += 2;
	p = mem_array(n, sizeof *p);
	p[0] = (struct pollfd){ x->listener, POLLIN, 0 };
	p[1] = (struct pollfd){ x->input_over ? -1 : 0, POLLIN, 0 };
	at = 2;
	for (struct link *l = x->links; l; l = l->next, at += 2)
		watch_link(x, l, p + at, now, &until);
	left = until > now ? until - now : 0;
	pause = (struct timespec){ left / NSEC_PER_SEC, left % NSEC_PER_SEC };
	/* ppoll: the milliseconds of poll() are too coarse on a fast link. */
	if (ppoll(p, n, until == INT64_MAX ? NULL : &pause, NULL) < 0)
		abort();
	now = clock_now();
	at = 2;
	for (struct link *l = x->links; l; l = l->next, at += 2) {
		for (int d = 0; d < 2; d++)
			if (p[at + d].revents & (POLLIN | POLLHUP | POLLERR) && !l->pipe[d].eof)
				receive_bytes(x, l, &l->pipe[d], now);
		for (int d = 0; d < 2 && !l->dead; d++)
			send_bytes(x, l, (enum side)d, now);
	}
	if (p[1].revents)
		read_proxy_commands(x);
	free_dead_links(x);
	if (p[0].revents) {
		int fd = net_accept(x->listener);

		if (fd >= 0)
			open_proxy_link(x, fd);
	}
	free(p);
}

int main(int argc, char **argv)
{
	struct proxy x = { .o = { .listen = "127.0.0.1:0", .seed = 1, .nth = 1, .side = "both" } };
	char bound[NET_TEXT], nth[24];
	struct err e;
	int nargs;

	switch (opt_parse(&spec, &x.o, argc, argv, &nargs)) {
	case OPT_EXIT_OK:
		return 0;
	case OPT_EXIT_USAGE:
		return 2;
	case OPT_GO:
		break;
	}
	signal(SIGPIPE, SIG_IGN);
	rng_init(&x.rng, (uint64_t)x.o.seed);
	rng_init(&x.faults.rng, (uint64_t)x.o.seed + 1);
	snprintf(x.to, sizeof x.to, "%s", x.o.to ? x.o.to : "");
	snprintf(nth, sizeof nth, "%lld", (long long)(x.o.nth ? x.o.nth : 1));
	if (x.o.at_record)
		arm_fault(&x, parse_fault(x.o.at_record), x.o.side, nth);
	if (x.o.stall && !x.o.stall_after)
		obey_proxy_command(&x, "stall", x.o.stall, NULL);
	if (net_listen(x.o.listen, 64, &x.listener, bound, &e)) {
		fprintf(stderr, "proxy: %s\n", e.msg);
		return err_exit_code(e.code);
	}
	puts(bound);
	fflush(stdout);
	for (;;)
		run_event_loop_once(&x);
}

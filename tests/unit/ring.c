#include "ring_fixture.h"

#include <math.h>

/* All-reduce among threads, over loopback and Unix sockets: means, equal bits, every
 * count of members; then members that die, come late or do something else. */

static uint64_t step;
static uint32_t epoch;
static unsigned left_out;

/* The members that take part, without those that are left out. */
static size_t present(const struct crew *c, struct ring_member *out)
{
	size_t n = 0;

	for (unsigned i = 0; i < c->n; i++)
		if (!(left_out >> i & 1))
			out[n++] = c->member[i];
	return n;
}

static void *form(void *ctx)
{
	struct sailor *s = ctx;
	struct ring_member m[CREW_MAX];
	size_t n = present(s->crew, m);

	s->e.code = ERR_OK;
	s->rc = ring_form(s->ring, epoch, m, n, &s->e);
	return NULL;
}

static void *reduce(void *ctx)
{
	struct sailor *s = ctx;
	int64_t begin = clock_now();

	s->e.code = ERR_OK;
	s->rc = ring_reduce(s->ring, step, s->in, s->crew->floats, 1 + s->index, &s->mean, &s->total, &s->e);
	s->took = clock_now() - begin;
	return NULL;
}

static bool all_well(const struct crew *c)
{
	for (unsigned i = 0; i < c->n; i++)
		if (!(left_out >> i & 1) && c->sailor[i].rc) {
			printf("# member %u: %s\n", i, c->sailor[i].e.msg);
			return false;
		}
	return true;
}

static bool formed(struct crew *c)
{
	epoch++;
	crew_each(c, form, left_out);
	return all_well(c);
}

/* Is the mean right, within rounding, and alike in all its bits? */
static bool right(const struct crew *c, unsigned contributors)
{
	const struct sailor *one = NULL;
	uint64_t total = 0;

	for (unsigned k = 0; k < c->n; k++)
		total += contributors >> k & 1 ? 1 + k : 0;
	for (unsigned k = 0; k < c->n; k++) {
		const struct sailor *s = &c->sailor[k];

		if (left_out >> k & 1)
			continue;
		one = one ? one : s;
		if (s->total != total || memcmp(s->mean, one->mean, c->floats * sizeof *s->mean) != 0)
			return false;
	}
	for (size_t i = 0; i < c->floats; i++) {
		double sum = 0, size = 0;

		for (unsigned k = 0; k < c->n; k++)
			if (contributors >> k & 1) {
				sum += (1.0 + k) * (double)c->sailor[k].in[i];
				size += fabs((1.0 + k) * (double)c->sailor[k].in[i]);
			}
		if (fabs(sum / (double)total - (double)one->mean[i]) > 1e-6 * size / (double)total + 1e-30)
			return false;
	}
	return true;
}

static void vectors(struct crew *c, size_t n)
{
	c->floats = n;
	for (unsigned i = 0; i < c->n; i++)
		fill_vector(&c->sailor[i], n, ++step);
	step++;
}

static void means(const char *transport, unsigned n, size_t halving)
{
	static const size_t sizes[] = { 1, 3, 16, 31, 100, 999, 5000, 50021, 300007 };
	unsigned good = 0, want = 0;
	struct crew c;

	crew_open(&c, n, transport, 20 * NSEC_PER_SEC, halving, halving > 1 ? 0 : 4096);
	left_out = 0;
	ok(formed(&c), "%u members meet by %s", n, transport);
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++, want++) {
		vectors(&c, sizes[i]);
		crew_each(&c, reduce, 0);
		good += all_well(&c) && right(&c, (1u << n) - 1);
	}
	ok(good == want, "%s of %u members by %s: right means with equal bits (%u of %u sizes)", halving > 1 ? "halving" : "ring", n,
	    transport, good, want);
	crew_close(&c);
}

/* ---- weights ------------------------------------------------------------------------ */

static void *reduce_nothing(void *ctx)
{
	struct sailor *s = ctx;
	bool empty = s->index != 1;

	s->rc = ring_reduce(s->ring, step, empty ? NULL : s->in, s->crew->floats, empty ? 0 : 7, &s->mean, &s->total, &s->e);
	return NULL;
}

static void *reduce_void(void *ctx)
{
	struct sailor *s = ctx;

	s->rc = ring_reduce(s->ring, step, NULL, s->crew->floats, 0, &s->mean, &s->total, &s->e);
	return NULL;
}

static void weights(size_t halving)
{
	struct crew c;
	bool same = true, zero = true;

	crew_open(&c, 3, "unix", 20 * NSEC_PER_SEC, halving, 4096);
	left_out = 0;
	formed(&c);
	vectors(&c, 20000);
	crew_each(&c, reduce_nothing, 0);
	same = all_well(&c);
	for (unsigned k = 0; same && k < 3; k++)
		for (size_t i = 0; i < c.floats; i++)
			same &= c.sailor[k].total == 7 && fabsf(c.sailor[k].mean[i] - c.sailor[1].in[i]) <= 1e-6f * fabsf(c.sailor[1].in[i]);
	ok(same, "members without examples add nothing");
	step++;
	crew_each(&c, reduce_void, 0);
	zero = all_well(&c);
	for (unsigned k = 0; zero && k < 3; k++)
		for (size_t i = 0; i < c.floats; i++)
			zero &= c.sailor[k].total == 0 && c.sailor[k].mean[i] == 0;
	ok(zero, "nobody has examples: zeroes, and a total of 0");
	crew_close(&c);
}

/* ---- loss ----------------------------------------------------------------------------- */

/* A member that is gone takes no part; the others are at it when it goes. */
static void *die_while(void *ctx)
{
	struct sailor *s = ctx;

	if (s->index != 1)
		return reduce(ctx);
	/* Others have begun: it has what they sent, and closes. */
	usleep(50000);
	ring_free(s->ring);
	s->ring = NULL;
	return NULL;
}

static void death(unsigned n, size_t floats)
{
	unsigned failed = 0;
	int64_t longest = 0;
	struct crew c;

	crew_open(&c, n, "tcp", 20 * NSEC_PER_SEC, 1, 4096);
	left_out = 0;
	formed(&c);
	vectors(&c, floats);
	crew_each(&c, die_while, 0);
	for (unsigned i = 0; i < n; i++)
		if (i != 1) {
			failed += c.sailor[i].rc != ERR_OK;
			longest = c.sailor[i].took > longest ? c.sailor[i].took : longest;
		}
	ok(failed == n - 1 && longest < 3 * NSEC_PER_SEC, "a member of %u dies: the others hear of it (%u, after %d ms; \"%s\")", n,
	    failed, (int)(longest / NSEC_PER_MSEC), c.sailor[0].e.msg);
	left_out = 2;
	ok(formed(&c), "the others form the ring of the next epoch");
	crew_each(&c, reduce, left_out);
	ok(all_well(&c) && right(&c, ((1u << n) - 1) & ~2u), "and the same vectors give the mean of those who are left");
	crew_close(&c);
}

/* Member 0 gives up within the reduction; before that, or after, others may have the
 * result: whatever they have, all have the same in the end. */
static void *give_up_at(void *ctx)
{
	struct sailor *s = ctx;

	if (s->index == 0)
		atomic_store(&s->cancel, true);
	return reduce(ctx);
}

static void repetition(void)
{
	unsigned good = 0, rounds = 20, broken = 0;
	struct crew c;

	crew_open(&c, 4, "unix", 20 * NSEC_PER_SEC, 1, 4096);
	left_out = 0;
	formed(&c);
	for (unsigned k = 0; k < rounds; k++) {
		vectors(&c, 2000 + k * 20000);
		crew_each(&c, give_up_at, 0);
		for (unsigned i = 0; i < 4; i++)
			broken += c.sailor[i].rc != ERR_OK;
		atomic_store(&c.sailor[0].cancel, false);
		good += formed(&c);
		crew_each(&c, reduce, 0);
		good += all_well(&c) && right(&c, 15);
	}
	ok(good == 2 * rounds, "reductions that are given up and made again: right each time (%u of %u; %u ends with an error)", good / 2,
	    rounds, broken);
	crew_close(&c);
}

/* A member has the result of a step, and another has not: it is given it, with the
 * part of one that is gone by now. */
static void *all_but_one(void *ctx)
{
	struct sailor *s = ctx;

	s->rc = ring_reduce(s->ring, step, s->in, s->crew->floats, 1 + s->index, &s->mean, &s->total, &s->e);
	return NULL;
}

static void *late_form(void *ctx)
{
	struct sailor *s = ctx;
	struct ring_member m[CREW_MAX];
	size_t n = present(s->crew, m);

	s->rc = ring_form(s->ring, epoch, m, n, &s->e);
	return NULL;
}

static void gift(void)
{
	struct crew c;
	struct ring_member alone[1];

	crew_open(&c, 3, "tcp", 20 * NSEC_PER_SEC, 1, 4096);
	left_out = 0;
	formed(&c);
	vectors(&c, 700001);
	crew_each(&c, all_but_one, 0);
	/* Member 2 has never heard of it: it begins the step anew, in a ring that breaks. */
	ring_free(c.sailor[2].ring);
	ring_free(c.sailor[1].ring);
	{
		struct ring_config cfg = { .id = &c.sailor[2].id, .slot = SLOT(2), .incarnation = 102, .transport = "tcp",
			.local_suite = SUITE_POLY1305, .remote_suite = SUITE_POLY1305, .listen = "127.0.0.1:0",
			.deadline = 20 * NSEC_PER_SEC, .log = &c.sailor[2].log, .cancelled = cancelled, .ctx = &c.sailor[2], .cancel_fd = -1 };

		ring_new(&cfg, &c.sailor[2].ring, NULL);
		snprintf(c.member[2].tcp, NET_TEXT, "%s", ring_address(c.sailor[2].ring));
		c.sailor[1].ring = NULL;
		(void)alone;
	}
	epoch++;
	left_out = 2;
	crew_each(&c, late_form, 2);
	/* Both go in: 0 has the result and answers at once, 2 waits until it is cancelled. */
	atomic_store(&c.sailor[2].cancel, true);
	crew_each(&c, reduce, 2);
	ok(c.sailor[0].rc == ERR_OK && c.sailor[2].rc == ERR_STOPPED, "one has the result of the step, another gave it up");
	atomic_store(&c.sailor[2].cancel, false);
	epoch++;
	crew_each(&c, late_form, 2);
	ok(all_well(&c), "they meet again");
	crew_each(&c, reduce, 2);
	ok(all_well(&c) && right(&c, 7), "and have the same: the mean of all three, with the one that is gone");
	crew_close(&c);
}

/* ---- what does not fit ---------------------------------------------------------------- */

static void *other_size(void *ctx)
{
	struct sailor *s = ctx;

	s->rc = ring_reduce(s->ring, step, s->in, s->index ? 900 : 1000, 1, &s->mean, &s->total, &s->e);
	return NULL;
}

static void *other_epoch(void *ctx)
{
	struct sailor *s = ctx;

	s->e.code = ERR_OK;
	s->rc = ring_form(s->ring, s->index ? epoch : epoch + 1, s->crew->member, s->crew->n, &s->e);
	return NULL;
}

static void *other_members(void *ctx)
{
	struct sailor *s = ctx;
	struct ring_member m[CREW_MAX];

	memcpy(m, s->crew->member, sizeof m);
	if (s->index == 2)
		m[1].incarnation++;
	s->e.code = ERR_OK;
	s->rc = ring_form(s->ring, epoch, m, s->crew->n, &s->e);
	return NULL;
}

static void misfits(void)
{
	struct sailor *s;
	struct crew c;

	crew_open(&c, 2, "unix", 2 * NSEC_PER_SEC, 1, 4096);
	s = c.sailor;
	left_out = 0;
	formed(&c);
	vectors(&c, 1000);
	crew_each(&c, other_size, 0);
	ok(s[0].rc && s[1].rc && (s[0].rc == ERR_PROTO || s[1].rc == ERR_PROTO), "vectors of unlike length: an error (%s)",
	    s[0].rc == ERR_PROTO ? s[0].e.msg : s[1].e.msg);
	epoch++;
	crew_each(&c, other_epoch, 0);
	ok(s[1].rc == ERR_STALE && s[0].rc == ERR_UNREACH, "one is an epoch ahead: the other hears of it (%s), and it waits (%s)", s[1].e.msg,
	    s[0].e.msg);
	epoch += 2;
	ok(formed(&c), "in the next epoch they meet");
	crew_each(&c, reduce, 0);
	ok(all_well(&c) && right(&c, 3), "and reduce");
	ok(ring_form(s[0].ring, epoch - 1, c.member, 2, &s[0].e) == ERR_STALE, "an older epoch is refused: %s", s[0].e.msg);
	ok(ring_form(s[0].ring, epoch + 1, c.member + 1, 1, &s[0].e) == ERR_FENCED, "and a ring without oneself: %s", s[0].e.msg);
	step++;
	ok(ring_reduce(s[0].ring, step - 2, s[0].in, 1000, 1, &s[0].mean, &s[0].total, &s[0].e) == ERR_STALE, "and a step that is over: %s",
	    s[0].e.msg);
	/* Nobody else takes part. */
	ok(ring_reduce(s[0].ring, step, s[0].in, c.floats, 1, &s[0].mean, &s[0].total, &s[0].e) == ERR_TIMEOUT, "a wait has an end: %s", s[0].e.msg);
	crew_close(&c);

	crew_open(&c, 3, "tcp", 2 * NSEC_PER_SEC, 1, 4096);
	epoch++;
	crew_each(&c, other_members, 0);
	ok(c.sailor[2].rc && c.sailor[0].rc, "unlike lists of members are found out: %s", c.sailor[2].e.msg);
	crew_close(&c);
}

/* A member whose records are not what they should be: authentic all the same. */
struct rogue {
	struct conn *conn;
	struct record rec;
	bool live, told;
};

static void rogue_live(void *ctx, const struct hs_server_info *info)
{
	(void)info;
	((struct rogue *)ctx)->live = true;
}

static enum conn_verdict rogue_record(void *ctx, const struct record *r, uint8_t *payload)
{
	struct rogue *g = ctx;

	(void)payload;
	g->told |= r->type == REC_RING_HELLO || r->type == REC_NACK;
	return CONN_TAKEN;
}

static bool rogue_told(void *ctx)
{
	return ((struct rogue *)ctx)->told;
}

static bool rogue_sent(void *ctx)
{
	return conn_queued(((struct rogue *)ctx)->conn) == 0;
}

static const struct conn_handler rogue_handler = { .live = rogue_live, .record = rogue_record };

static struct record bad;

/* Member 0 is honest; member 1 forms with it, but a second line in its name sends `bad`. */
static void *rogue(void *ctx)
{
	struct sailor *s = ctx;
	struct crew *c = s->crew;
	struct hs_client_info info = { .incarnation = 101, .slot = SLOT(1) };
	struct rogue g = { .live = false };
	static const uint8_t payload[4096];
	struct err e = { 0 };
	int fd;

	if (s->index == 0) {
		form(s);
		if (s->rc == ERR_OK)
			reduce(s);
		return NULL;
	}
	if (net_connect(c->member[0].tcp, &fd, &e))
		return NULL;
	g.conn = conn_dial(fd, &s->id, c->member[0].key, &info, &rogue_handler, &g);
	g.rec = (struct record){ .type = REC_RING_HELLO, .epoch = epoch };
	conn_send(g.conn, &g.rec, NULL);
	conn_until(g.conn, rogue_told, &g, NSEC_PER_SEC, &e);
	conn_send(g.conn, &bad, payload);
	conn_until(g.conn, rogue_sent, &g, NSEC_PER_SEC, &e);
	conn_free(g.conn);
	s->e = e;
	return NULL;
}

static void malformed(void)
{
	static const struct { const char *what; struct record r; } rows[] = {
		{ "another list of members", { .type = REC_RING_HELLO } },
		{ "a push", { .type = REC_PUSH, .len = 64 } },
	};

	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct crew c;

		crew_open(&c, 2, "tcp", NSEC_PER_SEC, 1, 4096);
		left_out = 0;
		vectors(&c, 1000);
		epoch++;
		bad = rows[i].r;
		bad.epoch = epoch;
		crew_each(&c, rogue, 0);
		ok(c.sailor[0].rc != ERR_OK && c.sailor[0].took < 5 * NSEC_PER_SEC, "%s from a member: an error, and no more (%s)", rows[i].what,
		    c.sailor[0].e.msg);
		crew_close(&c);
	}
}

int main(void)
{
	if (key_init(NULL))
		return 1;
	for (unsigned n = 1; n <= 5; n++) {
		means("unix", n, 1);
		means("tcp", n, 1);
		means("unix", n, 1 << 20);
	}
	weights(1);
	weights(1 << 20);
	death(2, 400000);
	death(3, 400000);
	death(5, 3000000);
	repetition();
	gift();
	misfits();
	malformed();
	return tap_done();
}

#include "ring_fixture.h"

#include <math.h>

#include "ring/ring_state.h"
#include "wire/msg.h"

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

static void means(const char *transport, unsigned n, size_t halving, size_t slice)
{
	static const size_t sizes[] = { 1, 3, 16, 31, 100, 999, 5000, 50021, 300007 };
	unsigned good = 0, want = 0;
	struct crew c;

	crew_open(&c, n, transport, 20 * NSEC_PER_SEC, halving, slice);
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

/* A member gives up somewhere within the reduction: others may have the result by then,
 * or not.  Whatever they have, all have the same in the end. */
static void repetition(void)
{
	unsigned good = 0, rounds = 24, broken = 0, kept = 0;
	struct rng rng;
	struct crew c;

	rng_init(&rng, 5);
	crew_open(&c, 4, "unix", 20 * NSEC_PER_SEC, 1, 4096);
	left_out = 0;
	formed(&c);
	for (unsigned k = 0; k < rounds; k++) {
		unsigned who = k % 4, failed = 0;

		vectors(&c, 2000003);
		c.sailor[who].cancel_at = clock_now() + (int64_t)rng_below(&rng, 60 * NSEC_PER_MSEC);
		crew_each(&c, reduce, 0);
		for (unsigned i = 0; i < 4; i++)
			failed += c.sailor[i].rc != ERR_OK;
		broken += failed > 0;
		kept += failed > 0 && failed < 4;
		c.sailor[who].cancel_at = 0;
		good += formed(&c);
		crew_each(&c, reduce, 0);
		good += all_well(&c) && right(&c, 15);
	}
	ok(good == 2 * rounds && broken > 0, "reductions that are given up and made again: right each time (%u of %u; %u broke, %u of them for some)",
	    good / 2, rounds, broken, kept);
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

/* A member of the ring whose records are not what they should be. */
static struct record bad;

static void *rogue(void *ctx)
{
	static const uint8_t payload[65536];
	struct sailor *s = ctx;
	struct ring *r = s->ring;

	form(s);
	if (s->index == 0 || s->rc)
		return s->rc ? NULL : reduce(s);
	conn_send(r->link[0].out, &bad, payload);
	while (conn_queued(r->link[0].out) && conn_write(r->link[0].out, NULL) == ERR_OK)
		;
	return NULL;
}

/* The record that is right, with one thing wrong. */
static void malformed(void)
{
	static const char *const what[] = { "another type", "another epoch", "an older step", "another length of vector", "another offset",
		"a longer slice", "no floats", "a result instead of a part", "a greeting again" };

	for (unsigned i = 0; i < sizeof what / sizeof *what; i++) {
		struct crew c;
		bool told;

		crew_open(&c, 2, "tcp", 3 * NSEC_PER_SEC, 1, 4096);
		left_out = 0;
		vectors(&c, 8192);
		epoch++;
		bad = (struct record){ .type = i == 0 ? REC_PUSH : i == 7 ? REC_RING_COPY : i == 8 ? REC_RING_HELLO : REC_RING_SUM,
			.epoch = epoch - (i == 1), .step = step - (i == 2), .seq = 8192 + (i == 3), .offset = 4096 * 4 + (i == 4 ? 4 : 0),
			.len = i == 6 || i == 8 ? 0 : 4096 * 4 + (i == 5 ? 4 : 0), .total = 1 };
		crew_each(&c, rogue, 0);
		told = c.sailor[0].rc == ERR_PROTO && c.sailor[0].took < 2 * NSEC_PER_SEC;
		ok(told, "%s: %s", what[i], c.sailor[0].e.msg);
		crew_close(&c);
	}
}

/* ---- a greeting of an epoch that is over ------------------------------------------------ */

struct caller {
	struct conn *conn;
	struct record hello;
	enum err_code told;             /* of a NACK; ERR_OK: a greeting, or nothing */
	bool answered;
};

static void caller_live(void *ctx, const struct hs_server_info *info)
{
	struct caller *k = ctx;

	(void)info;
	conn_send(k->conn, &k->hello, NULL);
}

static enum conn_verdict caller_record(void *ctx, const struct record *r, uint8_t *payload)
{
	struct caller *k = ctx;
	struct err e = { 0 };

	k->answered = true;
	if (r->type == REC_NACK)
		k->told = msg_get_nack(payload, r->len, &e);
	return CONN_TAKEN;
}

static bool caller_answered(void *ctx)
{
	return ((struct caller *)ctx)->answered;
}

static const struct conn_handler caller_handler = { .live = caller_live, .record = caller_record };

/* Member 1 calls by hand, as if it had not heard of the newest epoch. */
static void *call_late(void *ctx)
{
	struct sailor *s = ctx;
	struct hs_client_info info = { .incarnation = 101, .slot = SLOT(1) };
	struct caller k = { .hello = { .type = REC_RING_HELLO, .epoch = epoch - 1, .seq = s->ring->digest } };
	int fd;

	if (s->index == 0)
		return form(ctx);
	s->rc = ERR_UNREACH;
	if (net_connect(s->crew->member[0].tcp, &fd, &s->e))
		return NULL;
	k.conn = conn_dial(fd, &s->id, s->crew->member[0].key, &info, &caller_handler, &k);
	conn_until(k.conn, caller_answered, &k, 5 * NSEC_PER_SEC, &s->e);
	conn_free(k.conn);
	s->rc = k.answered ? k.told : ERR_UNREACH;
	return NULL;
}

static void old_greeting(void)
{
	struct crew c;

	crew_open(&c, 2, "tcp", NSEC_PER_SEC, 1, 4096);
	left_out = 0;
	formed(&c);
	/* Its listener is not to answer for it. */
	ring_part(c.sailor[1].ring);
	epoch++;
	crew_each(&c, call_late, 0);
	ok(c.sailor[1].rc == ERR_STALE && c.sailor[0].rc == ERR_UNREACH, "a greeting of an epoch that is over is refused (%s), and does not count",
	    err_name(c.sailor[1].rc));
	crew_close(&c);
}

/* Strangers who connect and say nothing, or nonsense, hold nobody up. */
static void strangers(void)
{
	struct crew c;
	int fd[200], n = 0;

	crew_open(&c, 2, "tcp", 20 * NSEC_PER_SEC, 1, 4096);
	left_out = 0;
	for (; n < 200; n++) {
		static const uint8_t noise[300] = { 0x50 };

		if (net_connect(c.member[n % 2].tcp, &fd[n], NULL))
			break;
		if (n & 2 && write(fd[n], noise, sizeof noise) < 0)
			break;
	}
	ok(n == 200 && formed(&c), "200 strangers at the doors: the members meet");
	vectors(&c, 100000);
	crew_each(&c, reduce, 0);
	ok(all_well(&c) && right(&c, 3), "and reduce");
	while (n-- > 0)
		close(fd[n]);
	crew_close(&c);
}

int main(void)
{
	if (key_init(NULL))
		return 1;
	for (unsigned n = 1; n <= 5; n++) {
		means("unix", n, 1, 4096);
		means("tcp", n, 1, 4096);
		means("unix", n, 1 << 30, 0);
		means("tcp", n, 1 << 30, 512);
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
	old_greeting();
	strangers();
	return tap_done();
}

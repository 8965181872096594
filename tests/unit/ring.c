/* SPDX-License-Identifier: ISC */
#include "ring_fixture.h"

/* All-reduce among threads, over loopback and Unix sockets: means, equal bits, every
 * count of members; then members that die or come late. */

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
	ok(good == want, "%s of %u members by %s: right means with equal bits (%u of %u sizes)",
	    halving > 1 ? "halving" : "ring", n, transport, good, want);
	crew_close(&c);
}

/* ---- weights ---- */

static void *reduce_nothing(void *ctx)
{
	struct sailor *s = ctx;
	bool empty = s->index != 1;

	s->rc = ring_reduce(s->ring, step, empty ? NULL : s->in, s->crew->floats, empty ? 0 : 7,
	    &s->mean, &s->total, &s->e);
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
			same &= c.sailor[k].total == 7 &&
			    fabsf(c.sailor[k].mean[i] - c.sailor[1].in[i]) <=
			        1e-6f * fabsf(c.sailor[1].in[i]);
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

/* ---- loss ---- */

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
	ok(failed == n - 1 && longest < 3 * NSEC_PER_SEC,
	    "a member of %u dies: the others hear of it (%u, after %d ms; \"%s\")", n, failed,
	    (int)(longest / NSEC_PER_MSEC), c.sailor[0].e.msg);
	left_out = 2;
	ok(formed(&c), "the others form the ring of the next epoch");
	crew_each(&c, reduce, left_out);
	ok(all_well(&c) && right(&c, ((1u << n) - 1) & ~2u),
	    "and the same vectors give the mean of those who are left");
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
		c.sailor[who].cancel_at = clock_now() +
		    (int64_t)rng_below(&rng, 60 * NSEC_PER_MSEC);
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
	ok(good == 2 * rounds && broken > 0,
	    "reductions that are given up and made again: right each time (%u of %u; %u broke, %u of them for some)",
	    good / 2, rounds, broken, kept);
	crew_close(&c);
}

/* A member has the result of a step, and another has not: it is given it, with the
 * part of one that is gone by now. */
static void *all_but_one(void *ctx)
{
	struct sailor *s = ctx;

	s->rc = ring_reduce(s->ring, step, s->in, s->crew->floats, 1 + s->index, &s->mean,
	    &s->total, &s->e);
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
		struct ring_config cfg = { .id = &c.sailor[2].id,
			.rank = RANK(2),
			.incarnation = 102,
			.transport = transport_find("tcp"),
			.local_suite = SUITE_POLY1305,
			.remote_suite = SUITE_POLY1305,
			.listen = "127.0.0.1:0",
			.deadline = 20 * NSEC_PER_SEC,
			.log = &c.sailor[2].log,
			.attend = attend,
			.ctx = &c.sailor[2],
			.attend_fd = -1 };

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
	ok(c.sailor[0].rc == ERR_OK && c.sailor[2].rc == ERR_STOPPED,
	    "one has the result of the step, another gave it up");
	atomic_store(&c.sailor[2].cancel, false);
	epoch++;
	crew_each(&c, late_form, 2);
	ok(all_well(&c), "they meet again");
	crew_each(&c, reduce, 2);
	ok(all_well(&c) && right(&c, 7),
	    "and have the same: the mean of all three, with the one that is gone");
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
	return tap_done();
}

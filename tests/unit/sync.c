/* SPDX-License-Identifier: ISC */
/* When a push may be taken and a pull answered: the rules of bsp, ssp and asp
 * against a plain statement of them, for all states of three ranks. */
#include <stdlib.h>
#include <string.h>

#include "sync/sync.h"
#include "tap.h"

static bool parses(const char *text, const char *back)
{
	struct sync_mode m;
	struct err e = { 0 };
	char out[32];

	if (sync_parse(text, &m, &e))
		return false;
	sync_format(&m, out);
	return strcmp(out, back) == 0;
}

static bool refused(const char *text)
{
	struct sync_mode m;
	struct err e = { 0 };

	return sync_parse(text, &m, &e) == ERR_CONFIG && strstr(e.msg, text) != NULL;
}

static void words(void)
{
	char out[32];

	ok(parses("bsp", "bsp") && parses("asp", "asp"), "bsp and asp are read and written");
	ok(parses("ssp:0", "ssp:0") && parses("ssp:3", "ssp:3") &&
	        parses("ssp:1000000", "ssp:1000000"),
	    "ssp:S is read and written, from 0 to 1000000");
	ok(parses("asp:scaled", "asp:scaled") && parses("ssp:3:scaled", "ssp:3:scaled") &&
	        refused("asp:") && refused("asp:scale") && refused("asp:3") &&
	        refused("ssp::scaled") && refused("ssp:scaled") && refused("ssp:3:scaled:3") &&
	        refused("bsp:scaled"),
	    "a smaller learning rate for stale pushes is read and written");
	ok(parses("asp:dc", "asp:dc") && parses("asp:dc:0.04", "asp:dc") &&
	        parses("ssp:3:dca:0.5", "ssp:3:dca:0.5") &&
	        parses("ssp:1000000:dca:1.23457e-05", "ssp:1000000:dca:1.23457e-05") &&
	        refused("asp:dc:") && refused("asp:dc:0") && refused("asp:dc:-1") &&
	        refused("asp:dca:1e7") && refused("asp:dca:nan") && refused("asp:scaled:2") &&
	        refused("bsp:dc"),
	    "a compensation of the delay is read and written, with its constant");
	ok(refused("ssp") && refused("ssp:") && refused("ssp:-1") && refused("ssp:1000001") &&
	        refused("ssp:3x"),
	    "ssp without a number, or with a wrong one, is refused and quoted");
	sync_format(&(struct sync_mode){ 0 }, out);
	ok(strcmp(out, "unknown") == 0, "a mode that is not set is not written as a mode");
	ok(refused("BSP") && refused("async") && refused("bsp:1"), "what is no mode is refused");
}

static void divisors(void)
{
	struct sync_mode plain, scaled, bsp;

	sync_parse("ssp:3", &plain, NULL);
	sync_parse("ssp:3:scaled", &scaled, NULL);
	sync_parse("bsp", &bsp, NULL);
	ok(sync_rate_divisor(&plain, 7) == 1 && sync_rate_divisor(&bsp, 7) == 1,
	    "the learning rate stays as it is");
	ok(sync_rate_divisor(&scaled, 0) == 1 && sync_rate_divisor(&scaled, 1) == 1 &&
	        sync_rate_divisor(&scaled, 7) == 7 && !sync_same(&plain, &scaled),
	    "scaled: it is divided by the staleness");
}

static struct sync three(const struct sync_ops *ops, uint64_t staleness)
{
	struct sync s;

	sync_init(&s, (struct sync_mode){ .ops = ops, .staleness = staleness });
	for (size_t i = 0; i < 3; i++)
		sync_at(&s, i)->active = true;
	return s;
}

/* Every combination of clocks 0..4 and of active ranks, every pull from 0 to 9:
 * a pull at step c waits until each active rank has completed step c-1-S. */
static void ssp_exhaustively(void)
{
	unsigned wrong = 0, yes = 0, no = 0;

	for (uint64_t stale = 0; stale < 4; stale++) {
		struct sync s = three(&sync_ssp, stale);

		for (unsigned state = 0; state < 8 * 125; state++) {
			unsigned clocks = state / 8;

			for (unsigned i = 0; i < 3; i++, clocks /= 5) {
				s.rank[i].active = state >> i & 1;
				s.rank[i].clock = clocks % 5;
			}
			for (uint64_t step = 0; step < 10; step++) {
				bool want = true;

				for (unsigned i = 0; i < 3; i++)
					if (s.rank[i].active && step > stale &&
					    s.rank[i].clock < step - stale)
						want = false;
				wrong += sync_may_pull(&s, step) != want;
				*(want ? &yes : &no) += 1;
			}
		}
		sync_release(&s);
	}
	ok(!wrong,
	    "ssp answers a pull exactly when nobody is more than S steps behind (%u yes, %u no)",
	    yes, no);
}

static void bsp(void)
{
	struct sync s = three(&sync_bsp, 0);
	bool good;

	ok(sync_may_pull(&s, 0) && !sync_may_pull(&s, 1),
	    "bsp: the first step is pulled at once, the second not");
	sync_clock(&s, 0, 0, 64);
	sync_clock(&s, 1, 0, 64);
	ok(sync_completed(&s) <= s.closed, "a step is not closed while a rank is at it");
	good = sync_clock(&s, 2, 0, 12);
	ok(good && sync_completed(&s) > s.closed && sync_stated_examples(&s, 2, 0) == 12,
	    "the last CLOCK completes it");
	ok(!sync_may_pull(&s, 1), "its parameters are there when the update is made, not before");
	s.closed++;
	ok(sync_may_pull(&s, 1) && sync_completed(&s) <= s.closed, "then the next step begins");
	ok(!sync_clock(&s, 2, 0, 99) && s.rank[2].clock == 1 &&
	        sync_stated_examples(&s, 2, 0) == 12,
	    "a CLOCK that comes again changes nothing");
	s.rank[1].active = false;
	sync_clock(&s, 0, 1, 64);
	sync_clock(&s, 2, 1, 64);
	ok(sync_completed(&s) > s.closed, "a rank that is not active holds nobody up");
	s.closed++;
	s.rank[0].active = s.rank[2].active = false;
	s.rank[0].pushed_end = 3;
	ok(sync_completed(&s) > s.closed,
	    "what was pushed last is still closed when nobody is left to wait for");
	s.closed++;
	ok(sync_completed(&s) <= s.closed, "and nothing more");
	sync_release(&s);
}

static void asp(void)
{
	struct sync s = three(&sync_asp, 0);

	ok(sync_may_pull(&s, 0) && sync_may_pull(&s, 1000000), "asp never waits");
	s.vote_from = 5;
	ok(sync_may_pull(&s, 4) && !sync_may_pull(&s, 5) && sync_may_push(&s, 4) &&
	        !sync_may_push(&s, 5),
	    "but for a vote: from its step on nothing is taken nor answered");
	s.vote_from = SYNC_NEVER;
	ok(sync_may_pull(&s, 5) && sync_may_push(&s, 5), "until it is decided");
	sync_release(&s);
}

static void first_free(void)
{
	struct sync s = three(&sync_bsp, 0);

	ok(sync_first_free(&s) == 0 && sync_least_clock(&s) == 0,
	    "at first the first free step is step 0");
	sync_at(&s, 1)->pushed_end = 4;
	ok(sync_first_free(&s) == 4, "a push of step 3 moves it to 4");
	sync_clock(&s, 2, 5, 1);
	ok(sync_first_free(&s) == 6, "a CLOCK of step 5 moves it to 6");
	s.answered_end = 9;
	ok(sync_first_free(&s) == 9, "an answered pull of step 8 moves it to 9");
	ok(sync_least_clock(&s) == 0, "the floor is the slowest rank's clock");
	sync_at(&s, 0)->clock = sync_at(&s, 1)->clock = 7;
	ok(sync_least_clock(&s) == 6, "whichever it is");
	for (size_t i = 0; i < 3; i++)
		s.rank[i].active = false;
	ok(sync_least_clock(&s) == SYNC_NEVER, "with nobody active there is none");
	ok(sync_at(&s, 40)->clock == 0 && s.nranks == 41 && s.rank[2].clock == 6 &&
	        !s.rank[20].active,
	    "the table grows to a new rank and keeps the others");
	sync_release(&s);
}

/* A worker of a deterministic job is killed after its CLOCK of step 13 has arrived, and its successor begins at step 12. */
static void next_holder(void)
{
	struct sync s = three(&sync_bsp, 0);

	s.closed = 13;
	for (unsigned i = 0; i < 3; i++)
		s.rank[i].clock = 13;
	sync_clock(&s, 1, 13, 64);
	sync_begin_holder(&s, 1, 12);
	ok(s.rank[1].clock == 13,
	    "the CLOCK of an open step does not count for the rank's next holder");
	ok(!sync_clock(&s, 1, 12, 64) && sync_clock(&s, 1, 13, 64) && s.rank[1].clock == 14,
	    "its own does");
	sync_begin_holder(&s, 1, 15);
	ok(s.rank[1].clock == 15, "one that begins later has completed the steps before");
	sync_release(&s);
}

int main(void)
{
	words();
	divisors();
	ssp_exhaustively();
	bsp();
	asp();
	first_free();
	next_holder();
	return tap_done();
}

/* SPDX-License-Identifier: ISC */
/* Claims that nobody will make good any more, and copies that are none: cut, too
 * long, of another shape. */
#include "replicas_fixture.h"

/* A worker said by its CLOCK what it pushes, and died with the head that had it.
 * The next one in its rank begins beyond: the step is closed without. */
static void a_claim_of_one_that_was_replaced(void)
{
	struct net *x = net_open("bsp", false, "sgd", "01", 2);
	struct receipt r;
	float w[8];
	uint64_t v;

	push(x, 0, W, 1, 0, &r);
	for (unsigned i = 0; i < 2; i++) {
		clock_of(x, i, 0, 0, 1);
		clock_of(x, i, 1, 0, 1);
	}
	net_settle(x);
	ok(pull(x, 1, W, 1, w, &v) == SHARD_WAIT, "what was promised is waited for");
	for (unsigned i = 0; i < 2; i++)
		admit(x->node[i].s, 0, 900, 1);
	net_settle(x);
	ok(pull(x, 1, W, 1, w, &v) == SHARD_OK && v == 1, "not from one that has been replaced");
	ok(is_safe(x, 0, &r), "and the other's push is everywhere");
	net_close(x);
}

/* Its CLOCK came to the head, with its push, and not to the copy, which hears of
 * its successor first: it must not take the step for empty. */
static void a_clock_that_the_copy_never_had(void)
{
	struct net *x = net_open("bsp", false, "sgd", "01", 2);
	struct receipt r;
	float w[8];
	uint64_t v;

	push(x, 0, W, 0, 0, &r);
	clock_of(x, 0, 0, 0, 1);
	for (unsigned i = 0; i < 2; i++)
		clock_of(x, i, 1, 0, 0);
	admit(x->node[1].s, 0, 900, 1);
	shard_advance(x->node[1].s);
	ok(pull(x, 1, W, 1, w, &v) == SHARD_WAIT,
	    "a copy does not pass over a step of before a takeover");
	admit(x->node[0].s, 0, 900, 1);
	net_settle(x);
	ok(pull(x, 1, W, 1, w, &v) == SHARD_OK && v == 1, "but takes what the head made of it");
	/* With nothing to tell the head says so. */
	for (unsigned i = 0; i < 2; i++)
		ok(pull(x, 1, ROWS, 1, w, &v) == SHARD_OK || i == 0,
		    "and that there was nothing elsewhere");
	net_close(x);
}

/* What comes from another server is checked as what comes from anybody. */
static void malformed(void)
{
	struct net *x = net_open("bsp", false, "sgd", "01", 1);
	uint8_t bytes[64] = { 0 };
	struct receipt_condition due;
	unsigned taken = 0;

	for (unsigned kind = REPL_SUM; kind <= REPL_STATE; kind++)
		for (size_t len = 0; len < 24; len++) {
			struct repl_record c = { .kind = (enum repl_kind)kind, .table = W };

			taken += shard_replicate(x->node[1].s, &c, bytes, len, &due) != SHARD_BAD;
		}
	ok(taken == 0, "a copy shorter than its head is malformed");
	memset(bytes, 0xff, sizeof bytes);
	for (unsigned kind = REPL_SUM; kind <= REPL_STATE; kind++) {
		struct repl_record c = { .kind = (enum repl_kind)kind, .table = W, .step = 3 };

		/* A state for one that has its copy is only a repetition. */
		taken += shard_replicate(x->node[1].s, &c, bytes, 56, &due) == SHARD_OK &&
		    kind != REPL_STATE;
	}
	ok(taken == 0, "and so is one with figures beyond its end");
	net_close(x);
}

int main(void)
{
	a_claim_of_one_that_was_replaced();
	a_clock_that_the_copy_never_had();
	malformed();
	return tap_done();
}

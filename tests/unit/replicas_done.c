/* SPDX-License-Identifier: ISC */
/* A worker is done, and the head of its partitions dies with the news. */
#include "replicas_fixture.h"

static const char *const modes[] = { "bsp", "ssp:1", "asp", "bsp rows" };

/* The step of rank 1 alone, at head: pushed, clocked to everybody there is. */
static bool alone(struct net *x, unsigned head, uint64_t step, struct receipt *r)
{
	bool good = push(x, head, W, 1, step, r) == SHARD_OK && r->status <= PUSH_MERGED;

	for (unsigned i = 0; i < 2; i++)
		good &= !x->node[i].s || clock_of(x, i, 1, step, 1) == SHARD_OK;
	return good;
}

/* Two ranks' step 0 is everywhere; then rank 0 says DONE to the head (told 1), to
 * the copy (2), to both (3) or to nobody (0), and the head dies. */
static struct net *done_and_dead(const char *mode, unsigned told, bool dies)
{
	struct net *x = net_open(mode, false, "adagrad", "01", 2);
	struct receipt r;

	for (uint32_t rank = 0; rank < 2; rank++)
		push(x, 0, W, rank, 0, &r);
	for (uint32_t rank = 0; rank < 2; rank++)
		for (unsigned i = 0; i < 2; i++)
			clock_of(x, i, rank, 0, 1);
	net_settle(x);
	ok(is_safe(x, 0, &r), "%s: what it pushed is everywhere", mode);
	for (unsigned i = 0; i < 2; i++)
		if (told >> i & 1)
			ok(shard_done(x->node[i].s, 0, inc_of(0)) == SHARD_OK,
			    "%s: done, it tells server %u", mode, i);
	if (dies) {
		net_kill(x, 0);
		net_chain(x, "1", -1);
	}
	return x;
}

/* As if nothing had happened: what the model is after rank 1 has taken two more
 * steps alone. */
static void expected(const char *mode, float w[8])
{
	struct net *x = done_and_dead(mode, 3, false);
	struct receipt r;
	uint64_t v;

	for (uint64_t step = 1; step < 3; step++) {
		ok(alone(x, 0, step, &r), "%s: the other goes on alone", mode);
		net_settle(x);
	}
	ok(pull(x, 0, W, SYNC_NEVER, w, &v) == SHARD_OK ||
	        pull(x, 1, W, SYNC_NEVER, w, &v) == SHARD_OK,
	    "%s: the model without a death", mode);
	net_close(x);
}

static void then_the_head_dies(const char *mode)
{
	float want[8] = { 0 }, w[8] = { 0 };
	struct receipt r;
	uint64_t v;

	expected(mode, want);
	for (unsigned told = 0; told < 4; told++) {
		struct net *x = done_and_dead(mode, told, true);

		alone(x, 1, 1, &r);
		if (!(told & 2)) {
			ok(strcmp(mode, "bsp") || pull(x, 1, W, 2, w, &v) == SHARD_WAIT,
			    "%s: the new head has not heard of DONE, and waits", mode);
			ok(shard_done(x->node[1].s, 0, inc_of(0)) == SHARD_OK,
			    "%s: who has no answer says it again", mode);
		}
		ok(pull(x, 1, W, 2, w, &v) == SHARD_OK,
		    "%s: the step of the other alone is closed (told: %u)", mode, told);
		ok(alone(x, 1, 2, &r) && pull(x, 1, W, 3, w, &v) == SHARD_OK &&
		        memcmp(w, want, sizeof want) == 0,
		    "%s: the model is the same, bit by bit", mode);
		/* A push of before, sent again by a slow link: a duplicate. */
		ok(push(x, 1, W, 0, 0, &r) != SHARD_OK || r.status == PUSH_DUPLICATE,
		    "%s: an old push counts once", mode);
		net_close(x);
	}
	{
		/* It left when the head had answered, and the copy never heard of it. */
		struct net *x = done_and_dead(mode, 1, true);

		alone(x, 1, 1, &r);
		dismiss(x->node[1].s, 0, 1);
		ok(pull(x, 1, W, 2, w, &v) == SHARD_OK && alone(x, 1, 2, &r) &&
		        pull(x, 1, W, 3, w, &v) == SHARD_OK && memcmp(w, want, sizeof want) == 0,
		    "%s: the view tells of who has left: the same model", mode);
		net_close(x);
	}
}

int main(void)
{
	for (unsigned m = 0; m < 3; m++)
		then_the_head_dies(modes[m]);
	return tap_done();
}

/* SPDX-License-Identifier: ISC */
/* A relay's sum at a partition with copies: the head dies, and the same sum comes to
 * the next. */
#include "replicas_fixture.h"

enum { RELAY = 777 };

static enum shard_answer send_sum(struct net *x, unsigned i, uint64_t step, uint32_t n,
    struct receipt *r)
{
	_Alignas(8) uint8_t buf[256];
	struct sum sum = { .relay = RELAY, .step = step, .table = W };
	float g[N] = { 4, 8, 12, 16 };

	sum_body_put_head(buf, n, 0);
	for (uint32_t k = 0; k < n; k++)
		sum_put_contributor(buf + SUM_HEAD_BYTES + k * SUM_CONTRIBUTOR_BYTES,
		    &(struct sum_contributor){ k, 2, inc_of(k) });
	memcpy(buf + sum_body_head_bytes(n), g, sizeof g);
	if (!sum_body_parse(buf, sum_body_head_bytes(n) + sizeof g, 0, &sum.body))
		abort();
	return shard_push_sum(x->node[i].s, &sum, r);
}

static struct net *begin(void)
{
	struct net *x = net_open("bsp", false, "sgd", "01", 2);

	for (unsigned i = 0; i < 2; i++)
		for (uint32_t rank = 0; rank < 2; rank++)
			shard_set_relay(x->node[i].s, rank, RELAY, inc_of(rank));
	return x;
}

static void announce_and_clock(struct net *x, unsigned i)
{
	for (uint32_t rank = 0; rank < 2; rank++) {
		shard_expect(x->node[i].s, rank, inc_of(rank), 0, W, 0, 1);
		clock_of(x, i, rank, 0, 2);
	}
}

static void copied(void)
{
	struct net *x = begin();
	struct receipt r;
	float before[8], after[8];
	uint64_t v;

	announce_and_clock(x, 0);
	announce_and_clock(x, 1);
	ok(send_sum(x, 1, 0, 2, &r) == SHARD_ELSEWHERE, "sums go to the head");
	ok(send_sum(x, 0, 0, 2, &r) == SHARD_OK && r.status == PUSH_MERGED && !is_safe(x, 0, &r),
	    "which promises nothing by itself");
	net_settle(x);
	ok(is_safe(x, 0, &r), "until the copy has the step");
	pull(x, 1, W, 1, before, &v);
	net_kill(x, 0);
	net_chain(x, "1", -1);
	ok(send_sum(x, 1, 0, 2, &r) == SHARD_OK && r.status == PUSH_DUPLICATE,
	    "the next head knows the sum that the copy had");
	pull(x, 1, W, 1, after, &v);
	ok(v == 1 && memcmp(before, after, N * sizeof *before) == 0, "and counts it once");
	net_close(x);
}

static void lost(void)
{
	struct net *x = begin();
	struct receipt r;
	float w[8];
	uint64_t v;

	announce_and_clock(x, 1);
	send_sum(x, 0, 0, 2, &r);
	net_kill(x, 0);
	net_chain(x, "1", -1);
	ok(pull(x, 1, W, 1, w, &v) == SHARD_WAIT, "a sum that died with the head is waited for");
	ok(send_sum(x, 1, 0, 2, &r) == SHARD_OK && r.status == PUSH_MERGED &&
	        version_of(x->node[1].s, W, 0) == 1,
	    "and taken by the next");
	net_close(x);
}

int main(void)
{
	copied();
	lost();
	return tap_done();
}

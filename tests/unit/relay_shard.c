/* SPDX-License-Identifier: ISC */
/* A relay's own shard: what its ranks push goes up as sums, what they pull is what
 * has come down. */
#include <math.h>

#include "relay/relay_shard.h"
#include "shard_fixture.h"

static unsigned forwarded;

static void forward(void *ctx, uint16_t server, uint16_t table, uint32_t part)
{
	(void)ctx;
	(void)table;
	(void)part;
	forwarded += server == SHARD_UPSTREAM;
}

static void open_limited(struct world *x, uint32_t ranks, uint64_t mem_limit)
{
	struct shard_config cfg = { .mem_limit = mem_limit,
		.wake = count_wake,
		.forward = forward,
		.ctx = x };

	sync_parse("bsp", &cfg.mode, NULL);
	memset(x, 0, sizeof *x);
	forwarded = 0;
	add_table(x, "w", false, N, 1);
	add_table(x, "big", false, BIG_N, 1);
	add_table(x, "rows", true, 100, COLS);
	layout_place(&x->layout, (const uint16_t[]){ 0 }, 1, 1);
	if (relay_shard_new(&cfg, &x->shard, NULL) ||
	    shard_install(x->shard, &x->layout, NULL, NULL))
		abort();
	for (uint32_t i = 0; i < ranks; i++)
		admit(x->shard, i, inc_of(i), 0);
}

static void open_relay(struct world *x, uint32_t ranks)
{
	open_limited(x, ranks, 0);
}

/* How many of them are to be asked for; -1: there is no room. */
static int lacks_in(struct world *x, uint32_t part, uint64_t step, uint64_t epoch,
    const uint64_t *ids, uint32_t n, uint64_t *out)
{
	uint32_t k;

	return relay_shard_ask_rows(x->shard, ROWS, part,
	           &(struct relay_row_request){ step, epoch }, (const uint8_t *)ids, n, out, &k)
	    ? (int)k
	    : k ? -2
	        : -1;
}

static int lacks(struct world *x, uint32_t part, uint64_t step, const uint64_t *ids, uint32_t n,
    uint64_t *out)
{
	return lacks_in(x, part, step, 1, ids, n, out);
}

/* What goes out: the sums of one partition. */
struct out {
	unsigned n;
	uint64_t seq, step;
	struct sum_body b;
	_Alignas(8) uint8_t bytes[512];
};

static bool put(void *ctx, const struct repl_record *c)
{
	struct out *o = ctx;

	if (c->nhead + c->nbody > sizeof o->bytes)
		abort();
	memcpy(o->bytes, c->head, c->nhead);
	if (c->nbody)
		memcpy(o->bytes + c->nhead, c->body, c->nbody);
	if (!sum_body_parse(o->bytes, c->nhead + c->nbody, c->table == ROWS ? COLS : 0, &o->b))
		abort();
	o->n++;
	o->seq = c->seq;
	o->step = c->step;
	return true;
}

static struct out *sums(struct world *x, uint16_t table, uint32_t part, uint64_t session)
{
	static struct out o;

	o.n = 0;
	shard_send(x->shard, SHARD_UPSTREAM, session, table, part, put, &o);
	return &o;
}

static float value(const struct out *o, size_t i)
{
	float f;

	memcpy(&f, o->b.values + i * 4, 4);
	return f;
}

static bool is_safe(struct world *x, const struct receipt *r)
{
	return shard_is_safe(x->shard, r->table, r->part, &r->due);
}

static void absurd_step(void)
{
	struct world x;
	struct receipt a, b;

	open_relay(&x, 2);
	ok(push_w(&x, 0, UINT64_C(1000000000000000), 10, 1, &a) == SHARD_OK &&
	        a.status == PUSH_SPLIT && !forwarded,
	    "a push of step 10^15 is not summed");
	ok(push_w(&x, 0, 0, 10, 1, &a) == SHARD_OK && a.status == PUSH_MERGED,
	    "those of the open step still are");
	ok(push_w(&x, 1, 0, 30, 2, &b) == SHARD_OK && forwarded == 1, "and their sum goes up");
	world_close(&x);
}

static void one_step(void)
{
	struct world x;
	struct receipt a, b;
	struct out *o;

	open_relay(&x, 2);
	ok(push_w(&x, 0, 0, 10, 1, &a) == SHARD_OK && a.status == PUSH_MERGED && !forwarded,
	    "the first push waits for the second");
	ok(push_w(&x, 1, 0, 30, 2, &b) == SHARD_OK && forwarded == 1, "with which the sum goes up");
	o = sums(&x, W, 0, 1);
	ok(o->n == 1 && o->step == 0 && o->b.n == 2 && o->b.len == N * 4 && value(o, 0) == 70 &&
	        value(o, N - 1) == 70,
	    "it is that of examples times gradient");
	ok(sum_contributor(&o->b, 1).rank == 1 && sum_contributor(&o->b, 1).examples == 30 &&
	        sum_contributor(&o->b, 1).incarnation == inc_of(1),
	    "with who is in it");
	ok(!is_safe(&x, &a) && !is_safe(&x, &b) && sums(&x, W, 0, 1)->n == 0,
	    "nothing is promised, and it goes once a session");
	ok(sums(&x, W, 0, 2)->n == 1, "and again on the next");
	ok(push_w(&x, 0, 0, 10, 1, &b) == SHARD_OK && b.status == PUSH_DUPLICATE &&
	        !is_safe(&x, &b),
	    "the same push again is as safe as the first");
	relay_shard_answered(x.shard, W, 0, sums(&x, W, 0, 3)->seq, PUSH_MERGED);
	ok(is_safe(&x, &a) && outcome_of(x.shard, W, 0, 0, PUSH_MERGED).status == PUSH_MERGED &&
	        sums(&x, W, 0, 4)->n == 0,
	    "until the servers have it");
	relay_shard_answered(x.shard, W, 0, 1, PUSH_SPLIT);
	ok(outcome_of(x.shard, W, 0, 0, PUSH_MERGED).status == PUSH_MERGED,
	    "an answer that comes twice is nothing new");
	world_close(&x);
}

static void split(void)
{
	struct world x;
	struct receipt a, r;

	open_relay(&x, 2);
	push_w(&x, 0, 0, 10, NAN, &a);
	ok(a.status == PUSH_REFUSED && !is_safe(&x, &a),
	    "what is not finite is refused, when the servers know of it");
	push_w(&x, 1, 0, 30, 2, &r);
	ok(sum_contributor(&sums(&x, W, 0, 1)->b, 0).examples == 0 &&
	        value(sums(&x, W, 0, 2), 0) == 60,
	    "it has no part in the sum");
	relay_shard_answered(x.shard, W, 0, sums(&x, W, 0, 3)->seq, PUSH_SPLIT);
	ok(is_safe(&x, &r) && outcome_of(x.shard, W, 0, 0, PUSH_MERGED).status == PUSH_SPLIT &&
	        outcome_of(x.shard, W, 0, 0, PUSH_REFUSED).status == PUSH_SPLIT,
	    "a sum that the server splits is split for each");
	ok(outcome_of(x.shard, W, 0, 77, PUSH_MERGED).status == PUSH_SPLIT,
	    "so is what nobody here knows of any more");
	dismiss(x.shard, 1, 0);
	clock_of(&x, 0, 0, 0);
	admit(x.shard, 1, 900, 0);
	ok(push_w(&x, 0, 3, 10, 1, &r) == SHARD_OK && r.status == PUSH_MERGED,
	    "somebody may be steps ahead");
	ok(push_w(&x, 1, 2, 10, 1, &r) == SHARD_FENCED, "one of before is fenced");
	{
		float g[N] = { 1, 1, 1, 1 };
		struct push p = { .rank = 1,
			.incarnation = 900,
			.step = 2,
			.table = W,
			.examples = 1,
			.payload = (const uint8_t *)g,
			.len = sizeof g };

		ok(shard_push(x.shard, &p, &r) == SHARD_OK && r.status == PUSH_SPLIT &&
		        r.due.steps == 0,
		    "who is behind goes alone, at once");
		p.rank = SHARD_OUTSIDE;
		ok(shard_push(x.shard, &p, &r) == SHARD_ELSEWHERE,
		    "what is outside of the job does not come this way");
	}
	world_close(&x);
}

static void no_room(void)
{
	struct world x;
	struct receipt r;

	open_relay(&x, 1);
	for (uint64_t step = 0; step < 2; step++) {
		push_w(&x, 0, step, 1, 1, &r);
		clock_of(&x, 0, step, 1);
	}
	ok(forwarded == 1 && r.status == PUSH_MERGED, "one sum is under way, the next is kept");
	ok(push_w(&x, 0, 2, 1, 1, &r) == SHARD_WAIT, "the one after that waits");
	relay_shard_answered(x.shard, W, 0, sums(&x, W, 0, 1)->seq, PUSH_MERGED);
	shard_advance(x.shard);
	ok(forwarded == 2 && push_w(&x, 0, 2, 1, 1, &r) == SHARD_OK, "until the first is had");
	world_close(&x);
}

static void clocks(void)
{
	struct world x;
	struct receipt r;

	open_relay(&x, 2);
	push_w(&x, 0, 0, 10, 1, &r);
	clock_of(&x, 0, 0, 10);
	ok(!forwarded && !shard_may_pull(x.shard, 1), "a rank without its CLOCK is waited for");
	clock_of(&x, 1, 0, 10);
	ok(forwarded == 1 && sums(&x, W, 0, 1)->b.n == 1,
	    "one that pushes nothing is not in the sum");
	ok(shard_may_pull(x.shard, 1) && shard_may_prefetch(x.shard, 1) &&
	        !shard_may_prefetch(x.shard, 2),
	    "a step is asked for when all have done the one before");
	admit(x.shard, 5, inc_of(5), 2000000);
	dismiss(x.shard, 0, 0);
	dismiss(x.shard, 1, 0);
	ok(push_w(&x, 5, 2000000, 10, 1, &r) == SHARD_OK || r.status == 0,
	    "steps in which nobody is there are passed over");
	world_close(&x);
}

/* Answers come in the order of the questions: one for a step that somebody has not done yet
 * would stand before his own. */
static void order(void)
{
	struct world x;
	uint64_t id = 5, out;
	uint32_t part;

	open_relay(&x, 0);
	part = part_of(&x, id);
	shard_take_members(x.shard,
	    (struct member[]){ { .rank = 0, .incarnation = inc_of(0), .at = 8 },
	        { .rank = 1, .incarnation = inc_of(1), .at = 8 },
	        { .rank = 2, .incarnation = inc_of(2) } },
	    3);
	clock_of(&x, 2, 6, 1);
	ok(shard_closed(x.shard) == 7 && shard_may_pull(x.shard, 7) && !shard_may_pull(x.shard, 8),
	    "a relay that is new asks for no step before all are through with the one before");
	clock_of(&x, 2, 7, 1);
	ok(shard_may_pull(x.shard, 8) && lacks(&x, part, 8, &id, 1, &out) == 1,
	    "then for that step");
	admit(x.shard, 3, inc_of(3), 0);
	clock_of(&x, 3, 6, 1);
	ok(shard_closed(x.shard) == 8 && shard_may_pull(x.shard, 7) &&
	        !shard_may_pull(x.shard, 8) && !shard_may_prefetch(x.shard, 8),
	    "somebody who comes another way until then may be at a step before: that is asked for first");
	ok(lacks_in(&x, part, 7, 1, &id, 1, &out) == 0 &&
	        lacks_in(&x, part, 7, 2, &id, 1, &out) == 1,
	    "in the epoch that he comes in, which all is asked in anew");
	ok(lacks_in(&x, part, 8, 2, &id, 1, &out) == 1 &&
	        lacks_in(&x, part, 8, 2, &id, 1, &out) == 0,
	    "once for each step");
	world_close(&x);
}

static void values(void)
{
	struct world x;
	float w[N] = { 1, 2, 3, 4 }, out[N];
	uint64_t version;

	open_relay(&x, 1);
	ok(shard_pull(x.shard, W, 0, 0, out, &version) == SHARD_WAIT,
	    "nothing is shown before it has come");
	ok(shard_pull(x.shard, W, 0, SYNC_NEVER, out, &version) == SHARD_ELSEWHERE,
	    "what is outside of the steps is elsewhere");
	relay_shard_set(x.shard, W, 0, 0, w, 7);
	ok(shard_pull(x.shard, W, 0, 0, out, &version) == SHARD_OK &&
	        memcmp(w, out, sizeof w) == 0 && version == 7,
	    "then it is, with its version");
	ok(shard_pull(x.shard, W, 0, 1, out, &version) == SHARD_WAIT, "for its step");
	relay_shard_set(x.shard, W, 0, 1, w, 8);
	w[0] = 9;
	relay_shard_set(x.shard, W, 0, 0, w, 7);
	ok(shard_pull(x.shard, W, 0, 1, out, &version) == SHARD_OK && out[0] == 1 && version == 8,
	    "what comes late changes nothing");
	world_close(&x);
}

static void rows(void)
{
	struct world x;
	uint64_t ids[3] = { 5, 0, 0 }, wanted[3], version;
	uint32_t part;
	float w[3 * COLS] = { 1, 2, 3, 4, 5, 6 }, out[3 * COLS];
	struct receipt r;
	uint8_t *p = (uint8_t *)ids;

	open_relay(&x, 2);
	part = part_of(&x, 5);
	for (uint64_t id = 6, k = 1; k < 3; id++)
		if (part_of(&x, id) == part)
			ids[k++] = id;
	ok(lacks(&x, part, 0, ids, 2, wanted) == 2 && wanted[1] == ids[1], "rows are asked for");
	ok(lacks(&x, part, 0, ids, 3, wanted) == 1 && wanted[0] == ids[2], "each once");
	relay_shard_set_rows(x.shard, ROWS, part, 0, ids, 2, w, 3);
	ok(shard_pull_rows(x.shard, ROWS, part, 0, p, 2, out, &version) == SHARD_OK &&
	        memcmp(out, w, 2 * COLS * 4) == 0 && version == 3,
	    "and shown");
	ok(shard_pull_rows(x.shard, ROWS, part, 0, p, 3, out, &version) == SHARD_WAIT,
	    "when all are here");
	ok(lacks(&x, part, 1, ids, 3, wanted) == 3 &&
	        shard_pull_rows(x.shard, ROWS, part, 1, p, 2, out, &version) == SHARD_WAIT,
	    "of the next step they are others");
	relay_shard_set_rows(x.shard, ROWS, part, 0, ids + 2, 1, w, 3);
	ok(shard_pull_rows(x.shard, ROWS, part, 0, p + 16, 1, out, &version) == SHARD_OK,
	    "one who asked before has his answer");
	push_row(&x, 0, 0, 10, 5, 1, &r);
	push_row(&x, 1, 0, 30, 5, 2, &r);
	ok(sums(&x, ROWS, part, 1)->b.nrows == 1 && value(sums(&x, ROWS, part, 2), 0) == 70 &&
	        value(sums(&x, ROWS, part, 3), 1) == 140,
	    "rows are summed");
	world_close(&x);
}

/* A hostile worker asks for any rows: what is kept of them has a bound, and an end. */
static void bounded(void)
{
	enum { MANY = 20000, BATCH = 50 };
	const uint64_t limit = 256 << 10, each = (COLS + 6) * 4;
	uint64_t *ids = calloc(MANY, sizeof *ids), others[BATCH], out[BATCH];
	float w[BATCH * COLS] = { 0 };
	uint32_t n = 0, nothers = 0, taken = 0, other = UINT32_MAX;
	struct world x;
	int k = 0;

	open_limited(&x, 2, limit);
	for (uint64_t id = 0; n < MANY; id++) {
		if (part_of(&x, id) == part_of(&x, 0)) {
			ids[n++] = id;
		} else if (nothers < BATCH && (!nothers || part_of(&x, id) == other)) {
			other = part_of(&x, id);
			others[nothers++] = id;
		}
	}
	for (uint32_t at = 0; at < MANY && k >= 0; at += BATCH) {
		k = lacks(&x, part_of(&x, 0), 0, ids + at, BATCH, out);
		taken += k > 0 ? (uint32_t)k : 0;
		if (k > 0)
			relay_shard_set_rows(x.shard, ROWS, part_of(&x, 0), 0, out, (uint32_t)k, w,
			    1);
	}
	ok(k == -1 && taken * each <= limit && taken * each > limit / 4,
	    "with a limit no more rows are kept: %u of %u", taken, MANY);
	ok(lacks(&x, part_of(&x, 0), 0, ids, BATCH, out) == 0,
	    "those that are here are shown all the same");
	ok(nothers == BATCH && lacks(&x, other, 0, others, BATCH, out) == -1,
	    "other partitions have no room of their own");
	ok(lacks(&x, other, 1, others, BATCH, out) == BATCH, "the next step has the room again");
	ok(lacks(&x, part_of(&x, 0), 1, ids, BATCH, out) == BATCH, "for all of them");
	world_close(&x);
	free(ids);
}

/* Of ranks 0 and 1, given to relay 777, with 4 examples each; g: N floats. */
static void sum_of_two(struct world *x, uint8_t *buf, const float *g)
{
	sum_body_put_head(buf, 2, 0);
	for (uint32_t i = 0; i < 2; i++) {
		shard_set_relay(x->shard, i, 777, inc_of(i));
		sum_put_contributor(buf + SUM_HEAD_BYTES + i * SUM_CONTRIBUTOR_BYTES,
		    &(struct sum_contributor){ i, 4, inc_of(i) });
	}
	memcpy(buf + sum_body_head_bytes(2), g, N * sizeof *g);
}

static void from_relays(void)
{
	struct world x;
	_Alignas(8) uint8_t buf[256];
	struct sum sum = { .relay = 777, .table = W };
	struct receipt r;
	float g[N] = { 8, 8, 8, 8 };
	struct out *o;

	open_relay(&x, 3);
	sum_of_two(&x, buf, g);
	ok(sum_body_parse(buf, sum_body_head_bytes(2) + sizeof g, 0, &sum.body) &&
	        shard_push_sum(x.shard, &sum, &r) == SHARD_OK && r.status == PUSH_MERGED &&
	        r.due.steps == 1 && !is_safe(&x, &r),
	    "a sum of another relay is taken");
	push_w(&x, 2, 0, 2, 3, &r);
	o = sums(&x, W, 0, 1);
	ok(o->b.n == 3 && value(o, 0) == 14 && sum_contributor(&o->b, 0).examples == 4 &&
	        sum_contributor(&o->b, 2).examples == 2,
	    "and goes up with the others, who stay who they are");
	relay_shard_answered(x.shard, W, 0, o->seq, PUSH_SPLIT);
	ok(outcome_of(x.shard, W, 0, 0, PUSH_MERGED).status == PUSH_SPLIT,
	    "what is split above is split below");
	world_close(&x);
}

/* A sum that shares a push with what was taken already: its pushes go alone, and nobody
 * here waits for them, whatever their CLOCKs say. */
static void from_two_ways(void)
{
	struct world x;
	_Alignas(8) uint8_t buf[256];
	struct sum sum = { .relay = 777, .table = W };
	struct receipt r;
	float g[N] = { 8, 8, 8, 8 };

	open_relay(&x, 3);
	for (uint32_t i = 0; i < 3; i++)
		shard_expect(x.shard, i, inc_of(i), 0, W, 0, 1);
	push_w(&x, 0, 0, 2, 3, &r);
	sum_of_two(&x, buf, g);
	ok(!relay_shard_goes_alone(x.shard, W, 0, 0, 0) &&
	        !relay_shard_goes_alone(x.shard, W, 0, 1, 0) && !relay_shard_alone_count(x.shard),
	    "a push in an open sum goes with it, and so does one that may come");
	ok(sum_body_parse(buf, sum_body_head_bytes(2) + sizeof g, 0, &sum.body) &&
	        shard_push_sum(x.shard, &sum, &r) == SHARD_OK && r.status == PUSH_SPLIT,
	    "a sum of which a part was taken is split");
	ok(forwarded == 2 && sums(&x, W, 0, 1)->b.n == 1,
	    "what was taken goes up without the rest, which is told");
	push_w(&x, 2, 0, 2, 3, &r);
	ok(r.status == PUSH_SPLIT, "so does who comes after");
	for (uint32_t i = 0; i < 3; i++)
		clock_of(&x, i, 0, 2);
	ok(shard_closed(x.shard) == 1, "the step is over though CLOCKs told of all three");
	ok(!relay_shard_goes_alone(x.shard, W, 0, 0, 0) &&
	        relay_shard_goes_alone(x.shard, W, 0, 1, 0) && relay_shard_alone_count(x.shard),
	    "of a sum that has no answer something is to come, but not of who was too late for it");
	relay_shard_answered(x.shard, W, 0, sums(&x, W, 0, 2)->seq, PUSH_SPLIT);
	ok(relay_shard_goes_alone(x.shard, W, 0, 0, 0) &&
	        !relay_shard_goes_alone(x.shard, W, 0, 0, 1) &&
	        !relay_shard_goes_alone(x.shard, W, 99, 0, 0),
	    "with any answer it has gone");
	world_close(&x);
}

/* A relay below has said that a push comes with its sum, and says then that it comes alone. */
static void disowned(void)
{
	struct world x;
	struct receipt r;

	open_relay(&x, 2);
	for (uint32_t i = 0; i < 2; i++) {
		shard_expect(x.shard, i, inc_of(i), 0, W, 0, 1);
		clock_of(&x, i, 0, 2);
	}
	push_w(&x, 0, 0, 2, 3, &r);
	ok(shard_closed(x.shard) == 0 && !forwarded, "a push that was announced is waited for");
	ok(!shard_withdraw(x.shard, 1, inc_of(1), 1, W, 0, 1) &&
	        !shard_withdraw(x.shard, 1, 900, 0, W, 0, 1),
	    "whatever is said of another step, or by somebody else");
	ok(shard_withdraw(x.shard, 1, inc_of(1), 0, W, 0, 1) &&
	        !shard_withdraw(x.shard, 1, inc_of(1), 0, W, 0, 1),
	    "until it is told to come another way");
	shard_advance(x.shard);
	ok(shard_closed(x.shard) == 1 && forwarded == 1 && sums(&x, W, 0, 1)->b.n == 1,
	    "the sum goes up without it");
	world_close(&x);
}

static void half_counted(void)
{
	struct world x;
	struct receipt a, b;
	uint32_t part;

	open_relay(&x, 2);
	part = part_of(&x, 5);
	push_counted(&x, 0, 0, 10, 5, 1, 3, &a);
	push_counted(&x, 1, 0, 10, 5, 1, 4, &b);
	ok(sums(&x, ROWS, part, 1)->n == 1 && get_le32(sums(&x, ROWS, part, 2)->b.touching) == 7,
	    "a sum of pushes that count examples counts them");
	relay_shard_answered(x.shard, ROWS, part, sums(&x, ROWS, part, 3)->seq, PUSH_MERGED);
	push_counted(&x, 0, 1, 10, 5, 1, 3, &a);
	push_row(&x, 1, 1, 10, 5, 1, &b);
	ok(sums(&x, ROWS, part, 4)->n == 0 &&
	        outcome_of(x.shard, ROWS, part, 1, PUSH_MERGED).status == PUSH_SPLIT,
	    "where only some do, each goes alone");
	world_close(&x);
}

/* Servers answer sums in any order: one that they do not take is answered at once, one that they take
 * when all replicas have it. */
static void answered_later(void)
{
	struct receipt r[2];
	struct world x;
	struct out *o;
	uint64_t alone;
	uint32_t part;

	open_relay(&x, 1);
	part = part_of(&x, 5);
	for (uint64_t step = 0; step < 2; step++) {
		push_row(&x, 0, step, 10, 5, 1, &r[step]);
		clock_of(&x, 0, step, 10);
	}
	o = sums(&x, ROWS, part, 1);
	ok(o->n == 2 && o->step == 1, "two sums of rows are under way");
	alone = relay_shard_alone_count(x.shard);
	relay_shard_answered(x.shard, ROWS, part, o->seq, PUSH_SPLIT);
	ok(relay_shard_alone_count(x.shard) > alone &&
	        relay_shard_goes_alone(x.shard, ROWS, part, 0, 1),
	    "the later one is not taken: the relay above is told that its pushes go alone");
	alone = relay_shard_alone_count(x.shard);
	ok(!is_safe(&x, &r[0]) && sums(&x, ROWS, part, 2)->n == 1,
	    "the later one is answered, and only the first one is still to be sent again");
	relay_shard_answered(x.shard, ROWS, part, o->seq, PUSH_MERGED);
	ok(relay_shard_alone_count(x.shard) == alone, "that of a sum that is taken is not told");
	ok(is_safe(&x, &r[0]) && is_safe(&x, &r[1]) &&
	        outcome_of(x.shard, ROWS, part, 0, PUSH_MERGED).status == PUSH_MERGED &&
	        outcome_of(x.shard, ROWS, part, 1, PUSH_MERGED).status == PUSH_SPLIT,
	    "then the first one, and both pushes can be answered");
	world_close(&x);
}

int main(void)
{
	absurd_step();
	one_step();
	answered_later();
	split();
	no_room();
	clocks();
	order();
	values();
	rows();
	bounded();
	from_relays();
	from_two_ways();
	disowned();
	half_counted();
	return tap_done();
}

/* SPDX-License-Identifier: ISC */
/* Pushes that a relay has summed, at the server: taken whole or not at all, whoever
 * else has pushed; and what is none of them. */
#include <math.h>

#include "core/endian.h"
#include "shard_fixture.h"
#include "wire/payload.h"

enum { RELAY = 777, OTHER = 778 };

/* A sum of these contributors: body in `buf`, of n floats (0: none). */
static size_t make(uint8_t *buf, const struct sum_contributor *who, uint32_t n, uint64_t id,
    uint32_t nrows, const float *x, size_t floats)
{
	size_t at = sum_body_head_bytes(n);

	sum_body_put_head(buf, n, nrows);
	for (uint32_t i = 0; i < n; i++)
		sum_put_contributor(buf + SUM_HEAD_BYTES + i * SUM_CONTRIBUTOR_BYTES, &who[i]);
	if (nrows)
		put_le64(buf + at, id);
	at += nrows * 8;
	if (floats)
		memcpy(buf + at, x, floats * 4);
	return at + floats * 4;
}

static enum shard_answer send_sum(struct world *x, uint64_t relay, uint64_t step,
    const struct sum_contributor *who, uint32_t n, float value, struct receipt *r)
{
	_Alignas(8) uint8_t buf[512];
	float g[N] = { value, value, value, value };
	struct sum sum = { .relay = relay, .step = step, .table = W };
	size_t len = make(buf, who, n, 0, 0, g, isinf(value) && value < 0 ? 0 : N);

	*r = (struct receipt){ 0 };
	return sum_body_parse(buf, len, 0, &sum.body) ? shard_push_sum(x->shard, &sum, r)
	                                              : SHARD_BAD;
}

static void open_world(struct world *x, uint32_t ranks)
{
	world_open(x, "bsp", false, "sgd", 1, ranks);
	for (uint32_t i = 0; i < ranks; i++)
		shard_set_relay(x->shard, i, RELAY, inc_of(i));
}

#define WHO(rank, examples) \
	{ \
		rank, examples, inc_of(rank) \
	}

static void is_a_step(void)
{
	struct world x;
	struct receipt r;
	const struct sum_contributor both[] = { WHO(0, 10), WHO(1, 30) };

	open_world(&x, 3);
	ok(send_sum(&x, RELAY, 0, both, 2, 10 * 1 + 30 * 2, &r) == SHARD_OK &&
	        r.status == PUSH_MERGED && r.due.steps == 1,
	    "a sum of two is merged, and promised with its step");
	clock_of(&x, 0, 0, 10);
	clock_of(&x, 1, 0, 30);
	ok(shard_closed(x.shard) == 0 && pull_w(&x, SYNC_NEVER) == 0,
	    "the third rank is waited for");
	push_w(&x, 2, 0, 60, 4, &r);
	clock_of(&x, 2, 0, 60);
	ok(fabsf(pull_w(&x, 1) + 3.1f) < 1e-6f,
	    "with a push of the third the mean is that of three: %.7f", (double)pull_w(&x, 1));
	ok(send_sum(&x, RELAY, 0, both, 2, 70, &r) == SHARD_OK && r.status == PUSH_DUPLICATE &&
	        r.due.steps == 1 && pull_w(&x, 1) == pull_w(&x, SYNC_NEVER),
	    "the same sum again is a duplicate");
	ok(push_w(&x, 1, 0, 30, 2, &r) == SHARD_OK && r.status == PUSH_DUPLICATE,
	    "so is each of its pushes");
	ok(send_sum(&x, RELAY, 2, both, 2, 70, &r) == SHARD_WAIT,
	    "a sum of a step that is not open yet waits");
	world_close(&x);
}

static void overlaps(void)
{
	struct world x;
	struct receipt r;
	const struct sum_contributor both[] = { WHO(0, 10), WHO(1, 30) }, late[] = { WHO(2, 5) };
	struct shard_stats st;

	open_world(&x, 3);
	push_w(&x, 1, 0, 30, 2, &r);
	ok(send_sum(&x, RELAY, 0, both, 2, 70, &r) == SHARD_OK && r.status == PUSH_SPLIT &&
	        r.due.steps == 0,
	    "a sum with a push that was taken by itself is split");
	ok(push_w(&x, 0, 0, 10, 1, &r) == SHARD_OK && r.status == PUSH_MERGED,
	    "and nothing of it was taken: the other push is");
	clock_of(&x, 0, 0, 10);
	clock_of(&x, 1, 0, 30);
	clock_of(&x, 2, 0, 0);
	ok(fabsf(pull_w(&x, 1) + 70.0f / 40) < 1e-6f, "each counts once");
	ok(send_sum(&x, RELAY, 0, late, 1, 1, &r) == SHARD_OK && r.status == PUSH_SPLIT,
	    "of a step that is closed it is split: its sender hears that it is late");
	shard_stats(x.shard, &st);
	ok(st.status[PUSH_SPLIT] == 2 && st.status[PUSH_MERGED] == 2, "split ones are counted");
	world_close(&x);
}

static void whose(void)
{
	struct world x;
	struct receipt r;
	const struct sum_contributor both[] = { WHO(0, 10), WHO(1, 30) };
	struct sum_contributor old[] = { WHO(0, 10), WHO(1, 30) };

	open_world(&x, 2);
	old[1].incarnation++;
	ok(send_sum(&x, RELAY, 0, old, 2, 70, &r) == SHARD_OK && r.status == PUSH_SPLIT,
	    "with one of another incarnation it is split");
	ok(send_sum(&x, OTHER, 0, both, 2, 70, &r) == SHARD_OK && r.status == PUSH_SPLIT,
	    "so it is of a relay that was given none of them");
	ok(send_sum(&x, 0, 0, both, 2, 70, &r) == SHARD_OK && r.status == PUSH_SPLIT,
	    "or of no relay at all");
	shard_set_relay(x.shard, 1, OTHER, inc_of(1));
	ok(send_sum(&x, RELAY, 0, both, 2, 70, &r) == SHARD_OK && r.status == PUSH_SPLIT,
	    "or of one that was given only the other");
	shard_set_relay(x.shard, 1, RELAY, inc_of(1));
	ok(shard_relay_may_push(x.shard, RELAY, 1, inc_of(1)) == SHARD_OK &&
	        shard_relay_may_push(x.shard, RELAY, 9, inc_of(9)) == SHARD_FENCED &&
	        shard_relay_may_push(x.shard, OTHER, 1, inc_of(1)) == SHARD_FENCED,
	    "a relay speaks for what it was given");
	/* A rank that is taken over: the new holder is the relay's before it is in. */
	shard_set_relay(x.shard, 1, RELAY, 900);
	old[1].incarnation = 900;
	ok(send_sum(&x, RELAY, 0, old, 2, 70, &r) == SHARD_WAIT &&
	        shard_relay_may_push(x.shard, RELAY, 1, 900) == SHARD_WAIT,
	    "the pushes of a holder that is not in yet wait");
	dismiss(x.shard, 1, 0);
	admit(x.shard, 1, 900, 0);
	ok(send_sum(&x, RELAY, 0, old, 2, 70, &r) == SHARD_OK && r.status == PUSH_MERGED,
	    "until it is");
	dismiss(x.shard, 1, 1);
	shard_set_relay(x.shard, 1, 0, 0);
	ok(send_sum(&x, RELAY, 1, old, 2, 70, &r) == SHARD_OK && r.status == PUSH_SPLIT &&
	        push_w(&x, 0, 1, 10, 1, &r) == SHARD_OK && r.status == PUSH_MERGED,
	    "of one that is lost the others go alone");
	world_close(&x);
}

static void votes(void)
{
	struct world x;
	struct receipt r;
	const struct sum_contributor both[] = { WHO(0, 10), WHO(1, 30) };
	struct shard_vote v;

	open_world(&x, 2);
	send_sum(&x, RELAY, 0, both, 2, 40, &r);
	v = shard_vote(x.shard, 2, 555, 0, false);
	ok(!v.yes && v.first_free == 1, "a step of which a sum was taken cannot be changed");
	v = shard_vote(x.shard, 2, 555, 1, false);
	clock_of(&x, 0, 0, 10);
	clock_of(&x, 1, 0, 30);
	ok(v.yes && send_sum(&x, RELAY, 1, both, 2, 40, &r) == SHARD_WAIT,
	    "a sum of a step under vote waits");
	shard_end_vote(x.shard);
	ok(send_sum(&x, RELAY, 1, both, 2, 40, &r) == SHARD_OK && r.status == PUSH_MERGED,
	    "and goes on with the decision");
	world_close(&x);
}

static void refused_in_it(void)
{
	struct world x;
	struct receipt r;
	const struct sum_contributor one[] = { WHO(0, 0), WHO(1, 30) },
	                             none[] = { WHO(0, 0), WHO(1, 0) };

	open_world(&x, 2);
	ok(send_sum(&x, RELAY, 0, one, 2, NAN, &r) == SHARD_OK && r.status == PUSH_SPLIT,
	    "NaN splits the sum");
	ok(send_sum(&x, RELAY, 0, one, 2, INFINITY, &r) == SHARD_OK && r.status == PUSH_SPLIT,
	    "so does infinity");
	ok(send_sum(&x, RELAY, 0, one, 2, 30 * 2, &r) == SHARD_OK && r.status == PUSH_MERGED,
	    "a push that the relay refused has no examples");
	clock_of(&x, 0, 0, 10);
	clock_of(&x, 1, 0, 30);
	ok(pull_w(&x, 1) == -2, "and no part in the mean");
	ok(send_sum(&x, RELAY, 1, none, 2, -INFINITY, &r) == SHARD_OK && r.status == PUSH_MERGED,
	    "all refused: a sum of nothing");
	clock_of(&x, 0, 1, 10);
	clock_of(&x, 1, 1, 30);
	ok(shard_closed(x.shard) == 2 && pull_w(&x, 2) == -2,
	    "which ends the step without an update");
	world_close(&x);
}

static void claimed(void)
{
	struct world x;
	struct receipt r;
	const struct sum_contributor both[] = { WHO(0, 10), WHO(1, 10) };

	open_world(&x, 2);
	for (uint32_t i = 0; i < 2; i++) {
		shard_expect(x.shard, i, inc_of(i), 0, W, 0, 1);
		clock_of(&x, i, 0, 10);
	}
	ok(shard_closed(x.shard) == 0, "a step waits for a sum that the CLOCKs have announced");
	send_sum(&x, RELAY, 0, both, 2, 20, &r);
	ok(shard_closed(x.shard) == 1 && pull_w(&x, 1) == -1, "and is closed by it");
	world_close(&x);
}

static void rows(void)
{
	_Alignas(8) uint8_t buf[512];
	struct world x;
	struct receipt r;
	const struct sum_contributor both[] = { WHO(0, 10), WHO(1, 30) };
	struct sum sum = { .relay = RELAY, .table = ROWS };
	float g[COLS] = { 40, 80 }, before;
	size_t len;

	open_world(&x, 2);
	before = pull_row(&x, SYNC_NEVER, 5);
	sum.part = part_of(&x, 5);
	len = make(buf, both, 2, 5, 1, g, COLS);
	ok(sum_body_parse(buf, len, COLS, &sum.body) &&
	        shard_push_sum(x.shard, &sum, &r) == SHARD_OK && r.status == PUSH_MERGED,
	    "rows that were summed are merged");
	clock_of(&x, 0, 0, 10);
	clock_of(&x, 1, 0, 30);
	ok(fabsf(pull_row(&x, 1, 5) - (before - 1)) < 1e-6f, "as a mean over all examples");
	ok(shard_push_sum(x.shard, &sum, &r) == SHARD_OK && r.status == PUSH_DUPLICATE, "once");
	world_close(&x);
}

static void wrong_modes(void)
{
	static const struct {
		const char *mode;
		bool deterministic;
		unsigned backup;
	} m[] = { { "ssp:1", false, 0 }, { "asp", false, 0 }, { "bsp", true, 0 },
		{ "bsp", false, 1 } };
	const struct sum_contributor one[] = { WHO(0, 10) };
	struct receipt r;

	for (unsigned i = 0; i < 4; i++) {
		struct world x;

		world_open_with(&x, m[i].mode, m[i].deterministic, "sgd", 1, 2, m[i].backup, false);
		shard_set_relay(x.shard, 0, RELAY, inc_of(0));
		ok(send_sum(&x, RELAY, 0, one, 1, 10, &r) == SHARD_BAD, "no sums in %s%s%s",
		    m[i].mode, m[i].deterministic ? ", deterministic" : "",
		    m[i].backup ? ", with backup ranks" : "");
		world_close(&x);
	}
}

/* ---- bodies ---- */

static void hostile(void)
{
	_Alignas(8) uint8_t buf[512];
	struct sum_contributor who[] = { WHO(0, 1), WHO(1, 1), WHO(5, 1) };
	struct sum_body b;
	float g[N] = { 0 };
	size_t len = make(buf, who, 3, 0, 0, g, N), cut = 0;
	struct world x;
	struct receipt r;
	struct sum sum = { .relay = RELAY, .table = W };

	ok(sum_body_parse(buf, len, 0, &b) && b.n == 3 && b.len == sizeof g &&
	        sum_contributor(&b, 2).rank == 5,
	    "a sum is read");
	for (size_t n = 0; n < sum_body_head_bytes(3); n++)
		cut += sum_body_parse(buf, n, 0, &b);
	ok(cut == 0, "none that is cut off within its head");
	put_le32(buf, 0);
	ok(!sum_body_parse(buf, len, 0, &b), "nor one of nobody");
	put_le32(buf, UINT32_MAX);
	ok(!sum_body_parse(buf, len, 0, &b), "nor of more than there can be");
	put_le32(buf, 3);
	put_le32(buf + 4, 1);
	ok(!sum_body_parse(buf, len, 0, &b), "nor rows of a dense table");
	put_le32(buf + 4, UINT32_MAX);
	ok(!sum_body_parse(buf, len, COLS, &b), "nor more rows than bytes");
	who[2].rank = 1;
	len = make(buf, who, 3, 0, 0, g, N);
	ok(!sum_body_parse(buf, len, 0, &b), "nor a rank twice");
	who[2].rank = SUM_CONTRIBUTORS_MAX;
	make(buf, who, 3, 0, 0, g, N);
	ok(!sum_body_parse(buf, len, 0, &b), "nor a rank that cannot be");
	len = make(buf, who, 1, 9, 1, g, COLS);
	ok(sum_body_parse(buf, len, COLS, &b) && !sum_body_parse(buf, len - 4, COLS, &b) &&
	        !sum_body_parse(buf, len + 8, COLS, &b),
	    "nor rows of another width");
	put_le32(buf + len, 70000);
	ok(sum_body_parse(buf, len + PAYLOAD_COUNT_BYTES, COLS, &b) && b.len == COLS * sizeof *g &&
	        get_le32(b.touching) == 70000 && sum_body_parse(buf, len, COLS, &b) && !b.touching,
	    "a sum may say how many examples touch each row");
	open_world(&x, 2);
	len = make(buf, who, 1, 0, 0, g, N - 1);
	ok(sum_body_parse(buf, len, 0, &sum.body) && shard_push_sum(x.shard, &sum, &r) == SHARD_BAD,
	    "nor a partition of another size");
	sum.part = 99;
	ok(shard_push_sum(x.shard, &sum, &r) == SHARD_BAD, "nor one that there is not");
	world_close(&x);
}

static void clocks(void)
{
	struct buf runs = BUF_INIT, b = BUF_INIT;
	struct rank_clock c;
	size_t at = 0, bad_cuts = 0;
	bool bad;

	payload_encode_run(buf_reserve(&runs, PAYLOAD_RUN_BYTES),
	    &(struct payload_run){ 1, 0, 7, false });
	buf_commit(&runs, PAYLOAD_RUN_BYTES);
	sum_body_clocks_put(&b,
	    &(struct rank_clock){ .rank = 3,
	        .examples = 64,
	        .incarnation = 9,
	        .step = 5,
	        .clocks = true,
	        .runs = runs.data,
	        .len = runs.len });
	sum_body_clocks_put(&b, &(struct rank_clock){ .rank = 4, .incarnation = 8, .done = true });
	ok(sum_body_clocks_next(b.data, b.len, &at, &c, &bad) && c.rank == 3 && c.examples == 64 &&
	        c.incarnation == 9 && c.step == 5 && c.clocks && !c.done &&
	        c.len == PAYLOAD_RUN_BYTES && memcmp(c.runs, runs.data, runs.len) == 0,
	    "a rank's clock is read");
	ok(sum_body_clocks_next(b.data, b.len, &at, &c, &bad) && c.rank == 4 && c.done &&
	        !c.clocks && !c.len && !sum_body_clocks_next(b.data, b.len, &at, &c, &bad) && !bad,
	    "and the next, which is done, and the end");
	for (size_t n = 1; n < b.len; n++) {
		at = 0;
		while (sum_body_clocks_next(b.data, n, &at, &c, &bad))
			;
		bad_cuts += bad;
	}
	ok(bad_cuts == b.len - 1 - 1, "what is cut off is none: %zu of %zu", bad_cuts, b.len - 1);
	put_le32(b.data + 28, UINT32_MAX);
	at = 0;
	ok(!sum_body_clocks_next(b.data, b.len, &at, &c, &bad) && bad,
	    "nor what says to be longer than it is");
	put_le32(b.data + 28, PAYLOAD_RUN_BYTES - 1);
	ok(!sum_body_clocks_next(b.data, b.len, &at, &c, &bad) && bad, "nor with what is no run");
	put_le32(b.data + 28, PAYLOAD_RUN_BYTES);
	put_le32(b.data + 24, 8);
	ok(!sum_body_clocks_next(b.data, b.len, &at, &c, &bad) && bad,
	    "nor of a kind that there is not");
	buf_release(&runs);
	buf_release(&b);
}

/* A peer says of itself which incarnation it is. */
static void nobodys_rank(void)
{
	struct world x;

	world_open(&x, "bsp", false, "sgd", 1, 2);
	shard_expect(x.shard, 0xfffffff0, 0, 0, W, 0, 1);
	shard_set_relay(x.shard, 5, 777, 3);
	ok(!shard_incarnation_holds(x.shard, 0xfffffff0, 0) &&
	        !shard_incarnation_holds(x.shard, 5, 0) &&
	        shard_clock(x.shard, 5, 0, 0, 1) == SHARD_FENCED,
	    "a rank that nobody has held is not incarnation 0's");
	dismiss(x.shard, 1, 0);
	ok(!shard_incarnation_holds(x.shard, 1, UINT64_MAX) &&
	        shard_clock(x.shard, 1, UINT64_MAX, 0, 1) == SHARD_FENCED,
	    "nor is one that has been given up anybody's");
	world_close(&x);
}

/* A sum of 40 examples that counts none, and a push of 10 of which 3 touch the row. */
static void half_counted(void)
{
	const struct sum_contributor both[] = { WHO(0, 10), WHO(1, 30) };
	_Alignas(8) uint8_t buf[512];
	float g[COLS] = { 0 }, was, is;
	struct sum sum = { .relay = RELAY, .table = ROWS };
	struct receipt r;
	struct world x;
	size_t len;

	fixture_l2 = 0.5f;
	open_world(&x, 3);
	fixture_l2 = 0;
	was = pull_row(&x, SYNC_NEVER, 5);
	sum.part = part_of(&x, 5);
	len = make(buf, both, 2, 5, 1, g, COLS);
	push_counted(&x, 2, 0, 10, 5, 0, 3, &r);
	ok(sum_body_parse(buf, len, COLS, &sum.body) &&
	        shard_push_sum(x.shard, &sum, &r) == SHARD_OK && r.status == PUSH_MERGED,
	    "a sum that counts none comes to a push that does");
	clock_of(&x, 0, 0, 10);
	clock_of(&x, 1, 0, 30);
	clock_of(&x, 2, 0, 10);
	is = pull_row(&x, 1, 5);
	ok(fabsf(is / was - (1 - 0.5f * 43 / 50)) < 1e-6f,
	    "and all its examples touch the row: %.7f", (double)(is / was));
	world_close(&x);
}

/* Each push of rows is to be an update of its own, which a sum is not. */
static void rows_on_arrival(void)
{
	const struct sum_contributor both[] = { WHO(0, 10), WHO(1, 30) };
	_Alignas(8) uint8_t buf[512];
	float g[COLS] = { 40, 80 }, before;
	struct sum sum = { .relay = RELAY, .table = ROWS };
	struct receipt r;
	struct world x;
	size_t len;

	world_open(&x, "bsp rows", false, "sgd", 1, 2);
	for (uint32_t i = 0; i < 2; i++)
		shard_set_relay(x.shard, i, RELAY, inc_of(i));
	before = pull_row(&x, SYNC_NEVER, 5);
	sum.part = part_of(&x, 5);
	len = make(buf, both, 2, 5, 1, g, COLS);
	ok(sum_body_parse(buf, len, COLS, &sum.body) &&
	        shard_push_sum(x.shard, &sum, &r) == SHARD_OK && r.status == PUSH_SPLIT &&
	        pull_row(&x, SYNC_NEVER, 5) == before,
	    "a sum for a table whose pushes are applied on arrival is split");
	ok(push_row(&x, 0, 0, 10, 5, 1, &r) == SHARD_OK && r.status == PUSH_APPLIED &&
	        push_row(&x, 1, 0, 30, 5, 1, &r) == SHARD_OK && r.status == PUSH_APPLIED,
	    "and its pushes are taken one by one");
	world_close(&x);
}

int main(void)
{
	is_a_step();
	overlaps();
	whose();
	votes();
	refused_in_it();
	claimed();
	rows();
	wrong_modes();
	hostile();
	clocks();
	nobodys_rank();
	half_counted();
	rows_on_arrival();
	return tap_done();
}

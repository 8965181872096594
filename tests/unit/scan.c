/* SPDX-License-Identifier: ISC */
/* Scans of a sparse partition: which rows a piece has, and how many rows it looks at for them. */
#include "core/rng.h"
#include "shard_fixture.h"

enum { MANY = 40000, PIECE = 700 };

static struct rng rng;
/* The ids of partition 0, and the step of the last update of each row plus 1; 0: it has no row. */
static uint64_t id[MANY], last[MANY];

static void open_world(struct world *x, const char *policy)
{
	if (row_policy_parse(policy, &fixture_policy, NULL))
		abort();
	world_open(x, "bsp", false, "sgd", 1, 1);
	fixture_policy = (struct row_policy){ 0 };
	memset(last, 0, sizeof last);
	for (uint64_t i = 0, next = 0; i < MANY; next++)
		if (part_of(x, next * 7) == 0)
			id[i++] = next * 7;
}

/* One step that updates n rows, from row `first` on. */
static void update(struct world *x, uint64_t step, size_t first, size_t n)
{
	static float g[MANY * COLS];
	struct receipt r;

	for (size_t i = first; i < first + n; i++)
		last[i] = step + 1;
	if (push_rows(x, 0, 0, step, 10, id + first, g, (uint32_t)n, &r) ||
	    r.status != PUSH_MERGED || clock_of(x, 0, step, 10))
		abort();
}

/* All scans use this window, if it is set. */
static struct scan_window *window;

/* Scans in pieces and compares with `last`. *begin gets the cost of the first piece, *most the highest cost
 * of a later one. */
static bool scan_is_right(struct world *x, bool changed, uint64_t since, uint64_t *begin,
    uint64_t *most)
{
	static uint8_t ids[PIECE * 8];
	static float values[PIECE * COLS];
	static uint64_t request;
	struct scan scan = { .window = window,
		.begin = true,
		.changed = changed,
		.since = since,
		.ids = ids,
		.out = values };
	size_t next = 0;
	bool good = true;

	*most = 0;
	do {
		scan.n = PIECE;
		scan.request = ++request;
		good &= shard_scan(x->shard, ROWS, 0, &scan) == SHARD_OK && scan.n <= PIECE &&
		    (scan.n || !scan.more);
		for (uint32_t i = 0; good && i < scan.n; i++) {
			float want[COLS];
			uint64_t version;

			while (next < MANY && (!last[next] || (changed && last[next] <= since)))
				next++;
			good = next < MANY && get_le64(ids + i * 8) == id[next] &&
			    !shard_pull_rows(x->shard, ROWS, 0, SYNC_NEVER,
			        (const uint8_t *)&id[next], 1, want, &version) &&
			    memcmp(want, values + i * COLS, sizeof want) == 0;
			scan.after = id[next++];
		}
		if (scan.begin)
			*begin = scan.looked_at;
		else if (scan.looked_at > *most)
			*most = scan.looked_at;
		scan.begin = false;
	} while (good && scan.more);
	while (next < MANY && (!last[next] || (changed && last[next] <= since)))
		next++;
	return good && next == MANY;
}

/* The first scan for changes goes over all rows, later ones look at what has changed. */
static void cost(void)
{
	uint64_t step = 0, begin, most;
	struct world x;
	bool good;

	open_world(&x, "changes");
	update(&x, step++, 0, MANY);
	ok(scan_is_right(&x, false, 0, &begin, &most) && begin == MANY && most == MANY,
	    "a scan of all rows goes over them once for each piece");
	update(&x, step++, 100, 3000);
	good = scan_is_right(&x, true, 1, &begin, &most);
	ok(good && begin == MANY + 3000 && most == 3000,
	    "the first scan for changes goes over all rows in its first piece only: %llu, then %llu",
	    (unsigned long long)begin, (unsigned long long)most);
	update(&x, step++, 5000, 20);
	good = scan_is_right(&x, true, 2, &begin, &most);
	ok(good && begin == 20, "a later one looks at the %llu rows that have changed since",
	    (unsigned long long)begin);
	ok(scan_is_right(&x, true, 3, &begin, &most) && begin == 0, "and at none when none has");
	ok(scan_is_right(&x, true, 1, &begin, &most) && begin == 3020 && most == 3020,
	    "changes that were asked for before are still known");
	for (int i = 0; i < 5; i++)
		update(&x, step++, 5000, 20);
	ok(scan_is_right(&x, true, 2, &begin, &most) && begin == 120,
	    "a row that several steps have updated is looked at as often, and is sent once");
	world_close(&x);
}

/* With a window a scan goes over all rows a few times, however many pieces it has. */
static void cost_with_window(void)
{
	struct scan_window w = { 0 };
	uint64_t begin, most, step = 0;
	struct world x;
	bool good = true;

	open_world(&x, "changes");
	window = &w;
	update(&x, step++, 0, MANY);
	good = scan_is_right(&x, false, 0, &begin, &most) && begin == MANY;
	update(&x, step++, 100, 3000);
	good &= scan_is_right(&x, false, 0, &begin, &most) &&
	    scan_is_right(&x, true, 1, &begin, &most) && begin == MANY + 3000;
	ok(good,
	    "a window gives the rows that single pieces give, also where the scan before was of others");
	scan_window_release(&w);
	window = NULL;
	world_close(&x);
}

/* Asks for the next piece of a scan of all rows, ids alone, with the ids after the last one. */
static bool next_piece(struct world *x, struct scan *scan, uint64_t *ids, uint32_t room)
{
	scan->request++;
	scan->ids = (uint8_t *)ids;
	scan->n = room;
	if (shard_scan(x->shard, ROWS, 0, scan) != SHARD_OK)
		return false;
	scan->begin = false;
	scan->after = scan->n ? ids[scan->n - 1] : scan->after;
	return true;
}

/* Rows come and go while a window lasts. */
static void changes_in_window(void)
{
	struct scan_window w = { 0 };
	struct scan scan = { .window = &w, .begin = true };
	uint64_t ids[400], passes = 0, begin, most, gone[MANY];
	uint64_t step;
	struct world x;
	bool good;

	open_world(&x, "changes");
	update(&x, 0, 0, MANY);
	good = scan_is_right(&x, true, 0, &begin, &most) && next_piece(&x, &scan, ids, 400) &&
	    scan.n == 400 && ids[399] == id[399] && scan.more;
	step = scan.step;
	update(&x, 1, 0, 10);
	/* The rest of the first window, and more, except for two rows. */
	for (size_t i = 400, n = 0; i < 12000; i++)
		if (i != 7000 && i != 9000)
			gone[n++] = id[i];
	good &= !shard_remove_rows(x.shard, ROWS, 0, gone, 11598);
	good &= next_piece(&x, &scan, ids, 400) && scan.step >= step && scan.more;
	ok(good && scan.n > 0 && ids[0] == id[7000],
	    "rows that are removed while a window lasts are passed over, and no piece is empty before the last");
	for (size_t i = 1; good && i < scan.n; i++)
		good = ids[i - 1] < ids[i];
	for (size_t seen = 400 + scan.n; good && scan.more; seen += scan.n) {
		good = next_piece(&x, &scan, ids, 400) && scan.n > 0;
		passes += scan.looked_at > 0;
		if (!scan.more)
			good &= ids[scan.n - 1] == id[MANY - 1] && seen + scan.n == MANY - 11598;
	}
	ok(good && passes <= 8, "%llu passes for the rest", (unsigned long long)passes);
	scan_window_release(&w);
	world_close(&x);
}

/* An answer is lost, and the piece is asked for again, as when a client sends its request once more. */
static void answer_is_lost(void)
{
	struct scan_window w = { 0 };
	struct scan scan = { .window = &w, .begin = true }, again;
	uint64_t ids[100], twice[100];
	struct world x;
	bool good;

	open_world(&x, "changes");
	update(&x, 0, 0, MANY);
	good = next_piece(&x, &scan, ids, 100);
	again = (struct scan){ .window = &w, .request = scan.request - 1, .begin = true };
	good &= next_piece(&x, &again, twice, 100) && memcmp(ids, twice, sizeof ids) == 0;
	ok(good, "the first piece has the same rows when it is asked for again");
	scan = again;
	good = next_piece(&x, &scan, ids, 100);
	again.request = scan.request - 1;
	good &= next_piece(&x, &again, twice, 100) && memcmp(ids, twice, sizeof ids) == 0;
	ok(good && ids[0] == id[100], "and so has a later one");
	scan_window_release(&w);
	world_close(&x);
}

/* More changes than the list keeps, at random. */
static void overflow(void)
{
	uint64_t begin, most, step = 0;
	unsigned wrong = 0, whole = 0;
	struct world x;

	open_world(&x, "changes");
	for (; step < 120; step++) {
		size_t n = 1 + (size_t)rng_below(&rng, step % 10 ? 300 : 6000);

		update(&x, step, (size_t)rng_below(&rng, MANY - n), n);
		wrong += !scan_is_right(&x, true, step - rng_below(&rng, step + 1), &begin, &most);
		whole += begin > MANY / 2;
	}
	ok(!wrong && whole > 0 && whole < 100,
	    "%u of 120 scans at random went over all rows; %u were wrong", whole, wrong);
	world_close(&x);
}

/* Rows that were removed are not sent, although their changes are noted. */
static void removed(void)
{
	uint64_t begin, most, keep[2];
	struct world x;

	open_world(&x, "changes");
	update(&x, 0, 0, 1000);
	ok(scan_is_right(&x, true, 0, &begin, &most), "all of them have changed");
	keep[0] = id[3];
	keep[1] = id[900];
	ok(!shard_retain_rows(x.shard, ROWS, 0, keep, 2), "all rows but two are removed");
	for (size_t i = 0; i < 1000; i++)
		last[i] = i == 3 || i == 900 ? last[i] : 0;
	ok(scan_is_right(&x, true, 0, &begin, &most) && begin == 1998,
	    "the two are sent; their updates and the removals are looked at");
	update(&x, 1, 10, 5);
	ok(scan_is_right(&x, true, 0, &begin, &most) && scan_is_right(&x, true, 1, &begin, &most) &&
	        begin == 5,
	    "and so is a row that was made again");
	world_close(&x);
}

/* Asks for the ids that were removed since a step, in pieces. Do they belong to the rows `first` to
 * `end` - 1? */
static bool gone_are(struct world *x, uint64_t since, size_t first, size_t end)
{
	static uint8_t ids[PIECE * 8];
	struct scan scan = { .begin = true, .gone = true, .since = since, .ids = ids };
	bool good = true;

	do {
		scan.n = PIECE;
		good &= shard_scan(x->shard, ROWS, 0, &scan) == SHARD_OK && !scan.forgotten;
		for (uint32_t i = 0; good && i < scan.n; i++)
			good = first < end && get_le64(ids + i * 8) == id[first++];
		scan.after = scan.n ? get_le64(ids + (size_t)(scan.n - 1) * 8) : 0;
		scan.begin = false;
	} while (good && scan.more);
	return good && first == end;
}

static bool gone_are_forgotten(struct world *x, uint64_t since)
{
	uint8_t ids[8];
	struct scan scan = { .begin = true, .gone = true, .since = since, .ids = ids, .n = 1 };

	return shard_scan(x->shard, ROWS, 0, &scan) == SHARD_OK && scan.forgotten && !scan.n &&
	    !scan.more;
}

/* The ids of removed rows are known from the first scan for changes on. */
static void removals(void)
{
	uint64_t begin, most;
	struct world x;

	open_world(&x, "expire=4");
	update(&x, 0, 0, 1000);
	ok(gone_are_forgotten(&x, 0), "before a scan for changes no removals are known");
	ok(scan_is_right(&x, true, 0, &begin, &most) && gone_are(&x, 0, 0, 0),
	    "then they are, and there are none");
	for (uint64_t step = 1; step < 8; step++)
		update(&x, step, 1000, 100);
	ok(gone_are(&x, 1, 0, 1000), "rows that have expired are named, in pieces");
	update(&x, 8, 200, 800);
	ok(gone_are(&x, 1, 0, 200), "rows that were made again are not");
	for (uint64_t step = 9; step < 40; step++)
		update(&x, step, 6000, 3000);
	ok(gone_are_forgotten(&x, 1), "after more changes than the list keeps they are forgotten");
	ok(gone_are(&x, 39, 0, 0), "and later ones are known");
	world_close(&x);
}

/* A read replica removes rows by ids. */
static void removal_by_ids(void)
{
	uint64_t begin, most, some[3];
	struct world x;

	open_world(&x, "changes");
	update(&x, 0, 0, 100);
	if (!scan_is_right(&x, true, 0, &begin, &most))
		abort();
	some[0] = id[7];
	some[1] = id[8];
	some[2] = id[200];
	ok(!shard_remove_rows(x.shard, ROWS, 0, some, 3) && gone_are(&x, 0, 7, 9),
	    "two rows that exist are removed, and are known to its own readers");
	last[7] = last[8] = 0;
	ok(scan_is_right(&x, true, 0, &begin, &most), "the other rows stay");
	world_close(&x);
}

int main(void)
{
	rng_init(&rng, 11);
	cost();
	cost_with_window();
	changes_in_window();
	answer_is_lost();
	overflow();
	removed();
	removals();
	removal_by_ids();
	return tap_done();
}

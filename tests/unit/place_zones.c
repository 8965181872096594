/* SPDX-License-Identifier: ISC */
/* Zones: the copies of a partition lie in different ones where they can. */
#include "place_fixture.h"

/* Runs of which two copies, there or on the way, are in one zone. */
static unsigned together(const struct layout *l, const uint16_t *zone)
{
	unsigned n = 0;

	for (size_t t = 0; t < l->ntables; t++)
		for (size_t k = 0; k < l->table[t].nruns; k++) {
			const struct run *r = &l->table[t].run[k];
			uint16_t who[CHAIN_MAX + 1];
			unsigned c = 0;
			bool same = false;

			for (unsigned i = 0; i < r->nchain; i++)
				if (r->chain[i] != r->leaving)
					who[c++] = r->chain[i];
			if (r->joining != NO_SERVER)
				who[c++] = r->joining;
			for (unsigned i = 0; i < c; i++)
				for (unsigned j = 0; j < i; j++)
					same |= zone[who[i]] == zone[who[j]];
			n += same;
		}
	return n;
}

static void join_all(struct layout *l)
{
	for (unsigned i = 0; i < SERVERS; i++)
		for (unsigned from = 0; from < SERVERS; from++)
			place_copied(l, i, from);
	place_joined(l);
}

static void zones(void)
{
	/* The first four are in one, the others in another. */
	const uint16_t zone[SERVERS] = { 0, 0, 0, 0, 4, 4, 4, 4 },
	               all[SERVERS] = { 0, 1, 2, 3, 4, 5, 6, 7 };
	uint16_t server[SERVERS];
	unsigned without = 0;
	size_t n;

	for (uint64_t seed = 1; seed < 30; seed++) {
		struct world w;
		unsigned first, mended, moved;

		open_world(&w, seed, 8, 2);
		without += together(&w.l, zone);
		layout_release(&w.l);
		memset(&w, 0, sizeof w);
		rng_init(&w.rng, seed);
		for (unsigned i = 0; i < SERVERS; i++)
			w.live[i] = true;
		add(&w, "a", false, PART_ELEMENTS * (9 + rng_below(&w.rng, 40)), 1);
		add(&w, "c", true, 1000 + rng_below(&w.rng, 10000000),
		    1 + (uint32_t)rng_below(&w.rng, 8));
		w.l.zone = zone;
		layout_place(&w.l, all, 8, 2);
		first = together(&w.l, zone);
		w.live[rng_below(&w.rng, SERVERS)] = false;
		n = living(&w, server);
		for (unsigned i = 0; i < SERVERS; i++)
			if (!w.live[i])
				place_drop(&w.l, i);
		place_repair(&w.l, server, n, n, 2);
		mended = together(&w.l, zone);
		join_all(&w.l);
		place_balance(&w.l, server, n, NULL);
		moved = together(&w.l, zone);
		if (first || mended || moved)
			ok(false,
			    "seed %llu: %u runs with both copies in a zone, %u after a loss, %u evened out",
			    (unsigned long long)seed, first, mended, moved);
		layout_release(&w.l);
	}
	ok(without > 0, "without zones the same layouts have %u such runs", without);
	{
		struct world w = { 0 };

		add(&w, "a", false, PART_ELEMENTS * 9, 1);
		w.l.zone = zone;
		layout_place(&w.l, all, 4, 3);
		ok(w.l.table[0].run[0].nchain == 3,
		    "where there is but one zone it has all copies");
		layout_release(&w.l);
	}
}

int main(void)
{
	zones();
	return tap_done();
}

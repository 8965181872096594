/* SPDX-License-Identifier: ISC */
/* Layouts that change while they are in use: what holds of them through any
 * order of losses, returns, moves and ends of moves. */
#include "place_fixture.h"

/* ---- what always holds ---- */

static const char *run_wrong(const struct world *w, const struct run *r)
{
	if (r->nchain > CHAIN_MAX)
		return "a chain is longer than can be";
	for (unsigned i = 0; i < r->nchain; i++) {
		if (!w->live[r->chain[i]])
			return "a dead server is in a chain";
		for (unsigned k = 0; k < i; k++)
			if (r->chain[i] == r->chain[k])
				return "a server is in a chain twice";
	}
	if (r->joining != NO_SERVER &&
	    (!w->live[r->joining] || run_chain_index(r, r->joining) >= 0))
		return "who joins is dead, or there already";
	if (r->leaving != NO_SERVER &&
	    (run_chain_index(r, r->leaving) < 0 || r->joining == NO_SERVER))
		return "who leaves is not there, or goes before another comes";
	return NULL;
}

static const char *world_wrong(const struct world *w)
{
	for (size_t i = 0; i < w->l.ntables; i++) {
		const struct table *t = &w->l.table[i];
		uint32_t at = 0;

		for (size_t k = 0; k < t->nruns; k++) {
			const char *wrong = run_wrong(w, &t->run[k]);

			if (wrong)
				return wrong;
			if (t->run[k].first != at || !t->run[k].count)
				return "runs do not follow one another";
			if (!t->run[k].nchain && !w->lost)
				return "a partition has no copy, and nobody was told";
			at += t->run[k].count;
		}
		if (at != t->nparts)
			return "partitions lie nowhere";
	}
	return NULL;
}

static void look(struct world *w)
{
	if (!w->wrong)
		w->wrong = world_wrong(w);
}

/* ---- what happens ---- */

static void mend(struct world *w)
{
	uint16_t server[SERVERS];
	size_t n = living(w, server);

	while (place_repair(&w->l, server, n, n, w->replicas))
		look(w);
}

static void lose(struct world *w, unsigned i)
{
	uint32_t before = 0, lost;

	for (size_t t = 0; t < w->l.ntables; t++)
		for (size_t k = 0; k < w->l.table[t].nruns; k++) {
			const struct run *r = &w->l.table[t].run[k];

			before += r->nchain == 1 && r->chain[0] == i ? r->count : 0;
		}
	w->live[i] = false;
	lost = place_drop(&w->l, i);
	w->lost |= lost > 0;
	if (lost != before)
		w->wrong = "partitions with another copy are called lost, or others not";
	look(w);
	mend(w);
}

/* Who feeds some run's joining server says that it has its copy. */
static bool end_one(struct world *w)
{
	for (size_t t = 0; t < w->l.ntables; t++)
		for (size_t k = 0; k < w->l.table[t].nruns; k++) {
			struct run r = w->l.table[t].run[k];

			if (r.joining == NO_SERVER || !r.nchain)
				continue;
			if (!place_copied(&w->l, r.joining, r.chain[r.nchain - 1]) ||
			    !place_joined(&w->l))
				w->wrong = "a copy that is there does not count";
			look(w);
			return true;
		}
	return false;
}

/* All copies come, until nothing is on the way. */
static void settle(struct world *w)
{
	uint64_t moving, all;

	mend(w);
	for (unsigned n = 0; end_one(w); n++) {
		mend(w);
		if (n > 10000) {
			w->wrong = "moves have no end";
			return;
		}
	}
	place_progress(&w->l, &moving, &all);
	if (moving && !w->lost)
		w->wrong = "something is said to move, and nothing does";
}

/* Is every chain as long as it can be, and without those that shall hold nothing? */
static bool is_mended(const struct world *w)
{
	uint16_t server[SERVERS];
	size_t n = living(w, server);
	unsigned want = w->replicas < n ? w->replicas : (unsigned)n;

	if (!n) /* all shall leave: then none can */
		return true;
	for (size_t t = 0; t < w->l.ntables; t++)
		for (size_t k = 0; k < w->l.table[t].nruns; k++) {
			const struct run *r = &w->l.table[t].run[k];

			if (r->nchain && r->nchain != want)
				return false;
			for (unsigned c = 0; c < r->nchain; c++)
				if (w->drained[r->chain[c]])
					return false;
		}
	return true;
}

static void harm(struct world *w)
{
	unsigned i = (unsigned)rng_below(&w->rng, SERVERS),
	         b = (unsigned)rng_below(&w->rng, SERVERS);
	uint16_t server[SERVERS];
	size_t n = living(w, server);

	switch (rng_below(&w->rng, 6)) {
	case 0:
		if (w->live[i])
			lose(w, i);
		break;
	case 1:
		if (!w->live[i]) {
			w->live[i] = true;
			w->drained[i] = false;
			mend(w);
		}
		break;
	case 2:
		if (w->live[i] && w->live[b] && i != b)
			place_cut_link(&w->l, i, b);
		look(w);
		mend(w);
		break;
	case 3:
		if (n > 1 && w->live[i] && !w->drained[i]) {
			w->drained[i] = true;
			mend(w);
		}
		break;
	case 4:
		place_balance(&w->l, server, n, NULL);
		look(w);
		break;
	default:
		end_one(w);
	}
}

static void histories(void)
{
	unsigned bad = 0, unmended = 0, lost = 0;
	const char *first = "";

	for (uint64_t seed = 1; seed <= 2000; seed++) {
		struct world w;

		open_world(&w, seed, 1 + (unsigned)(seed % SERVERS), 1 + (unsigned)(seed % 3));
		look(&w);
		for (unsigned n = 0; n < 60 && !w.wrong && !w.lost; n++)
			harm(&w);
		if (!w.wrong && !w.lost) {
			settle(&w);
			unmended += !is_mended(&w);
		}
		lost += w.lost;
		if (w.wrong && !bad++)
			first = w.wrong;
		layout_release(&w.l);
	}
	ok(bad == 0,
	    "through losses, returns, drains and moves layouts are sound (%u of 2000 not%s%s)", bad,
	    *first ? ": " : "", first);
	ok(unmended == 0, "and in the end every chain is as long as it can be (%u not)", unmended);
	ok(lost > 100 && lost < 1900, "in %u something was lost", lost);
}

/* One server less, and no partition lost, while there are two copies. */
static void one_loss(void)
{
	unsigned bad = 0;

	for (uint64_t seed = 1; seed <= 500; seed++) {
		struct world w;

		open_world(&w, seed, 2 + (unsigned)(seed % (SERVERS - 1)),
		    2 + (unsigned)(seed % 2));
		lose(&w, (unsigned)rng_below(&w.rng, 2));
		bad += w.lost || w.wrong;
		layout_release(&w.l);
	}
	ok(bad == 0, "with two copies no single loss takes a partition away");
}

/* ---- evenness ---- */

static double uneven(const struct world *w)
{
	uint64_t sum = 0, most = 0;
	uint16_t server[SERVERS];
	size_t n = living(w, server);

	for (size_t i = 0; i < n; i++) {
		uint64_t load = place_load(&w->l, server[i]);

		sum += load;
		most = load > most ? load : most;
	}
	return (double)most * (double)n / (double)sum - 1;
}

/* Elements of the largest partition: no layout can be more even than that. */
static uint64_t grain(const struct layout *l)
{
	uint64_t most = 0;

	for (size_t i = 0; i < l->ntables; i++) {
		uint64_t each = l->table[i].sparse
		    ? table_elements(&l->table[i]) / l->table[i].nparts + 1
		    : table_part_elements(&l->table[i], 0);

		most = each > most ? each : most;
	}
	return most;
}

static void evenness(void)
{
	unsigned bad = 0, tried = 0, endless = 0, torn = 0;
	double worst = 0;

	for (uint64_t seed = 1; seed <= 400; seed++) {
		unsigned from = 1 + (unsigned)(seed % 4);
		uint16_t server[SERVERS];
		uint64_t sum = 0;
		struct world w;
		size_t n;

		open_world(&w, seed, from, 1 + (unsigned)(seed % from) % 3);
		for (unsigned i = from; i < from + 1 + seed % 3; i++)
			w.live[i] = true;
		n = living(&w, server);
		place_balance(&w.l, server, n, NULL);
		look(&w);
		settle(&w);
		for (unsigned k = 0; k < 50 && place_balance(&w.l, server, n, NULL); k++) {
			settle(&w);
			endless += k == 49;
		}
		torn += w.wrong != NULL;
		for (size_t i = 0; i < n; i++)
			sum += place_load(&w.l, server[i]);
		/* Where whole partitions allow it at all. */
		if (grain(&w.l) * 8 < sum / n) {
			tried++;
			bad += uneven(&w) > 0.25;
			worst = uneven(&w) > worst ? uneven(&w) : worst;
		}
		layout_release(&w.l);
	}
	ok(bad == 0 && tried > 50,
	    "with new servers the fullest has at most 25 %% above the mean (%u of %u more; %.0f %%)",
	    bad, tried, worst * 100);
	ok(endless == 0, "and balancing ends");
	ok(torn == 0, "without a layout that is not sound");
}

static void first_placing(void)
{
	unsigned bad = 0, tried = 0;
	double worst = 0;

	for (uint64_t seed = 1; seed <= 400; seed++) {
		struct world w;
		uint64_t sum = 0;
		unsigned n = 1 + (unsigned)(seed % SERVERS);

		open_world(&w, seed, n, 1 + (unsigned)(seed % 3));
		for (unsigned i = 0; i < n; i++)
			sum += place_load(&w.l, i);
		if (grain(&w.l) * 8 < sum / n) {
			tried++;
			bad += uneven(&w) > 0.25;
			worst = uneven(&w) > worst ? uneven(&w) : worst;
		}
		layout_release(&w.l);
	}
	ok(bad == 0 && tried > 50, "and as first placed (%u of %u more; %.0f %%)", bad, tried,
	    worst * 100);
}

/* ---- single cases ---- */

static struct run *only(struct world *w, const char *chain, int joining, int leaving)
{
	struct run *r;

	memset(w, 0, sizeof *w);
	for (unsigned i = 0; i < SERVERS; i++)
		w->live[i] = true;
	add(w, "t", false, 10, 1);
	layout_place(&w->l, (const uint16_t[]){ 0 }, 1, 1);
	r = &w->l.table[0].run[0];
	r->nchain = (uint8_t)strlen(chain);
	for (unsigned i = 0; i < r->nchain; i++)
		r->chain[i] = (uint16_t)(chain[i] - '0');
	r->joining = joining < 0 ? NO_SERVER : (uint16_t)joining;
	r->leaving = leaving < 0 ? NO_SERVER : (uint16_t)leaving;
	return r;
}

static bool is(const struct run *r, const char *chain, int joining, int leaving)
{
	bool same = r->nchain == strlen(chain) &&
	    (joining < 0 ? r->joining == NO_SERVER : r->joining == joining) &&
	    (leaving < 0 ? r->leaving == NO_SERVER : r->leaving == leaving);

	for (unsigned i = 0; same && i < r->nchain; i++)
		same = r->chain[i] == chain[i] - '0';
	return same;
}

static void cases(void)
{
	struct world w;
	struct run *r;

	r = only(&w, "012", -1, -1);
	ok(place_drop(&w.l, 1) == 0 && is(r, "02", -1, -1), "the middle of a chain goes");
	ok(place_repair(&w.l, (const uint16_t[]){ 0, 2, 5 }, 3, 3, 3) == 1 && is(r, "02", 5, -1),
	    "another joins");
	ok(place_copied(&w.l, 5, 0) == 0 && place_joined(&w.l) == 0 &&
	        place_copied(&w.l, 5, 2) == 1 && place_copied(&w.l, 5, 2) == 0 &&
	        place_joined(&w.l) == 1 && is(r, "025", -1, -1),
	    "and is the last when the last says so");
	layout_release(&w.l);
	r = only(&w, "01", 3, 0);
	ok(place_copied(&w.l, 3, 1) == 1 && place_joined(&w.l) == 1 && is(r, "13", -1, -1),
	    "who leaves goes when the other has come");
	layout_release(&w.l);
	r = only(&w, "01", 3, -1);
	ok(place_copied(&w.l, 3, 1) == 1 && place_drop(&w.l, 1) == 0 && place_joined(&w.l) == 0 &&
	        is(r, "0", 3, -1),
	    "a copy whose giver has died is given again by another");
	layout_release(&w.l);
	r = only(&w, "01", 3, -1);
	ok(place_copied(&w.l, 3, 1) == 1 && ++w.l.epoch == 2 && place_joined(&w.l) == 0 &&
	        is(r, "01", 3, -1) && place_copied(&w.l, 3, 1) == 1 && place_joined(&w.l) == 1 &&
	        is(r, "013", -1, -1),
	    "a copy counts in the epoch in which its giver said so");
	layout_release(&w.l);
	r = only(&w, "01", 3, 0);
	ok(place_drop(&w.l, 3) == 0 && is(r, "01", -1, -1), "and stays when the other dies");
	layout_release(&w.l);
	r = only(&w, "0", 3, 0);
	ok(place_drop(&w.l, 0) == 1 && is(r, "", -1, -1), "half a copy is none");
	layout_release(&w.l);
	r = only(&w, "012", -1, -1);
	ok(place_cut_link(&w.l, 0, 2) == 0 && place_cut_link(&w.l, 1, 0) == 0 &&
	        place_cut_link(&w.l, 1, 2) == 1 && is(r, "01", -1, -1),
	    "of two that do not reach one another the later goes");
	layout_release(&w.l);
	r = only(&w, "01", 4, -1);
	ok(place_cut_link(&w.l, 0, 4) == 0 && place_cut_link(&w.l, 1, 4) == 1 &&
	        is(r, "01", -1, -1),
	    "or comes no more");
	layout_release(&w.l);
	r = only(&w, "01", -1, -1);
	ok(place_repair(&w.l, (const uint16_t[]){ 1 }, 1, 1, 2) == 1 && is(r, "1", -1, -1),
	    "a server that shall leave goes at once where there is another copy and nobody to come");
	ok(place_repair(&w.l, (const uint16_t[]){ 4 }, 0, 1, 2) == 0 && is(r, "1", -1, -1),
	    "and never with the only one");
	layout_release(&w.l);
}

int main(void)
{
	cases();
	histories();
	one_loss();
	first_placing();
	evenness();
	return tap_done();
}

/* SPDX-License-Identifier: ISC */
#include "layout/place.h"

#include <stdlib.h>

#include "core/mem.h"

/* Loads that differ by at most this part of the mean load, in percent, count as even. */
#define SLACK 2
/* A rate that differs from the mean by at most this part counts as the mean: it may be noise. */
#define ALIKE 0.25

static uint64_t part_weight(const struct table *t, uint32_t part)
{
	return t->sparse ? table_elements(t) / t->nparts + 1 : table_part_elements(t, part);
}

/* The weight of a partition; without weights, its number of elements. */
static uint64_t weight_of_part(const struct layout *l, uint64_t *const *weight, size_t table,
    uint32_t part)
{
	return weight ? weight[table][part] : part_weight(&l->table[table], part);
}

static uint64_t run_weight(const struct table *t, const struct run *r)
{
	uint64_t sum = 0;

	for (uint32_t p = r->first; p < r->first + r->count; p++)
		sum += part_weight(t, p);
	return sum;
}

/* A table's mean push rate for each element, from the partitions whose rate is known. */
static double mean_rate(const struct table *t, const double *rate)
{
	double elements = 0, sum = 0;

	for (uint32_t p = 0; p < t->nparts; p++)
		if (rate[p] >= 0) {
			elements += (double)part_weight(t, p);
			sum += rate[p];
		}
	return elements > 0 ? sum / elements : 0;
}

static double smoothed_rate(const struct table *t, uint32_t part, double rate, double mean)
{
	double even = mean * (double)part_weight(t, part);

	return rate < 0 || (rate >= even * (1 - ALIKE) && rate <= even * (1 + ALIKE)) ? even : rate;
}

uint64_t **place_weights(const struct layout *l, double *const *rate)
{
	uint64_t **weight = mem_array(l->ntables, sizeof *weight);
	double elements = 0, rates = 0, *mean = mem_array(l->ntables, sizeof *mean);

	for (size_t i = 0; i < l->ntables; i++) {
		mean[i] = mean_rate(&l->table[i], rate[i]);
		for (uint32_t p = 0; p < l->table[i].nparts; p++) {
			elements += (double)part_weight(&l->table[i], p);
			rates += smoothed_rate(&l->table[i], p, rate[i][p], mean[i]);
		}
	}
	for (size_t i = 0; i < l->ntables; i++) {
		weight[i] = mem_array(l->table[i].nparts, sizeof **weight);
		for (uint32_t p = 0; p < l->table[i].nparts; p++)
			weight[i][p] = part_weight(&l->table[i], p) +
			    (rates > 0 ? (uint64_t)(smoothed_rate(&l->table[i], p, rate[i][p],
			                                mean[i]) /
			                     rates * elements)
			               : 0);
	}
	free(mean);
	return weight;
}

void place_weights_free(uint64_t **weight, size_t ntables)
{
	for (size_t i = 0; weight && i < ntables; i++)
		free(weight[i]);
	free(weight);
}

static bool run_holds(const struct run *r, unsigned server)
{
	return (run_chain_index(r, server) >= 0 && r->leaving != server) || r->joining == server;
}

/* Adds up the weights of all partitions whose runs the server holds, by the rule of
 * run_holds. */
static uint64_t weighed_load(const struct layout *l, unsigned server, uint64_t *const *weight)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < l->ntables; i++)
		for (size_t k = 0; k < l->table[i].nruns; k++) {
			const struct run *r = &l->table[i].run[k];

			for (uint32_t p = r->first; run_holds(r, server) && p < r->first + r->count;
			     p++)
				sum += weight_of_part(l, weight, i, p);
		}
	return sum;
}

uint64_t place_load(const struct layout *l, unsigned server)
{
	return weighed_load(l, server, NULL);
}

/* Is a replica of the run in the same zone as the server? The replica on `except` does not
 * count. */
static bool shares_zone(const struct layout *l, const struct run *r, unsigned server,
    unsigned except)
{
	for (unsigned c = 0; l->zone && c < r->nchain; c++)
		if (r->chain[c] != except && l->zone[r->chain[c]] == l->zone[server])
			return true;
	return false;
}

/* ---- the first placement ---- */

static size_t least_loaded(const uint64_t *load, size_t n)
{
	size_t best = 0;

	for (size_t i = 1; i < n; i++)
		if (load[i] < load[best])
			best = i;
	return best;
}

/* Index of the first server from `at` on, cyclically, that has no replica of the run and is in a
 * zone without one; otherwise of the first that has no replica; n: all have one. */
static size_t next_replica_server(const struct layout *l, const struct run *r,
    const uint16_t *server, size_t n, size_t at)
{
	size_t any = n;

	for (size_t i = 0; i < n; i++) {
		size_t k = (at + i) % n;

		if (run_chain_index(r, server[k]) >= 0)
			continue;
		if (!shares_zone(l, r, server[k], NO_SERVER))
			return k;
		any = any < n ? any : k;
	}
	return any;
}

/* The number of partitions with a run. Partitions added since have higher numbers. */
static uint32_t count_placed_parts(const struct table *t)
{
	const struct run *last = t->nruns ? &t->run[t->nruns - 1] : NULL;

	return last ? last->first + last->count : 0;
}

/* Gives the partitions that have no run yet to the servers: at most n runs whose sizes differ by
 * one partition at most. First replicas go around the servers, beginning with the least loaded one.
 * There are min(replicas, n, CHAIN_MAX) replicas. Adds the new replicas to load. */
static void place_table_runs(const struct layout *l, struct table *t, const uint16_t *server,
    uint64_t *load, size_t n, unsigned replicas)
{
	size_t at = least_loaded(load, n);
	uint32_t first = count_placed_parts(t), left = t->nparts - first;

	t->run = mem_regrow(t->run, t->nruns + n, sizeof *t->run);
	for (size_t k = 0; k < n; k++) {
		uint32_t count = left / (uint32_t)n + (k < left % n);
		struct run *r = &t->run[t->nruns];

		if (!count)
			break;
		*r = (struct run){ .first = first,
			.count = count,
			.joining = NO_SERVER,
			.leaving = NO_SERVER };
		for (size_t c = 0; c < replicas && c < n && c < CHAIN_MAX; c++) {
			size_t s = next_replica_server(l, r, server, n, at);

			r->chain[r->nchain++] = server[s];
			load[s] += run_weight(t, r);
		}
		t->nruns++;
		first += count;
		at = (at + 1) % n;
	}
}

void layout_place(struct layout *l, const uint16_t *server, size_t n, unsigned replicas)
{
	uint64_t *load = mem_array(n, sizeof *load);

	for (size_t i = 0; i < n; i++)
		load[i] = place_load(l, server[i]);
	for (size_t i = 0; i < l->ntables; i++)
		if (!l->table[i].dropped && count_placed_parts(&l->table[i]) < l->table[i].nparts)
			place_table_runs(l, &l->table[i], server, load, n, replicas);
	free(load);
}

/* ---- losses ---- */

static void remove_from_chain(struct run *r, unsigned server)
{
	int at = run_chain_index(r, server);

	if (at < 0)
		return;
	memmove(r->chain + at, r->chain + at + 1, (size_t)(r->nchain - at - 1) * sizeof *r->chain);
	r->nchain--;
}

uint32_t place_drop(struct layout *l, unsigned server)
{
	uint32_t lost = 0;

	for (size_t i = 0; i < l->ntables; i++)
		for (size_t k = 0; k < l->table[i].nruns; k++) {
			struct run *r = &l->table[i].run[k];

			/* The tail was to send the replica: the new tail must send it again. */
			if (r->joining == server ||
			    (r->nchain && r->chain[r->nchain - 1] == server))
				r->copied = 0;
			remove_from_chain(r, server);
			if (r->joining == server)
				r->joining = NO_SERVER;
			/* A server that was to leave stays until a replacement has joined. */
			if (r->leaving == server || r->joining == NO_SERVER)
				r->leaving = NO_SERVER;
			if (!r->nchain) {
				r->joining = NO_SERVER;
				lost += r->count;
			}
		}
	return lost;
}

/* ---- replicas ---- */

static bool server_in_list(const uint16_t *server, size_t n, unsigned which)
{
	for (size_t i = 0; i < n; i++)
		if (server[i] == which)
			return true;
	return false;
}

/* The least loaded server without a replica of the run: in a zone without a replica if possible,
 * the replica of `leaving` not counted. NO_SERVER: there is none. */
static uint16_t choose_joining_server(const struct layout *l, const struct run *r,
    const uint16_t *server, const uint64_t *load, size_t n, unsigned leaving)
{
	uint16_t best = NO_SERVER;
	uint64_t most = UINT64_MAX;
	bool shares = true;

	for (size_t i = 0; i < n; i++) {
		bool shared = shares_zone(l, r, server[i], leaving);

		if (run_chain_index(r, server[i]) >= 0 || shared > shares ||
		    (shared == shares && load[i] >= most))
			continue;
		most = load[i];
		best = server[i];
		shares = shared;
	}
	return best;
}

/* Adds the weight, which may be negative, to the load of server `which`. Nothing changes when
 * that server is not in the list. */
static void add_load(const uint16_t *server, uint64_t *load, size_t n, unsigned which,
    int64_t weight)
{
	for (size_t i = 0; i < n; i++)
		if (server[i] == which)
			load[i] = (uint64_t)((int64_t)load[i] + weight);
}

/* Plans at most one change of the run: another server for the first replica whose server is not in
 * the list, or one more replica when there are fewer than `replicas`. Only the first njoin servers
 * may get the replica. A run whose last change is still under way is left alone, and so is one that
 * has lost all its replicas. Returns whether the run has changed. */
static bool mend_run(const struct layout *l, const struct table *t, struct run *r,
    const uint16_t *server, uint64_t *load, size_t njoin, size_t n, unsigned replicas)
{
	uint16_t joining, leaving = NO_SERVER;

	if (!r->nchain || r->joining != NO_SERVER)
		return false;
	for (unsigned c = 0; c < r->nchain && leaving == NO_SERVER; c++)
		if (!server_in_list(server, n, r->chain[c]))
			leaving = r->chain[c];
	if (leaving == NO_SERVER && r->nchain >= replicas)
		return false;
	joining = choose_joining_server(l, r, server, load, njoin, leaving);
	if (joining == NO_SERVER) {
		/* No server can replace it; it may leave all the same if other replicas remain. */
		if (leaving == NO_SERVER || r->nchain < 2)
			return false;
		remove_from_chain(r, leaving);
		return true;
	}
	r->joining = joining;
	r->leaving = leaving;
	r->copied = 0;
	add_load(server, load, n, joining, (int64_t)run_weight(t, r));
	return true;
}

size_t place_repair(struct layout *l, const uint16_t *server, size_t njoin, size_t n,
    unsigned replicas)
{
	uint64_t *load = mem_array(n + 1, sizeof *load);
	size_t changed = 0;

	for (size_t i = 0; i < n; i++)
		load[i] = place_load(l, server[i]);
	for (size_t i = 0; i < l->ntables; i++)
		for (size_t k = 0; k < l->table[i].nruns; k++)
			changed += mend_run(l, &l->table[i], &l->table[i].run[k], server, load,
			    njoin, n, replicas < n ? replicas : (unsigned)n);
	free(load);
	return changed;
}

size_t place_copied(struct layout *l, unsigned server, unsigned from)
{
	size_t marked = 0;

	for (size_t i = 0; i < l->ntables; i++)
		for (size_t k = 0; k < l->table[i].nruns; k++) {
			struct run *r = &l->table[i].run[k];

			if (r->joining != server || !r->nchain || r->chain[r->nchain - 1] != from ||
			    r->copied == l->epoch)
				continue;
			r->copied = l->epoch;
			marked++;
		}
	return marked;
}

size_t place_joined(struct layout *l)
{
	size_t changed = 0;

	for (size_t i = 0; i < l->ntables; i++)
		for (size_t k = 0; k < l->table[i].nruns; k++) {
			struct run *r = &l->table[i].run[k];

			if (!r->copied || r->copied != l->epoch || r->joining == NO_SERVER)
				continue;
			if (r->leaving != NO_SERVER)
				remove_from_chain(r, r->leaving);
			if (r->nchain < CHAIN_MAX)
				r->chain[r->nchain++] = r->joining;
			r->joining = r->leaving = NO_SERVER;
			r->copied = 0;
			changed++;
		}
	return changed;
}

size_t place_cut_link(struct layout *l, unsigned from, unsigned server)
{
	size_t changed = 0;

	for (size_t i = 0; i < l->ntables; i++)
		for (size_t k = 0; k < l->table[i].nruns; k++) {
			struct run *r = &l->table[i].run[k];
			int at = run_chain_index(r, from);

			if (at < 0)
				continue;
			if (at + 1 < r->nchain && r->chain[at + 1] == server) {
				r->copied = 0;
				remove_from_chain(r, server);
				if (r->leaving == server)
					r->leaving = NO_SERVER;
				changed++;
			} else if (at + 1 == r->nchain && r->joining == server) {
				r->joining = r->leaving = NO_SERVER;
				r->copied = 0;
				changed++;
			}
		}
	return changed;
}

void place_progress(const struct layout *l, uint64_t *moving, uint64_t *all)
{
	*moving = *all = 0;
	for (size_t i = 0; i < l->ntables; i++)
		for (size_t k = 0; k < l->table[i].nruns; k++) {
			const struct run *r = &l->table[i].run[k];

			*all += r->count;
			if (r->joining != NO_SERVER)
				*moving += r->count;
		}
}

/* ---- balance ---- */

static size_t most_loaded(const uint64_t *load, size_t n)
{
	size_t best = 0;

	for (size_t i = 1; i < n; i++)
		if (load[i] > load[best])
			best = i;
	return best;
}

/* Split a run after its first `count` partitions. Returns the first part. */
static struct run *split_run(struct table *t, size_t k, uint32_t count)
{
	struct run *r;

	t->run = mem_regrow(t->run, t->nruns + 1, sizeof *t->run);
	memmove(t->run + k + 1, t->run + k, (t->nruns - k) * sizeof *t->run);
	t->nruns++;
	r = &t->run[k];
	r->count = count;
	r[1].first += count;
	r[1].count -= count;
	return r;
}

/* Consecutive partitions of one run that may move. */
struct piece {
	size_t table, run;
	uint32_t first, count;
	uint64_t weight;
};

static uint64_t weight_distance(uint64_t weight, uint64_t want)
{
	return weight > want ? weight - want : want - weight;
}

/* Update *best with the partitions of a run whose weight is closest to `want` and below its double:
 * the longest row of partitions that does not exceed it, or a single partition that does. */
static void find_best_piece(const struct layout *l, size_t table, size_t run,
    uint64_t *const *weight, uint64_t want, struct piece *best)
{
	const struct run *r = &l->table[table].run[run];
	uint64_t sum = 0;

	for (uint32_t p = r->first, begin = p; p < r->first + r->count; p++) {
		uint64_t alone = weight_of_part(l, weight, table, p);

		sum += alone;
		while (sum > want)
			sum -= weight_of_part(l, weight, table, begin++);
		/* Among equals take the first: a run is then cut into as few parts as possible. */
		if (sum && weight_distance(sum, want) < weight_distance(best->weight, want))
			*best = (struct piece){ table, run, begin, p + 1 - begin, sum };
		if (alone > want &&
		    weight_distance(alone, want) < weight_distance(best->weight, want))
			*best = (struct piece){ table, run, p, 1, alone };
	}
}

/* Let partitions of about the weight `want` move from `from` to `to`. Returns their weight; 0: no
 * partition can move. */
static uint64_t start_move(struct layout *l, uint16_t from, uint16_t to, uint64_t want,
    uint64_t *const *weight)
{
	struct piece best = { 0 };
	struct table *t;
	struct run *r;

	for (size_t i = 0; i < l->ntables; i++)
		for (size_t k = 0; k < l->table[i].nruns; k++) {
			r = &l->table[i].run[k];
			/* A move must not put two replicas in one zone, unless they already
			 * were. */
			if (r->joining == NO_SERVER && run_holds(r, from) &&
			    run_chain_index(r, to) < 0 &&
			    shares_zone(l, r, to, from) <= shares_zone(l, r, from, from))
				find_best_piece(l, i, k, weight, want, &best);
		}
	if (!best.weight)
		return 0;
	t = &l->table[best.table];
	r = &t->run[best.run];
	if (best.first > r->first) {
		split_run(t, best.run, best.first - r->first);
		r = &t->run[++best.run];
	}
	if (best.count < r->count)
		r = split_run(t, best.run, best.count);
	r->joining = to;
	r->leaving = from;
	return best.weight;
}

size_t place_balance(struct layout *l, const uint16_t *server, size_t n, uint64_t *const *weights)
{
	uint64_t *load = mem_array(n + 1, sizeof *load), sum = 0;
	size_t moved = 0;

	for (size_t i = 0; i < n; i++)
		sum += load[i] = weighed_load(l, server[i], weights);
	while (n > 1) {
		size_t from = most_loaded(load, n), to = least_loaded(load, n);
		uint64_t gap = load[from] - load[to], weight;

		/* Moving half of the gap makes both even. Small gaps are not worth a transfer. */
		if (gap < 2 || gap < sum / n * SLACK / 100)
			break;
		weight = start_move(l, server[from], server[to], gap / 2, weights);
		if (!weight)
			break;
		load[from] -= weight;
		load[to] += weight;
		moved++;
	}
	free(load);
	return moved;
}

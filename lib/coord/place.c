#include "coord/place.h"

#include "base/mem.h"

static uint64_t part_weight(const struct table *t, uint32_t part)
{
	return t->sparse ? table_elements(t) / t->nparts + 1 : table_part_elements(t, part);
}

static uint64_t run_weight(const struct table *t, const struct run *r)
{
	uint64_t sum = 0;

	for (uint32_t p = r->first; p < r->first + r->count; p++)
		sum += part_weight(t, p);
	return sum;
}

static bool holds(const struct run *r, unsigned server)
{
	return (run_place(r, server) >= 0 && r->leaving != server) || r->joining == server;
}

uint64_t place_load(const struct layout *l, unsigned server)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < l->ntables; i++)
		for (size_t k = 0; k < l->table[i].nruns; k++)
			if (holds(&l->table[i].run[k], server))
				sum += run_weight(&l->table[i], &l->table[i].run[k]);
	return sum;
}

/* ---- the first placing -------------------------------------------------------- */

static size_t least(const uint64_t *load, size_t n)
{
	size_t best = 0;

	for (size_t i = 1; i < n; i++)
		if (load[i] < load[best])
			best = i;
	return best;
}

static void place_table(struct table *t, const uint16_t *server, uint64_t *load, size_t n, unsigned replicas)
{
	size_t at = least(load, n);
	uint32_t first = 0;

	t->run = mem_array(n, sizeof *t->run);
	for (size_t k = 0; k < n; k++) {
		uint32_t count = t->nparts / (uint32_t)n + (k < t->nparts % n);
		struct run *r = &t->run[t->nruns];

		if (!count)
			break;
		*r = (struct run){ .first = first, .count = count, .joining = NO_SERVER, .leaving = NO_SERVER };
		for (size_t c = 0; c < replicas && c < n && c < CHAIN_MAX; c++) {
			r->chain[r->nchain++] = server[(at + c) % n];
			load[(at + c) % n] += run_weight(t, r);
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
		if (!l->table[i].nruns)
			place_table(&l->table[i], server, load, n, replicas);
	free(load);
}

/* ---- losses --------------------------------------------------------------------- */

static void take_out(struct run *r, unsigned server)
{
	int at = run_place(r, server);

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

			/* What its last one gave is given again by another. */
			if (r->joining == server || (r->nchain && r->chain[r->nchain - 1] == server))
				r->copied = false;
			take_out(r, server);
			if (r->joining == server)
				r->joining = NO_SERVER;
			/* Whoever was to leave stays while nobody comes. */
			if (r->leaving == server || r->joining == NO_SERVER)
				r->leaving = NO_SERVER;
			if (!r->nchain) {
				r->joining = NO_SERVER;
				lost += r->count;
			}
		}
	return lost;
}

/* ---- copies -------------------------------------------------------------------------- */

static bool among(const uint16_t *server, size_t n, unsigned which)
{
	for (size_t i = 0; i < n; i++)
		if (server[i] == which)
			return true;
	return false;
}

/* The server with the least that has no copy of the run; NO_SERVER: none. */
static uint16_t choose(const struct run *r, const uint16_t *server, const uint64_t *load, size_t n)
{
	uint16_t best = NO_SERVER;
	uint64_t most = UINT64_MAX;

	for (size_t i = 0; i < n; i++)
		if (run_place(r, server[i]) < 0 && load[i] < most) {
			most = load[i];
			best = server[i];
		}
	return best;
}

static void add_load(const uint16_t *server, uint64_t *load, size_t n, unsigned which, int64_t weight)
{
	for (size_t i = 0; i < n; i++)
		if (server[i] == which)
			load[i] = (uint64_t)((int64_t)load[i] + weight);
}

static bool mend_run(const struct table *t, struct run *r, const uint16_t *server, uint64_t *load, size_t njoin,
    size_t n, unsigned replicas)
{
	uint16_t joining, leaving = NO_SERVER;

	if (!r->nchain || r->joining != NO_SERVER)
		return false;
	for (unsigned c = 0; c < r->nchain && leaving == NO_SERVER; c++)
		if (!among(server, n, r->chain[c]))
			leaving = r->chain[c];
	if (leaving == NO_SERVER && r->nchain >= replicas)
		return false;
	joining = choose(r, server, load, njoin);
	if (joining == NO_SERVER) {
		/* Nobody to take its place; with other copies it may go all the same. */
		if (leaving == NO_SERVER || r->nchain < 2)
			return false;
		take_out(r, leaving);
		return true;
	}
	r->joining = joining;
	r->leaving = leaving;
	r->copied = false;
	add_load(server, load, n, joining, (int64_t)run_weight(t, r));
	return true;
}

size_t place_mend(struct layout *l, const uint16_t *server, size_t njoin, size_t n, unsigned replicas)
{
	uint64_t *load = mem_array(n + 1, sizeof *load);
	size_t changed = 0;

	for (size_t i = 0; i < n; i++)
		load[i] = place_load(l, server[i]);
	for (size_t i = 0; i < l->ntables; i++)
		for (size_t k = 0; k < l->table[i].nruns; k++)
			changed += mend_run(&l->table[i], &l->table[i].run[k], server, load, njoin, n,
			    replicas < n ? replicas : (unsigned)n);
	free(load);
	return changed;
}

size_t place_copied(struct layout *l, unsigned server, unsigned from)
{
	size_t marked = 0;

	for (size_t i = 0; i < l->ntables; i++)
		for (size_t k = 0; k < l->table[i].nruns; k++) {
			struct run *r = &l->table[i].run[k];

			if (r->joining != server || !r->nchain || r->chain[r->nchain - 1] != from || r->copied)
				continue;
			r->copied = true;
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

			if (!r->copied || r->joining == NO_SERVER)
				continue;
			if (r->leaving != NO_SERVER)
				take_out(r, r->leaving);
			if (r->nchain < CHAIN_MAX)
				r->chain[r->nchain++] = r->joining;
			r->joining = r->leaving = NO_SERVER;
			r->copied = false;
			changed++;
		}
	return changed;
}

size_t place_unlink(struct layout *l, unsigned from, unsigned server)
{
	size_t changed = 0;

	for (size_t i = 0; i < l->ntables; i++)
		for (size_t k = 0; k < l->table[i].nruns; k++) {
			struct run *r = &l->table[i].run[k];
			int at = run_place(r, from);

			if (at < 0)
				continue;
			if (at + 1 < r->nchain && r->chain[at + 1] == server) {
				r->copied = false;
				take_out(r, server);
				if (r->leaving == server)
					r->leaving = NO_SERVER;
				changed++;
			} else if (at + 1 == r->nchain && r->joining == server) {
				r->joining = r->leaving = NO_SERVER;
				r->copied = false;
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

/* ---- evenness ------------------------------------------------------------------------- */

static size_t most(const uint64_t *load, size_t n)
{
	size_t best = 0;

	for (size_t i = 1; i < n; i++)
		if (load[i] > load[best])
			best = i;
	return best;
}

/* Cut the run so that its first `count` partitions are one of its own. */
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

/* Of what `from` holds and `to` does not: a run, or a part of one, of at most
 * `want` elements (but at least one partition). */
static bool move_some(struct layout *l, uint16_t from, uint16_t to, uint64_t want, uint64_t *weight)
{
	for (size_t i = 0; i < l->ntables; i++)
		for (size_t k = 0; k < l->table[i].nruns; k++) {
			struct table *t = &l->table[i];
			struct run *r = &t->run[k];
			uint64_t sum = 0;
			uint32_t count = 0;

			if (r->joining != NO_SERVER || !holds(r, from) || run_place(r, to) >= 0)
				continue;
			while (count < r->count && sum + part_weight(t, r->first + count) <= want)
				sum += part_weight(t, r->first + count++);
			if (!count)
				continue;
			if (count < r->count)
				r = split_run(t, k, count);
			r->joining = to;
			r->leaving = from;
			*weight = sum;
			return true;
		}
	return false;
}

size_t place_balance(struct layout *l, const uint16_t *server, size_t n)
{
	uint64_t *load = mem_array(n + 1, sizeof *load), weight;
	size_t moved = 0, from, to;

	for (size_t i = 0; i < n; i++)
		load[i] = place_load(l, server[i]);
	while (n > 1) {
		from = most(load, n);
		to = least(load, n);
		/* Half of the difference makes both alike; less than that is left alone. */
		if (load[from] - load[to] < 2 || !move_some(l, server[from], server[to], (load[from] - load[to]) / 2, &weight))
			break;
		load[from] -= weight;
		load[to] += weight;
		moved++;
	}
	free(load);
	return moved;
}

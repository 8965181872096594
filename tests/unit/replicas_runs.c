/* SPDX-License-Identifier: ISC */
/* Whole jobs over chains of shards, in thousands of random orders: servers die
 * and come back, links break, a worker is lost; views come late to everybody.
 * In bsp every pull must show what one server alone would, at every step; where the rows' pushes are
 * applied on arrival, those of the dense table must, and each push of rows makes one version. */
#include "core/rng.h"
#include "replicas_fixture.h"

enum { STEPS = 7, WORKERS = 2, OPS = 256, PATIENCE = 60000 };

struct op {
	bool clock;
	uint16_t table;
	uint64_t step;
};

struct inflight_push {
	bool open, told; /* told: the receipt waits at `at` */
	uint16_t table;
	uint64_t step;
	struct receipt r;
	unsigned at;
};

struct worker {
	bool lost;
	uint32_t epoch;
	uint64_t step, clocked; /* clocked: steps */
	bool sending;
	struct op op[NODES][OPS];
	size_t nop[NODES];
	struct inflight_push inflight[STEPS * TABLES];
	size_t ninflight;
	uint64_t seen[TABLES]; /* versions never go back */
};

struct job {
	struct net *x;
	struct rng rng;
	const char *mode;
	unsigned replicas, kills, restarts;
	char chain[8];
	int joining;
	bool shrinks, dismissed[NODES];
	uint64_t until;
	struct worker w[WORKERS];
	float (*want)[TABLES][8]; /* by step; NULL: not known */
	const char *wrong;
};

static uint64_t chance(struct job *j, uint64_t n)
{
	return rng_below(&j->rng, n);
}

/* Does the rank push the table at this step?  Mostly. */
static bool pushes(uint32_t rank, uint64_t step, unsigned table)
{
	return rng_mix(rank * 1000 + step * 10 + table) % 4 != 0;
}

static unsigned claims(uint32_t rank, uint64_t step)
{
	return (unsigned)pushes(rank, step, W) | (unsigned)pushes(rank, step, ROWS) << 1;
}

static bool alive(const struct job *j, unsigned i)
{
	return j->x->node[i].s != NULL;
}

static unsigned head_of(const struct job *j)
{
	return (unsigned)(j->chain[0] - '0');
}

static unsigned tail_of(const struct job *j)
{
	return (unsigned)(j->chain[strlen(j->chain) - 1] - '0');
}

/* ---- workers ---- */

static void add_op(struct worker *w, unsigned node, struct op op)
{
	if (w->nop[node] == OPS)
		abort();
	w->op[node][w->nop[node]++] = op;
}

/* It hears of a layout: what is in doubt goes to the new head, and every server
 * is told the clock. */
static void learn(struct job *j, struct worker *w)
{
	w->epoch = j->x->layout.epoch;
	memset(w->nop, 0, sizeof w->nop);
	for (size_t i = 0; i < w->ninflight; i++)
		if (w->inflight[i].open) {
			w->inflight[i].told = false;
			add_op(w, head_of(j),
			    (struct op){ false, w->inflight[i].table, w->inflight[i].step });
		}
	for (unsigned i = 0; w->clocked && i < NODES; i++)
		if (alive(j, i))
			add_op(w, i, (struct op){ true, 0, w->clocked - 1 });
}

static void begin_step(struct job *j, uint32_t rank)
{
	struct worker *w = &j->w[rank];

	for (uint16_t t = 0; t < TABLES; t++)
		if (pushes(rank, w->step, t)) {
			w->inflight[w->ninflight++] = (struct inflight_push){ .open = true,
				.table = t,
				.step = w->step };
			add_op(w, head_of(j), (struct op){ false, t, w->step });
		}
	for (unsigned i = 0; i < NODES; i++)
		if (alive(j, i))
			add_op(w, i, (struct op){ true, 0, w->step });
	w->clocked = w->step + 1;
	w->sending = true;
}

/* Are the pushes of rows applied on arrival, while those of the dense table are summed? */
static bool is_mixed(const char *mode)
{
	return strcmp(mode, "bsp rows") == 0;
}

/* The pushes of rows in a whole job. */
static uint64_t row_pushes(void)
{
	uint64_t n = 0;

	for (uint32_t rank = 0; rank < WORKERS; rank++)
		for (uint64_t step = 0; step < STEPS; step++)
			n += pushes(rank, step, ROWS);
	return n;
}

static bool look(struct job *j, struct worker *w, uint16_t t)
{
	float out[8] = { 0 };
	uint64_t version;
	enum shard_answer a = pull(j->x, tail_of(j), t, w->step, out, &version);

	if (a != SHARD_OK)
		return false;
	if (version < w->seen[t])
		j->wrong = "a version went back";
	w->seen[t] = version;
	if (j->want && !(t == ROWS && is_mixed(j->mode)) &&
	    memcmp(out, j->want[w->step][t], sizeof out) != 0)
		j->wrong = "a pull shows what one server would not";
	return true;
}

static void try_pull(struct job *j, uint32_t rank)
{
	struct worker *w = &j->w[rank];
	bool all = true;

	if (!alive(j, tail_of(j)) || j->x->node[tail_of(j)].epoch != w->epoch ||
	    w->epoch != j->x->layout.epoch || !shard_may_pull(j->x->node[tail_of(j)].s, w->step))
		return;
	for (uint16_t t = 0; t < TABLES; t++)
		if (pushes(rank, w->step, t) || w->step == STEPS) /* what it needs */
			all &= look(j, w, t);
	if (!all)
		return;
	if (w->step == STEPS)
		w->step++;
	else
		begin_step(j, rank);
}

static void do_op(struct job *j, uint32_t rank, unsigned i)
{
	struct worker *w = &j->w[rank];
	struct op op = w->op[i][0];
	struct receipt r = { 0 };
	enum shard_answer a;

	if (!w->nop[i] || !alive(j, i) || j->x->node[i].epoch != w->epoch)
		return;
	a = op.clock ? clock_of(j->x, i, rank, op.step, claims(rank, op.step))
	             : push(j->x, i, op.table, rank, op.step, &r);
	if (a == SHARD_WAIT)
		return;
	if (a != SHARD_OK || r.status >= PUSH_LATE)
		j->wrong = op.clock ? "a CLOCK is refused" : "a push is refused";
	for (size_t k = 0; !op.clock && k < w->ninflight; k++)
		if (w->inflight[k].open && w->inflight[k].table == op.table &&
		    w->inflight[k].step == op.step) {
			w->inflight[k].r = r;
			w->inflight[k].at = i;
			w->inflight[k].told = true;
		}
	memmove(w->op[i], w->op[i] + 1, --w->nop[i] * sizeof op);
}

static bool is_idle(const struct worker *w)
{
	for (unsigned i = 0; i < NODES; i++)
		if (w->nop[i])
			return false;
	return true;
}

static void hear_receipts(struct job *j, struct worker *w)
{
	for (size_t k = 0; k < w->ninflight; k++) {
		struct inflight_push *d = &w->inflight[k];

		if (d->open && d->told && alive(j, d->at) && j->x->node[d->at].epoch == w->epoch &&
		    is_safe(j->x, d->at, &d->r))
			d->open = false;
	}
}

static bool is_through(const struct worker *w)
{
	bool open = false;

	for (size_t k = 0; k < w->ninflight; k++)
		open |= w->inflight[k].open;
	return w->lost || (w->step > STEPS && !open);
}

static void work(struct job *j, uint32_t rank)
{
	struct worker *w = &j->w[rank];

	if (w->lost)
		return;
	if (w->epoch != j->x->layout.epoch && chance(j, 6) == 0)
		learn(j, w);
	hear_receipts(j, w);
	if (!w->sending && w->step <= STEPS)
		try_pull(j, rank);
	for (unsigned i = 0; i < NODES; i++)
		if (chance(j, 2))
			do_op(j, rank, i);
	if (w->sending && is_idle(w)) {
		w->sending = false;
		w->step++;
	}
}

/* ---- the coordinator ---- */

static void set_layout(struct job *j)
{
	net_layout(j->x, j->chain, j->joining);
}

static void kill_one(struct job *j, unsigned i)
{
	char *at = strchr(j->chain, (int)('0' + i));

	if (!alive(j, i) || (at && strlen(j->chain) < 2))
		return;
	j->kills--;
	net_kill(j->x, i);
	j->dismissed[i] = false;
	if (at)
		memmove(at, at + 1, strlen(at));
	if (j->joining == (int)i)
		j->joining = -1;
	set_layout(j);
}

static void restart_one(struct job *j, unsigned i)
{
	if (alive(j, i) || j->joining >= 0 || strlen(j->chain) >= j->replicas)
		return;
	j->restarts--;
	net_start(j->x, i);
	j->joining = (int)i;
	set_layout(j);
}

static void joined(struct job *j)
{
	uint64_t all, begun, done;
	unsigned tail = tail_of(j);

	if (j->joining < 0 || j->x->node[tail].epoch != j->x->layout.epoch)
		return;
	shard_count_states(j->x->node[tail].s, (uint16_t)j->joining, &all, &begun, &done);
	if (all != TABLES || done != all)
		return;
	snprintf(j->chain + strlen(j->chain), 2, "%d", j->joining);
	j->joining = -1;
	set_layout(j);
}

/* A worker is lost: all servers agree from which step on it has no part. */
static void lose_worker(struct job *j)
{
	uint64_t step = 1;
	bool agreed = false;

	j->w[1].lost = true;
	j->want = NULL;
	for (unsigned round = 0; !agreed; round++) {
		agreed = true;
		for (unsigned i = 0; i < NODES; i++)
			if (alive(j, i)) {
				struct shard_vote v = shard_vote(j->x->node[i].s, 1, 999, step,
				    false);

				agreed &= v.yes;
				if (v.first_free >= step)
					step = v.first_free + 1;
			}
	}
	j->until = step;
	j->shrinks = true;
}

static void hear_of_loss(struct job *j, unsigned i)
{
	if (!j->shrinks || j->dismissed[i] || !alive(j, i) ||
	    j->x->node[i].epoch != j->x->layout.epoch)
		return;
	dismiss(j->x->node[i].s, 1, j->until);
	shard_end_vote(j->x->node[i].s);
	j->dismissed[i] = true;
}

static void view(struct job *j, unsigned i)
{
	if (alive(j, i) && j->x->node[i].epoch != j->x->layout.epoch) {
		j->x->ranks = j->shrinks ? 1 : WORKERS; /* the lost one is not admitted again */
		net_view(j->x, i);
	}
}

/* ---- runs ---- */

static void wires(struct job *j)
{
	unsigned a = (unsigned)chance(j, NODES), b = (unsigned)chance(j, NODES);

	if (a == b)
		return;
	net_send(j->x, a, b);
	net_deliver(j->x, a, b);
	if (chance(j, 2))
		net_answer(j->x, b, a);
	if (chance(j, 200) == 0)
		net_relink(j->x, a, b);
	if (alive(j, a) && j->joining == (int)b && tail_of(j) == a && chance(j, 4) == 0)
		shard_send_next_state(j->x->node[a].s, (uint16_t)b);
}

static void turn(struct job *j, unsigned harm)
{
	unsigned i = (unsigned)chance(j, NODES);

	for (unsigned k = 0; k < 4; k++)
		wires(j);
	work(j, (uint32_t)chance(j, WORKERS));
	if (chance(j, 4) == 0)
		view(j, i);
	hear_of_loss(j, i);
	joined(j);
	if (j->kills && chance(j, harm) == 0)
		kill_one(j, i);
	if (j->restarts && chance(j, harm / 2) == 0)
		restart_one(j, i);
}

static bool ends(const struct job *j)
{
	for (unsigned i = 0; i < WORKERS; i++)
		if (!is_through(&j->w[i]))
			return false;
	return true;
}

/* One job; NULL: as it must be, else what was wrong.  want: what pulls must show. */
static const char *run(const char *mode, bool deterministic, unsigned replicas, unsigned kills,
    bool loses, uint64_t seed, float (*want)[TABLES][8])
{
	struct job *j = calloc(1, sizeof *j);
	const char *wrong;
	unsigned n;

	if (!j)
		abort();
	*j = (struct job){ .mode = mode,
		.replicas = replicas,
		.kills = kills,
		.restarts = kills,
		.joining = -1,
		.want = want };
	rng_init(&j->rng, seed);
	snprintf(j->chain, sizeof j->chain, "%.*s", (int)replicas, "012");
	j->x = net_open(mode, deterministic, "adagrad", j->chain, WORKERS);
	for (unsigned i = 0; i < WORKERS; i++)
		j->w[i].epoch = j->x->layout.epoch;
	for (n = 0; n < PATIENCE && !j->wrong && !ends(j); n++) {
		turn(j, 150);
		if (loses && !j->w[1].lost && n > 40 && chance(j, 150) == 0)
			lose_worker(j);
	}
	wrong = j->wrong    ? j->wrong
	    : n == PATIENCE ? "it is stuck"
	    : j->x->bad     ? "a copy was called malformed"
	                    : NULL;
	/* Who is whole now must be alike. */
	for (unsigned i = 0; i < NODES; i++)
		if (!strchr(j->chain, (int)('0' + i)) && alive(j, i))
			net_kill(j->x, i);
	j->joining = -1;
	set_layout(j);
	for (unsigned i = 0; i < NODES; i++) {
		view(j, i);
		hear_of_loss(j, i);
	}
	net_settle(j->x);
	if (!wrong && is_mixed(mode) && !loses &&
	    version_of(j->x->node[head_of(j)].s, ROWS, 0) != row_pushes())
		wrong = "a push of rows counts twice or not at all";
	if (!wrong && !all_alike(j->x, STEPS))
		wrong = "copies are not alike";
	net_close(j->x);
	free(j);
	return wrong;
}

/* What one server shows at each step. */
static void reference(bool deterministic, float want[STEPS + 1][TABLES][8])
{
	struct net *x = net_open("bsp", deterministic, "adagrad", "0", WORKERS);
	struct receipt r;
	uint64_t v;

	memset(want, 0, sizeof(float) * (STEPS + 1) * TABLES * 8);
	for (uint64_t step = 0; step <= STEPS; step++) {
		for (uint16_t t = 0; t < TABLES; t++)
			if (pull(x, 0, t, step, want[step][t], &v) != SHARD_OK)
				abort();
		for (uint32_t rank = 0; rank < WORKERS; rank++) {
			for (uint16_t t = 0; t < TABLES; t++)
				if (pushes(rank, step, t))
					push(x, 0, t, rank, step, &r);
			clock_of(x, 0, rank, step, claims(rank, step));
		}
	}
	net_close(x);
}

static void runs(const char *mode, bool deterministic, unsigned replicas, unsigned kills,
    bool loses, unsigned times)
{
	float want[STEPS + 1][TABLES][8];
	const char *first = "", *why;
	unsigned bad = 0;
	uint64_t seed = 0;

	reference(deterministic, want);
	for (unsigned i = 0; i < times; i++) {
		why = run(mode, deterministic, replicas, kills, loses, i + 1,
		    strncmp(mode, "bsp", 3) == 0 ? want : NULL);
		if (why && !bad++) {
			first = why;
			seed = i + 1;
		}
	}
	ok(bad == 0, "%s%s, %u copies, %u servers die%s: %u of %u runs are wrong%s%s (%llu)", mode,
	    deterministic ? ", deterministic" : "", replicas, kills,
	    loses ? ", a worker is lost" : "", bad, times, *first ? ": " : "", first,
	    (unsigned long long)seed);
}

int main(int argc, char **argv)
{
	static const char *const modes[] = { "bsp", "ssp:1", "asp", "bsp rows" };
	/* Room for two rows at most, and so on. */
	static const struct row_policy policies[] = { { .admit = 2, .sketch = 4096, .decay = 3 },
		{ .chance = 0.5, .expire = 2 }, { .memory = 100 } };
	unsigned times = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 150;

	for (unsigned m = 0; m < 4; m++)
		for (unsigned det = 0; det <= (m == 0); det++)
			for (unsigned replicas = 2; replicas <= 3; replicas++)
				for (unsigned kills = 0; kills <= 4; kills += 2)
					runs(modes[m], det, replicas, kills, false, times);
	for (unsigned m = 0; m < 4; m++)
		for (unsigned replicas = 2; replicas <= 3; replicas++)
			for (unsigned kills = 0; kills <= 2; kills += 2)
				runs(modes[m], false, replicas, kills, true, times);
	for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
		printf("# rows that come and go, %zu\n", i);
		fixture_policy = policies[i];
		for (unsigned m = 0; m < 4; m++)
			for (unsigned det = 0; det <= (m == 0); det++)
				runs(modes[m], det, 2, 2, m % 2, times / 2);
	}
	return tap_done();
}

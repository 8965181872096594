/* SPDX-License-Identifier: ISC */
#ifndef REPLICAS_FIXTURE_H
#define REPLICAS_FIXTURE_H

/* Several servers' shards in one process, and between each two of them a wire
 * that the test moves by hand: what is to be sent is collected (net_send), comes
 * when the test says so (net_deliver), and is answered when it is safe where it
 * came (net_answer).  As in the server, what belongs to another epoch is kept
 * (a newer one) or dropped (an older one).  Tables: W, dense, 4 floats; ROWS,
 * sparse, 2 floats a row. */
#include <stdlib.h>
#include <string.h>

#include "members.h"
#include "tap.h"

enum { W, ROWS, TABLES, N = 4, COLS = 2, NODES = 4, WIRE = 512 };

struct parcel {
	struct repl_record c;
	uint32_t epoch;
	uint8_t *bytes;
	size_t len;
};

/* An answer to a record, which waits until the replicas behind this one have the record. */
struct pending_answer {
	uint16_t from, table;
	uint32_t part, epoch;
	uint64_t seq;
	struct receipt_condition due;
};

struct node {
	struct net *net;
	struct shard *s; /* NULL: dead */
	uint32_t epoch;
	unsigned wakes;
	struct pending_answer pending[WIRE];
	size_t npending;
};

struct wire {
	bool todo[TABLES]; /* of partition 0: there is no other */
	uint64_t session;
	struct parcel parcel[WIRE];
	size_t n;
};

struct net {
	struct node node[NODES];
	struct wire wire[NODES][NODES];
	uint64_t process[NODES];
	struct layout layout;
	struct shard_config cfg;
	uint64_t sessions;
	unsigned bad; /* copies that were called malformed */
	unsigned ranks;
};

static inline uint64_t inc_of(uint32_t rank)
{
	return 100 + rank;
}

static inline void count_wake(void *ctx)
{
	((struct node *)ctx)->wakes++;
}

static inline void forward(void *ctx, uint16_t server, uint16_t table, uint32_t part)
{
	struct node *from = ctx;

	if (part)
		abort();
	from->net->wire[from - from->net->node][server].todo[table] = true;
}

static inline void net_start(struct net *x, unsigned i)
{
	struct shard_config cfg = x->cfg;

	cfg.self = i;
	cfg.ctx = &x->node[i];
	x->node[i] = (struct node){ .net = x };
	x->process[i] = ++x->sessions;
	if (shard_new(&cfg, &x->node[i].s, NULL))
		abort();
}

/* Everything that is on the way to or from a server. */
static inline void wire_clear(struct wire *w)
{
	for (size_t i = 0; i < w->n; i++)
		free(w->parcel[i].bytes);
	w->n = 0;
}

static inline void net_cut(struct net *x, unsigned a, unsigned b)
{
	wire_clear(&x->wire[a][b]);
	wire_clear(&x->wire[b][a]);
}

/* A new session of the link a -> b, which has lost what was on the old one. */
static inline void net_relink(struct net *x, unsigned a, unsigned b)
{
	struct node *to = &x->node[b];
	size_t k = 0;

	wire_clear(&x->wire[a][b]);
	for (size_t i = 0; i < to->npending; i++)
		if (to->pending[i].from != a)
			to->pending[k++] = to->pending[i];
	to->npending = k;
	x->wire[a][b].session = ++x->sessions;
	if (x->node[a].s)
		shard_resend(x->node[a].s, (uint16_t)b);
}

static inline void net_kill(struct net *x, unsigned i)
{
	shard_free(x->node[i].s);
	x->node[i].s = NULL;
	x->node[i].npending = 0;
	for (unsigned k = 0; k < NODES; k++)
		net_cut(x, i, k);
}

/* The server hears of the layout as it is now.  Links between living ones go
 * on; what they carry is sent again, under the new epoch. */
static inline void net_view(struct net *x, unsigned i)
{
	struct err e = { 0 };

	if (shard_install(x->node[i].s, &x->layout, x->process, &e)) {
		printf("# %s\n", e.msg);
		abort();
	}
	x->node[i].epoch = x->layout.epoch;
	for (unsigned k = 0; k < x->ranks; k++)
		admit(x->node[i].s, k, inc_of(k), 0);
	for (unsigned b = 0; b < NODES; b++)
		if (b != i) {
			x->wire[i][b].session = ++x->sessions;
			shard_resend(x->node[i].s, (uint16_t)b);
		}
}

/* A new epoch with this chain ("012" from the head on) for all tables, and who
 * joins, which nobody has heard of yet. */
static inline void net_layout(struct net *x, const char *chain, int joining)
{
	x->layout.epoch++;
	for (unsigned t = 0; t < TABLES; t++) {
		struct run *r = &x->layout.table[t].run[0];

		r->nchain = (uint8_t)strlen(chain);
		for (unsigned c = 0; c < r->nchain; c++)
			r->chain[c] = (uint16_t)(chain[c] - '0');
		r->joining = joining < 0 ? NO_SERVER : (uint16_t)joining;
	}
}

static inline void net_chain(struct net *x, const char *chain, int joining)
{
	net_layout(x, chain, joining);
	for (unsigned i = 0; i < NODES; i++)
		if (x->node[i].s)
			net_view(x, i);
}

/* Of the tables that are made next. */
static struct row_policy fixture_policy;

static inline void add_table(struct net *x, const char *name, bool sparse)
{
	struct table shape = { .sparse = sparse,
		.decay = sparse,
		.rows = sparse ? 10 : N,
		.cols = sparse ? COLS : 1,
		.seed = 7,
		.init = TABLE_UNIFORM,
		.init_limit = 0.5f },
	             *t;

	if (sparse)
		shape.policy = fixture_policy;
	snprintf(shape.name, sizeof shape.name, "%s", name);
	layout_add(&x->layout, &shape, &t, NULL);
	t->nparts = 1;
}

static inline struct net *net_open_with(const char *mode, bool deterministic, const char *rule,
    float l2, const char *chain, unsigned ranks)
{
	struct net *x = calloc(1, sizeof *x);
	uint16_t server[NODES] = { 0, 1, 2, 3 };

	if (!x)
		abort();
	x->ranks = ranks;
	x->cfg = (struct shard_config){ .deterministic = deterministic,
		.rule = optim_find(rule),
		.wake = count_wake,
		.forward = forward };
	x->cfg.rule->defaults(&x->cfg.hyper);
	x->cfg.hyper.lr = 0.125f;
	if (l2 > 0)
		x->cfg.hyper.l2 = l2;
	mode_of(mode, &x->cfg);
	schedule_parse("constant", &x->cfg.schedule, NULL);
	add_table(x, "w", false);
	add_table(x, "rows", true);
	layout_place(&x->layout, server, NODES, 1);
	for (const char *c = chain; *c; c++)
		net_start(x, (unsigned)(*c - '0'));
	net_chain(x, chain, -1);
	return x;
}

static inline struct net *net_open(const char *mode, bool deterministic, const char *rule,
    const char *chain, unsigned ranks)
{
	return net_open_with(mode, deterministic, rule, 0, chain, ranks);
}

static inline void net_close(struct net *x)
{
	for (unsigned i = 0; i < NODES; i++)
		net_kill(x, i);
	layout_release(&x->layout);
	free(x);
}

/* ---- the wires ---- */

struct sending {
	struct net *net;
	struct wire *wire;
	uint32_t epoch;
	unsigned n;
};

static inline bool put_parcel(void *ctx, const struct repl_record *c)
{
	struct sending *d = ctx;
	struct parcel *p = &d->wire->parcel[d->wire->n];

	if (d->wire->n == WIRE)
		abort();
	*p = (struct parcel){ .c = *c, .epoch = d->epoch, .len = c->nhead + c->nbody };
	p->bytes = malloc(p->len);
	if (!p->bytes)
		abort();
	memcpy(p->bytes, c->head, c->nhead);
	if (c->nbody)
		memcpy(p->bytes + c->nhead, c->body, c->nbody);
	d->wire->n++;
	d->n++;
	return true;
}

/* How many copies have gone onto the wire. */
static inline unsigned net_send(struct net *x, unsigned a, unsigned b)
{
	struct wire *w = &x->wire[a][b];
	struct sending d = { x, w, x->node[a].epoch, 0 };

	for (uint16_t t = 0; x->node[a].s && t < TABLES; t++)
		if (w->todo[t]) {
			w->todo[t] = false;
			shard_send(x->node[a].s, (uint16_t)b, w->session, t, 0, put_parcel, &d);
		}
	return d.n;
}

/* The oldest on the wire comes.  False: nothing has happened. */
static inline bool net_deliver(struct net *x, unsigned a, unsigned b)
{
	struct wire *w = &x->wire[a][b];
	struct node *to = &x->node[b];
	struct parcel p = w->parcel[0];
	struct pending_answer o = { (uint16_t)a, p.c.table, p.c.part, p.epoch, p.c.seq, { 0 } };
	enum shard_answer answer;

	if (!w->n || !to->s || p.epoch > to->epoch)
		return false;
	if (p.epoch == to->epoch) {
		answer = shard_replicate(to->s, &p.c, p.bytes, p.len, &o.due);
		if (answer == SHARD_WAIT)
			return false;
		x->bad += answer == SHARD_BAD;
		if (answer == SHARD_OK && to->npending < WIRE)
			to->pending[to->npending++] = o;
	}
	free(p.bytes);
	memmove(w->parcel, w->parcel + 1, --w->n * sizeof *w->parcel);
	return true;
}

/* What b may answer by now goes to a.  False: nothing. */
static inline bool net_answer(struct net *x, unsigned b, unsigned a)
{
	struct node *from = &x->node[b], *to = &x->node[a];
	size_t k = 0, n = from->npending;

	for (size_t i = 0; i < n; i++) {
		struct pending_answer o = from->pending[i];

		if (o.from != a || !from->s)
			from->pending[k++] = o;
		else if (!shard_is_safe(from->s, o.table, o.part, &o.due)) {
			if (!shard_has_left(from->s, o.table, o.part, &o.due))
				from->pending[k++] = o;
		} else if (to->s && o.epoch >= to->epoch)
			shard_acknowledged(to->s, (uint16_t)b, o.table, o.part, o.seq);
	}
	from->npending = k;
	if (k < n && to->s)
		shard_advance(to->s);
	return k < n;
}

/* All wires, until nothing moves. */
static inline void net_settle(struct net *x)
{
	bool moved = true;

	while (moved) {
		moved = false;
		for (unsigned a = 0; a < NODES; a++)
			for (unsigned b = 0; b < NODES; b++)
				if (a != b) {
					moved |= net_send(x, a, b) > 0;
					while (net_deliver(x, a, b))
						moved = true;
					moved |= net_answer(x, a, b);
				}
	}
}

/* ---- workers ---- */

/* The gradient of a rank at a step: small multiples of 1/8, so that sums are
 * exact in any order. */
static inline float gradient(uint32_t rank, uint64_t step, unsigned k)
{
	return (float)((int)((rank * 7 + step * 5 + k * 3) % 16) - 8) * 0.125f;
}

static inline enum shard_answer push_values(struct net *x, unsigned i, uint16_t table,
    uint32_t rank, uint64_t step, const float *g, struct receipt *r)
{
	uint64_t ids[2] = { step % 3, 3 + rank };
	struct push p = { .rank = rank,
		.incarnation = inc_of(rank),
		.step = step,
		.table = table,
		.examples = 2,
		.payload = (const uint8_t *)g,
		.len = N * sizeof *g };

	if (table == ROWS) {
		p.nrows = 2;
		p.ids = (const uint8_t *)ids;
	}
	return shard_push(x->node[i].s, &p, r);
}

static inline enum shard_answer push(struct net *x, unsigned i, uint16_t table, uint32_t rank,
    uint64_t step, struct receipt *r)
{
	float g[N];

	for (unsigned k = 0; k < N; k++)
		g[k] = gradient(rank, step, k + table);
	return push_values(x, i, table, rank, step, g, r);
}

/* CLOCK, and before it which tables (bits) the rank says it pushes. */
static inline enum shard_answer clock_of(struct net *x, unsigned i, uint32_t rank, uint64_t step,
    unsigned claims)
{
	for (uint16_t t = 0; t < TABLES; t++)
		if (claims >> t & 1)
			shard_expect(x->node[i].s, rank, inc_of(rank), step, t, 0, 1);
	return shard_clock(x->node[i].s, rank, inc_of(rank), step, 2);
}

static inline bool is_safe(struct net *x, unsigned i, const struct receipt *r)
{
	return shard_is_safe(x->node[i].s, r->table, r->part, &r->due);
}

static inline bool has_left(struct net *x, unsigned i, const struct receipt *r)
{
	return shard_has_left(x->node[i].s, r->table, r->part, &r->due);
}

static inline enum shard_answer pull(struct net *x, unsigned i, uint16_t table, uint64_t step,
    float out[8], uint64_t *version)
{
	uint64_t ids[4] = { 0, 1, 2, 3 };

	return table == ROWS
	    ? shard_pull_rows(x->node[i].s, ROWS, 0, step, (const uint8_t *)ids, 4, out, version)
	    : shard_pull(x->node[i].s, W, 0, step, out, version);
}

/* Each living server by itself makes the same further steps: what they have then,
 * optimizer state and all, is the same bits, if the copies were.  Ends the net's
 * use as a chain. */
static inline bool all_alike(struct net *x, uint64_t step)
{
	float first[TABLES][8], now[8];
	uint64_t version[TABLES], v;
	struct receipt r;
	char chain[2] = "";
	bool some = false, same = true;

	for (unsigned i = 0; i < NODES; i++) {
		if (!x->node[i].s)
			continue;
		chain[0] = (char)('0' + i);
		net_layout(x, chain, -1);
		net_view(x, i);
		for (uint64_t k = step; k < step + 3; k++) {
			for (uint32_t rank = 0; rank < x->ranks; rank++)
				for (uint16_t t = 0; t < TABLES; t++)
					same &= push(x, i, t, rank, k, &r) == SHARD_OK &&
					    r.status < PUSH_DUPLICATE;
			for (uint32_t rank = 0; rank < x->ranks; rank++)
				clock_of(x, i, rank, k, 3);
		}
		for (uint16_t t = 0; t < TABLES; t++) {
			memset(now, 0, sizeof now);
			same &= pull(x, i, t, step + 3, now, &v) == SHARD_OK;
			if (some)
				same &= memcmp(now, first[t], sizeof now) == 0 && v == version[t];
			memcpy(first[t], now, sizeof now);
			version[t] = v;
		}
		some = true;
	}
	return some && same;
}

#endif

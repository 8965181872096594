/* SPDX-License-Identifier: ISC */
#ifndef COORD_SIM_H
#define COORD_SIM_H

/* The coordinator's process as coord_sim.c plays it: what it says is durable
 * before it is told, and it may be killed before, between and after. */
#include <stdlib.h>

#include "core/rng.h"
#include "layout/layout.h"
#include "coord_fixture.h"

enum { SERVERS = 3, WORKERS = 3, ALL = SERVERS + WORKERS, PARTS = 4, QUEUE = 256, EPOCHS = 4096 };
#define TURN   (10 * NSEC_PER_MSEC)
#define FAULTS 1200 /* turns with faults, then those to recover in */
#define PEACE  2500

struct peer {
	struct coord_self self; /* self.kind is the session's: COORD_NOBODY without one */
	char name[24];
	bool alive, session, joined, done;
	int64_t wakes_at, back_at, dial_at,
	    beat_at;                    /* frozen, dead, without a session until then */
	json_t *in[QUEUE], *out[QUEUE]; /* of the session */
	size_t nin, nout;
	uint32_t epoch;
	uint64_t rev, first_free, step;
	/* server */
	uint64_t hold, proposal, settled; /* settled: members known from steps up to this */
	bool whole[PARTS];
	bool told[ALL]; /* "copied", in this epoch */
	json_t *view;   /* the last it took */
};

struct sim {
	struct scene s;
	struct rng rng;
	struct peer peer[ALL];
	json_t *state; /* as on disk */
	uint64_t stamp;
	bool new_view, up;
	int64_t start_at;
	json_t *view;
	struct {
		unsigned to;
		json_t *msg;
	} notice[QUEUE];
	size_t nnotices;
	uint64_t layout[EPOCHS]; /* by epoch: digest of what it is */
	uint64_t incarnations;
	unsigned kills, restarts;
	bool fresh; /* no layout was seen yet */
	const char *wrong;
	bool loud;
};

static uint64_t chance(struct sim *x, uint64_t n)
{
	return rng_below(&x->rng, n);
}

static void fail(struct sim *x, const char *why)
{
	if (!x->wrong)
		x->wrong = why;
}

/* ---- the coordinator's process ---- */

static void to_server(void *ctx, unsigned server, json_t *msg)
{
	struct sim *x = ctx;

	if (x->nnotices == QUEUE)
		abort();
	x->notice[x->nnotices].to = server;
	x->notice[x->nnotices++].msg = json_deep_copy(msg);
}

static void view_changed(void *ctx)
{
	((struct sim *)ctx)->new_view = true;
}

static void event(void *ctx, enum event_kind kind, const char *text)
{
	struct sim *x = ctx;

	if (x->loud)
		printf("# %8.3f %s: %s\n", (double)x->s.now / NSEC_PER_SEC, event_kind_name(kind),
		    text);
}

static void drop_session(struct peer *p)
{
	for (size_t i = 0; i < p->nin; i++)
		json_decref(p->in[i]);
	for (size_t i = 0; i < p->nout; i++)
		json_decref(p->out[i]);
	p->nin = p->nout = 0;
	p->session = p->joined = false;
	p->self.kind = COORD_NOBODY;
}

static void push(struct sim *x, json_t **queue, size_t *n, json_t *msg)
{
	if (*n == QUEUE) {
		fail(x, "a queue is full");
		json_decref(msg);
		return;
	}
	queue[(*n)++] = msg;
}

static void die(struct sim *x)
{
	for (unsigned i = 0; i < ALL; i++) {
		drop_session(&x->peer[i]);
		x->peer[i].dial_at = x->s.now + (int64_t)chance(x, 30) * TURN;
	}
	for (size_t i = 0; i < x->nnotices; i++)
		json_decref(x->notice[i].msg);
	x->nnotices = 0;
	coord_free(x->s.c);
	x->s.c = NULL;
	x->up = x->new_view = false;
	x->start_at = x->s.now + (int64_t)(1 + chance(x, 60)) * TURN;
	x->kills++;
}

/* Is it the moment to be killed? */
static bool dies(struct sim *x, uint64_t one_in)
{
	if (x->restarts > 6 || chance(x, one_in))
		return false;
	die(x);
	return true;
}

static uint64_t digest(const json_t *layout)
{
	char *text = json_text(layout);
	uint64_t h = 14695981039346656037u;

	for (char *c = text; *c; c++)
		h = (h ^ (uint8_t)*c) * 1099511628211u;
	free(text);
	return h | 1;
}

static struct peer *process(struct sim *x, const json_t *view, unsigned server)
{
	const json_t *row = json_array_get(json_object_get(view, "servers"), server);
	struct peer *p = &x->peer[server];

	return json_u64s(row, "incarnation", 0) == p->self.incarnation && p->alive ? p : NULL;
}

/* Everybody in a chain has what it is there for. */
static void check_chains(struct sim *x, const json_t *view, const struct layout *l)
{
	for (size_t k = 0; k < l->table[0].nruns; k++) {
		const struct run *r = &l->table[0].run[k];

		for (unsigned i = 0; i < r->nchain; i++) {
			struct peer *p = process(x, view, r->chain[i]);

			for (uint32_t part = r->first; p && part < r->first + r->count; part++) {
				p->whole[part] |= x->fresh;
				if (!p->whole[part])
					fail(x,
					    "a server is counted on for a partition that it has not been given");
			}
		}
		if (!r->nchain)
			fail(x, "a partition has no copy left");
	}
	x->fresh = false;
}

/* A layout is about to be told of for the first time. */
static void check_layout(struct sim *x)
{
	const json_t *jl = json_object_get(x->view, "layout");
	struct layout l;

	if (layout_from_json(jl, &l, NULL))
		abort();
	if (l.ntables && l.table[0].nruns) {
		uint64_t *known = &x->layout[l.epoch % EPOCHS], d = digest(jl);

		if (*known && *known != d)
			fail(x, "one epoch tells of two layouts");
		if (!*known)
			check_chains(x, x->view, &l);
		*known = d;
	}
	layout_release(&l);
}

/* As the host does: durable, then told. */
static void speak(struct sim *x)
{
	if (!x->up || (!x->new_view && !x->nnotices && coord_state_rev(x->s.c) == x->stamp))
		return;
	if (dies(x, 150))
		return;
	if (coord_is_placed(x->s.c)) {
		json_decref(x->state);
		x->state = saved_state(x->s.c);
		x->stamp = coord_state_rev(x->s.c);
	}
	if (dies(x, 150))
		return;
	if (x->new_view) {
		json_decref(x->view);
		x->view = coord_view(x->s.c);
		check_layout(x);
		for (unsigned i = 0; i < ALL; i++)
			if (x->peer[i].session && x->peer[i].joined)
				push(x, x->peer[i].in, &x->peer[i].nin, json_incref(x->view));
	}
	for (size_t i = 0; i < x->nnotices; i++) {
		struct peer *p = &x->peer[x->notice[i].to];

		if (p->session && p->joined)
			push(x, p->in, &p->nin, x->notice[i].msg);
		else
			json_decref(x->notice[i].msg);
	}
	x->new_view = false;
	x->nnotices = 0;
	dies(x, 400);
}

static void start(struct sim *x)
{
	struct coord_io io = { x, to_server, view_changed, event, NULL };
	struct err e = { 0 };

	x->s.c = coord_new(&x->s.cfg, &io, x->s.now);
	/* Of a cluster that was forming nothing is kept. */
	for (unsigned i = 0; i < ALL && !x->state; i++)
		x->peer[i].rev = 0;
	json_decref(x->view);
	x->view = NULL;
	if (x->state && recover_from(x->s.c, x->state, x->s.now, &e))
		fail(x, "the state is refused");
	x->up = true;
	x->new_view = true;
	x->stamp = 0;
	x->restarts++;
	speak(x);
}

#endif

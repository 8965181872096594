/* SPDX-License-Identifier: ISC */
#ifndef PLACE_FIXTURE_H
#define PLACE_FIXTURE_H

/* Layouts of a few tables over some servers, of which some live. */
#include <stdlib.h>
#include <string.h>

#include "core/rng.h"
#include "layout/place.h"
#include "tap.h"

enum { SERVERS = 8 };

struct world {
	struct layout l;
	struct rng rng;
	bool live[SERVERS], drained[SERVERS];
	unsigned replicas;
	bool lost; /* some partition has no copy left */
	const char *wrong;
};

static inline void add(struct world *w, const char *name, bool sparse, uint64_t rows, uint32_t cols)
{
	struct table shape = { .sparse = sparse, .rows = rows, .cols = cols }, *t;

	/* That a server has its replica is said of an epoch. */
	w->l.epoch = 1;
	snprintf(shape.name, sizeof shape.name, "%s", name);
	layout_add(&w->l, &shape, &t, NULL);
}

static inline size_t living(const struct world *w, uint16_t out[SERVERS])
{
	size_t n = 0;

	for (unsigned i = 0; i < SERVERS; i++)
		if (w->live[i] && !w->drained[i])
			out[n++] = (uint16_t)i;
	return n;
}

static inline void open_world(struct world *w, uint64_t seed, unsigned servers, unsigned replicas)
{
	uint16_t server[SERVERS];
	size_t n;

	memset(w, 0, sizeof *w);
	rng_init(&w->rng, seed);
	w->replicas = replicas;
	for (unsigned i = 0; i < servers; i++)
		w->live[i] = true;
	add(w, "a", false, PART_ELEMENTS * (1 + rng_below(&w->rng, 40)), 1);
	add(w, "b", false, 10 + rng_below(&w->rng, 100), 1);
	add(w, "c", true, 1000 + rng_below(&w->rng, 10000000), 1 + (uint32_t)rng_below(&w->rng, 8));
	add(w, "d", false, 1000 + rng_below(&w->rng, PART_ELEMENTS * 9), 3);
	n = living(w, server);
	layout_place(&w->l, server, n, replicas);
}

#endif

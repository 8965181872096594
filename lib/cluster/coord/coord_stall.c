/* SPDX-License-Identifier: ISC */
#include "coord/coord_state.h"

#include "core/clock.h"
#include "core/json.h"

/* A worker that is alive but does not finish its step keeps the others of bsp and ssp waiting. They
 * give up at their deadline, so this worker is given up before: when it has been at its step for
 * three quarters of the deadline while another worker waited for it as long.
 *
 * A worker that waits itself is not to blame: it waits for the servers or for another worker. Time
 * counts only while the worker alone is in the way. A pause restarts the count, as it does for the
 * deadlines of the workers that wait. */

#define LOOK_EVERY (250 * NSEC_PER_MSEC)

static int64_t stall_limit(const struct coord *c)
{
	return c->cfg.deadline - c->cfg.deadline / 4;
}

/* Could all workers be waiting for the servers? They could during a vote, and while a server is
 * silent or has no session. */
static bool servers_block_steps(const struct coord *c, int64_t now)
{
	bool hold = c->votes.proposal.open || c->votes.changes;

	for (unsigned i = 0; i < c->nservers; i++) {
		const struct coord_member_server *s = &c->server[i];

		hold |= s->live &&
		    (s->gone_at || (!s->own && now - s->seen > c->cfg.server_lost / 2));
	}
	return hold;
}

static bool relay_blocks_worker(const struct coord *c, const struct coord_member_worker *w,
    int64_t now)
{
	const struct coord_member_relay *r = w->relay < 0 ? NULL : &c->relay[w->relay];

	return r && (!r->live || now - r->seen > c->cfg.server_lost / 2);
}

/* Workers below the returned step are waited for; 0: none is. Only waits of `least` ns or longer
 * count. */
static uint64_t find_needed_step(const struct coord *c, int64_t least, int64_t now)
{
	uint64_t needed = 0;

	for (unsigned i = 0; i < c->nworkers; i++) {
		const struct coord_member_worker *w = &c->worker[i];
		double waited = (double)(now - w->seen) +
		    w->figures.doing_seconds * (double)NSEC_PER_SEC;
		uint64_t step;

		if (w->lost_at || !coord_worker_does(w, "wait") || waited < (double)least)
			continue;
		step = coord_needed_step(c, coord_worker_step(w));
		needed = step > needed ? step : needed;
	}
	return needed;
}

static void give_up_stalled(struct coord *c, unsigned rank, int64_t now)
{
	struct coord_member_worker *w = &c->worker[rank];
	char how[200];

	snprintf(how, sizeof how,
	    "it made no progress at step %llu for %.1f s, three quarters of the deadline, while "
	    "others waited for it",
	    (unsigned long long)coord_worker_step(w), (double)w->blocked_ns / (double)NSEC_PER_SEC);
	w->blocked_ns = 0;
	coord_worker_lost(c, rank, CAUSE_UNKNOWN, how, now);
}

static void forget_stalls(struct coord *c)
{
	for (unsigned i = 0; i < c->nworkers; i++)
		c->worker[i].blocked_ns = 0;
}

/* Add the time since the last check to the workers that do not advance while others wait for
 * them. */
static void count_stalls(struct coord *c, int64_t passed, int64_t now)
{
	uint64_t needed = find_needed_step(c, 0, now),
	         long_needed = needed ? find_needed_step(c, stall_limit(c), now) : 0;
	bool held = servers_block_steps(c, now);
	/* The evaluator at this step waits until the best model has been taken. */
	uint64_t best = coord_best_awaited(c);

	for (unsigned i = 0; i < c->nworkers; i++) {
		struct coord_member_worker *w = &c->worker[i];
		uint64_t step = coord_worker_step(w);

		if (w->state != WORKER_ACTIVE || w->lost_at || step != w->blocked_at_step ||
		    step >= needed || coord_worker_does(w, "wait") || (best && step == best)) {
			w->blocked_at_step = step;
			w->blocked_ns = 0;
			continue;
		}
		if (!held && !coord_watch_is_delayed(w, now) && !relay_blocks_worker(c, w, now))
			w->blocked_ns += passed;
		if (w->blocked_ns >= stall_limit(c) && step < long_needed)
			give_up_stalled(c, i, now);
	}
}

void coord_stall_check(struct coord *c, int64_t now)
{
	int64_t every = c->cfg.deadline / 40 < LOOK_EVERY ? c->cfg.deadline / 40 : LOOK_EVERY,
	        passed = now - c->times.stalls;

	if (passed < every)
		return;
	c->times.stalls = now;
	/* Rings have a rule of their own: ps-consistency(7), Broken links. */
	if (c->phase != PHASE_RUNNING || !c->cfg.has_job || c->ring.used ||
	    c->cfg.on_worker_loss == COORD_WAIT)
		return;
	if (coord_is_paused(c))
		forget_stalls(c);
	else
		/* If the coordinator itself was stopped, most of that time does not count. */
		count_stalls(c, passed < 4 * LOOK_EVERY ? passed : 4 * LOOK_EVERY, now);
}

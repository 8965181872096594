/* SPDX-License-Identifier: ISC */
#include <string.h>

#include "tests/fault/ledger.h"
#include "tests/sim/parts.h"

/* A witness of what all workers push and pull, which no worker could be alone.
 *
 * A pull for step c in bsp or ssp has the pushes that all ranks made before the step that the mode names
 * (ps-consistency(7), Modes). And what a pull has shown stays: the model of the end has it.
 *
 * A rank that was lost meanwhile is not waited for, and its last pushes may be lost with it. So a rank that
 * was not waited for is only suspected, until it goes on as the same process: then it was not lost. */

#define CELLS_MAX 64

struct suspicion {
	bool any;
	uint32_t by;     /* the rank that pulled */
	uint64_t step;   /* for which it pulled */
	uint64_t missed; /* the step whose push it lacks */
	uint64_t after;  /* the suspect's next step then */
};

struct rank {
	uint64_t incarnation; /* 0: none has pushed */
	uint64_t from, next;  /* steps: its first, and the one after its last push */
	float before[CELLS_MAX];
	float seen[CELLS_MAX]; /* most that anybody has pulled */
	struct suspicion suspicion;
};

static struct {
	bool stays;  /* nothing goes back to an earlier state */
	bool bounds; /* the mode is that of the beginning */
	struct rank rank[LEDGER_RANKS];
} w;

void witness_begin(bool stays, bool bounds)
{
	memset(&w, 0, sizeof w);
	w.stays = stays;
	w.bounds = bounds;
}

void __wrap_ledger_note_push(uint32_t rank, uint64_t incarnation, uint64_t step, float before);
void __wrap_ledger_note_push(uint32_t rank, uint64_t incarnation, uint64_t step, float before)
{
	struct rank *r = &w.rank[rank % LEDGER_RANKS];

	if (r->incarnation != incarnation) {
		r->incarnation = incarnation;
		r->from = step;
		r->suspicion.any = false;
	}
	r->next = step + 1;
	r->before[step % CELLS_MAX] = before;
}

/* The rank has receipts of all its pushes: it was not lost when it began the last of them. */
static void confirm_suspicion(uint32_t rank, const struct ledger_pull *p)
{
	struct rank *r = &w.rank[rank];
	const struct suspicion *s = &r->suspicion;

	if (r->incarnation != p->incarnation || !s->any || p->step <= s->after + 1)
		return;
	scenario_fail(
	    "NOT WAITED FOR: rank %u pulled for step %llu without the push of rank %u of step %llu",
	    s->by, (unsigned long long)s->step, rank, (unsigned long long)s->missed);
}

/* Must a pull show that this rank has completed `step`, and does it not? */
static bool lacks_push(const struct ledger_pull *p, const struct rank *r, uint32_t rank,
    uint64_t step)
{
	uint32_t cell = (uint32_t)(step % CELLS_MAX);

	if (!r->incarnation || step < r->from || r->next > step + CELLS_MAX)
		return false;
	return step >= r->next || p->seen[(size_t)rank * p->cells + cell] <= r->before[cell];
}

static void judge_bound(const struct ledger_pull *p)
{
	uint64_t needed = sync_needed_step(p->mode, p->step);

	for (uint32_t i = 0; needed && i < p->ranks; i++) {
		struct rank *r = &w.rank[i];

		if (i == p->rank || r->suspicion.any || !lacks_push(p, r, i, needed - 1))
			continue;
		r->suspicion = (struct suspicion){ true, p->rank, p->step, needed - 1, r->next };
		sim_trace("judge      < rank %u has pulled for step %llu without step %llu of %u",
		    p->rank, (unsigned long long)p->step, (unsigned long long)needed - 1, i);
	}
}

static void remember_seen(const struct ledger_pull *p)
{
	for (uint32_t i = 0; i < p->ranks; i++)
		for (uint32_t k = 0; k < p->cells; k++) {
			float v = p->seen[(size_t)i * p->cells + k];

			if (v > w.rank[i].seen[k])
				w.rank[i].seen[k] = v;
		}
}

void __wrap_ledger_note_pull(const struct ledger_pull *p);
void __wrap_ledger_note_pull(const struct ledger_pull *p)
{
	if (p->cells > CELLS_MAX || p->ranks > LEDGER_RANKS)
		return;
	confirm_suspicion(p->rank, p);
	if (w.bounds && p->exact)
		judge_bound(p);
	remember_seen(p);
}

void __wrap_ledger_note_model(uint32_t ranks, uint32_t cells, const float *dense);
void __wrap_ledger_note_model(uint32_t ranks, uint32_t cells, const float *dense)
{
	for (uint32_t i = 0; w.stays && i < ranks && i < LEDGER_RANKS; i++)
		for (uint32_t k = 0; k < cells && k < CELLS_MAX; k++)
			if (dense[(size_t)i * cells + k] < w.rank[i].seen[k])
				scenario_fail("WENT BACK: cell %u of rank %u is %.9g after %.9g", k,
				    i, (double)dense[(size_t)i * cells + k],
				    (double)w.rank[i].seen[k]);
}

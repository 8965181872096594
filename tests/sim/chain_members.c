/* SPDX-License-Identifier: ISC */
#include "tests/sim/chain_trace.h"

#include <string.h>

#include "client/client_state.h"
#include "coord/coord_state.h"
#include "layout/place.h"
#include "tests/sim/sim.h"
#include "wire/payload.h"

/* The coordinator's layouts, and the worker's view of them. */

/* The traced run as the coordinator has made it: servers, and their processes. */
static struct {
	bool begun;
	uint32_t first, epoch; /* of the layouts that were noted */
	/* Before the first layout is installed: the run, and the epoch before its last change. */
	struct run early;
	uint32_t changing;
	/* One more than there can be: a server joins before another one leaves. */
	uint16_t chain[CHAIN_MAX + 1], joining;
	uint64_t process[CHAIN_MAX + 1], joining_process;
	unsigned nchain;
} known;

void chain_layout_reset(void)
{
	memset(&known, 0, sizeof known);
}

uint32_t chain_first_epoch(void)
{
	return known.first;
}

const struct run *chain_run(const struct layout *l)
{
	for (size_t t = 0; t < l->ntables; t++)
		if (chain_is_traced(&l->table[t], 0) && l->table[t].nruns)
			return table_run(&l->table[t], 0);
	return NULL;
}

void chain_layout_begin(uint32_t epoch, const struct run *run, const uint64_t *process)
{
	if (known.begun)
		return;
	known.begun = true;
	known.first = known.epoch = epoch;
	known.nchain = run->nchain;
	known.joining = NO_SERVER;
	for (unsigned i = 0; i < run->nchain; i++) {
		known.chain[i] = run->chain[i];
		known.process[i] = process[run->chain[i]];
		chain_note(CHAIN_FIRST)->a = known.process[i];
	}
	if (run->joining != NO_SERVER || known.changing >= epoch)
		chain_note(CHAIN_CUT);
}

void chain_layout_seen(uint32_t epoch)
{
	for (; known.begun && known.epoch < epoch; known.epoch++)
		chain_note(CHAIN_SAME)->epoch = known.epoch + 1;
}

static struct chain_event *note_change(enum chain_event_kind kind, uint32_t before, uint64_t server)
{
	struct chain_event *e;

	chain_layout_seen(before);
	e = chain_note(kind);
	e->a = server;
	e->epoch = before + 1;
	e->same = known.epoch == before + 1;
	known.epoch = before + 1;
	return e;
}

static bool has_server(const struct run *run, uint16_t server)
{
	for (unsigned i = 0; i < run->nchain; i++)
		if (run->chain[i] == server)
			return true;
	return false;
}

/* Notes how the run differs from the one before; the coordinator is about to give this layout its next
 * epoch. */
static void note_layout(const struct layout *l)
{
	const struct run *run = chain_on ? chain_run(l) : NULL;
	const struct coord *c = (const void *)((const char *)l - offsetof(struct coord, layout));

	if (!run)
		return;
	if (!known.begun) {
		if (known.early.nchain &&
		    (known.early.nchain != run->nchain || known.early.joining != run->joining ||
		        memcmp(known.early.chain, run->chain, sizeof run->chain) != 0))
			known.changing = l->epoch;
		known.early = *run;
		return;
	}
	if (known.joining != NO_SERVER && run->joining != known.joining) {
		bool joined = has_server(run, known.joining);

		note_change(joined ? CHAIN_JOINED : CHAIN_LOSE, l->epoch, known.joining_process);
		if (joined) {
			known.process[known.nchain] = known.joining_process;
			known.chain[known.nchain++] = known.joining;
		}
		known.joining = NO_SERVER;
	}
	for (unsigned i = known.nchain; i-- > 0;)
		if (!has_server(run, known.chain[i])) {
			note_change(CHAIN_LOSE, l->epoch, known.process[i]);
			known.nchain--;
			for (unsigned k = i; k < known.nchain; k++) {
				known.chain[k] = known.chain[k + 1];
				known.process[k] = known.process[k + 1];
			}
		}
	if (run->joining != known.joining) {
		known.joining = run->joining;
		known.joining_process = c->server[run->joining].incarnation;
		note_change(CHAIN_JOIN, l->epoch, known.joining_process);
	}
	if (known.nchain != run->nchain ||
	    memcmp(known.chain, run->chain, run->nchain * sizeof *run->chain) != 0)
		chain_note(CHAIN_CUT);
}

uint32_t __wrap_place_drop(struct layout *l, unsigned server);
uint32_t __wrap_place_drop(struct layout *l, unsigned server)
{
	uint32_t lost = place_drop(l, server);

	note_layout(l);
	return lost;
}

size_t __wrap_place_repair(struct layout *l, const uint16_t *server, size_t njoin, size_t n,
    unsigned replicas);
size_t __wrap_place_repair(struct layout *l, const uint16_t *server, size_t njoin, size_t n,
    unsigned replicas)
{
	size_t changed = place_repair(l, server, njoin, n, replicas);

	note_layout(l);
	return changed;
}

size_t __wrap_place_balance(struct layout *l, const uint16_t *server, size_t n,
    uint64_t *const *weight);
size_t __wrap_place_balance(struct layout *l, const uint16_t *server, size_t n,
    uint64_t *const *weight)
{
	size_t changed = place_balance(l, server, n, weight);

	note_layout(l);
	return changed;
}

size_t __wrap_place_joined(struct layout *l);
size_t __wrap_place_joined(struct layout *l)
{
	size_t changed = place_joined(l);

	note_layout(l);
	return changed;
}

size_t __wrap_place_cut_link(struct layout *l, unsigned from, unsigned server);
size_t __wrap_place_cut_link(struct layout *l, unsigned from, unsigned server)
{
	size_t changed = place_cut_link(l, from, server);

	note_layout(l);
	return changed;
}

/* ---- the worker ---- */

void __wrap_request_reroute_all(struct client *c);
void __wrap_request_reroute_all(struct client *c)
{
	if (chain_on && c->cfg.rank == 0) {
		struct chain_event *e;

		chain_layout_seen(c->layout.epoch);
		e = chain_note(CHAIN_WORKER);
		e->a = c->cfg.incarnation;
		e->epoch = c->layout.epoch;
	}
	request_reroute_all(c);
}

/* The receipt that the worker takes is the newest one of its server for this step. */
static void note_accepted(const struct link *l, const struct record *head, uint64_t step)
{
	size_t found = 0;

	for (size_t i = chain_last(); i > 0; i--) {
		const struct chain_event *e = chain_event_at(i);

		if (e->kind != CHAIN_RECEIPT || e->rank != 0 || e->step != step)
			continue;
		if (e->accepted)
			return;
		if (!found && e->epoch == head->epoch && e->b == l->client->cfg.incarnation)
			found = i;
	}
	if (found)
		chain_event_at(found)->accepted = true;
}

void __wrap_client_push_take_receipts(struct link *l, const struct record *head,
    const uint8_t *payload);
void __wrap_client_push_take_receipts(struct link *l, const struct record *head,
    const uint8_t *payload)
{
	struct payload_receipt m;

	for (size_t i = 0;
	     chain_on && l->client->cfg.rank == 0 && payload_get_receipt(payload, head->len, i, &m);
	     i++)
		if (m.table < l->client->layout.ntables &&
		    chain_is_traced(&l->client->layout.table[m.table], m.part))
			note_accepted(l, head, m.step);
	client_push_take_receipts(l, head, payload);
}

/* SPDX-License-Identifier: ISC */
#include "tests/sim/chain_trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shard/shard.h"
#include "tests/sim/sim.h"

#define EVENTS_MAX  400000u
#define LINES_MAX   3000u
#define SERVERS_MAX 7 /* NONE in the model */
#define EPOCHS_MAX  60
#define PUSHES_MAX  6
#define MESSAGES_MAX \
	60       /* of records, acknowledgements and receipts that are on their way; 0: none */
#define STATE 15 /* as in the model */

bool chain_on;

static struct chain_event *events;
static size_t nevents;

/* For each event the walk keeps the slot that it fills, and the event that empties the slot. */
static struct walk {
	size_t due, flight; /* events that use it, 0: none */
	unsigned due_slot, flight_slot;
} * walks;
static bool due_used[MESSAGES_MAX], flight_used[MESSAGES_MAX];
static uint64_t ids[SERVERS_MAX];
static unsigned nids, npushes;
static FILE *out;
static uint64_t pushes[PUSHES_MAX];
/* By sender and receiver: the session of the last record. */
static uint64_t sessions[SERVERS_MAX][SERVERS_MAX];

void chain_trace_begin(void)
{
	events = realloc(events, EVENTS_MAX * sizeof *events);
	if (!events)
		sim_panic("no memory for the trace of a chain");
	memset(events, 0, sizeof *events);
	nevents = 1;
	chain_layout_reset();
	chain_calls_reset();
	chain_on = true;
}

struct chain_event *chain_note(enum chain_event_kind kind)
{
	/* The last one is used again and again. */
	if (nevents < EVENTS_MAX)
		nevents++;
	else
		kind = CHAIN_CUT;
	events[nevents - 1] = (struct chain_event){ .kind = kind };
	return &events[nevents - 1];
}

size_t chain_last(void)
{
	return nevents - 1;
}

struct chain_event *chain_event_at(size_t i)
{
	return &events[i];
}

/* ---- which events the model can follow ---- */

/* The number of the process in the model; SERVERS_MAX: none, or there are too many. */
static unsigned id_of(uint64_t process)
{
	for (unsigned i = 0; i < nids; i++)
		if (ids[i] == process)
			return i;
	if (!process || nids == SERVERS_MAX)
		return SERVERS_MAX;
	ids[nids] = process;
	return nids++;
}

/* The event of which this one is the consequence: same: must they agree in the tenure? */
static size_t find_source(size_t at, enum chain_event_kind kind, uint64_t a, uint64_t b,
    bool latest)
{
	const struct chain_event *e = &events[at];
	size_t found = 0;

	for (size_t i = at; i-- > 1;) {
		const struct chain_event *x = &events[i];

		if (x->kind != kind || x->a != a || x->b != b)
			continue;
		if (kind == CHAIN_SENT &&
		    (x->seq != e->seq || x->epoch != e->epoch || walks[i].flight))
			continue;
		if (kind == CHAIN_REPLICATED &&
		    (x->seq != e->seq || x->epoch < e->epoch || walks[i].flight))
			continue;
		if (kind == CHAIN_RECEIVED &&
		    (x->seq != e->seq || x->epoch != e->epoch || x->tenure != e->tenure ||
		        x->answer != SHARD_OK))
			continue;
		if (kind == CHAIN_TOOK &&
		    (x->rank != 0 || x->step != e->step || x->epoch != e->epoch ||
		        x->tenure != e->tenure))
			continue;
		found = i;
		if (latest)
			break;
	}
	return found;
}

static void link_events(size_t end)
{
	for (size_t i = 1; i < end; i++) {
		struct chain_event *e = &events[i];
		size_t from;

		switch (e->kind) {
		case CHAIN_RECEIVED:
			if (e->answer < 0 && !e->applied) {
				e->kind = CHAIN_NOTHING;
				break;
			}
			from = find_source(i, CHAIN_SENT, e->b, e->a, false);
			walks[from].flight = i;
			break;
		case CHAIN_ACKNOWLEDGED:
			from = find_source(i, CHAIN_REPLICATED, e->b, e->a, false);
			walks[from].flight = i;
			break;
		case CHAIN_REPLICATED:
			from = find_source(i, CHAIN_RECEIVED, e->a, e->b, true);
			walks[from].due = i;
			break;
		case CHAIN_RECEIPT:
			from = e->rank ? 0 : find_source(i, CHAIN_TOOK, e->a, e->b, true);
			walks[from].due = i;
			break;
		default:
			break;
		}
	}
}

/* The end of what the model can follow. */
static size_t find_end(void)
{
	uint64_t worker = 0;

	for (size_t i = 1; i < nevents; i++) {
		const struct chain_event *e = &events[i];

		if (e->kind == CHAIN_CUT ||
		    (e->epoch && e->epoch - chain_first_epoch() + 1 > EPOCHS_MAX &&
		        e->kind != CHAIN_NOTHING))
			return i;
		if ((e->kind == CHAIN_JOIN || e->kind == CHAIN_FIRST || e->kind == CHAIN_INSTALL) &&
		    id_of(e->a) == SERVERS_MAX)
			return i;
		/* A worker that has another incarnation takes its steps up elsewhere. */
		if (e->kind == CHAIN_WORKER && worker && worker != e->a)
			return i;
		if (e->kind == CHAIN_WORKER)
			worker = e->a;
	}
	return nevents;
}

/* Choose the pushes of rank 0 that the model tells apart: first those during which the layout or
 * a server's view of it changed. Ascending. */
static void choose_pushes(size_t end)
{
	npushes = 0;
	for (int changed = 1; changed >= 0; changed--)
		for (size_t i = 1; i < end && npushes < PUSHES_MAX; i++) {
			bool with_change = false, had = false;
			size_t k = i;

			if (events[i].kind != CHAIN_TOOK || events[i].rank != 0 ||
			    !events[i].applied)
				continue;
			for (; k < end; k++) {
				with_change |= events[k].kind >= CHAIN_LOSE &&
				    events[k].kind <= CHAIN_INSTALL;
				if (events[k].kind == CHAIN_RECEIPT && events[k].rank == 0 &&
				    events[k].step == events[i].step && events[k].accepted)
					break;
			}
			for (unsigned p = 0; p < npushes; p++)
				had |= pushes[p] == events[i].step;
			if (with_change == changed && !had)
				pushes[npushes++] = events[i].step;
		}
	for (unsigned i = 0; i < npushes; i++)
		for (unsigned k = i + 1; k < npushes; k++)
			if (pushes[k] < pushes[i]) {
				uint64_t x = pushes[i];

				pushes[i] = pushes[k];
				pushes[k] = x;
			}
}

/* The number of a push in the model, from 1 on; 0: noise. */
static unsigned push_number(const struct chain_event *e)
{
	for (unsigned i = 0; i < npushes; i++)
		if (e->rank == 0 && e->step == pushes[i])
			return i + 1;
	return 0;
}

/* ---- printing ---- */

static unsigned take_slot(bool used[MESSAGES_MAX], bool wanted)
{
	for (unsigned i = 1; wanted && i < MESSAGES_MAX; i++)
		if (!used[i]) {
			used[i] = true;
			return i;
		}
	return 0;
}

/* The slot that event `from` has filled; it is free again. */
static unsigned use_slot(bool used[MESSAGES_MAX], unsigned slot)
{
	used[slot] = false;
	return slot;
}

static unsigned source_slot(size_t at, bool due)
{
	for (size_t i = at; i-- > 1;)
		if ((due ? walks[i].due : walks[i].flight) == at)
			return due ? use_slot(due_used, walks[i].due_slot)
			           : use_slot(flight_used, walks[i].flight_slot);
	return 0;
}

static void print_state(const struct chain_event *e)
{
	const struct chain_state *s = &e->after;

	if (e->has_after)
		fprintf(out,
		    " : version %llu here %d live %d head %d tail %d next %u joining %u must %d synced "
		    "%d unacknowledged %u safe %llu",
		    (unsigned long long)s->version, s->here, s->live, s->head, s->tail,
		    id_of(s->next), id_of(s->joining), s->must, s->synced, s->nsent,
		    (unsigned long long)s->safe);
	fprintf(out, "\n");
}

static void print_sent(const struct chain_event *e, struct walk *w)
{
	unsigned a = id_of(e->a), b = id_of(e->b);
	bool fresh = false;

	if (a < SERVERS_MAX && b < SERVERS_MAX) {
		fresh = sessions[a][b] != e->session;
		sessions[a][b] = e->session;
	}
	w->flight_slot = take_slot(flight_used, w->flight);
	fprintf(out, "sent %u to %u kind %u seq %llu version %llu epoch %u fresh %d slot %u", a, b,
	    e->state ? STATE : push_number(e), (unsigned long long)e->seq,
	    (unsigned long long)e->version, e->epoch - chain_first_epoch() + 1, fresh,
	    w->flight_slot);
	print_state(e);
}

/* Writes one event; false: the model does not want it. */
static bool print_event(size_t i)
{
	const struct chain_event *e = &events[i];
	struct walk *w = &walks[i];
	unsigned a = id_of(e->a), epoch = e->epoch - chain_first_epoch() + 1;

	switch (e->kind) {
	case CHAIN_UNKNOWN:
		fprintf(out, "unknown %u", a);
		break;
	case CHAIN_FIRST:
		fprintf(out, "first %u", a);
		break;
	case CHAIN_LOSE:
		fprintf(out, "lose %u same %d", a, e->same);
		break;
	case CHAIN_JOINED:
		fprintf(out, "joined %u same %d", a, e->same);
		break;
	case CHAIN_JOIN:
		fprintf(out, "join %u same %d", a, e->same);
		break;
	case CHAIN_SAME:
		fprintf(out, "unchanged");
		break;
	case CHAIN_INSTALL:
		fprintf(out, "install %u epoch %u", a, epoch);
		break;
	case CHAIN_TOOK:
		if (!push_number(e) && !e->applied)
			return false;
		if (!push_number(e)) {
			fprintf(out, "noise %u", a);
			break;
		}
		w->due_slot = take_slot(due_used, w->due);
		fprintf(out, "took %u push %u epoch %u due %u", a, push_number(e), epoch,
		    w->due_slot);
		break;
	case CHAIN_FEED:
		fprintf(out, "feed %u to %u", a, id_of(e->b));
		break;
	case CHAIN_SENT:
		print_sent(e, w);
		return true;
	case CHAIN_RECEIVED:
		w->due_slot = take_slot(due_used, w->due);
		fprintf(out, "received %u from %u slot %u good %d due %u", a, id_of(e->b),
		    source_slot(i, false),
		    e->answer == SHARD_BAD            ? 2
		        : e->answer == SHARD_OK       ? 1
		        : e->answer < 0 && e->applied ? 1
		                                      : 0,
		    w->due_slot);
		break;
	case CHAIN_REPLICATED:
		w->flight_slot = take_slot(flight_used, w->flight);
		fprintf(out, "replicated %u for %u due %u slot %u", a, id_of(e->b),
		    source_slot(i, true), w->flight_slot);
		break;
	case CHAIN_ACKNOWLEDGED:
		fprintf(out, "acknowledged %u by %u slot %u link %u", a, id_of(e->b),
		    source_slot(i, false), epoch);
		break;
	case CHAIN_RECEIPT:
		if (!push_number(e))
			return false;
		fprintf(out, "receipt %u due %u accepted %d", a, source_slot(i, true), e->accepted);
		break;
	case CHAIN_WORKER:
		fprintf(out, "worker epoch %u", epoch);
		break;
	default:
		return false;
	}
	print_state(e);
	return true;
}

void chain_trace_print(const char *dir, uint64_t seed)
{
	char path[4096];
	size_t end, lines = 0;

	chain_on = false;
	nids = 0;
	memset(sessions, 0, sizeof sessions);
	memset(due_used, 0, sizeof due_used);
	memset(flight_used, 0, sizeof flight_used);
	end = find_end();
	walks = realloc(walks, EVENTS_MAX * sizeof *walks);
	if (!walks)
		sim_panic("no memory for the trace of a chain");
	memset(walks, 0, end * sizeof *walks);
	link_events(end);
	choose_pushes(end);
	snprintf(path, sizeof path, "%s/%llu", dir, (unsigned long long)seed);
	out = fopen(path, "w");
	if (!out)
		sim_panic("%s: cannot be written", path);
	for (size_t i = 1; i < end && lines < LINES_MAX; i++)
		lines += print_event(i);
	fclose(out);
}

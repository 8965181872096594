/* SPDX-License-Identifier: ISC */
#include "tests/sim/chain_trace.h"

#include <stdatomic.h>
#include <string.h>

#include "core/endian.h"
#include "server/server_state.h"
#include "shard/part.h"
#include "shard/repl.h"
#include "store/replicate_state.h"
#include "tests/sim/sim.h"
#include "wire/payload.h"

/* The wrappers of the functions of servers. Each one notes in the fiber's call what is under way; the
 * event is noted when the partition's lock is released. */

#define CONTAINER(type, member, at) ((type *)(void *)((char *)(at)-offsetof(type, member)))

/* The wrapped function that a fiber is in. */
struct call {
	struct fiber *fiber;
	enum chain_event_kind kind;
	struct shard *shard;
	const struct server_session *peer; /* of the record that is being handled */
	const struct record *record;
	const struct push *push;
	const struct repl_record *c;
	uint32_t epoch;
	uint16_t server;
	uint64_t seq;
	bool updated;                  /* part_update_safe was called */
	size_t event;                  /* noted; 0: not yet */
	size_t answer;                 /* the place of an answer that is safe; 0: none */
	const struct pending_ack *ack; /* that answer */
	/* shard_send */
	bool (*put)(void *ctx, const struct repl_record *c);
	void *ctx;
	uint64_t session;
};
static struct call calls[4096];
static size_t ncalls;

/* The partition at each server that has it. */
struct place {
	const struct proc *proc;
	struct shard *shard;
	struct part *part;
	struct chain_state last;
	const struct repl *links; /* NULL: it has not sent anything */
};
static struct place places[64];
static size_t nplaces;

void chain_calls_reset(void)
{
	ncalls = nplaces = 0;
}

static struct call *call_of_fiber(void)
{
	for (size_t i = 0; i < ncalls; i++)
		if (calls[i].fiber == fiber_current)
			return &calls[i];
	if (ncalls == sizeof calls / sizeof *calls)
		sim_panic("more fibers than a chain's trace can follow");
	calls[ncalls] = (struct call){ .fiber = fiber_current };
	return &calls[ncalls++];
}

static uint64_t process_of(const struct shard *s)
{
	return ((const struct server *)s->cfg.ctx)->incarnation;
}

bool chain_is_traced(const struct table *t, uint32_t part)
{
	return t && part == 0 && strcmp(t->name, "ledger") == 0;
}

static struct part *find_part(struct shard *s)
{
	for (uint32_t t = 0; t < atomic_load(&s->ntables); t++) {
		struct part *p = shard_part(s, (uint16_t)t, 0);

		if (p && chain_is_traced(p->table, 0))
			return p;
	}
	return NULL;
}

static bool names_traced(struct shard *s, uint16_t table, uint32_t part)
{
	struct part *p = chain_on ? shard_part(s, table, part) : NULL;

	return p && chain_is_traced(p->table, part);
}

static struct chain_state state_of(const struct part *p)
{
	return (struct chain_state){ .version = p->version,
		.next = p->chain.next == NO_SERVER ? 0 : p->chain.next_process,
		.joining = p->chain.joining == NO_SERVER ? 0 : p->chain.joining_process,
		.safe = atomic_load(&p->chain.safe_version),
		.nsent = p->chain.nsent,
		.here = p->ready,
		.live = p->in_chain,
		.head = p->chain.head,
		.tail = p->chain.tail,
		.must = p->chain.required,
		.synced = p->chain.synced };
}

static bool same_state(const struct chain_state *x, const struct chain_state *y)
{
	return x->version == y->version && x->next == y->next && x->joining == y->joining &&
	    x->nsent == y->nsent && x->here == y->here && x->live == y->live &&
	    x->head == y->head && x->tail == y->tail && x->must == y->must &&
	    x->synced == y->synced;
}

static struct place *place_of_shard(struct shard *s)
{
	struct part *p;

	for (size_t i = 0; i < nplaces; i++)
		if (places[i].shard == s && places[i].proc == proc_current)
			return &places[i];
	p = find_part(s);
	if (!p)
		return NULL;
	if (nplaces == sizeof places / sizeof *places)
		sim_panic("more servers than a chain's trace can follow");
	places[nplaces] =
	    (struct place){ .proc = proc_current, .shard = s, .part = p, .last = state_of(p) };
	return &places[nplaces++];
}

static struct call *begin_call(enum chain_event_kind kind, struct shard *s)
{
	struct call *c = call_of_fiber();

	place_of_shard(s);
	c->kind = kind;
	c->shard = s;
	c->updated = false;
	c->event = 0;
	return c;
}

static struct chain_event *note_at(enum chain_event_kind kind, const struct place *at)
{
	struct chain_event *e = chain_note(kind);

	e->a = process_of(at->shard);
	e->has_after = true;
	e->after = state_of(at->part);
	return e;
}

/* Notes the event of the call, whose effect is complete. */
static void note_call(struct call *c, const struct place *at)
{
	const struct part *p = at->part;
	struct chain_event *e;

	if (c->kind == CHAIN_INSTALL && !c->updated)
		return;
	if (c->kind == CHAIN_ACKNOWLEDGED && p->chain.next != c->server)
		return;
	if (c->kind == CHAIN_FEED && at->last.nsent == p->chain.nsent)
		return;
	e = note_at(c->kind, at);
	c->event = chain_last();
	e->epoch = c->epoch;
	e->applied = e->after.version != at->last.version;
	e->answer = -1;
	if (c->kind == CHAIN_TOOK) {
		e->b = c->push->incarnation;
		e->rank = c->push->rank;
		e->step = c->push->step;
		e->version = p->version;
		e->tenure = atomic_load(&p->tenure);
	} else if (c->kind == CHAIN_RECEIVED) {
		e->b = c->peer->who.incarnation;
		e->seq = c->record->seq;
		e->state = c->c->kind == REPL_STATE;
		e->tenure = atomic_load(&p->tenure);
	} else if (c->kind == CHAIN_ACKNOWLEDGED) {
		e->b = p->chain.next_process;
		e->seq = c->seq;
		e->epoch = at->links ? at->links->epoch : 0;
	} else if (c->kind == CHAIN_FEED) {
		e->b = p->chain.next_process;
	}
}

void chain_unlocked(const pthread_mutex_t *m)
{
	for (size_t i = 0; chain_on && i < nplaces; i++) {
		struct place *at = &places[i];
		struct call *c;
		struct chain_state now;
		size_t last = chain_last();

		if (at->proc != proc_current || m != &at->part->lock.m)
			continue;
		c = call_of_fiber();
		if (c->kind && c->shard == at->shard && !c->event)
			note_call(c, at);
		now = state_of(at->part);
		if (chain_last() == last && !same_state(&now, &at->last))
			note_at(CHAIN_UNKNOWN, at);
		at->last = now;
	}
}

/* ---- layouts ---- */

void __wrap_part_update_safe(struct part *p);
void __wrap_part_update_safe(struct part *p)
{
	part_update_safe(p);
	if (chain_on && chain_is_traced(p->table, p->index))
		call_of_fiber()->updated = true;
}

enum err_code __wrap_shard_install(struct shard *s, const struct layout *l, const uint64_t *process,
    struct err *e);
enum err_code __wrap_shard_install(struct shard *s, const struct layout *l, const uint64_t *process,
    struct err *e)
{
	const struct run *run = chain_on ? chain_run(l) : NULL;
	struct call *c;
	struct place *at;
	enum err_code rc;

	if (!run || !process)
		return shard_install(s, l, process, e);
	chain_layout_begin(l->epoch, run, process);
	chain_layout_seen(l->epoch);
	c = begin_call(CHAIN_INSTALL, s);
	c->epoch = l->epoch;
	rc = shard_install(s, l, process, e);
	c = call_of_fiber();
	at = place_of_shard(s);
	if (!c->event && l->epoch > chain_first_epoch()) {
		struct chain_event *x = chain_note(CHAIN_INSTALL);

		x->a = process_of(s);
		x->epoch = l->epoch;
		if (at) {
			x->has_after = true;
			x->after = state_of(at->part);
		}
	}
	if (c->event && l->epoch == chain_first_epoch())
		chain_event_at(c->event)->kind = CHAIN_NOTHING;
	if (at)
		at->last = state_of(at->part);
	if (rc)
		chain_note(CHAIN_CUT);
	c->kind = CHAIN_NOTHING;
	return rc;
}

/* ---- pushes ---- */

enum conn_verdict __wrap_session_push(struct server_session *p, const struct record *r,
    const uint8_t *payload);
enum conn_verdict __wrap_session_push(struct server_session *p, const struct record *r,
    const uint8_t *payload)
{
	struct call *c;

	if (chain_on) {
		c = call_of_fiber();
		c->peer = p;
		c->record = r;
	}
	return session_push(p, r, payload);
}

enum shard_answer __wrap_shard_push(struct shard *s, const struct push *push, struct receipt *r);
enum shard_answer __wrap_shard_push(struct shard *s, const struct push *push, struct receipt *r)
{
	struct call *c;
	enum shard_answer a;

	if (!names_traced(s, push->table, push->part))
		return shard_push(s, push, r);
	c = begin_call(CHAIN_TOOK, s);
	c->push = push;
	c->epoch = c->record->epoch;
	a = shard_push(s, push, r);
	c = call_of_fiber();
	if (c->event) {
		struct chain_event *e = chain_event_at(c->event);

		e->answer = a;
		if (a != SHARD_OK)
			e->kind = CHAIN_NOTHING;
		else if (r->status == PUSH_REFUSED)
			e->kind = CHAIN_CUT;
		else
			e->version = r->due.version;
	}
	c->kind = CHAIN_NOTHING;
	return a;
}

/* ---- replication ---- */

bool __wrap_shard_send_next_state(struct shard *s, uint16_t server);
bool __wrap_shard_send_next_state(struct shard *s, uint16_t server)
{
	bool begun;

	if (!chain_on)
		return shard_send_next_state(s, server);
	begin_call(CHAIN_FEED, s);
	begun = shard_send_next_state(s, server);
	call_of_fiber()->kind = CHAIN_NOTHING;
	return begun;
}

/* Notes a record that is put into the connection. The partition's lock is held. */
static bool put_and_note(void *ctx, const struct repl_record *r)
{
	struct call *c = ctx;
	const struct link *l = c->ctx;
	uint64_t seq = r->seq, version = r->version, step = r->step;
	enum repl_kind kind = r->kind;
	uint32_t rank = get_le32(r->head + 16);
	struct place *at = place_of_shard(c->shard);
	struct chain_event *e = note_at(CHAIN_SENT, at);
	size_t event = chain_last();

	at->links = l->repl;
	e->b = at->part->chain.next_process;
	e->epoch = l->repl->epoch;
	e->seq = seq;
	e->version = version;
	e->state = kind == REPL_STATE;
	e->rank = rank;
	e->step = step;
	e->session = c->session;
	if (!c->put(c->ctx, r)) {
		chain_event_at(event)->kind = CHAIN_NOTHING;
		return false;
	}
	if (kind != REPL_STATE && kind != REPL_PUSH)
		chain_event_at(event)->kind = CHAIN_CUT;
	return true;
}

void __wrap_shard_send(struct shard *s, uint16_t server, uint64_t session, uint16_t table,
    uint32_t part, bool (*put)(void *ctx, const struct repl_record *c), void *ctx);
void __wrap_shard_send(struct shard *s, uint16_t server, uint64_t session, uint16_t table,
    uint32_t part, bool (*put)(void *ctx, const struct repl_record *c), void *ctx)
{
	struct call *c;

	if (!names_traced(s, table, part)) {
		shard_send(s, server, session, table, part, put, ctx);
		return;
	}
	c = begin_call(CHAIN_NOTHING, s);
	c->put = put;
	c->ctx = ctx;
	c->session = session;
	shard_send(s, server, session, table, part, put_and_note, c);
}

enum conn_verdict __wrap_session_repl(struct server_session *p, const struct record *r,
    const uint8_t *payload);
enum conn_verdict __wrap_session_repl(struct server_session *p, const struct record *r,
    const uint8_t *payload)
{
	if (chain_on) {
		struct call *c = call_of_fiber();

		c->peer = p;
		c->record = r;
	}
	return session_repl(p, r, payload);
}

enum shard_answer __wrap_shard_replicate(struct shard *s, const struct repl_record *r,
    const uint8_t *payload, size_t len, struct receipt_condition *due);
enum shard_answer __wrap_shard_replicate(struct shard *s, const struct repl_record *r,
    const uint8_t *payload, size_t len, struct receipt_condition *due)
{
	struct call *c;
	enum shard_answer a;

	if (!names_traced(s, r->table, r->part))
		return shard_replicate(s, r, payload, len, due);
	c = begin_call(CHAIN_RECEIVED, s);
	c->c = r;
	c->epoch = c->record->epoch;
	a = shard_replicate(s, r, payload, len, due);
	c = call_of_fiber();
	if (c->event) {
		struct chain_event *e = chain_event_at(c->event);

		e->answer = a;
		if (a == SHARD_WAIT)
			e->kind = CHAIN_NOTHING;
		else if (a == SHARD_OK)
			e->version = due->version;
	}
	c->kind = CHAIN_NOTHING;
	return a;
}

void __wrap_shard_acknowledged(struct shard *s, uint16_t server, uint16_t table, uint32_t part,
    uint64_t seq);
void __wrap_shard_acknowledged(struct shard *s, uint16_t server, uint16_t table, uint32_t part,
    uint64_t seq)
{
	struct call *c;

	if (!names_traced(s, table, part)) {
		shard_acknowledged(s, server, table, part, seq);
		return;
	}
	c = begin_call(CHAIN_ACKNOWLEDGED, s);
	c->server = server;
	c->seq = seq;
	c->epoch = 0;
	shard_acknowledged(s, server, table, part, seq);
	call_of_fiber()->kind = CHAIN_NOTHING;
}

/* ---- answers ---- */

/* The answer is judged here, and sent a little later: the place of the event is this one. */
bool __wrap_shard_is_safe(struct shard *s, uint16_t table, uint32_t part,
    const struct receipt_condition *due);
bool __wrap_shard_is_safe(struct shard *s, uint16_t table, uint32_t part,
    const struct receipt_condition *due)
{
	bool safe = shard_is_safe(s, table, part, due);

	if (chain_on)
		call_of_fiber()->answer = 0;
	if (safe && names_traced(s, table, part)) {
		struct call *c = call_of_fiber();

		chain_note(CHAIN_NOTHING)->a = process_of(s);
		c->answer = chain_last();
		c->ack = CONTAINER(const struct pending_ack, due, due);
	}
	return safe;
}

static void note_answer(enum chain_event_kind kind, const struct server_session *peer)
{
	struct call *c = call_of_fiber();
	struct chain_event *e = chain_event_at(c->answer);

	e->kind = kind;
	e->epoch = c->ack->epoch;
	e->tenure = c->ack->due.tenure;
	e->step = c->ack->step;
	e->seq = c->ack->seq;
	e->rank = peer->who.rank;
	e->b = peer->who.incarnation;
	c->answer = 0;
}

void __wrap_payload_put_replicated(struct buf *b, const struct payload_replicated *x);
void __wrap_payload_put_replicated(struct buf *b, const struct payload_replicated *x)
{
	payload_put_replicated(b, x);
	if (chain_on && call_of_fiber()->answer)
		note_answer(CHAIN_REPLICATED,
		    CONTAINER(const struct server_session, data.replicated, b));
}

void __wrap_payload_put_receipt(struct buf *b, const struct payload_receipt *x);
void __wrap_payload_put_receipt(struct buf *b, const struct payload_receipt *x)
{
	payload_put_receipt(b, x);
	if (chain_on && call_of_fiber()->answer)
		note_answer(CHAIN_RECEIPT,
		    CONTAINER(const struct server_session, data.receipts, b));
}

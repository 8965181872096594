/* SPDX-License-Identifier: ISC */
#include "coord/coord_state.h"

#include "core/fail.h"
#include "core/json.h"
#include "core/mem.h"
#include "core/steps.h"

/* Changes of membership, settings and tables take effect at one step S, the same for every server.
 * The coordinator proposes S. A server that has already accepted a push of step S or later votes
 * no and reports its first free step: one past the newest step that has begun there. A server that
 * votes yes accepts no push of step S or later until it has seen the decision. If all vote yes, the
 * view carries the change from S on; otherwise the next proposal lies beyond the first free step of
 * every server. coord_state.h draws the stages. */

/* ---- members ---- */

/* Makes room for an entry from `step` on: drops the last one if it begins at this step, because
 * then nobody takes part in any step by it, or else the oldest one. */
static void drop_members_entry(struct coord *c, uint64_t step)
{
	struct members *entry = c->membership.entry;
	unsigned last = c->membership.n - 1, gone = entry[last].step == step ? last : 0;

	free(entry[gone].rank);
	memmove(entry + gone, entry + gone + 1, (last - gone) * sizeof *entry);
	c->membership.n--;
	c->membership.base++;
}

static void append_members(struct coord *c, uint64_t step, struct data_position at, uint64_t batch,
    const unsigned *rank, unsigned n)
{
	struct members *m;

	if (c->membership.n == MEMBERS_KEPT)
		drop_members_entry(c, step);
	c->membership.entry = mem_regrow(c->membership.entry, c->membership.n + 1,
	    sizeof *c->membership.entry);
	m = &c->membership.entry[c->membership.n++];
	m->step = step;
	m->at = at;
	m->batch = batch;
	m->n = n;
	m->rank = mem_array(n + 1, sizeof *m->rank);
	memcpy(m->rank, rank, n * sizeof *rank);
}

void coord_members_begin(struct coord *c)
{
	const struct state_head *m = c->cfg.resume;
	unsigned *rank = mem_array(c->nworkers + 1, sizeof *rank), n = 0;

	for (unsigned i = 0; i < c->nworkers; i++)
		if (c->worker[i].state == WORKER_JOINING)
			rank[n++] = i;
	/* Workers pass over batches before the first step, to get to their place in assigned
	 * ranges. */
	for (uint64_t i = 0; m && m->data && i < m->data->nbatches; i++)
		append_members(c, (uint64_t)m->data->batches[i].step, c->membership.first_at,
		    (uint64_t)m->data->batches[i].batch, rank, n);
	append_members(c, c->membership.first_step, c->membership.first_at, c->cfg.batch, rank, n);
	free(rank);
}

void coord_members_release(struct coord *c)
{
	for (unsigned i = 0; i < c->membership.n; i++)
		free(c->membership.entry[i].rank);
	free(c->membership.entry);
}

json_t *coord_members_to_json(const struct coord *c)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < c->membership.n; i++) {
		const struct members *m = &c->membership.entry[i];
		json_t *ranks = json_array();

		for (unsigned k = 0; k < m->n; k++)
			json_array_append_new(ranks, json_integer(m->rank[k]));
		json_array_append_new(list,
		    json_pack("{s:I, s:I, s:I, s:I, s:o}", "step", (json_int_t)m->step, "epoch",
		        (json_int_t)m->at.epoch, "offset", (json_int_t)m->at.offset, "batch",
		        (json_int_t)m->batch, "ranks", ranks));
	}
	return list;
}

void coord_members_save(const struct coord *c, struct state *out)
{
	out->nmembers = c->membership.n;
	out->members = mem_array(c->membership.n, sizeof *out->members);
	for (unsigned i = 0; i < c->membership.n; i++) {
		const struct members *m = &c->membership.entry[i];
		struct state_members *s = &out->members[i];

		*s = (struct state_members){ .step = (int64_t)m->step,
			.epoch = (int64_t)m->at.epoch,
			.offset = (int64_t)m->at.offset,
			.batch = (int64_t)m->batch,
			.ranks = mem_array(m->n, sizeof *s->ranks),
			.nranks = m->n };
		for (unsigned k = 0; k < m->n; k++)
			s->ranks[k] = m->rank[k];
	}
}

bool coord_members_load(struct coord *c, const struct state *state)
{
	/* A job that has begun has members. */
	if (state->nmembers > MEMBERS_KEPT || (c->cfg.has_job && !state->nmembers))
		return false;
	for (uint64_t i = 0; i < state->nmembers; i++) {
		const struct state_members *s = &state->members[i];
		unsigned *in = mem_array(s->nranks + 1, sizeof *in);
		bool known = s->nranks <= c->nworkers;

		for (uint64_t k = 0; k < s->nranks; k++) {
			in[k] = (unsigned)s->ranks[k];
			known &= in[k] < c->nworkers;
		}
		if (known)
			append_members(c, (uint64_t)s->step,
			    (struct data_position){ (uint64_t)s->epoch, (uint64_t)s->offset },
			    s->batch < 0 ? c->cfg.batch : (uint64_t)s->batch, in,
			    (unsigned)s->nranks);
		free(in);
		if (!known)
			return false;
	}
	return true;
}

/* Append the members from `step` on: the members of the last entry, with or without `rank`. */
static void append_changed_members(struct coord *c, uint64_t step, unsigned rank, bool in)
{
	const struct members *m = &c->membership.entry[c->membership.n - 1];
	struct step_shape shape = { c->data.examples, m->batch, m->n ? m->n : 1 };
	struct data_position at = step_data_advance(m->at, m->n ? step - m->step : 0, &shape);
	unsigned *list = mem_array(c->nworkers + 1, sizeof *list), n = 0;

	for (unsigned i = 0; i < c->nworkers; i++) {
		bool was = false;

		for (unsigned k = 0; k < m->n; k++)
			was |= m->rank[k] == i;
		if (i == rank ? in : was)
			list[n++] = i;
	}
	append_members(c, step, at, c->cfg.batch, list, n);
	free(list);
}

void coord_members_restart(struct coord *c, uint64_t step)
{
	if (c->membership.n)
		append_changed_members(c, step, UINT_MAX, false);
}

bool coord_members_have(const struct coord *c, unsigned rank)
{
	const struct members *m = &c->membership.entry[c->membership.n - 1];

	for (unsigned k = 0; k < m->n; k++)
		if (m->rank[k] == rank)
			return true;
	return false;
}

void coord_members_add_first(struct coord *c, unsigned rank)
{
	struct members *m = &c->membership.entry[c->membership.n - 1];
	unsigned at = m->n;

	if (coord_members_have(c, rank))
		return;
	m->rank = mem_regrow(m->rank, m->n + 1, sizeof *m->rank);
	/* The ranks are in ascending order. */
	for (; at > 0 && m->rank[at - 1] > rank; at--)
		m->rank[at] = m->rank[at - 1];
	m->rank[at] = rank;
	m->n++;
}

/* ---- proposals ---- */

/* Remove the queued changes of this rank's older incarnations, so that a worker that joins again
 * and again does not make the queue longer each time. */
static void drop_overtaken_changes(struct coord *c, unsigned rank)
{
	struct change **p = &c->votes.changes, *ch;

	while ((ch = *p)) {
		if (ch->kind < CHANGE_SET && ch->rank == rank &&
		    ch->incarnation != c->worker[rank].incarnation) {
			*p = ch->next;
			free(ch);
		} else {
			p = &ch->next;
		}
	}
	c->votes.changes_last = p;
}

struct change *coord_change_request(struct coord *c, enum change_kind kind, unsigned rank,
    enum worker_state after)
{
	struct change *ch = mem_alloc(sizeof *ch);

	if (kind < CHANGE_SET)
		drop_overtaken_changes(c, rank);

	ch->kind = kind;
	ch->rank = rank;
	ch->incarnation = c->worker[rank].incarnation;
	ch->after = after;
	*c->votes.changes_last = ch;
	c->votes.changes_last = &ch->next;
	c->state_rev++;
	return ch;
}

static json_t *proposal_to_json(const struct coord *c)
{
	const struct proposal *p = &c->votes.proposal;
	json_t *table = p->change->kind == CHANGE_TABLE ? coord_table_proposed(c) : NULL;
	json_t *o = MESSAGE(propose, .id = (int64_t)p->id, .kind = p->change->kind,
	    .rank = (int)p->change->rank, .incarnation = p->change->incarnation,
	    .step = (int64_t)p->step, .table = table,
	    .set = p->change->kind == CHANGE_SET ? coord_setting_proposed(c) : NULL);

	json_decref(table);
	return o;
}

static void send_proposal(struct coord *c, uint64_t step)
{
	struct proposal *p = &c->votes.proposal;
	json_t *msg;

	p->id = ++c->votes.next;
	c->state_rev++;
	p->step = step;
	p->epoch = c->layout.epoch;
	p->yes = p->answers = p->asked = 0;
	p->first_free = 0;
	p->clock = p->complete = UINT64_MAX;
	memset(p->answered, 0, c->nservers * sizeof *p->answered);
	msg = proposal_to_json(c);
	for (unsigned i = 0; i < c->nservers; i++)
		if (c->server[i].live) {
			p->asked++;
			c->io.to_server(c->io.ctx, i, msg);
		}
	json_decref(msg);
}

/* The server has a new session: repeat the question, because messages of the old session are
 * lost. */
void coord_change_ask_again(struct coord *c, unsigned server)
{
	json_t *msg;

	coord_settle_ask_again(c, server);
	if (!c->votes.proposal.open || c->votes.proposal.answered[server])
		return;
	msg = proposal_to_json(c);
	c->io.to_server(c->io.ctx, server, msg);
	json_decref(msg);
}

/* The step that a worker has reported. A worker that has reported none and is not active counts as
 * step 0, because nobody waits for it. */
static uint64_t reported_step(const struct coord_member_worker *w)
{
	return w->stats || w->state == WORKER_ACTIVE ? coord_worker_step(w) : 0;
}

/* The greatest reported step, without steps that are implausible beside the others'. The first step
 * of a worker's process is assigned to it, and is not one that it has reported. */
uint64_t coord_newest_step(const struct coord *c)
{
	uint64_t top = c->membership.first_step;
	struct steps all = { 0 };

	for (unsigned i = 0; i < c->nworkers; i++)
		steps_add(&all, reported_step(&c->worker[i]), c->worker[i].state == WORKER_ACTIVE);
	for (unsigned i = 0; i < c->nworkers; i++) {
		uint64_t step = reported_step(&c->worker[i]);

		if (step > top && step > c->worker[i].from &&
		    steps_believe(&all, step, c->worker[i].state == WORKER_ACTIVE, step))
			top = step;
	}
	return top;
}

static uint64_t greater(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* The step to propose first: beyond all reported steps, not before a change of members already
 * decided, and, for a change of a worker, not before the first step of its earlier process. */
static uint64_t choose_proposal_step(const struct coord *c, const struct change *ch)
{
	uint64_t step = coord_newest_step(c) + 1,
	         last = c->membership.n ? c->membership.entry[c->membership.n - 1].step : 0;

	step = greater(step, last);
	if (ch->kind == CHANGE_SET)
		return greater(step, coord_setting_earliest_step(c));
	if (ch->kind == CHANGE_TABLE)
		return greater(step, coord_table_earliest_step(c));
	return greater(step, c->worker[ch->rank].from);
}

/* Is the change still wanted? A change of a worker is void once the rank has a newer incarnation,
 * and the leave of a lost worker once it is done after all: the servers have all its pushes. */
static bool change_is_wanted(const struct coord *c, const struct change *ch)
{
	if (ch->kind == CHANGE_SET)
		return c->settings.requested != NULL;
	if (ch->kind == CHANGE_TABLE)
		return c->tables.request != NULL;
	return c->worker[ch->rank].incarnation == ch->incarnation &&
	    !(ch->kind == CHANGE_LEAVE && c->worker[ch->rank].state == WORKER_DONE);
}

void coord_change_propose_next(struct coord *c)
{
	struct proposal *p = &c->votes.proposal;

	while (c->votes.changes && !p->open) {
		struct change *ch = c->votes.changes;

		c->votes.changes = ch->next;
		if (!c->votes.changes)
			c->votes.changes_last = &c->votes.changes;
		if (!change_is_wanted(c, ch)) {
			free(ch);
			continue;
		}
		free(p->change);
		p->change = ch;
		p->open = true;
		p->rounds = 0;
		if (!p->answered)
			p->answered = mem_array(COORD_SERVERS_MAX, sizeof *p->answered);
		send_proposal(c, choose_proposal_step(c, ch));
	}
}

/* A resumed worker goes on at the step before the least clock of the servers: its push of that step
 * may have been lost with a primary. Servers that have the push treat the second one as a
 * duplicate. But it begins no earlier than the process before it did, whose first step was decided
 * as this one is. */
static uint64_t choose_resumed_step(const struct coord *c)
{
	const struct proposal *p = &c->votes.proposal;
	uint64_t step = p->clock > c->membership.first_step ? p->clock - 1 : p->clock,
	         from = c->worker[p->change->rank].from;

	return step > from ? step : from;
}

static void decide_change(struct coord *c, uint64_t step)
{
	struct proposal *p = &c->votes.proposal;
	struct change *ch = p->change;
	struct coord_member_worker *w = &c->worker[ch->rank];

	c->votes.proposal.open = false;
	c->votes.decided = c->votes.proposal.id;
	if (!change_is_wanted(c, ch)) {
		coord_changed(c);
		return;
	}
	if (ch->kind == CHANGE_SET || ch->kind == CHANGE_TABLE) {
		if (ch->kind == CHANGE_SET)
			coord_setting_decided(c, step);
		else
			coord_table_decided(c, step);
		coord_changed(c);
		return;
	}
	/* The rank's earlier process is fenced at all servers: others go on with its data exactly
	 * where it ended. */
	if (c->data.leases)
		coord_settle_begin(c, ch->rank, step,
		    p->answers && p->epoch == c->layout.epoch ? p->complete : 0);
	if (ch->kind == CHANGE_LEAVE) {
		w->state = ch->after;
		w->until = step;
		if (coord_members_have(c, ch->rank))
			append_changed_members(c, step, ch->rank, false);
	} else {
		w->state = WORKER_ACTIVE;
		w->from = step;
		w->resumes = false;
		/* Restarting a rank leaves the members as they are, except in a ring: there the
		 * new process is another member, and all must know the step from which it takes
		 * part. */
		if (ch->kind == CHANGE_JOIN && (!coord_members_have(c, ch->rank) || c->ring.used))
			append_changed_members(c, step, ch->rank, true);
	}
	coord_event(c, EVENT_members, "worker-%u %s from step %llu on", ch->rank,
	    ch->kind == CHANGE_LEAVE ? "is out" : "takes part", (unsigned long long)step);
	coord_changed(c);
}

/* Decide or propose again, once every server that was asked has voted. */
static void conclude_vote(struct coord *c)
{
	struct proposal *p = &c->votes.proposal;

	if (p->answers < p->asked)
		return;
	if (p->change->kind == CHANGE_RESUME)
		decide_change(c, choose_resumed_step(c));
	else if (p->yes == p->asked)
		decide_change(c, p->step);
	else
		/* Propose a step farther ahead each time, because fast workers move on during a
		 * vote. */
		send_proposal(c,
		    p->first_free + 1 + (UINT64_C(1) << (p->rounds < 20 ? p->rounds++ : 20)));
}

/* Count a server's vote; the last one decides, or leads to another proposal. Votes with another
 * number than the open proposal's are ignored. */
json_t *coord_on_vote(struct coord *c, const struct coord_request *r)
{
	const struct message_vote *m = &r->m->vote;
	unsigned server = r->self->index;
	struct proposal *p = &c->votes.proposal;
	uint64_t first_free = (uint64_t)m->first_free;
	uint64_t clock = (uint64_t)m->clock;

	if (!p->open || (uint64_t)m->id != p->id || p->answered[server])
		return NULL;
	FAIL_POINT("vote_heard");
	if ((p->change->kind == CHANGE_SET || p->change->kind == CHANGE_TABLE) && *m->refused) {
		p->open = false;
		c->votes.decided = p->id;
		if (p->change->kind == CHANGE_SET)
			coord_setting_refused(c, server, m->refused);
		else
			coord_table_refused(c, server, m->refused);
		return NULL;
	}
	p->answered[server] = true;
	p->answers++;
	p->yes += m->yes;
	if (first_free > p->first_free)
		p->first_free = first_free;
	if (clock < p->clock)
		p->clock = clock;
	if ((uint64_t)m->complete < p->complete)
		p->complete = (uint64_t)m->complete;
	conclude_vote(c);
	return NULL;
}

/* The new server has a vote, too: otherwise it could complete a step before it hears the
 * decision. */
void coord_change_server_joined(struct coord *c, unsigned server)
{
	coord_settle_servers_changed(c);
	if (!c->votes.proposal.open)
		return;
	c->votes.proposal.answered[server] = false;
	c->votes.proposal.asked++;
	coord_change_ask_again(c, server);
}

void coord_change_server_gone(struct coord *c)
{
	struct proposal *p = &c->votes.proposal;

	coord_settle_servers_changed(c);
	if (!p->open)
		return;
	/* Ask the remaining servers again under a new number, so that old votes do not count. */
	send_proposal(c, p->step > p->first_free ? p->step : p->first_free + 1);
}

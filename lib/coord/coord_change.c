#include "coord/coord_state.h"

#include "base/fail.h"
#include "base/json.h"
#include "base/mem.h"

/* Who takes part changes at one step S, the same for every server.  The
 * coordinator proposes S; a server that has taken a push of step S or later
 * says no and tells its frontier; one that says yes takes nothing of S and
 * later until it has seen the decision.  All yes: the view carries the new
 * members from S on.  A no: the next proposal lies beyond every frontier. */

/* ---- members ---------------------------------------------------------- */

static void add_members(struct coord *c, uint64_t step, struct deal_pos at, uint64_t batch, const unsigned *slot, unsigned n)
{
	struct members *m;

	c->members = mem_regrow(c->members, c->nmembers + 1, sizeof *c->members);
	m = &c->members[c->nmembers++];
	m->step = step;
	m->at = at;
	m->batch = batch;
	m->n = n;
	m->slot = mem_array(n + 1, sizeof *m->slot);
	memcpy(m->slot, slot, n * sizeof *slot);
	if (c->nmembers > MEMBERS_KEPT) {
		free(c->members[0].slot);
		memmove(c->members, c->members + 1, --c->nmembers * sizeof *c->members);
		c->members_base++;
	}
}

void members_begin(struct coord *c)
{
	unsigned *slot = mem_array(c->nworkers + 1, sizeof *slot), n = 0;

	for (unsigned i = 0; i < c->nworkers; i++)
		if (c->worker[i].state == WORKER_JOINING)
			slot[n++] = i;
	add_members(c, c->first_step, c->first_at, c->cfg.batch, slot, n);
	free(slot);
}

void members_release(struct coord *c)
{
	for (unsigned i = 0; i < c->nmembers; i++)
		free(c->members[i].slot);
	free(c->members);
}

json_t *members_to_json(const struct coord *c)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < c->nmembers; i++) {
		const struct members *m = &c->members[i];
		json_t *slots = json_array();

		for (unsigned k = 0; k < m->n; k++)
			json_array_append_new(slots, json_integer(m->slot[k]));
		json_array_append_new(list, json_pack("{s:I, s:I, s:I, s:I, s:o}", "step", (json_int_t)m->step, "epoch",
		    (json_int_t)m->at.epoch, "offset", (json_int_t)m->at.offset, "batch", (json_int_t)m->batch, "slots", slots));
	}
	return list;
}

bool members_from_json(struct coord *c, const json_t *list)
{
	const json_t *o, *slot;
	size_t i, k;

	if (!json_is_array(list) || json_array_size(list) > MEMBERS_KEPT)
		return false;
	json_array_foreach(list, i, o) {
		const json_t *slots = json_object_get(o, "slots");
		unsigned *in = mem_array(json_array_size(slots) + 1, sizeof *in);
		bool known = true;

		json_array_foreach(slots, k, slot) {
			in[k] = (unsigned)json_integer_value(slot);
			known &= in[k] < c->nworkers;
		}
		if (known)
			add_members(c, (uint64_t)json_int(o, "step", 0), (struct deal_pos){ (uint64_t)json_int(o, "epoch", 0),
			    (uint64_t)json_int(o, "offset", 0) }, (uint64_t)json_int(o, "batch", (int64_t)c->cfg.batch), in,
			    (unsigned)json_array_size(slots));
		free(in);
		if (!known)
			return false;
	}
	return true;
}

/* The members from `step` on: as the last ones, with or without `slot`. */
static void change_members(struct coord *c, uint64_t step, unsigned slot, bool in)
{
	const struct members *m = &c->members[c->nmembers - 1];
	struct deal_shape shape = { c->examples, m->batch, m->n ? m->n : 1 };
	struct deal_pos at = deal_advance(m->at, m->n ? step - m->step : 0, &shape);
	unsigned *list = mem_array(c->nworkers + 1, sizeof *list), n = 0;

	for (unsigned i = 0; i < c->nworkers; i++) {
		bool was = false;

		for (unsigned k = 0; k < m->n; k++)
			was |= m->slot[k] == i;
		if (i == slot ? in : was)
			list[n++] = i;
	}
	add_members(c, step, at, c->cfg.batch, list, n);
	free(list);
}

void members_again(struct coord *c, uint64_t step)
{
	if (c->nmembers)
		change_members(c, step, UINT_MAX, false);
}

static bool is_member(const struct coord *c, unsigned slot)
{
	const struct members *m = &c->members[c->nmembers - 1];

	for (unsigned k = 0; k < m->n; k++)
		if (m->slot[k] == slot)
			return true;
	return false;
}

/* ---- proposals -------------------------------------------------------- */

struct change *change_queue(struct coord *c, enum change_kind kind, unsigned slot, enum worker_state after)
{
	struct change *ch = mem_alloc(sizeof *ch);

	ch->kind = kind;
	ch->slot = slot;
	ch->incarnation = c->worker[slot].incarnation;
	ch->after = after;
	*c->changes_last = ch;
	c->changes_last = &ch->next;
	c->stamp++;
	return ch;
}

static json_t *proposal_text(const struct coord *c)
{
	const struct proposal *p = &c->prop;
	static const char *const kind[] = { "join", "resume", "leave", "bar", "release", "set", "table" };
	json_t *o = json_pack("{s:s, s:I, s:s, s:i, s:o, s:I}", "op", "propose", "id", (json_int_t)p->id, "kind",
	    kind[p->change->kind], "slot", (int)p->change->slot, "incarnation",
	    json_of_u64(p->change->incarnation), "step", (json_int_t)p->step);

	if (p->change->kind == CHANGE_SET)
		json_object_set(o, "set", (json_t *)(uintptr_t)setting_proposed(c));
	if (p->change->kind == CHANGE_TABLE)
		json_object_set_new(o, "table", table_proposed(c));
	return o;
}

static void propose(struct coord *c, uint64_t step)
{
	struct proposal *p = &c->prop;
	json_t *msg;

	p->id = ++c->next_proposal;
	c->stamp++;
	p->step = step;
	p->yes = p->answers = p->asked = 0;
	p->frontier = 0;
	p->clock = UINT64_MAX;
	memset(p->answered, 0, c->nservers * sizeof *p->answered);
	msg = proposal_text(c);
	for (unsigned i = 0; i < c->nservers; i++)
		if (c->server[i].live) {
			p->asked++;
			c->io.to_server(c->io.ctx, i, msg);
		}
	json_decref(msg);
}

/* The server has a new session; what was under way on the old one is lost. */
void change_ask_again(struct coord *c, unsigned server)
{
	json_t *msg;

	if (!c->prop.open || c->prop.answered[server])
		return;
	msg = proposal_text(c);
	c->io.to_server(c->io.ctx, server, msg);
	json_decref(msg);
}

/* The greatest step that a worker has told of. */
uint64_t coord_frontier(const struct coord *c)
{
	uint64_t top = c->first_step;

	for (unsigned i = 0; i < c->nworkers; i++) {
		uint64_t step = (uint64_t)json_int(c->worker[i].stats, "step", 0);

		if (step > top)
			top = step;
	}
	return top;
}

/* Beyond what is known of the workers, and not before a change that was decided. */
static uint64_t next_step(const struct coord *c)
{
	uint64_t step = coord_frontier(c) + 1, last = c->nmembers ? c->members[c->nmembers - 1].step : 0;

	return step > last ? step : last;
}

/* Still wanted: the slot has the incarnation that the change speaks of. */
static bool stands(const struct coord *c, const struct change *ch)
{
	if (ch->kind == CHANGE_SET)
		return c->wish != NULL;
	if (ch->kind == CHANGE_TABLE)
		return c->table_wish != NULL;
	return c->worker[ch->slot].incarnation == ch->incarnation;
}

void change_next(struct coord *c)
{
	struct proposal *p = &c->prop;
	uint64_t step;

	while (c->changes && !p->open) {
		struct change *ch = c->changes;

		c->changes = ch->next;
		if (!c->changes)
			c->changes_last = &c->changes;
		if (!stands(c, ch)) {
			free(ch);
			continue;
		}
		free(p->change);
		p->change = ch;
		p->open = true;
		p->rounds = 0;
		if (!p->answered)
			p->answered = mem_array(COORD_SERVERS_MAX, sizeof *p->answered);
		step = ch->kind == CHANGE_SET && setting_wanted(c) > next_step(c) ? setting_wanted(c) : next_step(c);
		propose(c, step);
	}
}

static void decide(struct coord *c, uint64_t step)
{
	struct change *ch = c->prop.change;
	struct member_worker *w = &c->worker[ch->slot];

	c->prop.open = false;
	c->decided = c->prop.id;
	if (!stands(c, ch)) {
		coord_changed(c);
		return;
	}
	if (ch->kind == CHANGE_BAR || ch->kind == CHANGE_RELEASE) {
		watch_decided(c, ch, step);
		coord_changed(c);
		return;
	}
	if (ch->kind == CHANGE_SET || ch->kind == CHANGE_TABLE) {
		if (ch->kind == CHANGE_SET)
			setting_decided(c, step);
		else
			table_decided(c, step);
		coord_changed(c);
		return;
	}
	if (ch->kind == CHANGE_LEAVE) {
		w->state = ch->after;
		w->until = step;
		if (c->tasks)           /* what it leased while the servers voted */
			tasks_return(c->tasks, ch->slot);
		if (is_member(c, ch->slot))
			change_members(c, step, ch->slot, false);
	} else {
		w->state = WORKER_ACTIVE;
		w->from = step;
		w->resumes = false;
		/* In a ring a slot's next holder is another member, of which all must know. */
		if (ch->kind == CHANGE_JOIN && (!is_member(c, ch->slot) || c->reduces))
			change_members(c, step, ch->slot, true);
	}
	coord_event(c, "members", "worker-%u %s from step %llu on", ch->slot,
	    ch->kind == CHANGE_LEAVE ? "is out" : "takes part", (unsigned long long)step);
	coord_changed(c);
}

/* When all that were asked have answered. */
static void conclude(struct coord *c)
{
	struct proposal *p = &c->prop;

	if (p->answers < p->asked)
		return;
	/* What it pushed for its last step may have died with a head; where it has
	 * not, it is a duplicate. */
	if (p->change->kind == CHANGE_RESUME)
		decide(c, p->clock > c->first_step ? p->clock - 1 : p->clock);
	else if (p->yes == p->asked)
		decide(c, p->step);
	else
		/* Further ahead each time: fast workers move on while we ask. */
		propose(c, p->frontier + 1 + (UINT64_C(1) << (p->rounds < 20 ? p->rounds++ : 20)));
}

void change_vote(struct coord *c, unsigned server, const json_t *msg)
{
	struct proposal *p = &c->prop;
	uint64_t frontier = (uint64_t)json_int(msg, "frontier", 0);
	uint64_t clock = (uint64_t)json_int(msg, "clock", 0);

	if (!p->open || (uint64_t)json_int(msg, "id", 0) != p->id || p->answered[server])
		return;
	FAIL_POINT("vote_heard");
	if ((p->change->kind == CHANGE_SET || p->change->kind == CHANGE_TABLE) && json_str(msg, "refused", NULL)) {
		p->open = false;
		c->decided = p->id;
		if (p->change->kind == CHANGE_SET)
			setting_refused(c, server, json_str(msg, "refused", ""));
		else
			table_refused(c, server, json_str(msg, "refused", ""));
		return;
	}
	p->answered[server] = true;
	p->answers++;
	p->yes += json_flag(msg, "yes");
	if (frontier > p->frontier)
		p->frontier = frontier;
	if (clock < p->clock)
		p->clock = clock;
	conclude(c);
}

/* It may let a step pass before it hears of the decision: it has a vote, too. */
void change_server_came(struct coord *c, unsigned server)
{
	if (!c->prop.open)
		return;
	c->prop.answered[server] = false;
	c->prop.asked++;
	change_ask_again(c, server);
}

void change_server_gone(struct coord *c)
{
	struct proposal *p = &c->prop;

	if (!p->open)
		return;
	/* Those that are left are asked afresh. */
	propose(c, p->step > p->frontier ? p->step : p->frontier + 1);
}

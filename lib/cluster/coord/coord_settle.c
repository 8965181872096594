/* SPDX-License-Identifier: ISC */
#include "coord/coord_state.h"

#include "core/json.h"
#include "core/mem.h"

/* When the process of a rank was lost or replaced, this file decides when its ranges of the
 * training data are leased again. Others continue where its pushes end, so it must be certain which
 * of them count. A push that only the first server of a chain has does not count yet, because it is
 * lost with that server. In bsp no push of a step counts before the step is closed. So each server
 * is asked which pushes of the rank it has, and answers once none of them can be lost with it.
 * Until all have answered, the rank's ranges are leased to nobody, and the rank gets no others, so
 * that the answers are about its earlier process alone.
 *
 *   unsettled   all servers have answered          settled: leases_take_back
 *   unsettled   a server joins, leaves or is lost  unsettled; all are asked again under a new number,
 *                                                  because the answers so far may be about pushes that
 *                                                  are lost now
 *   unsettled   chains change otherwise            as above, because partitions have moved: a new replica
 *                                                  may have answered before it had a push, and the server
 *                                                  that hands the partition over no longer answers for it
 *
 * For the same reason a server answers only when it has the layout epoch of the question. Its
 * answer under an earlier one could be followed by a record of a server that is lost, or lack a
 * partition. */

static struct settling **find_settling(struct coord *c, unsigned rank)
{
	struct settling **s = &c->votes.settling;

	while (*s && (*s)->rank != rank)
		s = &(*s)->next;
	return s;
}

bool coord_settle_is_open(const struct coord *c, unsigned rank)
{
	for (const struct settling *s = c->votes.settling; s; s = s->next)
		if (s->rank == rank)
			return true;
	return false;
}

uint64_t coord_settle_from(const struct coord *c, unsigned rank)
{
	for (const struct settling *s = c->votes.settling; s; s = s->next)
		if (s->rank == rank)
			return s->from;
	return 0;
}

static void free_settling(struct settling *s)
{
	taken_release(&s->taken);
	free(s->answered);
	free(s);
}

void coord_settle_drop(struct coord *c, unsigned rank)
{
	struct settling **at = find_settling(c, rank), *s = *at;

	if (!s)
		return;
	*at = s->next;
	free_settling(s);
	c->state_rev++;
}

void coord_settle_release(struct coord *c)
{
	while (c->votes.settling)
		coord_settle_drop(c, c->votes.settling->rank);
}

static void send_question(struct coord *c, const struct settling *s, unsigned server)
{
	json_t *msg = MESSAGE(settle, .id = (int64_t)s->id, .rank = (int)s->rank,
	    .step = (int64_t)s->from, .epoch = c->layout.epoch);

	c->io.to_server(c->io.ctx, server, msg);
	json_decref(msg);
}

static void ask_servers(struct coord *c, struct settling *s)
{
	s->id = ++c->votes.next;
	s->asked = s->answers = 0;
	taken_release(&s->taken);
	memset(s->answered, 0, COORD_SERVERS_MAX * sizeof *s->answered);
	for (unsigned i = 0; i < c->nservers; i++)
		if (c->server[i].live) {
			s->asked++;
			send_question(c, s, i);
		}
	c->state_rev++;
}

void coord_settle_begin(struct coord *c, unsigned rank, uint64_t from, uint64_t complete)
{
	struct settling *s = *find_settling(c, rank);

	/* A successor was lost, too, before the ranges of the first process were taken back. It has
	 * trained on none of them, but the servers have counted the steps before its first one as
	 * completed. What an earlier vote said of the first process is still true. */
	if (s && s->complete < complete)
		complete = s->complete;
	coord_settle_drop(c, rank);
	/* The successor in an assigned range makes the same pushes again, and servers drop those
	 * that they have. */
	if (leases_are_assigned(c->data.leases) || !leases_held(c->data.leases, rank)) {
		leases_take_back(c->data.leases, rank, 0, NULL);
		return;
	}
	s = mem_alloc(sizeof *s);
	s->rank = rank;
	s->from = from;
	s->complete = complete;
	s->answered = mem_array(COORD_SERVERS_MAX, sizeof *s->answered);
	s->next = c->votes.settling;
	c->votes.settling = s;
	ask_servers(c, s);
}

void coord_settle_ask_again(struct coord *c, unsigned server)
{
	for (const struct settling *s = c->votes.settling; s; s = s->next)
		if (!s->answered[server])
			send_question(c, s, server);
}

void coord_settle_chains_changed(struct coord *c)
{
	for (struct settling *s = c->votes.settling; s; s = s->next)
		ask_servers(c, s);
}

void coord_settle_servers_changed(struct coord *c)
{
	for (struct settling *s = c->votes.settling; s; s = s->next) {
		s->complete = 0;
		ask_servers(c, s);
	}
}

/* The first step of which some partition may lack the rank's push. A partition takes a rank's
 * pushes in the order of their steps, so it has all of those before its number. */
static uint64_t first_incomplete_step(const struct coord *c, const struct settling *s)
{
	uint64_t least = UINT64_MAX;

	for (size_t i = 0; i < c->layout.ntables; i++) {
		const struct table *t = &c->layout.table[i];
		uint64_t n = taken_least(&s->taken, t->id, t->nparts);

		least = n < least ? n : least;
	}
	return least != UINT64_MAX && least > s->complete ? least : s->complete;
}

/* Counts a server's answer. The last one gives the ranges back. Answers with another number than
 * the present question's are ignored. */
json_t *coord_on_settled(struct coord *c, const struct coord_request *r)
{
	const struct message_settled *m = &r->m->settled;
	unsigned server = r->self->index;
	struct settling *s = c->votes.settling;
	struct taken taken;

	while (s && s->id != (uint64_t)m->id)
		s = s->next;
	if (!s || s->answered[server])
		return NULL;
	s->answered[server] = true;
	s->answers++;
	/* A malformed list counts as an empty one: it comes from a server that breaks the
	 * protocol. */
	taken_from_json(m->taken, &taken, NULL);
	taken_merge(&s->taken, &taken);
	taken_release(&taken);
	if (s->answers < s->asked)
		return NULL;
	leases_take_back(c->data.leases, s->rank, first_incomplete_step(c, s), &s->taken);
	coord_settle_drop(c, s->rank);
	/* Workers without data wait for a change of the view before they ask again. */
	coord_changed(c);
	return NULL;
}

/* SPDX-License-Identifier: ISC */
#include "store/settle.h"

#include "core/fail.h"
#include "core/json.h"
#include "core/mem.h"
#include "layout/taken.h"
#include "store/replicate_state.h"

struct settle_question {
	struct settle_question *next;
	struct repl *repl;
	int64_t id;
	uint32_t rank;
	uint64_t from;  /* the step from which on the rank's next process takes part */
	uint32_t epoch; /* the least layout epoch under which to answer */
};

static void free_question(struct settle_question **at)
{
	struct settle_question *q = *at;

	*at = q->next;
	free(q);
}

static void add_question(void *ctx)
{
	struct settle_question *q = ctx, **at = &q->repl->questions;

	while (*at)
		if ((*at)->rank == q->rank)
			free_question(at);
		else
			at = &(*at)->next;
	*at = q;
	settle_answer(q->repl);
}

void store_on_settle(struct server *s, const struct message *message)
{
	const struct message_settle *m = &message->settle;
	struct settle_question *q = mem_alloc(sizeof *q);

	*q = (struct settle_question){ .repl = store_of(s)->repl,
		.id = m->id,
		.rank = (uint32_t)m->rank,
		.from = (uint64_t)m->step,
		.epoch = (uint32_t)m->epoch };
	loop_post(q->repl->loop, add_question, q);
}

/* Answers the question. False: a push may still be lost with this server, or the question is about
 * a layout that is not installed here. */
static bool try_to_answer(struct server *s, const struct settle_question *q)
{
	struct shard *shard = atomic_load(&s->shard);
	struct taken taken = { 0 };
	json_t *list;

	if (!shard || atomic_load(&s->epochs.installed) < q->epoch ||
	    shard_list_taken(shard, q->rank, q->from, &taken) != SHARD_OK)
		return false;
	FAIL_POINT("settled");
	list = taken_to_json(&taken);
	agent_tell(s->agent, MESSAGE(settled, .id = q->id, .taken = list));
	json_decref(list);
	taken_release(&taken);
	return true;
}

void settle_answer(struct repl *r)
{
	struct settle_question **at = &r->questions;

	while (*at)
		if (try_to_answer(r->server, *at))
			free_question(at);
		else
			at = &(*at)->next;
}

void settle_release(struct repl *r)
{
	while (r->questions)
		free_question(&r->questions);
}

/* SPDX-License-Identifier: ISC */
#include "coord/coord_state.h"

#include "core/clock.h"
#include "core/json.h"
#include "msg/answer.h"

/* The description of the training data. The first worker's holds for all. One that is large
 * (msg/large_description.h) comes in pieces before the message that refers to it; workers that send
 * the same one share the work, because a piece that is here is not sent again. The state machine
 * never parses it. */

static bool is_replaced_by_workers(const struct coord *c)
{
	return (c->data.given || c->data.resumed) && !c->placed;
}

/* Would a worker's description be kept? */
static bool is_wanted(const struct coord *c, const struct description_reference *r)
{
	return !large_description_is(c->data.large, r) &&
	    (!c->data.facts || is_replaced_by_workers(c));
}

static struct coord_upload *find_upload(struct coord *c, const struct description_reference *r)
{
	for (size_t i = 0; i < UPLOADS_MAX; i++) {
		struct coord_upload *u = &c->data.upload[i];

		if (large_description_is(u->whole, r) ||
		    (u->pieces.size == (size_t)r->size &&
		        strcmp(u->pieces.blake2b, r->blake2b) == 0))
			return u;
	}
	return NULL;
}

static void release_upload(struct coord_upload *u)
{
	description_pieces_release(&u->pieces);
	large_description_release(u->whole);
	*u = (struct coord_upload){ 0 };
}

/* Finds a place for a description: a free one, or one whose sender has been silent. */
static struct coord_upload *begin_upload(struct coord *c, const struct description_reference *r,
    int64_t now)
{
	for (size_t i = 0; i < UPLOADS_MAX; i++) {
		struct coord_upload *u = &c->data.upload[i];

		if ((u->pieces.size || u->whole) && now - u->at < UPLOAD_RESTS)
			continue;
		release_upload(u);
		description_pieces_begin(&u->pieces, r);
		return u;
	}
	return NULL;
}

/* A large description that is here, borrowed; NULL: it is not. */
static struct large_description *find_large(struct coord *c, const struct description_reference *r)
{
	const struct coord_upload *u;

	if (large_description_is(c->data.large, r))
		return c->data.large;
	if (large_description_is(c->cfg.description, r))
		return c->cfg.description;
	u = find_upload(c, r);
	return u ? u->whole : NULL;
}

bool coord_description_set(struct coord *c, const json_t *facts)
{
	struct description_reference r;
	struct large_description *large = NULL;
	bool refers = facts && large_description_is_reference(facts, &r), here = true;
	json_t *now = NULL;

	if (refers)
		here = (large = large_description_hold(find_large(c, &r))) != NULL;
	else if (facts && large_description_of(facts, &large, NULL))
		here = false;
	if (here && large)
		now = large_description_refer(large);
	else if (here && facts)
		now = json_deep_copy(facts);
	large_description_release(c->data.large);
	json_decref(c->data.facts);
	c->data.facts = now;
	c->data.large = large;
	for (size_t i = 0; large && i < UPLOADS_MAX; i++)
		release_upload(&c->data.upload[i]);
	return here;
}

void coord_description_store(struct coord *c, const json_t *facts)
{
	struct description_reference r;

	if (!json_is_object(facts) || (c->data.facts && !is_replaced_by_workers(c)) ||
	    (large_description_is_reference(facts, &r) && large_description_is(c->data.large, &r)))
		return;
	coord_description_set(c, facts);
}

bool coord_description_is_here(struct coord *c, const json_t *facts)
{
	struct description_reference r;

	return !facts || !large_description_is_reference(facts, &r) || !is_wanted(c, &r) ||
	    find_large(c, &r);
}

struct large_description *coord_large_description(const struct coord *c)
{
	return c->data.large;
}

void coord_description_free(struct coord *c)
{
	for (size_t i = 0; i < UPLOADS_MAX; i++)
		release_upload(&c->data.upload[i]);
	large_description_release(c->data.large);
	json_decref(c->data.facts);
}

/* ---- messages ---- */

/* Adds the piece to the upload. The bytes that are here afterwards. */
static enum err_code take_piece(struct coord_upload *u, const struct message_describe *m,
    size_t *have, struct err *e)
{
	enum err_code rc = ERR_OK;

	if (!u->whole && m->text)
		rc = description_pieces_add(&u->pieces, (size_t)m->at, m->text, e);
	if (!rc && description_pieces_are_complete(&u->pieces))
		rc = description_pieces_end(&u->pieces, &u->whole, e);
	*have = u->whole ? u->whole->size : u->pieces.text.len;
	if (rc)
		release_upload(u);
	return rc;
}

json_t *coord_on_describe(struct coord *c, const struct coord_request *r)
{
	const struct message_describe *m = &r->m->describe;
	const struct description_reference to = { .size = m->size, .blake2b = m->blake2b };
	struct coord_upload *u;
	size_t have;

	if (!large_description_may_be(&to)) {
		err_set(r->e, ERR_PROTO, "a description must have a digest and at most %zu bytes",
		    DESCRIPTION_MAX);
		return NULL;
	}
	if (!is_wanted(c, &to))
		return ANSWER(describe, .have = m->size);
	u = find_upload(c, &to);
	if (!u)
		u = begin_upload(c, &to, r->now);
	if (!u)
		return ANSWER(describe, .wait = true);
	u->at = r->now;
	if (take_piece(u, m, &have, r->e))
		return NULL;
	return ANSWER(describe, .have = (int64_t)have);
}

json_t *coord_on_description(struct coord *c, const struct coord_request *r)
{
	const struct message_description *m = &r->m->description;
	const struct large_description *large = c->data.large;
	json_t *text, *answer;

	if (!large || strcmp(large->blake2b, m->blake2b) != 0) {
		err_set(r->e, ERR_NOTFOUND,
		    "the description of the training data has changed: ask for it again");
		return NULL;
	}
	text = large_description_piece(large, (size_t)m->at);
	answer = ANSWER(description, .text = text);
	json_decref(text);
	return answer;
}

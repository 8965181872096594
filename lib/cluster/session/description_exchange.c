/* SPDX-License-Identifier: ISC */
#include "session/description_exchange.h"

#include "core/clock.h"
#include "core/json.h"
#include "msg/answer.h"
#include "msg/large_description.h"

/* How often a description is asked for that workers replace meanwhile, or offered that has been
 * dropped. */
#define TRIES 8
/* The pause while the coordinator receives others, in ms. */
#define PAUSE 100

/* ---- sending ---- */

/* Sends one piece; without a text, only asks. *have: the bytes that the coordinator has then. */
static enum err_code send_piece(struct agent *a, const struct large_description *d, size_t at,
    const json_t *text, int64_t timeout, struct answer_describe *out, struct err *e)
{
	json_t *msg = MESSAGE(describe, .size = (int64_t)d->size, .blake2b = d->blake2b,
	    .at = (int64_t)at, .text = text);
	json_t *answer;
	enum err_code rc = agent_call(a, msg, timeout, &answer, e);

	json_decref(msg);
	if (rc)
		return rc;
	rc = answer_decode_describe(answer, out, e);
	answer_release_describe(out);
	json_decref(answer);
	return rc;
}

static enum err_code send_text(struct agent *a, const struct large_description *d, int64_t timeout,
    struct err *e)
{
	struct answer_describe answer = { 0 };
	enum err_code rc = send_piece(a, d, 0, NULL, timeout, &answer, e);

	while (!rc && (answer.wait || (uint64_t)answer.have < d->size)) {
		size_t at = answer.wait ? 0 : (size_t)answer.have;
		json_t *text = answer.wait ? NULL : large_description_piece(d, at);

		if (answer.wait)
			clock_sleep(PAUSE);
		rc = send_piece(a, d, at, text, timeout, &answer, e);
		json_decref(text);
	}
	return rc;
}

enum err_code description_send(struct agent *a, const json_t *facts, int64_t timeout, json_t **doc,
    struct err *e)
{
	struct large_description *d;
	enum err_code rc = large_description_of(facts, &d, e);

	*doc = NULL;
	if (!rc && d)
		rc = send_text(a, d, timeout, e);
	if (!rc)
		*doc = d ? large_description_refer(d) : json_incref((json_t *)(uintptr_t)facts);
	large_description_release(d);
	return rc;
}

/* ---- receiving ---- */

/* Asks for one piece. *done: the text has ended. */
static enum err_code receive_piece(struct agent *a, struct description_pieces *p, int64_t timeout,
    bool *done, struct err *e)
{
	json_t *msg = MESSAGE(description, .blake2b = p->blake2b, .at = (int64_t)p->text.len);
	struct answer_description piece;
	json_t *answer;
	enum err_code rc = agent_call(a, msg, timeout, &answer, e);

	json_decref(msg);
	if (rc)
		return rc;
	rc = answer_decode_description(answer, &piece, e);
	*done = !rc && !json_is_string(piece.text);
	if (!rc && !*done)
		rc = description_pieces_add(p, p->text.len, piece.text, e);
	answer_release_description(&piece);
	json_decref(answer);
	return rc;
}

/* Receives the description that `doc` refers to; a document that is not a reference is the
 * description. */
static enum err_code receive_facts(struct agent *a, const json_t *doc, int64_t timeout,
    json_t **facts, struct err *e)
{
	struct description_pieces pieces = { 0 };
	struct description_reference r;
	struct large_description *d;
	enum err_code rc = ERR_OK;
	bool done = false;

	*facts = NULL;
	if (!large_description_is_reference(doc, &r)) {
		*facts = json_is_object(doc) ? json_incref((json_t *)(uintptr_t)doc) : NULL;
		return ERR_OK;
	}
	description_pieces_begin(&pieces, &r);
	while (!rc && !done && !description_pieces_are_complete(&pieces))
		rc = receive_piece(a, &pieces, timeout, &done, e);
	if (!rc)
		rc = description_pieces_end(&pieces, &d, e);
	description_pieces_release(&pieces);
	if (rc)
		return rc;
	rc = large_description_parse(d, "the coordinator's message", facts, e);
	large_description_release(d);
	return rc;
}

/* One try: the description may be replaced while it is received (ERR_NOTFOUND). */
static enum err_code ask_once(struct agent *a, int64_t timeout, bool *given, json_t **facts,
    struct err *e)
{
	json_t *msg = MESSAGE(facts), *answer;
	struct answer_facts found;
	enum err_code rc = agent_call(a, msg, timeout, &answer, e);

	json_decref(msg);
	if (rc)
		return rc;
	rc = answer_decode_facts(answer, &found, e);
	*given = !rc && found.given;
	if (!rc)
		rc = receive_facts(a, found.facts, timeout, facts, e);
	answer_release_facts(&found);
	json_decref(answer);
	return rc;
}

enum err_code description_ask(struct agent *a, int64_t timeout, bool *given, json_t **facts,
    struct err *e)
{
	enum err_code rc = ERR_NOTFOUND;

	*facts = NULL;
	*given = false;
	for (int i = 0; rc == ERR_NOTFOUND && i < TRIES; i++)
		rc = ask_once(a, timeout, given, facts, e);
	return rc;
}

/* Offers `doc`, or what represents it in the message, `offer`. */
static enum err_code offer_once(struct agent *a, const json_t *offer, const json_t *doc,
    int64_t timeout, json_t **facts, struct err *e)
{
	json_t *msg = MESSAGE(offer_facts, .facts = doc), *answer;
	struct answer_offer_facts found;
	enum err_code rc = agent_call(a, msg, timeout, &answer, e);

	json_decref(msg);
	if (rc)
		return rc;
	rc = answer_decode_offer_facts(answer, &found, e);
	if (!rc && doc && json_equal(found.facts, doc))
		*facts = json_incref((json_t *)(uintptr_t)offer);
	else if (!rc)
		rc = receive_facts(a, found.facts, timeout, facts, e);
	answer_release_offer_facts(&found);
	json_decref(answer);
	return rc;
}

enum err_code description_offer(struct agent *a, const json_t *offer, int64_t timeout,
    json_t **facts, struct err *e)
{
	enum err_code rc = ERR_NOTREADY;

	*facts = NULL;
	/* A restarted coordinator may lack the pieces, and the description that holds may be
	 * replaced. */
	for (int i = 0; (rc == ERR_NOTREADY || rc == ERR_NOTFOUND) && i < TRIES; i++) {
		json_t *doc;

		rc = description_send(a, offer, timeout, &doc, e);
		if (!rc)
			rc = offer_once(a, offer, doc, timeout, facts, e);
		json_decref(doc);
	}
	return rc;
}

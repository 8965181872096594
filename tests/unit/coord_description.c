/* SPDX-License-Identifier: ISC */
/* Large descriptions of data that workers send to the coordinator in pieces. */
#include "coord_fixture.h"

#include "core/mem.h"
#include "msg/large_description.h"
#include "msg/message.h"

/* A description of n names with this letter. */
static struct large_description *describe(char letter, size_t n)
{
	json_t *names = json_array(), *facts;
	struct large_description *d;
	struct err e = { 0 };

	for (size_t i = 0; i < n; i++)
		json_array_append_new(names, json_sprintf("%c%zu", letter, i));
	facts = json_pack("{s:o}", "names", names);
	if (large_description_of(facts, &d, &e) || !d)
		abort();
	json_decref(facts);
	return d;
}

static json_t *hear(struct scene *s, unsigned worker, json_t *msg)
{
	json_t *answer;

	s->e = (struct err){ 0 };
	answer = hear_json(s->c, &s->worker[worker], msg, s->now, &s->e);
	json_decref(msg);
	return answer;
}

/* Sends the piece at byte `at`, or only asks. The bytes that the coordinator has; -1: wait, -2: refused. */
static int64_t send_piece(struct scene *s, unsigned worker, const struct large_description *d,
    size_t at, bool asks)
{
	json_t *text = asks ? NULL : large_description_piece(d, at);
	json_t *answer = hear(s, worker,
	    MESSAGE(describe, .size = (int64_t)d->size, .blake2b = d->blake2b, .at = (int64_t)at,
	        .text = text));
	int64_t have = !answer ? -2 : json_flag(answer, "wait") ? -1 : json_int(answer, "have", -3);

	json_decref(text);
	json_decref(answer);
	return have;
}

/* Joins with a reference; waits: it asks again. The text of the answer, or of the error. */
static const char *join(struct scene *s, unsigned worker, const struct large_description *d,
    bool waits)
{
	static char out[600];
	json_t *tables = json_pack("[{s:s, s:i, s:i}]", "name", "w", "rows", 5, "cols", 1),
	       *refers = large_description_refer(d), *answer;
	char *text;

	answer = hear(s, worker,
	    MESSAGE(worker_join, .rank = -1, .pid = 200, .host = "h", .examples = 100,
	        .tables = tables, .facts = refers, .waits = waits));
	text = json_text(answer);
	snprintf(out, sizeof out, "%s", answer ? text : s->e.msg);
	free(text);
	json_decref(answer);
	json_decref(tables);
	json_decref(refers);
	return out;
}

static bool is_undescribed(const char *answer)
{
	return strncmp(answer, "{\"undescribed\":", 15) == 0;
}

/* Does the coordinator give this description to whoever asks? */
static bool gives(struct scene *s, const struct large_description *d)
{
	json_t *answer = hear(s, 1, MESSAGE(facts)), *facts = json_object_get(answer, "facts");
	struct description_reference r;
	struct description_pieces p = { 0 };
	struct large_description *got = NULL;
	bool good = large_description_is_reference(facts, &r) && large_description_is(d, &r);

	description_pieces_begin(&p, &r);
	while (good && !description_pieces_are_complete(&p)) {
		json_t *piece = hear(s, 1,
		    MESSAGE(description, .blake2b = r.blake2b, .at = (int64_t)p.text.len));

		good = piece &&
		    !description_pieces_add(&p, p.text.len, json_object_get(piece, "text"), NULL);
		json_decref(piece);
	}
	good = good && !description_pieces_end(&p, &got, NULL);
	description_pieces_release(&p);
	large_description_release(got);
	json_decref(answer);
	return good;
}

static void one_for_all(void)
{
	struct large_description *d = describe('a', 300000), *other = describe('b', 20000);
	json_t *state;
	struct scene s;
	int64_t have;

	scene_open(&s, 1, 2);
	scene_begin(&s);
	join_as_server(&s, 0);
	ok(is_undescribed(join(&s, 0, d, true)),
	    "a worker whose description is not here is told so");
	ok(strstr(join(&s, 0, d, false), "does not have the description") != NULL &&
	        s.e.code == ERR_NOTREADY,
	    "or refused, if it does not ask again: %s", s.e.msg);
	have = send_piece(&s, 0, d, 0, false);
	ok(have == (int64_t)DESCRIPTION_PIECE, "the first piece is kept");
	ok(send_piece(&s, 1, d, 0, true) == have, "another worker goes on where the first one is");
	ok(send_piece(&s, 1, d, (size_t)have, false) == 2 * have &&
	        send_piece(&s, 0, d, (size_t)have, false) == 2 * have,
	    "a piece that both send counts once");
	ok(send_piece(&s, 0, d, 2 * (size_t)have, false) == (int64_t)d->size, "it is complete");
	ok(strcmp(join(&s, 0, d, true), "{\"rank\":0}") == 0 && gives(&s, d),
	    "the worker joins, and its description holds");
	ok(send_piece(&s, 1, other, 0, true) == (int64_t)other->size &&
	        strcmp(join(&s, 1, other, true), "{\"rank\":1}") == 0 && gives(&s, d),
	    "that of another worker is not wanted");
	ack_all(&s);
	ok(in_phase(&s, PHASE_RUNNING), "the job runs");
	state = saved_state(s.c);
	ok(json_dumpb(state, NULL, 0, 0) < 20000, "the state only refers to it");
	s.cfg.description = large_description_hold(d);
	ok(scene_again_from(&s, state) && gives(&s, d), "and is recovered with it: %s", s.e.msg);
	s.cfg.description = NULL;
	ok(!scene_again_from(&s, state) && strstr(s.e.msg, "is missing"),
	    "a state without its description is refused: %s", s.e.msg);
	json_decref(state);
	scene_close(&s);
	large_description_release(d);
	large_description_release(d);
	large_description_release(other);
}

static void strangers(void)
{
	struct large_description *d[6], *lie;
	struct scene s;
	json_t *answer;

	scene_open(&s, 1, 1);
	scene_begin(&s);
	for (unsigned i = 0; i < 6; i++)
		d[i] = describe((char)('a' + i), 20000);
	ok(send_piece(&s, 0, d[0], 0, false) == (int64_t)d[0]->size &&
	        send_piece(&s, 0, d[1], 0, false) == (int64_t)d[1]->size &&
	        send_piece(&s, 0, d[2], 0, false) == (int64_t)d[2]->size &&
	        send_piece(&s, 0, d[3], 0, false) == (int64_t)d[3]->size,
	    "four descriptions may come at once");
	ok(send_piece(&s, 0, d[4], 0, false) == -1, "a fifth one waits");
	s.now += 6 * NSEC_PER_SEC;
	ok(send_piece(&s, 0, d[4], 0, false) == (int64_t)d[4]->size &&
	        is_undescribed(join(&s, 0, d[0], true)) &&
	        send_piece(&s, 0, d[0], 0, false) == (int64_t)d[0]->size &&
	        strcmp(join(&s, 0, d[0], true), "{\"rank\":0}") == 0,
	    "until one of the others has been at rest; that one is sent again");
	scene_close(&s);
	scene_open(&s, 1, 1);
	scene_begin(&s);
	lie = large_description_of_text(mem_strdup(d[0]->text), d[0]->size);
	lie->blake2b[0] = lie->blake2b[0] == '0' ? '1' : '0';
	ok(send_piece(&s, 0, lie, 0, false) == -2 && s.e.code == ERR_FORMAT,
	    "a text with another digest is refused: %s", s.e.msg);
	ok(is_undescribed(join(&s, 0, lie, true)), "and is not here");
	snprintf(lie->blake2b, sizeof lie->blake2b, "../../etc/passwd");
	ok(send_piece(&s, 0, lie, 0, false) == -2 && s.e.code == ERR_PROTO,
	    "so is a false digest: %s", s.e.msg);
	answer = hear(&s, 0, MESSAGE(description, .blake2b = d[0]->blake2b));
	ok(!answer && s.e.code == ERR_NOTFOUND, "nothing is given where there is none: %s",
	    s.e.msg);
	for (unsigned i = 0; i < 6; i++)
		large_description_release(d[i]);
	large_description_release(lie);
	scene_close(&s);
}

/* A worker that sends all of a large description in its message, as earlier ones did. */
static void inline_document(void)
{
	struct large_description *d = describe('a', 20000);
	json_t *facts = json_loads(d->text, 0, NULL),
	       *tables = json_pack("[{s:s, s:i, s:i}]", "name", "w", "rows", 5, "cols", 1), *answer;
	struct scene s;

	scene_open(&s, 1, 1);
	scene_begin(&s);
	answer = hear(&s, 0,
	    MESSAGE(worker_join, .rank = -1, .pid = 200, .host = "h", .examples = 100,
	        .tables = tables, .facts = facts));
	ok(answer && gives(&s, d),
	    "a description within the message is kept beside the state, too");
	json_decref(answer);
	json_decref(tables);
	json_decref(facts);
	large_description_release(d);
	scene_close(&s);
}

int main(void)
{
	one_for_all();
	strangers();
	inline_document();
	return tap_done();
}

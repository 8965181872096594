/* SPDX-License-Identifier: ISC */
#include "core/json.h"
#include "core/mem.h"
#include "tap.h"
#include "msg/answer.h"
#include "msg/message.h"

/* Control messages: what is encoded is decoded again, and what is not as message.def says is
 * refused with a sentence. */

static enum err_code decode(const char *text, unsigned role, struct message *out, json_t **json,
    struct err *e)
{
	*e = (struct err){ 0 };
	*json = json_parse(text, strlen(text), 4096, e);
	return *json ? message_decode(*json, role, out, e) : e->code;
}

static void test_round_trip(void)
{
	json_t *tables = json_array(), *json;
	struct message m;
	struct err e = { 0 };

	json = MESSAGE(worker_join, .rank = 3, .pid = 7, .host = "h", .examples = 100,
	    .first = true, .tables = tables);
	ok(message_decode(json, ROLE_WORKER, &m, &e) == ERR_OK && m.kind == MESSAGE_worker_join,
	    "a worker_join is decoded: %s", e.msg);
	ok(m.worker_join.rank == 3 && m.worker_join.pid == 7 && m.worker_join.examples == 100,
	    "with its integers");
	ok(m.worker_join.first && !m.worker_join.evaluates, "its flags");
	ok(strcmp(m.worker_join.host, "h") == 0 && !*m.worker_join.zone, "its texts");
	ok(m.worker_join.tables == tables && !m.worker_join.ring, "and its documents");
	message_set_int(json, "rank", 5);
	ok(!message_decode(json, ROLE_WORKER, &m, &e) && m.worker_join.rank == 5,
	    "an integer can be replaced");
	json_decref(json);
	json_decref(tables);
	json = MESSAGE(propose, .kind = CHANGE_JOIN, .incarnation = UINT64_MAX);
	ok(!message_decode(json, MESSAGE_COORDINATOR, &m, &e) &&
	        m.propose.incarnation == UINT64_MAX,
	    "64 random bits pass unchanged");
	json_decref(json);
}

static void test_refusals(void)
{
	static const struct {
		const char *text;
		unsigned role;
		enum err_code code;
	} bad[] = {
		{ "{}", ROLE_WORKER, ERR_PROTO },
		{ "[]", ROLE_WORKER, ERR_PROTO },
		{ "{\"op\":1}", ROLE_WORKER, ERR_PROTO },
		{ "{\"op\":\"gibberish\"}", ROLE_WORKER, ERR_PROTO },
		{ "{\"op\":\"ack\",\"rev\":1}", ROLE_WORKER, ERR_FORBIDDEN },
		{ "{\"op\":\"propose\"}", ROLE_SERVER, ERR_FORBIDDEN },
		{ "{\"op\":\"ack\",\"rev\":-1}", ROLE_SERVER, ERR_PROTO },
		{ "{\"op\":\"ack\",\"rev\":\"1\"}", ROLE_SERVER, ERR_PROTO },
		{ "{\"op\":\"ack\",\"rev\":1.5}", ROLE_SERVER, ERR_PROTO },
		{ "{\"op\":\"vote\",\"yes\":1}", ROLE_SERVER, ERR_PROTO },
		{ "{\"op\":\"vote\",\"refused\":{}}", ROLE_SERVER, ERR_PROTO },
		{ "{\"op\":\"copied\",\"server\":2147483648}", ROLE_SERVER, ERR_PROTO },
		{ "{\"op\":\"confirm\",\"epoch\":4294967299}", ROLE_WORKER, ERR_PROTO },
		{ "{\"op\":\"propose\",\"incarnation\":\"x\"}", MESSAGE_COORDINATOR, ERR_PROTO },
	};
	struct message m;
	struct err e;
	json_t *json;

	for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
		enum err_code rc = decode(bad[i].text, bad[i].role, &m, &json, &e);

		ok(rc == bad[i].code && e.msg[0], "%s: %s", bad[i].text, e.msg);
		json_decref(json);
	}
}

static void test_directions(void)
{
	struct message m;
	struct err e;
	json_t *json;

	ok(!decode("{\"op\":\"leave\"}", ROLE_WORKER, &m, &json, &e) && m.kind == MESSAGE_leave,
	    "a worker's leave is one message");
	json_decref(json);
	ok(!decode("{\"op\":\"leave\"}", MESSAGE_COORDINATOR, &m, &json, &e) &&
	        m.kind == MESSAGE_must_leave,
	    "and the coordinator's another");
	json_decref(json);
	ok(!decode("{\"op\":\"ack\",\"rev\":null,\"more\":1}", ROLE_SERVER, &m, &json, &e) &&
	        m.ack.rev == 0,
	    "null is as good as absent, and unknown members are for later versions");
	json_decref(json);
}

/* Is the answer this text?  Takes the answer. */
static bool reads(json_t *answer, const char *want)
{
	char *text = json_text(answer);
	bool same = strcmp(text, want) == 0;

	if (!same)
		printf("# %s\n", text);
	free(text);
	json_decref(answer);
	return same;
}

static void test_answers(void)
{
	const struct answer_task task = { .id = 4, .epoch = 1, .begin = 10, .end = 20 };
	struct answer_worker_join joined;
	struct answer_lease lease;
	struct err e = { 0 };
	json_t *json = ANSWER(granted, .task = &task);

	ok(!answer_decode_lease(json, &lease, &e) && lease.task && lease.task->end == 20 &&
	        !lease.finished,
	    "a lease is decoded");
	answer_release_lease(&lease);
	ok(!answer_is_refusal(json, &e) && !e.code, "and is no refusal");
	ok(reads(json,
	       "{\"task\":{\"id\":4,\"epoch\":1,\"begin\":10,\"end\":20,\"from\":0,\"step\":0,\"batch\":0,\"placed\":0,\"place\":0,\"earlier\":null}}"),
	    "it has nothing but its task");
	ok(reads(ANSWER(lease, .finished = true),
	       "{\"finished\":true,\"surplus\":false,\"settling\":false}"),
	    "or says the end");
	ok(reads(ANSWER(facts), "{\"facts\":null,\"given\":false}"),
	    "facts that are not known are null");
	err_set(&e, ERR_LIMIT, "no more");
	json = answer_of_error(&e);
	e = (struct err){ 0 };
	ok(answer_is_refusal(json, &e) && e.code == ERR_LIMIT && strcmp(e.msg, "no more") == 0,
	    "a refusal has its error");
	ok(reads(json, "{\"error\":{\"code\":\"limit\",\"message\":\"no more\"}}"), "by its name");
	json = json_pack("{s:s}", "rank", "x");
	ok(answer_decode_worker_join(json, &joined, &e) == ERR_PROTO && strstr(e.msg, "rank"),
	    "a member of a wrong type is an error: %s", e.msg);
	json_decref(json);
}

int main(void)
{
	test_answers();
	test_round_trip();
	test_refusals();
	test_directions();
	return tap_done();
}

/* SPDX-License-Identifier: ISC */
#include "core/json.h"
#include "core/mem.h"
#include "msg/state.h"
#include "tap.h"

/* The saved state: what is written is read again, and what is not as state.def says is refused with
 * a sentence. */

static enum err_code decode(const char *text, struct state *out, json_t **json, struct err *e)
{
	*json = json_parse(text, strlen(text), 4096, e);
	return state_decode(*json, out, e);
}

static void test_members(void)
{
	static const char text[] =
	    "{\"v\":1,\"cluster_id\":\"00\",\"phase\":\"running\",\"placed\":true,\"layout\":{\"epoch\":4},"
	    "\"servers\":[{\"live\":true,\"incarnation\":\"18446744073709551615\",\"unix\":\"/s\"}],"
	    "\"workers\":[{\"state\":\"empty\",\"called\":true},{\"state\":\"active\",\"incarnation\":"
	    "\"7\",\"from\":3,\"ring\":{\"incarnation\":\"7\",\"seat\":{\"tcp\":\"h:1\"}}}],"
	    "\"members\":[{\"step\":3,\"ranks\":[1,0]}],\"tasks\":{\"range\":10,\"open\":[4,5],\"held\":[1]},"
	    "\"table\":null,\"other\":5}";
	struct err e = { 0 };
	struct state s;
	json_t *json;

	ok(!decode(text, &s, &json, &e), "a state is decoded: %s", e.msg);
	ok(s.v == 1 && s.placed && !s.data_lost && s.phase == PHASE_RUNNING, "plain members");
	ok(s.nservers == 1 && s.servers[0].incarnation == UINT64_MAX &&
	        !strcmp(s.servers[0].unix_path, "/s") && !*s.servers[0].tcp,
	    "a list, and a member with another name");
	ok(s.nworkers == 2 && s.workers[0].called && s.workers[1].from == 3 &&
	        s.workers[0].relay == -1 && !s.workers[0].ring,
	    "members that are absent");
	ok(s.workers[1].ring && s.workers[1].ring->seat &&
	        !strcmp(s.workers[1].ring->seat->tcp, "h:1"),
	    "an object in an object");
	ok(s.nmembers == 1 && s.members[0].nranks == 2 && s.members[0].ranks[0] == 1 &&
	        s.tasks->nopen == 2 && s.tasks->nheld == 1 && s.tasks->open[1] == 5,
	    "lists of integers");
	ok(!s.paused_by && !s.restore && !s.table && !s.setting, "what is absent or null is NULL");
	state_release(&s);
	ok(!s.servers && !s.nworkers && !s.layout, "nothing is left of it");
	json_decref(json);
}

/* Keys that are written only with a value. */
static void test_written(void)
{
	struct state s = { .v = 1,
		.cluster_id = "00",
		.phase = PHASE_RUNNING,
		.reason = "",
		.evaluator = -1,
		.paused_by = "somebody" };
	char *text, *again;
	struct err e = { 0 };
	struct state back;
	json_t *json;

	s.layout = json_pack("{s:i}", "epoch", 4);
	s.nworkers = 3;
	s.workers = mem_array(3, sizeof *s.workers);
	s.workers[0] = (struct state_worker){ .state = WORKER_EMPTY, .key = "k", .from = 9 };
	s.workers[1] = (struct state_worker){ .state = WORKER_EMPTY, .called = true };
	s.workers[2] = (struct state_worker){ .state = WORKER_LOST,
		.incarnation = 5,
		.key = "k",
		.key_name = "n",
		.host = "h",
		.zone = "z",
		.relay = -1 };
	json = state_encode(&s);
	state_release(&s);
	text = json_text(json_object_get(json, "workers"));
	ok(strncmp(text,
	       "[{\"state\":\"empty\"},{\"state\":\"empty\",\"called\":true},{\"state\":\"lost\","
	       "\"incarnation\":\"5\",\"from\":0,",
	       91) == 0,
	    "an empty rank has only its state: %s", text);
	free(text);
	ok(!json_object_get(json, "relays") && !json_object_get(json, "restore") &&
	        !json_object_get(json, "tasks") && !json_object_get(json, "facts"),
	    "what is not there is not written");
	ok(json_is_array(json_object_get(json, "changes")) &&
	        json_is_false(json_object_get(json, "placed")) &&
	        json_is_integer(json_object_get(json, "pauses")),
	    "others are written always");
	text = json_text(json);
	ok(!state_decode(json, &back, &e), "it is read: %s", e.msg);
	json_decref(json);
	/* The layout is held by the struct; texts belong to the document. */
	ok(json_int(back.layout, "epoch", 0) == 4, "its layout outlives the document");
	state_release(&back);
	json = json_parse(text, strlen(text), 1 << 16, &e);
	ok(!state_decode(json, &back, &e), "it is read from the file: %s", e.msg);
	again = NULL;
	if (!e.code) {
		json_t *twice = state_encode(&back);

		again = json_text(twice);
		json_decref(twice);
	}
	ok(again && strcmp(text, again) == 0, "and written again to the same text");
	state_release(&back);
	json_decref(json);
	free(again);
	free(text);
}

static void test_refusals(void)
{
	static const char *const bad[] = {
		"[]",
		"7",
		"{\"v\":\"1\"}",
		"{\"rev\":-1}",
		"{\"phase\":3}",
		"{\"placed\":1}",
		"{\"servers\":{}}",
		"{\"servers\":[7]}",
		"{\"servers\":[{\"incarnation\":5}]}",
		"{\"workers\":[{\"state\":\"active\"},{\"relay\":256}]}",
		"{\"workers\":[{\"ring\":[]}]}",
		"{\"workers\":[{\"ring\":{\"seat\":{\"tcp\":1}}}]}",
		"{\"members\":[{\"ranks\":[0,4096]}]}",
		"{\"members\":[{\"ranks\":[0,\"1\"]}]}",
		"{\"members\":[{\"ranks\":{}}]}",
		"{\"tasks\":{\"open\":[-1]}}",
		"{\"changes\":[{\"kind\":5}]}",
		"{\"evaluator\":4096}",
		"{\"paused_by\":false}",
		"{\"setting\":{\"number\":-1}}",
	};

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct err e = { 0 };
		struct state s;
		json_t *json;

		ok(decode(bad[i], &s, &json, &e) == ERR_FORMAT && !s.servers && !s.workers,
		    "%s: %s", bad[i], e.msg);
		json_decref(json);
	}
}

int main(void)
{
	test_members();
	test_written();
	test_refusals();
	return tap_done();
}

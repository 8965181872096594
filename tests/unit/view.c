/* SPDX-License-Identifier: ISC */
#include "core/json.h"
#include "msg/view.h"
#include "tap.h"

/* The cluster view: what is published is decoded, and what is not as view.def says is refused with a
 * sentence. */

static enum err_code decode(const char *text, const struct view **out, struct err *e)
{
	json_t *json = json_parse(text, strlen(text), 4096, e);
	enum err_code rc = json ? view_decode(json, out, e) : e->code;

	/* The view has a reference of its own. */
	json_decref(json);
	return rc;
}

static void test_members(void)
{
	const struct view *v, *again;
	struct err e = { 0 };

	ok(!decode(
	       "{\"op\":\"view\",\"rev\":7,\"phase\":\"running\",\"ended\":false,\"config\":{\"a\":1},"
	       "\"servers\":[{\"id\":\"server-0\",\"live\":true,\"tcp\":\"h:1\",\"incarnation\":"
	       "\"18446744073709551615\"},{\"id\":\"server-1\"}],\"worker\":{\"state\":\"active\"},"
	       "\"ring\":{\"gone\":2,\"members\":[{\"rank\":3,\"from\":9}]},\"layout\":{\"epoch\":4},"
	       "\"now\":{\"log_level\":\"info\",\"quota_bytes\":5,\"other\":true}}",
	       &v, &e),
	    "a view is decoded: %s", e.msg);
	ok(v->rev == 7 && view_phase_is(v, PHASE_RUNNING) && !view_phase_is(v, PHASE_DONE) &&
	        !v->ended,
	    "its revision, phase and flags");
	ok(v->nservers == 2 && v->servers[0].live && !v->servers[1].live &&
	        v->servers[0].incarnation == UINT64_MAX && !strcmp(v->servers[1].id, "server-1"),
	    "its servers");
	ok(v->worker && v->worker->state == WORKER_ACTIVE && v->worker->relay == -1,
	    "the worker's own row, with what is missing");
	ok(v->ring && v->ring->gone == 2 && v->ring->nmembers == 1 && v->ring->members[0].rank == 3,
	    "a list in an object");
	ok(v->now && v->now->quota_bytes == 5 && !v->now->quota_pushes,
	    "an object with members that nobody reads");
	ok(!v->nworkers && !v->nrelays && !v->nkeys && v->evaluator == -1 && !v->paused &&
	        v->leased_from == INT64_MAX,
	    "what is absent");
	ok(json_int(v->config, "a", 0) == 1 && json_int(v->layout, "epoch", 0) == 4,
	    "and documents of other modules");
	again = view_ref(v);
	view_release(v);
	ok(again->nservers == 2, "it lives as long as somebody holds it");
	view_release(again);
	view_release(NULL);
}

static void test_refusals(void)
{
	static const char *const bad[] = {
		"[]",
		"7",
		"{\"rev\":-1}",
		"{\"rev\":\"7\"}",
		"{\"phase\":1}",
		"{\"ended\":0}",
		"{\"servers\":{}}",
		"{\"servers\":[1]}",
		"{\"servers\":[{\"incarnation\":7}]}",
		"{\"servers\":[{},{\"live\":true,\"incarnation\":\"x\"}]}",
		"{\"worker\":[]}",
		"{\"worker\":{\"relay\":-2}}",
		"{\"ring\":{\"members\":[{\"rank\":-1}]}}",
		"{\"ring\":{\"members\":[{\"rank\":1},{\"from\":1.5}]}}",
	};

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		const struct view *v;
		struct err e = { 0 };

		ok(decode(bad[i], &v, &e) == ERR_PROTO && !v && strstr(e.msg, "message \"view\""),
		    "%s is refused: %s", bad[i], e.msg);
	}
}

/* Readers have room for so many. */
static void test_long_list(void)
{
	json_t *json = json_object(), *list = json_array();
	const struct view *v;
	struct err e = { 0 };

	json_object_set_new(json, "relays", list);
	for (int i = 0; i < 256; i++)
		json_array_append_new(list, json_object());
	ok(!view_decode(json, &v, &e) && v->nrelays == 256, "256 relays");
	view_release(v);
	json_array_append_new(list, json_object());
	ok(view_decode(json, &v, &e) == ERR_PROTO && strstr(e.msg, "at most 256"), "not more: %s",
	    e.msg);
	json_decref(json);
}

int main(void)
{
	test_members();
	test_long_list();
	test_refusals();
	return tap_done();
}

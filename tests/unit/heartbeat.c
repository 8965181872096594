/* SPDX-License-Identifier: ISC */
#include "core/json.h"
#include "msg/heartbeat.h"
#include "tap.h"

/* The figures of heartbeats: those with a wrong type or out of bounds count as absent. */

static json_t *parse(const char *text)
{
	struct err e;

	return json_parse(text, strlen(text), 4096, &e);
}

static void test_worker(void)
{
	struct heartbeat_worker f = { 0 };
	json_t *stats = parse(
	    "{\"step\":7,\"doing\":\"wait\",\"doing_seconds\":1.5,\"data_seconds\":2,\"other\":[]}");

	heartbeat_worker_decode(stats, &f);
	ok(f.step == 7 && !strcmp(f.doing, "wait") && f.doing_seconds > 1.4 && f.data_seconds > 1.9,
	    "a worker's figures");
	ok(f.unacknowledged == -1 && f.paused == 0 && f.settings == 0, "those that are missing");
	json_decref(stats);
	stats = parse("{\"step\":-3,\"doing\":5,\"doing_seconds\":\"x\",\"unacknowledged\":1.5}");
	heartbeat_worker_decode(stats, &f);
	ok(f.step == 0 && !f.doing[0] && f.doing_seconds < 0.1 && f.unacknowledged == -1,
	    "wrong ones count as missing");
	json_decref(stats);
	stats = parse("{\"doing\":\"a text of more than sixteen bytes\"}");
	heartbeat_worker_decode(stats, &f);
	ok(strlen(f.doing) == sizeof f.doing - 1, "a long text is cut");
	json_decref(stats);
	heartbeat_worker_decode(NULL, &f);
	ok(f.step == 0 && f.unacknowledged == -1 && !f.doing[0], "no figures");
	heartbeat_worker_release(&f);
}

static void test_server(void)
{
	struct heartbeat_server f = { 0 };
	json_t *stats = parse("{\"refused\":[[3,9],[-1,2],[\"a\",1],[4],5,[4294967296,1],[0,1]],"
	                      "\"quota_held\":[[1,0.5]]}");
	json_t *list;

	heartbeat_server_decode(stats, &f);
	ok(f.nrefused == 2 && f.refused[0].rank == 3 && f.refused[0].number > 8.9 &&
	        f.refused[1].rank == 0,
	    "a server's ranks, without pairs that are none");
	ok(f.nquota_held == 1 && f.quota_held[0].number > 0.4, "and their seconds");
	json_decref(stats);
	stats = json_pack("{s:[]}", "refused");
	list = json_object_get(stats, "refused");
	for (unsigned i = 0; i <= HEARTBEAT_RANKS_MAX; i++)
		json_array_append_new(list, json_pack("[i, i]", 1, 1));
	heartbeat_server_decode(stats, &f);
	ok(!f.nrefused && !f.refused && !f.nquota_held,
	    "a list that is too long counts as missing");
	json_decref(stats);
	heartbeat_server_release(&f);
}

int main(void)
{
	test_worker();
	test_server();
	return tap_done();
}

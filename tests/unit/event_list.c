/* SPDX-License-Identifier: ISC */
/* Lists of events that are shortened: rare kinds stay. */
#include "rundir/event_list.h"

#include <string.h>

#include "tap.h"

static void add(json_t *list, const char *kind)
{
	json_array_append_new(list,
	    json_pack("{s:i, s:s}", "rev", (int)json_array_size(list), "event", kind));
}

static int count(const json_t *list, const char *kind)
{
	const json_t *e;
	size_t i;
	int n = 0;

	json_array_foreach(list, i, e)
		n += strcmp(json_str(e, "event", ""), kind) == 0;
	return n;
}

int main(void)
{
	json_t *list = json_array();
	const json_t *e;
	int64_t last = -1;
	bool ascending = true;
	size_t i;

	add(list, "running");
	add(list, "worker_lost");
	for (int k = 0; k < 1000; k++) {
		add(list, "eval");
		if (k % 4 == 0)
			add(list, "checkpoint");
	}
	ok(event_list_trim(list, 5000) == 0 && json_array_size(list) == 1252,
	    "a short list stays as it is");
	ok(event_list_trim(list, 200) == 1052 && json_array_size(list) == 200,
	    "a long one gets the length");
	ok(count(list, "worker_lost") == 1 && count(list, "running") == 1, "rare events stay");
	ok(count(list, "eval") == 99 && count(list, "checkpoint") == 99,
	    "frequent ones share the rest");
	json_array_foreach(list, i, e) {
		ascending &= json_int(e, "rev", -1) > last;
		last = json_int(e, "rev", -1);
	}
	ok(ascending && last == 1250 + 1, "in their order, and the newest are kept: %lld",
	    (long long)last);
	ok(event_list_trim(list, 1) == 199 && json_array_size(list) == 1, "down to one");
	json_decref(list);
	return tap_done();
}

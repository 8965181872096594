/* SPDX-License-Identifier: ISC */
#include "rundir/event_list.h"

#include <stdlib.h>
#include <string.h>

/* The most frequent kind. counts: the number of events by kind. */
static const char *find_frequent_kind(const json_t *counts)
{
	const char *kind, *frequent = "";
	json_t *n;
	json_int_t most = 0;

	json_object_foreach((json_t *)(uintptr_t)counts, kind, n) {
		if (json_integer_value(n) > most) {
			most = json_integer_value(n);
			frequent = kind;
		}
	}
	return frequent;
}

static const char *kind_of(const json_t *event)
{
	return json_str(event, "event", "");
}

/* Chooses how many of the oldest events of each kind are left out: an object with a number by
 * kind. */
static json_t *choose_left_out(const json_t *list, size_t surplus)
{
	json_t *counts = json_object(), *out = json_object();
	const json_t *event;
	size_t i;

	json_array_foreach(list, i, event)
		json_object_set_new(counts, kind_of(event),
		    json_integer(json_int(counts, kind_of(event), 0) + 1));
	for (; surplus > 0; surplus--) {
		const char *kind = find_frequent_kind(counts);

		json_object_set_new(out, kind, json_integer(json_int(out, kind, 0) + 1));
		json_object_set_new(counts, kind, json_integer(json_int(counts, kind, 0) - 1));
	}
	json_decref(counts);
	return out;
}

size_t event_list_trim(json_t *list, size_t most)
{
	size_t n = json_array_size(list), surplus = n > most ? n - most : 0, i;
	json_t *kept, *out, *event;

	if (!surplus)
		return 0;
	kept = json_array();
	out = choose_left_out(list, surplus);
	json_array_foreach(list, i, event) {
		int64_t drop = json_int(out, kind_of(event), 0);

		if (drop > 0)
			json_object_set_new(out, kind_of(event), json_integer(drop - 1));
		else
			json_array_append(kept, event);
	}
	json_array_clear(list);
	json_array_extend(list, kept);
	json_decref(kept);
	json_decref(out);
	return surplus;
}

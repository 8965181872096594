/* SPDX-License-Identifier: ISC */
/* Which view goes to whom: all of it to servers, to a worker what it needs, and
 * nothing when nothing in it is new. */
#include <stdlib.h>
#include <string.h>

#include "core/json.h"
#include "server/view_text.h"
#include "tap.h"

/* Revision rev: what is common to all, the rows of two workers, a key. */
static struct view_text *make(unsigned rev, const char *phase, const char *row0, const char *row1,
    const char *key, const struct view_text *before)
{
	return view_text_make(json_pack("{s:s, s:i, s:s, s:[{s:s}, {s:s}], s:[s], s:i}", "op",
	                          "view", "rev", (int)rev, "phase", phase, "workers", "state", row0,
	                          "state", row1, "keys", key, "examples", 9),
	    before);
}

/* Takes the text. */
static bool is(char *text, const char *want)
{
	bool same = want ? text && strcmp(text, want) == 0 : !text;

	if (!same)
		printf("# %s\n", text ? text : "nothing");
	free(text);
	return same;
}

static void texts(void)
{
	struct view_text *v = make(7, "running", "active", "lost", "k", NULL);

	ok(view_text_rev(v) == 7, "it has its revision");
	ok(is(view_text_full(v, 0),
	       "{\"op\":\"view\",\"rev\":7,\"phase\":\"running\",\"workers\":[{\"state\":\"active\"},"
	       "{\"state\":\"lost\"}],\"keys\":[\"k\"],\"examples\":9}"),
	    "servers get all of it");
	ok(is(view_text_for_worker(v, 1, 0),
	       "{\"op\":\"view\",\"phase\":\"running\",\"examples\":9,\"rev\":7,"
	       "\"worker\":{\"state\":\"lost\"}}"),
	    "a worker its own row, and no keys");
	ok(is(view_text_for_worker(v, UINT32_MAX, 0),
	       "{\"op\":\"view\",\"phase\":\"running\",\"examples\":9,\"rev\":7}"),
	    "and before it has a rank no row");
	ok(is(view_text_full(v, 7), NULL) && is(view_text_for_worker(v, 0, 7), NULL),
	    "who has had it does not get it again");
	view_text_unref(v);
	v = view_text_make(json_pack("{s:s, s:i, s:[{s:s}], s:{s:i}, s:s}", "op", "view", "rev", 8,
	                       "workers", "key", "k", "ring", "gone", 1, "phase", "running"),
	    NULL);
	ok(is(view_text_for_worker(v, 0, 0),
	       "{\"op\":\"view\",\"ring\":{\"gone\":1},\"phase\":\"running\",\"rev\":8,\"worker\":{\"key\":\"k\"}}"),
	    "a worker learns of the ring");
	ok(is(view_text_for_guest(v, 0), "{\"op\":\"view\",\"phase\":\"running\",\"rev\":8}") &&
	        is(view_text_for_guest(v, 8), NULL),
	    "a monitor and a reader do not");
	view_text_unref(v);
}

static void news(void)
{
	struct view_text *v[6] = { NULL };
	char *text;

	v[1] = make(1, "forming", "empty", "empty", "k", v[0]);
	v[2] = make(2, "forming", "joining", "empty", "k", v[1]);
	v[3] = make(3, "forming", "joining", "empty", "l", v[2]);
	v[5] = make(5, "running", "active", "empty", "l", v[3]);
	ok(is(view_text_for_worker(v[2], 1, 1), NULL) &&
	        is(view_text_for_worker(v[2], UINT32_MAX, 1), NULL),
	    "another worker's row is no news for a worker");
	text = view_text_for_worker(v[2], 0, 1);
	ok(text && strstr(text, "joining"), "its own is");
	free(text);
	text = view_text_full(v[2], 1);
	ok(text != NULL, "and for servers every row is");
	free(text);
	ok(is(view_text_for_worker(v[3], 0, 2), NULL) && is(view_text_for_worker(v[3], 1, 1), NULL),
	    "nor are keys news");
	text = view_text_for_worker(v[3], 0, 1);
	ok(text && strstr(text, "joining") && strstr(text, "\"rev\":3"),
	    "who has missed a revision gets what it brought with the next");
	free(text);
	text = view_text_for_worker(v[5], 1, 3);
	ok(text && strstr(text, "running"), "what all need goes to all");
	free(text);
	ok(is(view_text_for_worker(v[5], 1, 5), NULL), "once");
	view_text_unref(view_text_ref(v[5]));
	for (int i = 0; i < 6; i++)
		view_text_unref(v[i]);
}

int main(void)
{
	texts();
	news();
	return tap_done();
}

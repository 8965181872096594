/* SPDX-License-Identifier: ISC */
/* The dashboard's sessions and its memory of the curves. */
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/json.h"
#include "web/curve.h"
#include "web/sessions.h"
#include "tap.h"

#define SECOND NSEC_PER_SEC

/* ---- sessions ---- */

static void test_a_ticket_works_once(void)
{
	struct web_sessions *s = web_sessions_new();
	char ticket[WEB_SECRET], read[WEB_SECRET], change[WEB_SECRET], other[WEB_SECRET];
	int64_t now = 5 * SECOND;

	web_ticket_new(s, true, now, ticket);
	ok(strlen(ticket) == 43 && web_right(s, ticket, now) == WEB_TICKET, "a ticket is known");
	ok(web_right(s, ticket, now) == WEB_TICKET, "looking at it does not use it up");
	ok(web_session_open(s, ticket, now, read, change), "it gives a session");
	ok(!web_session_open(s, ticket, now, other, other), "and no second one");
	ok(web_right(s, ticket, now) == WEB_NONE, "and is not known any more");
	ok(web_right(s, read, now) == WEB_READ && web_right(s, change, now) == WEB_CHANGE,
	    "one secret reads, one changes");
	ok(strcmp(read, change) != 0 && web_right(s, "", now) == WEB_NONE,
	    "they differ, and none is none");
	web_session_end(s, read);
	ok(web_right(s, read, now) == WEB_NONE && web_right(s, change, now) == WEB_NONE,
	    "both end at once");
	web_ticket_new(s, false, now, ticket);
	ok(web_session_open(s, ticket, now, read, change) && !*change,
	    "a ticket to read gives nothing to change with");
	web_sessions_free(s);
}

static void test_time(void)
{
	struct web_sessions *s = web_sessions_new();
	char ticket[WEB_SECRET], read[WEB_SECRET], change[WEB_SECRET];
	int64_t now = 7 * SECOND, idle = WEB_IDLE_SECONDS * SECOND;

	web_ticket_new(s, true, now, ticket);
	ok(!web_session_open(s, ticket, now + WEB_TICKET_SECONDS * SECOND, read, change),
	    "a ticket that is too old is none");
	web_ticket_new(s, true, now, ticket);
	ok(web_session_open(s, ticket, now + WEB_TICKET_SECONDS * SECOND - 1, read, change),
	    "one that is not counts");
	now += WEB_TICKET_SECONDS * SECOND - 1;
	for (int i = 0; i < 3; i++)
		web_right(s, read, now += idle / 2);
	ok(web_right(s, read, now) == WEB_READ, "reading goes on as long as somebody reads");
	ok(web_right(s, change, now) == WEB_NONE,
	    "the right to change is gone when it is not used");
	ok(web_right(s, read, now + idle) == WEB_NONE, "and so is that to read");
	web_sessions_free(s);
}

static void test_bounds(void)
{
	struct web_sessions *s = web_sessions_new();
	char first[WEB_SECRET], ticket[WEB_SECRET], read[WEB_SESSIONS + 1][WEB_SECRET],
	    change[WEB_SECRET];
	int64_t now = SECOND;
	unsigned known = 0;

	web_ticket_new(s, true, now, first);
	for (int i = 0; i < WEB_TICKETS; i++)
		web_ticket_new(s, true, now + 1 + i, ticket);
	ok(web_right(s, first, now + 20) == WEB_NONE &&
	        web_right(s, ticket, now + 20) == WEB_TICKET,
	    "of too many tickets the oldest goes");
	for (int i = 0; i <= WEB_SESSIONS; i++) {
		web_ticket_new(s, true, now + 100 + i, ticket);
		web_session_open(s, ticket, now + 100 + i, read[i], change);
	}
	for (int i = 0; i <= WEB_SESSIONS; i++)
		known += web_right(s, read[i], now + 200) == WEB_READ;
	ok(known == WEB_SESSIONS && web_right(s, read[0], now + 200) == WEB_NONE,
	    "of too many sessions the one used longest ago");
	web_sessions_free(s);
}

static void test_guesses(void)
{
	struct web_sessions *s = web_sessions_new();
	char ticket[WEB_SECRET], read[WEB_SECRET], change[WEB_SECRET], wrong[WEB_SECRET];
	int64_t now = SECOND;

	web_ticket_new(s, true, now, ticket);
	snprintf(wrong, sizeof wrong, "%s", ticket);
	wrong[42] = wrong[42] == 'A' ? 'Q' : 'A';
	for (int i = 0; i < WEB_TRIES - 1; i++)
		web_right(s, wrong, now);
	ok(web_right(s, ticket, now) == WEB_TICKET, "some wrong tickets do no harm");
	for (int i = 0; i < 100; i++)
		web_right(s, "rsome-page-whose-session-has-ended", now);
	ok(web_right(s, ticket, now) == WEB_TICKET, "nor do sessions that have ended");
	ok(web_right(s, wrong, now) == WEB_NONE && web_right(s, ticket, now) == WEB_NONE,
	    "too many make all void");
	web_ticket_new(s, true, now, ticket);
	ok(web_session_open(s, ticket, now, read, change), "and a new one works");
	web_sessions_free(s);
}

/* ---- curves ---- */

static json_t *status_at(double seconds)
{
	json_t *s = json_pack("{s:f, s:i, s:f, s:f, s:i, s:i, s:i}", "seconds", seconds, "step",
	    (int)(seconds * 10), "train_loss", 1 / seconds, "examples_per_second", 100.0,
	    "pushed_bytes", (int)seconds, "pulled_bytes", 7, "workers", 3);

	if (seconds > 10)
		json_object_set_new(s, "eval",
		    json_pack("{s:f, s:f}", "loss", 0.5, "accuracy", 0.75));
	json_object_set_new(s, "eval_step", json_integer(4));
	return s;
}

static void add(struct web_curve *c, double seconds)
{
	json_t *s = status_at(seconds);

	web_curve_add(c, s);
	json_decref(s);
}

static double at(const json_t *curve, size_t i, size_t k)
{
	const json_t *v = json_array_get(json_array_get(json_object_get(curve, "points"), i), k);

	return json_is_number(v) ? json_number_value(v) : (double)NAN;
}

static size_t size(const json_t *curve)
{
	return json_array_size(json_object_get(curve, "points"));
}

static void test_points(void)
{
	struct web_curve *c = web_curve_new();
	json_t *o;

	for (int i = 0; i < 20; i++)
		add(c, i);
	add(c, 19);
	o = web_curve_json(c);
	ok(size(o) == 19, "each second once, and none before it runs");
	ok(at(o, 0, 0) == 1 && at(o, 18, 0) == 19 && at(o, 3, 2) == 0.25, "with its figures");
	ok(isnan(at(o, 0, 8)) && at(o, 18, 8) == 0.5 && at(o, 18, 9) == 0.75,
	    "an evaluation when there is one");
	ok(strcmp(json_str(o, "score", ""), "accuracy") == 0, "the score has its name");
	json_decref(o);
	web_curve_free(c);
}

/* Evenly spread from the beginning to the end, whatever its length. */
static void check_spread(const struct web_curve *c, double last, const char *what)
{
	json_t *o = web_curve_json(c);
	size_t n = size(o);
	double widest = 0;

	for (size_t i = 1; i < n; i++)
		widest = fmax(widest, at(o, i, 0) - at(o, i - 1, 0));
	ok(n >= WEB_CURVE_POINTS / 2 - 1 && n <= WEB_CURVE_POINTS, "%s: %zu points", what, n);
	ok(at(o, 0, 0) < last / 64, "%s: from %.0f s on", what, at(o, 0, 0));
	ok(last - at(o, n - 1, 0) < 8 * last / WEB_CURVE_POINTS, "%s: to %.0f s", what,
	    at(o, n - 1, 0));
	ok(widest < 8 * last / WEB_CURVE_POINTS, "%s: no hole wider than %.0f s", what, widest);
	json_decref(o);
}

static void test_a_long_run(void)
{
	struct web_curve *c = web_curve_new();

	for (int i = 1; i <= 100000; i++)
		add(c, i);
	check_spread(c, 100000, "a long run");
	web_curve_free(c);
}

static void test_a_file(void)
{
	struct web_curve *c = web_curve_new(), *none = web_curve_new();
	char name[] = "/tmp/pskit-web.XXXXXX";
	int fd = mkstemp(name);
	FILE *f = fdopen(fd, "w+");
	json_t *o;

	unlink(name);
	for (int i = 1; i <= 20000; i++) {
		json_t *s = status_at(i);
		char *text = json_text(s);

		fprintf(f, i % 9 ? "%s\n" : "{\"v\":1, what is this?}\n", text);
		free(text);
		json_decref(s);
	}
	fprintf(f, "{\"v\":1,\"seconds\":20001,\"st");
	fflush(f);
	web_curve_read(c, fd);
	o = web_curve_json(c);
	ok(size(o) > 200 && size(o) <= WEB_CURVE_POINTS / 2 + 1, "of a long file %zu points",
	    size(o));
	ok(at(o, 0, 0) == 1 && at(o, size(o) - 1, 0) > 19800, "from its first line to its last");
	json_decref(o);
	add(c, 20002);
	add(c, 20003);
	for (int i = 20004; i < 40000; i++)
		add(c, i);
	check_spread(c, 40000, "gone on with");
	if (ftruncate(fd, 0))
		abort();
	web_curve_read(none, fd);
	web_curve_read(none, -1);
	o = web_curve_json(none);
	ok(size(o) == 0, "of an empty file, or none, no point");
	json_decref(o);
	web_curve_free(none);
	web_curve_free(c);
	fclose(f);
}

int main(void)
{
	test_a_ticket_works_once();
	test_time();
	test_bounds();
	test_guesses();
	test_points();
	test_a_long_run();
	test_a_file();
	return tap_done();
}

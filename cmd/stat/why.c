/* SPDX-License-Identifier: ISC */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/buf.h"
#include "core/json.h"
#include "core/names.h"
#include "core/plain.h"
#include "rundir/learning.h"
#include "view.h"

/* How many of the members that wait for the same are named. */
#define NAMED 3u

/* The complaint about the learning of the job, and the share of their time for which the workers wait, 0
 * to 1, as of the last fetch. */
static char faults[300];
static bool only_trails; /* the one fault is that the model is no better than a constant */
static double waited;
static bool any_waits;

/* A smaller share is worth no word. */
#define MUCH_WAITING 0.5

/* Returns the share of all workers' time that they have spent in waiting; 0 when it is not known. */
static double sum_waits(const json_t *workers)
{
	double wait = 0, all = 0;
	const json_t *row;
	size_t i;

	json_array_foreach(workers, i, row) {
		wait += json_num(row, "wait_seconds", 0);
		for (int k = 0; k < PHASES; k++)
			all += json_num(row, view_phase_key[k], 0);
	}
	return all > 0 ? wait / all : 0;
}

static json_t *fetch_waits(struct http_client *c, struct err *e)
{
	json_t *status = connect_fetch_json(c, "/v1/status", NULL, NULL);
	struct buf text = BUF_INIT;
	json_t *rows;

	learning_put_course_faults(status, &text);
	only_trails = !text.len && learning_trails_constant(status);
	buf_clear(&text);
	learning_put_faults(status, &text);
	snprintf(faults, sizeof faults, "%s", text.len ? (char *)text.data : "");
	buf_release(&text);
	json_decref(status);
	rows = connect_fetch_json(c, "/v1/workers", "workers", NULL);
	waited = sum_waits(rows);
	json_decref(rows);
	rows = connect_fetch_json(c, "/v1/why", "why", e);
	any_waits = json_array_size(rows) > 0;
	return rows;
}

static bool is_same_member(const json_t *a, const json_t *b, const char *key)
{
	return json_equal(json_object_get(a, key), json_object_get(b, key));
}

/* Do two rows wait for the same member, at the same step, for the same reason? */
static bool waits_for_same(const json_t *a, const json_t *b)
{
	return is_same_member(a, b, "for") && is_same_member(a, b, "step") &&
	    is_same_member(a, b, "because");
}

/* Does an earlier row wait for the same? */
static bool is_wait_named(const json_t *rows, size_t at)
{
	for (size_t i = 0; i < at; i++)
		if (waits_for_same(json_array_get(rows, i), json_array_get(rows, at)))
			return true;
	return false;
}

/* Append "worker-0, worker-2, worker-3 and 5 more wait". Returns the longest of their waits, in
 * seconds. */
static double name_waiting(const json_t *rows, size_t at, struct buf *out)
{
	const json_t *first = json_array_get(rows, at);
	double longest = 0;
	unsigned n = 0;

	for (size_t i = at; i < json_array_size(rows); i++) {
		const json_t *row = json_array_get(rows, i);
		double seconds = json_num(row, "since_seconds", 0);

		if (!waits_for_same(first, row))
			continue;
		longest = seconds > longest ? seconds : longest;
		names_put(out, &n, NAMED, json_str(row, "id", ""));
	}
	names_put_rest(out, n, NAMED);
	buf_puts(out, n > 1 ? " wait" : " waits");
	return longest;
}

/* For example "worker-0 waits for worker-2 at step 412 (3.2 s): it computes ...; REMEDY". */
char *why_sentence(const json_t *rows, size_t i)
{
	const json_t *row = json_array_get(rows, i), *step = json_object_get(row, "step");
	struct buf out = BUF_INIT;
	double seconds;

	if (is_wait_named(rows, i))
		return NULL;
	seconds = name_waiting(rows, i, &out);
	buf_printf(&out, " for %s", json_str(row, "for", ""));
	if (json_is_integer(step))
		buf_printf(&out, " at step %lld", (long long)json_integer_value(step));
	buf_printf(&out, " (%.1f s): %s; %s", seconds, json_str(row, "because", ""),
	    json_str(row, "remedy", ""));
	plain_text((char *)out.data);
	return (char *)out.data;
}

static void print_wait_sentences(const json_t *rows)
{
	for (size_t i = 0; i < json_array_size(rows); i++) {
		char *text = why_sentence(rows, i);

		if (text)
			puts(text);
		free(text);
	}
}

static void print_remarks(void)
{
	if (!any_waits && waited >= MUCH_WAITING)
		printf(
		    "the workers spend %.0f %% of their time in waiting for answers of the servers, and none of "
		    "them is slower than the others; larger steps wait less (job.batch, job.local_steps), or "
		    "fewer workers: ps-ctl plan\n",
		    100 * waited);
	if (*faults)
		printf("the job %s; ps-ctl doctor has advice\n",
		    only_trails ? "learns nothing" : faults);
}

static const struct column columns[] = {
	{ "who", "id", COL_TEXT, true, 0, TOTAL_BY_KIND },
	{ "for", "for", COL_TEXT, true, 0, TOTAL_BY_KIND },
	{ "step", "step", COL_COUNT, true, 0, TOTAL_BY_KIND },
	{ "since", "since_seconds", COL_SECONDS, true, 0, TOTAL_BY_KIND },
	{ "because", "because", COL_TEXT, true, 0, TOTAL_BY_KIND },
	{ "remedy", "remedy", COL_TEXT, true, 0, TOTAL_BY_KIND },
	{ "ts", "ts", COL_TIME, false, 0, TOTAL_BY_KIND },
};

const struct stat_view stat_view_why = {
	.name = "why",
	.help = "a sentence for each wait: the processes, the time, the reason, and a remedy",
	.fetch = fetch_waits,
	.columns = columns,
	.ncolumns = sizeof columns / sizeof *columns,
	.sentences = print_wait_sentences,
	.none = "no process waits",
	.remark = print_remarks,
};

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "cmd/stat/rows.h"

/* A worker that has not been heard of for so long may do anything. */
#define UNHEARD 1.0

static json_t *fetch(struct http_client *c, struct err *e)
{
	return view_get(c, "/v1/workers", "workers", e);
}

/* ---- who is slow --------------------------------------------------------------------------- */

static double own_seconds(const json_t *row)
{
	return json_num(row, "data_seconds", 0) + json_num(row, "compute_seconds", 0) + json_num(row, "encode_seconds", 0) +
	    json_num(row, "push_seconds", 0);
}

/* What a step takes a worker by itself, in between; since its start, if it has taken none.  And
 * no less than the one that it is at.  NAN: it is not known, or does not matter. */
static double own_step(const json_t *row, const json_t *before)
{
	double steps = json_num(row, "step", 0) - json_num(before, "step", 0), own = own_seconds(row) - own_seconds(before);
	double now = json_num(row, "doing_seconds", 0), unheard = json_num(row, "seen_seconds", 0);

	if (strcmp(json_str(row, "state", ""), "active") != 0 || !json_num(row, "step", 0))
		return NAN;
	if (steps < 1 || own < 0) {
		own = own_seconds(row);
		steps = json_num(row, "step", 0);
	}
	own /= steps;
	if (unheard > UNHEARD)
		return fmax(own, unheard);
	/* Who waits or rests is not the one that is waited for. */
	return strstr("wait pause", json_str(row, "doing", "wait")) ? own : fmax(own, now);
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* The lower one of the two in the middle. */
static double middle(double *v, size_t n)
{
	qsort(v, n, sizeof *v, compare);
	return n ? v[(n - 1) / 2] : NAN;
}

/* How many times as long each one's own part of a step takes as that of the one in the middle. */
static void derive(json_t *rows, const json_t *before)
{
	double *known = mem_array(json_array_size(rows) + 1, sizeof *known), own, usual;
	json_t *row;
	size_t i, n = 0;

	json_array_foreach(rows, i, row) {
		own = own_step(row, rows_same(before, row));
		if (!(own > 0))
			continue;
		json_object_set_new(row, "own_step_seconds", json_real(own));
		known[n++] = own;
	}
	usual = middle(known, n);
	json_array_foreach(rows, i, row) {
		own = json_num(row, "own_step_seconds", 0);
		if (own > 0)
			json_object_set_new(row, "slowness", json_real(own / usual));
	}
	free(known);
}

static const struct column columns[] = {
	{ "id", "id", COL_TEXT, true, 0, TOTAL_BY_KIND },
	{ "state", "state", COL_TEXT, true, 6, TOTAL_BY_KIND },
	{ "step", "step", COL_COUNT, true, 0, TOTAL_LEAST },
	{ "epoch", "epoch", COL_NUMBER, false, 0, TOTAL_LEAST },
	{ "loss", "train_loss", COL_NUMBER, true, 0, TOTAL_BY_KIND },
	{ "ex/s", "examples", COL_RATE, true, 0, TOTAL_BY_KIND },
	{ "slow", "slowness", COL_RATIO, true, 0, TOTAL_MOST },
	{ "tx/s", "pushed_bytes", COL_BYTE_RATE, true, 0, TOTAL_BY_KIND },
	{ "rx/s", "pulled_bytes", COL_BYTE_RATE, true, 0, TOTAL_BY_KIND },
	{ "ring/s", "ring_bytes", COL_BYTE_RATE, false, 0, TOTAL_BY_KIND },
	{ "held/s", "rows_held", COL_RATE, false, 0, TOTAL_BY_KIND },
	{ "data%", "data_seconds", COL_SHARE, true, 0, TOTAL_BY_KIND },
	{ "comp%", "compute_seconds", COL_SHARE, true, 0, TOTAL_BY_KIND },
	{ "enc%", "encode_seconds", COL_SHARE, true, 0, TOTAL_BY_KIND },
	{ "push%", "push_seconds", COL_SHARE, true, 0, TOTAL_BY_KIND },
	{ "wait%", "wait_seconds", COL_SHARE, true, 0, TOTAL_BY_KIND },
	{ "pull%", "pull_seconds", COL_SHARE, true, 0, TOTAL_BY_KIND },
	{ "quota%", "quota_seconds", COL_SHARE, false, 0, TOTAL_BY_KIND },
	{ "seen", "seen_seconds", COL_SECONDS, true, 6, TOTAL_BY_KIND },
	{ "rss", "rss_bytes", COL_BYTES, true, 5, TOTAL_BY_KIND },
	{ "own", "own_step_seconds", COL_SECONDS, false, 0, TOTAL_BY_KIND },
	{ "doing", "doing", COL_TEXT, false, 0, TOTAL_BY_KIND },
	{ "cpu", "cpu_seconds", COL_SECONDS, false, 0, TOTAL_SUM },
	{ "host", "host", COL_TEXT, false, 0, TOTAL_BY_KIND },
	{ "pid", "pid", COL_COUNT, false, 0, TOTAL_NONE },
	{ "ts", "ts", COL_TIME, false, 0, TOTAL_BY_KIND },
};

const struct stat_view stat_view_workers = {
	.name = "workers", .help = "one row a worker: step, loss, speed, where its time goes", .fetch = fetch, .columns = columns,
	.ncolumns = sizeof columns / sizeof *columns, .derive = derive,
};

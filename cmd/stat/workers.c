/* SPDX-License-Identifier: ISC */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/stat/rows.h"
#include "core/json.h"
#include "core/mem.h"

/* Seconds of silence after which a worker's last known phase says nothing any more. */
#define UNHEARD 1.0

static json_t *fetch_workers(struct http_client *c, struct err *e)
{
	return connect_fetch_json(c, "/v1/workers", "workers", e);
}

/* ---- slowness ---- */

static double own_phase_seconds(const json_t *row)
{
	return json_num(row, "data_seconds", 0) + json_num(row, "compute_seconds", 0) +
	    json_num(row, "encode_seconds", 0) + json_num(row, "push_seconds", 0);
}

/* The seconds that a step takes a worker by itself, without its waits: the mean since the sample
 * before or, without a step since then, since its start; but at least the time that its present
 * step has taken. NAN: unknown, or the worker is not active. */
static double own_step_seconds(const json_t *row, const json_t *before)
{
	double steps = json_num(row, "step", 0) - json_num(before, "step", 0),
	       own = own_phase_seconds(row) - own_phase_seconds(before);
	double now = json_num(row, "doing_seconds", 0), unheard = json_num(row, "seen_seconds", 0);

	if (strcmp(json_str(row, "state", ""), "active") != 0 || json_num(row, "step", 0) <= 0)
		return NAN;
	if (steps < 1 || own < 0) {
		own = own_phase_seconds(row);
		steps = json_num(row, "step", 0);
	}
	own /= steps;
	if (unheard > UNHEARD)
		return fmax(own, unheard);
	/* A worker that waits or is paused is not what the others wait for. */
	return strstr("wait pause", json_str(row, "doing", "wait")) ? own : fmax(own, now);
}

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* The median of v, which is sorted here; the lower one of two. */
static double lower_median(double *v, size_t n)
{
	qsort(v, n, sizeof *v, compare_doubles);
	return n ? v[(n - 1) / 2] : NAN;
}

/* Add "slowness": the ratio of a worker's own step time to the median of all workers. */
static void derive_slowness(json_t *rows, const json_t *before)
{
	double *known = mem_array(json_array_size(rows) + 1, sizeof *known), own, usual;
	json_t *row;
	size_t i, n = 0;

	json_array_foreach(rows, i, row) {
		own = own_step_seconds(row, rows_find_same(before, row));
		if (!(own > 0))
			continue;
		json_object_set_new(row, "own_step_seconds", json_real(own));
		known[n++] = own;
	}
	usual = lower_median(known, n);
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
	{ "lag", "lag", COL_COUNT, true, 0, TOTAL_SUM },
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
	{ "read/s", "data_read_bytes", COL_BYTE_RATE, false, 0, TOTAL_BY_KIND },
	{ "left", "blocks_left", COL_COUNT, false, 0, TOTAL_SUM },
	{ "data", "data_seconds", COL_SECONDS, false, 0, TOTAL_SUM },
	{ "progressive", "progressive_loss", COL_NUMBER, false, 0, TOTAL_BY_KIND },
	{ "bad", "bad_lines", COL_COUNT, false, 0, TOTAL_SUM },
	{ "quota%", "quota_seconds", COL_SHARE, false, 0, TOTAL_BY_KIND },
	{ "seen", "seen_seconds", COL_SECONDS, true, 6, TOTAL_BY_KIND },
	{ "rss", "rss_bytes", COL_BYTES, true, 0, TOTAL_BY_KIND },
	{ "own", "own_step_seconds", COL_SECONDS, false, 0, TOTAL_BY_KIND },
	{ "doing", "doing", COL_TEXT, false, 0, TOTAL_BY_KIND },
	{ "cpu", "cpu_seconds", COL_SECONDS, false, 0, TOTAL_SUM },
	{ "host", "host", COL_TEXT, false, 0, TOTAL_BY_KIND },
	{ "pid", "pid", COL_COUNT, false, 0, TOTAL_NONE },
	{ "ts", "ts", COL_TIME, false, 0, TOTAL_BY_KIND },
};

const struct stat_view stat_view_workers = {
	.name = "workers",
	.help = "one row for each worker: step, loss, speed, and the parts of its time",
	.fetch = fetch_workers,
	.columns = columns,
	.ncolumns = sizeof columns / sizeof *columns,
	.derive = derive_slowness,
};

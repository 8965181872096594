/* SPDX-License-Identifier: ISC */
#include "coordinator/http/exposition.h"

#include <math.h>
#include <string.h>

#include "coordinator/http/metrics.h"
#include "tap.h"

static bool says(struct buf *b, const char *want)
{
	bool same = b->len == strlen(want) && memcmp(b->data, want, b->len) == 0;

	if (!same)
		printf("# %.*s", (int)b->len, (char *)b->data);
	buf_clear(b);
	return same;
}

static void test_samples(void)
{
	static const struct family f = { "ps_x", "gauge", "Help.", "x" };
	struct buf b = BUF_INIT;
	json_t *rows = json_pack("[{s:s, s:f}, {s:s, s:n}, {s:s, s:b}, {s:s}]", "id", "a", "x",
	    0.25, "id", "b", "x", "id", "c", "x", 1, "id", "d");

	exposition_put_rows(&b, &f, 1, rows, "who");
	ok(says(&b,
	       "# HELP ps_x Help.\n# TYPE ps_x gauge\nps_x{who=\"a\"} 0.25\nps_x{who=\"b\"} NaN\nps_x{who=\"c\"} 1\n"
	       "ps_x{who=\"d\"} 0\n"),
	    "a number, null, true, and nothing");
	exposition_put_sample(&b, "ps_x", "name", "a\\b\"c\nd", HUGE_VAL);
	ok(says(&b, "ps_x{name=\"a\\\\b\\\"c\\nd\"} +Inf\n"), "what is escaped in labels");
	exposition_put_sample(&b, "ps_x", NULL, NULL, -HUGE_VAL);
	ok(says(&b, "ps_x -Inf\n"), "without a label");
	json_decref(rows);
	buf_release(&b);
}

static void test_histogram(void)
{
	static const struct family f = { "ps_h", "histogram", "Help.", "h" };
	struct buf b = BUF_INIT;
	json_t *rows = json_pack("[{s:s, s:{s:[f,f], s:[i,i,i], s:f}}, {s:s}]", "id", "a", "h",
	    "le", 0.5, 1.0, "counts", 1, 2, 4, "sum", 7.5, "id", "b");

	exposition_put_histograms(&b, &f, rows, "who");
	ok(says(&b,
	       "# HELP ps_h Help.\n# TYPE ps_h histogram\n"
	       "ps_h_bucket{who=\"a\",le=\"0.5\"} 1\nps_h_bucket{who=\"a\",le=\"1\"} 2\nps_h_bucket{who=\"a\",le=\"+Inf\"} 4\n"
	       "ps_h_sum{who=\"a\"} 7.5\nps_h_count{who=\"a\"} 4\n"
	       "ps_h_bucket{who=\"b\",le=\"+Inf\"} 0\nps_h_sum{who=\"b\"} 0\nps_h_count{who=\"b\"} 0\n"),
	    "a histogram, and one that has counted nothing yet");
	json_decref(rows);
	buf_release(&b);
}

/* A worker may say anything of itself. */
static void test_no_histogram(void)
{
	static const char *const bad[] = { "{\"le\":[],\"counts\":[1,2]}",
		"{\"le\":[2,1],\"counts\":[1,2,3]}", "{\"le\":[1,1],\"counts\":[1,2,3]}",
		"{\"counts\":[0,0,0,0]}", "{\"le\":7,\"counts\":\"x\"}" };
	const struct family f = { "ps_h", "histogram", "Help.", "h" };

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct buf b = BUF_INIT;
		json_t *rows = json_pack("[{s:s, s:o}]", "id", "a", "h",
		    json_loads(bad[i], 0, NULL));

		exposition_put_histograms(&b, &f, rows, "who");
		buf_append(&b, "", 1);
		ok(strstr((char *)b.data, "ps_h_bucket{who=\"a\",le=\"+Inf\"} 0\n") &&
		        !strstr((char *)b.data, "le=\"0\""),
		    "no histogram: %s", bad[i]);
		json_decref(rows);
		buf_release(&b);
	}
}

/* What only some processes tell of. */
static void test_optional(void)
{
	json_t *row = json_object(), *none = json_array(), *events = json_object();
	json_t *old = json_pack("[{s:s}]", "id", "worker-0");
	json_t *now = json_pack("[{s:s, s:f, s:{s:[f], s:[i,i], s:f}}]", "id", "worker-0",
	    "encode_seconds", 1.5, "push_latency", "le", 0.5, "counts", 1, 2, "sum", 3.0);
	json_t *tables = json_pack("[{s:s, s:s, s:i}, {s:s, s:s, s:i, s:i}, {s:s, s:s, s:i}]", "id",
	    "dense", "type", "dense", "live_rows", 9, "id", "counted", "type", "sparse",
	    "live_rows", 5, "offered", 7, "id", "plain", "type", "sparse", "live_rows", 3);
	struct metrics m = { row, none, old, none, tables, events, NULL };
	struct buf b = BUF_INIT;

	metrics_text(&m, &b);
	buf_append(&b, "", 1);
	ok(strstr((char *)b.data, "{worker=\"worker-0\",phase=\"encode\"} 0\n") &&
	        !strstr((char *)b.data, "latency") && !strstr((char *)b.data, "ps_relay"),
	    "a phase is there from the start; nothing of what no worker tells of");
	buf_clear(&b);
	m.workers = now;
	metrics_text(&m, &b);
	buf_append(&b, "", 1);
	ok(strstr((char *)b.data,
	       "ps_worker_step_phase_seconds_total{worker=\"worker-0\",phase=\"encode\"} 1.5\n") &&
	        strstr((char *)b.data,
	            "ps_worker_push_latency_seconds_bucket{worker=\"worker-0\",le=\"+Inf\"} 2\n"),
	    "and all that one does");
	ok(strstr((char *)b.data, "ps_table_rows{table=\"plain\"} 3\n") &&
	        strstr((char *)b.data, "ps_table_rows_offered_total{table=\"counted\"} 7\n") &&
	        !strstr((char *)b.data, "offered_total{table=\"plain\"") &&
	        !strstr((char *)b.data, "{table=\"dense\""),
	    "tables that are sparse, and the counts of those with a policy");
	buf_release(&b);
	json_decref(row);
	json_decref(none);
	json_decref(tables);
	json_decref(events);
	json_decref(old);
	json_decref(now);
}

int main(void)
{
	test_samples();
	test_histogram();
	test_no_histogram();
	test_optional();
	return tap_done();
}

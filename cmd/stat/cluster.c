/* SPDX-License-Identifier: ISC */
#include "view.h"

#include "core/json.h"

/* The view "cluster", with one row: the status of the cluster, and sums over the counters of its
 * servers and workers. */

/* Add to row, for each key, the sum of that key over the list. */
static void add_sums(json_t *row, const json_t *list, const char *const *keys, size_t n)
{
	const json_t *o;
	size_t k;

	for (size_t i = 0; i < n; i++) {
		double sum = 0;

		json_array_foreach(list, k, o)
			sum += json_num(o, keys[i], 0);
		json_object_set_new(row, keys[i], json_real(sum));
	}
}

static void add_push_sum(json_t *row)
{
	double pushes = 0;
	static const char *const keys[] = { "pushes_applied", "pushes_merged", "pushes_duplicate",
		"pushes_late", "pushes_refused" };

	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
		pushes += json_num(row, keys[i], 0);
	json_object_set_new(row, "pushes", json_real(pushes));
}

static void add_mean_staleness(json_t *row, const json_t *servers)
{
	const json_t *o;
	double sum = 0;
	size_t k;

	json_array_foreach(servers, k, o)
		sum += json_num(o, "staleness_mean", 0);
	json_object_set_new(row, "staleness_mean",
	    json_real(json_array_size(servers) ? sum / (double)json_array_size(servers) : 0));
}

/* Add the 99th percentile of staleness over the pushes of all servers: the bound of its bucket. */
static void add_staleness_p99(json_t *row, const json_t *servers)
{
	const json_t *o = NULL, *le = NULL;
	double all = 0, below;
	size_t k;

	json_array_foreach(servers, k, o) {
		const json_t *h = json_object_get(o, "staleness"),
		             *counts = json_object_get(h, "counts");

		le = json_object_get(h, "le") ? json_object_get(h, "le") : le;
		all += json_number_value(json_array_get(counts, json_array_size(counts) - 1));
	}
	for (size_t i = 0; all > 0 && i < json_array_size(le); i++) {
		below = 0;
		json_array_foreach(servers, k, o)
			below += json_number_value(
			    json_array_get(json_object_get(json_object_get(o, "staleness"),
			                       "counts"),
			        i));
		if (below >= 0.99 * all) {
			json_object_set(row, "staleness_p99", json_array_get(le, i));
			return;
		}
	}
}

/* A job without job.stop has a best evaluation, too. */
static void add_best_eval(json_t *row)
{
	const json_t *best = json_object_get(row, "best_eval");

	if (!json_is_object(best) || json_object_get(row, "best_value"))
		return;
	json_object_set(row, "best_value", json_object_get(best, "value"));
	json_object_set(row, "best_step", json_object_get(best, "step"));
}

/* The fetch of the view: one row with the id "cluster". */
static json_t *fetch_cluster(struct http_client *c, struct err *e)
{
	static const char *const of_servers[] = { "pushes_applied", "pushes_merged",
		"pushes_duplicate", "pushes_late", "pushes_refused", "pulls", "received_bytes",
		"sent_bytes", "parameters", "parameter_bytes", "auth_failures" };
	static const char *const of_workers[] = { "data_seconds", "pull_seconds", "compute_seconds",
		"encode_seconds", "push_seconds", "wait_seconds", "lag" };
	json_t *all = connect_snapshot(c, "status,servers,workers", e), *row, *servers, *workers;

	if (!all)
		return NULL;
	row = json_incref(json_object_get(all, "status"));
	servers = json_object_get(all, "servers");
	workers = json_object_get(all, "workers");
	add_sums(row, servers, of_servers, sizeof of_servers / sizeof *of_servers);
	add_sums(row, workers, of_workers, sizeof of_workers / sizeof *of_workers);
	add_push_sum(row);
	add_mean_staleness(row, servers);
	add_staleness_p99(row, servers);
	json_object_set_new(row, "id", json_string("cluster"));
	add_best_eval(row);
	json_decref(all);
	return json_pack("[o]", row);
}

static const struct column columns[] = {
	{ "step", "step", COL_COUNT, true, 0, TOTAL_BY_KIND },
	{ "loss", "train_loss", COL_NUMBER, true, 0, TOTAL_BY_KIND },
	{ "ex/s", "examples", COL_RATE, true, 0, TOTAL_BY_KIND },
	{ "push/s", "pushes", COL_RATE, true, 0, TOTAL_BY_KIND },
	{ "pull/s", "pulls", COL_RATE, true, 0, TOTAL_BY_KIND },
	{ "rx/s", "received_bytes", COL_BYTE_RATE, true, 0, TOTAL_BY_KIND },
	{ "tx/s", "sent_bytes", COL_BYTE_RATE, true, 0, TOTAL_BY_KIND },
	{ "stale", "staleness_mean", COL_NUMBER, true, 5, TOTAL_BY_KIND },
	{ "wait%", "wait_seconds", COL_SHARE, true, 0, TOTAL_BY_KIND },
	{ "wrk", "workers", COL_COUNT, true, 3, TOTAL_BY_KIND },
	{ "srv", "servers", COL_COUNT, true, 3, TOTAL_BY_KIND },
	{ "state", "state", COL_TEXT, true, 8, TOTAL_BY_KIND },
	{ "progressive", "progressive_loss", COL_NUMBER, false, 0, TOTAL_BY_KIND },
	{ "best", "best_value", COL_NUMBER, false, 0, TOTAL_BY_KIND },
	{ "best-step", "best_step", COL_COUNT, false, 0, TOTAL_BY_KIND },
	{ "data%", "data_seconds", COL_SHARE, false, 0, TOTAL_BY_KIND },
	{ "comp%", "compute_seconds", COL_SHARE, false, 0, TOTAL_BY_KIND },
	{ "enc%", "encode_seconds", COL_SHARE, false, 0, TOTAL_BY_KIND },
	{ "push%", "push_seconds", COL_SHARE, false, 0, TOTAL_BY_KIND },
	{ "pull%", "pull_seconds", COL_SHARE, false, 0, TOTAL_BY_KIND },
	{ "stale-p99", "staleness_p99", COL_NUMBER, false, 0, TOTAL_BY_KIND },
	{ "lag", "lag", COL_COUNT, false, 0, TOTAL_BY_KIND },
	{ "ts", "ts", COL_TIME, false, 0, TOTAL_BY_KIND },
	{ "name", "name", COL_TEXT, false, 0, TOTAL_BY_KIND },
	{ "sync", "sync", COL_TEXT, false, 0, TOTAL_BY_KIND },
	{ "examples", "examples", COL_COUNT, false, 0, TOTAL_BY_KIND },
	{ "params", "parameters", COL_COUNT, false, 0, TOTAL_BY_KIND },
	{ "bytes", "parameter_bytes", COL_BYTES, false, 0, TOTAL_BY_KIND },
	{ "refused", "pushes_refused", COL_COUNT, false, 0, TOTAL_BY_KIND },
	{ "late", "pushes_late", COL_COUNT, false, 0, TOTAL_BY_KIND },
	{ "auth-fail", "auth_failures", COL_COUNT, false, 0, TOTAL_BY_KIND },
	{ "seconds", "seconds", COL_SECONDS, false, 0, TOTAL_BY_KIND },
};

const struct stat_view stat_view_cluster = {
	.name = "cluster",
	.help = "the cluster in one row",
	.fetch = fetch_cluster,
	.columns = columns,
	.ncolumns = sizeof columns / sizeof *columns,
};

#include "view.h"

#include "base/json.h"

/* The cluster in one row: the status, with what its servers and workers have
 * counted added up. */

static void add_up(json_t *row, const json_t *list, const char *const *keys, size_t n)
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

static void add_pushes(json_t *row)
{
	double pushes = 0;
	static const char *const keys[] = { "pushes_applied", "pushes_merged", "pushes_duplicate", "pushes_late",
		"pushes_refused" };

	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
		pushes += json_num(row, keys[i], 0);
	json_object_set_new(row, "pushes", json_real(pushes));
}

static void mean_staleness(json_t *row, const json_t *servers)
{
	const json_t *o;
	double sum = 0;
	size_t k;

	json_array_foreach(servers, k, o)
		sum += json_num(o, "staleness_mean", 0);
	json_object_set_new(row, "staleness_mean",
	    json_real(json_array_size(servers) ? sum / (double)json_array_size(servers) : 0));
}

static json_t *fetch(struct http_client *c, struct err *e)
{
	static const char *const of_servers[] = { "pushes_applied", "pushes_merged", "pushes_duplicate", "pushes_late",
		"pushes_refused", "pulls", "received_bytes", "sent_bytes", "parameters", "parameter_bytes", "auth_failures" };
	static const char *const of_workers[] = { "data_seconds", "pull_seconds", "compute_seconds", "push_seconds",
		"wait_seconds" };
	json_t *row = view_get(c, "/v1/status", NULL, e), *servers, *workers;

	servers = row ? view_get(c, "/v1/servers", "servers", e) : NULL;
	workers = servers ? view_get(c, "/v1/workers", "workers", e) : NULL;
	if (!workers) {
		json_decref(row);
		json_decref(servers);
		return NULL;
	}
	add_up(row, servers, of_servers, sizeof of_servers / sizeof *of_servers);
	add_up(row, workers, of_workers, sizeof of_workers / sizeof *of_workers);
	add_pushes(row);
	mean_staleness(row, servers);
	json_object_set_new(row, "id", json_string("cluster"));
	json_decref(servers);
	json_decref(workers);
	return json_pack("[o]", row);
}

static const struct column columns[] = {
	{ "step", "step", COL_COUNT, true },
	{ "loss", "train_loss", COL_NUMBER, true },
	{ "ex/s", "examples", COL_RATE, true },
	{ "push/s", "pushes", COL_RATE, true },
	{ "pull/s", "pulls", COL_RATE, true },
	{ "rx/s", "received_bytes", COL_BYTE_RATE, true },
	{ "tx/s", "sent_bytes", COL_BYTE_RATE, true },
	{ "stale", "staleness_mean", COL_NUMBER, true },
	{ "wait%", "wait_seconds", COL_SHARE, true },
	{ "wrk", "workers", COL_COUNT, true },
	{ "srv", "servers", COL_COUNT, true },
	{ "state", "state", COL_TEXT, true },
	{ "ts", "ts", COL_TEXT, false },
	{ "name", "name", COL_TEXT, false },
	{ "sync", "sync", COL_TEXT, false },
	{ "examples", "examples", COL_COUNT, false },
	{ "params", "parameters", COL_COUNT, false },
	{ "bytes", "parameter_bytes", COL_BYTES, false },
	{ "refused", "pushes_refused", COL_COUNT, false },
	{ "late", "pushes_late", COL_COUNT, false },
	{ "auth-fail", "auth_failures", COL_COUNT, false },
	{ "seconds", "seconds", COL_SECONDS, false },
};

const struct stat_view stat_view_cluster = {
	"cluster", "the cluster in one row", fetch, columns, sizeof columns / sizeof *columns, NULL, NULL,
};

/* SPDX-License-Identifier: ISC */
#include "coord/coord_state.h"

#include "core/json.h"

/* One row with the figures of all processes added up, from their last heartbeats. */

static const char *const worker_sum[] = {
	"data_seconds",
	"pull_seconds",
	"compute_seconds",
	"encode_seconds",
	"push_seconds",
	"wait_seconds",
};
static const char *const server_sum[] = {
	"pushes_applied",
	"pushes_merged",
	"pushes_duplicate",
	"pushes_late",
	"pushes_refused",
	"pushes_split",
	"pulls",
	"received_bytes",
	"sent_bytes",
	"parameters",
	"parameter_bytes",
	"auth_failures",
};
#define COUNT(a) (sizeof(a) / sizeof *(a))

static void sum_worker_figures(const struct coord *c, json_t *row)
{
	double sum[COUNT(worker_sum)] = { 0 }, norm = 0;
	bool told[COUNT(worker_sum)] = { false };
	unsigned norms = 0;

	for (unsigned i = 0; i < c->nworkers; i++) {
		const json_t *stats = c->worker[i].stats,
		             *v = json_object_get(stats, "gradient_norm");

		for (size_t k = 0; stats && k < COUNT(worker_sum); k++) {
			sum[k] += json_num(stats, worker_sum[k], 0);
			told[k] |= json_object_get(stats, worker_sum[k]) != NULL;
		}
		norm += json_is_number(v) ? json_number_value(v) : 0;
		norms += json_is_number(v);
	}
	for (size_t k = 0; k < COUNT(worker_sum); k++)
		if (told[k])
			json_object_set_new(row, worker_sum[k], json_of_num(sum[k]));
	json_object_set_new(row, "gradient_norm", norms ? json_of_num(norm / norms) : json_null());
}

/* Add histogram h to sum, and return the sum. All servers of one version use the same buckets. */
static json_t *add_histograms(json_t *sum, const json_t *h)
{
	const json_t *counts = json_object_get(h, "counts"), *have = json_object_get(sum, "counts");
	size_t n = json_array_size(counts);

	if (!n)
		return sum;
	if (!sum)
		return json_deep_copy(h);
	for (size_t i = 0; i < n && i < json_array_size(have); i++)
		json_integer_set(json_array_get(have, i),
		    json_integer_value(json_array_get(have, i)) +
		        json_integer_value(json_array_get(counts, i)));
	json_object_set_new(sum, "sum",
	    json_of_num(json_num(sum, "sum", 0) + json_num(h, "sum", 0)));
	return sum;
}

static void sum_server_figures(const struct coord *c, json_t *row)
{
	json_int_t sum[COUNT(server_sum)] = { 0 }, n;
	json_t *staleness = NULL;
	const json_t *counts;

	for (unsigned i = 0; i < c->nservers; i++) {
		const json_t *stats = c->server[i].stats;

		for (size_t k = 0; stats && k < COUNT(server_sum); k++)
			sum[k] += json_int(stats, server_sum[k], 0);
		staleness = add_histograms(staleness, json_object_get(stats, "staleness"));
	}
	for (size_t k = 0; k < COUNT(server_sum); k++)
		json_object_set_new(row, server_sum[k], json_integer(sum[k]));
	counts = json_object_get(staleness, "counts");
	n = json_integer_value(json_array_get(counts, json_array_size(counts) - 1));
	json_object_set_new(row, "staleness_mean",
	    json_of_num(n ? json_num(staleness, "sum", 0) / (double)n : 0));
	if (staleness)
		json_object_set_new(row, "staleness", staleness);
}

json_t *coord_row(const struct coord *c, int64_t now)
{
	json_t *row = coord_status(c, now);

	sum_worker_figures(c, row);
	sum_server_figures(c, row);
	return row;
}

/* SPDX-License-Identifier: ISC */
#include "coord/coord_state.h"

#include <stddef.h>
#include <string.h>

#include "core/json.h"

/* One row with the figures of all processes added up, from their last heartbeats. */

/* Figures that are added up: their keys, and where they lie in the struct. */
static const struct {
	const char *key;
	size_t value, has;
} worker_sum[] = {
#define SUM(member) \
	{ \
#member, offsetof(struct heartbeat_worker, member), \
		    offsetof(struct heartbeat_worker, has_##member) \
	}
	SUM(data_seconds),
	SUM(pull_seconds),
	SUM(compute_seconds),
	SUM(encode_seconds),
	SUM(push_seconds),
	SUM(wait_seconds),
#undef SUM
};
static const struct {
	const char *key;
	size_t value;
} server_sum[] = {
#define SUM(member) \
	{ \
#member, offsetof(struct heartbeat_server, member) \
	}
	SUM(pushes_applied),
	SUM(pushes_merged),
	SUM(pushes_duplicate),
	SUM(pushes_late),
	SUM(pushes_refused),
	SUM(pushes_split),
	SUM(pulls),
	SUM(received_bytes),
	SUM(sent_bytes),
	SUM(parameters),
	SUM(parameter_bytes),
	SUM(auth_failures),
#undef SUM
};
#define COUNT(a) (sizeof(a) / sizeof *(a))

static void sum_worker_figures(const struct coord *c, json_t *row)
{
	double sum[COUNT(worker_sum)] = { 0 }, norm = 0;
	bool known[COUNT(worker_sum)] = { false };
	unsigned norms = 0;

	for (unsigned i = 0; i < c->nworkers; i++) {
		const struct heartbeat_worker *f = &c->worker[i].figures;

		for (size_t k = 0; k < COUNT(worker_sum); k++) {
			double value;

			memcpy(&value, (const char *)f + worker_sum[k].value, sizeof value);
			sum[k] += value;
			known[k] |= *(const bool *)((const char *)f + worker_sum[k].has);
		}
		norm += f->gradient_norm;
		norms += f->has_gradient_norm;
	}
	for (size_t k = 0; k < COUNT(worker_sum); k++)
		if (known[k])
			json_object_set_new(row, worker_sum[k].key, json_of_num(sum[k]));
	json_object_set_new(row, "gradient_norm", norms ? json_of_num(norm / norms) : json_null());
}

/* Add a histogram to sum. All servers of one version use the same buckets. */
static void add_histogram(struct heartbeat_hist *sum, const struct heartbeat_hist *h)
{
	if (!sum->n) {
		*sum = *h;
		return;
	}
	for (size_t i = 0; i < h->n && i < sum->n; i++)
		sum->count[i] += h->count[i];
	sum->sum += h->sum;
}

/* h->n is not 0. */
static json_t *histogram_to_json(const struct heartbeat_hist *h)
{
	json_t *counts = json_array();

	for (size_t i = 0; i < h->n; i++)
		json_array_append_new(counts, json_integer(h->count[i]));
	return json_pack("{s:O*, s:o, s:o}", "le", h->le, "counts", counts, "sum",
	    json_of_num(h->sum));
}

static void sum_server_figures(const struct coord *c, json_t *row)
{
	struct heartbeat_hist staleness = { 0 };
	int64_t sum[COUNT(server_sum)] = { 0 }, n;

	for (unsigned i = 0; i < c->nservers; i++) {
		const struct heartbeat_server *f = &c->server[i].figures;

		for (size_t k = 0; k < COUNT(server_sum); k++)
			sum[k] += *(const int64_t *)((const char *)f + server_sum[k].value);
		add_histogram(&staleness, &f->staleness);
	}
	for (size_t k = 0; k < COUNT(server_sum); k++)
		json_object_set_new(row, server_sum[k].key, json_integer(sum[k]));
	n = staleness.n ? staleness.count[staleness.n - 1] : 0;
	json_object_set_new(row, "staleness_mean", json_of_num(n ? staleness.sum / (double)n : 0));
	if (staleness.n)
		json_object_set_new(row, "staleness", histogram_to_json(&staleness));
}

json_t *coord_row(const struct coord *c, int64_t now)
{
	json_t *row = coord_status(c, now);

	sum_worker_figures(c, row);
	sum_server_figures(c, row);
	return row;
}

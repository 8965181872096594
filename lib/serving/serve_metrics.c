/* SPDX-License-Identifier: ISC */
#include "serving/serve_metrics.h"

#include <inttypes.h>

/* Buckets of times are powers of two from 2^FIRST to 2^LAST ns: 1 us to 8.6 s. */
#define FIRST 10u
#define LAST  33u
/* Those of counts, from 1 to 65536. */
#define COUNT_LAST 16u

static void put_head(struct buf *out, const char *name, const char *type, const char *help)
{
	buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* Writes the buckets first .. last of a histogram, whose bounds are 2^i * scale. label: "" or one with
 * a comma after it. */
static void put_hist(struct buf *out, const char *name, const char *label, const struct hist *h,
    unsigned first, unsigned last, double scale)
{
	uint64_t n = 0, all = atomic_load(&h->count);

	for (unsigned i = 0; i <= last; i++) {
		n += atomic_load(&h->bucket[i]);
		if (i >= first)
			buf_printf(out, "%s_bucket{%sle=\"%.9g\"} %" PRIu64 "\n", name, label,
			    (double)(UINT64_C(1) << i) * scale, n);
	}
	buf_printf(out, "%s_bucket{%sle=\"+Inf\"} %" PRIu64 "\n", name, label, all);
	if (*label)
		buf_printf(out, "%s_sum{%.*s} %.9g\n%s_count{%.*s} %" PRIu64 "\n", name,
		    (int)strlen(label) - 1, label, (double)atomic_load(&h->sum) * scale, name,
		    (int)strlen(label) - 1, label, all);
	else
		buf_printf(out, "%s_sum %.9g\n%s_count %" PRIu64 "\n", name,
		    (double)atomic_load(&h->sum) * scale, name, all);
}

static void put_number(struct buf *out, const char *name, const char *type, const char *help,
    double v)
{
	put_head(out, name, type, help);
	buf_printf(out, "%s %.15g\n", name, v);
}

static void put_stages(const struct serve_metrics *m, struct buf *out)
{
	static const char name[] = "ps_serve_stage_seconds";
	static const char *const stage[SERVE_STAGES] = { "stage=\"parse\",", "stage=\"look_up\",",
		"stage=\"compute\",", "stage=\"write\"," };

	put_head(out, name, "histogram", "Time of the stages of a batch of requests.");
	for (size_t i = 0; i < SERVE_STAGES; i++)
		put_hist(out, name, stage[i], &m->stage[i], FIRST, LAST, 1e-9);
}

static void put_codes(const struct serve_metrics *m, struct buf *out)
{
	static const char name[] = "ps_serve_requests_total";

	put_head(out, name, "counter", "Answers by HTTP status.");
	for (size_t i = 0; i < SERVE_CODES; i++)
		if (atomic_load(&m->code[i]))
			buf_printf(out, "%s{code=\"%zu\"} %" PRIu64 "\n", name, i,
			    atomic_load(&m->code[i]));
}

void serve_metrics_write(const struct serve_metrics *m, const struct serve_now *now,
    struct buf *out)
{
	put_codes(m, out);
	put_head(out, "ps_serve_request_seconds", "histogram",
	    "Time from the last byte of a request to its answer.");
	put_hist(out, "ps_serve_request_seconds", "", &m->request, FIRST, LAST, 1e-9);
	put_stages(m, out);
	put_head(out, "ps_serve_batch_requests", "histogram",
	    "Requests that were computed together.");
	put_hist(out, "ps_serve_batch_requests", "", &m->batch_requests, 0, COUNT_LAST, 1);
	put_head(out, "ps_serve_batch_rows", "histogram", "Examples that were computed together.");
	put_hist(out, "ps_serve_batch_rows", "", &m->batch_rows, 0, COUNT_LAST, 1);
	put_number(out, "ps_serve_connections", "gauge", "Open connections.",
	    (double)now->connections);
	put_number(out, "ps_serve_memory_bytes", "gauge", "Bytes of bodies and answers in memory.",
	    (double)now->memory);
	put_number(out, "ps_serve_cut_total", "counter",
	    "Connections that were closed because a request or the reading of an answer took too long.",
	    (double)atomic_load(&m->cut));
	if (now->age >= 0)
		put_number(out, "ps_serve_model_age_seconds", "gauge",
		    "Age of the values that predictions are made of.", now->age);
	put_head(out, "ps_serve_model_info", "gauge", "1, with the version of the model.");
	buf_printf(out, "ps_serve_model_info{version=\"%s\"} 1\n", now->version);
	put_number(out, "ps_serve_model_number", "gauge",
	    "Number of the model, from 1 for the first one since the start.",
	    (double)now->model_number);
	put_number(out, "ps_serve_models_taken_total", "counter",
	    "Models that took the place of another one.", (double)now->models_taken);
	put_number(out, "ps_serve_models_refused_total", "counter",
	    "Models that were refused, because they are damaged or have other tables.",
	    (double)now->models_refused);
}

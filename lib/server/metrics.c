#include "server/metrics.h"

#include <math.h>

#include "base/json.h"
#include "base/num.h"
#include "base/version.h"

/* One family: HELP, TYPE, then a sample for each row of `rows` from its member
 * `key`, labelled by its id. */
struct family {
	const char *name, *type, *help, *key;
};

static void put_value(struct buf *out, double v)
{
	char text[32];

	if (isnan(v))
		buf_puts(out, "NaN");
	else if (isinf(v))
		buf_puts(out, v > 0 ? "+Inf" : "-Inf");
	else {
		num_format(v, text);
		buf_puts(out, text);
	}
	buf_puts(out, "\n");
}

static void put_label(struct buf *out, const char *name, const char *value)
{
	buf_printf(out, "%s=\"", name);
	for (; *value; value++) {
		if (*value == '\\' || *value == '"')
			buf_printf(out, "\\%c", *value);
		else if (*value == '\n')
			buf_puts(out, "\\n");
		else
			buf_append(out, value, 1);
	}
	buf_puts(out, "\"");
}

static void put_head(struct buf *out, const char *name, const char *type, const char *help)
{
	buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static double number(const json_t *o, const char *key)
{
	const json_t *v = json_object_get(o, key);

	if (json_is_true(v))
		return 1;
	return json_is_number(v) ? json_number_value(v) : json_is_null(v) && v ? (double)NAN : 0;
}

/* The label's value: "server-1" -> "1" would hide what it is, so the id whole. */
static const char *id_of(const json_t *o)
{
	return json_str(o, "id", "");
}

static void put_families(struct buf *out, const struct family *f, size_t n, const json_t *rows, const char *label)
{
	for (size_t i = 0; i < n; i++) {
		const json_t *row;
		size_t k;

		put_head(out, f[i].name, f[i].type, f[i].help);
		json_array_foreach(rows, k, row) {
			buf_printf(out, "%s{", f[i].name);
			put_label(out, label, id_of(row));
			buf_puts(out, "} ");
			put_value(out, number(row, f[i].key));
		}
	}
}

/* A family with a second label: one sample for each of `values`. */
static void put_split(struct buf *out, const struct family *f, const json_t *rows, const char *label, const char *second,
    const char *const *values, const char *const *keys, size_t n)
{
	const json_t *row;
	size_t k;

	put_head(out, f->name, f->type, f->help);
	json_array_foreach(rows, k, row)
		for (size_t i = 0; i < n; i++) {
			buf_printf(out, "%s{", f->name);
			put_label(out, label, id_of(row));
			buf_puts(out, ",");
			put_label(out, second, values[i]);
			buf_puts(out, "} ");
			put_value(out, number(row, keys[i]));
		}
}

/* {"le":[..],"counts":[..],"sum":x}: counts are cumulative, the last is all. */
static void put_histogram(struct buf *out, const struct family *f, const json_t *rows, const char *label)
{
	const json_t *row;
	size_t k;

	put_head(out, f->name, f->type, f->help);
	json_array_foreach(rows, k, row) {
		const json_t *h = json_object_get(row, f->key), *le = json_object_get(h, "le");
		const json_t *counts = json_object_get(h, "counts");
		size_t n = json_array_size(counts);
		char bound[32];

		for (size_t i = 0; i < n; i++) {
			buf_printf(out, "%s_bucket{", f->name);
			put_label(out, label, id_of(row));
			num_format(json_number_value(json_array_get(le, i)), bound);
			buf_printf(out, ",le=\"%s\"} %lld\n", i + 1 < n ? bound : "+Inf",
			    (long long)json_integer_value(json_array_get(counts, i)));
		}
		if (!n)
			continue;
		buf_printf(out, "%s_sum{", f->name);
		put_label(out, label, id_of(row));
		buf_puts(out, "} ");
		put_value(out, number(h, "sum"));
		buf_printf(out, "%s_count{", f->name);
		put_label(out, label, id_of(row));
		buf_printf(out, "} %lld\n", (long long)json_integer_value(json_array_get(counts, n - 1)));
	}
}

/* ---- the cluster ---------------------------------------------------------------------- */

static void put_one(struct buf *out, const char *name, const char *type, const char *help, double v)
{
	put_head(out, name, type, help);
	buf_printf(out, "%s ", name);
	put_value(out, v);
}

static void put_cluster(struct buf *out, const json_t *s)
{
	static const char *const states[] = { "forming", "running", "finishing", "done", "failed", "stopped" };
	const json_t *eval = json_object_get(s, "eval");

	put_head(out, "ps_build_info", "gauge", "Version of the coordinator.");
	buf_printf(out, "ps_build_info{version=\"%s\",protocol=\"%d\"} 1\n", PSKIT_VERSION, PSKIT_PROTOCOL);
	put_head(out, "ps_cluster_info", "gauge", "What the cluster is.");
	buf_puts(out, "ps_cluster_info{");
	put_label(out, "cluster", json_str(s, "name", ""));
	buf_puts(out, ",");
	put_label(out, "consistency", json_str(s, "sync", ""));
	buf_puts(out, ",");
	put_label(out, "model", json_str(s, "model", ""));
	buf_puts(out, "} 1\n");
	put_head(out, "ps_cluster_state", "gauge", "1 for the state the job is in.");
	for (size_t i = 0; i < sizeof states / sizeof *states; i++)
		buf_printf(out, "ps_cluster_state{state=\"%s\"} %d\n", states[i], strcmp(json_str(s, "state", ""), states[i]) == 0);
	put_one(out, "ps_cluster_servers", "gauge", "Living servers.", number(s, "servers"));
	put_one(out, "ps_cluster_workers", "gauge", "Active workers.", number(s, "workers"));
	put_one(out, "ps_cluster_step", "gauge", "Step of the slowest active worker.", number(s, "step"));
	put_one(out, "ps_cluster_layout_epoch", "gauge", "Epoch of the layout.", number(s, "epoch"));
	put_one(out, "ps_cluster_train_loss", "gauge", "Mean training loss of the workers' last batches.",
	    number(s, "train_loss"));
	put_one(out, "ps_cluster_eval_loss", "gauge", "Loss of the last evaluation.", eval ? number(eval, "loss") : (double)NAN);
	put_one(out, "ps_cluster_eval_accuracy", "gauge", "Accuracy of the last evaluation, 0 to 1.",
	    eval && json_object_get(eval, "accuracy") ? number(eval, "accuracy") : (double)NAN);
}

/* ---- servers and workers ------------------------------------------------------------------ */

static const struct family server_families[] = {
	{ "ps_server_step", "gauge", "Steps that all slots have completed here.", "step" },
	{ "ps_server_parameters", "gauge", "Parameters held.", "parameters" },
	{ "ps_server_parameter_bytes", "gauge", "Bytes of parameters held.", "parameter_bytes" },
	{ "ps_server_optimizer_bytes", "gauge", "Bytes of optimizer state and row indexes.", "state_bytes" },
	{ "ps_server_rows", "gauge", "Rows of sparse tables.", "rows" },
	{ "ps_server_pulls_total", "counter", "Partitions and row lists answered.", "pulls" },
	{ "ps_server_received_bytes_total", "counter", "Bytes received on data connections.", "received_bytes" },
	{ "ps_server_sent_bytes_total", "counter", "Bytes sent on data connections.", "sent_bytes" },
	{ "ps_server_sessions", "gauge", "Authenticated sessions.", "sessions" },
	{ "ps_server_auth_failures_total", "counter", "Connections refused for a wrong key, tag or record.", "auth_failures" },
	{ "ps_server_nonfinite_gradients_total", "counter", "Pushes refused for NaN or infinity.", "pushes_refused" },
	{ "ps_server_resident_memory_bytes", "gauge", "Resident memory of the process.", "rss_bytes" },
	{ "ps_server_cpu_seconds_total", "counter", "Processor time used.", "cpu_seconds" },
	{ "ps_server_open_fds", "gauge", "Open file descriptors.", "open_fds" },
};

static const struct family worker_families[] = {
	{ "ps_worker_step", "gauge", "Steps completed.", "step" },
	{ "ps_worker_epoch", "gauge", "Epochs of the data, with a fraction.", "epoch" },
	{ "ps_worker_loss", "gauge", "Mean loss of the last batches.", "train_loss" },
	{ "ps_worker_samples_total", "counter", "Examples trained on.", "examples" },
	{ "ps_worker_pushed_bytes_total", "counter", "Bytes sent to servers.", "pushed_bytes" },
	{ "ps_worker_pulled_bytes_total", "counter", "Bytes received from servers.", "pulled_bytes" },
	{ "ps_worker_rows_offered_total", "counter", "Rows of sparse gradients.", "rows_offered" },
	{ "ps_worker_ring_bytes_total", "counter", "Bytes sent to other workers, with via allreduce.", "ring_bytes" },
	{ "ps_worker_rows_held_total", "counter", "Of these, rows that the filter has held back.", "rows_held" },
	{ "ps_worker_last_seen_seconds", "gauge", "Seconds since the last heartbeat.", "seen_seconds" },
	{ "ps_worker_resident_memory_bytes", "gauge", "Resident memory of the process.", "rss_bytes" },
	{ "ps_worker_cpu_seconds_total", "counter", "Processor time used.", "cpu_seconds" },
};

static void put_up(struct buf *out, const char *name, const char *help, const json_t *rows, const char *label,
    const char *state)
{
	const json_t *row;
	size_t k;

	put_head(out, name, "gauge", help);
	json_array_foreach(rows, k, row) {
		buf_printf(out, "%s{", name);
		put_label(out, label, id_of(row));
		buf_printf(out, "} %d\n", strcmp(json_str(row, "state", ""), state) == 0);
	}
}

void metrics_text(const json_t *status, const json_t *servers, const json_t *workers, struct buf *out)
{
	static const struct family pushes = { "ps_server_pushes_total", "counter", "Pushes by what became of them.", NULL };
	static const char *const result[] = { "applied", "merged", "duplicate", "late", "refused" };
	static const char *const result_key[] = { "pushes_applied", "pushes_merged", "pushes_duplicate", "pushes_late",
		"pushes_refused" };
	static const struct family phase = { "ps_worker_step_phase_seconds_total", "counter",
		"Time in each phase of a step.", NULL };
	static const char *const phases[] = { "data", "pull", "compute", "encode", "push", "wait" };
	static const char *const phase_key[] = { "data_seconds", "pull_seconds", "compute_seconds", "encode_seconds",
		"push_seconds", "wait_seconds" };
	static const struct family staleness = { "ps_server_push_staleness_versions", "histogram",
		"Updates between a gradient's pull and its push.", "staleness" };
	static const struct family apply = { "ps_server_apply_duration_seconds", "histogram",
		"Time from a verified push to its sum or update.", "apply" };
	static const struct family latency = { "ps_worker_push_latency_seconds", "histogram",
		"Time from a push to its receipt.", "push_latency" };

	put_cluster(out, status);
	put_up(out, "ps_server_up", "1 when the server is live.", servers, "server", "live");
	put_families(out, server_families, sizeof server_families / sizeof *server_families, servers, "server");
	put_split(out, &pushes, servers, "server", "result", result, result_key, 5);
	put_histogram(out, &staleness, servers, "server");
	put_histogram(out, &apply, servers, "server");
	put_up(out, "ps_worker_up", "1 when the worker is active.", workers, "worker", "active");
	put_families(out, worker_families, sizeof worker_families / sizeof *worker_families, workers, "worker");
	put_split(out, &phase, workers, "worker", "phase", phases, phase_key, 6);
	put_histogram(out, &latency, workers, "worker");
}

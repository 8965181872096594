/* SPDX-License-Identifier: ISC */
#include "coordinator/http/metrics.h"

#include <math.h>

#include "coordinator/http/exposition.h"
#include "core/clock.h"
#include "core/json.h"
#include "core/version.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* Labels have few values that are known beforehand: the number of a process, a result, a phase,
 * or the name of a sparse table. Steps, paths and addresses are never labels: each value would
 * make a new series. */

/* ---- the cluster ---- */

static const struct family cluster_families[] = {
	{ "ps_cluster_servers", "gauge", "Living servers.", "servers" },
	{ "ps_cluster_servers_wanted", "gauge", "Servers that the cluster should have.",
	    "servers_wanted" },
	{ "ps_cluster_workers", "gauge", "Active workers.", "workers" },
	{ "ps_cluster_workers_wanted", "gauge", "Workers that the cluster should have.",
	    "workers_wanted" },
	{ "ps_cluster_step", "gauge", "Step of the slowest active worker.", "step" },
	{ "ps_cluster_steps_wanted", "gauge", "Steps of the job, 0 without a limit.",
	    "steps_total" },
	{ "ps_cluster_data_bytes", "gauge", "Bytes of an epoch of data in blocks.", "data_bytes" },
	{ "ps_cluster_data_done_bytes", "gauge",
	    "Bytes of data in blocks that workers have trained on, in all epochs.",
	    "data_done_bytes" },
	{ "ps_cluster_layout_epoch", "gauge", "The layout epoch.", "layout_epoch" },
	{ "ps_cluster_generation", "gauge",
	    "Number that increases with each rollback to a checkpoint.", "generation" },
	{ "ps_cluster_partitions", "gauge", "Partitions of all tables.", "partitions" },
	{ "ps_cluster_partitions_moving", "gauge",
	    "Partitions that are being copied to another server.", "partitions_moving" },
	{ "ps_cluster_running_seconds", "gauge", "Time that the job has run.", "seconds" },
	{ "ps_cluster_settings", "gauge", "Changes of settings.", "settings" },
	{ "ps_cluster_paused", "gauge", "1 while the job is paused.", "paused" },
	{ "ps_cluster_data_lost", "gauge", "1 when partitions have no replica left.", "data_lost" },
	{ "ps_cluster_train_loss", "gauge", "Mean training loss of the workers' last batches.",
	    "train_loss" },
	{ "ps_cluster_progressive_loss", "gauge",
	    "Mean loss of all examples, each before training on it.", "progressive_loss" },
	{ "ps_cluster_gradient_norm", "gauge", "Mean of the workers' last gradient norms.",
	    "gradient_norm" },
	{ "ps_cluster_learning_rate", "gauge",
	    "Learning rate of the current step, by the schedule.", "lr" },
	{ "ps_cluster_eval_step", "gauge", "Step of the last evaluation.", "eval_step" },
};

static const struct family eval_families[] = {
#define METRIC(name, better, place, help) { "ps_cluster_eval_" #name, "gauge", help, #name },
#include "metric/metric.def"
#undef METRIC
};

static const struct family checkpoint_families[] = {
	{ "ps_checkpoints_total", "counter", "Checkpoints made by this coordinator.",
	    "checkpoints" },
	{ "ps_checkpoint_failures_total", "counter", "Checkpoints that could not be made.",
	    "checkpoint_failures" },
	{ "ps_checkpoint_last_success_timestamp_seconds", "gauge",
	    "Time of the newest checkpoint, 0 without one.", "checkpoint_unix_seconds" },
	{ "ps_checkpoint_last_step", "gauge", "Step of the newest checkpoint.", "checkpoint_step" },
	{ "ps_checkpoint_duration_seconds", "gauge", "Duration of the newest checkpoint.",
	    "checkpoint_seconds" },
	{ "ps_checkpoint_interval_seconds", "gauge",
	    "Interval of checkpoints, 0 if they are made by steps or on request.",
	    "checkpoint_every_seconds" },
};

static void put_info(struct buf *out, const json_t *row)
{
	static const struct family build = { "ps_build_info", "gauge",
		"Version of the coordinator.", NULL };
	static const struct family info = { "ps_cluster_info", "gauge", "Settings of the cluster.",
		NULL };
	static const struct family state = { "ps_cluster_state", "gauge",
		"1 for the current state of the job.", NULL };
	static const char *const states[] = { "forming", "running", "finishing", "done", "failed",
		"stopped" };
	static const char *const labels[][2] = { { "name", "name" }, { "consistency", "sync" },
		{ "model", "model" }, { "optimizer", "optimizer" } };

	exposition_put_head(out, &build);
	buf_printf(out, "ps_build_info{version=\"%s\",protocol=\"%d\"} 1\n", PSKIT_VERSION,
	    PSKIT_PROTOCOL);
	exposition_put_head(out, &info);
	for (size_t i = 0; i < COUNT(labels); i++) {
		buf_puts(out, i ? "," : "ps_cluster_info{");
		exposition_put_label(out, labels[i][0], json_str(row, labels[i][1], ""));
	}
	buf_puts(out, "} 1\n");
	exposition_put_head(out, &state);
	for (size_t i = 0; i < COUNT(states); i++)
		exposition_put_sample(out, state.name, "state", states[i],
		    strcmp(json_str(row, "state", ""), states[i]) == 0);
}

static void put_eval_families(struct buf *out, const json_t *eval)
{
	for (size_t i = 0; i < COUNT(eval_families); i++) {
		const struct family *f = &eval_families[i];

		exposition_put_head(out, f);
		exposition_put_sample(out, f->name, NULL, NULL,
		    json_object_get(eval, f->key) ? exposition_put_number(eval, f->key)
		                                  : (double)NAN);
	}
}

static void put_event_counts(struct buf *out, const json_t *events)
{
	static const struct family f = { "ps_events_total", "counter", "Events by kind.", NULL };
	const char *kind;
	json_t *n;

	exposition_put_head(out, &f);
	json_object_foreach((json_t *)events, kind, n)
		exposition_put_sample(out, f.name, "kind", kind, json_number_value(n));
}

static void put_cluster(struct buf *out, const struct metrics *m)
{
	static const struct family refused = { "ps_http_refused_total", "counter",
		"HTTP requests refused as malformed or not permitted.", "http_refused" };

	put_info(out, m->row);
	exposition_put_members(out, cluster_families, COUNT(cluster_families), m->row);
	put_eval_families(out, json_object_get(m->row, "eval"));
	exposition_put_members(out, checkpoint_families, COUNT(checkpoint_families), m->row);
	exposition_put_members(out, &refused, 1, m->row);
	put_event_counts(out, m->events);
}

/* ---- processes ---- */

static const struct family server_families[] = {
	{ "ps_server_step", "gauge", "Steps that all ranks have completed on this server.",
	    "step" },
	{ "ps_server_parameters", "gauge", "Parameters held.", "parameters" },
	{ "ps_server_parameter_bytes", "gauge", "Bytes of parameters held.", "parameter_bytes" },
	{ "ps_server_optimizer_bytes", "gauge", "Bytes of optimizer state and row indexes.",
	    "state_bytes" },
	{ "ps_server_rows", "gauge", "Rows of sparse tables.", "rows" },
	{ "ps_server_row_memory_bytes", "gauge", "Bytes of memory of rows that may be on the disk.",
	    "row_memory_bytes" },
	{ "ps_server_row_disk_bytes", "gauge", "Bytes of files of rows.", "row_disk_bytes" },
	{ "ps_server_rows_asked_total", "counter",
	    "Rows that pushes and pulls needed, of tables with a disk.", "rows_asked" },
	{ "ps_server_rows_missed_total", "counter", "Rows of those that were not in memory.",
	    "rows_missed" },
	{ "ps_server_row_disk_reads_total", "counter", "Rows looked up on the disk.",
	    "row_disk_reads" },
	{ "ps_server_pulls_total", "counter", "Partitions and row lists answered.", "pulls" },
	{ "ps_server_received_bytes_total", "counter", "Bytes received on data connections.",
	    "received_bytes" },
	{ "ps_server_sent_bytes_total", "counter", "Bytes sent on data connections.",
	    "sent_bytes" },
	{ "ps_server_sessions", "gauge", "Authenticated sessions.", "sessions" },
	{ "ps_server_auth_failures_total", "counter",
	    "Connections refused for a wrong key, tag or record.", "auth_failures" },
	{ "ps_server_nonfinite_gradients_total", "counter", "Pushes refused for NaN or infinity.",
	    "pushes_nonfinite" },
	{ "ps_server_source_age_seconds", "gauge",
	    "Of a read replica: time since which it may differ from its source.",
	    "source_age_seconds" },
	{ "ps_server_source_held", "gauge",
	    "Of a read replica: 1 while serve_if keeps new values of its source back.",
	    "source_held" },
};

static const struct family worker_families[] = {
	{ "ps_worker_step", "gauge", "Steps completed.", "step" },
	{ "ps_worker_epoch", "gauge", "Epochs of the data, with a fraction.", "epoch" },
	{ "ps_worker_loss", "gauge", "Mean loss of the last batches.", "train_loss" },
	{ "ps_worker_progressive_loss", "gauge",
	    "Mean loss of all examples, each before training on it.", "progressive_loss" },
	{ "ps_worker_gradient_norm", "gauge",
	    "Norm of the last measured gradient, before clipping.", "gradient_norm" },
	{ "ps_worker_samples_total", "counter", "Examples trained on.", "examples" },
	{ "ps_worker_lag_events", "gauge",
	    "Approximate number of events of a stream that wait for it.", "lag" },
	{ "ps_worker_pushed_bytes_total", "counter", "Bytes sent to servers.", "pushed_bytes" },
	{ "ps_worker_pulled_bytes_total", "counter", "Bytes received from servers.",
	    "pulled_bytes" },
	{ "ps_worker_rows_offered_total", "counter", "Rows of sparse gradients.", "rows_offered" },
	{ "ps_worker_rows_held_total", "counter",
	    "Rows of sparse gradients that the filter has held back.", "rows_held" },
	{ "ps_worker_data_read_bytes_total", "counter", "Bytes of data in blocks that it has read.",
	    "data_read_bytes" },
	{ "ps_worker_blocks_left", "gauge",
	    "Blocks of its leased ranges of data that it has not yet read.", "blocks_left" },
	{ "ps_worker_bad_lines_total", "counter",
	    "Lines or events of its data that it has skipped.", "bad_lines" },
	{ "ps_worker_ring_bytes_total", "counter",
	    "Bytes sent to other workers, with via allreduce.", "ring_bytes" },
	{ "ps_worker_settings", "gauge", "Epoch of the settings that it uses.", "settings" },
};

static const struct family relay_families[] = {
	{ "ps_relay_workers", "gauge", "Workers that use it.", "workers" },
	{ "ps_relay_received_bytes_total", "counter", "Bytes received on data connections.",
	    "received_bytes" },
	{ "ps_relay_sent_bytes_total", "counter", "Bytes sent on data connections.", "sent_bytes" },
};

static const struct family process_families[] = {
	{ "process_resident_memory_bytes", "gauge", "Resident memory.", "rss_bytes" },
	{ "process_cpu_seconds_total", "counter", "Processor time used.", "cpu_seconds" },
	{ "process_open_fds", "gauge", "Open file descriptors.", "open_fds" },
	{ "process_start_time_seconds", "gauge", "Start of the process, as Unix time.",
	    "start_unix_seconds" },
};

struct kind {
	const json_t *rows;
	const char *label, *live; /* live: state of a process that is well */
	struct family up, seen;
};

/* For each process: is it up, and when was it heard from last? */
static void put_up(struct buf *out, const struct kind *k)
{
	double now = (double)clock_wall() / NSEC_PER_SEC;
	const json_t *row;
	size_t i;

	exposition_put_head(out, &k->up);
	json_array_foreach(k->rows, i, row)
		exposition_put_sample(out, k->up.name, k->label, json_str(row, "id", ""),
		    strcmp(json_str(row, "state", ""), k->live) == 0);
	exposition_put_head(out, &k->seen);
	json_array_foreach(k->rows, i, row)
		exposition_put_sample(out, k->seen.name, k->label, json_str(row, "id", ""),
		    json_int(row, "pid", 0) ? now - exposition_put_number(row, "seen_seconds") : 0);
}

static void put_servers(struct buf *out, const json_t *rows)
{
	static const struct family pushes = { "ps_server_pushes_total", "counter",
		"Pushes by result.", NULL };
	static const char *const result[] = { "applied", "merged", "duplicate", "late", "refused",
		"split" };
	static const char *const key[] = { "pushes_applied", "pushes_merged", "pushes_duplicate",
		"pushes_late", "pushes_refused", "pushes_split" };
	static const struct family staleness = { "ps_server_push_staleness_versions", "histogram",
		"Updates between a gradient's pull and its push.", "staleness" };
	static const struct family apply = { "ps_server_apply_duration_seconds", "histogram",
		"Time from a verified push to its sum or update.", "apply" };
	static const struct family barrier = { "ps_server_barrier_wait_seconds", "histogram",
		"Time that pulls waited until their step could begin.", "barrier" };
	const struct kind k = { rows, "server", "live",
		{ "ps_server_up", "gauge", "1 when the server is live.", NULL },
		{ "ps_server_last_seen_timestamp_seconds", "gauge",
		    "Time of its last message, 0 for never.", NULL } };

	put_up(out, &k);
	exposition_put_rows(out, server_families, COUNT(server_families), rows, "server");
	exposition_put_split(out, &pushes, rows, "server",
	    &(struct split){ "result", result, key, COUNT(result) });
	exposition_put_histograms(out, &staleness, rows, "server");
	exposition_put_histograms(out, &apply, rows, "server");
	exposition_put_histograms(out, &barrier, rows, "server");
}

static bool any_row_has(const json_t *rows, const char *key)
{
	const json_t *row;
	size_t i;

	json_array_foreach(rows, i, row)
		if (json_object_get(row, key))
			return true;
	return false;
}

static void put_workers(struct buf *out, const json_t *rows)
{
	static const struct family phase = { "ps_worker_step_phase_seconds_total", "counter",
		"Time in each phase of a step.", NULL };
	static const char *const value[] = { "data", "pull", "compute", "push", "wait", "encode" };
	static const char *const key[] = { "data_seconds", "pull_seconds", "compute_seconds",
		"push_seconds", "wait_seconds", "encode_seconds" };
	static const struct family latency = { "ps_worker_push_latency_seconds", "histogram",
		"Time from a push to its receipt.", "push_latency" };
	const struct kind k = { rows, "worker", "active",
		{ "ps_worker_up", "gauge", "1 when the worker is active.", NULL },
		{ "ps_worker_last_seen_timestamp_seconds", "gauge",
		    "Time of its last message, 0 for never.", NULL } };

	put_up(out, &k);
	exposition_put_rows(out, worker_families, COUNT(worker_families), rows, "worker");
	exposition_put_split(out, &phase, rows, "worker",
	    &(struct split){ "phase", value, key, COUNT(value) });
	if (any_row_has(rows, "push_latency"))
		exposition_put_histograms(out, &latency, rows, "worker");
}

static void put_relays(struct buf *out, const json_t *rows)
{
	const struct kind k = { rows, "relay", "live",
		{ "ps_relay_up", "gauge", "1 when the relay is live.", NULL },
		{ "ps_relay_last_seen_timestamp_seconds", "gauge", "Time of its last message.",
		    NULL } };

	if (!json_array_size(rows))
		return;
	put_up(out, &k);
	exposition_put_rows(out, relay_families, COUNT(relay_families), rows, "relay");
}

static const struct family table_families[] = {
	{ "ps_table_rows", "gauge", "Rows of a sparse table.", "live_rows" },
	{ "ps_table_bytes", "gauge",
	    "Bytes that they take in one replica, with optimizer state, index and counts of ids.",
	    "bytes" },
};

static const struct family policy_families[] = {
	{ "ps_table_rows_offered_total", "counter",
	    "Row gradients received by a table with a policy.", "offered" },
	{ "ps_table_rows_admitted_total", "counter", "Rows created for new ids.", "admitted" },
	{ "ps_table_rows_refused_total", "counter",
	    "Row gradients dropped because the id was not admitted.", "refused" },
	{ "ps_table_rows_expired_total", "counter", "Rows dropped because they had expired.",
	    "expired" },
	{ "ps_table_rows_evicted_total", "counter", "Rows dropped to free memory.", "evicted" },
};

/* Sparse tables; their counters only where the table has a row policy. */
static void put_tables(struct buf *out, const json_t *tables)
{
	json_t *sparse = json_array(), *counted = json_array();
	const json_t *row;
	size_t i;

	json_array_foreach(tables, i, row) {
		if (strcmp(json_str(row, "type", ""), "sparse") == 0)
			json_array_append(sparse, (json_t *)(uintptr_t)row);
		if (json_object_get(row, "offered"))
			json_array_append(counted, (json_t *)(uintptr_t)row);
	}
	exposition_put_rows(out, table_families, COUNT(table_families), sparse, "table");
	exposition_put_rows(out, policy_families, COUNT(policy_families), counted, "table");
	json_decref(sparse);
	json_decref(counted);
}

/* Processes whose heartbeats have such figures. */
static void put_processes(struct buf *out, const struct metrics *m)
{
	const json_t *list[] = { m->servers, m->workers, m->relays }, *row;
	size_t i;

	for (size_t f = 0; f < COUNT(process_families); f++) {
		const struct family *x = &process_families[f];

		exposition_put_head(out, x);
		if (m->coordinator)
			exposition_put_sample(out, x->name, "process", "coordinator",
			    exposition_put_number(m->coordinator, x->key));
		for (size_t k = 0; k < COUNT(list); k++)
			json_array_foreach(list[k], i, row)
				if (json_object_get(row, x->key))
					exposition_put_sample(out, x->name, "process",
					    json_str(row, "id", ""),
					    exposition_put_number(row, x->key));
	}
}

void metrics_text(const struct metrics *m, struct buf *out)
{
	put_cluster(out, m);
	put_servers(out, m->servers);
	put_workers(out, m->workers);
	put_relays(out, m->relays);
	put_tables(out, m->tables);
	put_processes(out, m);
}

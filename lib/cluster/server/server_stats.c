/* SPDX-License-Identifier: ISC */
#include "core/clock.h"
#include "core/hist.h"
#include "core/json.h"
#include "core/procstat.h"
#include "session/tracer.h"
#include "server/partition_load.h"
#include "server/quota.h"

/* Bounds the size of a heartbeat. */
#define TABLES_MAX 256

/* The statistics of a server or a relay, which go to the coordinator with its heartbeats. */

/* Measure the load of the partitions at most once a second, and after a step; else repeat the last
 * result. After a roll-back the step may be lower than before. */
static json_t *measure_load(struct server *s, struct shard *shard, uint64_t step)
{
	int64_t now = clock_now();

	if (now - s->load.at >= NSEC_PER_SEC && step != s->load.step) {
		json_decref(s->load.push_rates);
		s->load.push_rates = partition_load_json(shard,
		    (double)(now - s->load.at) / NSEC_PER_SEC,
		    step > s->load.step ? step - s->load.step : 0);
		s->load.at = now;
		s->load.step = step;
	}
	return json_incref(s->load.push_rates);
}

/* Statistics of the first TABLES_MAX sparse tables: [{"id", "rows", "bytes"}, ...]. A table with a
 * row policy also has the counters of shard/row_policy_counters.def. A new reference. */
static json_t *describe_sparse_tables(struct shard *s)
{
	json_t *list = json_array();

	for (uint32_t t = 0;
	     t < SHARD_TABLES && shard_table(s, (uint16_t)t) && json_array_size(list) < TABLES_MAX;
	     t++) {
		struct table_stats x;
		json_t *o;

		if (!shard_table(s, (uint16_t)t)->sparse || !shard_table_stats(s, (uint16_t)t, &x))
			continue;
		o = json_pack("{s:i, s:I, s:I}", "id", (int)t, "rows", (json_int_t)x.rows, "bytes",
		    (json_int_t)x.bytes);
		for (unsigned k = 0; x.has_policy && k < ROW_POLICY_COUNTERS; k++)
			json_object_set_new(o, row_policy_counter_name[k],
			    json_integer((json_int_t)x.count[k]));
		json_array_append_new(list, o);
	}
	return list;
}

static void add_refusal(void *ctx, uint32_t rank, uint64_t n)
{
	json_array_append_new(ctx, json_pack("[i, I]", (int)rank, (json_int_t)n));
}

/* Adds the workers whose pushes are refused. Most of the time there are none. */
static void add_refusals(struct shard *shard, json_t *o)
{
	json_t *refused = json_array();

	shard_refusals(shard, add_refusal, refused);
	if (json_array_size(refused))
		json_object_set(o, "refused", refused);
	json_decref(refused);
}

/* Adds the figures of rows on the disk, where there are any. */
static void add_spill(const struct shard_stats *st, json_t *o)
{
	if (!st->spills)
		return;
	json_object_set_new(o, "row_memory_bytes", json_integer((json_int_t)st->row_memory));
	json_object_set_new(o, "row_disk_bytes", json_integer((json_int_t)st->row_disk));
	json_object_set_new(o, "rows_asked", json_integer((json_int_t)st->rows_asked));
	json_object_set_new(o, "rows_missed", json_integer((json_int_t)st->rows_missed));
	json_object_set_new(o, "row_hit_rate",
	    json_real(st->rows_asked ? 1 - (double)st->rows_missed / (double)st->rows_asked : 1));
	json_object_set_new(o, "row_disk_reads", json_integer((json_int_t)st->disk_reads));
	if (st->disk_fails)
		json_object_set_new(o, "disk_error", json_string(st->disk_error.msg));
}

json_t *server_stats(void *ctx)
{
	struct server *s = ctx;
	struct shard *shard = atomic_load(&s->shard);
	struct shard_stats st = { 0 };
	struct procstat ps;
	const struct hist *stale, *apply;
	uint64_t n;
	json_t *o;

	tracer_send(s->tracer, s->agent);
	if (!shard)
		return NULL;
	shard_stats(shard, &st);
	if (shard_is_full(shard) && !s->load.warned_full) {
		s->load.warned_full = true;
		log_warn(s->cfg.log, "mem_limit is reached: pushes that need new rows are refused");
	}
	procstat_read(&ps);
	stale = shard_staleness(shard);
	apply = shard_apply_time(shard);
	n = atomic_load(&stale->count);
	o = json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "step",
	    (json_int_t)st.closed, "pushes_applied", (json_int_t)st.status[PUSH_APPLIED],
	    "pushes_merged", (json_int_t)st.status[PUSH_MERGED], "pushes_duplicate",
	    (json_int_t)st.status[PUSH_DUPLICATE], "pushes_late", (json_int_t)st.status[PUSH_LATE],
	    "pushes_refused", (json_int_t)st.status[PUSH_REFUSED], "pulls", (json_int_t)st.pulls,
	    "parameters", (json_int_t)st.parameters, "parameter_bytes",
	    (json_int_t)st.parameter_bytes, "state_bytes", (json_int_t)st.state_bytes, "rows",
	    (json_int_t)st.rows, "sessions", (json_int_t)atomic_load(&s->count.sessions),
	    "auth_failures", (json_int_t)atomic_load(&s->count.auth_failures));
	add_refusals(shard, o);
	add_spill(&st, o);
	quota_stats(s, o);
	json_object_set_new(o, "pushes_split", json_integer((json_int_t)st.status[PUSH_SPLIT]));
	json_object_set_new(o, "received_bytes",
	    json_integer((json_int_t)atomic_load(&s->count.bytes_in)));
	json_object_set_new(o, "sent_bytes",
	    json_integer((json_int_t)atomic_load(&s->count.bytes_out)));
	json_object_set_new(o, "pushes_nonfinite", json_integer((json_int_t)st.nonfinite));
	json_object_set_new(o, "rss_bytes", json_integer((json_int_t)ps.rss_bytes));
	json_object_set_new(o, "cpu_seconds", json_real(ps.cpu_seconds));
	json_object_set_new(o, "start_unix_seconds", json_real((double)s->began / NSEC_PER_SEC));
	json_object_set_new(o, "memory_bound_bytes",
	    json_integer((json_int_t)atomic_load(&s->limits.memory_bound)));
	if (atomic_load(&s->as_of)) {
		json_object_set_new(o, "source_age_seconds",
		    json_real((double)(clock_now() - atomic_load(&s->as_of)) / NSEC_PER_SEC));
		json_object_set_new(o, "source_held", json_integer(atomic_load(&s->held)));
	}
	json_object_set_new(o, "tables", describe_sparse_tables(shard));
	json_object_set_new(o, "heat", measure_load(s, shard, st.closed));
	json_object_set_new(o, "staleness_mean",
	    json_real(n ? (double)atomic_load(&stale->sum) / (double)n : 0));
	json_object_set_new(o, "staleness", hist_json(stale, 0, 1, 6, 1));
	json_object_set_new(o, "apply", hist_json(apply, 14, 2, 7, 1e-9));
	json_object_set_new(o, "barrier", hist_json(&s->count.barrier, 14, 2, 11, 1e-9));
	json_object_set_new(o, "apply_p50_seconds",
	    json_real((double)hist_quantile(apply, 0.5) * 1e-9));
	json_object_set_new(o, "apply_p99_seconds",
	    json_real((double)hist_quantile(apply, 0.99) * 1e-9));
	return o;
}

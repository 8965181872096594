/* SPDX-License-Identifier: ISC */
#include "view.h"

static json_t *fetch_servers(struct http_client *c, struct err *e)
{
	return connect_fetch_json(c, "/v1/servers", "servers", e);
}

static const struct column columns[] = {
	{ "id", "id", COL_TEXT, true, 0, TOTAL_BY_KIND },
	{ "state", "state", COL_TEXT, true, 6, TOTAL_BY_KIND },
	{ "step", "step", COL_COUNT, true, 0, TOTAL_LEAST },
	{ "params", "parameters", COL_COUNT, true, 0, TOTAL_BY_KIND },
	{ "bytes", "parameter_bytes", COL_BYTES, true, 0, TOTAL_BY_KIND },
	{ "applied/s", "pushes_applied", COL_RATE, true, 0, TOTAL_BY_KIND },
	{ "merged/s", "pushes_merged", COL_RATE, true, 0, TOTAL_BY_KIND },
	{ "dup", "pushes_duplicate", COL_COUNT, true, 4, TOTAL_BY_KIND },
	{ "late", "pushes_late", COL_COUNT, true, 4, TOTAL_BY_KIND },
	{ "refused", "pushes_refused", COL_COUNT, true, 4, TOTAL_BY_KIND },
	{ "pull/s", "pulls", COL_RATE, true, 0, TOTAL_BY_KIND },
	{ "rx/s", "received_bytes", COL_BYTE_RATE, true, 0, TOTAL_BY_KIND },
	{ "tx/s", "sent_bytes", COL_BYTE_RATE, true, 0, TOTAL_BY_KIND },
	{ "stale", "staleness_mean", COL_NUMBER, true, 5, TOTAL_BY_KIND },
	{ "rss", "rss_bytes", COL_BYTES, true, 0, TOTAL_BY_KIND },
	{ "rows", "rows", COL_COUNT, false, 0, TOTAL_BY_KIND },
	{ "row-memory", "row_memory_bytes", COL_BYTES, false, 0, TOTAL_BY_KIND },
	{ "row-disk", "row_disk_bytes", COL_BYTES, false, 0, TOTAL_BY_KIND },
	{ "row-hits", "row_hit_rate", COL_NUMBER, false, 0, TOTAL_NONE },
	{ "row-reads/s", "row_disk_reads", COL_RATE, false, 0, TOTAL_BY_KIND },
	{ "disk-error", "disk_error", COL_TEXT, false, 0, TOTAL_NONE },
	{ "state-bytes", "state_bytes", COL_BYTES, false, 0, TOTAL_BY_KIND },
	{ "sessions", "sessions", COL_COUNT, false, 0, TOTAL_BY_KIND },
	{ "auth-fail", "auth_failures", COL_COUNT, false, 0, TOTAL_BY_KIND },
	{ "apply-p99", "apply_p99_seconds", COL_SECONDS, false, 0, TOTAL_BY_KIND },
	{ "apply-p50", "apply_p50_seconds", COL_SECONDS, false, 0, TOTAL_BY_KIND },
	{ "cpu", "cpu_seconds", COL_SECONDS, false, 0, TOTAL_SUM },
	{ "fds", "open_fds", COL_COUNT, false, 0, TOTAL_BY_KIND },
	{ "listen", "listen", COL_TEXT, false, 0, TOTAL_BY_KIND },
	{ "host", "host", COL_TEXT, false, 0, TOTAL_BY_KIND },
	{ "pid", "pid", COL_COUNT, false, 0, TOTAL_NONE },
	{ "seen", "seen_seconds", COL_SECONDS, false, 0, TOTAL_BY_KIND },
	{ "ts", "ts", COL_TIME, false, 0, TOTAL_BY_KIND },
};

const struct stat_view stat_view_servers = {
	.name = "servers",
	.help = "one row for each server: its parameters, pushes and pulls",
	.fetch = fetch_servers,
	.columns = columns,
	.ncolumns = sizeof columns / sizeof *columns,
};

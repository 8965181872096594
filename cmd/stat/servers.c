#include "view.h"

static json_t *fetch(struct http_client *c, struct err *e)
{
	return view_get(c, "/v1/servers", "servers", e);
}

static const struct column columns[] = {
	{ "id", "id", COL_TEXT, true },
	{ "state", "state", COL_TEXT, true },
	{ "step", "step", COL_COUNT, true },
	{ "params", "parameters", COL_COUNT, true },
	{ "bytes", "parameter_bytes", COL_BYTES, true },
	{ "applied/s", "pushes_applied", COL_RATE, true },
	{ "merged/s", "pushes_merged", COL_RATE, true },
	{ "dup", "pushes_duplicate", COL_COUNT, true },
	{ "late", "pushes_late", COL_COUNT, true },
	{ "refused", "pushes_refused", COL_COUNT, true },
	{ "pull/s", "pulls", COL_RATE, true },
	{ "rx/s", "received_bytes", COL_BYTE_RATE, true },
	{ "tx/s", "sent_bytes", COL_BYTE_RATE, true },
	{ "stale", "staleness_mean", COL_NUMBER, true },
	{ "rss", "rss_bytes", COL_BYTES, true },
	{ "rows", "rows", COL_COUNT, false },
	{ "state-bytes", "state_bytes", COL_BYTES, false },
	{ "sessions", "sessions", COL_COUNT, false },
	{ "auth-fail", "auth_failures", COL_COUNT, false },
	{ "apply-p99", "apply_p99_seconds", COL_SECONDS, false },
	{ "cpu", "cpu_seconds", COL_SECONDS, false },
	{ "fds", "open_fds", COL_COUNT, false },
	{ "listen", "listen", COL_TEXT, false },
	{ "host", "host", COL_TEXT, false },
	{ "pid", "pid", COL_COUNT, false },
};

const struct stat_view stat_view_servers = {
	"servers", "one row a server: what it holds, takes in and gives out", fetch, columns,
	sizeof columns / sizeof *columns, NULL, NULL,
};

#include "view.h"

static json_t *fetch(struct http_client *c, struct err *e)
{
	return view_get(c, "/v1/workers", "workers", e);
}

static const struct column columns[] = {
	{ "id", "id", COL_TEXT, true },
	{ "state", "state", COL_TEXT, true },
	{ "step", "step", COL_COUNT, true },
	{ "epoch", "epoch", COL_NUMBER, false },
	{ "loss", "train_loss", COL_NUMBER, true },
	{ "ex/s", "examples", COL_RATE, true },
	{ "tx/s", "pushed_bytes", COL_BYTE_RATE, true },
	{ "rx/s", "pulled_bytes", COL_BYTE_RATE, true },
	{ "ring/s", "ring_bytes", COL_BYTE_RATE, false },
	{ "held/s", "rows_held", COL_RATE, false },
	{ "data%", "data_seconds", COL_SHARE, true },
	{ "comp%", "compute_seconds", COL_SHARE, true },
	{ "push%", "push_seconds", COL_SHARE, true },
	{ "wait%", "wait_seconds", COL_SHARE, true },
	{ "pull%", "pull_seconds", COL_SHARE, true },
	{ "quota%", "quota_seconds", COL_SHARE, false },
	{ "seen", "seen_seconds", COL_SECONDS, true },
	{ "rss", "rss_bytes", COL_BYTES, true },
	{ "cpu", "cpu_seconds", COL_SECONDS, false },
	{ "host", "host", COL_TEXT, false },
	{ "pid", "pid", COL_COUNT, false },
};

const struct stat_view stat_view_workers = {
	"workers", "one row a worker: step, loss, speed, where its time goes", fetch, columns,
	sizeof columns / sizeof *columns, NULL, NULL,
};

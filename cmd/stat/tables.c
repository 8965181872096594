/* SPDX-License-Identifier: ISC */
#include "view.h"

static json_t *fetch_tables(struct http_client *c, struct err *e)
{
	return connect_fetch_json(c, "/v1/tables", "tables", e);
}

static const struct column columns[] = {
	{ "id", "id", COL_TEXT, true, 0, TOTAL_BY_KIND },
	{ "type", "type", COL_TEXT, true, 0, TOTAL_BY_KIND },
	{ "rows", "rows", COL_COUNT, true, 0, TOTAL_BY_KIND },
	{ "cols", "cols", COL_COUNT, true, 0, TOTAL_NONE },
	{ "parts", "partitions", COL_COUNT, true, 0, TOTAL_BY_KIND },
	{ "live", "live_rows", COL_COUNT, true, 0, TOTAL_BY_KIND },
	{ "bytes", "bytes", COL_BYTES, true, 0, TOTAL_BY_KIND },
	{ "offered", "offered", COL_COUNT, true, 0, TOTAL_BY_KIND },
	{ "admitted", "admitted", COL_COUNT, true, 0, TOTAL_BY_KIND },
	{ "refused", "refused", COL_COUNT, true, 0, TOTAL_BY_KIND },
	{ "expired", "expired", COL_COUNT, true, 0, TOTAL_BY_KIND },
	{ "evicted", "evicted", COL_COUNT, true, 0, TOTAL_BY_KIND },
	{ "offered/s", "offered", COL_RATE, false, 0, TOTAL_BY_KIND },
	{ "policy", "policy", COL_TEXT, false, 0, TOTAL_BY_KIND },
	{ "ts", "ts", COL_TIME, false, 0, TOTAL_BY_KIND },
};

const struct stat_view stat_view_tables = {
	.name = "tables",
	.help = "one row for each table: its shape, its rows, and the results of its row policy",
	.fetch = fetch_tables,
	.columns = columns,
	.ncolumns = sizeof columns / sizeof *columns,
};

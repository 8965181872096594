#include "view.h"

static json_t *fetch(struct http_client *c, struct err *e)
{
	return view_get(c, "/v1/tables", "tables", e);
}

static const struct column columns[] = {
	{ "id", "id", COL_TEXT, true, 0, TOTAL_BY_KIND },
	{ "type", "type", COL_TEXT, true, 0, TOTAL_BY_KIND },
	{ "rows", "rows", COL_COUNT, true, 0, TOTAL_BY_KIND },
	{ "cols", "cols", COL_COUNT, true, 0, TOTAL_NONE },
	{ "parts", "partitions", COL_COUNT, true, 0, TOTAL_BY_KIND },
	{ "ts", "ts", COL_TIME, false, 0, TOTAL_BY_KIND },
};

const struct stat_view stat_view_tables = {
	.name = "tables", .help = "one row a table: its shape and partitions", .fetch = fetch, .columns = columns,
	.ncolumns = sizeof columns / sizeof *columns,
};

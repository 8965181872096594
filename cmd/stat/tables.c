#include "view.h"

static json_t *fetch(struct http_client *c, struct err *e)
{
	return view_get(c, "/v1/tables", "tables", e);
}

static const struct column columns[] = {
	{ "id", "id", COL_TEXT, true },
	{ "type", "type", COL_TEXT, true },
	{ "rows", "rows", COL_COUNT, true },
	{ "cols", "cols", COL_COUNT, true },
	{ "parts", "partitions", COL_COUNT, true },
};

const struct stat_view stat_view_tables = {
	"tables", "one row a table: its shape and partitions", fetch, columns, sizeof columns / sizeof *columns, NULL, NULL,
};

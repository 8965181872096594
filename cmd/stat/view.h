#ifndef CMD_STAT_VIEW_H
#define CMD_STAT_VIEW_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "http/client.h"

/* One view a file: what to ask for, and its columns. */
enum column_kind {
	COL_TEXT,
	COL_COUNT,              /* an integer */
	COL_NUMBER,
	COL_BYTES,
	COL_SECONDS,
	COL_RATE,               /* of a counter, a second */
	COL_BYTE_RATE,
	COL_SHARE,              /* growth of `key` among that of the worker's phases, in percent */
};

struct column {
	const char *name;       /* heading, and its name for -o */
	const char *key;        /* member of the row */
	enum column_kind kind;
	bool shown;             /* without -o */
};

struct stat_view {
	const char *name, *help;
	/* The rows now: an array of objects with an "id", a new reference. */
	json_t *(*fetch)(struct http_client *c, struct err *e);
	const struct column *columns;
	size_t ncolumns;
	/* Prints the rows for people, who have asked for no columns; NULL: a table is for them,
	 * too.  And what is said when there are no rows. */
	void (*sentences)(const json_t *rows);
	const char *none;
};

#define VIEW(name) extern const struct stat_view stat_view_##name;
#include "stat.def"
#undef VIEW

/* GET path, member key of the answer (NULL: the answer itself). */
json_t *view_get(struct http_client *c, const char *path, const char *key, struct err *e);

#endif

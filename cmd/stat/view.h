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
	COL_TIME,               /* an RFC 3339 time */
	COL_COUNT,              /* an integer */
	COL_NUMBER,
	COL_RATIO,              /* one that is mostly about 1 */
	COL_BYTES,
	COL_SECONDS,
	COL_RATE,               /* of a counter, a second */
	COL_BYTE_RATE,
	COL_SHARE,              /* growth of `key` among that of the worker's phases, in percent */
	COL_GIVEN,              /* a number or a text, as it is */
};

/* What becomes of a column in the row of totals. */
enum column_total {
	TOTAL_BY_KIND,          /* the sum of counts, bytes and rates, the mean of numbers, the largest of seconds */
	TOTAL_LEAST,
	TOTAL_MOST,
	TOTAL_SUM,
	TOTAL_NONE,
};

struct column {
	const char *name;       /* heading, and its name for -o */
	const char *key;        /* member of the row */
	enum column_kind kind;
	bool shown;             /* without -o */
	unsigned char width;    /* 0: by kind */
	enum column_total total;
};

struct plan;
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
	/* Adds members that follow from the others, and from the sample before (NULL: none). */
	void (*derive)(json_t *rows, const json_t *before);
	/* Instead of all that, for what is no rows: from the plan to the exit code. */
	int (*run)(const struct plan *p);
};

#define VIEW(name) extern const struct stat_view stat_view_##name;
#include "stat.def"
#undef VIEW

/* The phases of a worker's step, "data_seconds" and so on, in their order. */
#define PHASES 6
extern const char *const phase_key[PHASES];

/* GET path, member key of the answer (NULL: the answer itself). */
json_t *view_get(struct http_client *c, const char *path, const char *key, struct err *e);

/* GET /v1/snapshot of these parts ("status,servers"): an object with a member each. */
json_t *view_snapshot(struct http_client *c, const char *parts, struct err *e);

/* why.c: of the rows of that view, those who wait for the same as row i do, as a sentence
 * without its end, in a fresh string; NULL: a row before i has said it. */
char *why_sentence(const json_t *rows, size_t i);

#endif

/* SPDX-License-Identifier: ISC */
#ifndef CMD_STAT_VIEW_H
#define CMD_STAT_VIEW_H

#include <stdbool.h>
#include <stddef.h>

#include "core/err.h"
#include "core/json.h"
#include "http/client.h"

/* A view of ps-stat: what it fetches, its columns, and how it is shown. Each view is one file
 * with one struct stat_view, and one line in stat.def. */
enum column_kind {
	COL_TEXT,
	COL_TIME,  /* an RFC 3339 time */
	COL_COUNT, /* an integer */
	COL_NUMBER,
	COL_RATIO, /* a number that is usually near 1 */
	COL_BYTES,
	COL_SECONDS,
	COL_RATE, /* the growth of a counter per second */
	COL_BYTE_RATE,
	COL_SHARE, /* growth of the phase `key` in percent of all phases */
	COL_GIVEN, /* a number or a text, unchanged */
};

/* How the values of a column are combined in the row of totals. */
enum column_total {
	TOTAL_BY_KIND, /* the sum of counts, bytes and rates, the mean of numbers, the largest of seconds */
	TOTAL_LEAST,
	TOTAL_MOST,
	TOTAL_SUM,
	TOTAL_NONE,
};

struct column {
	const char *name; /* heading, and its name for -o */
	const char *key;  /* member of the row */
	enum column_kind kind;
	bool shown;          /* shown without -o */
	unsigned char width; /* 0: by kind */
	enum column_total total;
};

struct plan;
struct stat_view {
	const char *name, *help;
	/* Fetches the present rows: an array of objects with an "id", a new reference. May
	 * block. */
	json_t *(*fetch)(struct http_client *c, struct err *e);
	const struct column *columns;
	size_t ncolumns;
	/* Prints the rows as sentences, when no columns are asked for; NULL: a table is printed.
	 * none: printed instead of sentences when there are no rows. */
	void (*sentences)(const json_t *rows);
	const char *none;
	/* Prints a line after the sentences, if there is more to say; NULL: never. */
	void (*remark)(void);
	/* Adds members computed from the others and from the sample before (NULL: none). May be
	 * NULL. */
	void (*derive)(json_t *rows, const json_t *before);
	/* For a view that has no rows, replaces all of the above. Returns the exit code. */
	int (*run)(const struct plan *p);
};

#define VIEW(name) extern const struct stat_view stat_view_##name;
#include "stat.def"
#undef VIEW

/* The keys of the phases of a worker's step, "data_seconds" and so on, in order. */
#define PHASES 6
extern const char *const view_phase_key[PHASES];

/* GET path. Returns the member key of the answer (NULL: the answer itself), a new reference; or
 * NULL and e. */
json_t *connect_fetch_json(struct http_client *c, const char *path, const char *key, struct err *e);

/* GET /v1/snapshot of these parts ("status,servers"). Returns an object with a member for each;
 * or NULL and e. */
json_t *connect_snapshot(struct http_client *c, const char *parts, struct err *e);

/* why.c: one sentence, without its period, about row i of the view "why" and all later rows that
 * wait for the same. To be freed. NULL: an earlier row waits for the same. */
char *why_sentence(const json_t *rows, size_t i);

#endif

#ifndef CTL_SWEEP_H
#define CTL_SWEEP_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/opt.h"
#include "conf/conf.h"

/* A sweep: runs of one cluster file with all combinations of some values, each
 * with a run directory of its own in the sweep's folder. */
enum point_state {
	POINT_WAITING,
	POINT_RUNNING,
	POINT_DONE,
	POINT_FAILED,           /* it ran, or could not even begin */
	POINT_STOPPED,          /* by the signal that ended the sweep */
};

struct point {
	char **assignment;              /* "lr=0.1", one a key of the grid */
	char *id;                       /* "lr-0.1_sync-ssp-3" or the like: the name of its cluster and files */
	json_t *settings;               /* {"job.lr": 0.1, ...}: by the keys' whole names, of their types */
	enum point_state state;
	bool kept;                      /* done by an earlier sweep */
	json_t *result;                 /* or NULL */
	char reason[600];               /* why it failed, when there is no result */
	size_t child;
};

struct sweep {
	char *folder;                   /* absolute */
	size_t nkeys;
	struct point *point;
	size_t npoints;
};

/* sweep_grid.c: "KEY=V1,V2" of each --grid into points, the first key slowest.  A comma within
 * brackets or behind a backslash belongs to the value.  ERR_USAGE. */
enum err_code sweep_grid(struct sweep *s, const struct opt_list *grid, struct err *e);
void sweep_release(struct sweep *s);

/* sweep_point.c.  Read the cluster file with the sweep's --set and the point's own values: its
 * id, settings and cluster file are there then.  A point whose run is done, with this very
 * configuration, is POINT_DONE.  A value that cannot be makes it POINT_FAILED; an error is one
 * of the sweep: ERR_CONFIG also when the folder has a run of that id with other settings. */
enum err_code point_prepare(struct sweep *s, struct point *p, const char *file, const struct opt_list *sets, struct err *e);
char *point_path(const struct sweep *s, const struct point *p, const char *suffix);
/* Is there an unfinished run to go on with? */
bool point_is_begun(const struct sweep *s, const struct point *p);
/* Its process has ended: what came of it. */
void point_finish(const struct sweep *s, struct point *p, const char *how);

/* sweep_show.c */
const char *point_state_name(const struct point *p);
/* Who comes first: the lower evaluation loss, else training loss; who has none is last.
 * For qsort, of struct point pointers. */
int point_order(const void *a, const void *b);
void point_line(const struct sweep *s, const struct point *p);
void point_say(const struct sweep *s, const struct point *p, const char *what);
/* The end of it: a table, or the last line of JSON Lines.  stopped: by a signal. */
void sweep_show(const struct sweep *s, bool json, bool stopped);

#endif

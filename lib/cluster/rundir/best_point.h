/* SPDX-License-Identifier: ISC */
#ifndef RUNDIR_BEST_POINT_H
#define RUNDIR_BEST_POINT_H

#include <stddef.h>

#include "core/err.h"

/* The best point of a sweep, as the file best.json in the sweep's folder: the cluster file, and the
 * assignments that make it the point. ps-ctl sweep writes it, and ps-ctl run --best runs it again.
 * The file has mode 0600, because assignments may contain secrets. One thread. */
struct best_point {
	char *cluster; /* absolute path of the cluster file */
	char *
	    *set; /* "job.lr=0.1", ...: nset assignments as --set takes them, with absolute paths */
	size_t nset;
};

/* Write FOLDER/best.json, replacing it. ERR_IO. */
enum err_code best_point_write(const char *folder, const struct best_point *p, struct err *e);
/* Read FOLDER/best.json. On success p must be released. ERR_NOTFOUND: the folder has none, or is
 * none; ERR_CONFIG: the file is damaged. */
enum err_code best_point_read(const char *folder, struct best_point *p, struct err *e);
/* Release the members; zeroes are fine. */
void best_point_release(struct best_point *p);

#endif

/* SPDX-License-Identifier: ISC */
#ifndef CTL_INIT_SAMPLE_H
#define CTL_INIT_SAMPLE_H

#include "core/buf.h"
#include "data/data.h"
#include "init_columns.h"

/* A sample of the examples of all files of a path, for `ps-ctl init`: the first lines of each file,
 * and of large text files that are not compressed lines from further places, too. At most about
 * 3 MiB of text, whatever the size of the data. One thread.
 *
 * Life: init_sample_read -> init_sample_load any number of times, with other options ->
 * init_sample_release. */

struct init_sample_file {
	char *name;
	struct buf text; /* whole lines */
};

struct init_sample {
	struct init_sample_file *file; /* files that were looked at */
	size_t n, nfiles;              /* nfiles: all files of the path */
	bool whole;                    /* the sample has all lines of all files */
	bool binary;                   /* the files are not text, and are read whole */
	double bytes, all_bytes;       /* of text: in the sample, and estimated of all files */
	size_t lines;
	uint64_t bad;  /* lines of the sample that were passed over by the last load */
	char *bad_why; /* the first of them; NULL: none */
};

/* Reads a sample. The options of the path are not looked at, except for their form. ERR_IO,
 * ERR_NOTFOUND, ERR_CONFIG: no data, or data that can be read only once. */
enum err_code init_sample_read(const char *path, struct init_sample *out, struct err *e);
void init_sample_release(struct init_sample *s);
/* Loads the sample with the options of `path`. One bad line in 50 is passed over. looks, unless
 * NULL, gets the cells of a table. *rows: the estimated number of examples of all files. NULL, with
 * an error: they are not examples of this kind. */
struct dataset *init_sample_load(struct init_sample *s, const char *path,
    const struct data_want *want, struct column_looks *looks, double *rows, struct err *e);
/* Writes the sample as files in memory, which end with this process. fd: s->n descriptors, which
 * the caller closes; -1 after an error. ERR_IO. */
enum err_code init_sample_write(const struct init_sample *s, int *fd, struct err *e);

#endif

/* SPDX-License-Identifier: ISC */
#ifndef WORKER_PROGRAM_FILES_H
#define WORKER_PROGRAM_FILES_H

#include "worker/params.h"

/* The files through which a worker and its program (program.h) exchange parameters and gradients:
 * TABLE.param, TABLE.grad and, for sparse tables, TABLE.ids, in a directory of their own in memory
 * (/dev/shm) where possible. program_files_close removes it; that of a killed process is removed by
 * the next process that makes one. A lock file, locked while its process lives, tells them
 * apart. */
struct program_files {
	char *dir; /* NULL: none */
	int lock;
	const struct job *job;
	int *param; /* by table */
};

/* Makes the directory with files of the right sizes, and removes directories of killed processes.
 * ERR_IO. */
enum err_code program_files_open(const struct job *job, struct program_files *out, struct err *e);
void program_files_close(struct program_files *f);
/* Path of a file of a table, to be freed. */
char *program_files_path(const struct program_files *f, size_t table, const char *suffix);
/* A new array with {"name","rows","cols","param":PATH,"grad":PATH} for each table; a sparse one has
 * "sparse":true and "ids":PATH instead of "rows". */
json_t *program_files_json(const struct program_files *f);
/* Writes the parameters to the files. rows: the rows of sparse tables; NULL where there are none.
 * ERR_IO. */
enum err_code program_files_write_params(const struct program_files *f,
    const struct params_rows *rows, const float *const params[], struct err *e);
/* Reads the gradients from the files. ERR_FORMAT when a file does not have the length of its table
 * or rows. */
enum err_code program_files_read_grads(const struct program_files *f,
    const struct params_rows *rows, float *const grads[], struct err *e);

#endif

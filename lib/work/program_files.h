#ifndef WORK_PROGRAM_FILES_H
#define WORK_PROGRAM_FILES_H

#include "work/params.h"

/* TABLE.param and TABLE.grad, and of sparse tables TABLE.ids, in a directory of their own, in memory where there is such a
 * file system.  It goes with the process, or, when that was killed, with the next one. */
struct program_files {
	char *dir;                      /* NULL: none */
	int lock;
	const struct job *job;
	int *param;                     /* by table */
};

enum err_code program_files_open(const struct job *job, struct program_files *out, struct err *e);
void program_files_close(struct program_files *f);
/* Of a table, to be freed. */
char *program_files_path(const struct program_files *f, size_t table, const char *suffix);
/* {"name","rows","cols","param":PATH,"grad":PATH} of each; of a sparse one "sparse":true and "ids":PATH instead of "rows". */
json_t *program_files_json(const struct program_files *f);
/* rows: of sparse tables; may be NULL where there are none. */
enum err_code program_files_put(const struct program_files *f, const struct params_rows *rows, const float *const params[], struct err *e);
/* ERR_FORMAT when a file is not as long as its table, or as its rows. */
enum err_code program_files_get(const struct program_files *f, const struct params_rows *rows, float *const grads[], struct err *e);

#endif

#ifndef WORK_PROGRAM_FILES_H
#define WORK_PROGRAM_FILES_H

#include "work/job.h"

/* TABLE.param and TABLE.grad, in a directory of their own, in memory where there is such a
 * file system.  It goes with the process, or, when that was killed, with the next one. */
struct program_files {
	char *dir;                      /* NULL: none */
	int lock;
	const struct job *job;
	int *param;                     /* by table */
};

enum err_code program_files_open(const struct job *job, struct program_files *out, struct err *e);
void program_files_close(struct program_files *f);
/* {"name","rows","cols","param":PATH,"grad":PATH} of each */
json_t *program_files_json(const struct program_files *f);
enum err_code program_files_put(const struct program_files *f, const float *const params[], struct err *e);
/* ERR_FORMAT when a file is not as long as its table. */
enum err_code program_files_get(const struct program_files *f, float *const grads[], struct err *e);

#endif

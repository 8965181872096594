/* SPDX-License-Identifier: ISC */
#include "rundir/best_checkpoint.h"

#include <stdlib.h>

#include "ckpt/dirs.h"
#include "core/mem.h"
#include "msg/run_result.h"
#include "rundir/rundir.h"

char *best_checkpoint_find(const char *dir, const json_t *result, int64_t *missing_step)
{
	char *checkpoints, *path = NULL;
	struct ckpt_entry *list = NULL;
	struct run_result told;
	size_t n = 0;

	*missing_step = -1;
	run_result_decode(result, &told);
	if (!told.best_is_earlier)
		return NULL;
	checkpoints = rundir_path(dir, "checkpoints");
	if (ckpt_list(checkpoints, false, &list, &n, NULL))
		n = 0;
	for (size_t i = 0; i < n && told.best_checkpoint; i++)
		if (list[i].whole && list[i].step == (uint64_t)told.best_checkpoint) {
			free(path);
			path = mem_strdup(list[i].path);
		}
	if (!path || told.best_checkpoint < told.best_step)
		*missing_step = told.best_step;
	ckpt_list_free(list, n);
	free(checkpoints);
	return path;
}

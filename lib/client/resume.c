#include "client/resume.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/num.h"
#include "ckpt/dirs.h"
#include "ckpt/read.h"
#include "client/prepare.h"
#include "launch/rundir.h"

#define RESULT_MAX (1u << 20)

/* A run that has done its work is not taken up again. */
static bool is_unfinished(const char *dir)
{
	char *path = rundir_path(dir, "result.json");
	json_t *result = json_parse_file(path, RESULT_MAX, NULL);
	bool done = strcmp(json_str(result, "state", ""), "done") == 0;

	free(path);
	json_decref(result);
	return access(dir, F_OK) == 0 && !done;
}

static enum err_code of_step(const char *dir, const char *text, char **from, struct err *e)
{
	char *checkpoints = rundir_path(dir, "checkpoints");
	struct ckpt_entry *list = NULL;
	uint64_t step;
	size_t n = 0;
	enum err_code rc = ERR_OK;

	if (!num_uint(text, UINT64_MAX, &step))
		rc = err_set(e, ERR_USAGE, "--resume step=%s: a number is wanted", text);
	if (rc == ERR_OK)
		rc = ckpt_list(checkpoints, false, &list, &n, e);
	for (size_t i = 0; rc == ERR_OK && i < n; i++)
		if (list[i].readable && list[i].step == step) {
			free(*from);
			*from = mem_strdup(list[i].path);
		}
	if (rc == ERR_OK && !*from)
		rc = err_set(e, ERR_NOTFOUND, "%s has no checkpoint of step %s: ps-ctl -C %s checkpoint ls", dir, text, dir);
	if (rc == ERR_OK)
		rc = ckpt_verify(*from, e);
	ckpt_list_free(list, n);
	free(checkpoints);
	return rc;
}

static enum err_code prepare(const struct conf *conf, const char *dir, const char *wish, int *lock, char **from,
                             struct err *e)
{
	enum err_code rc = ERR_OK;

	if (!wish || strcmp(wish, "none") == 0)
		return run_prepare(conf, dir, lock, e);
	if (strcmp(wish, "auto") == 0) {
		if (!is_unfinished(dir))
			return run_prepare(conf, dir, lock, e);
		*from = mem_strdup("auto");
		return run_reopen(conf, dir, lock, e);
	}
	if (strncmp(wish, "step=", 5) == 0) {
		rc = of_step(dir, wish + 5, from, e);
		return rc == ERR_OK ? run_reopen(conf, dir, lock, e) : rc;
	}
	/* From elsewhere: a run of its own. */
	if (access(wish, F_OK) != 0)
		return err_set(e, ERR_NOTFOUND, "--resume %s: there is no checkpoint of that name", wish);
	rc = ckpt_verify(wish, e);
	if (rc != ERR_OK)
		return rc;
	*from = path_absolute(wish);
	return run_prepare(conf, dir, lock, e);
}

enum err_code resume_prepare(const struct conf *conf, const char *dir, const char *wish, int *lock, char **from,
                             struct err *e)
{
	enum err_code rc;

	*from = NULL;
	*lock = -1;
	rc = prepare(conf, dir, wish, lock, from, e);
	if (rc != ERR_OK) {
		free(*from);
		*from = NULL;
	}
	return rc;
}

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
#include "client/stored.h"
#include "launch/rundir.h"
#include "object/uri.h"

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

static enum err_code prepare_new(const struct conf *conf, const char *dir, int *lock, struct err *e)
{
	enum err_code rc = stored_is_free(conf, e);

	return rc ? rc : run_prepare(conf, dir, lock, e);
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

/* ---- from an object store ------------------------------------------------------------------ */

/* It is fetched first, beside the run directory: an earlier run stays where it is until that is done.
 * into: where it then lies in the new run. */
static enum err_code begin_from(const struct conf *conf, const char *dir, const char *from, const char *into, bool same_run, int *lock,
                                char **path, struct err *e)
{
	char *beside = mem_printf("%s.fetch-XXXXXX", dir), *fetched = NULL, *there = rundir_path(dir, into);
	enum err_code rc = ERR_OK;

	if (!mkdtemp(beside)) {
		rc = err_sys(e, ERR_IO, "cannot make the directory \"%s\"", beside);
		goto out;
	}
	rc = stored_fetch(from, beside, false, conf->deadline, &fetched, e);
	if (!rc && same_run)
		rc = stored_fits(conf, fetched, from, e);
	if (!rc)
		rc = run_prepare(conf, dir, lock, e);
	if (!rc && rename(beside, there))
		rc = err_sys(e, ERR_IO, "cannot rename \"%s\" to \"%s\"", beside, there);
	if (!rc) {
		char *whole = path_absolute(there);

		*path = path_join(whole, path_basename(fetched));
		free(whole);
	} else {
		file_remove_tree(beside, NULL);
	}
out:
	free(fetched);
	free(beside);
	free(there);
	return rc;
}

/* This host has the run; the store may have it further. */
static enum err_code catch_up(const struct conf *conf, const char *dir, struct err *e)
{
	char *at = conf_store(conf), *checkpoints = rundir_path(dir, "checkpoints"), *path = NULL;
	enum err_code rc = at ? stored_fetch(at, checkpoints, true, conf->deadline, &path, e) : ERR_OK;

	if (rc == ERR_NOTFOUND)
		rc = ERR_OK;
	else if (rc && e)
		err_prefix(e, "--resume auto: whether the store has a later checkpoint is not known (step=N goes on from one that is here)");
	free(path);
	free(at);
	free(checkpoints);
	return rc;
}

static enum err_code resume_auto(const struct conf *conf, const char *dir, int *lock, char **from, struct err *e)
{
	char *at = conf_store(conf), *path = NULL;
	enum err_code rc = ERR_NOTFOUND;

	if (is_unfinished(dir)) {
		*from = mem_strdup("auto");
		rc = run_reopen(conf, dir, lock, e);
		if (!rc)
			rc = catch_up(conf, dir, e);
	} else {
		/* What is done here is not taken up again. */
		if (at && access(dir, F_OK) != 0)
			rc = begin_from(conf, dir, at, "checkpoints", true, lock, &path, e);
		if (!rc)
			*from = mem_strdup("auto");
		else if (rc == ERR_NOTFOUND)
			rc = prepare_new(conf, dir, lock, e);
	}
	free(path);
	free(at);
	return rc;
}

/* ---- which it is --------------------------------------------------------------------------- */

/* What is at checkpoint_to already must be what is gone on from. */
static enum err_code resume_stored(const struct conf *conf, const char *dir, const char *wish, int *lock, char **from, struct err *e)
{
	char *at = conf_store(conf);
	bool own = at && strncmp(wish, at, strlen(at)) == 0 && (wish[strlen(at)] == '/' || !wish[strlen(at)]);
	enum err_code rc = own ? ERR_OK : stored_is_free(conf, e);

	free(at);
	return rc ? rc : begin_from(conf, dir, wish, "begin", false, lock, from, e);
}

static enum err_code prepare(const struct conf *conf, const char *dir, const char *wish, int *lock, char **from,
                             struct err *e)
{
	enum err_code rc = ERR_OK;

	if (!wish || strcmp(wish, "none") == 0)
		return prepare_new(conf, dir, lock, e);
	if (strcmp(wish, "auto") == 0)
		return resume_auto(conf, dir, lock, from, e);
	if (strncmp(wish, "step=", 5) == 0) {
		rc = of_step(dir, wish + 5, from, e);
		return rc == ERR_OK ? run_reopen(conf, dir, lock, e) : rc;
	}
	/* From elsewhere: a run of its own. */
	if (uri_is(wish))
		return resume_stored(conf, dir, wish, lock, from, e);
	if (access(wish, F_OK) != 0)
		return err_set(e, ERR_NOTFOUND, "--resume %s: there is no checkpoint of that name", wish);
	rc = ckpt_verify(wish, e);
	if (rc != ERR_OK)
		return rc;
	*from = path_absolute(wish);
	return prepare_new(conf, dir, lock, e);
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
		if (*lock >= 0)
			close(*lock);
		*lock = -1;
	}
	return rc;
}

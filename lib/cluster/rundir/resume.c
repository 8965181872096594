/* SPDX-License-Identifier: ISC */
#include "rundir/resume.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ckpt/dirs.h"
#include "ckpt/names.h"
#include "ckpt/read.h"
#include "core/file.h"
#include "core/json.h"
#include "core/mem.h"
#include "core/num.h"
#include "format/uri.h"
#include "msg/manifest.h"
#include "rundir/prepare.h"
#include "rundir/remote_checkpoint.h"
#include "rundir/result.h"
#include "rundir/rundir.h"
#include "saved/saved_model.h"

/* Is there a run that is not done? A run that is done is not resumed. */
static bool is_run_unfinished(const char *dir)
{
	json_t *result = result_read(dir, NULL);
	bool done = result_has_state(result, PHASE_DONE);

	json_decref(result);
	return access(dir, F_OK) == 0 && !done;
}

/* ---- a job that begins with a model ---- */

/* Can the job go on with this model? Whether the tables fit is known only when a worker has read
 * the data. */
static enum err_code check_first_model(const struct conf *conf, const struct saved_about *model,
    struct err *e)
{
	struct conf of;
	enum err_code rc = conf_from_json(model->config, &of, e);

	if (rc)
		return rc;
	if (!of.has_job || strcmp(of.job.model, conf->job.model) != 0)
		rc = err_set(e, ERR_CONFIG,
		    "job.init_from: the model in %s is of kind \"%s\", but job.model is \"%s\"",
		    model->path, of.has_job ? of.job.model : "", conf->job.model);
	else if (!model->facts && strcmp(conf->job.model, "custom") != 0)
		rc = err_set(e, ERR_CONFIG,
		    "job.init_from: %s has no numbers of its features, because an earlier pskit "
		    "left them out where there are very many classes, words or categories",
		    model->path);
	conf_release(&of);
	return rc;
}

/* Say what becomes of the optimizer state. */
static void report_first_model(const struct conf *conf, const struct saved_about *model)
{
	bool same = model->optimizer && strcmp(model->optimizer, conf->job.optimizer) == 0;

	fprintf(stderr, "%s: beginning with the model %s%s%s%s\n", program_invocation_short_name,
	    model->path,
	    same ? " and its optimizer state"
	         : "; the optimizer state starts from "
	           "its initial values, ",
	    same                   ? ""
	        : model->optimizer ? "because the saved one is of "
	        : model->foreign   ? "because the saved one is of another version of pskit"
	                           : "because the file has none",
	    same || !model->optimizer ? "" : model->optimizer);
}

/* The model becomes the checkpoint of step 0 in the new run, to which the job also rolls back as
 * long as it has no later one. The model may lie in the directory that rundir_prepare moves aside;
 * it is open by then. */
static enum err_code begin_with_model(const struct conf *conf, const char *dir, int *lock,
    char **from, struct err *e)
{
	enum err_code rc = remote_checkpoint_check_unused(conf, e);
	char *whole = NULL, *checkpoints = NULL;
	struct saved_model *m;
	struct saved_about about;
	json_t *config;

	if (rc)
		return rc;
	rc = saved_model_open(conf->job.init_from, &m, e);
	if (rc) {
		err_prefix(e, "job.init_from");
		return rc;
	}
	about = saved_model_about(m);
	rc = check_first_model(conf, &about, e);
	if (!rc) {
		report_first_model(conf, &about);
		rc = rundir_prepare(conf, dir, lock, e);
	}
	if (!rc) {
		whole = path_absolute(dir);
		checkpoints = rundir_path(whole, "checkpoints");
		config = conf_to_json(conf);
		rc = saved_model_write(m, config, checkpoints, from, e);
		json_decref(config);
	}
	free(checkpoints);
	free(whole);
	saved_model_close(m);
	return rc;
}

static enum err_code prepare_new_run(const struct conf *conf, const char *dir, int *lock,
    struct err *e)
{
	enum err_code rc = remote_checkpoint_check_unused(conf, e);

	return rc ? rc : rundir_prepare(conf, dir, lock, e);
}

/* Begin a run from nothing, or with the model that the configuration names. */
static enum err_code begin_new_run(const struct conf *conf, const char *dir, int *lock, char **from,
    struct err *e)
{
	return conf_trains(conf) && conf_is_named(conf->job.init_from)
	    ? begin_with_model(conf, dir, lock, from, e)
	    : prepare_new_run(conf, dir, lock, e);
}

/* ---- remaining work ---- */

/* Has the checkpoint all files, of the right sizes and shapes? The servers compare every byte. */
static enum err_code check_files(const char *path, struct err *e)
{
	struct ckpt_reader *reader;
	enum err_code rc = ckpt_open(path, &reader, e);

	if (!rc)
		ckpt_close(reader);
	return rc;
}

/* Can a job go on with the checkpoint's optimizer state? */
static enum err_code check_state(const char *path, struct err *e)
{
	struct manifest *manifest = ckpt_manifest_read(path, e);
	enum err_code rc = manifest ? ckpt_state_check(manifest, path, e) : e->code;

	manifest_free(manifest);
	return rc;
}

/* Fail if the checkpoint has all steps or epochs that the configuration asks for: a cluster that
 * trains would have nothing to do. In bsp all workers are at the checkpoint's step; in other modes
 * that is the step of the slowest one. */
static enum err_code check_work_left(const struct conf *conf, const char *path, struct err *e)
{
	struct manifest *manifest = ckpt_manifest_read(path, e);
	const struct manifest_data *data = manifest ? manifest->data : NULL;
	int64_t step = manifest ? manifest->step : 0,
	        epoch = data && data->deal ? data->deal->epoch : 0;
	bool dealt = !data || !json_is_object(data->tasks), trains = manifest && conf_trains(conf);
	enum err_code rc = manifest ? ERR_OK : e->code;

	if (trains && conf->job.steps && step >= conf->job.steps)
		rc = err_set(e, ERR_NOTREADY,
		    "nothing is left to train: %s has step %lld, and job.steps is %lld; raise "
		    "job.steps, or export the model: ps-ctl -C %s export all",
		    path, (long long)step, (long long)conf->job.steps, path);
	else if (trains && conf->job.epochs && dealt && epoch >= conf->job.epochs)
		rc = err_set(e, ERR_NOTREADY,
		    "nothing is left to train: %s has completed %lld epoch%s, and job.epochs is "
		    "%lld; raise job.epochs, or export the model: ps-ctl -C %s export all",
		    path, (long long)epoch, epoch == 1 ? "" : "s", (long long)conf->job.epochs,
		    path);
	manifest_free(manifest);
	return rc;
}

/* Does the configuration ask for tables of other shapes than the run in dir has? Then no checkpoint
 * of that run fits. */
static bool changes_shapes(const struct conf *conf, const char *dir)
{
	static const char *const keys[] = { "model", "hidden", "factors", "cross", "bottom" };
	char *path = rundir_path(dir, "cluster.json");
	json_t *there = json_parse_file(path, 1 << 20, NULL), *ours = conf_to_json(conf);
	const json_t *was = json_object_get(there, "job"), *is = json_object_get(ours, "job");
	bool changes = false;

	for (size_t i = 0; was && i < sizeof keys / sizeof *keys; i++) {
		const json_t *a = json_object_get(was, keys[i]), *b = json_object_get(is, keys[i]);

		changes |= a && b && !json_equal((json_t *)(uintptr_t)a, (json_t *)(uintptr_t)b);
	}
	json_decref(there);
	json_decref(ours);
	free(path);
	return changes;
}

/* Reopen the run. If the configuration differs, the error also says how to continue with the
 * new values. */
static enum err_code reopen_run(const struct conf *conf, const char *dir, const char *checkpoint,
    bool keep_results, int *lock, struct err *e)
{
	char *checkpoints = rundir_path(dir, "checkpoints"), *newest = NULL;
	enum err_code rc = rundir_reopen(conf, dir, keep_results, lock, e);
	struct err why = *e;

	if (rc == ERR_CONFIG) {
		bool fits = !changes_shapes(conf, dir);

		if (!checkpoint &&
		    ckpt_newest_by_manifest(checkpoints, NULL, NULL, NULL, &newest, NULL) == ERR_OK)
			checkpoint = newest;
		if (checkpoint && fits)
			err_because(e, rc, why.cause,
			    "%.300s: give the same values; or begin a new run with the new "
			    "values from the checkpoint: --resume %s; or from the start: "
			    "--resume none",
			    why.msg, checkpoint);
		else
			err_because(e, rc, why.cause,
			    "%.300s: give the same values, or begin a new run%s: --resume none",
			    why.msg, fits ? "" : " (no checkpoint fits a model of another shape)");
	}
	free(newest);
	free(checkpoints);
	return rc;
}

static enum err_code find_checkpoint_of_step(const struct conf *conf, const char *dir,
    const char *text, char **from, struct err *e)
{
	char *checkpoints = rundir_path(dir, "checkpoints");
	struct ckpt_entry *list = NULL;
	uint64_t step;
	size_t n = 0;
	enum err_code rc = ERR_OK;

	if (!num_uint(text, UINT64_MAX, &step))
		rc = err_set(e, ERR_USAGE, "--resume step=%s: must be a number", text);
	if (rc == ERR_OK)
		rc = ckpt_list(checkpoints, false, &list, &n, e);
	for (size_t i = 0; rc == ERR_OK && i < n; i++)
		if (list[i].readable && list[i].step == step) {
			free(*from);
			*from = mem_strdup(list[i].path);
		}
	if (rc == ERR_OK && !*from)
		rc = err_set(e, ERR_NOTFOUND,
		    "%s has no checkpoint of step %s: ps-ctl -C %s checkpoint ls", dir, text, dir);
	if (rc == ERR_OK)
		rc = check_files(*from, e);
	if (rc == ERR_OK)
		rc = check_state(*from, e);
	if (rc == ERR_OK)
		rc = check_work_left(conf, *from, e);
	ckpt_list_free(list, n);
	free(checkpoints);
	return rc;
}

/* ---- from an object store ---- */

/* Download a checkpoint and make a run directory that starts from it. The download goes beside
 * the run directory, and an earlier run is moved only when it is complete. into: the
 * checkpoint's folder in the new run. same_run: the checkpoint must be of this configuration. */
static enum err_code begin_from_store(const struct conf *conf, const char *dir, const char *from,
    const char *into, bool same_run, int *lock, char **path, struct err *e)
{
	char *beside, *fetched = NULL, *there = rundir_path(dir, into);
	enum err_code rc = file_make_unique_dir(mem_printf("%s.fetch-XXXXXX", dir), &beside, e);

	if (rc)
		goto out;
	rc = remote_checkpoint_download(from, beside, false, conf->deadline, &fetched, e);
	if (!rc)
		rc = check_state(fetched, e);
	if (!rc && same_run)
		rc = remote_checkpoint_check_config(conf, fetched, from, e);
	else if (!rc)
		rc = check_work_left(conf, fetched, e);
	if (!rc)
		rc = rundir_prepare(conf, dir, lock, e);
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

/* Resuming a run of this host: the object store may have a later checkpoint, so download that. */
static enum err_code fetch_newer_checkpoint(const struct conf *conf, const char *dir, struct err *e)
{
	char *at = conf_checkpoint_uri(conf), *checkpoints = rundir_path(dir, "checkpoints"),
	     *path = NULL;
	enum err_code rc = at
	    ? remote_checkpoint_download(at, checkpoints, true, conf->deadline, &path, e)
	    : ERR_OK;

	if (rc == ERR_NOTFOUND)
		rc = ERR_OK;
	else if (rc && e)
		err_prefix(e,
		    "--resume auto: the store may have a later checkpoint (step=N resumes from "
		    "one in the run directory)");
	free(path);
	free(at);
	free(checkpoints);
	return rc;
}

/* Checks that the run can go on with its newest checkpoint, if it has one. The coordinator chooses
 * it again, and takes an older one if a server finds damage (coordinator/resumed.h). If all are
 * damaged the run must not begin from the start: it would in time remove checkpoints that might
 * still be repaired. */
static enum err_code check_newest_checkpoint(const char *dir, struct err *e)
{
	char *checkpoints = rundir_path(dir, "checkpoints"), *path = NULL;
	struct err why;
	enum err_code rc = ckpt_newest_by_manifest(checkpoints, NULL, NULL, NULL, &path, e);

	if (rc == ERR_OK)
		rc = check_state(path, e);
	/* ERR_IO: it cannot be read at present. The coordinator tries that for a while. */
	if (rc == ERR_NOTFOUND || rc == ERR_IO)
		rc = ERR_OK;
	else if (rc == ERR_FORMAT) {
		why = *e;
		err_because(e, rc, why.cause,
		    "--resume auto: %.420s; --resume none begins a new run and moves this one "
		    "aside",
		    why.msg);
	}
	free(path);
	free(checkpoints);
	return rc;
}

/* A run that is done is not resumed: another one begins, and says so. */
static enum err_code begin_after_done(const struct conf *conf, const char *dir, int *lock,
    char **from, struct err *e)
{
	bool done = access(dir, F_OK) == 0;
	enum err_code rc = begin_new_run(conf, dir, lock, from, e);

	if (!rc && done)
		fprintf(stderr,
		    "%s: the run in %s was done, so there was nothing to resume: a new run begins\n",
		    program_invocation_short_name, dir);
	return rc;
}

static enum err_code resume_or_begin(const struct conf *conf, const char *dir, int *lock,
    char **from, struct err *e)
{
	char *at = conf_checkpoint_uri(conf), *path = NULL;
	enum err_code rc = ERR_NOTFOUND;

	if (is_run_unfinished(dir)) {
		rc = reopen_run(conf, dir, NULL, false, lock, e);
		if (!rc)
			rc = fetch_newer_checkpoint(conf, dir, e);
		if (!rc)
			rc = check_newest_checkpoint(dir, e);
		if (!rc)
			*from = mem_strdup("auto");
	} else {
		/* A run that is done on this host is not resumed from the store either. */
		if (at && access(dir, F_OK) != 0)
			rc = begin_from_store(conf, dir, at, "checkpoints", true, lock, &path, e);
		if (!rc)
			*from = mem_strdup("auto");
		else if (rc == ERR_NOTFOUND)
			rc = begin_after_done(conf, dir, lock, from, e);
	}
	free(path);
	free(at);
	return rc;
}

/* ---- by the argument of --resume ---- */

/* Begin from a checkpoint in an object store. If checkpoint_to has checkpoints, this must be
 * one of them. */
static enum err_code begin_from_uri(const struct conf *conf, const char *dir, const char *wish,
    int *lock, char **from, struct err *e)
{
	char *at = conf_checkpoint_uri(conf);
	bool own = at && strncmp(wish, at, strlen(at)) == 0 &&
	    (wish[strlen(at)] == '/' || !wish[strlen(at)]);
	enum err_code rc = own ? ERR_OK : remote_checkpoint_check_unused(conf, e);

	free(at);
	return rc ? rc : begin_from_store(conf, dir, wish, "begin", false, lock, from, e);
}

/* Begin a new run from a checkpoint on this host. It may lie in the run directory that is
 * moved aside, so its path is taken from an open descriptor afterwards. */
static enum err_code begin_from_path(const struct conf *conf, const char *dir, const char *wish,
    int *lock, char **from, struct err *e)
{
	int fd = open(wish, O_PATH | O_DIRECTORY | O_CLOEXEC);
	enum err_code rc;

	if (fd < 0)
		return err_set(e, ERR_NOTFOUND, "--resume %s: there is no such checkpoint", wish);
	/* A run that lies in the way is moved aside, so be sure before that. */
	rc = access(dir, F_OK) == 0 ? ckpt_verify(wish, e) : check_files(wish, e);
	if (rc == ERR_OK)
		rc = check_state(wish, e);
	if (rc == ERR_OK)
		rc = check_work_left(conf, wish, e);
	if (rc == ERR_OK)
		rc = prepare_new_run(conf, dir, lock, e);
	if (rc == ERR_OK) {
		*from = path_of_fd(fd);
		if (!*from)
			rc = err_sys(e, ERR_IO, "cannot find the moved checkpoint %s", wish);
	}
	close(fd);
	return rc;
}

static enum err_code prepare_by_request(const struct conf *conf, const char *dir, const char *wish,
    int *lock, char **from, struct err *e)
{
	enum err_code rc = ERR_OK;

	if (!wish || strcmp(wish, "none") == 0)
		return begin_new_run(conf, dir, lock, from, e);
	if (strcmp(wish, "auto") == 0)
		return resume_or_begin(conf, dir, lock, from, e);
	if (strncmp(wish, "step=", 5) == 0) {
		rc = find_checkpoint_of_step(conf, dir, wish + 5, from, e);
		return rc == ERR_OK ? reopen_run(conf, dir, *from, false, lock, e) : rc;
	}
	if (uri_is(wish))
		return begin_from_uri(conf, dir, wish, lock, from, e);
	return begin_from_path(conf, dir, wish, lock, from, e);
}

enum err_code resume_finished(const struct conf *conf, const char *dir, int *lock, struct err *e)
{
	*lock = -1;
	if (access(dir, F_OK) != 0 || is_run_unfinished(dir))
		return err_set(e, ERR_NOTFOUND, "%s has no run that is done", dir);
	return reopen_run(conf, dir, NULL, true, lock, e);
}

enum err_code resume_prepare(const struct conf *conf, const char *dir, const char *wish, int *lock,
    char **from, struct err *e)
{
	enum err_code rc;

	*from = NULL;
	*lock = -1;
	rc = prepare_by_request(conf, dir, wish, lock, from, e);
	if (rc != ERR_OK) {
		free(*from);
		*from = NULL;
		if (*lock >= 0)
			close(*lock);
		*lock = -1;
	}
	return rc;
}

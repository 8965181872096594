/* SPDX-License-Identifier: ISC */
#include "worker/residual_file.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ckpt/kept.h"
#include "client/saved_residuals.h"
#include "core/file.h"
#include "core/json.h"
#include "core/mem.h"
#include "core/num.h"
#include "core/read_retry.h"
#include "core/thread.h"
#include "rundir/rundir.h"

#define SUFFIX ".safetensors"
#define NONE   UINT64_MAX
/* Files that stay although no checkpoint needs them yet. A checkpoint has one file of a rank in
 * bsp; in other modes a rank may save some while the snapshot is taken. */
#define NEWEST_KEPT_LOCKSTEP 1
#define NEWEST_KEPT          4

/* RUN/workers, to be freed. */
static char *residual_dir(const struct worker *w)
{
	return rundir_path(w->cfg->id->run_dir, "workers");
}

/* Path of this rank's file of a step, to be freed. */
static char *residual_path(const struct worker *w, uint64_t step)
{
	char *dir = residual_dir(w),
	     *path = mem_printf("%s/worker-%u-%012llu" SUFFIX, dir, w->rank,
	         (unsigned long long)step);

	free(dir);
	return path;
}

/* The prefix of this rank's file names. */
static size_t put_file_prefix(const struct worker *w, char prefix[static 32])
{
	return (size_t)snprintf(prefix, 32, "worker-%u-", w->rank);
}

/* The step in the name of one of this rank's files; NONE: it is another's. */
static uint64_t step_of_file(const struct worker *w, const char *name)
{
	char prefix[32], number[24];
	size_t n = put_file_prefix(w, prefix), len = strlen(name);
	uint64_t step;

	if (strncmp(name, prefix, n) != 0 || len <= n + strlen(SUFFIX) ||
	    len - n - strlen(SUFFIX) >= sizeof number ||
	    strcmp(name + len - strlen(SUFFIX), SUFFIX) != 0)
		return NONE;
	snprintf(number, sizeof number, "%.*s", (int)(len - n - strlen(SUFFIX)), name + n);
	return num_uint(number, NONE - 1, &step) ? step : NONE;
}

/* The step of this rank's oldest file from step `least` on; NONE: there is none. *n: number of its
 * files of all steps. */
static uint64_t find_residual_file(const struct worker *w, uint64_t least, size_t *n)
{
	char *path = residual_dir(w);
	DIR *dir = opendir(path);
	const struct dirent *d;
	uint64_t found = NONE;

	*n = 0;
	while (dir && (d = readdir(dir))) {
		uint64_t step = step_of_file(w, d->d_name);

		if (step == NONE)
			continue;
		(*n)++;
		if (step >= least && step < found)
			found = step;
	}
	if (dir)
		closedir(dir);
	free(path);
	return found;
}

/* False: it could not be removed. */
static bool remove_file(const struct worker *w, uint64_t step)
{
	char *path = residual_path(w, step);
	bool gone = unlink(path) == 0;

	free(path);
	return gone;
}

/* Removes files that a killed worker of this rank was writing. */
static void remove_torn_files(const struct worker *w)
{
	char *dir = residual_dir(w), prefix[32];

	put_file_prefix(w, prefix);
	file_remove_torn(dir, prefix);
	free(dir);
}

/* Loads the file, and tries again if it cannot be read: these residuals cannot be computed again. */
static enum err_code load_patiently(struct worker *w, const char *path, struct err *e)
{
	struct read_retry retry = { 0 };
	enum err_code rc = client_load_residuals(w->client, path, e);

	while (rc && read_retry_wanted(&retry, e, w->cfg->log, clock_now()) &&
	    !interrupt_await(&w->cfg->interrupt, READ_RETRY_PAUSE_MS * NSEC_PER_MSEC))
		rc = client_load_residuals(w->client, path, e);
	return rc;
}

void residual_file_load(struct worker *w)
{
	bool lockstep = sync_is_lockstep(&w->job.conf.sync);
	uint64_t step, later;
	struct err e;
	char *path;
	size_t n;

	if (!w->cfg->id->run_dir)
		return;
	remove_torn_files(w);
	/* A worker that takes over a rank starts without residuals: the residuals of its
	 * predecessor were pushed or are lost. */
	if (!w->step || !w->view->worker || !w->view->worker->resumes)
		return;
	step = find_residual_file(w, w->step, &n);
	/* Remove later files: they belong to steps after the checkpoint that the job resumes
	 * from. */
	while (step != NONE &&
	    (later = find_residual_file(w, step + (!lockstep || step == w->step), &n)) != NONE &&
	    remove_file(w, later))
		;
	if (step == NONE || (lockstep && step != w->step) || !w->job.conf.feedback)
		return;
	path = residual_path(w, step);
	if (load_patiently(w, path, &e) == ERR_OK)
		log_info(w->cfg->log, "restored the residuals of step %llu",
		    (unsigned long long)step);
	else if (e.code != ERR_NOTFOUND)
		log_warn(w->cfg->log, "the residuals of step %llu are lost: %s",
		    (unsigned long long)step, e.msg);
	free(path);
}

static int compare_steps(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* The steps of this rank's files in ascending order, *n of them, to be freed. */
static uint64_t *list_residual_files(const struct worker *w, size_t *n)
{
	char *path = residual_dir(w);
	DIR *dir = opendir(path);
	uint64_t *steps = mem_array(1, sizeof *steps);
	const struct dirent *d;

	*n = 0;
	while (dir && (d = readdir(dir))) {
		uint64_t step = step_of_file(w, d->d_name);

		if (step == NONE)
			continue;
		steps = mem_regrow(steps, *n + 1, sizeof *steps);
		steps[(*n)++] = step;
	}
	if (dir)
		closedir(dir);
	if (*n)
		qsort(steps, *n, sizeof *steps, compare_steps);
	free(path);
	return steps;
}

/* Removes the files that no checkpoint needs. The newest ones stay, because the checkpoint that
 * they were saved for does not exist yet. */
static void remove_old_files(struct worker *w)
{
	char *dir = rundir_path(w->cfg->id->run_dir, "checkpoints");
	size_t newest = sync_is_lockstep(&w->job.conf.sync) ? NEWEST_KEPT_LOCKSTEP : NEWEST_KEPT;
	enum err_code rc;
	uint64_t *steps;
	bool *needed;
	struct err e;
	size_t n;

	if (!w->kept)
		w->kept = ckpt_kept_new();
	steps = list_residual_files(w, &n);
	needed = mem_array(n + 1, sizeof *needed);
	rc = ckpt_kept_look(w->kept, dir, &e);
	if (rc)
		log_warn(w->cfg->log, "no old residuals are removed: %s", e.msg);
	else
		ckpt_kept_mark_needed(w->kept, w->rank, steps, n, needed);
	for (size_t i = 0; !rc && i + newest < n; i++)
		if (!needed[i])
			remove_file(w, steps[i]);
	free(needed);
	free(steps);
	free(dir);
}

void residual_file_save(struct worker *w)
{
	bool lockstep = sync_is_lockstep(&w->job.conf.sync);
	uint64_t saving = client_checkpoint_step(w->client);
	struct err e = { 0 };
	enum err_code rc;
	char *dir, *path;
	bool again;

	if (!w->cfg->id->run_dir || saving == NONE || (lockstep && saving != w->step) ||
	    saving == w->residuals_saved)
		return;
	/* Without lockstep, answers at two consecutive steps may announce the same checkpoint. */
	again = !lockstep && w->residuals_saved && saving == w->residuals_saved + 1;
	w->residuals_saved = saving;
	if (again || !client_has_residuals(w->client))
		return;
	dir = residual_dir(w);
	path = residual_path(w, w->step);
	rc = file_mkdirs(dir, 0700, &e);
	if (!rc)
		rc = client_save_residuals(w->client, path, &e);
	if (rc)
		log_warn(w->cfg->log, "cannot save the residuals: %s", e.msg);
	else
		remove_old_files(w);
	free(dir);
	free(path);
}

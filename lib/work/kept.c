#include "work/kept.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/num.h"
#include "client/kept.h"
#include "launch/rundir.h"

#define SUFFIX ".safetensors"
#define NONE UINT64_MAX

static char *directory(const struct worker *w)
{
	return rundir_path(w->cfg->id->run_dir, "workers");
}

static char *path_of(const struct worker *w, uint64_t step)
{
	char *dir = directory(w), *path = mem_printf("%s/worker-%u-%012llu" SUFFIX, dir, w->slot, (unsigned long long)step);

	free(dir);
	return path;
}

/* How the names of this slot's files begin. */
static size_t put_prefix(const struct worker *w, char prefix[static 32])
{
	return (size_t)snprintf(prefix, 32, "worker-%u-", w->slot);
}

/* The step of one of this slot's files; NONE: it is another's. */
static uint64_t step_of(const struct worker *w, const char *name)
{
	char prefix[32], number[24];
	size_t n = put_prefix(w, prefix), len = strlen(name);
	uint64_t step;

	if (strncmp(name, prefix, n) != 0 || len <= n + strlen(SUFFIX) || len - n - strlen(SUFFIX) >= sizeof number ||
	    strcmp(name + len - strlen(SUFFIX), SUFFIX) != 0)
		return NONE;
	snprintf(number, sizeof number, "%.*s", (int)(len - n - strlen(SUFFIX)), name + n);
	return num_uint(number, NONE - 1, &step) ? step : NONE;
}

/* This slot's file whose step is the least from `least` on; NONE: none.  *n: how many of all
 * steps. */
static uint64_t look(const struct worker *w, uint64_t least, size_t *n)
{
	char *path = directory(w);
	DIR *dir = opendir(path);
	const struct dirent *d;
	uint64_t found = NONE;

	*n = 0;
	while (dir && (d = readdir(dir))) {
		uint64_t step = step_of(w, d->d_name);

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

static bool drop(const struct worker *w, uint64_t step)
{
	char *path = path_of(w, step);
	bool gone = unlink(path) == 0;

	free(path);
	return gone;
}

/* What this slot's worker before was writing when it was killed. */
static void sweep(const struct worker *w)
{
	char *dir = directory(w), prefix[32];

	put_prefix(w, prefix);
	file_remove_torn(dir, prefix);
	free(dir);
}

void kept_load(struct worker *w)
{
	bool bsp = w->job.conf.sync.kind == SYNC_bsp;
	uint64_t step, later;
	struct err e;
	char *path;
	size_t n;

	if (!w->cfg->id->run_dir)
		return;
	sweep(w);
	/* Who takes a slot over begins without: what the one before held back has been
	 * pushed since, or is gone. */
	if (!w->step || !json_flag(json_object_get(w->view, "worker"), "resumes"))
		return;
	step = look(w, w->step, &n);
	/* Those behind are of what the checkpoint does not know of. */
	while (step != NONE && (later = look(w, step + (!bsp || step == w->step), &n)) != NONE && drop(w, later))
		;
	if (step == NONE || (bsp && step != w->step) || !w->job.conf.feedback)
		return;
	path = path_of(w, step);
	if (client_load_kept(w->client, path, &e) == ERR_OK)
		log_info(w->cfg->log, "what was still to be pushed at step %llu is here again", (unsigned long long)step);
	else if (e.code != ERR_NOTFOUND)
		log_warn(w->cfg->log, "what was still to be pushed at step %llu is lost: %s", (unsigned long long)step, e.msg);
	free(path);
}

static void prune(const struct worker *w)
{
	size_t n;

	for (uint64_t oldest = look(w, 0, &n); n > (size_t)w->job.conf.keep_last && drop(w, oldest); oldest = look(w, 0, &n))
		;
}

void kept_save(struct worker *w)
{
	bool bsp = w->job.conf.sync.kind == SYNC_bsp;
	uint64_t saving = client_saving(w->client);
	struct err e = { 0 };
	enum err_code rc;
	char *dir, *path;
	bool again;

	if (!w->cfg->id->run_dir || saving == NONE || (bsp && saving != w->step) || saving == w->saved)
		return;
	/* Outside of bsp answers of several steps say so of one checkpoint. */
	again = !bsp && w->saved && saving == w->saved + 1;
	w->saved = saving;
	if (again || !client_has_kept(w->client))
		return;
	dir = directory(w);
	path = path_of(w, w->step);
	rc = file_mkdirs(dir, 0700, &e);
	if (!rc)
		rc = client_save_kept(w->client, path, &e);
	if (rc)
		log_warn(w->cfg->log, "what is still to be pushed is not saved: %s", e.msg);
	else
		prune(w);
	free(dir);
	free(path);
}

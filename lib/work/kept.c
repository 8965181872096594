#include "work/kept.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
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

/* The step of one of this slot's files; NONE: it is another's. */
static uint64_t step_of(const struct worker *w, const char *name)
{
	char prefix[32], number[24];
	size_t n = (size_t)snprintf(prefix, sizeof prefix, "worker-%u-", w->slot), len = strlen(name);
	uint64_t step;

	if (strncmp(name, prefix, n) != 0 || len <= n + strlen(SUFFIX) || len - n - strlen(SUFFIX) >= sizeof number ||
	    strcmp(name + len - strlen(SUFFIX), SUFFIX) != 0)
		return NONE;
	snprintf(number, sizeof number, "%.*s", (int)(len - n - strlen(SUFFIX)), name + n);
	return num_uint(number, NONE - 1, &step) ? step : NONE;
}

/* The newest of this slot's, or the oldest; NONE: none.  *n: how many. */
static uint64_t look(const struct worker *w, bool newest, size_t *n)
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
		if (found == NONE || (newest ? step > found : step < found))
			found = step;
	}
	if (dir)
		closedir(dir);
	free(path);
	return found;
}

void kept_load(struct worker *w)
{
	uint64_t step = w->step;
	struct err e;
	char *path;
	size_t n;

	if (!w->cfg->id->run_dir || !w->job.conf.feedback)
		return;
	if (w->job.conf.sync.kind != SYNC_bsp && step)
		step = look(w, true, &n);
	if (step == NONE || !step)
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

	for (uint64_t oldest = look(w, false, &n); n > (size_t)w->job.conf.keep_last; oldest = look(w, false, &n)) {
		char *path = path_of(w, oldest);
		int failed = unlink(path);

		free(path);
		if (failed)
			return;
	}
}

void kept_save(struct worker *w)
{
	bool bsp = w->job.conf.sync.kind == SYNC_bsp;
	uint64_t saving = client_saving(w->client);
	struct err e = { 0 };
	enum err_code rc;
	char *dir, *path;

	if (!w->cfg->id->run_dir || saving == NONE || (bsp ? saving != w->step : saving == w->saved) || !client_has_kept(w->client))
		return;
	w->saved = saving;
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

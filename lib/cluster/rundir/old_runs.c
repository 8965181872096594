/* SPDX-License-Identifier: ISC */
#include "rundir/old_runs.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/file.h"
#include "core/json.h"
#include "core/mem.h"
#include "core/num.h"
#include "rundir/result.h"
#include "rundir/rundir.h"

static int compare_numbers(const void *a, const void *b)
{
	int64_t x, y;

	memcpy(&x, a, sizeof x);
	memcpy(&y, b, sizeof y);
	return (x > y) - (x < y);
}

size_t old_runs_list(const char *path, int64_t **out)
{
	char *folder = path_dirname(path);
	const char *base = path_basename(path);
	size_t len = strlen(base), n = 0;
	DIR *d = opendir(folder);
	struct buf all = BUF_INIT;
	struct dirent *entry;

	while (d && (entry = readdir(d)) != NULL) {
		int64_t number;

		if (strncmp(entry->d_name, base, len) != 0 || entry->d_name[len] != '.' ||
		    !num_int(entry->d_name + len + 1, 1, INT32_MAX, &number))
			continue;
		buf_append(&all, &number, sizeof number);
		n++;
	}
	if (d)
		closedir(d);
	free(folder);
	*out = mem_array(n + 1, sizeof **out);
	if (n)
		memcpy(*out, all.data, n * sizeof **out);
	buf_release(&all);
	if (n)
		qsort(*out, n, sizeof **out, compare_numbers);
	return n;
}

static bool has_checkpoint(const char *run)
{
	char *path = rundir_path(run, "checkpoints");
	DIR *d = opendir(path);
	struct dirent *entry;
	bool has = false;

	while (d && (entry = readdir(d)) != NULL)
		has |= strncmp(entry->d_name, "step-", 5) == 0;
	if (d)
		closedir(d);
	free(path);
	return has;
}

/* Is this a run directory whose cluster has ended, and which nobody would go on with? */
static bool is_finished(const char *run)
{
	json_t *result = rundir_is_alive(run, NULL) ? NULL : result_read(run, NULL);
	bool finished = result && (result_has_state(result, PHASE_DONE) || !has_checkpoint(run));

	json_decref(result);
	return finished;
}

/* Is one of the files in this directory? */
static bool is_used(const char *run, const char *const *used, size_t nused)
{
	char *whole = realpath(run, NULL);
	bool is = false;

	for (size_t i = 0; whole && i < nused; i++) {
		char *file = used[i] ? realpath(used[i], NULL) : NULL;
		size_t n = strlen(whole);

		is |= file && strncmp(file, whole, n) == 0 && (file[n] == '/' || !file[n]);
		free(file);
	}
	free(whole);
	return is;
}

/* Removes a run directory. It is locked first, so that a run that is just being resumed stays. */
static enum err_code remove_run(const char *run, struct err *e)
{
	int lock;
	enum err_code rc = rundir_lock(run, &lock, e);

	if (!rc)
		rc = file_remove_tree(run, e);
	if (lock >= 0)
		close(lock);
	return rc;
}

size_t old_runs_prune(const char *path, size_t keep, const char *const *used, size_t nused,
    struct buf *names, struct err *e)
{
	int64_t *number;
	size_t n = old_runs_list(path, &number), removed = 0;

	*e = (struct err){ 0 };
	for (size_t i = n; i-- > 0;) {
		char *run = mem_printf("%s.%lld", path, (long long)number[i]);
		struct err why;

		if (!is_finished(run) || is_used(run, used, nused)) {
			free(run);
			continue;
		}
		if (keep > 0) {
			keep--;
		} else if (remove_run(run, &why) == ERR_OK) {
			buf_printf(names, "%s%s", removed ? " " : "", path_basename(run));
			removed++;
		} else if (!e->code) {
			*e = why;
		}
		free(run);
	}
	free(number);
	return removed;
}

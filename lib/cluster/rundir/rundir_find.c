/* SPDX-License-Identifier: ISC */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/buf.h"
#include "core/json.h"
#include "core/mem.h"
#include "rundir/result.h"
#include "rundir/rundir.h"

/* The run directories of one directory. */
struct found {
	struct buf living, ended; /* "a.run, b.run"; "a.run: done, b.run: failed" */
	size_t nliving, nended;
	char *last_living, *last_ended;
};

/* Append a name to a list. how: how its run ended, or "". */
static void append_run_name(struct buf *list, size_t *n, char **last, const char *name,
    const char *how)
{
	buf_printf(list, "%s%s%s%s", *n ? ", " : "", name, *how ? ": " : "", how);
	free(*last);
	*last = mem_strdup(name);
	++*n;
}

/* How the run ended, by its result file: a run that was killed, or never began, has none. */
static const char *run_outcome(const char *dir)
{
	static const enum phase known[] = { PHASE_DONE, PHASE_FAILED, PHASE_STOPPED };
	json_t *result = result_read(dir, NULL);
	const char *how = "no result";

	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (result_has_state(result, known[i]))
			how = words_phase[known[i]];
	json_decref(result);
	return how;
}

static int compare_run_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Scan a directory for names that end in ".run", sorted, so that the message is always the
 * same. */
static enum err_code scan_runs(const char *dir, struct found *f, struct err *e)
{
	DIR *d = opendir(dir);
	struct dirent *entry;
	char **name = NULL;
	size_t n = 0;

	if (!d)
		return err_sys(e, ERR_IO, "cannot look for clusters in \"%s\"", dir);
	while ((entry = readdir(d)) != NULL) {
		size_t len = strlen(entry->d_name);

		if (entry->d_name[0] == '.' || len < 5 ||
		    strcmp(entry->d_name + len - 4, ".run") != 0)
			continue;
		name = mem_regrow(name, n + 1, sizeof *name);
		name[n++] = mem_strdup(entry->d_name);
	}
	closedir(d);
	if (n > 0)
		qsort(name, n, sizeof *name, compare_run_names);
	for (size_t i = 0; i < n; i++) {
		if (rundir_is_alive(name[i], NULL))
			append_run_name(&f->living, &f->nliving, &f->last_living, name[i], "");
		else
			append_run_name(&f->ended, &f->nended, &f->last_ended, name[i],
			    run_outcome(name[i]));
		free(name[i]);
	}
	free(name);
	return ERR_OK;
}

static bool is_run_name(const char *dir)
{
	size_t n = strlen(dir);

	while (n > 1 && dir[n - 1] == '/')
		n--;
	return n >= 5 && strncmp(dir + n - 4, ".run", 4) == 0;
}

/* The run directory that the user has named. from: where, "-C" or "PS_CLUSTER", for messages. */
static enum err_code find_named_run(const char *dir, const char *from, char **path, struct err *e)
{
	struct stat st;
	enum err_code rc;
	char *lock;

	if (stat(dir, &st) != 0 || !S_ISDIR(st.st_mode))
		return err_set(e, ERR_NOTFOUND,
		    "%s: no run directory \"%s\"; start a cluster with "
		    "ps-ctl start FILE",
		    from, dir);
	lock = rundir_path(dir, "lock");
	rc = stat(lock, &st) == 0 || errno == EACCES || is_run_name(dir) ? ERR_OK : ERR_NOTFOUND;
	if (rc == ERR_OK && access(lock, R_OK) != 0 && errno == EACCES)
		rc = err_sys(e, ERR_FORBIDDEN, "%s: cluster \"%s\" belongs to another user", from,
		    dir);
	else if (rc != ERR_OK)
		err_set(e, rc,
		    "%s: \"%s\" is not a run directory; start a cluster with ps-ctl start FILE",
		    from, dir);
	free(lock);
	if (rc != ERR_OK)
		return rc;
	*path = mem_strdup(dir);
	if (rundir_is_alive(dir, NULL))
		return ERR_OK;
	return err_because(e, ERR_NOTREADY, CAUSE_NOT_RUNNING,
	    "cluster \"%s\" is not running; start it with "
	    "ps-ctl start FILE",
	    dir);
}

enum err_code rundir_find(const char *opt_C, char **path, struct err *e)
{
	const char *env = getenv("PS_CLUSTER");
	struct found f = { BUF_INIT, BUF_INIT, 0, 0, NULL, NULL };
	enum err_code rc;

	*path = NULL;
	if (opt_C)
		return find_named_run(opt_C, "-C", path, e);
	if (env && *env)
		return find_named_run(env, "PS_CLUSTER", path, e);
	rc = scan_runs(".", &f, e);
	if (rc != ERR_OK)
		return rc;
	if (f.nliving == 1) {
		*path = f.last_living;
		f.last_living = NULL;
	} else if (f.nliving > 1) {
		rc = err_set(e, ERR_USAGE,
		    "several clusters are running here: %s; choose one with -C DIR",
		    (char *)f.living.data);
	} else if (f.nended == 0) {
		rc = err_set(e, ERR_NOTFOUND,
		    "no cluster here: no *.run directory in \".\"; "
		    "start one with ps-ctl start FILE");
	} else {
		rc = err_set(e, ERR_NOTREADY,
		    "no cluster is running here (%s); start one "
		    "with ps-ctl start FILE",
		    (char *)f.ended.data);
		if (f.nended == 1) {
			*path = f.last_ended;
			f.last_ended = NULL;
		}
	}
	free(f.last_living);
	free(f.last_ended);
	buf_release(&f.living);
	buf_release(&f.ended);
	return rc;
}

enum err_code rundir_find_serving(const char *opt_C, char **path, struct err *e)
{
	enum err_code rc = rundir_find(opt_C, path, e);

	if (rc == ERR_OK && !rundir_is_serving(*path))
		rc = err_set(e, ERR_NOTREADY, "cluster \"%s\" is ending", *path);
	return rc;
}

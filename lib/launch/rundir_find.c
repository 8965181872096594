#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "launch/rundir.h"

/* What the scan of one directory found. */
struct found {
	struct buf living, finished;    /* "a.run, b.run" */
	size_t nliving, nfinished;
	char *last_living, *last_finished;
};

static void note(struct buf *list, size_t *n, char **last, const char *name)
{
	buf_printf(list, "%s%s", *n ? ", " : "", name);
	free(*last);
	*last = mem_strdup(name);
	++*n;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The names that end in ".run", sorted, so that the sentence is always the same. */
static enum err_code scan(const char *dir, struct found *f, struct err *e)
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
		qsort(name, n, sizeof *name, by_name);
	for (size_t i = 0; i < n; i++) {
		if (rundir_is_alive(name[i], NULL))
			note(&f->living, &f->nliving, &f->last_living, name[i]);
		else
			note(&f->finished, &f->nfinished, &f->last_finished, name[i]);
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

static enum err_code named(const char *dir, const char *from, char **path, struct err *e)
{
	struct stat st;
	enum err_code rc;
	char *lock;

	if (stat(dir, &st) != 0 || !S_ISDIR(st.st_mode))
		return err_set(e, ERR_NOTFOUND, "%s: no run directory \"%s\"; start a cluster with "
		               "ps-ctl start FILE", from, dir);
	lock = rundir_path(dir, "lock");
	rc = stat(lock, &st) == 0 || errno == EACCES || is_run_name(dir) ? ERR_OK : ERR_NOTFOUND;
	if (rc == ERR_OK && access(lock, R_OK) != 0 && errno == EACCES)
		rc = err_sys(e, ERR_FORBIDDEN, "%s: cluster \"%s\" belongs to another user", from, dir);
	else if (rc != ERR_OK)
		err_set(e, rc, "%s: \"%s\" is no run directory; start a cluster with ps-ctl start FILE", from, dir);
	free(lock);
	if (rc != ERR_OK)
		return rc;
	*path = mem_strdup(dir);
	if (rundir_is_alive(dir, NULL))
		return ERR_OK;
	return err_set(e, ERR_NOTREADY, "cluster \"%s\" is not running; start it with "
	               "ps-ctl start FILE", dir);
}

enum err_code rundir_find(const char *opt_C, char **path, struct err *e)
{
	const char *env = getenv("PS_CLUSTER");
	struct found f = { BUF_INIT, BUF_INIT, 0, 0, NULL, NULL };
	enum err_code rc;

	*path = NULL;
	if (opt_C)
		return named(opt_C, "-C", path, e);
	if (env && *env)
		return named(env, "PS_CLUSTER", path, e);
	rc = scan(".", &f, e);
	if (rc != ERR_OK)
		return rc;
	if (f.nliving == 1) {
		*path = f.last_living;
		f.last_living = NULL;
	} else if (f.nliving > 1) {
		rc = err_set(e, ERR_USAGE, "several clusters run here: %s; choose one with -C DIR",
		             (char *)f.living.data);
	} else if (f.nfinished == 0) {
		rc = err_set(e, ERR_NOTFOUND, "no cluster here: no *.run directory in \".\"; "
		             "start one with ps-ctl start FILE");
	} else {
		rc = err_set(e, ERR_NOTREADY,
		             "no cluster is running here (finished: %s); start one "
		             "with ps-ctl start FILE",
		             (char *)f.finished.data);
		if (f.nfinished == 1) {
			*path = f.last_finished;
			f.last_finished = NULL;
		}
	}
	free(f.last_living);
	free(f.last_finished);
	buf_release(&f.living);
	buf_release(&f.finished);
	return rc;
}

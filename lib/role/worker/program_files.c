/* SPDX-License-Identifier: ISC */
#include "worker/program_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/file.h"
#include "core/mem.h"

#define MEMORY "/dev/shm"
#define BEGIN  "pskit-program-"
/* A directory without a lock file that is younger than this is still being made. */
#define BEING_MADE (60 * NSEC_PER_SEC)

static const char *temp_dir(void)
{
	const char *tmp = getenv("TMPDIR");

	return access(MEMORY, W_OK | X_OK) == 0 ? MEMORY : tmp && *tmp ? tmp : "/tmp";
}

/* Is `name` the directory of a process that has ended? Then no process holds its lock. */
static bool is_abandoned(int dirfd, const char *name)
{
	struct stat st;
	char *lock;
	bool left;
	int fd;

	if (strncmp(name, BEGIN, strlen(BEGIN)) != 0 ||
	    fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISDIR(st.st_mode) ||
	    st.st_uid != geteuid())
		return false;
	lock = mem_printf("%s/lock", name);
	fd = openat(dirfd, lock, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	free(lock);
	if (fd < 0)
		return clock_wall() - st.st_mtim.tv_sec * NSEC_PER_SEC > BEING_MADE;
	left = flock(fd, LOCK_EX | LOCK_NB) == 0;
	close(fd);
	return left;
}

/* Removes the directories of killed processes. */
static void remove_abandoned(const char *dir)
{
	DIR *d = opendir(dir);
	struct dirent *entry;

	while (d && (entry = readdir(d)) != NULL)
		if (is_abandoned(dirfd(d), entry->d_name)) {
			char *path = path_join(dir, entry->d_name);

			file_remove_tree(path, NULL);
			free(path);
		}
	if (d)
		closedir(d);
}

char *program_files_path(const struct program_files *f, size_t table, const char *suffix)
{
	return mem_printf("%s/%s.%s", f->dir, f->job->table[table].name, suffix);
}

/* Bytes of a table in its file; for a sparse table, of the rows of the batch (NULL: none). */
static size_t table_bytes(const struct program_files *f, const struct params_rows *rows,
    size_t table)
{
	const struct model_table *t = &f->job->table[table];

	return (!t->sparse ? t->rows : rows ? rows[table].n : 0) * t->cols * sizeof(float);
}

/* Creates one file of a table for the program; it must not exist. *fd is the caller's, also
 * after an error, and -1 when nothing was opened. e must not be NULL. ERR_IO. */
static enum err_code make_file(const struct program_files *f, size_t table, const char *suffix,
    int *fd, struct err *e)
{
	char *path = program_files_path(f, table, suffix);
	size_t bytes = table_bytes(f, NULL, table);

	*fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	/* Allocate all blocks now: on a full file system this fails here, and not by a signal
	 * later. */
	if (*fd < 0 || (bytes && (errno = posix_fallocate(*fd, 0, (off_t)bytes)) != 0))
		err_sys(e, ERR_IO, "cannot make %s of %zu bytes", path, bytes);
	else
		*e = (struct err){ 0 };
	free(path);
	return e->code;
}

/* Makes a file that is opened by name at each use, because the program may replace it. */
static enum err_code make_exchange_file(const struct program_files *f, size_t table,
    const char *suffix, struct err *e)
{
	int fd = -1;
	enum err_code rc = make_file(f, table, suffix, &fd, e);

	if (fd >= 0)
		close(fd);
	return rc;
}

/* Renames the lock file after it is locked, so that no other process finds it unlocked. */
static enum err_code lock_dir(struct program_files *f, struct err *e)
{
	char *fresh = path_join(f->dir, "lock.new"), *path = path_join(f->dir, "lock");
	enum err_code rc = ERR_OK;

	f->lock = open(fresh, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (f->lock < 0 || flock(f->lock, LOCK_EX | LOCK_NB) || rename(fresh, path))
		rc = err_sys(e, ERR_IO, "cannot lock %s", f->dir);
	free(fresh);
	free(path);
	return rc;
}

enum err_code program_files_open(const struct job *job, struct program_files *out, struct err *e)
{
	enum err_code rc;

	*out = (struct program_files){ .job = job, .lock = -1 };
	remove_abandoned(temp_dir());
	rc = file_make_unique_dir(mem_printf("%s/" BEGIN "XXXXXX", temp_dir()), &out->dir, e);
	if (rc)
		return rc;
	rc = lock_dir(out, e);
	out->param = mem_array(job->ntables, sizeof *out->param);
	for (size_t i = 0; i < job->ntables; i++)
		out->param[i] = -1;
	for (size_t i = 0; !rc && i < job->ntables; i++) {
		rc = make_file(out, i, "param", &out->param[i], e);
		if (!rc)
			rc = make_exchange_file(out, i, "grad", e);
		if (!rc && job->table[i].sparse)
			rc = make_exchange_file(out, i, "ids", e);
	}
	if (rc)
		program_files_close(out);
	return rc;
}

void program_files_close(struct program_files *f)
{
	for (size_t i = 0; f->param && i < f->job->ntables; i++)
		if (f->param[i] >= 0)
			close(f->param[i]);
	free(f->param);
	if (f->dir) {
		file_remove_tree(f->dir, NULL);
		if (f->lock >= 0)
			close(f->lock);
	}
	free(f->dir);
	*f = (struct program_files){ 0 };
}

json_t *program_files_json(const struct program_files *f)
{
	json_t *list = json_array();

	for (size_t i = 0; i < f->job->ntables; i++) {
		const struct model_table *t = &f->job->table[i];
		char *param = program_files_path(f, i, "param"),
		     *grad = program_files_path(f, i, "grad");

		json_t *o = json_pack("{s:s, s:I, s:s, s:s}", "name", t->name, "cols",
		    (json_int_t)t->cols, "param", param, "grad", grad);

		if (t->sparse) {
			char *ids = program_files_path(f, i, "ids");

			json_object_set_new(o, "sparse", json_true());
			json_object_set_new(o, "ids", json_string(ids));
			free(ids);
		} else {
			json_object_set_new(o, "rows", json_integer((json_int_t)t->rows));
		}
		json_array_append_new(list, o);
		free(param);
		free(grad);
	}
	return list;
}

/* Overwrites the open parameter file of a table from its start. Only the file of a sparse table
 * changes its size, because its number of rows differs from step to step. */
static enum err_code write_param_file(const struct program_files *f, const struct params_rows *rows,
    size_t table, const float *w, struct err *e)
{
	size_t bytes = table_bytes(f, rows, table);
	int fd = f->param[table];

	if (lseek(fd, 0, SEEK_SET) < 0 ||
	    (f->job->table[table].sparse && ftruncate(fd, (off_t)bytes)))
		return err_sys(e, ERR_IO, "cannot make it %zu bytes long", bytes);
	return file_write_all(fd, w, bytes, e);
}

enum err_code program_files_write_params(const struct program_files *f,
    const struct params_rows *rows, const float *const params[], struct err *e)
{
	for (size_t i = 0; i < f->job->ntables; i++)
		if (write_param_file(f, rows, i, params[i], e))
			return err_prefix(e, "%s/%s.param", f->dir, f->job->table[i].name);
	return ERR_OK;
}

/* Reads the gradient of one table into grad, which has room for table_bytes(f, rows, table). The
 * size is checked before anything is read, so a file that is too short or too long leaves grad as
 * it was. ERR_FORMAT. */
static enum err_code read_grad_file(const struct program_files *f, const struct params_rows *rows,
    size_t table, float *grad, struct err *e)
{
	char *path = program_files_path(f, table, "grad");
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	enum err_code rc = ERR_OK;
	struct stat st;

	/* Open by name: the program may have replaced the file. */
	if (fd < 0 || fstat(fd, &st))
		rc = err_sys(e, ERR_FORMAT, "cannot read the gradient in %s", path);
	else if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size != table_bytes(f, rows, table))
		rc = err_set(e, ERR_FORMAT,
		    "%s has %lld bytes, but the gradient of table \"%s\" has %zu bytes", path,
		    (long long)st.st_size, f->job->table[table].name, table_bytes(f, rows, table));
	else
		rc = file_read_all(fd, grad, table_bytes(f, rows, table), e);
	if (fd >= 0)
		close(fd);
	free(path);
	return rc;
}

enum err_code program_files_read_grads(const struct program_files *f,
    const struct params_rows *rows, float *const grads[], struct err *e)
{
	enum err_code rc = ERR_OK;

	for (size_t i = 0; !rc && i < f->job->ntables; i++)
		rc = read_grad_file(f, rows, i, grads[i], e);
	return rc;
}
